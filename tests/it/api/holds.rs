//! `POST …/holds`, `…/confirm`, `…/cancel`, and what a hold is when its time is up.

use boxoffice::accounts::Scope;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

use crate::support::{Client, Reply, Shop, order, order_of};

const HOLDS: &str = "/api/v1/events/gala/holds";

fn now() -> DateTime<Utc> {
    "2027-01-05T10:00:00Z".parse().unwrap()
}

/// A shop whose clock stands still, and a gala with so many standard tickets.
fn shop_with(tickets: i64) -> Shop {
    let shop = Shop::open();
    shop.clock.set(now());
    shop.gala(&[("standard", 4_500, tickets)]);
    shop
}

fn pass(shop: &Shop, seconds: i64) {
    shop.clock.set(shop.clock.now() + TimeDelta::seconds(seconds));
}

fn for_seconds(mut body: Value, seconds: i64) -> Value {
    body["ttl_seconds"] = json!(seconds);
    body
}

fn hold(client: &Client, quantity: i64, seconds: i64) -> Reply {
    client.post(HOLDS, &for_seconds(order(quantity), seconds))
}

/// The hold's address.
fn path(held: &Reply) -> String {
    assert_eq!(held.status, 201, "{held:?}");
    held.header("location").to_owned()
}

fn confirm(client: &Client, path: &str) -> Reply {
    client.send("POST", &format!("{path}/confirm"), &[], b"")
}

fn release(client: &Client, path: &str) -> Reply {
    client.send("POST", &format!("{path}/cancel"), &[], b"")
}

fn left(shop: &Shop) -> (i64, i64) {
    let left = shop.client.get("/api/v1/events/gala/availability").json();
    (left["available"].as_i64().unwrap(), left["held"].as_i64().unwrap())
}

fn said(reply: &Reply) -> (u16, String) {
    (reply.status, reply.code())
}

#[test]
fn a_hold_keeps_its_tickets_until_its_deadline_and_tells_how_long_that_is() {
    let shop = shop_with(5);
    let held = hold(&shop.client, 2, 90);
    let body = held.json();
    assert_eq!((&body["status"], &body["quantity"], &body["total_minor"]), (&json!("held"), &json!(2), &json!(9_000)), "{body}");
    assert_eq!((&body["expires_at"], &body["expires_in_seconds"]), (&json!("2027-01-05T10:01:30Z"), &json!(90)));
    assert_eq!(body["tickets"][0]["code"], json!(null), "a code is for whoever has bought");
    assert_eq!(left(&shop), (3, 2));
    pass(&shop, 30);
    let read = shop.client.get(&path(&held)).json();
    assert_eq!((&read["status"], &read["expires_in_seconds"]), (&json!("held"), &json!(60)));
    let refused = shop.buy(4).json();
    assert_eq!((&refused["code"], &refused["available"]), (&json!("too_few_left"), &json!(3)));
}

#[test]
fn how_long_is_the_usual_time_unless_asked_and_never_more_than_the_most() {
    let shop = Shop::open_with(|config| config.holds.secs_max = 900);
    shop.gala(&[("standard", 4_500, 5)]);
    assert_eq!(shop.client.post(HOLDS, &order(1)).json()["expires_in_seconds"], 600);
    for wrong in [json!(0), json!(-1), json!(901), json!("60"), json!(1.5), json!(9_000_000_000_000_000_000_i64)] {
        let mut body = order(1);
        body["ttl_seconds"] = wrong.clone();
        let refused = shop.client.post(HOLDS, &body);
        assert_eq!((refused.status, &refused.json()["errors"][0]["field"]), (422, &json!("ttl_seconds")), "{wrong}: {refused:?}");
    }
    let refused = shop.client.post("/api/v1/events/gala/orders", &for_seconds(order(1), 60));
    assert_eq!((refused.status, &refused.json()["errors"][0]["field"]), (422, &json!("ttl_seconds")), "an order is not kept");
    assert_eq!((shop.count("HELD"), shop.count("SOLD")), (1, 0));
}

#[test]
fn a_hold_that_is_confirmed_is_sold_once_however_often_that_is_asked() {
    let shop = shop_with(5);
    let path = path(&hold(&shop.client, 2, 90));
    let confirmed = confirm(&shop.client, &path);
    let body = confirmed.json();
    assert_eq!((confirmed.status, &body["status"], &body["expires_at"]), (200, &json!("sold"), &json!(null)), "{body}");
    assert!(body["tickets"][1]["code"].is_string(), "{body}");
    assert_eq!(confirm(&shop.client, &path).json(), body);
    pass(&shop, 1_000);
    assert_eq!(confirm(&shop.client, &path).json(), body, "the deadline was the hold's");
    assert_eq!((shop.count("SOLD"), shop.count("HELD"), left(&shop)), (2, 0, (3, 0)));
}

/// CASE 9.
#[test]
fn a_hold_that_is_over_counts_as_available_and_is_sold_to_the_next_without_a_sweeper() {
    let shop = shop_with(5);
    let path = path(&hold(&shop.client, 5, 90));
    let refused = shop.buy(1);
    assert_eq!(said(&refused), (409, "all_held".to_owned()));
    assert_eq!((refused.json()["held"].as_i64(), refused.header("retry-after").is_empty()), (Some(5), false));
    pass(&shop, 90);
    assert_eq!(left(&shop), (5, 0), "at the deadline, to the second");
    assert_eq!(shop.client.get(&path).json()["status"], "expired");
    assert_eq!(shop.client.get(&path).json()["tickets"], json!([]));
    assert_eq!(shop.buy(3).status, 201);
    assert_eq!(hold(&shop.client, 2, 90).status, 201);
    assert_eq!(said(&shop.buy(1)), (409, "all_held".to_owned()));
}

#[test]
fn tickets_of_many_small_holds_that_are_over_make_one_large_order() {
    let shop = shop_with(300);
    for _ in 0..150 {
        assert_eq!(hold(&shop.client, 2, 90).status, 201);
    }
    pass(&shop, 91);
    let whole = shop.client.post(
        HOLDS,
        &json!({"buyer": {"name": "Ada", "email": "ada@example.org"},
        "items": (0..3).map(|_| json!({"ticket_type": "standard", "quantity": 33})).collect::<Vec<_>>()}),
    );
    assert_eq!((whole.status, whole.json()["quantity"].as_i64()), (201, Some(99)));
    assert_eq!(left(&shop), (201, 99));
}

/// CASE 11.
#[test]
fn what_is_released_is_on_sale_again_at_once() {
    let shop = shop_with(3);
    let path = path(&hold(&shop.client, 3, 90));
    let released = release(&shop.client, &path);
    assert_eq!((released.status, &released.json()["status"], left(&shop)), (200, &json!("cancelled"), (3, 0)));
    assert_eq!(release(&shop.client, &path).json(), released.json(), "the second time changes nothing");
    assert_eq!(said(&confirm(&shop.client, &path)), (409, "order_cancelled".to_owned()));
    assert_eq!(shop.buy(3).status, 201);
}

#[test]
fn part_of_a_hold_is_released_and_the_rest_confirmed() {
    let shop = shop_with(3);
    let path = path(&hold(&shop.client, 3, 90));
    let rest = shop.client.post(&format!("{path}/cancel"), &json!({"positions": [2]})).json();
    assert_eq!((&rest["status"], &rest["quantity"], &rest["cancelled_quantity"]), (&json!("held"), &json!(2), &json!(1)), "{rest}");
    assert_eq!((&rest["total_minor"], &rest["expires_at"]), (&json!(9_000), &json!("2027-01-05T10:01:30Z")), "the deadline stays");
    assert_eq!(confirm(&shop.client, &path).json()["total_minor"], 9_000);
    assert_eq!((shop.count("SOLD"), shop.count("AVAILABLE")), (2, 1));
}

/// CASE 12, the first half.
#[test]
fn a_confirm_after_the_deadline_gets_the_same_tickets_if_nobody_has_taken_them() {
    for swept in [false, true] {
        let shop = shop_with(5);
        let held = hold(&shop.client, 2, 90);
        pass(&shop, 90);
        if swept {
            let swept = boxoffice::orders::expire_everywhere(&mut shop.database.connect(), shop.clock.now()).unwrap();
            assert_eq!(swept.values().map(|swept| swept.expired).sum::<usize>(), 1);
            assert_eq!((shop.count("HELD"), shop.count("AVAILABLE")), (0, 5));
        }
        let late = confirm(&shop.client, &path(&held)).json();
        let positions =
            |body: &Value| body["tickets"].as_array().unwrap().iter().map(|ticket| ticket["position"].clone()).collect::<Vec<_>>();
        assert_eq!((&late["status"], positions(&late)), (&json!("sold"), positions(&held.json())), "swept: {swept}");
        assert_eq!(shop.count("SOLD"), 2);
    }
}

/// CASE 12, the second half.
#[test]
fn a_confirm_after_the_deadline_gets_others_or_is_told_that_they_are_gone() {
    let shop = shop_with(5);
    let path = path(&hold(&shop.client, 2, 90));
    pass(&shop, 90);
    assert_eq!(hold(&shop.client, 4, 60).status, 201, "takes the hold's tickets with others");
    let gone = confirm(&shop.client, &path);
    assert_eq!(said(&gone), (410, "hold_expired".to_owned()));
    assert_eq!(shop.client.get(&path).json()["status"], "expired");
    assert_eq!(shop.count("SOLD"), 0, "one was left, and it is nobody's");
    pass(&shop, 60);
    let late = confirm(&shop.client, &path).json();
    assert_eq!((&late["status"], &late["quantity"], &late["total_minor"]), (&json!("sold"), &json!(2), &json!(9_000)), "{late}");
    assert_eq!(shop.buy(3).status, 201);
    assert_eq!(said(&shop.buy(1)), (409, "sold_out".to_owned()));
}

#[test]
fn a_late_confirm_of_several_types_gets_all_of_them_or_none() {
    let shop = shop_with(4);
    let made = shop.client.post("/api/v1/events/gala/ticket-types", &json!({"code": "vip", "price_minor": 9_000}));
    assert_eq!(made.status, 201);
    assert_eq!(shop.client.post("/api/v1/events/gala/inventory", &json!({"ticket_type": "vip", "quantity": 1})).status, 201);
    let path = path(&shop.client.post(HOLDS, &for_seconds(order_of(&[("standard", 2), ("vip", 1)]), 90)));
    pass(&shop, 90);
    let vip = shop.client.post("/api/v1/events/gala/orders", &order_of(&[("vip", 1)]));
    assert_eq!(vip.status, 201);
    assert_eq!(said(&confirm(&shop.client, &path)), (410, "hold_expired".to_owned()));
    assert_eq!((shop.count("SOLD"), left(&shop)), (1, (4, 0)));
}

#[test]
fn failed_requests_do_not_move_a_deadline() {
    let shop = shop_with(2);
    let path = path(&hold(&shop.client, 2, 90));
    let deadline = shop.client.get(&path).json()["expires_at"].clone();
    pass(&shop, 60);
    let body = for_seconds(order(2), 90);
    for _ in 0..3 {
        assert_eq!(said(&shop.client.post_keyed(HOLDS, "again", &body)), (409, "all_held".to_owned()));
        assert_eq!(shop.client.post(&format!("{path}/cancel"), &json!({"positions": [9]})).status, 422);
    }
    assert_eq!(shop.client.get(&path).json()["expires_at"], deadline);
    pass(&shop, 30);
    assert_eq!(shop.client.post_keyed(HOLDS, "again", &body).status, 201, "the key was not spent by its failures");
}

/// CASE 13.
#[test]
fn the_same_key_finds_the_hold_again_whatever_became_of_it() {
    let shop = shop_with(5);
    let body = for_seconds(order(2), 90);
    let held = shop.client.post_keyed(HOLDS, "k", &body);
    assert_eq!(shop.client.post_keyed(HOLDS, "k", &body).json(), held.json());
    assert_eq!(confirm(&shop.client, &path(&held)).status, 200);
    let found = shop.client.post_keyed(HOLDS, "k", &body);
    assert_eq!((found.status, &found.json()["id"], &found.json()["status"]), (201, &held.json()["id"], &json!("sold")));
    assert_eq!(said(&shop.client.post_keyed(HOLDS, "k", &for_seconds(order(2), 91))), (422, "idempotency_key_reused".to_owned()));
    let bought = shop.client.post_keyed("/api/v1/events/gala/orders", "k", &order(2));
    assert_eq!(said(&bought), (422, "idempotency_key_reused".to_owned()), "an order is not a hold");
    assert_eq!(shop.orders(), 1);
}

/// CASE 10.
#[test]
fn one_corrupt_hold_among_a_hundred_is_left_and_the_others_are_released() {
    let shop = shop_with(200);
    for _ in 0..100 {
        assert_eq!(hold(&shop.client, 2, 90).status, 201);
    }
    // Somebody has taken one ticket of one hold away behind the product's back.
    shop.sql("UPDATE tickets SET status = 'AVAILABLE', order_id = NULL, held_until = NULL WHERE position = 7");
    pass(&shop, 91);
    let swept = boxoffice::orders::expire_everywhere(&mut shop.database.connect(), shop.clock.now()).unwrap();
    let (expired, corrupt) =
        swept.values().fold((0, 0), |(expired, corrupt), swept| (expired + swept.expired, corrupt + swept.corrupt.len()));
    assert_eq!((expired, corrupt), (99, 1));
    assert_eq!((shop.count("HELD"), shop.count("AVAILABLE")), (1, 199));
    let again = boxoffice::orders::expire_everywhere(&mut shop.database.connect(), shop.clock.now()).unwrap();
    assert_eq!(again.values().map(|swept| (swept.expired, swept.corrupt.len())).collect::<Vec<_>>(), [(0, 1)], "it is found again, alone");
    assert_eq!(shop.client.post("/api/v1/events/gala/holds", &for_seconds(order(100), 90)).status, 201, "and is in nobody's way");
    shop.sql(
        "DELETE FROM orders WHERE id = (SELECT order_id FROM tickets WHERE held_until < '2027-01-05T10:01:31Z'); \
        UPDATE tickets SET status = 'AVAILABLE', order_id = NULL, held_until = NULL WHERE held_until < '2027-01-05T10:01:31Z'",
    );
}

#[test]
fn a_corrupt_hold_of_the_last_tickets_leaves_the_others_sold_out_and_not_busy() {
    let shop = shop_with(3);
    assert_eq!(hold(&shop.client, 2, 90).status, 201);
    shop.sql("UPDATE tickets SET status = 'AVAILABLE', order_id = NULL, held_until = NULL WHERE position = 1");
    pass(&shop, 91);
    assert_eq!(shop.buy(2).status, 201, "what it lost and what it never had");
    assert_eq!(said(&shop.buy(1)), (409, "sold_out".to_owned()));
    shop.sql(
        "DELETE FROM orders WHERE status = 'HELD'; \
         UPDATE tickets SET status = 'AVAILABLE', order_id = NULL, held_until = NULL WHERE status = 'HELD'",
    );
}

#[test]
fn a_hold_outlives_the_pause_and_the_end_of_the_sale_and_not_the_event() {
    let shop = shop_with(8);
    let [paused, closed, cancelled, late] = [(); 4].map(|()| path(&hold(&shop.client, 2, 90)));
    let set = |state: &str| assert_eq!(shop.client.patch("/api/v1/events/gala", &json!({"state": state})).status, 200);
    set("paused");
    assert_eq!(confirm(&shop.client, &paused).status, 200, "the tickets were promised");
    set("closed");
    assert_eq!(confirm(&shop.client, &closed).status, 200);
    set("cancelled");
    assert_eq!(said(&confirm(&shop.client, &cancelled)), (409, "sales_closed".to_owned()));
    set("paused");
    pass(&shop, 90);
    assert_eq!(said(&confirm(&shop.client, &late)), (409, "sales_not_open".to_owned()), "after the deadline it is a sale like any other");
    set("on_sale");
    assert_eq!(confirm(&shop.client, &late).status, 200);
}

#[test]
fn a_hold_is_its_partner_s_own() {
    let shop = shop_with(5);
    let (ours, theirs) = (shop.partner("ours", &[Scope::Sell, Scope::Read]), shop.partner("theirs", &[Scope::Sell, Scope::Read]));
    let path = path(&hold(&ours, 2, 90));
    assert_eq!(confirm(&theirs, &path).status, 404);
    assert_eq!(release(&theirs, &path).status, 404);
    let reader = shop.partner("reader", &[Scope::Read]);
    assert_eq!((confirm(&reader, &path).status, hold(&reader, 1, 60).status), (403, 403));
    assert_eq!(confirm(&ours, &path).status, 200);
    assert_eq!(said(&confirm(&ours, "/api/v1/events/gala/orders/0")), (404, "not_found".to_owned()));
}

#[test]
fn a_body_with_nothing_to_say_is_taken_and_any_other_is_not() {
    let shop = shop_with(5);
    let path = path(&hold(&shop.client, 2, 90));
    let send = |call: &str, body: Value| shop.client.post(&format!("{path}/{call}"), &body).status;
    assert_eq!(send("confirm", json!({"ttl_seconds": 900})), 422);
    assert_eq!(
        (send("cancel", json!({"positions": []})), send("cancel", json!({"positions": ["1"]})), send("cancel", json!([1]))),
        (422, 422, 422)
    );
    assert_eq!(shop.client.send("POST", &format!("{path}/confirm"), &[("content-type", "text/plain")], b"{}").status, 415);
    assert_eq!(send("confirm", json!({})), 200);
}
