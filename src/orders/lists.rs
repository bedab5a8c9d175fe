//! Many orders at once: a page of a list, and what events have sold.

use std::{collections::HashMap, sync::Arc};

use diesel::PgConnection;

use super::{Order, OrderError, Placed, queries, type_codes};
use crate::{
    db::DbError,
    events::{self, Programme},
    ids::{EventId, OrderId, PartnerId},
    inventory,
};

/// Most orders on one page of a list.
pub const ORDERS_PAGE_MAX: usize = 100;

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
