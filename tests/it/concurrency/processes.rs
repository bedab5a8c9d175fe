//! Several servers on one database.

use serde_json::json;

use crate::support::{Client, Process, Shop, at_once, order};

pub fn servers(shop: &Shop, count: usize) -> (Vec<Process>, Vec<Client>) {
    let servers: Vec<Process> = at_once(count, |_| Process::serve(&["--database-url", shop.database.url(), "--database-connections", "8"]));
    let clients = servers.iter().map(|server| server.client().with_key(&shop.key)).collect();
    (servers, clients)
}

#[test]
fn fifty_buyers_and_ten_tickets_through_four_processes() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 10)]);
    let (_servers, clients) = servers(&shop, 4);
    let replies = at_once(50, |number| clients[number % 4].post("/api/v1/events/gala/orders", &order(1)));
    assert_eq!(replies.iter().filter(|reply| reply.status == 201).count(), 10);
    assert_eq!(replies.iter().filter(|reply| reply.status == 409 && reply.code() == "sold_out").count(), 40);
    assert_eq!(shop.count("SOLD"), 10);
}

#[test]
fn the_same_key_through_four_processes_is_one_order() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 2)]);
    let (_servers, clients) = servers(&shop, 4);
    let replies = at_once(16, |number| clients[number % 4].post_keyed("/api/v1/events/gala/orders", "k-1", &order(2)));
    for reply in &replies {
        assert_eq!((reply.status, reply.json()), (201, replies[0].json()));
    }
    assert_eq!(shop.orders(), 1);
}

#[test]
fn ten_thousand_purchases_of_one_to_six_add_up_to_the_row() {
    const CLIENTS: usize = 32;
    const EACH: usize = 313;
    let shop = Shop::open();
    // Enough for most and too few for all (35,000 on average), so that the end is part of the test.
    shop.gala(&[("standard", 4_500, 33_000)]);
    let (_servers, clients) = servers(&shop, 3);
    let tallies = at_once(CLIENTS, |number| {
        let (mut got, mut refused, mut other) = (0, 0, Vec::new());
        for turn in 0..EACH {
            let quantity = i64::try_from((number * 7 + turn * 5) % 6 + 1).unwrap();
            let reply = clients[number % 3].post("/api/v1/events/gala/orders", &order(quantity));
            match reply.status {
                201 => got += reply.json()["quantity"].as_i64().unwrap(),
                409 => refused += 1,
                _ => other.push(reply),
            }
        }
        (got, refused, other)
    });
    let got: i64 = tallies.iter().map(|(got, _, _)| got).sum();
    let refused: i64 = tallies.iter().map(|(_, refused, _)| refused).sum();
    let other: Vec<_> = tallies.into_iter().flat_map(|(_, _, other)| other).collect();
    assert!(other.is_empty(), "no deadlock and no 500 reaches a client: {other:?}");
    assert_eq!((shop.count("SOLD"), shop.count("AVAILABLE")), (got, 33_000 - got));
    assert!(refused > 0, "the stock was to run out");
    let left = shop.client.get("/api/v1/events/gala/availability").json();
    assert_eq!(left["available"], json!(33_000 - got));
}
