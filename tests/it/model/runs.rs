//! How a property is tried: many small cases on one database, each an event of its own, and the shortest one that fails is told.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use boxoffice::orders::{Breach, audit};
use chrono::{DateTime, TimeDelta, Utc};
use proptest::{
    prelude::*,
    test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner},
};
use serde_json::json;

use super::steps::{KINDS, Terms};
use crate::support::{Reply, Server, Shop};

/// Longest search for a shorter case that fails, in milliseconds.
const SHRINK_MS_MAX: u32 = 60_000;

/// What the cases are made of unless `PROPTEST_RNG_SEED` says otherwise.
const SEED: u64 = 20_261_201;

/// A shop with two further servers, between which its customers choose.
pub struct House {
    pub shop: Shop,
    pub servers: [Mutex<Server>; 2],
    events: AtomicUsize,
    /// Breaches of the cases before, which the one at hand is not to blame for.
    breaches: Mutex<Vec<Breach>>,
    /// How often each answer came, by status and code.
    told: Mutex<BTreeMap<String, usize>>,
}

impl House {
    pub fn open() -> Self {
        let shop = Shop::open();
        shop.clock.set("2027-01-05T10:00:00Z".parse().unwrap());
        let servers = std::array::from_fn(|_| Mutex::new(shop.another_server()));
        Self { shop, servers, events: AtomicUsize::new(0), breaches: Mutex::default(), told: Mutex::default() }
    }

    /// Puts an event on sale for one case, and returns its path.
    pub fn put_on_sale(&self, terms: &Terms) -> String {
        let slug = format!("gala-{}", self.events.fetch_add(1, Ordering::SeqCst));
        let types: Vec<(&str, i64, i64)> = KINDS.iter().zip(terms.stock).map(|((code, price), stock)| (*code, *price, stock)).collect();
        self.shop.event(&slug, json!({"max_per_order": terms.max_per_order, "max_per_buyer": terms.max_per_buyer}), &types);
        format!("/api/v1/events/{slug}")
    }

    /// Closes one of the servers, and opens another in its place.
    pub fn restart(&self, server: usize) {
        *self.servers[server].lock().unwrap() = self.shop.another_server();
    }

    /// Lets time pass for everybody.
    pub fn wait(&self, secs: i64) -> DateTime<Utc> {
        let later = self.shop.clock.now() + TimeDelta::seconds(secs);
        self.shop.clock.set(later);
        later
    }

    /// Notes an answer, for [`House::assert_told`].
    pub fn note(&self, reply: &Reply) {
        let what = if reply.status < 400 { reply.status.to_string() } else { format!("{} {}", reply.status, reply.code()) };
        *self.told.lock().unwrap().entry(what).or_default() += 1;
    }

    /// Every one of these answers came: cases that never meet them would show nothing.
    pub fn assert_told(&self, answers: &[&str]) {
        let told = self.told.lock().unwrap();
        println!("{} events, answers: {told:?}", self.events.load(Ordering::SeqCst));
        for answer in answers {
            assert!(told.contains_key(*answer), "nobody was told {answer}: {told:?}");
        }
    }

    /// What was checked of a case, and that the audit finds nothing that it did not find before. It is asked whatever was checked: the next
    /// case must not be blamed for what this one broke.
    pub fn audit(&self, checked: Result<(), TestCaseError>) -> Result<(), TestCaseError> {
        let found = audit(&mut self.shop.database.connect()).unwrap().breaches;
        let before = std::mem::replace(&mut *self.breaches.lock().unwrap(), found.clone());
        checked?;
        let new: Vec<&Breach> = found.iter().filter(|breach| !before.contains(breach)).collect();
        prop_assert!(new.is_empty(), "{:#?}", new);
        Ok(())
    }
}

/// Tries `holds` for `cases` cases (or as many as `PROPTEST_CASES` says); panics with the steps of the shortest one for which it does not.
pub fn try_cases<S: Strategy>(
    cases: u32,
    strategy: &S,
    tell: impl Fn(&S::Value) -> String,
    holds: impl Fn(S::Value) -> Result<(), TestCaseError>,
) where
    S::Value: Debug,
{
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(cases);
    // The same cases each time, so that a change is not blamed for what chance found; other seeds are for who looks for more.
    let rng_seed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok()).map_or(RngSeed::Fixed(SEED), RngSeed::Fixed);
    let config = Config { cases, max_shrink_time: SHRINK_MS_MAX, failure_persistence: None, rng_seed, ..Config::default() };
    match TestRunner::new(config).run(strategy, holds) {
        Ok(()) => {}
        Err(TestError::Fail(reason, case)) => panic!("{reason}\nafter\n{}", tell(&case)),
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}
