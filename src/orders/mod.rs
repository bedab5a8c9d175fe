//! Orders: the sale, what becomes of an order afterwards, and reading what was sold.
//!
//! One lock order everywhere: the event, orders by id, buyers by key, tickets by (type, position), Idempotency-Keys.

mod audit;
mod desk;
mod error;
mod expiry;
mod history;
pub mod jobs;
mod life;
mod limits;
mod lists;
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
    db::DbError,
    events::{self, Checkout, Event, Programme},
    ids::{EventId, OrderId, PartnerId, TicketTypeId, same_secret},
    inventory::{self, Ticket},
    money::Currency,
};
pub use audit::{AuditReport, Breach, audit};
pub use desk::Desk;
pub use error::{OrderError, Short, Shortage};
pub use expiry::{Swept, expire_everywhere};
pub use history::{Actor, HistoryEntry, What};
pub use life::{Changed, Which, use_ticket};
pub use limits::change_event;
pub use lists::{ORDERS_PAGE_MAX, OrdersPage, Takings, list, takings};
pub use rules::{HoldLimits, LineInput, Purchase, PurchaseInput};
pub use sale::{Outcome, SaleLimits};
pub use states::{OrderChange, OrderStatus};
pub use story::{Story, sold_out_time, stories};

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

fn type_codes(programme: &Programme) -> Arc<TypeCodes> {
    Arc::new(programme.ticket_types.iter().map(|ticket_type| (ticket_type.id, ticket_type.code.clone())).collect())
}
