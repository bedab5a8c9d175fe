//! Buyers who never give up: each purchase has a key, and is sent again under it until its outcome is known.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use diesel::{
    PgConnection, QueryableByName, RunQueryDsl, sql_query,
    sql_types::{Integer, Text},
};
use serde_json::Value;

use crate::support::{Client, Reply, order};

/// Most purchases of one buyer, so that a test that is never told to stop ends all the same.
const PURCHASES_MAX: usize = 2_000;
/// Longest time in which a server that comes back must answer.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(30);
const ORDERS: &str = "/api/v1/events/gala/orders";
/// How many tickets of the gala there are, more than all buyers can buy.
pub const TICKETS: i64 = 40_000;

/// What the buyers have seen so far, for the test to wait for.
#[derive(Default)]
pub struct Crowd {
    /// Purchases that were answered with 201.
    sold: AtomicUsize,
    /// Purchases that were answered with 503.
    turned_away: AtomicUsize,
    /// Purchases that got no answer.
    unanswered: AtomicUsize,
    /// What no buyer should ever see.
    wrong: Mutex<Vec<Reply>>,
    ended: AtomicBool,
}

/// One purchase that was answered with 201.
#[derive(Clone, Debug)]
pub struct Sale {
    key: String,
    quantity: i64,
    answer: Value,
}

impl Crowd {
    /// How many purchases are sold.
    pub fn sold(&self) -> usize {
        self.sold.load(Ordering::SeqCst)
    }

    /// How many were turned away.
    pub fn turned_away(&self) -> usize {
        self.turned_away.load(Ordering::SeqCst)
    }

    /// How many got no answer.
    pub fn unanswered(&self) -> usize {
        self.unanswered.load(Ordering::SeqCst)
    }

    /// Lets `count` buyers buy from the server that `client` finds, one purchase after the other, while `meanwhile` runs. After that each
    /// purchase without a known outcome is resolved, and all that were sold are returned.
    pub fn buy(&self, count: usize, client: &(dyn Fn() -> Client + Sync), meanwhile: impl FnOnce()) -> Vec<Sale> {
        thread::scope(|scope| {
            let buyers: Vec<_> = (0..count).map(|buyer| scope.spawn(move || self.buyer(buyer, client))).collect();
            // Whatever happens meanwhile, the buyers must end.
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(meanwhile));
            self.ended.store(true, Ordering::SeqCst);
            let sales: Vec<_> = buyers.into_iter().map(thread::ScopedJoinHandle::join).collect();
            if let Err(panic) = outcome {
                std::panic::resume_unwind(panic);
            }
            sales.into_iter().flat_map(Result::unwrap).collect()
        })
    }

    fn buyer(&self, buyer: usize, client: &(dyn Fn() -> Client + Sync)) -> Vec<Sale> {
        let mut sales = Vec::new();
        for turn in 0..PURCHASES_MAX {
            if self.ended.load(Ordering::SeqCst) {
                break;
            }
            let (key, quantity) = (format!("b{buyer}-{turn}"), i64::try_from(turn % 4 + 1).unwrap());
            sales.push(self.purchase(key, quantity, client));
        }
        sales
    }

    /// Sends one purchase again and again under its key until it is sold.
    fn purchase(&self, key: String, quantity: i64, client: &(dyn Fn() -> Client + Sync)) -> Sale {
        let deadline = Instant::now() + ANSWER_WAIT_MAX;
        loop {
            let reply = self.send(&client(), &key, quantity);
            if let Some(reply) = reply.filter(|reply| reply.status == 201) {
                return Sale { key, quantity, answer: reply.json() };
            }
            assert!(Instant::now() < deadline, "{key} was not sold in {ANSWER_WAIT_MAX:?}");
            // A buyer's own pace; a refused one that came back at once would only measure how fast it is refused.
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn send(&self, client: &Client, key: &str, quantity: i64) -> Option<Reply> {
        let headers = [("content-type", "application/json"), ("idempotency-key", key)];
        let reply = client.try_send("POST", ORDERS, &headers, order(quantity).to_string().as_bytes());
        let counted = match &reply {
            Some(reply) if reply.status == 201 => &self.sold,
            Some(reply) if reply.status == 503 && !reply.header("retry-after").is_empty() => &self.turned_away,
            Some(reply) => {
                self.wrong.lock().unwrap().push(reply.clone());
                return None;
            }
            None => &self.unanswered,
        };
        counted.fetch_add(1, Ordering::SeqCst);
        reply
    }

    /// What no buyer should have seen: an answer that is neither 201 nor 503 with Retry-After.
    pub fn assert_nothing_wrong(&self) {
        let wrong = self.wrong.lock().unwrap();
        assert!(wrong.is_empty(), "{} wrong answers, such as {:?}", wrong.len(), wrong[0]);
    }
}

#[derive(QueryableByName)]
struct StoredRow {
    #[diesel(sql_type = Text)]
    key: String,
    #[diesel(sql_type = Text)]
    id: String,
    #[diesel(sql_type = Integer)]
    position: i32,
    #[diesel(sql_type = Text)]
    code: String,
}

/// Compares what the buyers were answered with what the database has: the same orders with the same tickets, and nothing else.
pub fn reconcile(conn: &mut PgConnection, sales: &[Sale]) {
    let sql = "SELECT o.idempotency_key AS key, o.id::text AS id, t.position, t.code FROM orders o \
        JOIN tickets t ON t.event_id = o.event_id AND t.order_id = o.id WHERE t.status = 'SOLD'";
    let rows: Vec<StoredRow> = sql_query(sql).load(conn).unwrap();
    let stored_tickets = rows.len();
    let mut stored: BTreeMap<String, (String, BTreeSet<(i64, String)>)> = BTreeMap::new();
    for row in rows {
        stored.entry(row.key).or_insert((row.id, BTreeSet::new())).1.insert((row.position.into(), row.code));
    }
    for sale in sales {
        assert_eq!(stored.get(&sale.key), Some(&answered(&sale.answer)), "{}: the database and the answer", sale.key);
        assert_eq!(sale.answer["quantity"], sale.quantity, "{}", sale.key);
    }
    let sold: i64 = sales.iter().map(|sale| sale.quantity).sum();
    assert_eq!((stored.len(), i64::try_from(stored_tickets).unwrap()), (sales.len(), sold), "orders and tickets, to the row");
    let left = sql_query("SELECT position FROM tickets WHERE status = 'AVAILABLE'").execute(conn).unwrap();
    assert_eq!(i64::try_from(left).unwrap(), TICKETS - sold, "what is left");
}

/// The order's id and its tickets, as an answer says.
fn answered(answer: &Value) -> (String, BTreeSet<(i64, String)>) {
    let ticket = |ticket: &Value| (ticket["position"].as_i64().unwrap(), ticket["code"].as_str().unwrap().to_owned());
    (answer["id"].as_str().unwrap().to_owned(), answer["tickets"].as_array().unwrap().iter().map(ticket).collect())
}
