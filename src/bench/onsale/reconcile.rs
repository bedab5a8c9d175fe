//! Every buyer's answers against the database. Pure: what both say is read elsewhere.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::{
    record::{Answered, Click, Kind},
    script::Script,
    wire::Stage,
};
use crate::ids::OrderId;

/// Most differences that are named.
const DIFFERENCES_TOLD_MAX: usize = 100;
/// What the database calls an order that stands.
const SOLD: &str = "SOLD";

/// What the database has of the event.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    /// Tickets that were loaded.
    pub(super) stock: i64,
    pub(super) available: i64,
    pub(super) held: i64,
    pub(super) sold: i64,
    pub(super) orders: Vec<LedgerOrder>,
}

/// An order as the database has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LedgerOrder {
    pub(super) id: OrderId,
    pub(super) buyer_name: String,
    pub(super) key: Option<String>,
    pub(super) status: String,
    pub(super) quantity: i32,
    /// The tickets that say that they are this order's, by position.
    pub(super) positions: Vec<i32>,
}

/// What does not agree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Differences {
    /// How many in all.
    pub(super) total: u64,
    /// The first of them, each named.
    pub(super) first: Vec<Difference>,
}

/// One thing that does not agree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Difference {
    /// What should be so.
    pub(super) check: &'static str,
    /// What is not.
    pub(super) what: String,
}

impl Differences {
    fn add(&mut self, check: &'static str, what: impl FnOnce() -> String) {
        self.total += 1;
        if self.first.len() < DIFFERENCES_TOLD_MAX {
            self.first.push(Difference { check, what: what() });
        }
    }
}

/// The rules, as they are named when one is broken.
mod rule {
    pub(super) const READABLE: &str = "a 201 is an order that can be read";
    pub(super) const QUANTITY: &str = "an order has exactly the tickets that were asked for";
    pub(super) const STORED: &str = "an answered order is in the database, sold, with exactly these tickets";
    pub(super) const OWN: &str = "an answered order is the buyer's own, under the buyer's key";
    pub(super) const TICKET_ONCE: &str = "no ticket is in two orders";
    pub(super) const KEY_ONCE: &str = "a key has at most one order, and gets it every time";
    pub(super) const EACH_ITS_OWN: &str = "each request without a key gets an order of its own";
    pub(super) const EXPECTED: &str = "an order in the database has an answer, or a request whose answer nobody waited for";
    pub(super) const KNOWN_BUYER: &str = "an order in the database is of a buyer of this run";
    pub(super) const COUNTS: &str = "the tickets sold are those of the orders, and none is lost";
    pub(super) const SHORT: &str = "too few were left when it was said";
}

/// Compares the answers of all requests with the database.
pub(super) fn reconcile(script: &Script, stage: &Stage, mut clicks: Vec<&Click>, ledger: &Ledger) -> Differences {
    let mut differences = Differences::default();
    clicks.sort_unstable_by_key(|click| (click.buyer, click.is_second));
    let by_id: HashMap<OrderId, &LedgerOrder> = ledger.orders.iter().map(|order| (order.id, order)).collect();
    let by_buyer = by_buyer(ledger, &mut differences);
    let mut first_sent = HashMap::new();
    for of_buyer in clicks.chunk_by(|left, right| left.buyer == right.buyer) {
        let Some(first) = of_buyer.first() else { continue };
        let case = Case { number: first.buyer, clicks: of_buyer, script, stage };
        case.check_answers(&by_id, &mut differences);
        let stored = by_buyer.get(&case.number).map(Vec::as_slice).unwrap_or_default();
        case.check_stored(stored, &mut differences);
        first_sent.insert(case.number, of_buyer.iter().map(|click| click.sent).min().unwrap_or(0));
    }
    let of_nobody = by_buyer.keys().filter(|buyer| !first_sent.contains_key(buyer));
    for buyer in of_nobody {
        differences.add(rule::KNOWN_BUYER, || format!("buyer {buyer} has an order and sent nothing"));
    }
    check_tickets(&clicks, &mut differences);
    check_counts(ledger, &mut differences);
    check_shortages(script, &clicks, ledger, &first_sent, &mut differences);
    differences
}

fn by_buyer<'l>(ledger: &'l Ledger, differences: &mut Differences) -> BTreeMap<u32, Vec<&'l LedgerOrder>> {
    let mut by_buyer: BTreeMap<u32, Vec<&LedgerOrder>> = BTreeMap::new();
    for order in &ledger.orders {
        match Stage::buyer_of_name(&order.buyer_name) {
            Some(buyer) => by_buyer.entry(buyer).or_default().push(order),
            None => differences.add(rule::KNOWN_BUYER, || format!("order {} is of {:?}", order.id, order.buyer_name)),
        }
    }
    by_buyer
}

/// All requests of one buyer.
struct Case<'c> {
    number: u32,
    clicks: &'c [&'c Click],
    script: &'c Script,
    stage: &'c Stage,
}

impl Case<'_> {
    /// Each 201 is an order of the database, this buyer's, with exactly these tickets; equal keys have equal answers.
    fn check_answers(&self, by_id: &HashMap<OrderId, &LedgerOrder>, differences: &mut Differences) {
        let (number, buyer) = (self.number, self.script.buyer(self.number));
        for click in self.clicks.iter().filter(|click| click.kind == Kind::Sold) {
            let Some(answer) = &click.order else {
                differences.add(rule::READABLE, || format!("buyer {number} got a 201 that is none"));
                continue;
            };
            let got = i64::try_from(answer.positions.len()).unwrap_or(i64::MAX);
            if answer.quantity != i64::from(buyer.quantity) || got != answer.quantity {
                differences.add(rule::QUANTITY, || {
                    format!(
                        "buyer {number} asked for {}; order {} says {} and lists {got} tickets",
                        buyer.quantity, answer.id, answer.quantity
                    )
                });
            }
            match by_id.get(&answer.id) {
                None => differences.add(rule::STORED, || format!("buyer {number} was given order {}, which does not exist", answer.id)),
                Some(stored) => self.compare(answer, stored, differences),
            }
        }
        let mut answers = self.clicks.iter().filter_map(|click| click.order.as_ref());
        if let (Some(first), Some(second)) = (answers.next(), answers.next()) {
            if buyer.keyed && first != second {
                differences.add(rule::KEY_ONCE, || {
                    format!(
                        "buyer {number} was given order {} with tickets {:?}, then order {} with tickets {:?}",
                        first.id, first.positions, second.id, second.positions
                    )
                });
            }
            if !buyer.keyed && first.id == second.id {
                differences.add(rule::EACH_ITS_OWN, || format!("buyer {number} sent two requests and was given order {} twice", first.id));
            }
        }
    }

    fn compare(&self, answer: &Answered, stored: &LedgerOrder, differences: &mut Differences) {
        let number = self.number;
        if stored.status != SOLD || i64::from(stored.quantity) != answer.quantity || stored.positions != answer.positions {
            differences.add(rule::STORED, || {
                format!(
                    "buyer {number} was given order {} of {} with tickets {:?}; in the database it is {}, of {}, with tickets {:?}",
                    answer.id, answer.quantity, answer.positions, stored.status, stored.quantity, stored.positions
                )
            });
        }
        let key = self.script.buyer(number).keyed.then(|| self.stage.idempotency_key(number));
        if stored.buyer_name != Stage::buyer_name(number) || stored.key != key {
            differences.add(rule::OWN, || {
                format!("buyer {number} was given order {}, which is of {:?} under the key {:?}", stored.id, stored.buyer_name, stored.key)
            });
        }
    }

    /// There are no more orders than requests that were answered with one, or may have been.
    fn check_stored(&self, stored: &[&LedgerOrder], differences: &mut Differences) {
        let number = self.number;
        let expected = self.clicks.iter().filter(|click| click.kind == Kind::Sold || click.kind.may_have_sold()).count();
        if self.script.buyer(number).keyed && stored.len() > 1 {
            differences.add(rule::KEY_ONCE, || format!("buyer {number} has {} orders: {:?}", stored.len(), ids(stored)));
        } else if stored.len() > expected {
            differences.add(rule::EXPECTED, || {
                let kinds: Vec<_> = self.clicks.iter().map(|click| click.kind.name()).collect();
                format!("buyer {number} was answered {kinds:?} and has {} orders: {:?}", stored.len(), ids(stored))
            });
        }
    }
}

fn ids(orders: &[&LedgerOrder]) -> Vec<String> {
    orders.iter().map(|order| order.id.to_string()).collect()
}

fn check_tickets(clicks: &[&Click], differences: &mut Differences) {
    let mut owners: HashMap<i32, (OrderId, u32)> = HashMap::new();
    for click in clicks {
        let Some(answer) = &click.order else { continue };
        for position in &answer.positions {
            let (owner, buyer) = *owners.entry(*position).or_insert((answer.id, click.buyer));
            if owner != answer.id {
                differences.add(rule::TICKET_ONCE, || {
                    format!("ticket {position} is in order {owner} of buyer {buyer} and in order {} of buyer {}", answer.id, click.buyer)
                });
            }
        }
    }
}

fn check_counts(ledger: &Ledger, differences: &mut Differences) {
    let standing: i64 = ledger.orders.iter().filter(|order| order.status == SOLD).map(|order| i64::from(order.quantity)).sum();
    let Ledger { stock, available, held, sold, .. } = ledger;
    if *sold != standing || available + held + sold != *stock {
        differences.add(rule::COUNTS, || {
            format!("of {stock} tickets {available} are available, {held} held and {sold} sold; the orders have {standing}")
        });
    }
}

/// Nothing is given back during a run. So when it was said that k are left, no more than k can have been sold to those who came later,
/// or be there at the end.
fn check_shortages(script: &Script, clicks: &[&Click], ledger: &Ledger, first_sent: &HashMap<u32, u64>, differences: &mut Differences) {
    let began = |order: &LedgerOrder| Stage::buyer_of_name(&order.buyer_name).and_then(|buyer| first_sent.get(&buyer)).copied();
    let mut later: Vec<(u64, i64)> =
        ledger.orders.iter().filter_map(|order| began(order).map(|sent| (sent, i64::from(order.quantity)))).collect();
    later.sort_unstable();
    // From a time to the tickets that went to whoever began at that time or later.
    let mut sum = 0;
    for (_, quantity) in later.iter_mut().rev() {
        sum += *quantity;
        *quantity = sum;
    }
    for click in clicks.iter().filter(|click| click.kind.is_shortage()) {
        let left = if click.kind == Kind::TooFewLeft { click.available.map_or(0, i64::from) } else { 0 };
        let begun_later = later.partition_point(|(sent, _)| *sent <= click.ended);
        let sold_later = later.get(begun_later).map_or(0, |(_, sum)| *sum);
        if sold_later + ledger.available > left {
            differences.add(rule::SHORT, || {
                format!(
                    "buyer {} was told {} ({left} left), then {sold_later} tickets went to buyers who came later, and {} are available still",
                    click.buyer,
                    click.kind.name(),
                    ledger.available
                )
            });
        }
        let asked = script.buyer(click.buyer).quantity;
        if click.kind == Kind::TooFewLeft && (left == 0 || left >= i64::from(asked)) {
            differences.add(rule::SHORT, || format!("buyer {} asked for {asked} and was told that {left} are too few", click.buyer));
        }
        if click.kind == Kind::AllHeld && ledger.held == 0 {
            differences.add(rule::SHORT, || format!("buyer {} was told that all are held, and nobody holds any", click.buyer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::onsale::script::tests::script;

    fn stage() -> Stage {
        Stage { slug: "onsale-x".into(), ticket_type: "standard".into(), key: "bxo_k".into(), run: "x".into() }
    }

    /// Three buyers of two tickets out of six, the third of whom clicked twice, and a fourth who came too late; all in order.
    struct Day {
        script: Script,
        clicks: Vec<Click>,
        ledger: Ledger,
    }

    impl Day {
        fn new() -> Self {
            Self::with_keys("1")
        }

        fn with_keys(keys: &str) -> Self {
            let script = script("2", keys);
            let mut day = Self { script, clicks: Vec::new(), ledger: Ledger { stock: 6, sold: 6, ..Ledger::default() } };
            for buyer in 0..3 {
                day.sell(buyer);
            }
            if keys == "1" {
                let again = Click { is_second: true, ..day.clicks[2].clone() };
                day.clicks.push(again);
            }
            day.click(3, Kind::SoldOut);
            day
        }

        fn click(&mut self, buyer: u32, kind: Kind) -> &mut Click {
            let sent = u64::from(buyer) * 10;
            let click = Click { buyer, is_second: false, intended: sent, sent, ended: sent + 5, kind, order: None, available: None };
            self.clicks.push(click);
            self.clicks.last_mut().unwrap()
        }

        fn sell(&mut self, buyer: u32) {
            let first = i32::try_from(buyer).unwrap() * 2 + 1;
            let (id, positions) = (OrderId::new(), vec![first, first + 1]);
            let key = self.script.buyer(buyer).keyed.then(|| stage().idempotency_key(buyer));
            self.ledger.orders.push(LedgerOrder {
                id,
                buyer_name: Stage::buyer_name(buyer),
                key,
                status: SOLD.into(),
                quantity: 2,
                positions: positions.clone(),
            });
            self.click(buyer, Kind::Sold).order = Some(Answered { id, quantity: 2, positions });
        }

        fn answer(&mut self, place: usize) -> &mut Answered {
            self.clicks[place].order.as_mut().unwrap()
        }

        /// The rules that are broken, each once.
        fn broken(&self) -> Vec<&'static str> {
            let differences = reconcile(&self.script, &stage(), self.clicks.iter().collect(), &self.ledger);
            let mut rules: Vec<_> = differences.first.iter().map(|difference| difference.check).collect();
            rules.sort_unstable();
            rules.dedup();
            rules
        }
    }

    #[test]
    fn a_day_in_order_has_no_differences() {
        assert_eq!(Day::new().broken(), [""; 0]);
        assert_eq!(Day::with_keys("0").broken(), [""; 0]);
    }

    #[test]
    fn a_ticket_in_two_answers_is_found() {
        let mut day = Day::new();
        day.answer(1).positions[0] = 2;
        assert_eq!(day.broken(), [rule::STORED, rule::TICKET_ONCE]);
        // Even if the database says the same.
        day.ledger.orders[1].positions[0] = 2;
        assert_eq!(day.broken(), [rule::TICKET_ONCE]);
    }

    #[test]
    fn a_missing_order_is_found() {
        let mut day = Day::new();
        day.ledger.orders.remove(0);
        assert!(day.broken().contains(&rule::STORED), "{:?}", day.broken());
        assert!(day.broken().contains(&rule::COUNTS), "{:?}", day.broken());
    }

    #[test]
    fn a_quantity_that_is_off_is_found() {
        let mut day = Day::new();
        day.answer(0).quantity = 3;
        assert_eq!(day.broken(), [rule::STORED, rule::QUANTITY]);
        let mut day = Day::new();
        day.answer(0).positions.pop();
        assert_eq!(day.broken(), [rule::STORED, rule::QUANTITY]);
    }

    #[test]
    fn a_201_that_is_no_order_is_found() {
        let mut day = Day::new();
        day.clicks[0].order = None;
        assert_eq!(day.broken(), [rule::READABLE]);
    }

    #[test]
    fn a_cancelled_order_is_found() {
        let mut day = Day::new();
        day.ledger.orders[0].status = "CANCELLED".into();
        assert_eq!(day.broken(), [rule::STORED, rule::COUNTS]);
    }

    #[test]
    fn somebody_else_s_order_is_found() {
        let mut day = Day::new();
        let others = day.answer(1).clone();
        *day.answer(0) = others;
        assert_eq!(day.broken(), [rule::OWN]);
    }

    #[test]
    fn equal_keys_with_different_orders_are_found() {
        let mut day = Day::new();
        day.answer(3).id = OrderId::new();
        assert!(day.broken().contains(&rule::KEY_ONCE), "{:?}", day.broken());
        let mut day = Day::new();
        let twin = LedgerOrder { id: OrderId::new(), quantity: 0, positions: Vec::new(), ..day.ledger.orders[2].clone() };
        day.ledger.orders.push(twin);
        assert_eq!(day.broken(), [rule::KEY_ONCE]);
    }

    #[test]
    fn two_requests_without_a_key_that_got_one_order_are_found() {
        let mut day = Day::with_keys("0");
        let again = Click { is_second: true, ..day.clicks[2].clone() };
        day.clicks.push(again);
        assert_eq!(day.broken(), [rule::EACH_ITS_OWN]);
    }

    #[test]
    fn an_order_of_somebody_who_was_refused_is_found() {
        let mut day = Day::new();
        day.clicks[1].kind = Kind::Busy;
        day.clicks[1].order = None;
        assert_eq!(day.broken(), [rule::EXPECTED]);
        // Who hung up may have one.
        day.clicks[1].kind = Kind::HungUp;
        assert_eq!(day.broken(), [""; 0]);
    }

    #[test]
    fn an_order_of_nobody_is_found() {
        let mut day = Day::new();
        day.clicks.remove(0);
        assert_eq!(day.broken(), [rule::KNOWN_BUYER]);
        let mut day = Day::new();
        day.ledger.orders[0].buyer_name = "Ada".into();
        assert_eq!(day.broken(), [rule::OWN, rule::KNOWN_BUYER]);
    }

    #[test]
    fn a_false_sold_out_is_found() {
        // Tickets are left at the end.
        let mut day = Day::new();
        (day.ledger.stock, day.ledger.available) = (7, 1);
        assert_eq!(day.broken(), [rule::SHORT]);
        // Somebody who came later got some.
        let mut day = Day::new();
        day.clicks[4].ended = 15;
        assert_eq!(day.broken(), [rule::SHORT]);
    }

    #[test]
    fn a_false_too_few_left_is_found() {
        let mut day = Day::new();
        (day.clicks[4].kind, day.clicks[4].available) = (Kind::TooFewLeft, Some(1));
        assert_eq!(day.broken(), [""; 0]);
        day.clicks[4].available = Some(2);
        assert_eq!(day.broken(), [rule::SHORT]);
        day.clicks[4].kind = Kind::AllHeld;
        assert_eq!(day.broken(), [rule::SHORT]);
    }

    #[test]
    fn differences_are_counted_beyond_those_that_are_named() {
        let mut day = Day::new();
        for buyer in 10..200 {
            day.click(buyer, Kind::AllHeld);
        }
        let differences = reconcile(&day.script, &stage(), day.clicks.iter().collect(), &day.ledger);
        assert_eq!((differences.total, differences.first.len()), (190, DIFFERENCES_TOLD_MAX));
    }
}
