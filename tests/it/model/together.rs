//! Several clients at once, through two servers on one database: nobody can foretell who gets what, but whatever comes of it must be right.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use chrono::{DateTime, Utc};
use proptest::{collection::vec, option, prelude::*, sample::select, test_runner::TestCaseError};
use serde_json::{Value, json};

use super::{
    record::{Keeps, Own, Record, Refusal, Span, Tick},
    runs::{House, try_cases},
    steps::{Giving, KINDS, Terms, Wish, giving, wish},
};
use crate::support::{Client, Reply, at_once};

const CASES: u32 = 60;
const CLIENTS_MAX: usize = 5;
const DEEDS_MAX: usize = 8;
/// Most times that a request is sent again since everything was busy.
const TRIES_MAX: usize = 10;

/// What one client does next with its own orders.
#[derive(Clone, Debug)]
enum Deed {
    Take {
        wish: Wish,
    },
    /// The same request through both servers at the same moment.
    TakeTwice {
        wish: Wish,
    },
    /// Two like it, each under a key of its own, through both servers at the same moment: one buyer in two places.
    TakeTwo {
        wish: Wish,
    },
    Repeat {
        order: usize,
    },
    Confirm {
        order: usize,
    },
    Cancel {
        order: usize,
        giving: Giving,
    },
    Load {
        kind: usize,
        quantity: i64,
    },
    Wait {
        secs: i64,
    },
}

/// For each client what it does, and through which server.
type Script = Vec<Vec<(usize, Deed)>>;

fn deed() -> impl Strategy<Value = Deed> {
    let number = 0..16_usize;
    prop_oneof![
        10 => wish().prop_map(|wish| Deed::Take { wish }),
        3 => wish().prop_map(|wish| Deed::TakeTwice { wish }),
        6 => wish().prop_map(|wish| Deed::TakeTwo { wish }),
        2 => number.clone().prop_map(|order| Deed::Repeat { order }),
        7 => number.clone().prop_map(|order| Deed::Confirm { order }),
        7 => (number, giving()).prop_map(|(order, giving)| Deed::Cancel { order, giving }),
        1 => (0..KINDS.len(), 1..=2_i64).prop_map(|(kind, quantity)| Deed::Load { kind, quantity }),
        2 => select(vec![1_i64, 20, 60]).prop_map(|secs| Deed::Wait { secs }),
    ]
}

fn cases() -> impl Strategy<Value = (Terms, Script)> {
    let terms = (4..=6_i64, option::weighted(0.7, 3..=7_i64), [2..=12_i64, 0..=5_i64])
        .prop_map(|(max_per_order, max_per_buyer, stock)| Terms { max_per_order, max_per_buyer, stock });
    (terms, vec(vec((0..2_usize, deed()), 1..=DEEDS_MAX), 2..=CLIENTS_MAX))
}

/// One run of a script.
struct Run<'h> {
    house: &'h House,
    terms: Terms,
    path: String,
    ticks: AtomicU64,
    /// Whoever moves the clock has it to himself.
    clock: Mutex<()>,
}

impl Run<'_> {
    fn tick(&self) -> Tick {
        self.ticks.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn during<T>(&self, work: impl FnOnce() -> T) -> (Span, T) {
        let sent = self.tick();
        let made = work();
        (Span { sent, answered: self.tick() }, made)
    }

    /// Lets every client do what it does at the same time, and checks what came of it.
    fn run(&self, script: &Script) -> Result<(), TestCaseError> {
        let visits: Vec<(Record, Result<(), TestCaseError>)> = thread::scope(|scope| {
            let begun = script.iter().enumerate().map(|(number, deeds)| scope.spawn(move || Visitor::new(self, number).visit(deeds)));
            let visits: Vec<_> = begun.collect();
            visits.into_iter().map(|visit| visit.join().unwrap()).collect()
        });
        let (mut record, mut checked) = (Record::default(), Ok(()));
        for (seen, right) in visits {
            record.add(seen);
            checked = checked.and(right);
        }
        let checked = checked.and_then(|()| record.check_refusals(&self.terms)).and_then(|()| self.check_end(&record));
        let checked = self.house.audit(checked);
        checked.map_err(|error| TestCaseError::fail(format!("{error}\nas it went:\n{}", record.told())))
    }

    /// The database has each order as its client was told last, and nothing else; nobody has too much; and the stock is what it was.
    fn check_end(&self, record: &Record) -> Result<(), TestCaseError> {
        let (client, now) = (&self.house.shop.client, self.house.shop.clock.now());
        let listed = client.get(&format!("{}/orders?limit=100", self.path)).json();
        let ids: BTreeSet<&str> = listed["orders"].as_array().unwrap().iter().map(|order| order["id"].as_str().unwrap()).collect();
        prop_assert_eq!(&ids, &record.orders.iter().map(|order| order.id.as_str()).collect::<BTreeSet<_>>(), "the orders that there are");
        let (mut positions, mut live) = (BTreeSet::new(), Vec::new());
        for own in &record.orders {
            let stored = client.get(&format!("{}/orders/{}", self.path, own.id)).json();
            prop_assert_eq!(&stored, &last_answer_at(own, now), "an order in the database, and as its client was told");
            let has = stored["tickets"].as_array().unwrap().iter().map(|ticket| ticket["position"].as_i64().unwrap());
            for position in has {
                prop_assert!(positions.insert(position), "ticket {} has two orders", position);
            }
            let keeps = own.changes.last().map_or(Keeps::Nothing, |(_, keeps)| *keeps);
            live.push((own.buyer, if stored["status"] == "expired" { Keeps::Nothing } else { keeps }));
        }
        self.check_stock(record, &live)
    }

    fn check_stock(&self, record: &Record, live: &[(usize, Keeps)]) -> Result<(), TestCaseError> {
        let left = self.house.shop.client.get(&format!("{}/availability", self.path)).json();
        for (kind, of_kind) in left["ticket_types"].as_array().unwrap().iter().enumerate() {
            let loads = record.loads.iter().filter(|(_, of, _)| *of == kind).map(|(_, _, quantity)| quantity).sum::<i64>();
            let count = |is_meant: &dyn Fn(Keeps) -> Option<[i64; 2]>| {
                live.iter().filter_map(|(_, keeps)| is_meant(*keeps)).map(|quantities| quantities[kind]).sum::<i64>()
            };
            let held = count(&|keeps| if let Keeps::Held(quantities) = keeps { Some(quantities) } else { None });
            let sold = count(&|keeps| if let Keeps::Sold(quantities) = keeps { Some(quantities) } else { None });
            let available = self.terms.stock[kind] + loads - held - sold;
            prop_assert_eq!(
                (&of_kind["available"], &of_kind["held"]),
                (&json!(available), &json!(held)),
                "what is left of {}",
                KINDS[kind].0
            );
        }
        for buyer in live.iter().map(|(buyer, _)| *buyer).collect::<BTreeSet<_>>() {
            let of_buyer = live.iter().filter(|(of, _)| *of == buyer).map(|(_, keeps)| *keeps);
            let has: i64 = of_buyer.map(|keeps| if let Keeps::Held(has) | Keeps::Sold(has) = keeps { has.iter().sum() } else { 0 }).sum();
            prop_assert!(self.terms.max_per_buyer.is_none_or(|limit| has <= limit), "buyer {} has {}", buyer, has);
        }
        Ok(())
    }
}

/// A client's last answer as it would be given at `now`.
fn last_answer_at(own: &Own, now: DateTime<Utc>) -> Value {
    let mut answer = own.last.clone();
    if !matches!(own.changes.last(), Some((_, Keeps::Held(_)))) {
        return answer;
    }
    let left = own.deadline.map_or(0, |deadline| (deadline - now).num_seconds());
    if left > 0 {
        answer["expires_in_seconds"] = json!(left);
    } else {
        (answer["status"], answer["expires_in_seconds"], answer["tickets"]) = (json!("expired"), Value::Null, json!([]));
    }
    answer
}

/// One client with its own orders.
struct Visitor<'r> {
    run: &'r Run<'r>,
    number: usize,
    record: Record,
    /// The wish of each of its orders, and under which key it was sent.
    wishes: Vec<(Wish, String)>,
    keys: usize,
}

impl<'r> Visitor<'r> {
    fn new(run: &'r Run<'r>, number: usize) -> Self {
        Self { run, number, record: Record::default(), wishes: Vec::new(), keys: 0 }
    }

    /// Does one thing after the other, until something is wrong; what was seen is of use then, too.
    fn visit(mut self, deeds: &[(usize, Deed)]) -> (Record, Result<(), TestCaseError>) {
        let done = deeds.iter().try_for_each(|(server, deed)| {
            self.record.lines.push((self.run.tick(), format!("client {} begins {deed:?}", self.number)));
            self.act(*server, deed)
        });
        (self.record, done)
    }

    fn client(&self, server: usize) -> Client {
        self.run.house.servers[server].lock().unwrap().client.clone()
    }

    fn act(&mut self, server: usize, deed: &Deed) -> Result<(), TestCaseError> {
        let client = self.client(server);
        match deed {
            Deed::Take { wish } => {
                let key = self.new_key();
                let sent = self.send_wish(&client, wish, &key);
                self.take(wish, &key, vec![sent])
            }
            Deed::TakeTwice { wish } => {
                let key = self.new_key();
                let both = at_once(2, |server| self.send_wish(&self.client(server), wish, &key));
                self.take(wish, &key, both)
            }
            Deed::TakeTwo { wish } => {
                let keys = [self.new_key(), self.new_key()];
                let both = at_once(2, |server| self.send_wish(&self.client(server), wish, &keys[server]));
                keys.iter().zip(both).try_for_each(|(key, sent)| self.take(wish, key, vec![sent]))
            }
            Deed::Repeat { order } => {
                let Some(order) = order.checked_rem(self.wishes.len()) else { return Ok(()) };
                let (wish, key) = self.wishes[order].clone();
                let (span, reply) = self.send_wish(&client, &wish, &key);
                prop_assert_eq!(reply.status, 201, "a key that has an order: {:?}", reply);
                self.note(order, span, &reply.json(), None)
            }
            Deed::Confirm { order } => {
                let Some(order) = order.checked_rem(self.wishes.len()) else { return Ok(()) };
                self.confirm(&client, order)
            }
            Deed::Cancel { order, giving } => {
                let Some(order) = order.checked_rem(self.wishes.len()) else { return Ok(()) };
                self.cancel(&client, order, giving)
            }
            Deed::Load { kind, quantity } => {
                let path = format!("{}/inventory", self.run.path);
                let (span, reply) = self.run.during(|| client.post(&path, &json!({"ticket_type": KINDS[*kind].0, "quantity": quantity})));
                prop_assert_eq!(reply.status, 201, "{:?}", reply);
                self.record.loads.push((span, *kind, *quantity));
                Ok(())
            }
            Deed::Wait { secs } => {
                let _mine = self.run.clock.lock().unwrap();
                let moved = self.run.during(|| self.run.house.wait(*secs));
                self.record.clock.push(moved);
                Ok(())
            }
        }
    }

    fn new_key(&mut self) -> String {
        self.keys += 1;
        format!("c{}-{}", self.number, self.keys)
    }

    fn send_wish(&self, client: &Client, wish: &Wish, key: &str) -> (Span, Reply) {
        let (call, body) = wish.call();
        let path = format!("{}/{call}", self.run.path);
        self.surely(|| client.post_keyed(&path, key, &body))
    }

    /// Sends a request as long as it is told that too much is going on, a bounded number of times.
    fn surely(&self, send: impl Fn() -> Reply) -> (Span, Reply) {
        self.run.during(|| {
            let mut reply = send();
            for _ in 1..TRIES_MAX {
                self.run.house.note(&reply);
                if reply.status != 503 && !reply.body.contains("idempotency_in_progress") {
                    break;
                }
                reply = send();
            }
            reply
        })
    }

    /// Takes the answers to one request that was sent once or twice.
    fn take(&mut self, wish: &Wish, key: &str, sent: Vec<(Span, Reply)>) -> Result<(), TestCaseError> {
        let (made, refused): (Vec<_>, Vec<_>) = sent.into_iter().partition(|(_, reply)| reply.status == 201);
        if let Some((first, reply)) = made.first() {
            // Made by one of them, by whichever that was.
            let last = made.iter().map(|(span, _)| span.answered).max().unwrap();
            let span = Span { sent: made.iter().map(|(span, _)| span.sent).min().unwrap_or(first.sent), answered: last };
            let body = reply.json();
            for (_, other) in &made {
                prop_assert_eq!(&other.json()["id"], &body["id"], "one key, two orders");
            }
            self.record.orders.push(Own {
                id: body["id"].as_str().unwrap().to_owned(),
                buyer: wish.buyer,
                deadline: body["expires_at"].as_str().map(|deadline| deadline.parse().unwrap()),
                changes: Vec::new(),
                last: Value::Null,
            });
            self.wishes.push((wish.clone(), key.to_owned()));
            let keeps = if wish.hold_secs.is_some() { Keeps::Held } else { Keeps::Sold };
            let got = quantities(&body);
            let is_enough = |kind: usize| got[kind] == wish.quantities[kind] || (wish.accept_fewer && got[kind] < wish.quantities[kind]);
            prop_assert!((0..KINDS.len()).all(is_enough) && got != [0, 0], "asked for {:?}: {}", wish, body);
            self.note(self.wishes.len() - 1, span, &body, Some(keeps(got)))?;
        }
        let order = (!made.is_empty()).then(|| self.record.orders[self.wishes.len() - 1].id.clone());
        for (span, reply) in refused {
            self.refused(span, wish, order.clone(), &reply)?;
        }
        Ok(())
    }

    fn refused(&mut self, span: Span, wish: &Wish, order: Option<String>, reply: &Reply) -> Result<(), TestCaseError> {
        prop_assert!(matches!(reply.status, 409 | 410), "{:?}", reply);
        let body = reply.json();
        self.record.lines.push((span.answered, format!("client {} sent at {}: {body}", self.number, span.sent)));
        self.record.refusals.push(Refusal { span, wish: wish.clone(), order, body });
        Ok(())
    }

    /// Takes an answer about one of its orders; `keeps` if that changed what it keeps.
    fn note(&mut self, order: usize, span: Span, body: &Value, keeps: Option<Keeps>) -> Result<(), TestCaseError> {
        self.record.lines.push((span.answered, format!("client {} sent at {}: {body}", self.number, span.sent)));
        let own = &mut self.record.orders[order];
        prop_assert_eq!(&body["id"], &own.id, "another order");
        own.last = body.clone();
        own.changes.extend(keeps.map(|keeps| (span, keeps)));
        Ok(())
    }

    fn confirm(&mut self, client: &Client, order: usize) -> Result<(), TestCaseError> {
        let own = self.record.orders[order].clone();
        let path = format!("{}/orders/{}/confirm", self.run.path, own.id);
        let (span, reply) = self.surely(|| client.post(&path, &json!({})));
        let before = own.changes.last().map_or(Keeps::Nothing, |(_, keeps)| *keeps);
        match (before, reply.status) {
            (Keeps::Nothing, 409) => prop_assert_eq!(reply.code(), "order_cancelled"),
            (Keeps::Held(has) | Keeps::Sold(has), 200) => {
                prop_assert_eq!((&reply.json()["status"], quantities(&reply.json())), (&json!("sold"), has), "{:?}", reply);
                self.note(order, span, &reply.json(), Some(Keeps::Sold(has)))?;
            }
            (Keeps::Held(has), 409 | 410) => {
                let wish = Wish { quantities: has, ..self.wishes[order].0.clone() };
                self.refused(span, &wish, Some(own.id), &reply)?;
            }
            _ => prop_assert!(false, "{:?} before: {:?}", before, reply),
        }
        Ok(())
    }

    fn cancel(&mut self, client: &Client, order: usize, giving: &Giving) -> Result<(), TestCaseError> {
        let own = &self.record.orders[order];
        let path = format!("{}/orders/{}/cancel", self.run.path, own.id);
        let has: Vec<i64> = own.last["tickets"].as_array().unwrap().iter().map(|ticket| ticket["position"].as_i64().unwrap()).collect();
        let body = match giving {
            Giving::Some { from, count } if !has.is_empty() => {
                json!({"positions": has.iter().cycle().skip(from % has.len()).take(*count).collect::<Vec<_>>()})
            }
            _ => json!({}),
        };
        let (span, reply) = self.surely(|| client.post(&path, &body));
        prop_assert_eq!(reply.status, 200, "{:?}", reply);
        let answer = reply.json();
        let before = self.record.orders[order].changes.last().map_or(Keeps::Nothing, |(_, keeps)| *keeps);
        let keeps = match before {
            _ if answer["status"] == "cancelled" => Keeps::Nothing,
            Keeps::Held(_) => Keeps::Held(quantities(&answer)),
            Keeps::Sold(_) => Keeps::Sold(quantities(&answer)),
            Keeps::Nothing => Keeps::Nothing,
        };
        self.note(order, span, &answer, Some(keeps))
    }
}

/// How many of each kind an answer says.
fn quantities(body: &Value) -> [i64; 2] {
    let items = body["items"].as_array().unwrap();
    KINDS.map(|(code, _)| items.iter().filter(|item| item["ticket_type"] == code).map(|item| item["quantity"].as_i64().unwrap()).sum())
}

fn tell((terms, script): &(Terms, Script)) -> String {
    let lines = |(number, deeds): (usize, &Vec<(usize, Deed)>)| {
        let deeds: String = deeds.iter().map(|(server, deed)| format!("  server {server}: {deed:?}\n")).collect();
        format!("client {number}:\n{deeds}")
    };
    format!("{terms:?}\n{}", script.iter().enumerate().map(lines).collect::<String>())
}

#[test]
fn whatever_several_clients_do_at_once_nothing_is_sold_twice_and_every_answer_was_true() {
    let house = House::open();
    try_cases(CASES, &cases(), tell, |(terms, script)| {
        let path = house.put_on_sale(&terms);
        Run { house: &house, terms, path, ticks: AtomicU64::new(0), clock: Mutex::new(()) }.run(&script)
    });
    house.assert_told(&["200", "201", "409 all_held", "409 limit_exceeded", "409 order_cancelled", "409 sold_out", "409 too_few_left"]);
}
