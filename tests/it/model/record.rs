//! What was seen of one event while several clients were at it: when each request was sent and answered, and therefore what may have been
//! true in between. A refusal must have been true at some moment between its request and its answer.

use chrono::{DateTime, Utc};
use proptest::{prelude::*, test_runner::TestCaseError};
use serde_json::{Value, json};

use super::steps::{KINDS, Terms, Wish};

/// A moment, counted: nothing else happened at the same one.
pub type Tick = u64;

/// From before something began until after it was over.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub sent: Tick,
    pub answered: Tick,
}

/// What an order keeps others from having.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    Nothing,
    Held([i64; 2]),
    Sold([i64; 2]),
}

/// An order with everything that its client did to it.
#[derive(Clone, Debug)]
pub struct Own {
    pub id: String,
    pub buyer: usize,
    pub deadline: Option<DateTime<Utc>>,
    /// What it keeps after each request, and when that was.
    pub changes: Vec<(Span, Keeps)>,
    /// The last answer.
    pub last: Value,
}

/// A request that was refused.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub span: Span,
    pub wish: Wish,
    /// The order that the request has all the same: it was sent twice, or it is a confirmation.
    pub order: Option<String>,
    pub body: Value,
}

/// What one client saw, or all of them.
#[derive(Clone, Debug, Default)]
pub struct Record {
    pub orders: Vec<Own>,
    pub refusals: Vec<Refusal>,
    pub loads: Vec<(Span, usize, i64)>,
    /// When the clock was moved, and to what.
    pub clock: Vec<(Span, DateTime<Utc>)>,
    pub lines: Vec<(Tick, String)>,
}

impl Record {
    pub fn add(&mut self, other: Self) {
        self.orders.extend(other.orders);
        self.refusals.extend(other.refusals);
        self.loads.extend(other.loads);
        self.clock.extend(other.clock);
        self.lines.extend(other.lines);
    }

    /// Everything in its order, for people.
    pub fn told(&self) -> String {
        let mut lines = self.lines.clone();
        lines.sort();
        lines.into_iter().map(|(tick, line)| format!("{tick:>4} {line}\n")).collect()
    }

    /// What an order may have kept between two moments: everything from what it kept at the first to what it kept at the second.
    fn kept<'o>(&'o self, order: &'o Own, during: Span) -> impl Iterator<Item = Keeps> {
        let mut states = vec![(0, Keeps::Nothing)];
        let mut ends = Vec::new();
        let over = order
            .deadline
            .and_then(|deadline| self.clock.iter().filter(|(_, now)| *now >= deadline).map(|(span, _)| *span).min_by_key(|span| span.sent));
        for (number, (span, keeps)) in order.changes.iter().enumerate() {
            ends.push(span.answered);
            states.push((span.sent, *keeps));
            let next = order.changes.get(number + 1).map_or(Tick::MAX, |(span, _)| span.answered);
            // Whether the deadline or the next request came first is not known if they overlap; either may have been.
            if let (Keeps::Held(_), Some(over)) = (keeps, over.filter(|over| over.sent < next)) {
                ends.push(over.answered);
                states.push((over.sent, Keeps::Nothing));
            }
        }
        ends.push(Tick::MAX);
        states
            .into_iter()
            .zip(ends)
            .filter(move |((begin, _), end)| *begin < during.answered && *end > during.sent)
            .map(|((_, keeps), _)| keeps)
    }

    /// The fewest and the most tickets that orders may have kept between two moments, counted by `count`.
    fn range(&self, during: Span, except: Option<&str>, count: impl Fn(&Own, Keeps) -> i64) -> (i64, i64) {
        let others = self.orders.iter().filter(|order| Some(order.id.as_str()) != except);
        let of_order = |order: &Own| {
            let counts: Vec<i64> = self.kept(order, during).map(|keeps| count(order, keeps)).collect();
            (counts.iter().copied().min().unwrap_or(0), counts.iter().copied().max().unwrap_or(0))
        };
        others.map(of_order).fold((0, 0), |(fewest, most), (min, max)| (fewest + min, most + max))
    }

    /// The fewest and the most tickets of a kind that there may have been between two moments.
    fn loaded(&self, terms: &Terms, during: Span, kind: usize) -> (i64, i64) {
        let of = |is_there: &dyn Fn(&Span) -> bool| {
            self.loads.iter().filter(|(span, of, _)| *of == kind && is_there(span)).map(|(_, _, quantity)| quantity).sum::<i64>()
        };
        let stock = terms.stock[kind];
        (stock + of(&|span| span.answered < during.sent), stock + of(&|span| span.sent < during.answered))
    }

    /// Every refusal was true at some moment.
    pub fn check_refusals(&self, terms: &Terms) -> Result<(), TestCaseError> {
        for refusal in &self.refusals {
            self.check(terms, refusal)
                .map_err(|error| TestCaseError::fail(format!("{} told {}: {error}", refusal.span.answered, refusal.body)))?;
        }
        Ok(())
    }

    fn check(&self, terms: &Terms, refusal: &Refusal) -> Result<(), TestCaseError> {
        let Refusal { span, wish, order, body } = refusal;
        let except = order.as_deref();
        match body["code"].as_str().unwrap_or_default() {
            "limit_exceeded" if body["has"].is_null() => prop_assert!(wish.requested() > terms.max_per_order, "an order may have so many"),
            "limit_exceeded" => {
                let (fewest, most) = self.range(*span, except, |order, keeps| if order.buyer == wish.buyer { all(keeps) } else { 0 });
                let has = body["has"].as_i64().unwrap();
                prop_assert!((fewest..=most).contains(&has), "the buyer had {} to {}", fewest, most);
                prop_assert!(terms.max_per_buyer.is_some_and(|limit| has + wish.requested() > limit), "a buyer may have so many");
            }
            "sold_out" | "too_few_left" | "all_held" => {
                for shortage in body["shortages"].as_array().unwrap() {
                    self.check_shortage(terms, refusal, shortage)?;
                }
            }
            "hold_expired" => {
                let is_short = |kind: usize| {
                    let (_, taken) = self.range(*span, except, |_, keeps| of_kind(keeps, kind));
                    self.loaded(terms, *span, kind).0 - taken < wish.quantities[kind]
                };
                prop_assert!((0..KINDS.len()).any(is_short), "there were tickets for it at all times");
            }
            other => prop_assert!(false, "an answer that nobody should get: {}", other),
        }
        Ok(())
    }

    fn check_shortage(&self, terms: &Terms, refusal: &Refusal, shortage: &Value) -> Result<(), TestCaseError> {
        let Refusal { span, wish, order, body } = refusal;
        let kind = KINDS.iter().position(|(code, _)| shortage["ticket_type"] == *code).unwrap();
        let (available, held) = (shortage["available"].as_i64().unwrap(), shortage["held"].as_i64().unwrap());
        prop_assert_eq!(&shortage["requested"], &json!(wish.quantities[kind]));
        let except = order.as_deref();
        let (loaded_min, loaded_max) = self.loaded(terms, *span, kind);
        let (taken_min, taken_max) = self.range(*span, except, |_, keeps| of_kind(keeps, kind));
        let (fewest, most) = (loaded_min - taken_max, loaded_max - taken_min);
        prop_assert!((fewest..=most).contains(&available), "{} to {} of {} were left", fewest, most, KINDS[kind].0);
        let of_hold = |_: &Own, keeps| if matches!(keeps, Keeps::Held(_)) { of_kind(keeps, kind) } else { 0 };
        let (held_min, held_max) = self.range(*span, except, of_hold);
        prop_assert!((held_min..=held_max).contains(&held), "{} to {} of {} were held", held_min, held_max, KINDS[kind].0);
        if body["code"] == "sold_out" && available == 0 && held == 0 {
            let of_sale = |_: &Own, keeps| if matches!(keeps, Keeps::Sold(_)) { of_kind(keeps, kind) } else { 0 };
            let (_, sold_max) = self.range(*span, except, of_sale);
            prop_assert!(sold_max >= loaded_min, "of {} {} were sold at most, and {} were there", KINDS[kind].0, sold_max, loaded_min);
        }
        Ok(())
    }
}

fn of_kind(keeps: Keeps, kind: usize) -> i64 {
    match keeps {
        Keeps::Nothing => 0,
        Keeps::Held(quantities) | Keeps::Sold(quantities) => quantities[kind],
    }
}

fn all(keeps: Keeps) -> i64 {
    (0..KINDS.len()).map(|kind| of_kind(keeps, kind)).sum()
}
