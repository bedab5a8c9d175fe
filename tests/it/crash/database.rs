//! The database goes away under the server, and comes back.

use std::{
    io,
    net::{TcpListener, TcpStream},
    os::unix::net::UnixStream,
    process::{Child, Stdio},
    thread,
};

use boxoffice::orders::audit;

use super::{
    buyers::{Crowd, Deal, TICKETS, reconcile},
    data_dir::{DataDir, put_gala_on_sale},
};
use crate::support::{Client, Database, Process, Shop, order, signal, wait_until};

const BUYERS: usize = 10;
/// Requests to see served before the outage, and after it.
const SERVED: usize = 60;

fn gala_on(data: &DataDir) -> (Process, Client) {
    let server = data.serve(&[]);
    let client = server.client().with_key(&data.partner_key("tester"));
    put_gala_on_sale(&client, TICKETS);
    (server, client)
}

fn nothing_is_lost(data: &DataDir, crowd: &Crowd, deals: &[Deal]) {
    assert_eq!(crowd.unanswered(), 0, "the server was there all the time");
    let holder = data.hold();
    reconcile(&mut holder.connect(), deals);
    assert_eq!(audit(&mut holder.connect()).unwrap().breaches, []);
}

#[test]
fn a_database_that_is_killed_under_load_is_started_again_and_no_sale_is_lost() {
    let data = DataDir::new();
    let (_server, client) = gala_on(&data);
    let crowd = Crowd::default();
    let deals = crowd.buy(BUYERS, &|| client.clone(), || {
        crowd.wait_until_served(SERVED);
        let killed = data.postmaster().unwrap();
        signal(killed, "KILL");
        wait_until("somebody is told 503 and when to come back", || crowd.turned_away() > 0);
        wait_until("it is started again", || data.postmaster().is_some_and(|pid| pid != killed));
        crowd.wait_until_served(SERVED);
    });
    nothing_is_lost(&data, &crowd, &deals);
}

#[test]
fn a_database_that_is_stopped_under_load_and_started_again_loses_no_sale() {
    let data = DataDir::new();
    let (_server, client) = gala_on(&data);
    let crowd = Crowd::default();
    let mut holder = None;
    let deals = crowd.buy(BUYERS, &|| client.clone(), || {
        crowd.wait_until_served(SERVED);
        let stopped = data.postmaster().unwrap();
        signal(stopped, "INT");
        wait_until("it is down", || data.postmaster().is_none());
        let before = crowd.turned_away();
        wait_until("every buyer is told 503 and when to come back", || crowd.turned_away() >= before + BUYERS);
        assert_eq!(data.postmaster(), None, "who stopped it on purpose finds it stopped");
        holder = Some(data.hold());
        crowd.wait_until_served(SERVED);
    });
    nothing_is_lost(&data, &crowd, &deals);
}

/// The address of a database that is not there yet: a port that nobody listens on, which can later lead to the real one.
struct Address {
    port: u16,
    socket: String,
}

impl Address {
    fn of(database: &Database) -> Self {
        let directory = database.url().strip_prefix("host='").unwrap().split('\'').next().unwrap();
        Self { port: free_port(), socket: format!("{directory}/.s.PGSQL.5432") }
    }

    /// libpq takes the last of two equal keys.
    fn url(&self, database: &Database) -> String {
        format!("{} host=127.0.0.1 port={}", database.url(), self.port)
    }

    /// From now on the database is there. The threads end with the connections that they serve.
    fn connect(&self) {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).unwrap();
        let socket = self.socket.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                forward(&client, &UnixStream::connect(&socket).unwrap());
            }
        });
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn forward(client: &TcpStream, server: &UnixStream) {
    let (mut from_client, mut to_client) = (client.try_clone().unwrap(), client.try_clone().unwrap());
    let (mut from_server, mut to_server) = (server.try_clone().unwrap(), server.try_clone().unwrap());
    thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(std::net::Shutdown::Both);
    });
    thread::spawn(move || {
        let _ = io::copy(&mut from_server, &mut to_client);
        let _ = to_client.shutdown(std::net::Shutdown::Both);
    });
}

/// A server that may not be ready for long.
struct Early {
    child: Child,
    client: Client,
}

impl Early {
    fn serve(url: &str) -> Self {
        let listen = format!("127.0.0.1:{}", free_port());
        let mut command = Process::command();
        command.args(["serve", "--listen", &listen, "--database-url", url]).stdout(Stdio::null()).stderr(Stdio::null());
        let early = Self { child: command.spawn().unwrap(), client: Client::new(&format!("http://{listen}")) };
        wait_until("it listens", || early.client.try_send("GET", "/livez", &[], b"").is_some());
        early
    }
}

impl Drop for Early {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_without_its_database_lives_and_says_that_it_is_not_ready() {
    let shop = Shop::open();
    let server = Early::serve(&Address::of(&shop.database).url(&shop.database));
    assert_eq!(server.client.get("/livez").status, 200);
    for path in ["/readyz", "/api/v1/events", "/api/v1/events/gala/availability"] {
        let refused = server.client.with_key(&shop.key).get(path);
        assert_eq!(refused.status, 503, "{path}: {refused:?}");
        assert!(refused.header("retry-after").parse::<u32>().is_ok(), "{path}: {refused:?}");
    }
}

#[test]
fn a_server_that_was_started_before_its_database_serves_when_that_comes() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 2)]);
    let address = Address::of(&shop.database);
    let server = Early::serve(&address.url(&shop.database));
    assert_eq!(server.client.get("/readyz").status, 503);
    address.connect();
    wait_until("it is ready", || server.client.get("/readyz").status == 200);
    let bought = server.client.with_key(&shop.key).post("/api/v1/events/gala/orders", &order(2));
    assert_eq!(bought.status, 201, "{bought:?}");
}

#[test]
fn a_server_that_waits_for_its_database_ends_when_it_is_told_to() {
    let shop = Shop::open();
    let mut server = Early::serve(&Address::of(&shop.database).url(&shop.database));
    signal(server.child.id(), "TERM");
    let mut status = None;
    wait_until("it ends", || {
        status = server.child.try_wait().unwrap();
        status.is_some()
    });
    assert!(status.unwrap().success(), "{status:?}");
}
