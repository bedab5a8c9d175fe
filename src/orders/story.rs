//! An order with what happened to it: for those who tell of it.

use chrono::{DateTime, Utc};
use diesel::PgConnection;

use super::{HistoryEntry, Order, OrderError, Placed, history, history::What, queries, states::OrderChange, type_codes};
use crate::{
    db::DbError,
    events::{self, Programme},
    ids::{EventId, OrderId},
    inventory,
};

/// An order as it is now, and its history.
#[derive(Clone, Debug)]
pub struct Story {
    /// The order.
    pub placed: Placed,
    /// What happened to it, its making first: the entry at place `n` is the change number `n`.
    entries: Vec<HistoryEntry>,
}

impl Story {
    /// The order.
    #[must_use]
    pub fn order(&self) -> &Order {
        &self.placed.order
    }

    /// What happened by that number; none, if that was no change of the order.
    #[must_use]
    pub fn change(&self, number: i32) -> Option<OrderChange> {
        match self.entry(number)?.what {
            What::Changed(change) => Some(change),
            What::Used => None,
        }
    }

    /// When it happened.
    #[must_use]
    pub fn at(&self, number: i32) -> Option<DateTime<Utc>> {
        Some(self.entry(number)?.at)
    }

    /// Which tickets it happened to; of the making it is not told.
    #[must_use]
    pub fn positions(&self, number: i32) -> &[i32] {
        self.entry(number).map_or(&[], |entry| &entry.positions)
    }

    fn entry(&self, number: i32) -> Option<&HistoryEntry> {
        self.entries.get(usize::try_from(number).ok()?)
    }
}

/// These orders of an event with their histories; one that is not there is left out.
///
/// # Errors
/// [`OrderError::EventNotFound`].
pub fn stories(conn: &mut PgConnection, event: EventId, ids: &[OrderId]) -> Result<(Programme, Vec<Story>), OrderError> {
    let programme = events::programme_by_id(conn, event)?;
    let orders = queries::orders_by_ids(conn, event, ids)?;
    let positions: Vec<i32> = orders.values().flat_map(|order| order.positions.iter().copied()).collect();
    let mut tickets = inventory::tickets_at(conn, event, &positions)?;
    let mut entries = queries::histories(conn, event, ids)?;
    let type_codes = type_codes(&programme);
    let story = |order: Order| {
        let mut all = vec![history::made(&order)];
        all.extend(entries.remove(&order.id).unwrap_or_default());
        let tickets = tickets.remove(&order.id).unwrap_or_default();
        Story { placed: Placed { order, tickets, type_codes: std::sync::Arc::clone(&type_codes) }, entries: all }
    };
    let stories = orders.into_values().map(story).collect();
    Ok((programme, stories))
}

/// If nothing of an event is left and nothing held: which time that is, counted by how often stock came before. It is the same for all who ask until
/// tickets come back or are loaded.
///
/// # Errors
/// The database's.
pub fn sold_out_time(conn: &mut PgConnection, event: EventId) -> Result<Option<i64>, DbError> {
    if !inventory::left_or_held(conn, &[event])?.is_empty() {
        return Ok(None);
    }
    Ok(Some(queries::returns(conn, event)? + inventory::loads(conn, event)?))
}
