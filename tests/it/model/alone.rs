//! One client, one step after the other: each answer is the one that the book foretells.

use boxoffice::orders::expire_everywhere;
use proptest::{prelude::*, test_runner::TestCaseError};
use serde_json::{Value, json};

use super::{
    book::{Answer, Book},
    runs::{House, try_cases},
    steps::{Giving, KINDS, Step, Terms, Wish, steps, terms},
};
use crate::support::{Client, Reply};

const CASES: u32 = 80;
const STEPS_MAX: usize = 40;
/// A position that no event here comes to.
const FOREIGN: i64 = 1_000_000;

/// One case under way.
struct Case<'h> {
    house: &'h House,
    path: String,
    book: Book,
}

impl Case<'_> {
    fn run(&mut self, steps: &[(usize, Step)]) -> Result<(), TestCaseError> {
        for (number, (server, step)) in steps.iter().enumerate() {
            self.step(*server, step).map_err(|error| TestCaseError::fail(format!("step {}: {error}", number + 1)))?;
        }
        let left = self.house.shop.client.get(&format!("{}/availability", self.path)).json();
        prop_assert_eq!(&left["ticket_types"], &self.book.availability(), "what is left");
        for (order, id) in self.book.ids().iter().enumerate() {
            let read = self.house.shop.client.get(&format!("{}/orders/{id}", self.path));
            self.book.check(&Answer::Shows(200, order), &read)?;
        }
        Ok(())
    }

    fn step(&mut self, server: usize, step: &Step) -> Result<(), TestCaseError> {
        let client = self.house.servers[server].lock().unwrap().client.clone();
        let (foretold, reply) = match step {
            Step::Load { kind, quantity } => {
                let body = json!({"ticket_type": KINDS[*kind].0, "quantity": quantity});
                (self.book.load(*kind, *quantity), client.post(&format!("{}/inventory", self.path), &body))
            }
            Step::LimitBuyers { max } => (self.book.limit_buyers(*max), client.patch(&self.path, &json!({"max_per_buyer": max}))),
            Step::Take { wish, keyed: false } => (self.book.take(wish), self.send(&client, wish, None)),
            Step::Take { wish, keyed: true } => {
                let (request, foretold) = self.book.take_keyed(wish);
                (foretold, self.send(&client, wish, Some(request)))
            }
            Step::Repeat { request } => {
                let Some((request, wish)) = self.book.request(*request) else { return Ok(()) };
                (self.book.repeat(request), self.send(&client, &wish, Some(request)))
            }
            Step::ReuseKey { request } => {
                let Some((request, mut wish)) = self.book.request(*request) else { return Ok(()) };
                wish.quantities[0] += 1;
                (self.book.reuse_key(request, &wish), self.send(&client, &wish, Some(request)))
            }
            Step::Confirm { order } => {
                let Some((order, _)) = self.book.order(*order) else { return Ok(()) };
                self.confirm(&client, order)
            }
            Step::ConfirmLate { hold } => {
                let Some(order) = self.book.over(*hold) else { return Ok(()) };
                self.confirm(&client, order)
            }
            Step::Cancel { order, giving } => match self.cancel(&client, *order, giving) {
                Some(answers) => answers,
                None => return Ok(()),
            },
            Step::Wait { secs } => {
                self.book.now = self.house.wait(*secs);
                return Ok(());
            }
            Step::Sweep => {
                expire_everywhere(&mut self.house.shop.database.connect(), self.book.now).unwrap();
                return Ok(());
            }
            Step::Restart => {
                self.house.restart(server);
                return Ok(());
            }
        };
        self.house.note(&reply);
        self.book.check(&foretold, &reply)
    }

    fn send(&self, client: &Client, wish: &Wish, request: Option<usize>) -> Reply {
        let (call, body) = wish.call();
        let path = format!("{}/{call}", self.path);
        match request {
            Some(request) => client.post_keyed(&path, &format!("k-{request}"), &body),
            None => client.post(&path, &body),
        }
    }

    fn confirm(&mut self, client: &Client, order: usize) -> (Answer, Reply) {
        let path = format!("{}/orders/{}/confirm", self.path, self.book.ids()[order]);
        (self.book.confirm(order), client.post(&path, &json!({})))
    }

    fn cancel(&mut self, client: &Client, order: usize, giving: &Giving) -> Option<(Answer, Reply)> {
        let (order, id) = self.book.order(order)?;
        let path = format!("{}/orders/{id}/cancel", self.path);
        let (foretold, body) = match giving {
            Giving::All => (self.book.cancel_all(order), Value::Null),
            Giving::Some { from, count } => {
                let positions = self.book.positions(order, *from, *count);
                (self.book.cancel_some(order, &positions), json!({"positions": positions}))
            }
            Giving::Foreign => {
                let field = "positions[0]";
                let message = format!("must be a ticket of this order, and {FOREIGN} is none");
                let refused = json!({"code": "invalid_request", "errors": [{"field": field, "message": message}]});
                (Answer::Says(422, refused), json!({"positions": [FOREIGN]}))
            }
        };
        let reply = if body.is_null() { client.send("POST", &path, &[], b"") } else { client.post(&path, &body) };
        Some((foretold, reply))
    }
}

fn tell((terms, steps): &(Terms, Vec<(usize, Step)>)) -> String {
    let lines = steps.iter().enumerate().map(|(number, (server, step))| format!("{}. server {server}: {step:?}\n", number + 1));
    format!("{terms:?}\n{}", lines.collect::<String>())
}

#[test]
fn whatever_one_client_does_each_answer_is_the_one_that_a_book_kept_by_hand_foretells() {
    let house = House::open();
    try_cases(CASES, &(terms(), steps(STEPS_MAX)), tell, |(terms, steps)| {
        let path = house.put_on_sale(&terms);
        house.audit(Case { house: &house, path, book: Book::new(&terms, house.shop.clock.now()) }.run(&steps))
    });
    house.assert_told(&[
        "200",
        "201",
        "409 all_held",
        "409 limit_exceeded",
        "409 order_cancelled",
        "409 sold_out",
        "409 too_few_left",
        "410 hold_expired",
        "422 idempotency_key_reused",
        "422 invalid_request",
    ]);
}
