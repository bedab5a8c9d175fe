//! The claim: taking n tickets off the shelf inside the sale's transaction, and putting them back.
//!
//! A claim *locks* rows and returns them; [`take`] then marks those that were dealt out. What was locked and not dealt is free again
//! at the end of the transaction. Locks are taken by (type, position), as the lock order of [`crate::db`] says.
//!
//! Why each part of the SQL is as it is stands in [`super::statements`].

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use diesel::PgConnection;

use super::{Ticket, TicketChange, queries};
use crate::{
    db::DbError,
    ids::{EventId, OrderId, TicketTypeId},
};

/// Where a claim begins to look when nothing is known.
const FIRST_POSITION: i32 = 1;

/// What a claim does about rows that another transaction has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Leaves them out: nobody waits for anybody. A short result does not mean that too few are left.
    Skip,
    /// Waits for them, at most the transaction's `lock_timeout` for each: a short result is the truth.
    Wait,
}

/// Where the sold tickets of each type end, as far as one seller knows: the claim begins there.
///
/// While any old snapshot is open (a report, a backup) the index keeps an entry for every ticket that was sold since, and a claim from the
/// first position walks all of them. The mark is a hint. One that is too low costs time. One that is too high (a sale elsewhere
/// was rolled back, a ticket came back) costs a second claim, since nobody is told "too few" without a claim from the first position.
#[derive(Clone, Debug, Default)]
pub struct LowWater(HashMap<(EventId, TicketTypeId), i32>);

impl LowWater {
    /// The first position of that type that may be available.
    #[must_use]
    pub fn of(&self, event: EventId, ticket_type: TicketTypeId) -> i32 {
        self.0.get(&(event, ticket_type)).copied().unwrap_or(FIRST_POSITION)
    }

    /// The marks after a sale that took `dealt` and gave `rest` back, both of which it had claimed.
    #[must_use]
    pub fn after(event: EventId, (dealt, rest): &(Vec<&Ticket>, Vec<&Ticket>)) -> Self {
        let mut marks: HashMap<(EventId, TicketTypeId), i32> = HashMap::new();
        for ticket in dealt {
            let mark = marks.entry((event, ticket.ticket_type)).or_default();
            *mark = (*mark).max(ticket.position + 1);
        }
        let mut marks = Self(marks);
        marks.lower_all(event, rest.iter().copied());
        marks
    }

    /// Moves the marks back to tickets that are on sale again. Where there is no mark, claims begin at the first position anyway.
    pub fn lower<'t>(&mut self, event: EventId, free: impl IntoIterator<Item = &'t Ticket>) {
        for ticket in free {
            if let Some(mark) = self.0.get_mut(&(event, ticket.ticket_type)) {
                *mark = (*mark).min(ticket.position);
            }
        }
    }

    fn lower_all<'t>(&mut self, event: EventId, free: impl IntoIterator<Item = &'t Ticket>) {
        for ticket in free {
            let mark = self.0.entry((event, ticket.ticket_type)).or_insert(ticket.position);
            *mark = (*mark).min(ticket.position);
        }
    }

    /// Takes over the marks of a sale.
    pub fn raise(&mut self, marks: Self) {
        self.0.extend(marks.0);
    }

    /// Forgets all marks: a sale that moved some was not committed.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

/// Locks up to `quantity` available tickets of a type, lowest positions first.
///
/// # Errors
/// [`DbError::Busy`] if a row could not be waited for in time.
pub fn claim(
    conn: &mut PgConnection,
    event: EventId,
    ticket_type: TicketTypeId,
    quantity: i64,
    pass: Pass,
    low_water: &LowWater,
) -> Result<Vec<Ticket>, DbError> {
    if pass == Pass::Wait {
        return queries::claim(conn, event, ticket_type, FIRST_POSITION, quantity, pass);
    }
    let from = low_water.of(event, ticket_type);
    let claimed = queries::claim(conn, event, ticket_type, from, quantity, pass)?;
    let is_short = i64::try_from(claimed.len()).is_ok_and(|got| got < quantity);
    if is_short && from > FIRST_POSITION {
        // The rows that are locked already are found again: a transaction does not skip its own locks.
        return queries::claim(conn, event, ticket_type, FIRST_POSITION, quantity, pass);
    }
    Ok(claimed)
}

/// Locks these very tickets, as far as they are on sale and nobody has them locked: for an order that had them before.
///
/// # Errors
/// The database's.
pub fn claim_same(conn: &mut PgConnection, event: EventId, positions: &[i32]) -> Result<Vec<Ticket>, DbError> {
    queries::claim_same(conn, event, positions)
}

/// A locked ticket and who buys it.
#[derive(Clone, Debug)]
pub struct Sold {
    /// The ticket's position.
    pub position: i32,
    /// The order that gets it.
    pub order: OrderId,
    /// What the door will check.
    pub code: String,
}

/// A locked ticket and who it is kept for.
#[derive(Clone, Debug)]
pub struct Held {
    /// The ticket's position.
    pub position: i32,
    /// The order that holds it.
    pub order: OrderId,
    /// The deadline.
    pub until: DateTime<Utc>,
}

/// Marks claimed tickets SOLD or HELD.
///
/// # Errors
/// [`DbError::Other`] if fewer rows were there to mark than were claimed, which a lock held since the claim rules out; the caller's
/// transaction then rolls back.
pub fn take(conn: &mut PgConnection, event: EventId, sold: Vec<Sold>, held: Vec<Held>) -> Result<(), DbError> {
    let claimed = sold.len() + held.len();
    let mut marked = 0;
    if !sold.is_empty() {
        marked += queries::mark_sold(conn, event, sold)?;
    }
    if !held.is_empty() {
        marked += queries::mark_held(conn, event, held)?;
    }
    all_marked(claimed, marked)
}

/// Marks tickets SOLD that their order holds. The caller has the order locked.
///
/// # Errors
/// [`DbError::Other`] if the order does not hold all of them; the caller's transaction then rolls back.
pub fn confirm(conn: &mut PgConnection, event: EventId, sold: Vec<Sold>) -> Result<(), DbError> {
    let held = sold.len();
    all_marked(held, queries::mark_confirmed(conn, event, sold)?)
}

fn all_marked(taken: usize, marked: usize) -> Result<(), DbError> {
    if marked == taken {
        return Ok(());
    }
    Err(DbError::unreadable(format!("took {taken} tickets and could mark {marked}")))
}

/// Puts tickets of orders back on sale; `change` says why, and with it which state they must be in. The caller has the orders locked.
/// Returns those that are on sale again: a ticket that was used is not among them.
///
/// # Errors
/// The database's.
pub fn give_back(
    conn: &mut PgConnection,
    event: EventId,
    tickets: &[(OrderId, i32)],
    change: TicketChange,
) -> Result<Vec<Ticket>, DbError> {
    if tickets.is_empty() {
        return Ok(Vec::new());
    }
    queries::give_back(conn, event, tickets, change)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Place;

    fn ticket(ticket_type: TicketTypeId, position: i32) -> Ticket {
        Ticket { position, ticket_type, place: Place::default(), code: None, used_at: None }
    }

    #[test]
    fn the_mark_is_behind_the_last_sold_and_before_the_first_that_was_given_back() {
        let (event, a) = (EventId::new(), TicketTypeId::new());
        let (one, two, nine) = (ticket(a, 1), ticket(a, 2), ticket(a, 9));
        assert_eq!(LowWater::default().of(event, a), 1);
        assert_eq!(LowWater::after(event, &(vec![&one, &nine], vec![])).of(event, a), 10);
        assert_eq!(LowWater::after(event, &(vec![&one, &nine], vec![&two])).of(event, a), 2);
    }

    #[test]
    fn a_ticket_that_comes_back_moves_the_mark_back_and_makes_none() {
        let (event, a) = (EventId::new(), TicketTypeId::new());
        let (two, nine) = (ticket(a, 2), ticket(a, 9));
        let mut marks = LowWater::after(event, &(vec![&nine], vec![]));
        marks.lower(event, [&two]);
        assert_eq!(marks.of(event, a), 2);
        let mut none = LowWater::default();
        none.lower(event, [&nine]);
        assert_eq!(none.of(event, a), 1);
    }
}
