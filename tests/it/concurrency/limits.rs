//! What one buyer may have, over all orders, whoever sells them.

use boxoffice::orders::expire_everywhere;
use chrono::TimeDelta;
use serde_json::{Value, json};

use super::processes::servers;
use crate::support::{Client, Reply, Shop, at_once};

const ORDERS: &str = "/api/v1/events/gala/orders";
const HOLDS: &str = "/api/v1/events/gala/holds";

fn shop_with_limit(limit: Value, tickets: i64) -> Shop {
    let shop = Shop::open();
    shop.event("gala", json!({"max_per_buyer": limit}), &[("standard", 4_500, tickets)]);
    shop
}

fn of(email: &str, quantity: i64) -> Value {
    json!({"buyer": {"name": "Ada", "email": email}, "items": [{"ticket_type": "standard", "quantity": quantity}]})
}

fn said(reply: &Reply) -> (u16, String) {
    (reply.status, if reply.status < 400 { String::new() } else { reply.code() })
}

fn exceeded() -> (u16, String) {
    (409, "limit_exceeded".to_owned())
}

fn path(made: &Reply) -> String {
    assert_eq!(made.status, 201, "{made:?}");
    made.header("location").to_owned()
}

/// CASE 8, through three processes.
#[test]
fn a_hundred_orders_under_one_address_at_once_get_four_tickets() {
    let shop = shop_with_limit(json!(4), 500);
    let (_servers, clients) = servers(&shop, 3);
    let ways = ["ada@example.org", "Ada@Example.org", "ada+1@example.org", "ADA+gala@example.ORG"];
    let replies = at_once(100, |number| {
        let path = if number % 2 == 0 { ORDERS } else { HOLDS };
        clients[number % 3].post(path, &of(ways[number % 4], 1))
    });
    assert_eq!(replies.iter().filter(|reply| reply.status == 201).count(), 4);
    assert_eq!(replies.iter().filter(|reply| said(reply) == exceeded()).count(), 96);
    assert_eq!(shop.count("SOLD") + shop.count("HELD"), 4);
}

/// Two batches with the same buyers in turned order.
#[test]
fn many_buyers_in_all_orders_get_what_each_may_have_and_nobody_meets_a_deadlock() {
    let shop = shop_with_limit(json!(3), 5_000);
    let (_servers, clients) = servers(&shop, 2);
    let tallies = at_once(16, |number| {
        let order = |turn: usize| (turn * (number + 3) + number) % 20;
        let buy = |turn: usize| clients[number % 2].post(ORDERS, &of(&format!("buyer{}@example.org", order(turn)), 1));
        (0..40).map(buy).collect::<Vec<_>>()
    });
    let replies: Vec<Reply> = tallies.into_iter().flatten().collect();
    let strange = replies.iter().find(|reply| reply.status != 201 && said(reply) != exceeded());
    assert!(strange.is_none(), "{strange:?}");
    assert_eq!(replies.iter().filter(|reply| reply.status == 201).count(), 60, "twenty buyers, three each");
}

#[test]
fn a_refusal_says_what_the_buyer_has() {
    let shop = shop_with_limit(json!(4), 50);
    assert_eq!(shop.client.post(ORDERS, &of("ada@example.org", 3)).status, 201);
    let refused = shop.client.post(ORDERS, &of("ada@example.org", 2));
    assert_eq!(said(&refused), exceeded());
    let body = refused.json();
    assert_eq!((&body["limit"], &body["has"], &body["requested"]), (&json!(4), &json!(3), &json!(2)), "{body}");
    assert_eq!(said(&shop.client.post(ORDERS, &of("eve@example.org", 5))), exceeded());
    assert_eq!(shop.client.post(ORDERS, &of("ada@example.org", 1)).status, 201);
    assert_eq!(shop.client.post(ORDERS, &of("eve@example.org", 4)).status, 201);
}

#[test]
fn what_is_given_back_or_has_run_out_may_be_had_again() {
    let shop = shop_with_limit(json!(2), 50);
    shop.clock.set("2027-01-05T10:00:00Z".parse().unwrap());
    let buy = |quantity| shop.client.post(ORDERS, &of("ada@example.org", quantity));
    let bought = path(&buy(2));
    assert_eq!(said(&buy(1)), exceeded());
    assert_eq!(shop.client.post(&format!("{bought}/cancel"), &json!({"positions": [1]})).status, 200);
    let held = path(&shop.client.post(HOLDS, &of("ada@example.org", 1)));
    assert_eq!(said(&buy(1)), exceeded(), "a hold counts");
    shop.clock.set(shop.clock.now() + TimeDelta::minutes(10));
    assert_eq!(buy(1).status, 201, "until it is over");
    let late = shop.client.post(&format!("{held}/confirm"), &json!({}));
    assert_eq!(said(&late), exceeded(), "and is then too much");
    assert_eq!(expire_everywhere(&mut shop.database.connect(), shop.clock.now()).unwrap().len(), 1);
    assert_eq!(said(&shop.client.post(&format!("{held}/confirm"), &json!({}))), exceeded());
    assert_eq!(shop.client.post(&format!("{bought}/cancel"), &json!({})).status, 200);
    assert_eq!(shop.client.post(&format!("{held}/confirm"), &json!({})).json()["status"], "sold");
    assert_eq!((shop.count("SOLD"), said(&buy(1))), (2, exceeded()));
}

#[test]
fn the_same_request_sent_twice_is_one_order_and_not_too_many() {
    let shop = shop_with_limit(json!(2), 50);
    let (_servers, clients) = servers(&shop, 2);
    let send = |client: &Client| client.post_keyed(ORDERS, "k", &of("ada@example.org", 2));
    let replies = at_once(12, |number| send(&clients[number % 2]));
    for reply in &replies {
        assert_eq!((reply.status, reply.json()), (201, replies[0].json()));
    }
    assert_eq!(shop.orders(), 1);
}

#[test]
fn a_limit_that_is_set_later_counts_what_was_bought_before() {
    let shop = shop_with_limit(json!(null), 50);
    assert_eq!(shop.client.post(ORDERS, &of("Ada+early@example.org", 3)).status, 201);
    assert_eq!(shop.client.patch("/api/v1/events/gala", &json!({"max_per_buyer": 4})).status, 200);
    assert_eq!(said(&shop.client.post(ORDERS, &of("ada@example.org", 2))), exceeded());
    assert_eq!(shop.client.post(ORDERS, &of("ada@example.org", 1)).status, 201);
    assert_eq!(shop.client.patch("/api/v1/events/gala", &json!({"max_per_buyer": null})).status, 200);
    assert_eq!(shop.client.post(ORDERS, &of("ada@example.org", 10)).status, 201);
}

/// A buyer whom the limit refuses takes nothing from whoever stands behind.
#[test]
fn the_last_tickets_go_to_who_may_have_them() {
    let shop = shop_with_limit(json!(2), 4);
    assert_eq!(shop.client.post(ORDERS, &of("ada@example.org", 2)).status, 201);
    let replies = at_once(8, |number| {
        let email = if number == 7 { "eve@example.org" } else { "ada@example.org" };
        shop.client.post(ORDERS, &of(email, 2))
    });
    assert_eq!(replies[7].status, 201, "{:?}", replies[7]);
    assert_eq!(replies.iter().filter(|reply| said(reply) == exceeded()).count(), 7);
}
