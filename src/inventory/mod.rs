//! The tickets: loading, claiming and counting them. The only writer of the table `tickets`.

pub mod claim;
pub mod file;
mod load;
mod queries;
pub mod statements;
pub mod states;

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use chrono::{DateTime, Utc};
use diesel::PgConnection;

use crate::{
    db::{DbCause, DbError},
    events::EventError,
    ids::{EventId, OrderId, TicketTypeId},
    input::FieldErrors,
};
pub use load::{Load, LoadReport, LoadedBy, Stock, TypeReport, load, report_of};
pub use states::{TICKET_TRANSITIONS, TicketChange, TicketStatus};

/// Most tickets that one load may bring.
pub const LOAD_TICKETS_MAX: i64 = 1_000_000;
/// Longest time for one load; a million tickets take about ten seconds.
pub const LOAD_TIME_MAX: Duration = Duration::from_secs(120);
/// Most tickets that an event may have: positions stay far inside 32 bits.
pub const EVENT_TICKETS_MAX: i64 = 100_000_000;

/// Where a ticket lets its holder sit or stand; all absent for free seating.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// Part of the house: stalls, balcony, block 12.
    pub section: Option<String>,
    /// Row in the section.
    pub row: Option<String>,
    /// Seat in the row.
    pub seat: Option<String>,
}

/// One ticket of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Its primary key within the event.
    pub position: i32,
    /// Its type.
    pub ticket_type: TicketTypeId,
    /// Where it is.
    pub place: Place,
    /// What the door checks; a ticket that is held has none yet.
    pub code: Option<String>,
    /// When its holder came through the door.
    pub used_at: Option<DateTime<Utc>>,
}

/// How many of one ticket type are left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// On sale now; expired holds among them.
    pub available: i64,
    /// Held by somebody who may give them back.
    pub held: i64,
}

/// How many of one ticket type there are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// On sale.
    pub available: i64,
    /// Held, with a deadline.
    pub held: i64,
    /// Sold.
    pub sold: i64,
    /// Kept out of the sale.
    pub blocked: i64,
}

impl Counts {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> i64 {
        self.available + self.held + self.sold + self.blocked
    }
}

/// Why a load was refused.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    /// The event, or the input as a whole.
    #[error(transparent)]
    Event(#[from] EventError),
    /// Rows of the file are wrong; nothing was loaded.
    #[error("{} rows of the file are wrong", .0.total)]
    Rows(file::RowErrors),
    /// The same Idempotency-Key came with another request before.
    #[error("this Idempotency-Key was used for another request")]
    KeyReused,
    /// The database failed.
    #[error(transparent)]
    Db(#[from] DbError),
}

impl InventoryError {
    fn invalid(field: &str, message: impl Into<String>) -> Self {
        Self::Event(EventError::Invalid(FieldErrors::one(field, message)))
    }
}

impl DbCause for InventoryError {
    fn db_cause(&self) -> Option<&DbError> {
        match self {
            Self::Db(error) | Self::Event(EventError::Db(error)) => Some(error),
            _ => None,
        }
    }
}

/// What is left of each ticket type of an event at `now`; a type without tickets is absent.
///
/// # Errors
/// The database's.
pub fn left(conn: &mut PgConnection, event: EventId, now: DateTime<Utc>) -> Result<HashMap<TicketTypeId, Left>, DbError> {
    queries::left(conn, event, now)
}

/// Which of these events have a ticket on sale at `now`. Stops at the first ticket of each.
///
/// # Errors
/// The database's.
pub fn on_shelf(conn: &mut PgConnection, events: &[EventId], now: DateTime<Utc>) -> Result<HashSet<EventId>, DbError> {
    queries::on_shelf(conn, events, now)
}

/// How many tickets were loaded into each of these events, by the type's code. Reads the loads' reports, so that it costs the same
/// for ten tickets as for a million.
///
/// # Errors
/// The database's.
pub fn loaded(conn: &mut PgConnection, events: &[EventId]) -> Result<HashMap<EventId, HashMap<String, i64>>, DbError> {
    queries::loaded(conn, events)
}

/// How many tickets of each type are in which state at `now`; a type without tickets is absent. Reads every ticket of the event.
///
/// # Errors
/// The database's.
pub fn counts(conn: &mut PgConnection, event: EventId, now: DateTime<Utc>) -> Result<HashMap<TicketTypeId, Counts>, DbError> {
    queries::counts(conn, event, now)
}

/// The tickets at `positions` that belong to `order` now, by position.
///
/// # Errors
/// The database's.
pub fn tickets_of(conn: &mut PgConnection, event: EventId, order: OrderId, positions: &[i32]) -> Result<Vec<Ticket>, DbError> {
    let mut tickets = queries::tickets_at(conn, event, positions)?;
    Ok(tickets.remove(&order).unwrap_or_default())
}

/// The same for many orders in one query.
///
/// # Errors
/// The database's.
pub fn tickets_at(conn: &mut PgConnection, event: EventId, positions: &[i32]) -> Result<HashMap<OrderId, Vec<Ticket>>, DbError> {
    queries::tickets_at(conn, event, positions)
}

/// How many of the tickets at `positions` each order holds; one that holds none is absent.
///
/// # Errors
/// The database's.
pub fn held_of(conn: &mut PgConnection, event: EventId, positions: &[i32]) -> Result<HashMap<OrderId, usize>, DbError> {
    queries::held_of(conn, event, positions)
}

/// The taken ticket at `position` with its order, locked until the transaction at hand ends.
///
/// # Errors
/// The database's.
pub fn ticket_for_update(conn: &mut PgConnection, event: EventId, position: i32) -> Result<Option<(OrderId, Ticket)>, DbError> {
    queries::ticket_for_update(conn, event, position)
}

/// Notes that the holder of a ticket, which the caller has locked, came through the door at `now`.
///
/// # Errors
/// The database's.
pub fn mark_used(conn: &mut PgConnection, event: EventId, position: i32, now: DateTime<Utc>) -> Result<(), DbError> {
    queries::mark_used(conn, event, position, now)
}

/// Which of these events have a ticket that is on sale or held. Stops at the first ticket of each.
///
/// # Errors
/// The database's.
pub fn left_or_held(conn: &mut PgConnection, events: &[EventId]) -> Result<HashSet<EventId>, DbError> {
    // Holds of any deadline count, so that it is asked as if all were over.
    queries::on_shelf(conn, events, DateTime::<Utc>::MAX_UTC)
}

/// How often tickets of an event were loaded.
///
/// # Errors
/// The database's.
pub fn loads(conn: &mut PgConnection, event: EventId) -> Result<i64, DbError> {
    queries::loads(conn, event)
}
