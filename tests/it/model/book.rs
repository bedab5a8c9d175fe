//! The book that a careful clerk would keep by hand: it foretells each answer, but for which tickets an order gets.

use std::collections::BTreeSet;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use proptest::{prelude::*, test_runner::TestCaseError};
use serde_json::{Value, json};

use super::steps::{KINDS, Terms, Wish};
use crate::support::Reply;

/// An answer, foretold.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Of that status, with these members of its body.
    Says(u16, Value),
    /// Of that status, with that order as the book has it.
    Shows(u16, usize),
}

/// Where an order stands. A hold that is over stays `Held` here, and its deadline tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Held,
    Sold,
    Cancelled,
}

#[derive(Clone, Debug)]
struct Entry {
    id: String,
    buyer: usize,
    status: Status,
    quantities: [i64; 2],
    requested: i64,
    cancelled: i64,
    deadline: Option<DateTime<Utc>>,
    /// Which tickets it has: position and kind; learned from the answers.
    tickets: BTreeSet<(i64, usize)>,
    /// The next answer may name other tickets than before.
    may_move: bool,
    /// Positions that were given back one by one.
    given_back: Vec<i64>,
}

/// A request under a key, and the order that the key has by now.
#[derive(Clone, Debug)]
struct Keyed {
    wish: Wish,
    order: Option<usize>,
}

/// One event's book.
#[derive(Clone, Debug)]
pub struct Book {
    pub now: DateTime<Utc>,
    max_per_order: i64,
    max_per_buyer: Option<i64>,
    loaded: [i64; 2],
    orders: Vec<Entry>,
    requests: Vec<Keyed>,
}

impl Book {
    pub fn new(terms: &Terms, now: DateTime<Utc>) -> Self {
        let Terms { max_per_order, max_per_buyer, stock } = terms.clone();
        Self { now, max_per_order, max_per_buyer, loaded: stock, orders: Vec::new(), requests: Vec::new() }
    }

    pub fn load(&mut self, kind: usize, quantity: i64) -> Answer {
        self.loaded[kind] += quantity;
        Answer::Says(201, json!({"loaded": quantity, "already_there": 0}))
    }

    pub fn limit_buyers(&mut self, max: Option<i64>) -> Answer {
        self.max_per_buyer = max;
        Answer::Says(200, json!({"max_per_buyer": max}))
    }

    /// A request without a key.
    pub fn take(&mut self, wish: &Wish) -> Answer {
        match self.place(wish) {
            Ok(order) => Answer::Shows(201, order),
            Err(answer) => answer,
        }
    }

    /// A request under a key of its own; returns the key's number, too.
    pub fn take_keyed(&mut self, wish: &Wish) -> (usize, Answer) {
        self.requests.push(Keyed { wish: wish.clone(), order: None });
        let request = self.requests.len() - 1;
        (request, self.repeat(request))
    }

    /// The number of a request under a key, if there are any.
    pub fn request(&self, number: usize) -> Option<(usize, Wish)> {
        let request = number.checked_rem(self.requests.len())?;
        Some((request, self.requests[request].wish.clone()))
    }

    /// The same request once more. A key whose request was refused is free still.
    pub fn repeat(&mut self, request: usize) -> Answer {
        let Keyed { wish, order } = self.requests[request].clone();
        if let Some(order) = order {
            return Answer::Shows(201, order);
        }
        match self.place(&wish) {
            Ok(order) => {
                self.requests[request].order = Some(order);
                Answer::Shows(201, order)
            }
            Err(answer) => answer,
        }
    }

    /// Another request under the same key.
    pub fn reuse_key(&mut self, request: usize, wish: &Wish) -> Answer {
        if self.requests[request].order.is_some() {
            return Answer::Says(422, json!({"code": "idempotency_key_reused"}));
        }
        self.requests[request].wish = wish.clone();
        self.repeat(request)
    }

    fn place(&mut self, wish: &Wish) -> Result<usize, Answer> {
        let requested = wish.requested();
        if requested > self.max_per_order {
            return Err(Answer::Says(409, json!({"code": "limit_exceeded", "limit": self.max_per_order, "requested": requested})));
        }
        self.allow(wish.buyer, requested)?;
        let left: [i64; 2] = std::array::from_fn(|kind| self.available(kind).min(wish.quantities[kind]));
        let fewer = wish.accept_fewer && left != [0, 0];
        if left != wish.quantities && !fewer {
            return Err(self.shortage(&wish.quantities, left));
        }
        self.orders.push(Entry {
            id: String::new(),
            buyer: wish.buyer,
            status: if wish.hold_secs.is_some() { Status::Held } else { Status::Sold },
            quantities: left,
            requested,
            cancelled: 0,
            deadline: wish.hold_secs.map(|secs| self.now + TimeDelta::seconds(secs)),
            tickets: BTreeSet::new(),
            may_move: true,
            given_back: Vec::new(),
        });
        Ok(self.orders.len() - 1)
    }

    fn allow(&self, buyer: usize, requested: i64) -> Result<(), Answer> {
        let has: i64 = self.live().filter(|entry| entry.buyer == buyer).flat_map(|entry| entry.quantities).sum();
        match self.max_per_buyer {
            Some(limit) if has + requested > limit => {
                Err(Answer::Says(409, json!({"code": "limit_exceeded", "limit": limit, "has": has, "requested": requested})))
            }
            _ => Ok(()),
        }
    }

    fn shortage(&self, wanted: &[i64; 2], left: [i64; 2]) -> Answer {
        let short: Vec<usize> = (0..KINDS.len()).filter(|kind| left[*kind] < wanted[*kind]).collect();
        let scarcest = *short.iter().min_by_key(|kind| left[**kind]).unwrap();
        let code = match left[scarcest] {
            0 if short.iter().all(|kind| left[*kind] > 0 || self.held(*kind) > 0) => "all_held",
            0 => "sold_out",
            _ => "too_few_left",
        };
        let told = |kind: &usize| {
            let (of, kind) = (KINDS[*kind].0, *kind);
            json!({"ticket_type": of, "requested": wanted[kind], "available": left[kind], "held": self.held(kind)})
        };
        let shortages: Vec<Value> = short.iter().map(told).collect();
        let mut body = json!({"code": code, "shortages": shortages, "ticket_type": KINDS[scarcest].0,
            "requested": wanted[scarcest], "available": left[scarcest]});
        if code == "all_held" {
            body["held"] = json!(self.held(scarcest));
        }
        Answer::Says(409, body)
    }

    /// The number and the id of an order, if there are any.
    pub fn order(&self, number: usize) -> Option<(usize, &str)> {
        let order = number.checked_rem(self.orders.len())?;
        Some((order, &self.orders[order].id))
    }

    /// The number of an order among the holds that are over, if there are any.
    pub fn over(&self, number: usize) -> Option<usize> {
        let over: Vec<usize> = (0..self.orders.len()).filter(|order| self.is_over(&self.orders[*order])).collect();
        Some(over[number.checked_rem(over.len())?])
    }

    pub fn confirm(&mut self, order: usize) -> Answer {
        let entry = self.orders[order].clone();
        match entry.status {
            Status::Sold => return Answer::Shows(200, order),
            Status::Cancelled => return Answer::Says(409, json!({"code": "order_cancelled"})),
            Status::Held => {}
        }
        if self.is_over(&entry) {
            if let Err(refused) = self.allow(entry.buyer, entry.quantities.iter().sum()) {
                return refused;
            }
            if (0..KINDS.len()).any(|kind| self.available(kind) < entry.quantities[kind]) {
                return Answer::Says(410, json!({"code": "hold_expired"}));
            }
            self.orders[order].may_move = true;
        }
        self.orders[order].status = Status::Sold;
        Answer::Shows(200, order)
    }

    pub fn cancel_all(&mut self, order: usize) -> Answer {
        if !self.is_over(&self.orders[order]) {
            self.orders[order].status = Status::Cancelled;
        }
        Answer::Shows(200, order)
    }

    /// The positions of an order that it has or gave back: `count` of them from `from` on.
    pub fn positions(&self, order: usize, from: usize, count: usize) -> Vec<i64> {
        let entry = &self.orders[order];
        let all: Vec<i64> = entry.given_back.iter().copied().chain(entry.tickets.iter().map(|(position, _)| *position)).collect();
        all.iter().cycle().skip(from % all.len()).take(count.min(all.len())).copied().collect()
    }

    pub fn cancel_some(&mut self, order: usize, positions: &[i64]) -> Answer {
        let is_over = self.is_over(&self.orders[order]);
        let entry = &mut self.orders[order];
        let going: Vec<(i64, usize)> = entry.tickets.iter().copied().filter(|(position, _)| positions.contains(position)).collect();
        if is_over || entry.status == Status::Cancelled || going.is_empty() {
            return Answer::Shows(200, order);
        }
        if going.len() == entry.tickets.len() {
            return self.cancel_all(order);
        }
        for ticket in going {
            entry.tickets.remove(&ticket);
            entry.given_back.push(ticket.0);
            entry.quantities[ticket.1] -= 1;
            entry.cancelled += 1;
        }
        Answer::Shows(200, order)
    }

    fn is_over(&self, entry: &Entry) -> bool {
        entry.status == Status::Held && entry.deadline.is_some_and(|deadline| deadline <= self.now)
    }

    /// Orders that have their tickets at this moment.
    fn live(&self) -> impl Iterator<Item = &Entry> {
        self.orders.iter().filter(|entry| entry.status != Status::Cancelled && !self.is_over(entry))
    }

    fn available(&self, kind: usize) -> i64 {
        self.loaded[kind] - self.live().map(|entry| entry.quantities[kind]).sum::<i64>()
    }

    fn held(&self, kind: usize) -> i64 {
        self.live().filter(|entry| entry.status == Status::Held).map(|entry| entry.quantities[kind]).sum()
    }

    /// What the availability call must say.
    pub fn availability(&self) -> Value {
        let of_kind = |kind: usize| json!({"ticket_type": KINDS[kind].0, "available": self.available(kind), "held": self.held(kind)});
        json!((0..KINDS.len()).map(of_kind).collect::<Vec<_>>())
    }

    /// The ids of all orders, by number.
    pub fn ids(&self) -> Vec<String> {
        self.orders.iter().map(|entry| entry.id.clone()).collect()
    }

    /// Compares an answer with what was foretold, and learns which tickets an order got.
    pub fn check(&mut self, foretold: &Answer, reply: &Reply) -> Result<(), TestCaseError> {
        let body = reply.json();
        let (status, members) = match foretold {
            Answer::Says(status, members) => (*status, members.clone()),
            Answer::Shows(status, order) => (*status, self.shown(&self.orders[*order])),
        };
        prop_assert_eq!(reply.status, status, "foretold {}; answered {}", members, body);
        for (name, value) in members.as_object().unwrap() {
            prop_assert_eq!(&body[name], value, "{} of {}", name, body);
        }
        match foretold {
            Answer::Says(..) => Ok(()),
            Answer::Shows(_, order) => self.learn(*order, &body),
        }
    }

    /// What is shown of an order, but for its id and its tickets.
    fn shown(&self, entry: &Entry) -> Value {
        let status = match entry.status {
            Status::Held if self.is_over(entry) => "expired",
            Status::Held => "held",
            Status::Sold => "sold",
            Status::Cancelled => "cancelled",
        };
        let lines = || KINDS.iter().zip(entry.quantities).filter(|(_, quantity)| *quantity > 0);
        let item =
            |((code, price), quantity): (&(&str, i64), i64)| json!({"ticket_type": code, "quantity": quantity, "unit_price_minor": price});
        let deadline = entry.deadline.filter(|_| entry.status == Status::Held);
        json!({
            "status": status,
            "quantity": entry.quantities.iter().sum::<i64>(),
            "requested_quantity": entry.requested,
            "cancelled_quantity": entry.cancelled,
            "total_minor": lines().map(|((_, price), quantity)| price * quantity).sum::<i64>(),
            "items": lines().map(item).collect::<Vec<_>>(),
            "expires_at": deadline.map(|deadline| deadline.to_rfc3339_opts(SecondsFormat::AutoSi, true)),
            "expires_in_seconds": deadline.filter(|deadline| *deadline > self.now).map(|deadline| (deadline - self.now).num_seconds()),
        })
    }

    /// Which tickets an order has: those of before, unless it may have others; of the right kinds; with codes if they are sold; and in no
    /// other order.
    fn learn(&mut self, order: usize, body: &Value) -> Result<(), TestCaseError> {
        let entry = &self.orders[order];
        let is_live = entry.status != Status::Cancelled && !self.is_over(entry);
        let kind = |ticket: &Value| KINDS.iter().position(|(code, _)| ticket["ticket_type"] == *code).unwrap();
        let tickets = body["tickets"].as_array().unwrap();
        let shown: BTreeSet<(i64, usize)> = tickets.iter().map(|ticket| (ticket["position"].as_i64().unwrap(), kind(ticket))).collect();
        prop_assert!(entry.id.is_empty() || body["id"] == entry.id, "another order than {}: {}", entry.id, body);
        if !is_live {
            prop_assert!(tickets.is_empty(), "an order that is over has no tickets: {}", body);
            return Ok(());
        }
        for (kind, quantity) in entry.quantities.iter().enumerate() {
            prop_assert_eq!(shown.iter().filter(|(_, of)| *of == kind).count() as i64, *quantity, "{}: {}", KINDS[kind].0, body);
        }
        prop_assert_eq!(tickets.len(), shown.len(), "a ticket is shown once: {}", body);
        prop_assert!(tickets.iter().all(|ticket| ticket["code"].is_string() == (entry.status == Status::Sold)), "codes: {}", body);
        prop_assert!(entry.may_move || shown == entry.tickets, "{:?} before: {}", entry.tickets, body);
        let others = self.orders.iter().enumerate().filter(|(other, entry)| *other != order && entry.status != Status::Cancelled);
        for (other, entry) in others.filter(|(_, entry)| !self.is_over(entry)) {
            prop_assert!(entry.tickets.is_disjoint(&shown), "order {} has some of them: {}", other, body);
        }
        let entry = &mut self.orders[order];
        entry.id = body["id"].as_str().unwrap().to_owned();
        (entry.tickets, entry.may_move) = (shown, false);
        Ok(())
    }
}
