//! The queue of a desk: bounded, and taken from in batches of one event.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Condvar, Mutex, PoisonError},
};

use super::{Waiting, lock};

/// Most purchases in one transaction. Past it the sale gets no faster, and an answer would only wait longer.
const BATCH_ORDERS_MAX: usize = 256;
/// Most tickets in one transaction, over its purchases (one purchase may have more, and is then alone).
const BATCH_TICKETS_MAX: i64 = 1_024;
/// Most purchases that wait at one desk. Whoever comes then is told at once that it is busy, instead of after seconds.
pub(super) const QUEUE_MAX: usize = 4_096;

/// A bounded queue, taken from in batches. The purchases of one event come in the order of their arrival; the events take turns, so
/// that a rush for one does not keep the buyers of another waiting.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<QueueState>,
    arrived: Condvar,
}

#[derive(Default)]
struct QueueState {
    /// Who waits, by the slug of the event. No line is empty.
    lines: HashMap<String, VecDeque<Waiting>>,
    /// The events that have a line, the next one first.
    turns: VecDeque<String>,
    len: usize,
    closed: bool,
}

impl Queue {
    /// Adds one, or gives it back if the queue is full or closed.
    pub(super) fn push(&self, waiting: Waiting) -> Result<(), Waiting> {
        let mut state = lock(&self.state);
        if state.closed || state.len >= QUEUE_MAX {
            return Err(waiting);
        }
        state.push(waiting);
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// Waits until somebody is there; `false` if nobody will be, since it is closed and empty.
    pub(super) fn wait(&self) -> bool {
        let mut state = lock(&self.state);
        while state.len == 0 {
            if state.closed {
                return false;
            }
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// Takes what one event has there, up to a batch; `None` if nobody is there (any more).
    pub(super) fn take(&self) -> Option<Batch> {
        lock(&self.state).take()
    }

    pub(super) fn close(&self) {
        lock(&self.state).closed = true;
        self.arrived.notify_all();
    }

    /// Takes everybody out.
    pub(super) fn clear(&self) -> Vec<Waiting> {
        let mut state = lock(&self.state);
        state.len = 0;
        state.turns.clear();
        state.lines.drain().flat_map(|(_, line)| line).collect()
    }
}

/// Purchases of one event.
pub(super) struct Batch {
    pub(super) slug: String,
    pub(super) waiting: Vec<Waiting>,
}

impl QueueState {
    fn push(&mut self, waiting: Waiting) {
        self.len += 1;
        if let Some(line) = self.lines.get_mut(&waiting.slug) {
            line.push_back(waiting);
        } else {
            self.turns.push_back(waiting.slug.clone());
            self.lines.insert(waiting.slug.clone(), VecDeque::from([waiting]));
        }
    }

    fn take(&mut self) -> Option<Batch> {
        let slug = self.turns.pop_front()?;
        let mut line = self.lines.remove(&slug)?;
        let mut tickets = 0;
        let fits = |waiting: &&Waiting| {
            tickets += waiting.quantity();
            tickets <= BATCH_TICKETS_MAX
        };
        let count = line.iter().take(BATCH_ORDERS_MAX).take_while(fits).count().max(1).min(line.len());
        let waiting: Vec<Waiting> = line.drain(..count).collect();
        self.len -= waiting.len();
        if !line.is_empty() {
            self.turns.push_back(slug.clone());
            self.lines.insert(slug.clone(), line);
        }
        Some(Batch { slug, waiting })
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::{
        ids::OrderId,
        orders::{Caller, LineInput, PurchaseInput, Request, Taking, sale::Entry},
    };

    fn waiting(slug: &str, quantity: i64) -> Waiting {
        let input = PurchaseInput {
            buyer_name: Some("Ada".into()),
            buyer_email: Some("ada@example.org".into()),
            lines: vec![LineInput { ticket_type: Some("standard".into()), quantity: Some(quantity) }],
            accept_fewer: false,
        };
        let request = Request { purchase: input.parse().unwrap(), caller: Caller::Web, key: None, taking: Taking::Sell };
        Waiting { slug: slug.to_owned(), entry: Entry { id: OrderId::new(), request }, answer: oneshot::channel().0 }
    }

    /// The batches that a queue gives for these purchases, as (event, tickets of each purchase).
    fn batches(arrivals: &[(&str, i64)]) -> Vec<(String, Vec<i64>)> {
        let queue = Queue::default();
        for (slug, quantity) in arrivals {
            assert!(queue.push(waiting(slug, *quantity)).is_ok());
        }
        queue.close();
        std::iter::from_fn(|| queue.take()).map(|batch| (batch.slug, batch.waiting.iter().map(Waiting::quantity).collect())).collect()
    }

    #[test]
    fn a_batch_is_one_event_s_and_keeps_the_order_of_arrival() {
        let told = batches(&[("a", 1), ("b", 2), ("a", 3), ("b", 4), ("a", 5)]);
        assert_eq!(told, [("a".to_owned(), vec![1, 3, 5]), ("b".to_owned(), vec![2, 4])]);
    }

    #[test]
    fn a_rush_for_one_event_does_not_keep_another_waiting() {
        let rush = std::iter::repeat_n(("rush", 1), BATCH_ORDERS_MAX * 2);
        let told = batches(&rush.chain([("quiet", 1)]).collect::<Vec<_>>());
        let sizes: Vec<(&str, usize)> = told.iter().map(|(slug, batch)| (slug.as_str(), batch.len())).collect();
        assert_eq!(sizes, [("rush", BATCH_ORDERS_MAX), ("quiet", 1), ("rush", BATCH_ORDERS_MAX)]);
    }

    #[test]
    fn a_batch_has_a_bounded_number_of_tickets_and_at_least_one_purchase() {
        let told = batches(&[("a", 600), ("a", 424), ("a", 1), ("a", 5_000), ("a", 7)]);
        let sizes: Vec<Vec<i64>> = told.into_iter().map(|(_, batch)| batch).collect();
        assert_eq!(sizes, [vec![600, 424], vec![1], vec![5_000], vec![7]]);
    }

    #[test]
    fn a_full_queue_and_a_closed_one_give_the_purchase_back() {
        let queue = Queue::default();
        for _ in 0..QUEUE_MAX {
            assert!(queue.push(waiting("a", 1)).is_ok());
        }
        assert!(queue.push(waiting("a", 1)).is_err());
        assert_eq!(queue.take().map(|batch| batch.waiting.len()), Some(BATCH_ORDERS_MAX));
        assert!(queue.push(waiting("a", 1)).is_ok());
        queue.close();
        assert!(queue.push(waiting("a", 1)).is_err());
    }
}
