//! What becomes of an order after it was made: it is confirmed, given back in whole or in part, used at the door.
//!
//! Each operation locks the order first, so that two of them on one order come one after the other, and the second finds what the first
//! made of it: done twice, each is done once. Then come, in this order, buyers and tickets.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use chrono::{DateTime, Utc};
use diesel::PgConnection;

use super::{
    Order, OrderError, Party, Placed, Reader, expiry,
    history::{self, Happening, What},
    limits::Allowances,
    may_read, queries, rules,
    sale::SaleLimits,
    states::{OrderChange, OrderStatus},
    type_codes,
};
use crate::{
    db::{DbError, transaction},
    events::{self, EventState, Programme, Selling},
    ids::{OrderId, TicketTypeId, new_ticket_code, same_secret},
    input::FieldErrors,
    inventory::{
        self, Ticket,
        claim::{self, LowWater, Pass, Sold},
    },
};

/// An order after a change of it.
#[derive(Debug)]
pub struct Changed {
    /// The event.
    pub programme: Programme,
    /// The order as it is now.
    pub placed: Placed,
    /// Tickets that are on sale again.
    pub returned: Vec<Ticket>,
}

/// Which tickets of an order are given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// All of them.
    All,
    /// Those at these positions.
    These(Vec<i32>),
}

/// Makes a hold a sale. Done twice, it is done once.
///
/// After the deadline the order gets the same tickets if nobody has taken them, else as many others of the same types, at the prices that
/// were agreed. Before it, a sale that was paused or closed meanwhile changes nothing: the tickets were promised.
///
/// # Errors
/// [`OrderError::EventNotFound`], [`OrderError::NotFound`]; [`OrderError::Cancelled`] if it was given back; [`OrderError::SalesClosed`] if
/// the event was cancelled. After the deadline also [`OrderError::HoldExpired`] if too few tickets are left,
/// [`OrderError::BuyerLimitExceeded`], and what a new sale would be refused for.
pub(super) fn confirm(
    conn: &mut PgConnection,
    now: DateTime<Utc>,
    waits: SaleLimits,
    slug: &str,
    id: OrderId,
    party: &Party,
) -> Result<Changed, OrderError> {
    let with_same = transaction(conn, |conn| Confirmation::begin(conn, now, slug, id, party)?.run(conn, Pass::Skip))?;
    if let Some(changed) = with_same {
        return Ok(changed);
    }
    expiry::expire_due_of(conn, slug, now, usize::MAX)?;
    // Others may be found only by waiting for them, and that begins without a lock on any ticket.
    let with_others = transaction(conn, |conn| {
        queries::bound_waits(conn, waits.lock_wait, waits.claim_wait)?;
        Confirmation::begin(conn, now, slug, id, party)?.run(conn, Pass::Wait)
    })?;
    with_others.ok_or_else(|| DbError::Busy("the waiting claim was not final".to_owned()).into())
}

/// One try to confirm an order, which is locked.
struct Confirmation<'a> {
    now: DateTime<Utc>,
    party: &'a Party,
    programme: Programme,
    order: Order,
}

impl<'a> Confirmation<'a> {
    fn begin(conn: &mut PgConnection, now: DateTime<Utc>, slug: &str, id: OrderId, party: &'a Party) -> Result<Self, OrderError> {
        let (programme, order) = lock(conn, slug, id, &party.reader)?;
        Ok(Self { now, party, programme, order })
    }

    /// `None`: the tickets that it had are gone, and others were not looked for in this pass.
    fn run(self, conn: &mut PgConnection, pass: Pass) -> Result<Option<Changed>, OrderError> {
        let in_time = self.order.status_at(self.now) == self.order.status;
        match (self.order.status, in_time) {
            (OrderStatus::Sold, _) => return self.unchanged(conn).map(Some),
            (OrderStatus::Cancelled, _) => return Err(OrderError::Cancelled),
            (OrderStatus::Held, true) => {
                if self.programme.event.selling(self.now) == Selling::Cancelled {
                    return Err(OrderError::SalesClosed { cancelled: true, ticket_type: None });
                }
            }
            (OrderStatus::Held | OrderStatus::Expired, _) => {
                rules::may_sell(&self.programme, self.order.lines.iter().map(|line| line.ticket_type.as_str()), self.now)?;
            }
        }
        if self.order.status == OrderStatus::Held {
            if !in_time {
                // It did not count while it was over, so it must fit in again.
                self.allow(conn)?;
            }
            return self.sell_held(conn).map(Some);
        }
        if pass == Pass::Wait {
            expiry::expire_rest(conn, self.programme.event.id, self.now)?;
        }
        self.allow(conn)?;
        match self.find(conn, pass)? {
            Some(tickets) => self.sell_late(conn, tickets).map(Some),
            None => Ok(None),
        }
    }

    fn allow(&self, conn: &mut PgConnection) -> Result<(), OrderError> {
        let email = self.order.buyer_email.as_str();
        Allowances::lock(conn, &self.programme.event, self.now, std::iter::once(email))?.check(email, self.order.quantity.into())
    }

    /// Locks the tickets that the order had, or, in the waiting pass, as many others.
    fn find(&self, conn: &mut PgConnection, pass: Pass) -> Result<Option<Vec<Ticket>>, OrderError> {
        let event = self.programme.event.id;
        if pass == Pass::Skip {
            let same = claim::claim_same(conn, event, &self.order.positions)?;
            return Ok(Some(same).filter(|same| same.len() == self.order.positions.len()));
        }
        let mut wanted: BTreeMap<TicketTypeId, i64> = BTreeMap::new();
        for line in &self.order.lines {
            let ticket_type = self.programme.ticket_type(&line.ticket_type);
            let ticket_type = ticket_type.ok_or_else(|| DbError::unreadable(format!("order {}: unknown ticket type", self.order.id)))?;
            *wanted.entry(ticket_type.id).or_default() += line.quantity;
        }
        let mut tickets = Vec::new();
        for (ticket_type, quantity) in wanted {
            let claimed = claim::claim(conn, event, ticket_type, quantity, Pass::Wait, &LowWater::default())?;
            if i64::try_from(claimed.len()).is_ok_and(|claimed| claimed < quantity) {
                return Err(OrderError::HoldExpired);
            }
            tickets.extend(claimed);
        }
        tickets.sort_by_key(|ticket| ticket.position);
        Ok(Some(tickets))
    }

    fn sell_held(mut self, conn: &mut PgConnection) -> Result<Changed, OrderError> {
        claim::confirm(conn, self.programme.event.id, sold(&self.order))?;
        self.note(conn, OrderChange::Confirm)
    }

    fn sell_late(mut self, conn: &mut PgConnection, tickets: Vec<Ticket>) -> Result<Changed, OrderError> {
        self.order.positions = tickets.iter().map(|ticket| ticket.position).collect();
        claim::take(conn, self.programme.event.id, sold(&self.order), Vec::new())?;
        self.note(conn, OrderChange::ConfirmLate)
    }

    /// Stores what the order is after `change`, which its tickets have seen already.
    fn note(&mut self, conn: &mut PgConnection, change: OrderChange) -> Result<Changed, OrderError> {
        let event = self.programme.event.id;
        self.order.status = history::next(&self.order, change)?;
        queries::update_order(conn, event, &self.order)?;
        let happening = Happening { order: self.order.id, what: What::Changed(change), positions: &self.order.positions };
        history::append(conn, event, self.now, &self.party.actor, &[happening])?;
        changed(conn, self.programme.clone(), self.order.clone(), Vec::new())
    }

    fn unchanged(self, conn: &mut PgConnection) -> Result<Changed, OrderError> {
        changed(conn, self.programme, self.order, Vec::new())
    }
}

/// The tickets of an order, each with a code for the door.
fn sold(order: &Order) -> Vec<Sold> {
    order.positions.iter().map(|position| Sold { position: *position, order: order.id, code: new_ticket_code(*position) }).collect()
}

/// Locks an order that `reader` may touch.
fn lock(conn: &mut PgConnection, slug: &str, id: OrderId, reader: &Reader) -> Result<(Programme, Order), OrderError> {
    let programme = events::programme(conn, slug)?;
    let order =
        queries::order_for_update(conn, programme.event.id, id)?.filter(|order| may_read(reader, order)).ok_or(OrderError::NotFound)?;
    Ok((programme, order))
}

fn changed(conn: &mut PgConnection, programme: Programme, order: Order, returned: Vec<Ticket>) -> Result<Changed, OrderError> {
    let tickets = inventory::tickets_of(conn, programme.event.id, order.id, &order.positions)?;
    let type_codes = type_codes(&programme);
    Ok(Changed { placed: Placed { order, tickets, type_codes }, programme, returned })
}

/// Gives tickets of an order back: they are on sale again at once. Of an order whose tickets are given back in part, lines and total are
/// those of the rest. Done twice, it is done once; so it is on an order that has expired, which has nothing left to give.
///
/// # Errors
/// [`OrderError::EventNotFound`], [`OrderError::NotFound`]; [`OrderError::Invalid`] for a position that was never the order's.
/// Of tickets that were bought: [`OrderError::TicketUsed`], [`OrderError::EventBegun`], and, for its buyer, [`OrderError::CancelNotAllowed`].
pub(super) fn cancel(
    conn: &mut PgConnection,
    now: DateTime<Utc>,
    slug: &str,
    id: OrderId,
    party: &Party,
    which: &Which,
) -> Result<Changed, OrderError> {
    transaction(conn, |conn| {
        let (programme, order) = lock(conn, slug, id, &party.reader)?;
        let giving = giving(conn, &programme, &order, now, which)?;
        if giving.is_empty() {
            return changed(conn, programme, order, Vec::new());
        }
        if order.status == OrderStatus::Sold {
            may_cancel(conn, &programme, &order, &giving, now, &party.reader)?;
        }
        give_back(conn, now, party, programme, order, &giving)
    })
}

/// The tickets that are to be given back and are the order's still at `now`. A hold that is over has none, whether or not it was swept.
fn giving(
    conn: &mut PgConnection,
    programme: &Programme,
    order: &Order,
    now: DateTime<Utc>,
    which: &Which,
) -> Result<BTreeSet<i32>, OrderError> {
    let is_over = matches!(order.status_at(now), OrderStatus::Cancelled | OrderStatus::Expired);
    let has: BTreeSet<i32> = order.positions.iter().copied().collect();
    let Which::These(positions) = which else { return Ok(if is_over { BTreeSet::new() } else { has }) };
    let entries = history::read(conn, programme.event.id, order)?;
    let had: BTreeSet<i32> = history::returned(&entries).collect();
    let mut errors = FieldErrors::new();
    for (place, position) in positions.iter().enumerate().filter(|(_, position)| !has.contains(position) && !had.contains(position)) {
        errors.add(format!("positions[{place}]"), format!("must be a ticket of this order, and {position} is none"));
    }
    errors.into_result().map_err(OrderError::Invalid)?;
    Ok(if is_over { BTreeSet::new() } else { positions.iter().copied().filter(|position| has.contains(position)).collect() })
}

/// Whether these tickets, which were bought, may be given back.
fn may_cancel(
    conn: &mut PgConnection,
    programme: &Programme,
    order: &Order,
    giving: &BTreeSet<i32>,
    now: DateTime<Utc>,
    reader: &Reader,
) -> Result<(), OrderError> {
    let tickets = inventory::tickets_of(conn, programme.event.id, order.id, &order.positions)?;
    let used =
        tickets.iter().filter(|ticket| giving.contains(&ticket.position)).find_map(|ticket| Some((ticket.position, ticket.used_at?)));
    if let Some((position, at)) = used {
        return Err(OrderError::TicketUsed { position, at });
    }
    rules::may_cancel(&programme.event, matches!(reader, Reader::Link(_)), now)
}

fn give_back(
    conn: &mut PgConnection,
    now: DateTime<Utc>,
    party: &Party,
    programme: Programme,
    mut order: Order,
    giving: &BTreeSet<i32>,
) -> Result<Changed, OrderError> {
    let event = programme.event.id;
    let change = match (order.status, giving.len() == order.positions.len()) {
        (OrderStatus::Held, true) => OrderChange::Release,
        (OrderStatus::Held, false) => OrderChange::ReleaseSome,
        (_, true) => OrderChange::Cancel,
        (_, false) => OrderChange::CancelSome,
    };
    order.status = history::next(&order, change)?;
    let tickets: Vec<(OrderId, i32)> = giving.iter().map(|position| (order.id, *position)).collect();
    let returned = claim::give_back(conn, event, &tickets, change.of_tickets())?;
    if returned.len() != giving.len() {
        return Err(DbError::unreadable(format!("order {} does not have the tickets that it should", order.id)).into());
    }
    // An order of which nothing is left stays as it was agreed: that is what was cancelled.
    if matches!(change, OrderChange::ReleaseSome | OrderChange::CancelSome) {
        take_off(&mut order, &programme, &returned);
    }
    queries::update_order(conn, event, &order)?;
    let positions: Vec<i32> = giving.iter().copied().collect();
    history::append(conn, event, now, &party.actor, &[Happening { order: order.id, what: What::Changed(change), positions: &positions }])?;
    changed(conn, programme, order, returned)
}

/// Takes tickets off an order's lines and total.
fn take_off(order: &mut Order, programme: &Programme, returned: &[Ticket]) {
    let codes: HashMap<TicketTypeId, &str> = programme.ticket_types.iter().map(|of| (of.id, of.code.as_str())).collect();
    for line in &mut order.lines {
        let gone = returned.iter().filter(|ticket| codes.get(&ticket.ticket_type) == Some(&line.ticket_type.as_str())).count();
        line.quantity -= i64::try_from(gone).unwrap_or(i64::MAX);
    }
    order.lines.retain(|line| line.quantity > 0);
    order.positions.retain(|position| returned.iter().all(|ticket| ticket.position != *position));
    let gone = i32::try_from(returned.len()).unwrap_or(i32::MAX);
    order.quantity -= gone;
    order.cancelled_quantity += gone;
    order.total_minor = rules::total_minor(&order.lines).unwrap_or(i64::MAX);
}

/// Lets the holder of a ticket through the door, once.
///
/// # Errors
/// [`OrderError::EventNotFound`]; [`OrderError::TicketNotFound`] if no ticket that is sold has this code; [`OrderError::TicketUsed`];
/// [`OrderError::EventCancelled`].
pub fn use_ticket(
    conn: &mut PgConnection,
    now: DateTime<Utc>,
    slug: &str,
    code: &str,
    party: &Party,
) -> Result<(Changed, i32), OrderError> {
    transaction(conn, |conn| {
        let programme = events::programme(conn, slug)?;
        let event = programme.event.id;
        let position: i32 = code.split_once('-').and_then(|(position, _)| position.parse().ok()).ok_or(OrderError::TicketNotFound)?;
        let owners = inventory::tickets_at(conn, event, &[position])?;
        let id = owners.into_keys().next().ok_or(OrderError::TicketNotFound)?;
        let order = queries::order_for_update(conn, event, id)?.ok_or(OrderError::TicketNotFound)?;
        let ticket = inventory::ticket_for_update(conn, event, position)?.filter(|(owner, _)| *owner == id).map(|(_, ticket)| ticket);
        let ticket = ticket.filter(|ticket| ticket.code.as_deref().is_some_and(|right| same_secret(right, code)));
        let ticket = ticket.ok_or(OrderError::TicketNotFound)?;
        if let Some(at) = ticket.used_at {
            return Err(OrderError::TicketUsed { position, at });
        }
        if programme.event.state == EventState::Cancelled {
            return Err(OrderError::EventCancelled);
        }
        inventory::mark_used(conn, event, position, now)?;
        history::append(conn, event, now, &party.actor, &[Happening { order: id, what: What::Used, positions: &[position] }])?;
        Ok((changed(conn, programme, order, Vec::new())?, position))
    })
}
