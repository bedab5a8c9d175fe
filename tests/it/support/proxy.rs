//! A network between the server and PostgreSQL that breaks when the test says so.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
    thread,
};

use super::cluster::Database;

/// Where the connection that sends the next COMMIT breaks.
#[derive(Clone, Copy)]
pub enum Cut {
    /// The COMMIT never arrives.
    BeforeCommit = 1,
    /// It is carried out, and its answer never arrives.
    AfterCommit = 2,
}

/// Forwards TCP connections to the cluster's socket.
pub struct Proxy {
    port: u16,
    armed: Arc<AtomicU8>,
    cuts: Arc<AtomicUsize>,
}

impl Proxy {
    /// A network to the cluster of `database`.
    pub fn to(database: &Database) -> Self {
        let socket = database.socket();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (armed, cuts) = (Arc::new(AtomicU8::new(0)), Arc::new(AtomicUsize::new(0)));
        let shared = (Arc::clone(&armed), Arc::clone(&cuts));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (armed, cuts) = (Arc::clone(&shared.0), Arc::clone(&shared.1));
                let server = UnixStream::connect(&socket).unwrap();
                thread::spawn(move || forward(&client, &server, &armed, &cuts));
            }
        });
        Self { port, armed, cuts }
    }

    /// The way to `database` through it.
    pub fn url(&self, database: &Database) -> String {
        format!("{} host=127.0.0.1 port={}", database.url(), self.port)
    }

    /// Breaks the connection that sends the next COMMIT.
    pub fn cut_next(&self, cut: Cut) {
        self.armed.store(cut as u8, Ordering::SeqCst);
    }

    /// How many connections were broken.
    pub fn cuts(&self) -> usize {
        self.cuts.load(Ordering::SeqCst)
    }
}

fn forward(client: &TcpStream, server: &UnixStream, armed: &AtomicU8, cuts: &AtomicUsize) {
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut from, mut to) = (server, client);
            let _ = std::io::copy(&mut from, &mut to);
            let _ = client.shutdown(Shutdown::Both);
        });
        let (mut from, mut to, mut buffer) = (client, server, [0; 65_536]);
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let is_commit = buffer[..length].windows(6).any(|window| window == b"COMMIT");
            let cut = if is_commit { armed.swap(0, Ordering::SeqCst) } else { 0 };
            if cut != 0 {
                cuts.fetch_add(1, Ordering::SeqCst);
                let _ = client.shutdown(Shutdown::Both);
            }
            if cut == Cut::BeforeCommit as u8 || to.write_all(&buffer[..length]).is_err() || cut != 0 {
                break;
            }
        }
        let _ = server.shutdown(Shutdown::Write);
    });
}
