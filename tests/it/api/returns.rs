//! Tickets that were bought come back: `POST …/cancel`, and the door, after which they do not.

use boxoffice::accounts::Scope;
use serde_json::{Value, json};

use crate::support::{Reply, Shop, order_of};

fn shop() -> Shop {
    let shop = Shop::open();
    shop.clock.set("2027-01-05T10:00:00Z".parse().unwrap());
    shop.event("gala", json!({"starts_at": "2027-01-05T20:00:00Z"}), &[("standard", 4_500, 6), ("vip", 9_000, 2)]);
    shop
}

fn path(bought: &Reply) -> String {
    assert_eq!(bought.status, 201, "{bought:?}");
    bought.header("location").to_owned()
}

fn cancel(shop: &Shop, path: &str, body: Value) -> Reply {
    shop.client.post(&format!("{path}/cancel"), &body)
}

fn basket(shop: &Shop) -> Reply {
    shop.client.post("/api/v1/events/gala/orders", &order_of(&[("standard", 2), ("vip", 1)]))
}

/// CASE 19.
#[test]
fn a_cancelled_order_s_tickets_are_on_sale_again_at_once_below_the_mark_too() {
    let shop = shop();
    let first = path(&shop.buy(2));
    assert_eq!(shop.buy(2).status, 201, "the desk's mark is behind these");
    let cancelled = cancel(&shop, &first, json!({})).json();
    assert_eq!((&cancelled["status"], &cancelled["tickets"]), (&json!("cancelled"), &json!([])), "{cancelled}");
    assert_eq!((&cancelled["quantity"], &cancelled["total_minor"]), (&json!(2), &json!(9_000)), "what was cancelled can still be read");
    let next = shop.buy(2).json();
    assert_eq!((&next["tickets"][0]["position"], &next["tickets"][1]["position"]), (&json!(1), &json!(2)), "they are sold first");
    assert_eq!(shop.buy(2).status, 201);
    assert_eq!(shop.buy(1).code(), "sold_out");
}

#[test]
fn single_tickets_are_given_back_and_lines_and_total_are_those_of_the_rest() {
    let shop = shop();
    let path = path(&basket(&shop));
    let rest = cancel(&shop, &path, json!({"positions": [1]})).json();
    assert_eq!((&rest["status"], &rest["quantity"], &rest["cancelled_quantity"]), (&json!("sold"), &json!(2), &json!(1)), "{rest}");
    assert_eq!(rest["total_minor"], 4_500 + 9_000);
    assert_eq!(rest["items"][0]["quantity"], 1);
    let again = cancel(&shop, &path, json!({"positions": [1, 1]})).json();
    assert_eq!(again, rest, "the second time changes nothing");
    let vip = rest["tickets"][1]["position"].clone();
    let rest = cancel(&shop, &path, json!({"positions": [vip, 1]})).json();
    assert_eq!(
        (&rest["items"], &rest["total_minor"]),
        (&json!([{"ticket_type": "standard", "quantity": 1, "unit_price_minor": 4_500}]), &json!(4_500))
    );
    let none = cancel(&shop, &path, json!({"positions": [2]})).json();
    assert_eq!((&none["status"], shop.count("SOLD")), (&json!("cancelled"), 0));
}

#[test]
fn a_ticket_that_is_not_the_order_s_is_not_given_back() {
    let shop = shop();
    let (ours, theirs) = (path(&shop.buy(1)), path(&shop.buy(1)));
    let refused = cancel(&shop, &ours, json!({"positions": [1, 2]}));
    assert_eq!((refused.status, &refused.json()["errors"][0]["field"]), (422, &json!("positions[1]")), "{refused:?}");
    assert_eq!(shop.count("SOLD"), 2);
    // A ticket that came back and is another order's now is not given back by who had it first.
    assert_eq!(cancel(&shop, &ours, json!({})).status, 200);
    assert_eq!(shop.buy(1).json()["tickets"][0]["position"], 1);
    assert_eq!(cancel(&shop, &ours, json!({"positions": [1]})).json()["status"], "cancelled");
    assert_eq!(shop.count("SOLD"), 2);
    assert_eq!(shop.client.get(&theirs).json()["status"], "sold");
}

/// CASE 20.
#[test]
fn nothing_is_taken_back_once_the_event_has_begun() {
    let shop = shop();
    let path = path(&shop.buy(1));
    shop.clock.set("2027-01-05T20:00:00Z".parse().unwrap());
    let refused = cancel(&shop, &path, json!({}));
    assert_eq!((refused.status, refused.code().as_str()), (409, "event_begun"), "{refused:?}");
    assert_eq!(shop.count("SOLD"), 1);
    assert_eq!(shop.client.patch("/api/v1/events/gala", &json!({"state": "cancelled"})).status, 200);
    assert_eq!(cancel(&shop, &path, json!({})).json()["status"], "cancelled", "what is cancelled never begins, and is to be settled");
}

#[test]
fn nobody_is_let_in_to_an_event_that_is_cancelled() {
    let shop = shop();
    let code = shop.buy(1).json()["tickets"][0]["code"].as_str().unwrap().to_owned();
    assert_eq!(shop.client.patch("/api/v1/events/gala", &json!({"state": "cancelled"})).status, 200);
    let refused = use_ticket(&shop, &code);
    assert_eq!((refused.status, refused.code().as_str()), (409, "event_cancelled"), "{refused:?}");
    assert_eq!(shop.client.patch("/api/v1/events/gala", &json!({"state": "on_sale"})).status, 200);
    assert_eq!(use_ticket(&shop, &code).status, 200);
}

fn use_ticket(shop: &Shop, code: &str) -> Reply {
    shop.client.send("POST", &format!("/api/v1/events/gala/tickets/{code}/use"), &[], b"")
}

/// CASE 20.
#[test]
fn a_ticket_is_used_once_and_then_not_taken_back() {
    let shop = shop();
    let bought = basket(&shop);
    let (path, body) = (path(&bought), bought.json());
    let code = body["tickets"][0]["code"].as_str().unwrap().to_owned();
    let used = use_ticket(&shop, &code);
    assert_eq!((used.status, &used.json()["used_at"]), (200, &json!("2027-01-05T10:00:00Z")), "{used:?}");
    assert_eq!((&used.json()["order"], &used.json()["position"]), (&body["id"], &json!(1)));
    let again = use_ticket(&shop, &code);
    assert_eq!((again.status, again.code().as_str(), &again.json()["used_at"]), (409, "ticket_used", &json!("2027-01-05T10:00:00Z")));
    for whole in [json!({}), json!({"positions": [1]}), json!({"positions": [1, 2]})] {
        let refused = cancel(&shop, &path, whole);
        assert_eq!((refused.status, refused.code().as_str()), (409, "ticket_used"), "{refused:?}");
    }
    assert_eq!(shop.count("SOLD"), 3, "nothing was given back in part");
    assert_eq!(cancel(&shop, &path, json!({"positions": [2]})).status, 200, "the others may be");
    assert_eq!(shop.client.get(&path).json()["tickets"][0]["used_at"], "2027-01-05T10:00:00Z");
}

#[test]
fn the_door_knows_only_codes_of_tickets_that_are_sold() {
    let shop = shop();
    let bought = shop.buy(2);
    let body = bought.json();
    let code = |place: usize| body["tickets"][place]["code"].as_str().unwrap().to_owned();
    let wrong = code(0).replacen("1-", "2-", 1);
    for wrong in [wrong.as_str(), "1-AAAAAAAAAAAAAAAA", "9-AAAAAAAAAAAAAAAA", "x", "1", "-1-x", "99999999999-x"] {
        assert_eq!(use_ticket(&shop, wrong).status, 404, "{wrong}");
    }
    let seller = shop.partner("seller", &[Scope::Sell, Scope::Read]);
    let refused = seller.send("POST", &format!("/api/v1/events/gala/tickets/{}/use", code(0)), &[], b"");
    assert_eq!(refused.status, 403, "the door is the organiser's");
    assert_eq!(cancel(&shop, &path(&bought), json!({"positions": [1]})).status, 200);
    assert_eq!(use_ticket(&shop, &code(0)).status, 404, "it was given back");
    assert_eq!(use_ticket(&shop, &code(1)).status, 200);
}
