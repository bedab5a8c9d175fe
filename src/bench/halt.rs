//! Ending early, and in good order.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use futures_util::future::select_all;
use tokio::{
    runtime::{Builder, Runtime},
    signal::unix::{Signal, SignalKind, signal},
};

/// Somebody ended it.
#[derive(Debug, thiserror::Error)]
#[error("interrupted, so there is no comparison")]
pub struct Interrupted;

/// Whether to stop: somebody asked for it, or a client failed and the others need not go on.
pub(super) struct Halt {
    interrupted: Arc<AtomicBool>,
    failed: AtomicBool,
}

impl Halt {
    /// One that Ctrl-C, a closed terminal and SIGTERM set, from now on until the process ends.
    pub(super) fn on_signals() -> io::Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let signals = {
            let _runtime = runtime.enter();
            [signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?, signal(SignalKind::terminate())?]
        };
        let flag = Arc::clone(&interrupted);
        thread::Builder::new().name("signals".to_owned()).spawn(move || watch(&runtime, signals, &flag))?;
        Ok(Self { interrupted, failed: AtomicBool::new(false) })
    }

    /// A client failed.
    pub(super) fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Whether to stop.
    pub(super) fn is_set(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed)
    }

    /// Fails if somebody asked for the end.
    pub(super) fn refuse(&self) -> Result<(), Interrupted> {
        if self.interrupted.load(Ordering::Relaxed) { Err(Interrupted) } else { Ok(()) }
    }
}

/// Waits for the first signal; there is nothing more to do for a second one.
fn watch(runtime: &Runtime, mut signals: [Signal; 3], flag: &AtomicBool) {
    runtime.block_on(async {
        select_all(signals.iter_mut().map(|signal| Box::pin(signal.recv()))).await;
    });
    flag.store(true, Ordering::Relaxed);
    let _ = writeln!(io::stderr(), "\nStopping: the scratch database is dropped first.");
}
