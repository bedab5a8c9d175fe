//! The private database, seen from outside: who starts it, who shares it, who stops it.

use std::time::{Duration, Instant};

use serde_json::json;

use super::data_dir::{DataDir, is_alive};
use crate::support::{Client, Process, at_once, order, wait_until};

/// What SIGTERM may take, database and all.
const END_MAX: Duration = Duration::from_secs(10);

fn buy(client: &Client, quantity: i64) -> serde_json::Value {
    let bought = client.post("/api/v1/events/gala/orders", &order(quantity));
    assert_eq!(bought.status, 201, "{bought:?}");
    bought.json()
}

fn terminate(server: Process) {
    let told = Instant::now();
    let status = server.terminate();
    assert!(status.success(), "{status}");
    assert!(told.elapsed() < END_MAX, "it took {:?}", told.elapsed());
}

#[test]
fn two_servers_started_at_the_same_moment_on_one_directory_sell_from_one_stock() {
    let data = DataDir::new();
    let servers = at_once(2, |_| data.serve(&["--demo"]));
    let key = data.partner_key("tester");
    let clients: Vec<Client> = servers.iter().map(|server| server.client().with_key(&key)).collect();
    at_once(8, |number| buy(&clients[number % 2], 5));
    for client in clients {
        let left = client.get("/api/v1/events/gala/availability").json();
        assert_eq!(left["available"], json!(500 - 40), "{left}");
    }
}

#[test]
fn the_first_of_two_servers_ends_and_the_second_goes_on_until_it_stops_the_database() {
    let data = DataDir::new();
    let (first, second) = (data.serve(&["--demo"]), data.serve(&["--demo"]));
    let client = second.client().with_key(&data.partner_key("tester"));
    let postmaster = data.postmaster().unwrap();

    terminate(first);
    buy(&client, 1);
    assert_eq!(data.postmaster(), Some(postmaster), "the first leaves it running");

    terminate(second);
    assert_eq!(data.postmaster(), None);
    assert!(!is_alive(postmaster), "the last one stops it");
}

#[test]
fn after_a_killed_server_the_next_one_joins_the_database_and_sells_on() {
    let data = DataDir::new();
    let killed = data.serve(&["--demo"]);
    let key = data.partner_key("tester");
    let order = buy(&killed.client().with_key(&key), 2);
    let postmaster = data.postmaster().unwrap();
    killed.kill();
    assert_eq!(data.postmaster(), Some(postmaster), "it outlives the server");

    let next = data.serve(&[]);
    let client = next.client().with_key(&key);
    assert_eq!(data.postmaster(), Some(postmaster), "it is joined, not started again");
    assert_eq!(client.get(&format!("/api/v1/events/gala/orders/{}", order["id"].as_str().unwrap())).json(), order);
    buy(&client, 2);
}

#[test]
fn a_partner_is_given_a_key_whether_a_server_runs_or_not() {
    let data = DataDir::new();
    let without = data.partner_key("before");
    assert_eq!(data.postmaster(), None, "the command stops what it started");
    let server = data.serve(&["--demo"]);
    let with = data.partner_key("after");
    assert!(data.postmaster().is_some(), "the command leaves the server's database running");
    for key in [without, with] {
        assert_eq!(server.client().with_key(&key).get("/api/v1/events/gala/orders").status, 200, "{key}");
    }
}

#[test]
fn everything_sold_is_still_there_after_a_restart_in_good_order() {
    let data = DataDir::new();
    let first = data.serve(&["--demo"]);
    let key = data.partner_key("tester");
    let order = buy(&first.client().with_key(&key), 2);
    terminate(first);
    let next = data.serve(&["--demo"]);
    let found = next.client().with_key(&key).get(&format!("/api/v1/events/gala/orders/{}", order["id"].as_str().unwrap()));
    assert_eq!(found.json(), order);
    wait_until("it says that it is ready", || next.client().get("/readyz").status == 200);
}
