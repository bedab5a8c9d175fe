//! Tells the consumers of this process that there is something to do, so that they need not find it by polling. A hint: whoever misses it
//! finds the job by the next poll, as consumers in other processes do.

use std::{
    collections::HashSet,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The lanes that somebody has written into. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Wake(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    lanes: Mutex<HashSet<String>>,
    woken: Condvar,
}

impl Wake {
    /// Says that a lane has something to do.
    pub fn wake(&self, lane: &str) {
        let mut lanes = self.lanes();
        if !lanes.contains(lane) {
            lanes.insert(lane.to_owned());
        }
        drop(lanes);
        self.0.woken.notify_all();
    }

    /// Lets everybody who waits look around, though nothing is to be done.
    pub fn nudge(&self) {
        self.0.woken.notify_all();
    }

    /// The lanes that were named since the last time; waits for one, at most so long.
    pub fn wait(&self, longest: Duration) -> HashSet<String> {
        let mut lanes = self.lanes();
        if lanes.is_empty() {
            lanes = self.0.woken.wait_timeout(lanes, longest).unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::take(&mut lanes)
    }

    fn lanes(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
