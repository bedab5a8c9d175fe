//! Orders: the sale, and reading what was sold.

mod audit;
mod desk;
mod queries;
pub mod rules;
mod sale;
pub mod statements;

use std::{collections::HashMap, fmt, str::FromStr, sync::Arc};

use chrono::{DateTime, Utc};
use diesel::PgConnection;
use serde::{Deserialize, Serialize};

use crate::{
    db::{DbCause, DbError},
    events::{self, EventError, Programme},
    ids::{EventId, OrderId, PartnerId, TicketTypeId, same_secret},
    input::FieldErrors,
    inventory::{self, Ticket},
    money::Currency,
};
pub use audit::{AuditReport, Breach, audit};
pub use desk::Desk;
pub use rules::{LineInput, Purchase, PurchaseInput};
pub use sale::{Outcome, SaleLimits};

/// Most orders on one page of a list.
pub const ORDERS_PAGE_MAX: usize = 100;

/// Where an order stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderStatus {
    /// Its tickets are kept for the buyer until a deadline.
    Held,
    /// Its tickets are the buyer's.
    Sold,
    /// Given back.
    Cancelled,
    /// The deadline passed.
    Expired,
}

impl OrderStatus {
    const ALL: [Self; 4] = [Self::Held, Self::Sold, Self::Cancelled, Self::Expired];

    /// The name in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Sold => "sold",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// The name in the database.
    fn column(self) -> &'static str {
        match self {
            Self::Held => "HELD",
            Self::Sold => "SOLD",
            Self::Cancelled => "CANCELLED",
            Self::Expired => "EXPIRED",
        }
    }
}

impl FromStr for OrderStatus {
    type Err = ();
    fn from_str(column: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|status| status.column() == column).ok_or(())
    }
}

/// Who buys; Idempotency-Keys are theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Caller {
    /// A person, on the event's page.
    Web,
    /// A partner, through the API.
    Partner(PartnerId),
}

impl fmt::Display for Caller {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Web => out.write_str("web"),
            Self::Partner(id) => id.fmt(out),
        }
    }
}

/// An Idempotency-Key and the hash of the request that it came with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The key, as the caller made it.
    pub key: String,
    /// SHA-256 of the request.
    pub request_hash: Vec<u8>,
}

/// A purchase on its way to the sale.
#[derive(Clone, Debug)]
pub struct Request {
    /// What is asked for.
    pub purchase: Purchase,
    /// By whom.
    pub caller: Caller,
    /// Under which key.
    pub key: Option<IdempotencyKey>,
}

/// One line of an order, as agreed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderLine {
    /// Code of the ticket type.
    pub ticket_type: String,
    /// Name of the ticket type at the time.
    pub name: String,
    /// How many.
    pub quantity: i64,
    /// Price of one at the time, in minor units.
    pub unit_price_minor: i64,
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Its id.
    pub id: OrderId,
    /// Where it stands.
    pub status: OrderStatus,
    /// Name of the buyer.
    pub buyer_name: String,
    /// The buyer's e-mail address.
    pub buyer_email: String,
    /// What was agreed.
    pub lines: Vec<OrderLine>,
    /// The tickets that it got.
    pub positions: Vec<i32>,
    /// How many tickets.
    pub quantity: i32,
    /// How many were asked for; more than `quantity` only if fewer were accepted.
    pub requested_quantity: i32,
    /// Sum of the lines, in minor units.
    pub total_minor: i64,
    /// Currency of every amount.
    pub currency: Currency,
    /// Who bought.
    pub caller: Caller,
    /// The unguessable part of the buyer's link.
    pub access_key: String,
    /// Deadline of a hold.
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// Codes of an event's ticket types, shared by all that is shown of it at once.
pub type TypeCodes = HashMap<TicketTypeId, String>;

/// An order with its tickets: what a buyer is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The order.
    pub order: Order,
    /// Its tickets, by position.
    pub tickets: Vec<Ticket>,
    /// Codes of the ticket types, for showing the tickets.
    pub type_codes: Arc<TypeCodes>,
}

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
    },
    /// The sale is over.
    #[error("the sale is closed")]
    SalesClosed {
        /// The event will not take place.
        cancelled: bool,
    },
    /// More than the event allows.
    #[error("{requested} tickets were asked for, and {limit} are the most")]
    LimitExceeded {
        /// Most tickets in one order.
        limit: i64,
        /// How many were asked for, over all lines.
        requested: i64,
    },
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
            EventError::Invalid(errors) => Self::Invalid(errors),
            EventError::Db(error) => Self::Db(error),
        }
    }
}

/// Whose orders may be read.
#[derive(Clone, Debug)]
pub enum Reader {
    /// Everybody's.
    Admin,
    /// A partner's own.
    Partner(PartnerId),
    /// The one that this link key belongs to.
    Link(String),
}

/// One order with its event.
///
/// # Errors
/// [`OrderError::EventNotFound`]; [`OrderError::NotFound`], also if it is not `reader`'s to read.
pub fn find(conn: &mut PgConnection, slug: &str, id: OrderId, reader: &Reader) -> Result<(Programme, Placed), OrderError> {
    let programme = events::programme(conn, slug)?;
    let order = queries::order(conn, programme.event.id, id)?.filter(|order| may_read(reader, order)).ok_or(OrderError::NotFound)?;
    let tickets = inventory::tickets_of(conn, programme.event.id, order.id, &order.positions)?;
    let type_codes = type_codes(&programme);
    Ok((programme, Placed { order, tickets, type_codes }))
}

fn may_read(reader: &Reader, order: &Order) -> bool {
    match reader {
        Reader::Admin => true,
        Reader::Partner(id) => order.caller == Caller::Partner(*id),
        Reader::Link(key) => same_secret(key, &order.access_key),
    }
}

/// One page of an event's orders, newest first.
#[derive(Clone, Debug)]
pub struct OrdersPage {
    /// The event.
    pub programme: Programme,
    /// The orders with their tickets.
    pub orders: Vec<Placed>,
    /// The last id of this page, if there are more behind it.
    pub next: Option<OrderId>,
}

/// A page of at most `limit` orders (never more than [`ORDERS_PAGE_MAX`]) older than `before`.
///
/// Ids grow with time and are unique, so orders made at the same moment are neither skipped nor shown twice.
///
/// # Errors
/// [`OrderError::EventNotFound`].
pub fn list(
    conn: &mut PgConnection,
    slug: &str,
    partner: Option<PartnerId>,
    limit: usize,
    before: Option<OrderId>,
) -> Result<OrdersPage, OrderError> {
    let programme = events::programme(conn, slug)?;
    let event = programme.event.id;
    let limit = limit.clamp(1, ORDERS_PAGE_MAX);
    let mut orders = queries::orders(conn, event, partner, limit + 1, before)?;
    let more = orders.len() > limit;
    orders.truncate(limit);
    let next = orders.last().filter(|_| more).map(|order| order.id);
    let positions: Vec<i32> = orders.iter().flat_map(|order| order.positions.iter().copied()).collect();
    let mut tickets = inventory::tickets_at(conn, event, &positions)?;
    let type_codes = type_codes(&programme);
    let placed =
        |order: Order| Placed { tickets: tickets.remove(&order.id).unwrap_or_default(), type_codes: Arc::clone(&type_codes), order };
    let orders = orders.into_iter().map(placed).collect();
    Ok(OrdersPage { programme, orders, next })
}

/// What an event has sold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Takings {
    /// Orders that stand.
    pub orders: i64,
    /// Their tickets.
    pub tickets: i64,
    /// The sum of their totals, in minor units.
    pub total_minor: i64,
}

/// What each of these events has sold; one without a sale is absent. Reads every order of the events.
///
/// # Errors
/// The database's.
pub fn takings(conn: &mut PgConnection, events: &[EventId]) -> Result<HashMap<EventId, Takings>, DbError> {
    queries::takings(conn, events)
}

fn type_codes(programme: &Programme) -> Arc<TypeCodes> {
    Arc::new(programme.ticket_types.iter().map(|ticket_type| (ticket_type.id, ticket_type.code.clone())).collect())
}
