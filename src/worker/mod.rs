//! What is done without anybody asking: the periodic tasks of a server.

mod sweep;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

pub use sweep::Sweeper;

/// How soon a task notices that the server ends.
const END_POLL: Duration = Duration::from_millis(100);

/// Does `task` again and again, with a pause of `every`, until `ended`.
pub fn run_every(every: Duration, ended: &AtomicBool, mut task: impl FnMut()) {
    let mut next = Instant::now() + every;
    while !ended.load(Ordering::Relaxed) {
        if Instant::now() >= next {
            task();
            next = Instant::now() + every;
        }
        thread::sleep(END_POLL.min(every));
    }
}
