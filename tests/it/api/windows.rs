//! What a request gets in each state of an event, and before, in and after its windows.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::support::{Reply, Shop, order, order_of};

fn at(moment: &str) -> DateTime<Utc> {
    moment.parse().unwrap()
}

fn said(reply: &Reply) -> (u16, String) {
    (reply.status, if reply.status < 400 { String::new() } else { reply.code() })
}

fn refused(code: &str) -> (u16, String) {
    (409, code.to_owned())
}

fn sold() -> (u16, String) {
    (201, String::new())
}

#[test]
fn each_state_has_its_answer_for_sales_and_holds_alike() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 20)]);
    let expected = [
        ("draft", refused("sales_not_open")),
        ("on_sale", sold()),
        ("paused", refused("sales_not_open")),
        ("closed", refused("sales_closed")),
        ("cancelled", refused("sales_closed")),
    ];
    for (state, expected) in expected {
        assert_eq!(shop.client.patch("/api/v1/events/gala", &json!({"state": state})).status, 200);
        assert_eq!(said(&shop.buy(1)), expected, "{state}");
        assert_eq!(said(&shop.client.post("/api/v1/events/gala/holds", &order(1))), expected, "{state}");
    }
    assert_eq!((shop.count("SOLD"), shop.count("HELD")), (1, 1));
}

/// CASE 29: whatever zone its admin sits in, the event opens at its own ten o'clock, on both sides of the clock change of 14 March 2027.
#[test]
fn a_sale_opens_at_ten_in_the_event_s_own_zone_on_both_sides_of_a_clock_change() {
    for (day, opens) in [("2027-03-13", "2027-03-13T15:00:00Z"), ("2027-03-15", "2027-03-15T14:00:00Z")] {
        let shop = Shop::open();
        let fields = json!({"time_zone": "America/New_York", "sales_open_at": format!("{day}T10:00")});
        shop.event("gala", fields, &[("standard", 4_500, 5)]);
        assert_eq!(shop.client.get("/api/v1/events/gala").json()["sales_open_at"], opens);
        shop.clock.set(at(opens) - chrono::TimeDelta::microseconds(1));
        let early = shop.buy(1);
        assert_eq!((said(&early), &early.json()["opens_at"]), (refused("sales_not_open"), &json!(opens)));
        shop.clock.set(at(opens));
        assert_eq!(said(&shop.buy(1)), sold());
    }
}

fn with_windows() -> Shop {
    let shop = Shop::open();
    shop.event("gala", json!({"time_zone": "Europe/Berlin"}), &[("standard", 4_500, 5)]);
    let early = json!({"code": "early", "price_minor": 3_000, "sales_close_at": "2027-01-10T00:00"});
    let added = shop.client.post("/api/v1/events/gala/ticket-types", &early);
    assert_eq!((added.status, &added.json()["sales_close_at"]), (201, &json!("2027-01-09T23:00:00Z")), "in the event's zone: {added:?}");
    assert_eq!(shop.client.post("/api/v1/events/gala/inventory", &json!({"ticket_type": "early", "quantity": 5})).status, 201);
    shop
}

fn buy(shop: &Shop, lines: &[(&str, i64)]) -> Reply {
    shop.client.post("/api/v1/events/gala/orders", &order_of(lines))
}

#[test]
fn a_type_sells_only_in_its_own_window_and_the_others_go_on() {
    let shop = with_windows();
    shop.clock.set(at("2027-01-09T22:59:59Z"));
    assert_eq!(said(&buy(&shop, &[("early", 1), ("standard", 1)])), sold());
    shop.clock.set(at("2027-01-09T23:00:00Z"));
    let late = buy(&shop, &[("early", 1), ("standard", 1)]);
    assert_eq!((said(&late), &late.json()["ticket_type"]), (refused("sales_closed"), &json!("early")));
    assert_eq!(said(&buy(&shop, &[("standard", 1)])), sold());
    let moved = json!({"sales_open_at": "2027-01-20T10:00:00+01:00", "sales_close_at": null, "price_minor": 3_500});
    let moved = shop.client.patch("/api/v1/events/gala/ticket-types/early", &moved);
    assert_eq!(
        (moved.status, &moved.json()["sales_open_at"], &moved.json()["code"]),
        (200, &json!("2027-01-20T09:00:00Z"), &json!("early"))
    );
    let early = buy(&shop, &[("early", 1)]);
    assert_eq!((said(&early), &early.json()["opens_at"]), (refused("sales_not_open"), &json!("2027-01-20T09:00:00Z")));
    shop.clock.set(at("2027-01-20T09:00:00Z"));
    assert_eq!(buy(&shop, &[("early", 1)]).json()["total_minor"], 3_500);
}

#[test]
fn a_type_does_not_sell_while_its_event_does_not() {
    let shop = with_windows();
    shop.clock.set(at("2027-01-05T10:00:00Z"));
    assert_eq!(shop.client.patch("/api/v1/events/gala", &json!({"sales_open_at": "2027-01-06T10:00"})).status, 200);
    let early = buy(&shop, &[("early", 1)]);
    assert_eq!((said(&early), &early.json()["opens_at"]), (refused("sales_not_open"), &json!("2027-01-06T09:00:00Z")));
    assert_eq!(early.json()["ticket_type"], Value::Null, "it is the event's window");
}

#[test]
fn what_a_ticket_type_cannot_be_changed_to_is_refused() {
    let shop = with_windows();
    let patch = |body: Value| shop.client.patch("/api/v1/events/gala/ticket-types/early", &body);
    for (body, field) in [
        (json!({"code": "late"}), "code"),
        (json!({"price_minor": null}), "price_minor"),
        (json!({"price_minor": -1}), "price_minor"),
        (json!({"sales_open_at": "2027-02-01T10:00"}), "sales_close_at"),
        (json!({"sales_close_at": "tomorrow"}), "sales_close_at"),
    ] {
        let refused = patch(body.clone());
        assert_eq!((refused.status, &refused.json()["errors"][0]["field"]), (422, &json!(field)), "{body}: {refused:?}");
    }
    assert_eq!(patch(json!({"colour": "red"})).status, 422);
    assert_eq!(shop.client.patch("/api/v1/events/gala/ticket-types/none", &json!({})).status, 404);
    let refused = shop.client.post("/api/v1/events/gala/ticket-types", &json!({"code": "x"}));
    assert_eq!((refused.status, &refused.json()["errors"][0]["field"]), (422, &json!("price_minor")));
}

#[test]
fn an_event_says_how_it_sells_and_what_it_allows() {
    let shop = Shop::open();
    let fields = json!({"checkout": "hold", "max_per_buyer": 4, "buyers_cancel_until": "2027-01-05T10:00", "time_zone": "Europe/Berlin"});
    shop.event("gala", fields, &[]);
    let event = shop.client.get("/api/v1/events/gala").json();
    assert_eq!(
        (&event["checkout"], &event["max_per_buyer"], &event["buyers_cancel_until"]),
        (&json!("hold"), &json!(4), &json!("2027-01-05T09:00:00Z"))
    );
    let changed = shop
        .client
        .patch("/api/v1/events/gala", &json!({"max_per_buyer": null, "buyers_cancel_until": null, "checkout": "at_once"}))
        .json();
    assert_eq!(
        (&changed["checkout"], &changed["max_per_buyer"], &changed["buyers_cancel_until"]),
        (&json!("at_once"), &json!(null), &json!(null))
    );
    for (body, field) in [
        (json!({"checkout": "later"}), "checkout"),
        (json!({"checkout": null}), "checkout"),
        (json!({"max_per_buyer": 0}), "max_per_buyer"),
        (json!({"max_per_buyer": 2_147_483_648_i64}), "max_per_buyer"),
        (json!({"buyers_cancel_until": "soon"}), "buyers_cancel_until"),
    ] {
        let refused = shop.client.patch("/api/v1/events/gala", &body);
        assert_eq!((refused.status, &refused.json()["errors"][0]["field"]), (422, &json!(field)), "{body}");
    }
}
