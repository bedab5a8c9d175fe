//! The sale: a batch of purchases of one event in one transaction.
//!
//! The statements of a sale, in this order: the event and its types; the orders that these keys have already; the claim of each
//! type, in the order of the types' ids; the new orders; the tickets. The order is the lock order: tickets by (type, position) before keys, and
//! no statement after the keys waits for anybody.
//!
//! A batch goes through two passes. The first *skips* rows that others have locked, so that nobody waits for anybody. Whoever it leaves
//! short goes through a second transaction that *waits* for those rows, for a bounded time, and is therefore exact. The second pass starts
//! with no locks: waiting for tickets of one type while keeping those of another is how two baskets deadlock.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use chrono::{DateTime, Utc};
use diesel::PgConnection;

use super::{
    Order, OrderError, OrderStatus, Placed, Request, Short, Shortage, queries,
    rules::{self, Agreement, Shelf},
    type_codes,
};
use crate::{
    db::{DbError, transaction},
    events::{self, EventError, Programme},
    ids::{OrderId, TicketTypeId, new_access_key, new_ticket_code},
    inventory::{
        self, Ticket,
        claim::{self, Pass, Sold},
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

/// Sells to every request of a batch, in the order of arrival, and returns their outcomes in the same order.
///
/// Each stands alone: one that is short or refused takes nothing from the others. Requests with the same key are one order.
///
/// # Errors
/// [`DbError`] if the transaction as a whole failed: nothing was sold, unless it is [`DbError::CommitUnknown`].
pub fn sell(
    conn: &mut PgConnection,
    now: DateTime<Utc>,
    limits: SaleLimits,
    slug: &str,
    requests: &[Request],
) -> Result<Vec<Outcome>, DbError> {
    let everyone: Vec<(OrderId, &Request)> = requests.iter().map(|request| (OrderId::new(), request)).collect();
    let first = pass(conn, now, limits, slug, &everyone, Pass::Skip)?;
    let short: Vec<(OrderId, &Request)> =
        everyone.iter().zip(&first).filter(|(_, verdict)| matches!(verdict, Verdict::LookAgain)).map(|(request, _)| *request).collect();
    let second = if short.is_empty() { Vec::new() } else { second_pass(conn, now, limits, slug, &short) };
    let mut second = second.into_iter();
    let settle = |verdict| match verdict {
        Verdict::Settled(outcome) => outcome,
        // The second pass answers every request that it was given, so the default is never used.
        Verdict::LookAgain => second.next().unwrap_or_else(|| Err(DbError::Busy("the second pass left it out".to_owned()).into())),
    };
    Ok(first.into_iter().map(settle).collect())
}

/// The waiting pass. Its failure is the failure of those who were short, not of those who were served.
fn second_pass(conn: &mut PgConnection, now: DateTime<Utc>, limits: SaleLimits, slug: &str, short: &[(OrderId, &Request)]) -> Vec<Outcome> {
    match pass(conn, now, limits, slug, short, Pass::Wait) {
        Ok(verdicts) => verdicts
            .into_iter()
            .map(|verdict| match verdict {
                Verdict::Settled(outcome) => outcome,
                Verdict::LookAgain => Err(DbError::Busy("the waiting claim was not final".to_owned()).into()),
            })
            .collect(),
        Err(error) => {
            let message = error.to_string();
            tracing::debug!(message, "the waiting claim failed");
            short.iter().map(|_| Err(error.clone().into())).collect()
        }
    }
}

/// What one pass found for one request.
enum Verdict {
    /// The last word.
    Settled(Outcome),
    /// Short, as far as rows that nobody has locked are concerned.
    LookAgain,
}

fn pass(
    conn: &mut PgConnection,
    now: DateTime<Utc>,
    limits: SaleLimits,
    slug: &str,
    requests: &[(OrderId, &Request)],
    pass: Pass,
) -> Result<Vec<Verdict>, DbError> {
    transaction(conn, |conn| {
        if pass == Pass::Wait {
            queries::bound_waits(conn, limits.lock_wait, limits.claim_wait)?;
        }
        let programme = match events::programme(conn, slug) {
            Ok(programme) => programme,
            Err(EventError::Db(error)) => return Err(error),
            Err(_) => return Ok(requests.iter().map(|_| Verdict::Settled(Err(OrderError::EventNotFound(slug.to_owned())))).collect()),
        };
        Batch::new(&programme, requests, now, pass).run(conn)
    })
}

/// One pass of one batch.
struct Batch<'a> {
    programme: &'a Programme,
    requests: &'a [(OrderId, &'a Request)],
    now: DateTime<Utc>,
    pass: Pass,
    verdicts: Vec<Option<Verdict>>,
}

/// A purchase that got its tickets, before it is stored.
struct Deal<'a> {
    place: usize,
    request: &'a Request,
    order: Order,
    tickets: Vec<Ticket>,
}

impl<'a> Batch<'a> {
    fn new(programme: &'a Programme, requests: &'a [(OrderId, &'a Request)], now: DateTime<Utc>, pass: Pass) -> Self {
        Self { programme, requests, now, pass, verdicts: requests.iter().map(|_| None).collect() }
    }

    fn run(mut self, conn: &mut PgConnection) -> Result<Vec<Verdict>, DbError> {
        self.answer_known_keys(conn)?;
        let agreed = self.agree();
        let mut shelf = self.claim(conn, &agreed)?;
        let (deals, short) = self.deal(agreed, &mut shelf);
        self.store(conn, deals)?;
        self.settle_short(conn, &short, &shelf)?;
        self.answer_doubles();
        Ok(self.verdicts.into_iter().map(|verdict| verdict.unwrap_or(Verdict::LookAgain)).collect())
    }

    fn settle(&mut self, place: usize, outcome: Outcome) {
        if let Some(slot) = self.verdicts.get_mut(place) {
            *slot = Some(Verdict::Settled(outcome));
        }
    }

    fn open_places(&self) -> Vec<usize> {
        (0..self.requests.len()).filter(|place| self.is_open(*place)).collect()
    }

    fn is_open(&self, place: usize) -> bool {
        self.verdicts.get(place).is_some_and(Option::is_none)
    }

    /// Requests whose key has an order already are answered with it.
    fn answer_known_keys(&mut self, conn: &mut PgConnection) -> Result<(), DbError> {
        let open = self.open_places();
        let keys: Vec<(String, &str)> = open.iter().filter_map(|place| self.key(*place)).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let known = queries::orders_by_keys(conn, self.programme.event.id, &keys)?;
        let known: HashMap<(String, String), queries::Keyed> =
            known.into_iter().map(|keyed| ((keyed.scope.clone(), keyed.key.clone()), keyed)).collect();
        for place in open {
            let Some((_, Request { key: Some(key), caller, .. })) = self.requests.get(place) else { continue };
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

    fn key(&self, place: usize) -> Option<(String, &'a str)> {
        let (_, request) = self.requests.get(place)?;
        request.key.as_ref().map(|key| (request.caller.to_string(), key.key.as_str()))
    }

    fn placed(&self, conn: &mut PgConnection, order: Order) -> Result<Placed, DbError> {
        let tickets = inventory::tickets_of(conn, self.programme.event.id, order.id, &order.positions)?;
        Ok(Placed { order, tickets, type_codes: type_codes(self.programme) })
    }

    /// The open requests that the event's rules allow. A second request with the key of one before it waits for that one's outcome.
    fn agree(&mut self) -> Vec<(usize, Agreement)> {
        let mut agreed = Vec::with_capacity(self.requests.len());
        for (place, (_, request)) in self.requests.iter().enumerate() {
            if !self.is_open(place) || self.first_with_its_key(place) != place {
                continue;
            }
            match rules::agree(self.programme, &request.purchase, self.now) {
                Ok(agreement) => agreed.push((place, agreement)),
                Err(error) => self.settle(place, Err(error)),
            }
        }
        agreed
    }

    /// The place of the first request that has the same key; its own, if it has none.
    fn first_with_its_key(&self, place: usize) -> usize {
        let Some(key) = self.key(place) else { return place };
        (0..place).find(|before| self.key(*before).as_ref() == Some(&key)).unwrap_or(place)
    }

    /// Locks what all of them together want, type by type in the order of ids.
    fn claim(&self, conn: &mut PgConnection, agreed: &[(usize, Agreement)]) -> Result<Shelf, DbError> {
        let mut wanted: BTreeMap<TicketTypeId, i64> = BTreeMap::new();
        for line in agreed.iter().flat_map(|(_, agreement)| &agreement.lines) {
            *wanted.entry(line.ticket_type).or_default() += line.quantity;
        }
        let mut shelf = Shelf::new();
        for (ticket_type, quantity) in wanted {
            let claimed = claim::claim(conn, self.programme.event.id, ticket_type, quantity, self.pass)?;
            shelf.insert(ticket_type, claimed.into());
        }
        Ok(shelf)
    }

    /// Deals the claimed tickets out in the order of arrival; returns who got theirs, and who was short.
    fn deal(&self, agreed: Vec<(usize, Agreement)>, shelf: &mut Shelf) -> (Vec<Deal<'a>>, Vec<(usize, Agreement)>) {
        let (mut deals, mut short) = (Vec::with_capacity(agreed.len()), Vec::new());
        for (place, agreement) in agreed {
            // Fewer is for those whom the waiting pass leaves short: rows that others have locked may yet be free.
            let fewer = agreement.accept_fewer && self.pass == Pass::Wait;
            let dealt = rules::deal(&agreement, shelf, fewer);
            match (dealt, self.requests.get(place)) {
                (Some(tickets), Some((id, request))) => deals.push(self.strike(place, *id, request, &agreement, tickets)),
                _ => short.push((place, agreement)),
            }
        }
        (deals, short)
    }

    fn strike(&self, place: usize, id: OrderId, request: &'a Request, agreement: &Agreement, mut tickets: Vec<Ticket>) -> Deal<'a> {
        for ticket in &mut tickets {
            ticket.code = Some(new_ticket_code(ticket.position));
        }
        tickets.sort_by_key(|ticket| ticket.position);
        let lines = rules::order_lines(agreement, &tickets);
        let order = Order {
            id,
            status: OrderStatus::Sold,
            buyer_name: request.purchase.buyer_name.clone(),
            buyer_email: request.purchase.buyer_email.as_str().to_owned(),
            positions: tickets.iter().map(|ticket| ticket.position).collect(),
            quantity: i32::try_from(tickets.len()).unwrap_or(i32::MAX),
            requested_quantity: i32::try_from(agreement.quantity()).unwrap_or(i32::MAX),
            total_minor: rules::total_minor(&lines).unwrap_or(i64::MAX),
            lines,
            currency: self.programme.event.currency,
            caller: request.caller,
            access_key: new_access_key(),
            expires_at: None,
            created_at: self.now,
        };
        Deal { place, request, order, tickets }
    }

    /// Stores the orders and marks their tickets. An order whose key another process stored meanwhile is answered with that one; its
    /// own tickets were locked and not marked, so they are free again.
    fn store(&mut self, conn: &mut PgConnection, mut deals: Vec<Deal<'a>>) -> Result<(), DbError> {
        if deals.is_empty() {
            return Ok(());
        }
        // By key, so that two batches with the same keys wait for each other in one order.
        deals.sort_by(|left, right| self.key(left.place).cmp(&self.key(right.place)));
        let rows: Vec<(&Order, Option<&super::IdempotencyKey>)> =
            deals.iter().map(|deal| (&deal.order, deal.request.key.as_ref())).collect();
        let stored = queries::insert_orders(conn, self.programme.event.id, &rows)?;
        let (kept, lost): (Vec<Deal<'_>>, Vec<Deal<'_>>) = deals.into_iter().partition(|deal| stored.contains(&deal.order.id));
        let sold: Vec<Sold> = kept
            .iter()
            .flat_map(|deal| deal.tickets.iter().map(|ticket| (deal.order.id, ticket)))
            .map(|(order, ticket)| Sold { position: ticket.position, order, code: ticket.code.clone().unwrap_or_default() })
            .collect();
        claim::take(conn, self.programme.event.id, &sold)?;
        let type_codes = type_codes(self.programme);
        for deal in kept {
            let placed = Placed { order: deal.order, tickets: deal.tickets, type_codes: type_codes.clone() };
            self.settle(deal.place, Ok(placed));
        }
        if lost.is_empty() { Ok(()) } else { self.answer_known_keys(conn) }
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
        let left = inventory::left(conn, self.programme.event.id, self.now)?;
        for (place, agreement) in short {
            if !self.is_open(*place) {
                continue;
            }
            let shortages = agreement
                .lines
                .iter()
                .map(|line| Shortage {
                    ticket_type: line.code.clone(),
                    requested: line.quantity,
                    available: shelf.get(&line.ticket_type).map_or(0, |tickets| i64::try_from(tickets.len()).unwrap_or(i64::MAX)),
                    held: left.get(&line.ticket_type).map_or(0, |left| left.held),
                })
                .filter(|shortage| shortage.available < shortage.requested)
                .collect::<Vec<_>>();
            self.settle(*place, Err(shortage_error(shortages)));
        }
        Ok(())
    }

    /// Requests that share a key with one before them get its outcome, if their request is the same too.
    fn answer_doubles(&mut self) {
        for place in self.open_places() {
            let first = self.first_with_its_key(place);
            let (Some((_, request)), Some((_, other))) = (self.requests.get(place), self.requests.get(first)) else { continue };
            if first == place {
                continue;
            }
            if request.key != other.key {
                self.settle(place, Err(OrderError::KeyReused));
            } else if let Some(Some(Verdict::Settled(outcome))) = self.verdicts.get(first) {
                self.settle(place, outcome.clone());
            }
        }
    }
}

fn shortage_error(shortages: Vec<Shortage>) -> OrderError {
    let kind = match shortages.iter().map(|shortage| shortage.available).min() {
        Some(0) if shortages.iter().all(|shortage| shortage.available > 0 || shortage.held > 0) => Short::AllHeld,
        Some(0) => Short::SoldOut,
        _ => Short::TooFewLeft,
    };
    OrderError::Short(kind, shortages)
}
