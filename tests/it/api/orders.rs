//! `/api/v1/events/{slug}/orders`

use boxoffice::accounts::Scope;
use serde_json::{Value, json};

use crate::support::{Shop, at_once, order, order_of};

#[test]
fn a_purchase_is_answered_with_the_order_field_for_field() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let bought = shop.buy(2);
    assert_eq!(bought.status, 201, "{bought:?}");
    let mut body = bought.json();
    let id = body["id"].as_str().unwrap().to_owned();
    assert_eq!(bought.header("location"), format!("/api/v1/events/gala/orders/{id}"));
    for ticket in body["tickets"].as_array_mut().unwrap() {
        let position = ticket["position"].to_string();
        let code = ticket["code"].take();
        assert!(code.as_str().unwrap().starts_with(&format!("{position}-")), "{code}");
    }
    let created_at = body["created_at"].take();
    created_at.as_str().unwrap().parse::<chrono::DateTime<chrono::Utc>>().unwrap();
    let ticket = |position| json!({"position": position, "ticket_type": "standard", "section": null, "row": null, "seat": null, "code": null, "used_at": null});
    let expected = json!({
        "id": id, "event": "gala", "status": "sold", "quantity": 2, "requested_quantity": 2, "total_minor": 9_000, "currency": "EUR",
        "items": [{"ticket_type": "standard", "quantity": 2, "unit_price_minor": 4_500}],
        "tickets": [ticket(1), ticket(2)],
        "buyer": {"name": "Ada", "email": "ada@example.org"}, "cancelled_quantity": 0, "expires_at": null,
        "expires_in_seconds": null, "created_at": null,
    });
    assert_eq!(body, expected);
    let read = shop.client.get(&format!("/api/v1/events/gala/orders/{id}"));
    assert_eq!((read.status, read.json()), (200, bought.json()));
}

#[test]
fn a_basket_of_several_types_is_sold_whole_or_not_at_all() {
    let shop = Shop::open();
    shop.gala(&[("standard", 3_400, 5), ("vip", 9_000, 1)]);
    let refused = shop.client.post("/api/v1/events/gala/orders", &order_of(&[("standard", 2), ("vip", 2)]));
    assert_eq!((refused.status, refused.code().as_str()), (409, "too_few_left"));
    assert_eq!(shop.count("SOLD"), 0);
    let bought = shop.client.post("/api/v1/events/gala/orders", &order_of(&[("standard", 2), ("vip", 1)]));
    assert_eq!(bought.json()["total_minor"], 2 * 3_400 + 9_000);
    assert_eq!(shop.count("SOLD"), 3);
}

#[test]
fn a_shortage_says_exactly_what_is_left() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 7)]);
    let refused = shop.buy(8);
    assert_eq!((refused.status, refused.header("content-type")), (409, "application/problem+json"));
    let body = refused.json();
    assert_eq!((&body["code"], &body["requested"], &body["available"]), (&json!("too_few_left"), &json!(8), &json!(7)), "{body}");
    assert_eq!(shop.buy(7).status, 201);
    let refused = shop.buy(1).json();
    assert_eq!((&refused["code"], &refused["available"]), (&json!("sold_out"), &json!(0)), "{refused}");
    assert_eq!(refused["request_id"].as_str().map(str::len), Some(36));
}

#[test]
fn who_accepts_fewer_gets_what_is_left_and_is_told() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 3)]);
    let mut wish = order(5);
    wish["accept_fewer"] = json!(true);
    let bought = shop.client.post("/api/v1/events/gala/orders", &wish);
    let body = bought.json();
    assert_eq!((bought.status, &body["quantity"], &body["requested_quantity"]), (201, &json!(3), &json!(5)));
    assert_eq!(body["total_minor"], 3 * 4_500);
    let refused = shop.client.post("/api/v1/events/gala/orders", &wish);
    assert_eq!((refused.status, refused.code().as_str()), (409, "sold_out"), "none at all is not fewer");
}

#[test]
fn tickets_that_somebody_holds_may_come_back() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 2)]);
    assert_eq!(shop.buy(2).status, 201);
    shop.sql(
        "UPDATE orders SET status = 'HELD', expires_at = now() + interval '1 hour'; \
              UPDATE tickets SET status = 'HELD', code = NULL, held_until = now() + interval '1 hour'",
    );
    let refused = shop.buy(1);
    assert_eq!((refused.status, refused.code().as_str()), (409, "all_held"));
    assert_eq!(refused.json()["held"], 2);
    assert!(!refused.header("retry-after").is_empty());
}

#[test]
fn lines_of_one_type_count_together_against_the_limit() {
    let shop = Shop::open();
    shop.event("gala", json!({"max_per_order": 10}), &[("standard", 4_500, 50)]);
    let refused = shop.client.post("/api/v1/events/gala/orders", &order_of(&[("standard", 1); 20]));
    assert_eq!((refused.status, refused.code().as_str()), (409, "limit_exceeded"));
    assert_eq!((&refused.json()["limit"], &refused.json()["requested"]), (&json!(10), &json!(20)));
    assert_eq!(shop.count("SOLD"), 0);
    assert_eq!(shop.client.post("/api/v1/events/gala/orders", &order_of(&[("standard", 1); 10])).json()["items"][0]["quantity"], 10);
}

#[test]
fn a_quantity_is_a_json_integer_of_one_or_more() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    for wrong in [json!(-1), json!(0), json!(1_i64 << 31), json!("2"), json!(1.5), json!(2.0), json!(null), json!(true), json!([2])] {
        let mut body = order(1);
        body["items"][0]["quantity"] = wrong.clone();
        let refused = shop.client.post("/api/v1/events/gala/orders", &body);
        assert_eq!((refused.status, refused.code().as_str()), (422, "invalid_request"), "{wrong}: {refused:?}");
        assert_eq!(refused.json()["errors"][0]["field"], "items[0].quantity", "{wrong}: {refused:?}");
    }
    let mut missing = order(1);
    missing["items"][0].as_object_mut().unwrap().remove("quantity");
    assert_eq!(shop.client.post("/api/v1/events/gala/orders", &missing).json()["errors"][0]["field"], "items[0].quantity");
    assert_eq!((shop.count("SOLD"), shop.orders()), (0, 0));
}

#[test]
fn an_object_is_an_object_and_what_else_it_was_is_told_in_words_of_json() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let (buyer, items) = (json!({"name": "Ada", "email": "ada@example.org"}), json!([{"ticket_type": "standard", "quantity": 1}]));
    let wrong = [
        (json!([buyer, items]), "body", "must be an object, not an array"),
        (json!("gala"), "body", "must be an object, not string \"gala\""),
        (json!({"buyer": ["Ada", "ada@example.org"], "items": items}), "buyer", "must be an object, not an array"),
        (json!({"buyer": buyer, "items": [["standard", 1]]}), "items[0]", "must be an object, not an array"),
        (json!({"buyer": buyer, "items": items[0]}), "items", "must be an array, not an object"),
        (json!({"buyer": buyer, "items": [null]}), "items[0]", "must be an object, not null"),
        (json!({"buyer": {"name": 7}, "items": items}), "buyer.name", "must be a string, not integer `7`"),
        (json!({"buyer": buyer, "items": items, "accept_fewer": "yes"}), "accept_fewer", "must be true or false, not string \"yes\""),
    ];
    for (body, field, message) in wrong {
        let refused = shop.client.post("/api/v1/events/gala/orders", &body);
        assert_eq!(refused.status, 422, "{body}: {refused:?}");
        assert_eq!(refused.json()["errors"], json!([{"field": field, "message": message}]), "{body}");
    }
    assert_eq!((shop.count("SOLD"), shop.orders()), (0, 0));
}

#[test]
fn everything_wrong_is_told_at_once_and_by_field() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let refused = shop.client.post("/api/v1/events/gala/orders", &json!({"buyer": {"name": "", "email": "ada"}, "items": []}));
    let fields: Vec<Value> = refused.json()["errors"].as_array().unwrap().iter().map(|error| error["field"].clone()).collect();
    assert_eq!((refused.status, fields), (422, vec![json!("buyer.name"), json!("buyer.email"), json!("items")]));
    let unknown = shop.client.post("/api/v1/events/gala/orders", &order_of(&[("standard", 1), ("balcony", 1)]));
    assert_eq!((unknown.status, &unknown.json()["errors"][0]["field"]), (422, &json!("items[1].ticket_type")));
    let typo = shop.client.post("/api/v1/events/gala/orders", &json!({"buyer": {}, "items": [], "acept_fewer": true}));
    assert!(typo.body.contains("acept_fewer"), "{typo:?}");
}

#[test]
fn the_same_key_is_the_same_order() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let path = "/api/v1/events/gala/orders";
    let first = shop.client.post_keyed(path, "k-1", &order(2));
    let again = shop.client.post_keyed(path, "k-1", &order(2));
    assert_eq!((first.status, again.status, first.json()), (201, 201, again.json()));
    assert_eq!(shop.count("SOLD"), 2);
    let other = shop.client.post_keyed(path, "k-1", &order(3));
    assert_eq!((other.status, other.code().as_str()), (422, "idempotency_key_reused"));
    assert_eq!(shop.count("SOLD"), 2);
    let other_partner = shop.partner("other", &[Scope::Sell]).post_keyed(path, "k-1", &order(1));
    assert_eq!(other_partner.status, 201, "keys are each caller's own");
    let bad = shop.client.post_keyed(path, "a key", &order(1));
    assert_eq!((bad.status, &bad.json()["errors"][0]["field"]), (422, &json!("Idempotency-Key")));
    let two = [("content-type", "application/json"), ("idempotency-key", "k-2"), ("idempotency-key", "k-3")];
    let two = shop.client.send("POST", path, &two, order(1).to_string().as_bytes());
    assert_eq!((two.status, &two.json()["errors"][0]["message"]), (422, &json!("must be sent once")));
}

#[test]
fn a_key_whose_first_try_failed_may_succeed_later() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 1)]);
    let path = "/api/v1/events/gala/orders";
    assert_eq!(shop.client.post_keyed(path, "k-1", &order(2)).status, 409);
    shop.client.post("/api/v1/events/gala/inventory", &json!({"ticket_type": "standard", "quantity": 1}));
    assert_eq!(shop.client.post_keyed(path, "k-1", &order(2)).status, 201);
}

#[test]
fn four_times_the_same_key_at_once_is_one_order_and_four_equal_answers() {
    for stock in [2, 50] {
        let shop = Shop::open();
        shop.gala(&[("standard", 4_500, stock)]);
        let replies = at_once(4, |_| shop.client.post_keyed("/api/v1/events/gala/orders", "k-1", &order(2)));
        for reply in &replies {
            assert_eq!((reply.status, reply.json()), (201, replies[0].json()), "{reply:?}");
        }
        assert_eq!((shop.orders(), shop.count("SOLD")), (1, 2));
    }
}

#[test]
fn a_partner_sees_its_own_orders_and_an_admin_key_all() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 9)]);
    let (acme, other) = (shop.partner("acme", &[Scope::Read, Scope::Sell]), shop.partner("other", &[Scope::Read, Scope::Sell]));
    let path = "/api/v1/events/gala/orders";
    let id = acme.post(path, &order(1)).json()["id"].as_str().unwrap().to_owned();
    other.post(path, &order(1));
    assert_eq!(acme.get(&format!("{path}/{id}")).status, 200);
    assert_eq!(other.get(&format!("{path}/{id}")).status, 404);
    assert_eq!(acme.get(path).json()["orders"].as_array().unwrap().len(), 1);
    assert_eq!(shop.client.get(path).json()["orders"].as_array().unwrap().len(), 2);
}

#[test]
fn pages_of_orders_neither_skip_nor_repeat_even_at_equal_times() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 20)]);
    shop.clock.set("2027-01-05T10:00:00Z".parse().unwrap());
    let mut made: Vec<String> = (0..7).map(|_| shop.buy(1).json()["id"].as_str().unwrap().to_owned()).collect();
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = shop.client.get(&format!("/api/v1/events/gala/orders?limit=3&cursor={cursor}")).json();
        seen.extend(page["orders"].as_array().unwrap().iter().map(|order| order["id"].as_str().unwrap().to_owned()));
        // What is sold meanwhile is newer than every page to come.
        shop.buy(1);
        match page["next_cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    made.reverse();
    assert_eq!(seen, made);
    for wrong in ["limit=0", "limit=101", "limit=x", "cursor=x"] {
        assert_eq!(shop.client.get(&format!("/api/v1/events/gala/orders?{wrong}")).status, 422, "{wrong}");
    }
}

#[test]
fn ten_thousand_yen_are_ten_thousand_minor_units() {
    let shop = Shop::open();
    shop.event("gala", json!({"currency": "JPY"}), &[("standard", 10_000, 2)]);
    let bought = shop.buy(1).json();
    assert_eq!((&bought["total_minor"], &bought["currency"]), (&json!(10_000), &json!("JPY")));
}

#[test]
fn the_sale_keeps_to_its_window_and_its_state() {
    let shop = Shop::open();
    shop.event(
        "gala",
        json!({"time_zone": "America/New_York", "sales_open_at": "2027-03-15T10:00", "sales_close_at": "2027-03-16T10:00"}),
        &[("standard", 4_500, 9)],
    );
    let at = |moment: &str| {
        shop.clock.set(moment.parse().unwrap());
        let reply = shop.buy(1);
        (reply.status, if reply.status == 201 { String::new() } else { reply.code() })
    };
    assert_eq!(at("2027-03-15T13:59:59Z"), (409, "sales_not_open".to_owned()));
    assert_eq!(at("2027-03-15T14:00:00Z"), (201, String::new()), "10:00 in New York, after the clocks changed");
    assert_eq!(at("2027-03-16T14:00:00Z"), (409, "sales_closed".to_owned()));
    shop.clock.set("2027-03-15T15:00:00Z".parse().unwrap());
    for (state, code) in
        [("draft", "sales_not_open"), ("paused", "sales_not_open"), ("closed", "sales_closed"), ("cancelled", "sales_closed")]
    {
        assert_eq!(shop.client.patch("/api/v1/events/gala", &json!({"state": state})).status, 200);
        assert_eq!(shop.buy(1).code(), code, "{state}");
    }
}
