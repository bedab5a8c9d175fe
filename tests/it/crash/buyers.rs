//! Buyers who never give up: each order is made under a key, and each request is sent again until its outcome is known.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use diesel::{
    PgConnection, QueryableByName, RunQueryDsl, sql_query,
    sql_types::{Array, BigInt, Integer, Text},
};
use serde_json::{Value, json};

use crate::support::{Client, Reply, order, wait_until};

/// Most orders of one buyer, so that a test that is never told to stop ends all the same.
const ORDERS_MAX: usize = 2_000;
/// Longest time in which a server that comes back must answer.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(30);
/// Longer than any of these tests, so that no hold is over before its buyer decides.
const HOLD_SECS: i64 = 3_600;
const PRICE_MINOR: i64 = 4_500;
const EVENT: &str = "/api/v1/events/gala";
/// How many tickets of the gala there are, more than all buyers can buy.
pub const TICKETS: i64 = 60_000;

/// Tickets of an order: position, and code if it is sold.
type Tickets = BTreeSet<(i64, Option<String>)>;

/// What can be asked of the shop for one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Buy,
    Hold,
    Confirm,
    /// Gives the first of its tickets back.
    CancelOne,
    CancelAll,
}

/// What buyers do with an order from beginning to end; they take turns at these.
const PLANS: [&[Ask]; 8] = [
    &[Ask::Buy],
    &[Ask::Hold, Ask::Confirm],
    &[Ask::Buy, Ask::CancelAll],
    &[Ask::Hold, Ask::CancelAll],
    &[Ask::Hold],
    &[Ask::Buy, Ask::CancelOne],
    &[Ask::Hold, Ask::CancelOne, Ask::Confirm],
    &[Ask::Hold, Ask::Confirm, Ask::CancelOne, Ask::CancelAll],
];

/// One order, as its buyer knows it.
#[derive(Clone, Debug)]
pub struct Deal {
    key: String,
    quantity: i64,
    plan: &'static [Ask],
    /// How many requests of the plan were answered.
    done: usize,
    /// The last answer.
    answer: Value,
}

/// What the buyers have seen so far, for the test to wait for.
#[derive(Default)]
pub struct Crowd {
    /// Requests that were answered as they should be.
    served: AtomicUsize,
    /// Requests that were answered with 503.
    turned_away: AtomicUsize,
    /// Requests that got no answer.
    unanswered: AtomicUsize,
    /// Requests without an answer that were left for the end, and those of them that had been carried out.
    left: AtomicUsize,
    carried_out: AtomicUsize,
    ended: AtomicBool,
}

impl fmt::Display for Crowd {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |count: &AtomicUsize| count.load(Ordering::SeqCst);
        let (served, turned_away, unanswered) = (of(&self.served), of(&self.turned_away), of(&self.unanswered));
        let (left, carried_out) = (of(&self.left), of(&self.carried_out));
        write!(out, "{served} requests served, {turned_away} turned away, {unanswered} tries without an answer; ")?;
        write!(out, "{left} unknown outcomes resolved at the end, of which {carried_out} had been carried out")
    }
}

impl Crowd {
    /// How many requests were turned away.
    pub fn turned_away(&self) -> usize {
        self.turned_away.load(Ordering::SeqCst)
    }

    /// How many tries got no answer.
    pub fn unanswered(&self) -> usize {
        self.unanswered.load(Ordering::SeqCst)
    }

    /// Returns when `count` further requests have been served.
    pub fn wait_until_served(&self, count: usize) {
        let before = self.served.load(Ordering::SeqCst);
        wait_until("people buy", || self.served.load(Ordering::SeqCst) >= before + count);
    }

    /// Lets `count` buyers buy from the server that `client` finds, one order after the other, while `meanwhile` runs. After that each
    /// request without a known outcome is resolved, and all orders are returned.
    pub fn buy(&self, count: usize, client: &(dyn Fn() -> Client + Sync), meanwhile: impl FnOnce()) -> Vec<Deal> {
        thread::scope(|scope| {
            let buyers: Vec<_> = (0..count).map(|buyer| scope.spawn(move || self.buyer(buyer, client))).collect();
            // Whatever happens meanwhile, the buyers must end.
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(meanwhile));
            self.ended.store(true, Ordering::SeqCst);
            let deals: Vec<_> = buyers.into_iter().map(thread::ScopedJoinHandle::join).collect();
            if let Err(panic) = outcome {
                std::panic::resume_unwind(panic);
            }
            deals.into_iter().flat_map(Result::unwrap).collect()
        })
    }

    fn buyer(&self, buyer: usize, client: &(dyn Fn() -> Client + Sync)) -> Vec<Deal> {
        let mut deals = Vec::new();
        let mut left = Vec::new();
        // Whoever has left one request without its answer stays with the next: the server may be away, and then nothing is sent at all.
        let mut may_leave = true;
        for turn in 0..ORDERS_MAX {
            if self.ended.load(Ordering::SeqCst) {
                break;
            }
            let (key, quantity) = (format!("b{buyer}-{turn}"), i64::try_from(turn % 4 + 2).unwrap());
            let mut deal = Deal { key, quantity, plan: PLANS[(buyer + turn) % PLANS.len()], done: 0, answer: Value::Null };
            may_leave = !self.pursue(&mut deal, may_leave, client);
            let ends = if may_leave { &mut deals } else { &mut left };
            ends.push(deal);
        }
        for mut deal in left {
            self.resolve(&mut deal, client);
            deals.push(deal);
        }
        deals
    }

    /// Goes through with a plan, and says whether it was left at a request that got no answer.
    fn pursue(&self, deal: &mut Deal, may_leave: bool, client: &(dyn Fn() -> Client + Sync)) -> bool {
        while let Some(ask) = deal.plan.get(deal.done).copied() {
            let deadline = Instant::now() + ANSWER_WAIT_MAX;
            loop {
                match self.send(&client(), deal, ask) {
                    Some(reply) if reply.status < 300 => {
                        deal.accept(ask, reply.json());
                        break;
                    }
                    None if may_leave => return true,
                    _ => {}
                }
                assert!(Instant::now() < deadline, "{ask:?} of {} was not answered in {ANSWER_WAIT_MAX:?}", deal.key);
                // A buyer's own pace; a refused one that came back at once would only measure how fast it is refused.
                thread::sleep(Duration::from_millis(20));
            }
        }
        false
    }

    /// Finds out what became of the request that got no answer, and goes through with the plan.
    fn resolve(&self, deal: &mut Deal, client: &(dyn Fn() -> Client + Sync)) {
        let began = chrono::Utc::now();
        let before = deal.answer.clone();
        let was_changed = |deal: &Deal| {
            let read = client().try_send("GET", &format!("{EVENT}/orders/{}", deal.id()), &[], b"");
            read.is_some_and(|read| read.status == 200 && read.json() != before)
        };
        let was_changed = !before.is_null() && was_changed(deal);
        let plan = deal.plan;
        deal.plan = &plan[..=deal.done];
        self.pursue(deal, false, client);
        deal.plan = plan;
        let made_at: chrono::DateTime<chrono::Utc> = deal.answer["created_at"].as_str().unwrap().parse().unwrap();
        let was_carried_out = if before.is_null() { made_at < began } else { was_changed };
        self.left.fetch_add(1, Ordering::SeqCst);
        self.carried_out.fetch_add(usize::from(was_carried_out), Ordering::SeqCst);
        self.pursue(deal, false, client);
    }

    /// Sends a request once. It is carried out, or turned away with a time to come back, or has no answer; there is nothing else.
    fn send(&self, client: &Client, deal: &Deal, ask: Ask) -> Option<Reply> {
        let (path, body) = deal.request(ask);
        let mut headers = vec![("content-type", "application/json")];
        // What is confirmed or given back twice is so once, without a key.
        headers.extend(matches!(ask, Ask::Buy | Ask::Hold).then_some(("idempotency-key", deal.key.as_str())));
        let reply = client.try_send("POST", &path, &headers, body.to_string().as_bytes());
        let counted = match &reply {
            Some(reply) if reply.status < 300 => &self.served,
            Some(reply) if reply.status == 503 && !reply.header("retry-after").is_empty() => &self.turned_away,
            Some(reply) => panic!("{ask:?} of {}: no buyer should see {reply:?}", deal.key),
            None => &self.unanswered,
        };
        counted.fetch_add(1, Ordering::SeqCst);
        reply
    }
}

impl Deal {
    fn id(&self) -> &str {
        self.answer["id"].as_str().unwrap()
    }

    /// The tickets that the last answer shows, with their codes.
    fn tickets(&self) -> Tickets {
        let ticket = |ticket: &Value| (ticket["position"].as_i64().unwrap(), ticket["code"].as_str().map(str::to_owned));
        self.answer["tickets"].as_array().into_iter().flatten().map(ticket).collect()
    }

    fn positions(&self) -> BTreeSet<i64> {
        self.tickets().into_iter().map(|(position, _)| position).collect()
    }

    /// The path and the body of a request, the same however often it is sent.
    fn request(&self, ask: Ask) -> (String, Value) {
        let mut body = order(self.quantity);
        match ask {
            Ask::Buy => (format!("{EVENT}/orders"), body),
            Ask::Hold => {
                body["ttl_seconds"] = json!(HOLD_SECS);
                (format!("{EVENT}/holds"), body)
            }
            Ask::Confirm => (format!("{EVENT}/orders/{}/confirm", self.id()), json!({})),
            Ask::CancelOne => (format!("{EVENT}/orders/{}/cancel", self.id()), json!({"positions": [self.positions().first()]})),
            Ask::CancelAll => (format!("{EVENT}/orders/{}/cancel", self.id()), json!({})),
        }
    }

    /// Takes an answer, which must be what the request asks for, neither more nor less.
    fn accept(&mut self, ask: Ask, answer: Value) {
        let before = self.positions();
        let status = self.answer["status"].as_str().unwrap_or_default().to_owned();
        if !self.answer.is_null() {
            assert_eq!(answer["id"], self.answer["id"], "{}: another order", self.key);
        }
        self.answer = answer;
        self.done += 1;
        let (now, quantity) = (self.positions(), self.quantity);
        let (status, cancelled, is_right) = match ask {
            Ask::Buy => ("sold", 0, now.len() as i64 == quantity),
            Ask::Hold => ("held", 0, now.len() as i64 == quantity),
            Ask::Confirm => ("sold", quantity - before.len() as i64, now == before),
            Ask::CancelOne => (status.as_str(), 1, now.len() + 1 == before.len() && now.is_subset(&before)),
            Ask::CancelAll => ("cancelled", quantity - before.len() as i64, now.is_empty()),
        };
        assert!(is_right, "{ask:?} of {}: {before:?} before, {now:?} now", self.key);
        let told = (&self.answer["status"], &self.answer["cancelled_quantity"], &self.answer["quantity"], &self.answer["total_minor"]);
        let kept = quantity - cancelled;
        assert_eq!(told, (&json!(status), &json!(cancelled), &json!(kept), &json!(kept * PRICE_MINOR)), "{ask:?} of {}", self.key);
    }

    /// What the history must say: each change once, in its order.
    fn history(&self) -> Vec<&'static str> {
        let changes = self.plan.iter().enumerate().map(|(place, ask)| {
            let is_held = self.plan[0] == Ask::Hold && !self.plan[..place].contains(&Ask::Confirm);
            match ask {
                Ask::Buy | Ask::Hold => None,
                Ask::Confirm => Some("confirm"),
                Ask::CancelOne => Some(if is_held { "release_some" } else { "cancel_some" }),
                Ask::CancelAll => Some(if is_held { "release" } else { "cancel" }),
            }
        });
        changes.flatten().collect()
    }
}

#[derive(QueryableByName)]
struct OrderRow {
    #[diesel(sql_type = Text)]
    key: String,
    #[diesel(sql_type = Text)]
    id: String,
    #[diesel(sql_type = Text)]
    status: String,
    #[diesel(sql_type = Integer)]
    quantity: i32,
    #[diesel(sql_type = BigInt)]
    total: i64,
    #[diesel(sql_type = Array<Text>)]
    history: Vec<String>,
}

#[derive(QueryableByName)]
struct TicketRow {
    #[diesel(sql_type = Text)]
    order: String,
    #[diesel(sql_type = Text)]
    status: String,
    #[diesel(sql_type = Integer)]
    position: i32,
    #[diesel(sql_type = Text)]
    code: String,
}

/// Compares what the buyers were answered with what the database has: the same orders in the same states with the same tickets and codes,
/// each change once, and nothing else.
pub fn reconcile(conn: &mut PgConnection, deals: &[Deal]) {
    let orders: Vec<OrderRow> = sql_query(
        "SELECT idempotency_key AS key, id::text, lower(status) AS status, quantity, total_minor AS total, \
           ARRAY(SELECT change FROM order_history h WHERE h.event_id = o.event_id AND h.order_id = o.id ORDER BY number) AS history \
         FROM orders o",
    )
    .load(conn)
    .unwrap();
    let rows: Vec<TicketRow> = sql_query(
        "SELECT order_id::text AS order, lower(status) AS status, position, coalesce(code, '') AS code FROM tickets \
         WHERE order_id IS NOT NULL",
    )
    .load(conn)
    .unwrap();
    let taken = i64::try_from(rows.len()).unwrap();
    let mut tickets: BTreeMap<(String, String), Tickets> = BTreeMap::new();
    for row in rows {
        let code = Some(row.code).filter(|code| !code.is_empty());
        tickets.entry((row.order, row.status)).or_default().insert((row.position.into(), code));
    }
    assert_eq!(orders.len(), deals.len(), "orders, to the row");
    let stored: BTreeMap<&str, &OrderRow> = orders.iter().map(|order| (order.key.as_str(), order)).collect();
    for deal in deals {
        let order = stored.get(deal.key.as_str()).unwrap_or_else(|| panic!("{} was answered and is not there", deal.key));
        let of_order = tickets.remove(&(order.id.clone(), order.status.clone())).unwrap_or_default();
        let answer = &deal.answer;
        assert_eq!((json!(order.id), json!(order.status)), (answer["id"].clone(), answer["status"].clone()), "{}", deal.key);
        assert_eq!(
            (json!(order.quantity), json!(order.total)),
            (answer["quantity"].clone(), answer["total_minor"].clone()),
            "{}",
            deal.key
        );
        assert_eq!(of_order, deal.tickets(), "{}: the tickets in the database and in the answer", deal.key);
        assert_eq!(order.history, deal.history(), "{}: each change once", deal.key);
    }
    assert!(tickets.is_empty(), "tickets of orders that nobody made: {tickets:?}");
    let left = sql_query("SELECT position FROM tickets WHERE status = 'AVAILABLE'").execute(conn).unwrap();
    assert_eq!(i64::try_from(left).unwrap(), TICKETS - taken, "what is left");
}
