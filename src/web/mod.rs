//! HTTP: every URL, the pages, the JSON API. A handler parses, calls one operation, renders.

pub mod api;
mod auth;
mod body;
pub mod error;
mod health;
pub mod pages;
pub mod routes;

use std::{io, net::TcpListener, time::Duration};

use actix_web::{App as ActixApp, HttpServer, dev::Server, middleware::from_fn, web};
use futures_util::future::select_all;
use tokio::signal::unix::{SignalKind, signal};
use tracing_actix_web::TracingLogger;

use crate::{app::App, orders::Desk};

/// How long requests under way may take to end after SIGTERM. The database needs its part of the ten seconds that an operator waits.
const SHUTDOWN_SECS: u64 = 4;
/// How long a client may take to send its request's head.
const HEAD_WAIT: Duration = Duration::from_secs(10);
/// How long an idle connection is kept for the next request.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// Threads of each worker that wait for the database; more than connections would only queue twice.
const BLOCKING_THREADS_MAX: usize = 64;

/// A server on `listener`, not started yet: await it. At SIGTERM and SIGINT it closes the desks, and ends when all who wait there were
/// answered.
///
/// # Errors
/// If the listener cannot be used.
pub fn server(app: App, listener: TcpListener, threads: Option<u16>) -> io::Result<Server> {
    let desk = app.desk.clone();
    let app = web::Data::new(app);
    let mut server = HttpServer::new(move || {
        ActixApp::new()
            .app_data(web::Data::clone(&app))
            .configure(routes::configure)
            .wrap(from_fn(error::with_request_id))
            .wrap(TracingLogger::<error::RequestSpan>::new())
    })
    .shutdown_timeout(SHUTDOWN_SECS)
    .client_request_timeout(HEAD_WAIT)
    .keep_alive(KEEP_ALIVE)
    .worker_max_blocking_threads(BLOCKING_THREADS_MAX)
    .shutdown_signal(closed(desk));
    if let Some(threads) = threads {
        server = server.workers(threads.into());
    }
    Ok(server.listen(listener)?.run())
}

/// Waits for a signal to end, and then for the desks.
async fn closed(desk: Desk) {
    told_to_end().await;
    // It fails only if closing panics, and the server is to end all the same.
    let _ = tokio::task::spawn_blocking(move || desk.close()).await;
}

/// Waits for SIGTERM or SIGINT.
pub async fn told_to_end() {
    let signals = [SignalKind::terminate(), SignalKind::interrupt()].map(|kind| async move {
        match signal(kind) {
            Ok(mut signal) => signal.recv().await.map_or((), |()| ()),
            // Without a handler the signal ends the process by itself.
            Err(error) => {
                tracing::error!(%error, "a signal cannot be waited for");
                std::future::pending().await
            }
        }
    });
    select_all(signals.map(Box::pin)).await;
}
