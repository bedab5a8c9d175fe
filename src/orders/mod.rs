//! Orders: the sale, what becomes of an order afterwards, and reading what was sold.
//!
//! One lock order everywhere: the event, orders by id, buyers by key, tickets by (type, position), Idempotency-Keys.

mod audit;
mod desk;
mod expiry;
mod history;
pub mod jobs;
mod life;
mod limits;
mod queries;
pub mod rules;
mod sale;
pub mod shown;
pub mod statements;
pub mod states;
mod story;

use std::{collections::HashMap, fmt, sync::Arc};

use chrono::{DateTime, TimeDelta, Utc};
use diesel::PgConnection;
use serde::{Deserialize, Serialize};

use crate::{
    db::{DbCause, DbError},
    events::{self, Checkout, Event, EventError, Programme},
    ids::{EventId, OrderId, PartnerId, TicketTypeId, same_secret},
    input::FieldErrors,
    inventory::{self, Ticket},
    money::Currency,
};
pub use audit::{AuditReport, Breach, audit};
pub use desk::Desk;
pub use expiry::{Swept, expire_everywhere};
pub use history::{Actor, HistoryEntry, What};
pub use life::{Changed, Which, use_ticket};
pub use limits::change_event;
pub use rules::{HoldLimits, LineInput, Purchase, PurchaseInput};
pub use sale::{Outcome, SaleLimits};
pub use states::{OrderChange, OrderStatus};
pub use story::{Story, sold_out_time, stories};

/// Most orders on one page of a list.
pub const ORDERS_PAGE_MAX: usize = 100;

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
    /// Whether the tickets are sold, or kept for a while.
    pub taking: Taking,
}

/// What a request does with the tickets that it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// They are sold at once.
    Sell,
    /// They are kept for so long, for the buyer to confirm.
    Hold(TimeDelta),
    /// What the event's page does; kept for so long, if it is that.
    AsPage(TimeDelta),
}

impl Taking {
    /// For how long tickets of `event` are kept, if they are not sold at once.
    fn hold(self, event: &Event) -> Option<TimeDelta> {
        match self {
            Self::Hold(time) => Some(time),
            Self::AsPage(time) => (event.checkout == Checkout::Hold).then_some(time),
            Self::Sell => None,
        }
    }
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
    /// How many single tickets of it were given back; they count in neither `quantity` nor `total_minor`.
    pub cancelled_quantity: i32,
    /// Deadline of the hold that it is, or was; none if it was bought at once.
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

impl Order {
    /// Where it stands at `now`: a hold is over at its deadline, whether or not its tickets have been put back yet.
    #[must_use]
    pub fn status_at(&self, now: DateTime<Utc>) -> OrderStatus {
        let is_over = self.status == OrderStatus::Held && self.expires_at.is_some_and(|deadline| deadline <= now);
        if is_over { OrderStatus::Expired } else { self.status }
    }
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

/// Somebody who changes an order: what is theirs to touch, and what the history calls them.
#[derive(Clone, Debug)]
pub struct Party {
    /// Whose orders they may touch.
    pub reader: Reader,
    /// Who they are.
    pub actor: Actor,
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

/// One order with its event, for the program itself.
///
/// # Errors
/// [`OrderError::EventNotFound`], [`OrderError::NotFound`].
pub fn find_by_id(conn: &mut PgConnection, event: EventId, id: OrderId) -> Result<(Programme, Placed), OrderError> {
    let programme = events::programme_by_id(conn, event)?;
    let order = queries::order(conn, event, id)?.ok_or(OrderError::NotFound)?;
    let tickets = inventory::tickets_of(conn, event, order.id, &order.positions)?;
    let type_codes = type_codes(&programme);
    Ok((programme, Placed { order, tickets, type_codes }))
}

/// What the holder of a link holds at `now`, if that is a hold that is not over.
///
/// # Errors
/// The database's.
pub fn own_hold(conn: &mut PgConnection, now: DateTime<Utc>, event: EventId, id: OrderId, key: &str) -> Result<Option<Order>, DbError> {
    let order = queries::order(conn, event, id)?.filter(|order| same_secret(key, &order.access_key));
    Ok(order.filter(|order| order.status_at(now) == OrderStatus::Held))
}

/// Everything that happened to an order, its making first.
///
/// # Errors
/// The database's.
pub fn history(conn: &mut PgConnection, event: EventId, order: &Order) -> Result<Vec<HistoryEntry>, DbError> {
    history::read(conn, event, order)
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
