//! The history of an order: what happened to it, when, and by whom. It only grows.

use chrono::{DateTime, Utc};
use diesel::PgConnection;

use super::{
    Order, jobs, queries,
    states::{OrderChange, OrderStatus},
};
use crate::{
    db::DbError,
    ids::{EventId, OrderId},
};

/// Who did something to an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// Whoever has the order's link.
    Buyer,
    /// A partner, by its name at the time.
    Partner(String),
    /// An admin, by their address at the time.
    Admin(String),
    /// Nobody: a deadline passed.
    Clock,
}

impl Actor {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Buyer => "buyer",
            Self::Partner(_) => "partner",
            Self::Admin(_) => "admin",
            Self::Clock => "clock",
        }
    }

    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Partner(name) | Self::Admin(name) => Some(name),
            Self::Buyer | Self::Clock => None,
        }
    }

    pub(super) fn of(kind: &str, name: Option<String>) -> Option<Self> {
        match (kind, name) {
            ("buyer", None) => Some(Self::Buyer),
            ("partner", Some(name)) => Some(Self::Partner(name)),
            ("admin", Some(name)) => Some(Self::Admin(name)),
            ("clock", None) => Some(Self::Clock),
            _ => None,
        }
    }
}

/// What an entry tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The order changed.
    Changed(OrderChange),
    /// A ticket of it was used at the door.
    Used,
}

impl What {
    /// The name in the database.
    pub(super) fn column(self) -> &'static str {
        match self {
            Self::Changed(change) => change.name(),
            Self::Used => "used",
        }
    }

    pub(super) fn of(column: &str) -> Option<Self> {
        if column == "used" { Some(Self::Used) } else { column.parse().ok().map(Self::Changed) }
    }
}

/// One entry of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// When.
    pub at: DateTime<Utc>,
    /// By whom; of an order's making only whether a partner did it is known here.
    pub actor: Option<Actor>,
    /// What.
    pub what: What,
    /// How many tickets it was about.
    pub quantity: usize,
    /// Which tickets; of an order's making it is not told, since some may be another order's by now.
    pub positions: Vec<i32>,
}

/// Something that happens to one order.
pub(super) struct Happening<'a> {
    pub(super) order: OrderId,
    pub(super) what: What,
    pub(super) positions: &'a [i32],
}

/// Adds to the histories of orders, each of which the caller has locked, and enqueues what follows.
pub(super) fn append(
    conn: &mut PgConnection,
    event: EventId,
    now: DateTime<Utc>,
    actor: &Actor,
    happenings: &[Happening<'_>],
) -> Result<(), DbError> {
    if happenings.is_empty() {
        return Ok(());
    }
    let entries = queries::insert_history(conn, event, now, actor, happenings)?;
    // That a ticket was used is told to nobody.
    let is_change = |order: &OrderId| happenings.iter().any(|happening| happening.order == *order && happening.what != What::Used);
    let changes = entries.into_iter().filter(|changed| is_change(&changed.order)).collect();
    jobs::follow_up(conn, event, now, changes)
}

/// Everything that happened to `order`, its making first.
pub(super) fn read(conn: &mut PgConnection, event: EventId, order: &Order) -> Result<Vec<HistoryEntry>, DbError> {
    let mut entries = vec![made(order)];
    entries.extend(queries::history(conn, event, order.id)?);
    Ok(entries)
}

/// How it was made, which stands in the order itself: with a deadline it was a hold.
pub(super) fn made(order: &Order) -> HistoryEntry {
    let change = if order.expires_at.is_some() { OrderChange::Hold } else { OrderChange::Sell };
    let quantity = usize::try_from(order.quantity + order.cancelled_quantity).unwrap_or(0);
    let actor = (order.caller == super::Caller::Web).then_some(Actor::Buyer);
    HistoryEntry { at: order.created_at, actor, what: What::Changed(change), quantity, positions: Vec::new() }
}

/// The tickets that an order once had and gave back, by its history.
pub(super) fn returned(entries: &[HistoryEntry]) -> impl Iterator<Item = i32> {
    let gave_back = |entry: &&HistoryEntry| match entry.what {
        What::Changed(change) => change.of_tickets().from().after(change.of_tickets()) == Some(crate::inventory::TicketStatus::Available),
        What::Used => false,
    };
    entries.iter().filter(gave_back).flat_map(|entry| entry.positions.iter().copied())
}

/// The state that an order is in after `change`.
pub(super) fn next(order: &Order, change: OrderChange) -> Result<OrderStatus, DbError> {
    let refused = || DbError::unreadable(format!("order {} is {} and cannot {}", order.id, order.status.name(), change.name()));
    order.status.after(change).ok_or_else(refused)
}
