//! What one buyer may have of an event, over all orders, exact however many processes sell it.
//!
//! A buyer is an e-mail address in its normal form ([`crate::email::normal_form`]). Before a sale counts what a buyer has, it locks the
//! buyer's row in `buyers`: two orders of one buyer are counted one after the other, and the second sees the first. In the lock order
//! buyers come after orders and before tickets.

use std::collections::{BTreeSet, HashMap};

use chrono::{DateTime, Utc};
use diesel::PgConnection;

use super::{OrderError, queries};
use crate::{
    db::{DbError, transaction},
    email::normal_form,
    events::{self, Event, EventError, EventInput},
    ids::EventId,
};

/// Orders that get their buyer's key in one statement.
const BACKFILL_PAGE: i64 = 5_000;

/// What the buyers of one batch may still have.
#[derive(Debug, Default)]
pub(super) struct Allowances {
    /// None: the event has no limit.
    limit: Option<i64>,
    has: HashMap<String, i64>,
}

impl Allowances {
    /// Locks these buyers and counts what each has, if the event limits them.
    pub(super) fn lock<'e>(
        conn: &mut PgConnection,
        event: &Event,
        now: DateTime<Utc>,
        emails: impl Iterator<Item = &'e str>,
    ) -> Result<Self, DbError> {
        let Some(limit) = event.max_per_buyer else { return Ok(Self::default()) };
        // Sorted, so that two batches with the same buyers wait for each other in one order.
        let keys: BTreeSet<String> = emails.map(normal_form).collect();
        let keys: Vec<String> = keys.into_iter().collect();
        queries::lock_buyers(conn, event.id, &keys).map_err(|error| match error {
            DbError::Busy(_) => DbError::Busy("another order of the same buyer is being made".to_owned()),
            other => other,
        })?;
        Ok(Self { limit: Some(limit.into()), has: queries::buyers_have(conn, event.id, &keys, now)? })
    }

    /// Whether the buyer may have `quantity` more.
    pub(super) fn check(&self, email: &str, quantity: i64) -> Result<(), OrderError> {
        let Some(limit) = self.limit else { return Ok(()) };
        let has = self.has.get(&normal_form(email)).copied().unwrap_or(0);
        if has + quantity <= limit { Ok(()) } else { Err(OrderError::BuyerLimitExceeded { limit, has, requested: quantity }) }
    }

    /// Notes that the buyer gets `quantity` more.
    pub(super) fn note(&mut self, email: &str, quantity: i64) {
        if self.limit.is_some() {
            *self.has.entry(normal_form(email)).or_default() += quantity;
        }
    }
}

/// The key that an order of this event is stored under.
pub(super) fn buyer_key(event: &Event, email: &str) -> Option<String> {
    event.max_per_buyer.map(|_| normal_form(email))
}

/// Changes an event, as [`events::update`] does. Where that sets a limit for buyers, what they have already counts: the event's orders get
/// their buyer's key. A sale that is under way at that very moment is not counted.
///
/// # Errors
/// Those of [`events::update`].
pub fn change_event(conn: &mut PgConnection, slug: &str, change: impl Fn(&mut EventInput)) -> Result<Event, EventError> {
    let before = events::programme(conn, slug)?.event.max_per_buyer;
    let after = events::update(conn, slug, change)?;
    if before.is_none() && after.max_per_buyer.is_some() {
        key_orders(conn, after.id)?;
    }
    Ok(after)
}

/// Gives each order its buyer's key that has none, page by page.
fn key_orders(conn: &mut PgConnection, event: EventId) -> Result<(), DbError> {
    let mut after = None;
    loop {
        let last = transaction(conn, |conn| {
            let page = queries::orders_without_key(conn, event, after, BACKFILL_PAGE)?;
            let keys: Vec<_> = page.iter().map(|(id, email)| (*id, normal_form(email))).collect();
            queries::set_buyer_keys(conn, event, &keys)?;
            Ok::<_, DbError>(page.last().map(|(id, _)| *id))
        })?;
        match last {
            Some(id) => after = Some(id),
            None => return Ok(()),
        }
    }
}
