//! Why there is no order, or no change of one.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::{
    db::{DbCause, DbError},
    events::EventError,
    input::FieldErrors,
};

/// One ticket type that is not there as often as asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shortage {
    /// Code of the type.
    pub ticket_type: String,
    /// How many were asked for.
    pub requested: i64,
    /// How many are left; exact when it is said.
    pub available: i64,
    /// How many others hold, and may give back.
    pub held: i64,
}

/// Why there is no order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
    /// Nothing is left, and nobody may give anything back.
    SoldOut,
    /// Some are left, and not enough.
    TooFewLeft,
    /// Nothing is left, and some may come back.
    AllHeld,
}

/// Why an operation on orders was refused.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OrderError {
    /// There is no such event.
    #[error("there is no event {0:?}")]
    EventNotFound(String),
    /// There is no such order, or it is not the caller's.
    #[error("there is no such order")]
    NotFound,
    /// The input is wrong.
    #[error("{0}")]
    Invalid(FieldErrors),
    /// The sale has not begun, or is paused.
    #[error("the sale is not open")]
    SalesNotOpen {
        /// When it opens, if that is known.
        opens_at: Option<DateTime<Utc>>,
        /// It was open, and may go on.
        paused: bool,
        /// Code of the type whose own window it is; none if it is the event's.
        ticket_type: Option<String>,
    },
    /// The sale is over.
    #[error("the sale is closed")]
    SalesClosed {
        /// The event will not take place.
        cancelled: bool,
        /// Code of the type whose own window it is; none if it is the event's.
        ticket_type: Option<String>,
    },
    /// More than the event allows.
    #[error("{requested} tickets were asked for, and {limit} are the most")]
    LimitExceeded {
        /// Most tickets in one order.
        limit: i64,
        /// How many were asked for, over all lines.
        requested: i64,
    },
    /// More than the event allows one buyer, over all orders.
    #[error("the buyer has {has} tickets, {limit} are the most, and {requested} more were asked for")]
    BuyerLimitExceeded {
        /// Most tickets of one buyer.
        limit: i64,
        /// How many the buyer has, held and bought.
        has: i64,
        /// How many were asked for.
        requested: i64,
    },
    /// The hold ran out, and too few tickets are left for it.
    #[error("the hold ran out, and its tickets are gone")]
    HoldExpired,
    /// The order was cancelled.
    #[error("the order was cancelled")]
    Cancelled,
    /// The event will not take place, so nobody is let in.
    #[error("the event is cancelled")]
    EventCancelled,
    /// The event has begun, so nothing is taken back.
    #[error("the event has begun")]
    EventBegun,
    /// The event does not let buyers give tickets back, or no longer.
    #[error("buyers may not give tickets back")]
    CancelNotAllowed {
        /// Until when they might.
        until: Option<DateTime<Utc>>,
    },
    /// A ticket was used at the door.
    #[error("ticket {position} was used at {at}")]
    TicketUsed {
        /// Which.
        position: i32,
        /// When.
        at: DateTime<Utc>,
    },
    /// No ticket that is sold has this code.
    #[error("there is no such ticket")]
    TicketNotFound,
    /// Fewer are left than asked for. Never empty: every type that is short.
    #[error("fewer tickets are left than asked for")]
    Short(Short, Vec<Shortage>),
    /// The same key came with another request before.
    #[error("this Idempotency-Key was used for another request")]
    KeyReused,
    /// The same key is being worked on at this moment, for longer than was waited.
    #[error("a request with this Idempotency-Key is under way")]
    KeyInProgress,
    /// The database failed.
    #[error(transparent)]
    Db(#[from] DbError),
}

impl DbCause for OrderError {
    fn db_cause(&self) -> Option<&DbError> {
        match self {
            Self::Db(error) => Some(error),
            _ => None,
        }
    }
}

impl From<EventError> for OrderError {
    fn from(error: EventError) -> Self {
        match error {
            EventError::NotFound(slug) => Self::EventNotFound(slug),
            EventError::TypeNotFound(code) => {
                Self::Invalid(FieldErrors::one("ticket_type", format!("{code:?} is not a ticket type of this event")))
            }
            EventError::Invalid(errors) => Self::Invalid(errors),
            EventError::Db(error) => Self::Db(error),
        }
    }
}
