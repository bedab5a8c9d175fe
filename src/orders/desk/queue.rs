//! The queue of a desk: bounded, and taken from in batches.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, PoisonError},
};

use super::{Waiting, lock};

/// Most purchases in one transaction. Past it the sale gets no faster, and an answer would only wait longer.
const BATCH_ORDERS_MAX: usize = 128;
/// Most tickets in one transaction, over its purchases (one purchase may have more, and is then alone).
const BATCH_TICKETS_MAX: i64 = 1_024;
/// Most purchases that wait at one desk. Whoever comes then is told at once that it is busy, instead of after seconds.
pub(super) const QUEUE_MAX: usize = 4_096;

/// A bounded queue, taken from in batches.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<QueueState>,
    arrived: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Waiting>,
    closed: bool,
}

impl Queue {
    /// Adds one, or gives it back if the queue is full or closed.
    pub(super) fn push(&self, waiting: Waiting) -> Result<(), Waiting> {
        let mut state = lock(&self.state);
        if state.closed || state.waiting.len() >= QUEUE_MAX {
            return Err(waiting);
        }
        state.waiting.push_back(waiting);
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// Takes what is there, up to a batch; waits if nothing is. `None` once it is closed and empty.
    pub(super) fn take(&self) -> Option<Vec<Waiting>> {
        let mut state = lock(&self.state);
        while state.waiting.is_empty() {
            if state.closed {
                return None;
            }
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let mut tickets = 0;
        let fits = |waiting: &&Waiting| {
            tickets += waiting.quantity();
            tickets <= BATCH_TICKETS_MAX
        };
        let count = state.waiting.iter().take(BATCH_ORDERS_MAX).take_while(fits).count().max(1);
        Some(state.waiting.drain(..count).collect())
    }

    pub(super) fn close(&self) {
        lock(&self.state).closed = true;
        self.arrived.notify_all();
    }
}
