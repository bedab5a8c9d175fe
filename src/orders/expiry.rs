//! Holds that have run out: their tickets go back on sale.
//!
//! Nobody has to wait for this. A hold is over at its deadline, whatever the database says of it: it counts as available, and a sale that
//! finds too few tickets ends such holds itself before it says so. The sweeper only does it sooner.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use diesel::PgConnection;

use super::{
    history::{self, Actor, Happening, What},
    queries::{self, Due},
    states::{OrderChange, OrderStatus},
};
use crate::{
    db::{DbError, transaction},
    events::{self, EventError},
    ids::{EventId, OrderId},
    inventory::{self, Ticket, claim},
};

/// Most holds that one transaction ends.
const PAGE: i64 = 256;

/// What ending holds brought.
#[derive(Debug, Default)]
pub struct Swept {
    /// How many holds were ended.
    pub expired: usize,
    /// The tickets that are on sale again.
    pub returned: Vec<Ticket>,
    /// Holds that do not have the tickets that they should; they are left as they are.
    pub corrupt: Vec<OrderId>,
}

impl Swept {
    fn add(&mut self, other: Self) {
        self.expired += other.expired;
        self.returned.extend(other.returned);
        self.corrupt.extend(other.corrupt);
    }
}

/// Ends holds of an event whose deadline has passed at `now`, the first to run out first, until `wanted` tickets are back or none is due.
/// Waits for nobody: a hold that somebody else has locked (to confirm it, perhaps) is left to them.
///
/// # Errors
/// The database's. Each page of holds is a transaction, so those before are ended all the same.
pub(super) fn expire_due(conn: &mut PgConnection, event: EventId, now: DateTime<Utc>, wanted: usize) -> Result<Swept, DbError> {
    let mut swept = Swept::default();
    let mut after = None;
    loop {
        let (page, last) = transaction(conn, |conn| {
            let due = queries::due_holds(conn, event, now, after, PAGE)?;
            let last = due.last().map(|due| (due.expires_at, due.id));
            Ok::<_, DbError>((expire(conn, event, now, &due)?, last))
        })?;
        swept.add(page);
        if last.is_none() || swept.returned.len() >= wanted {
            return Ok(swept);
        }
        // A corrupt hold stays due, and must not be found again.
        after = last;
    }
}

/// The same for the event of that slug.
///
/// # Errors
/// The database's.
pub(super) fn expire_due_of(conn: &mut PgConnection, slug: &str, now: DateTime<Utc>, wanted: usize) -> Result<(EventId, Swept), DbError> {
    let event = events::programme(conn, slug).map_err(|error| match error {
        EventError::Db(error) => error,
        other => DbError::unreadable(other.to_string()),
    })?;
    let event = event.event.id;
    Ok((event, expire_due(conn, event, now, wanted)?))
}

/// Ends what is due in the transaction at hand, and waits for holds that others have locked: afterwards no ticket is kept by a hold that
/// is over, but for corrupt ones, whose number is returned. Comes before the first lock on a ticket, as the lock order says.
///
/// # Errors
/// [`DbError::Busy`] if the wait was in vain.
pub(super) fn expire_rest(conn: &mut PgConnection, event: EventId, now: DateTime<Utc>) -> Result<i64, DbError> {
    let due = queries::due_holds_waiting(conn, event, now, PAGE)?;
    let swept = expire(conn, event, now, &due)?;
    Ok(i64::try_from(swept.corrupt.len()).unwrap_or(i64::MAX))
}

/// Ends holds in all events, for the sweeper.
///
/// # Errors
/// The database's.
pub fn expire_everywhere(conn: &mut PgConnection, now: DateTime<Utc>) -> Result<BTreeMap<EventId, Swept>, DbError> {
    let mut all = BTreeMap::new();
    for event in queries::events_with_due_holds(conn, now)? {
        all.insert(event, expire_due(conn, event, now, usize::MAX)?);
    }
    Ok(all)
}

/// Ends these holds, which are locked.
fn expire<'a>(conn: &mut PgConnection, event: EventId, now: DateTime<Utc>, due: &'a [Due]) -> Result<Swept, DbError> {
    if due.is_empty() {
        return Ok(Swept::default());
    }
    let positions: Vec<i32> = due.iter().flat_map(|due| due.positions.iter().copied()).collect();
    let held = inventory::held_of(conn, event, &positions)?;
    let is_sound = |due: &&Due| held.get(&due.id).copied().unwrap_or(0) == due.positions.len();
    let (sound, corrupt): (Vec<&'a Due>, Vec<&'a Due>) = due.iter().partition(is_sound);
    let tickets: Vec<(OrderId, i32)> = sound.iter().flat_map(|due| due.positions.iter().map(|position| (due.id, *position))).collect();
    let returned = claim::give_back(conn, event, &tickets, OrderChange::Expire.of_tickets())?;
    let ids: Vec<OrderId> = sound.iter().map(|due| due.id).collect();
    let status = OrderStatus::Held.after(OrderChange::Expire).unwrap_or(OrderStatus::Expired);
    queries::set_status(conn, event, &ids, status)?;
    let happening = |due: &&'a Due| Happening { order: due.id, what: What::Changed(OrderChange::Expire), positions: &due.positions };
    let happenings: Vec<Happening<'a>> = sound.iter().map(happening).collect();
    history::append(conn, event, now, &Actor::Clock, &happenings)?;
    Ok(Swept { expired: ids.len(), returned, corrupt: corrupt.into_iter().map(|due| due.id).collect() })
}
