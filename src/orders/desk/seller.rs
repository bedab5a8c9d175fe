//! A desk's connection, and what to do when it or a batch fails.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
    time::Duration,
};

use chrono::{DateTime, Utc};

use super::super::{
    OrderError,
    sale::{Entry, SaleLimits, Terms, Verdict},
};
use crate::{clock::Clock, db::DbError, inventory::claim::Pass};

/// How often a batch whose outcome is unknown is asked for: PostgreSQL recovers from a crash in seconds.
const RECOVERY_TRIES: u32 = 20;
/// What an order that is stored a second time runs into.
const ORDERS_KEY: &str = "orders_pkey";
/// Pause between two tries.
const RECOVERY_PAUSE: Duration = Duration::from_millis(250);

/// Makes a connection.
pub(super) type Connect<C> = Box<dyn FnMut() -> Result<C, DbError> + Send>;

/// One pass over a batch, on a connection.
type PassFn<'p, C> = dyn FnMut(&mut C, Terms<'_>, &[&Entry]) -> Result<Vec<Verdict>, DbError> + 'p;

/// A connection that is kept, and made anew when it broke.
pub(super) struct Seller<C> {
    connect: Connect<C>,
    conn: Option<C>,
    clock: Clock,
    limits: SaleLimits,
}

impl<C> Seller<C> {
    /// It connects when it first sells.
    pub(super) fn new(connect: Connect<C>, clock: Clock, limits: SaleLimits) -> Self {
        Self { connect, conn: None, clock, limits }
    }

    /// Sells a group of one event; every purchase gets a verdict, whatever fails.
    pub(super) fn sell(&mut self, slug: &str, entries: &[&Entry], pass: Pass, run: &mut PassFn<'_, C>) -> Vec<Verdict> {
        match self.sell_surely(slug, entries, run) {
            Ok(verdicts) => verdicts,
            // One purchase that the database refuses must not take the others down with it.
            Err(error) if entries.len() > 1 && is_one_order_s_fault(&error, pass) => {
                tracing::warn!(%error, event = slug, orders = entries.len(), "a batch failed; its orders are sold singly");
                self.sell_singly(slug, entries, run)
            }
            Err(error @ DbError::Busy(_)) if pass == Pass::Wait => self.sell_by_types(slug, entries, error, run),
            Err(error) => refuse(entries.len(), &error),
        }
    }

    /// After a wait in vain: sells those of each set of ticket types by themselves, so that a type that somebody keeps locked is not waited for
    /// by those who want another. Single types come first, since they tell which one it is; after two the rest need not wait.
    fn sell_by_types(&mut self, slug: &str, entries: &[&Entry], busy: DbError, run: &mut PassFn<'_, C>) -> Vec<Verdict> {
        let types = |entry: &Entry| entry.request.purchase.lines.iter().map(|(code, _)| code.clone()).collect::<BTreeSet<String>>();
        let mut groups: Vec<(BTreeSet<String>, Vec<usize>)> = Vec::new();
        for (place, entry) in entries.iter().enumerate() {
            let types = types(entry);
            match groups.iter_mut().find(|(others, _)| *others == types) {
                Some((_, places)) => places.push(place),
                None => groups.push((types, vec![place])),
            }
        }
        if groups.len() == 1 {
            return refuse(entries.len(), &busy);
        }
        groups.sort_by_key(|(types, _)| types.len());
        let mut in_vain: Vec<BTreeSet<String>> = Vec::new();
        let mut verdicts: BTreeMap<usize, Verdict> = BTreeMap::new();
        for (types, places) in groups {
            let group: Vec<&Entry> = places.iter().filter_map(|place| entries.get(*place).copied()).collect();
            let is_in_vain = in_vain.len() == 2 || in_vain.iter().any(|others| others.is_subset(&types));
            let sold = if is_in_vain { Err(busy.clone()) } else { self.sell_surely(slug, &group, run) };
            if !is_in_vain && matches!(sold, Err(DbError::Busy(_))) {
                in_vain.push(types);
            }
            verdicts.extend(places.into_iter().zip(sold.unwrap_or_else(|error| refuse(group.len(), &error))));
        }
        verdicts.into_values().collect()
    }

    /// Sells each by itself. If two of them were waited for in vain, it is not one order's fault after all, and the rest need not wait.
    fn sell_singly(&mut self, slug: &str, entries: &[&Entry], run: &mut PassFn<'_, C>) -> Vec<Verdict> {
        let mut in_vain = 0;
        let singly = |entry: &&Entry| {
            if in_vain == 2 {
                return refuse(1, &DbError::Busy("others of the batch were waited for in vain".to_owned()));
            }
            self.sell_surely(slug, &[*entry], run).unwrap_or_else(|error| {
                in_vain += u32::from(matches!(error, DbError::Busy(_)));
                refuse(1, &error)
            })
        };
        entries.iter().flat_map(singly).collect()
    }

    /// Runs one pass. A connection that was lost before COMMIT changed nothing, so the pass is run once more on a new one; one that was
    /// lost at COMMIT is asked for what became of the batch.
    fn sell_surely(&mut self, slug: &str, entries: &[&Entry], run: &mut PassFn<'_, C>) -> Result<Vec<Verdict>, DbError> {
        let may_be_stale = self.conn.is_some();
        let mut result = self.attempt(slug, entries, false, run);
        if may_be_stale && matches!(result, Err(DbError::Unavailable(_))) {
            result = self.attempt(slug, entries, false, run);
        }
        match result {
            Err(DbError::CommitUnknown(reason)) => self.recover(slug, entries, run, reason),
            // One of these orders is there: from a try whose COMMIT was not answered, and which ended only now.
            Err(error) if error.is_constraint(ORDERS_KEY) => self.recover(slug, entries, run, error.to_string()),
            result => result,
        }
    }

    /// Runs a pass again whose COMMIT was not answered. Each order that was stored is found by its id. Storing one whose transaction is
    /// still ending waits for that end, so nothing is sold twice.
    fn recover(&mut self, slug: &str, entries: &[&Entry], run: &mut PassFn<'_, C>, reason: String) -> Result<Vec<Verdict>, DbError> {
        tracing::warn!(reason, event = slug, orders = entries.len(), "a COMMIT was not answered; its orders are looked up");
        for _ in 0..RECOVERY_TRIES {
            match self.attempt(slug, entries, true, run) {
                Err(DbError::Unavailable(_) | DbError::CommitUnknown(_) | DbError::Busy(_)) => thread::sleep(RECOVERY_PAUSE),
                // The try before was not there to be found, and ended well just as this one stored the same ids.
                Err(error) if error.is_constraint(ORDERS_KEY) => thread::sleep(RECOVERY_PAUSE),
                result => return result,
            }
        }
        Err(DbError::CommitUnknown(reason))
    }

    fn attempt(&mut self, slug: &str, entries: &[&Entry], again: bool, run: &mut PassFn<'_, C>) -> Result<Vec<Verdict>, DbError> {
        let limits = self.limits;
        self.run(|conn, now| run(conn, Terms { slug, now, limits, again }, entries))
    }

    /// Runs something else on the connection; it is given the present moment.
    pub(super) fn run<T>(&mut self, work: impl FnOnce(&mut C, DateTime<Utc>) -> Result<T, DbError>) -> Result<T, DbError> {
        let now = self.clock.now();
        let mut conn = match self.conn.take() {
            Some(conn) => conn,
            None => (self.connect)()?,
        };
        let result = catch_unwind(AssertUnwindSafe(|| work(&mut conn, now)));
        let result = result.unwrap_or_else(|_panic| Err(DbError::Panicked("in a batch of the desk".to_owned())));
        // A connection that saw a panic or broke is not used again; what it had locked, its end unlocks.
        if !matches!(result, Err(DbError::Unavailable(_) | DbError::CommitUnknown(_) | DbError::Panicked(_))) {
            self.conn = Some(conn);
        }
        result
    }
}

/// Whether the batch may have failed for one of its orders, and not for the state of the database. In the skipping pass busy is such a
/// failure: the key of one order may be held by a transaction elsewhere that does not end. In the waiting pass it is a ticket type that was
/// waited for in vain, and to wait again for each order would take minutes.
fn is_one_order_s_fault(error: &DbError, pass: Pass) -> bool {
    match error {
        DbError::Constraint { .. } | DbError::Other(_) | DbError::SwallowedError | DbError::Panicked(_) => true,
        DbError::Busy(_) => pass == Pass::Skip,
        DbError::Unavailable(_) | DbError::Conflict(_) | DbError::CommitUnknown(_) => false,
    }
}

fn refuse(count: usize, error: &DbError) -> Vec<Verdict> {
    (0..count).map(|_| Verdict::Settled(Box::new(Err(OrderError::Db(error.clone()))))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::OrderId,
        orders::{Caller, LineInput, PurchaseInput, Request, Taking},
    };

    /// Number of the connection, from 1.
    type Conn = u32;

    fn seller() -> Seller<Conn> {
        let mut made = 0;
        let connect = move || {
            made += 1;
            Ok(made)
        };
        Seller::new(Box::new(connect), Clock::system(), SaleLimits::default())
    }

    fn entries(count: usize) -> Vec<Entry> {
        let input = PurchaseInput {
            buyer_name: Some("Ada".into()),
            buyer_email: Some("ada@example.org".into()),
            lines: vec![LineInput { ticket_type: Some("standard".into()), quantity: Some(1) }],
            accept_fewer: false,
        };
        let request = Request { purchase: input.parse().unwrap(), caller: Caller::Web, key: None, taking: Taking::Sell };
        (0..count).map(|_| Entry { id: OrderId::new(), request: request.clone() }).collect()
    }

    /// Sells through `run` and tells for each purchase whether it was answered as a sale would be.
    fn sell(seller: &mut Seller<Conn>, count: usize, pass: Pass, run: &mut PassFn<'_, Conn>) -> Vec<bool> {
        let entries = entries(count);
        let verdicts = seller.sell("gala", &entries.iter().collect::<Vec<_>>(), pass, run);
        verdicts.iter().map(|verdict| matches!(verdict, Verdict::LookAgain)).collect()
    }

    fn served(entries: &[&Entry]) -> Result<Vec<Verdict>, DbError> {
        Ok(entries.iter().map(|_| Verdict::LookAgain).collect())
    }

    #[test]
    fn one_order_that_panics_does_not_take_the_others_down() {
        let mut calls = 0;
        let told = sell(&mut seller(), 3, Pass::Skip, &mut |_, _, entries| {
            calls += 1;
            // The batch fails, and so does the second of the single ones.
            assert!(calls != 1 && calls != 3, "as the test wants it");
            served(entries)
        });
        assert_eq!(told, [true, false, true]);
    }

    #[test]
    fn a_connection_that_went_stale_is_replaced_and_nobody_hears_of_it() {
        let mut seller = seller();
        sell(&mut seller, 1, Pass::Skip, &mut |_, _, entries| served(entries));
        let mut used = Vec::new();
        let told = sell(&mut seller, 2, Pass::Skip, &mut |conn, _, entries| {
            used.push(*conn);
            if *conn == 1 { Err(DbError::Unavailable("gone".to_owned())) } else { served(entries) }
        });
        assert_eq!((told, used), (vec![true, true], vec![1, 2]));
    }

    #[test]
    fn a_commit_that_was_not_answered_is_asked_for_on_another_connection() {
        let mut tries = Vec::new();
        let told = sell(&mut seller(), 2, Pass::Skip, &mut |conn, terms, entries| {
            tries.push((*conn, terms.again));
            match tries.len() {
                1 => Err(DbError::CommitUnknown("cut".to_owned())),
                2 => Err(DbError::Unavailable("not back yet".to_owned())),
                _ => served(entries),
            }
        });
        assert_eq!((told, tries), (vec![true, true], vec![(1, false), (2, true), (3, true)]));
    }

    #[test]
    fn a_type_that_is_waited_for_in_vain_is_busy_for_those_who_want_it_and_for_nobody_else() {
        let want = |types: &[&str]| {
            let mut entry = entries(1).remove(0);
            entry.request.purchase.lines = types.iter().map(|code| ((*code).to_owned(), 1)).collect();
            entry
        };
        let batch = [want(&["a"]), want(&["b"]), want(&["a", "b"]), want(&["c"]), want(&["a"]), want(&["b", "c"])];
        let mut waits = 0;
        let verdicts = seller().sell("gala", &batch.iter().collect::<Vec<_>>(), Pass::Wait, &mut |_, _, entries| {
            if entries.iter().any(|entry| entry.request.purchase.lines.iter().any(|(code, _)| code == "a")) {
                waits += 1;
                return Err(DbError::Busy("lock timeout".to_owned()));
            }
            served(entries)
        });
        let told: Vec<bool> = verdicts.iter().map(|verdict| matches!(verdict, Verdict::LookAgain)).collect();
        assert_eq!((told, waits), (vec![false, true, false, true, false, true], 2));
    }

    #[test]
    fn whoever_waited_in_vain_does_not_wait_again_one_by_one() {
        let mut calls = 0;
        let told = sell(&mut seller(), 3, Pass::Wait, &mut |_, _, _| {
            calls += 1;
            Err(DbError::Busy("lock timeout".to_owned()))
        });
        assert_eq!((told, calls), (vec![false, false, false], 1));
    }
}
