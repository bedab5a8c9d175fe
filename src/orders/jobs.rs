//! The follow-ups of orders: what is enqueued in the transaction that changes them, and what the consumer is told.
//!
//! A sale writes one job for its whole batch. The consumer of that job makes what follows for each order, so that the sale does not wait for it.
//! A change is named by its number in the order's life: 0 is its making, the others are those of its history. Whoever follows up a change sees
//! to those before it first, so that nothing hangs on the order in which the jobs of several batches are worked.

use chrono::{DateTime, Utc};
use diesel::PgConnection;
use serde::{Deserialize, Serialize};

use crate::{
    db::DbError,
    ids::{EventId, OrderId},
    queue::{self, Group, NewJob},
};

/// Kind and lane of the jobs that follow up changes of orders.
pub const ORDER_CHANGES: &str = "order_changes";

/// Number of the change that made an order.
pub const MAKING: i32 = 0;

/// What such a job is told: changes that were made together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderChanges {
    /// The changes.
    pub changes: Vec<OrderChanged>,
}

/// One change of one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderChanged {
    /// The order.
    pub order: OrderId,
    /// Place in its life; [`MAKING`] is its beginning.
    pub number: i32,
}

/// Enqueues what follows these changes.
pub(super) fn follow_up(conn: &mut PgConnection, event: EventId, now: DateTime<Utc>, changes: Vec<OrderChanged>) -> Result<(), DbError> {
    if changes.is_empty() {
        return Ok(());
    }
    let payload = serde_json::to_value(OrderChanges { changes }).map_err(DbError::unreadable)?;
    let job = NewJob { event, lane: ORDER_CHANGES.to_owned(), kind: ORDER_CHANGES, group: Group::Alone, unique_key: None, payload };
    queue::enqueue(conn, now, &[job])?;
    Ok(())
}
