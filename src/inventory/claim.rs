//! The claim: taking n tickets off the shelf inside the sale's transaction.
//!
//! A claim *locks* rows and returns them; [`take`] then marks those that were dealt out. What was locked and not dealt is free again
//! at the end of the transaction. Locks are taken by (type, position), as the lock order of [`crate::db`] says.
//!
//! Why each line of the SQL is as it is stands in `queries.rs`, beside it.

use diesel::PgConnection;

use super::{Ticket, queries};
use crate::{
    db::DbError,
    ids::{EventId, OrderId, TicketTypeId},
};

/// What a claim does about rows that another transaction has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Leaves them out: nobody waits for anybody. A short result does not mean that too few are left.
    Skip,
    /// Waits for them, at most the transaction's `lock_timeout` for each: a short result is the truth.
    Wait,
}

/// Locks up to `quantity` available tickets of a type, lowest positions first.
///
/// # Errors
/// [`DbError::Busy`] if a row could not be waited for in time.
pub fn claim(
    conn: &mut PgConnection,
    event: EventId,
    ticket_type: TicketTypeId,
    quantity: i64,
    pass: Pass,
) -> Result<Vec<Ticket>, DbError> {
    match pass {
        Pass::Skip => queries::claim_skipping(conn, event, ticket_type, quantity),
        Pass::Wait => queries::claim_waiting(conn, event, ticket_type, quantity),
    }
}

/// A locked ticket and who gets it.
#[derive(Clone, Debug)]
pub struct Sold {
    /// The ticket's position.
    pub position: i32,
    /// The order that gets it.
    pub order: OrderId,
    /// What the door will check.
    pub code: String,
}

/// Marks claimed tickets SOLD.
///
/// # Errors
/// [`DbError::Other`] if fewer rows were there to mark than were claimed, which a lock held since the claim rules out; the caller's
/// transaction then rolls back.
pub fn take(conn: &mut PgConnection, event: EventId, sold: &[Sold]) -> Result<(), DbError> {
    let marked = queries::mark_sold(conn, event, sold)?;
    if marked == sold.len() {
        return Ok(());
    }
    Err(DbError::unreadable(format!("claimed {} tickets and could mark {marked}", sold.len())))
}
