//! A database, a server on it, and a partner who may do everything.

use std::{net::TcpListener, thread};

use boxoffice::{
    accounts::{self, Scope},
    app::App,
    clock::Clock,
    config::WebConfig,
    orders, web,
};
use diesel::{PgConnection, RunQueryDsl, connection::SimpleConnection, sql_query, sql_types::BigInt};
use serde_json::{Value, json};

use super::{
    cluster::Database,
    http::{Client, Reply},
};

/// A shop that is open for the length of a test. When it closes, the audit must find nothing.
pub struct Shop {
    pub database: Database,
    pub client: Client,
    pub clock: Clock,
    pub key: String,
    pub setup_token: String,
    _server: Server,
}

/// A server in this process, until it is dropped.
pub struct Server {
    pub client: Client,
    handle: actix_web::dev::ServerHandle,
    thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    /// Opens one, and returns it with its secret for the first admin.
    fn open(database: &Database, clock: &Clock, configure: impl FnOnce(&mut WebConfig)) -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let mut config = WebConfig::at(&base);
        configure(&mut config);
        let app = App::new(config, database.pool(), clock.clone());
        let setup_token = app.setup_token.clone();
        let (send, receive) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            actix_web::rt::System::new().block_on(async {
                let server = web::server(app, listener, Some(2)).unwrap();
                send.send(server.handle()).unwrap();
                server.await.unwrap();
            });
        });
        (Self { client: Client::new(&base), handle: receive.recv().unwrap(), thread: Some(thread) }, setup_token)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        actix_web::rt::System::new().block_on(self.handle.stop(false));
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

impl Shop {
    /// A shop with a server in this process.
    pub fn open() -> Self {
        Self::open_with(|_| {})
    }

    /// The same, with a configuration of the test's own.
    pub fn open_with(configure: impl FnOnce(&mut WebConfig)) -> Self {
        let (database, clock) = (Database::new(), Clock::system());
        let (server, setup_token) = Server::open(&database, &clock, configure);
        let key = partner_key(&mut database.connect(), "tester", &[Scope::Read, Scope::Sell, Scope::Admin]);
        let client = server.client.with_key(&key);
        Self { database, client, clock, key, setup_token, _server: server }
    }

    /// One more server on the same database and by the same clock, whose client has the shop's key.
    pub fn another_server(&self) -> Server {
        let (mut server, _) = Server::open(&self.database, &self.clock, |_| {});
        server.client = server.client.with_key(&self.key);
        server
    }

    /// Another partner's client, whose key may do `scopes`.
    pub fn partner(&self, name: &str, scopes: &[Scope]) -> Client {
        self.client.with_key(&partner_key(&mut self.database.connect(), name, scopes))
    }

    /// Makes an event `gala` with these ticket types: code, price in minor units, how many.
    pub fn gala(&self, types: &[(&str, i64, i64)]) {
        self.event("gala", json!({}), types);
    }

    /// Makes an event with further fields and these ticket types.
    pub fn event(&self, slug: &str, fields: Value, types: &[(&str, i64, i64)]) {
        let mut body = json!({"slug": slug, "name": "Gala", "currency": "EUR"});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let made = self.client.post("/api/v1/events", &body);
        assert_eq!(made.status, 201, "{made:?}");
        for (code, price_minor, quantity) in types {
            let made = self.client.post(&format!("/api/v1/events/{slug}/ticket-types"), &json!({"code": code, "price_minor": price_minor}));
            assert_eq!(made.status, 201, "{made:?}");
            if *quantity > 0 {
                let load = json!({"ticket_type": code, "quantity": quantity});
                let loaded = self.client.post(&format!("/api/v1/events/{slug}/inventory"), &load);
                assert_eq!(loaded.status, 201, "{loaded:?}");
            }
        }
    }

    /// Buys `quantity` tickets of the type `standard` for the gala.
    pub fn buy(&self, quantity: i64) -> Reply {
        self.client.post("/api/v1/events/gala/orders", &order(quantity))
    }

    /// How many tickets of the whole database are in that status.
    pub fn count(&self, status: &str) -> i64 {
        count(&mut self.database.connect(), &format!("SELECT count(*) AS count FROM tickets WHERE status = '{status}'"))
    }

    /// How many orders the database has.
    pub fn orders(&self) -> i64 {
        count(&mut self.database.connect(), "SELECT count(*) AS count FROM orders")
    }

    /// The audit, which must find nothing.
    pub fn audit(&self) {
        let report = orders::audit(&mut self.database.connect()).unwrap();
        assert!(report.breaches.is_empty(), "{:#?}", report.breaches);
    }

    /// Whether somebody waits for a lock on the database.
    pub fn waits_for_a_lock(&self) -> bool {
        self.database.waits_for_a_lock()
    }

    /// Whether a sale is being held up by a trigger that sleeps.
    pub fn is_in_a_sale(&self) -> bool {
        self.sales_under_way() > 0
    }

    /// How many sales stand still in the database.
    pub fn sales_under_way(&self) -> i64 {
        let sql = "SELECT count(*) AS count FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";
        count(&mut self.database.connect(), sql)
    }

    /// Runs SQL as somebody outside the product would.
    pub fn sql(&self, sql: &str) {
        self.database.connect().batch_execute(sql).unwrap();
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.audit();
        }
    }
}

fn partner_key(conn: &mut PgConnection, name: &str, scopes: &[Scope]) -> String {
    accounts::create_partner_key(conn, Clock::system().now(), name, scopes).unwrap()
}

#[derive(diesel::QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

fn count(conn: &mut PgConnection, sql: &str) -> i64 {
    sql_query(sql).get_result::<Count>(conn).unwrap().count
}

/// The body of an order of `quantity` standard tickets.
pub fn order(quantity: i64) -> Value {
    order_of(&[("standard", quantity)])
}

/// The body of an order of several types.
pub fn order_of(lines: &[(&str, i64)]) -> Value {
    let items: Vec<Value> = lines.iter().map(|(code, quantity)| json!({"ticket_type": code, "quantity": quantity})).collect();
    json!({"buyer": {"name": "Ada", "email": "ada@example.org"}, "items": items})
}
