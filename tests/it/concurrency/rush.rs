//! A rush on few tickets, through one server.

use serde_json::json;

use crate::support::{Shop, at_once, order, order_of};

#[test]
fn fifty_buyers_and_ten_tickets_make_ten_sales_and_forty_clear_answers() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 10)]);
    let replies = at_once(50, |_| shop.buy(1));
    assert_eq!(replies.iter().filter(|reply| reply.status == 201).count(), 10);
    let refused: Vec<_> = replies.iter().filter(|reply| reply.status == 409 && reply.code() == "sold_out").collect();
    assert_eq!((refused.len(), shop.count("SOLD"), shop.count("AVAILABLE")), (40, 10, 0));
}

#[test]
fn two_orders_of_two_and_two_tickets_make_one_sale() {
    for _ in 0..5 {
        let shop = Shop::open();
        shop.gala(&[("standard", 4_500, 2)]);
        let mut statuses = at_once(2, |_| shop.buy(2).status);
        statuses.sort_unstable();
        assert_eq!((statuses, shop.count("SOLD")), (vec![201, 409], 2));
    }
}

#[test]
fn baskets_in_opposite_orders_never_deadlock() {
    let shop = Shop::open();
    shop.gala(&[("a", 100, 60), ("b", 100, 60)]);
    let baskets = [order_of(&[("a", 1), ("b", 1)]), order_of(&[("b", 1), ("a", 1)])];
    let statuses = at_once(100, |number| shop.client.post("/api/v1/events/gala/orders", &baskets[number % 2]).status);
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 60);
    assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 40, "{statuses:?}");
    assert_eq!(shop.count("SOLD"), 120);
}

#[test]
fn orders_of_ten_under_stale_statistics_never_take_an_eleventh() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 1)]);
    shop.sql("ANALYZE tickets");
    shop.client.post("/api/v1/events/gala/inventory", &json!({"ticket_type": "standard", "quantity": 1_004}));
    let statuses: Vec<u16> = at_once(16, |_| (0..8).map(|_| shop.buy(10).status).collect::<Vec<_>>()).concat();
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 100);
    assert_eq!((shop.count("SOLD"), shop.count("AVAILABLE")), (1_000, 5));
}

#[test]
fn who_accepts_fewer_in_a_rush_leaves_nothing_over() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 25)]);
    let mut wish = order(4);
    wish["accept_fewer"] = json!(true);
    let got: i64 = at_once(20, |_| shop.client.post("/api/v1/events/gala/orders", &wish))
        .iter()
        .filter(|reply| reply.status == 201)
        .map(|reply| reply.json()["quantity"].as_i64().unwrap())
        .sum();
    assert_eq!((got, shop.count("SOLD")), (25, 25));
}
