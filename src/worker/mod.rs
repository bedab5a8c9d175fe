//! What is done without anybody asking: jobs of the queue, one file a kind, and the periodic tasks of a server.

pub mod confirmation;
mod handler;
mod order_changes;
mod runner;
mod sweep;
mod webhook;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::config::WebConfig;
pub use handler::{Handler, Trouble};
pub use runner::{LEASE_SECS, Runner};
pub use sweep::Sweeper;

/// Every kind of job that this version works.
#[must_use]
pub fn handlers(config: &WebConfig) -> Vec<Box<dyn Handler>> {
    vec![
        Box::new(order_changes::FollowUp),
        Box::new(confirmation::Confirmation::by(&config.mail.transport)),
        Box::new(webhook::Webhook::new(config.webhook_reach)),
    ]
}

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
