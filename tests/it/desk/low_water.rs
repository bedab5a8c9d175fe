//! The low-water mark is a hint: a wrong one costs time, and never a sale.

use serde_json::json;

use crate::support::{Process, Shop};

/// Gives every sold ticket back, as a process of which the desk knows nothing would.
const RETURN_ALL: &str = "UPDATE orders SET status = 'CANCELLED'; \
    INSERT INTO order_history (event_id, order_id, number, at, actor_kind, change, positions) \
      SELECT event_id, id, 1, now(), 'buyer', 'cancel', positions FROM orders; UPDATE tickets SET status = 'AVAILABLE', order_id = NULL, code = NULL";

#[test]
fn tickets_that_came_back_below_the_mark_are_sold_before_anybody_is_told_too_few() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 10)]);
    assert_eq!(shop.buy(8).status, 201);
    shop.sql(RETURN_ALL);
    let bought = shop.buy(5).json();
    assert_eq!(bought["quantity"], 5, "2 above the mark and 3 below: {bought}");
    assert_eq!(shop.buy(5).status, 201);
    let refused = shop.buy(1);
    assert_eq!((refused.status, refused.code().as_str()), (409, "sold_out"));
}

#[test]
fn an_exact_rest_counts_what_is_below_the_mark() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 10)]);
    assert_eq!(shop.buy(10).status, 201);
    assert_eq!(shop.buy(1).code(), "sold_out");
    shop.sql(RETURN_ALL);
    let refused = shop.buy(11).json();
    assert_eq!((&refused["code"], &refused["available"]), (&json!("too_few_left"), &json!(10)));
}

#[test]
fn what_another_process_sold_is_stepped_over_and_what_is_loaded_is_found() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 10)]);
    let other = Process::serve(&["--database-url", shop.database.url()]);
    let other = other.client().with_key(&shop.key);
    let path = "/api/v1/events/gala/orders";
    assert_eq!(shop.buy(2).status, 201);
    assert_eq!(other.post(path, &crate::support::order(6)).json()["tickets"][0]["position"], 3);
    assert_eq!(shop.buy(2).json()["tickets"][1]["position"], 10);
    assert_eq!(other.post("/api/v1/events/gala/inventory", &json!({"ticket_type": "standard", "quantity": 3})).status, 201);
    assert_eq!(shop.buy(3).json()["tickets"][2]["position"], 13);
}
