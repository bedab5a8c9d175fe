//! The sale: a batch of purchases of one event in one transaction.
//!
//! The statements of a sale, in this order: the event and its types; the orders that these keys have already; where the event limits what
//! one buyer may have, the buyers; the claim of each type, in the order of the types' ids; the new orders; the tickets. The order is the
//! lock order, and no statement after the keys waits for anybody.
//!
//! A batch goes through two passes. The first *skips* rows that others have locked, so that nobody waits for anybody. Whoever it
//! leaves short goes through a second transaction that *waits* for those rows, for a bounded time, and is therefore exact. The second
//! pass starts with no locks: waiting for tickets of one type while keeping those of another is how two baskets deadlock. Before it claims,
//! it ends the holds that are over.

use std::{
    collections::{BTreeMap, HashMap},
    ops::DerefMut,
    sync::Arc,
    time::Duration,
};

use chrono::{DateTime, Utc};
use diesel::PgConnection;

use super::{
    Caller, IdempotencyKey, Order, OrderError, OrderStatus, Placed, Request, Short, Shortage, expiry,
    jobs::{self, MAKING, OrderChanged},
    limits::Allowances,
    queries,
    rules::{self, Agreement, Shelf},
    type_codes,
};
use crate::{
    db::{DbError, transaction},
    events::{self, EventError, Programme},
    ids::{EventId, OrderId, TicketTypeId, new_access_key, new_ticket_code},
    inventory::{
        self, Ticket,
        claim::{self, Held, LowWater, Pass, Sold},
    },
};

/// How long a sale may wait for others.
#[derive(Clone, Copy, Debug)]
pub struct SaleLimits {
    /// Longest wait for one row that another transaction has locked.
    pub lock_wait: Duration,
    /// Longest time for the whole of the waiting claim.
    pub claim_wait: Duration,
}

impl Default for SaleLimits {
    fn default() -> Self {
        Self { lock_wait: Duration::from_millis(2_000), claim_wait: Duration::from_millis(4_000) }
    }
}

/// What became of one purchase.
pub type Outcome = Result<Placed, OrderError>;

/// A purchase in a batch. Its order's id is made before the sale, so that a sale whose outcome is unknown can be asked for.
pub(super) struct Entry {
    pub(super) id: OrderId,
    pub(super) request: Request,
}

impl Entry {
    fn email(&self) -> &str {
        self.request.purchase.buyer_email.as_str()
    }
}

/// What one pass found for one purchase.
pub(super) enum Verdict {
    /// The last word.
    Settled(Box<Outcome>),
    /// Short, as far as rows that nobody has locked are concerned.
    LookAgain,
}

/// What a sale of a batch needs besides the batch.
#[derive(Clone, Copy)]
pub(super) struct Terms<'a> {
    /// The event.
    pub(super) slug: &'a str,
    /// The moment of the sale.
    pub(super) now: DateTime<Utc>,
    /// How long it may wait for others.
    pub(super) limits: SaleLimits,
    /// The batch may have been sold already: an earlier try's COMMIT was not answered.
    pub(super) again: bool,
}

/// The pass that waits for nobody. Verdicts come in the order of the entries.
///
/// `turn` gives the marks, and with them the right to claim. They are moved and given up as soon as all is claimed and dealt, so that
/// the next batch claims what lies behind while this one is stored.
///
/// # Errors
/// The transaction's as a whole: nothing was sold, unless it is [`DbError::CommitUnknown`]. The marks may then be too high.
pub(super) fn skipping_pass<T: DerefMut<Target = LowWater>>(
    conn: &mut PgConnection,
    terms: Terms<'_>,
    entries: &[&Entry],
    mut turn: impl FnMut() -> T,
) -> Result<Vec<Verdict>, DbError> {
    let passed = transaction(conn, |conn| pass(conn, terms, entries, Pass::Skip, Some(turn())))?;
    if let Some((event, tickets)) = &passed.given_back {
        turn().lower(*event, tickets);
    }
    Ok(passed.verdicts)
}

/// The pass that waits for rows that others have locked, and has the last word. It looks at every row, whatever the low-water mark. Whoever
/// it leaves without a verdict was short of tickets that came back meanwhile.
///
/// # Errors
/// The transaction's as a whole; [`DbError::Busy`] if the wait was in vain.
pub(super) fn waiting_pass(conn: &mut PgConnection, terms: Terms<'_>, entries: &[&Entry]) -> Result<Vec<Verdict>, DbError> {
    let passed = transaction(conn, |conn| {
        queries::bound_waits(conn, terms.limits.lock_wait, terms.limits.claim_wait)?;
        pass(conn, terms, entries, Pass::Wait, None::<&mut LowWater>)
    })?;
    Ok(passed.verdicts)
}

/// What a pass found.
struct Passed {
    verdicts: Vec<Verdict>,
    /// Tickets that were dealt and are free again when the transaction ends: below the marks.
    given_back: Option<(EventId, Vec<Ticket>)>,
}

/// One pass in the transaction at hand.
fn pass<T: DerefMut<Target = LowWater>>(
    conn: &mut PgConnection,
    terms: Terms<'_>,
    entries: &[&Entry],
    pass: Pass,
    marks: Option<T>,
) -> Result<Passed, DbError> {
    match events::programme(conn, terms.slug) {
        Ok(programme) => Batch::new(&programme, entries, terms, pass).run(conn, marks),
        Err(EventError::Db(error)) => Err(error),
        Err(_) => {
            let unknown = |_: &&Entry| Verdict::Settled(Box::new(Err(OrderError::EventNotFound(terms.slug.to_owned()))));
            Ok(Passed { verdicts: entries.iter().map(unknown).collect(), given_back: None })
        }
    }
}

/// One pass of one batch.
struct Batch<'a> {
    programme: &'a Programme,
    entries: &'a [&'a Entry],
    terms: Terms<'a>,
    pass: Pass,
    /// For each entry the first one with the same key: itself, if it has none.
    firsts: Vec<usize>,
    /// Holds that are over and cannot be ended.
    corrupt: i64,
    verdicts: Vec<Option<Verdict>>,
}

/// A purchase that got its tickets, before it is stored.
struct Deal<'a> {
    place: usize,
    key: Option<&'a IdempotencyKey>,
    order: Order,
    tickets: Vec<Ticket>,
}

/// What became of those whom the rules allow.
struct Dealt<'a> {
    deals: Vec<Deal<'a>>,
    /// Those for whom too few were there.
    short: Vec<(usize, Agreement)>,
    /// Those who would have more than a buyer may, and how much that is.
    over: Vec<(usize, OrderError)>,
}

impl<'a> Batch<'a> {
    fn new(programme: &'a Programme, entries: &'a [&'a Entry], terms: Terms<'a>, pass: Pass) -> Self {
        let mut seen: HashMap<(Caller, &str), usize> = HashMap::new();
        let first = |(place, entry): (usize, &&'a Entry)| match &entry.request.key {
            Some(key) => *seen.entry((entry.request.caller, key.key.as_str())).or_insert(place),
            None => place,
        };
        let firsts = entries.iter().enumerate().map(first).collect();
        Self { programme, entries, terms, pass, firsts, corrupt: 0, verdicts: entries.iter().map(|_| None).collect() }
    }

    fn run<T: DerefMut<Target = LowWater>>(mut self, conn: &mut PgConnection, marks: Option<T>) -> Result<Passed, DbError> {
        if self.may_be_stored() {
            self.answer_known_ids(conn)?;
        }
        self.answer_known_keys(conn)?;
        let mut agreed = self.agree();
        let event = self.programme.event.id;
        if self.pass == Pass::Wait && !agreed.is_empty() {
            self.corrupt = expiry::expire_rest(conn, event, self.terms.now)?;
        }
        let emails = agreed.iter().filter_map(|(place, _)| self.entries.get(*place)).map(|entry| entry.email());
        let mut allowances = Allowances::lock(conn, &self.programme.event, self.terms.now, emails)?;
        if self.programme.event.max_per_buyer.is_some() {
            // The same request may have been sold elsewhere while this waited for its buyer. It counts by now, and must not count twice.
            self.answer_known_keys(conn)?;
            agreed.retain(|(place, _)| self.is_open(*place));
        }
        let mut shelf = self.claim(conn, &agreed, marks.as_deref().unwrap_or(&LowWater::default()))?;
        if self.may_be_stored() {
            // The try before may have ended while the claim waited for its tickets.
            self.answer_known_ids(conn)?;
            agreed.retain(|(place, _)| self.is_open(*place));
        }
        let Dealt { deals, short, over } = self.deal(agreed, &mut shelf, &mut allowances);
        if let Some(mut marks) = marks {
            marks.raise(LowWater::after(event, &deals_and_rest(&deals, &shelf)));
        }
        let given_back = self.store(conn, deals)?;
        self.settle_over(conn, over)?;
        self.settle_short(conn, &short, &shelf)?;
        self.answer_doubles();
        let verdicts = self.verdicts.into_iter().map(|verdict| verdict.unwrap_or(Verdict::LookAgain)).collect();
        Ok(Passed { verdicts, given_back: (!given_back.is_empty()).then_some((event, given_back)) })
    }

    fn settle(&mut self, place: usize, outcome: Outcome) {
        if let Some(slot) = self.verdicts.get_mut(place) {
            *slot = Some(Verdict::Settled(Box::new(outcome)));
        }
    }

    fn is_open(&self, place: usize) -> bool {
        self.verdicts.get(place).is_some_and(Option::is_none)
    }

    /// The entries that have no verdict yet.
    fn open(&self) -> Vec<(usize, &'a Entry)> {
        self.entries.iter().enumerate().filter(|(place, _)| self.is_open(*place)).map(|(place, entry)| (place, *entry)).collect()
    }

    /// Whether an earlier try may have stored orders of this batch: its COMMIT was not answered. Whoever it left short since is in the
    /// waiting pass.
    fn may_be_stored(&self) -> bool {
        self.terms.again || self.pass == Pass::Wait
    }

    fn is_double(&self, place: usize) -> bool {
        self.firsts.get(place).is_some_and(|first| *first != place)
    }

    /// Entries whose order an earlier try stored, although nobody heard of it.
    fn answer_known_ids(&mut self, conn: &mut PgConnection) -> Result<(), DbError> {
        let ids: Vec<OrderId> = self.open().iter().map(|(_, entry)| entry.id).collect();
        let mut known = queries::orders_by_ids(conn, self.programme.event.id, &ids)?;
        for (place, entry) in self.open() {
            if let Some(order) = known.remove(&entry.id) {
                let placed = self.placed(conn, order)?;
                self.settle(place, Ok(placed));
            }
        }
        Ok(())
    }

    /// Entries whose key has an order already are answered with it.
    fn answer_known_keys(&mut self, conn: &mut PgConnection) -> Result<(), DbError> {
        let key_of = |entry: &'a Entry| entry.request.key.as_ref().map(|key| (entry.request.caller, key));
        let keys: Vec<(Caller, &IdempotencyKey)> = self.open().into_iter().filter_map(|(_, entry)| key_of(entry)).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let known = queries::orders_by_keys(conn, self.programme.event.id, &keys)?;
        if known.is_empty() {
            return Ok(());
        }
        for (place, entry) in self.open() {
            let Some((caller, key)) = key_of(entry) else { continue };
            let Some(keyed) = known.get(&(caller.to_string(), key.key.clone())) else { continue };
            let outcome = if keyed.request_hash == key.request_hash {
                Ok(self.placed(conn, keyed.order.clone())?)
            } else {
                Err(OrderError::KeyReused)
            };
            self.settle(place, outcome);
        }
        Ok(())
    }

    fn placed(&self, conn: &mut PgConnection, order: Order) -> Result<Placed, DbError> {
        let tickets = inventory::tickets_of(conn, self.programme.event.id, order.id, &order.positions)?;
        Ok(Placed { order, tickets, type_codes: type_codes(self.programme) })
    }

    /// The open entries that the event's rules allow. A second entry with the key of one before it waits for that one's outcome.
    fn agree(&mut self) -> Vec<(usize, Agreement)> {
        let mut agreed = Vec::with_capacity(self.entries.len());
        for (place, entry) in self.open() {
            if self.is_double(place) {
                continue;
            }
            match rules::agree(self.programme, &entry.request.purchase, self.terms.now) {
                Ok(agreement) => agreed.push((place, agreement)),
                Err(error) => self.settle(place, Err(error)),
            }
        }
        agreed
    }

    /// Locks what all of them together want, type by type in the order of ids.
    fn claim(&self, conn: &mut PgConnection, agreed: &[(usize, Agreement)], marks: &LowWater) -> Result<Shelf, DbError> {
        let mut wanted: BTreeMap<TicketTypeId, i64> = BTreeMap::new();
        for line in agreed.iter().flat_map(|(_, agreement)| &agreement.lines) {
            *wanted.entry(line.ticket_type).or_default() += line.quantity;
        }
        let mut shelf = Shelf::new();
        for (ticket_type, quantity) in wanted {
            let claimed = claim::claim(conn, self.programme.event.id, ticket_type, quantity, self.pass, marks)?;
            shelf.insert(ticket_type, claimed.into());
        }
        Ok(shelf)
    }

    /// Deals the claimed tickets out in the order of arrival.
    fn deal(&self, agreed: Vec<(usize, Agreement)>, shelf: &mut Shelf, allowances: &mut Allowances) -> Dealt<'a> {
        let mut dealt = Dealt { deals: Vec::with_capacity(agreed.len()), short: Vec::new(), over: Vec::new() };
        for (place, agreement) in agreed {
            let Some(entry) = self.entries.get(place) else { continue };
            // Fewer is for those whom the waiting pass leaves short: rows that others have locked may yet be free.
            let fewer = agreement.accept_fewer && self.pass == Pass::Wait;
            if let Err(error) = allowances.check(entry.email(), agreement.quantity()) {
                dealt.over.push((place, error));
            } else if let Some(tickets) = rules::deal(&agreement, shelf, fewer) {
                allowances.note(entry.email(), i64::try_from(tickets.len()).unwrap_or(i64::MAX));
                dealt.deals.push(self.strike(place, entry, &agreement, tickets));
            } else {
                dealt.short.push((place, agreement));
            }
        }
        dealt
    }

    fn strike(&self, place: usize, entry: &'a Entry, agreement: &Agreement, mut tickets: Vec<Ticket>) -> Deal<'a> {
        let expires_at = entry.request.taking.hold(&self.programme.event).map(|time| self.terms.now + time);
        if expires_at.is_none() {
            for ticket in &mut tickets {
                ticket.code = Some(new_ticket_code(ticket.position));
            }
        }
        tickets.sort_by_key(|ticket| ticket.position);
        let lines = rules::order_lines(agreement, &tickets);
        let purchase = &entry.request.purchase;
        let order = Order {
            id: entry.id,
            status: if expires_at.is_some() { OrderStatus::Held } else { OrderStatus::Sold },
            buyer_name: purchase.buyer_name.clone(),
            buyer_email: purchase.buyer_email.as_str().to_owned(),
            positions: tickets.iter().map(|ticket| ticket.position).collect(),
            quantity: i32::try_from(tickets.len()).unwrap_or(i32::MAX),
            requested_quantity: i32::try_from(agreement.quantity()).unwrap_or(i32::MAX),
            total_minor: rules::total_minor(&lines).unwrap_or(i64::MAX),
            lines,
            currency: self.programme.event.currency,
            caller: entry.request.caller,
            access_key: new_access_key(),
            cancelled_quantity: 0,
            expires_at,
            created_at: self.terms.now,
        };
        Deal { place, key: entry.request.key.as_ref(), order, tickets }
    }

    /// Stores the orders and marks their tickets. An order whose key was stored meanwhile by another transaction is answered with that
    /// one; its own tickets were locked and not marked, so they are free again, and are returned.
    fn store(&mut self, conn: &mut PgConnection, mut deals: Vec<Deal<'a>>) -> Result<Vec<Ticket>, DbError> {
        if deals.is_empty() {
            return Ok(Vec::new());
        }
        // By key, so that two batches with the same keys wait for each other in one order.
        deals.sort_by(|left, right| left.key.map(|key| &key.key).cmp(&right.key.map(|key| &key.key)));
        let rows: Vec<(&Order, Option<&IdempotencyKey>)> = deals.iter().map(|deal| (&deal.order, deal.key)).collect();
        let stored = queries::insert_orders(conn, &self.programme.event, &rows)?;
        let (kept, lost): (Vec<Deal<'_>>, Vec<Deal<'_>>) = deals.into_iter().partition(|deal| stored.contains(&deal.order.id));
        let (mut sold, mut held) = (Vec::new(), Vec::new());
        for (order, ticket) in kept.iter().flat_map(|deal| deal.tickets.iter().map(|ticket| (&deal.order, ticket))) {
            let (position, order_id) = (ticket.position, order.id);
            match order.expires_at {
                None => sold.push(Sold { position, order: order_id, code: ticket.code.clone().unwrap_or_default() }),
                Some(until) => held.push(Held { position, order: order_id, until }),
            }
        }
        claim::take(conn, self.programme.event.id, sold, held)?;
        let changes = kept.iter().map(|deal| OrderChanged { order: deal.order.id, number: MAKING }).collect();
        jobs::follow_up(conn, self.programme.event.id, self.terms.now, changes)?;
        let type_codes = type_codes(self.programme);
        for deal in kept {
            let placed = Placed { order: deal.order, tickets: deal.tickets, type_codes: Arc::clone(&type_codes) };
            self.settle(deal.place, Ok(placed));
        }
        if !lost.is_empty() {
            self.answer_known_keys(conn)?;
        }
        Ok(lost.into_iter().flat_map(|deal| deal.tickets).collect())
    }

    /// Tells those who would have more than the event allows them. What they have may be the order of this very request, sent twice: then
    /// that is the answer.
    fn settle_over(&mut self, conn: &mut PgConnection, over: Vec<(usize, OrderError)>) -> Result<(), DbError> {
        if over.is_empty() {
            return Ok(());
        }
        self.answer_known_keys(conn)?;
        for (place, error) in over {
            if self.is_open(place) {
                self.settle(place, Err(error));
            }
        }
        Ok(())
    }

    /// Says what is left to those who were short. After the skipping pass nothing is certain yet.
    fn settle_short(&mut self, conn: &mut PgConnection, short: &[(usize, Agreement)], shelf: &Shelf) -> Result<(), DbError> {
        if short.is_empty() {
            return Ok(());
        }
        // Who holds the last tickets may be the same request, sent twice: then its order is the answer, not a shortage.
        self.answer_known_keys(conn)?;
        if self.pass == Pass::Skip {
            return Ok(());
        }
        // This is read after the claim. A ticket that came back in between was held when it was claimed for and is not any more: to call it
        // sold out would be true at no moment.
        let left = inventory::left(conn, self.programme.event.id, self.terms.now)?;
        // What corrupt holds keep is not to be had, so that nobody should wait for it; any other hold that is over came while this claimed, from
        // somebody who had the tickets locked for longer than the hold was to last.
        let free = inventory::left(conn, self.programme.event.id, DateTime::UNIX_EPOCH)?;
        if queries::count_due(conn, self.programme.event.id, self.terms.now)? > self.corrupt {
            return Ok(());
        }
        for (place, agreement) in
            short.iter().filter(|(place, _)| self.verdicts.get(*place).is_some_and(Option::is_none)).collect::<Vec<_>>()
        {
            let free_of = |line: &rules::AgreedLine| free.get(&line.ticket_type).map_or(0, |left| left.available);
            let of_line = |line: &rules::AgreedLine| Shortage {
                ticket_type: line.code.clone(),
                requested: line.quantity,
                available: shelf.get(&line.ticket_type).map_or(0, |tickets| i64::try_from(tickets.len()).unwrap_or(i64::MAX)),
                held: left.get(&line.ticket_type).map_or(0, |left| left.held),
            };
            let lines = || agreement.lines.iter().map(|line| (of_line(line), free_of(line)));
            if lines().any(|(found, available)| found.available < found.requested.min(available)) {
                continue;
            }
            let shortages = lines().map(|(found, _)| found).filter(|found| found.available < found.requested).collect();
            self.settle(*place, Err(shortage_error(shortages)));
        }
        Ok(())
    }

    /// Entries that share a key with one before them get its outcome, if their request is the same too.
    fn answer_doubles(&mut self) {
        for (place, entry) in self.open() {
            if !self.is_double(place) {
                continue;
            }
            let Some(first) = self.firsts.get(place).copied() else { continue };
            let is_same = self.entries.get(first).is_some_and(|other| other.request.key == entry.request.key);
            match self.verdicts.get(first) {
                Some(Some(Verdict::Settled(outcome))) if is_same => {
                    let outcome = outcome.as_ref().clone();
                    self.settle(place, outcome);
                }
                // The first was refused, so the key is still free: this one is looked at again, by itself.
                Some(Some(Verdict::Settled(outcome))) if outcome.is_err() && self.pass == Pass::Skip => {}
                _ if is_same => {}
                _ => self.settle(place, Err(OrderError::KeyReused)),
            }
        }
    }
}

/// The claimed tickets that were dealt, and those that were not.
fn deals_and_rest<'t>(deals: &'t [Deal<'_>], shelf: &'t Shelf) -> (Vec<&'t Ticket>, Vec<&'t Ticket>) {
    (deals.iter().flat_map(|deal| &deal.tickets).collect(), shelf.values().flatten().collect())
}

fn shortage_error(shortages: Vec<Shortage>) -> OrderError {
    let kind = match shortages.iter().map(|shortage| shortage.available).min() {
        Some(0) if shortages.iter().all(|shortage| shortage.available > 0 || shortage.held > 0) => Short::AllHeld,
        Some(0) => Short::SoldOut,
        _ => Short::TooFewLeft,
    };
    OrderError::Short(kind, shortages)
}
