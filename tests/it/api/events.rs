//! `/api/v1/events`, its ticket types and what is left.

use boxoffice::accounts::Scope;
use serde_json::json;

use crate::support::Shop;

#[test]
fn a_new_event_is_on_sale_at_once_with_its_defaults() {
    let shop = Shop::open();
    let made = shop.client.post("/api/v1/events", &json!({"slug": "gala", "name": "Gala", "currency": "eur"}));
    let mut body = made.json();
    body["created_at"].take();
    let expected = json!({
        "slug": "gala", "name": "Gala", "venue": null, "starts_at": null, "time_zone": "UTC", "currency": "EUR", "sales_open_at": null,
        "sales_close_at": null, "state": "on_sale", "max_per_order": 100, "max_per_buyer": null, "checkout": "at_once",
        "buyers_cancel_until": null, "show_counts": true, "ticket_types": [], "created_at": null,
    });
    assert_eq!((made.status, body), (201, expected));
    assert_eq!(made.header("location"), "/api/v1/events/gala");
    let added =
        shop.client.post("/api/v1/events/gala/ticket-types", &json!({"code": "standard", "name": "Standard", "price_minor": 4_500}));
    let expected = json!({"code": "standard", "name": "Standard", "price_minor": 4_500, "sales_open_at": null, "sales_close_at": null});
    assert_eq!((added.status, added.json()), (201, expected));
    assert_eq!(shop.client.get("/api/v1/events/gala").json()["ticket_types"], json!([added.json()]));
}

#[test]
fn a_change_leaves_what_is_absent_and_clears_what_is_null() {
    let shop = Shop::open();
    shop.event("gala", json!({"venue": "Old Opera", "max_per_order": 4}), &[]);
    let changed = shop.client.patch("/api/v1/events/gala", &json!({"name": "Grand Gala", "venue": null})).json();
    assert_eq!((&changed["name"], &changed["venue"], &changed["max_per_order"]), (&json!("Grand Gala"), &json!(null), &json!(4)));
    let refused = shop.client.patch("/api/v1/events/gala", &json!({"currency": "USD"}));
    assert_eq!((refused.status, &refused.json()["errors"][0]["field"]), (422, &json!("currency")));
    let renamed = shop.client.patch("/api/v1/events/gala", &json!({"slug": "gala-2"}));
    assert_eq!((renamed.status, &renamed.json()["errors"][0]["field"]), (422, &json!("slug")), "buyers' links have it");
}

#[test]
fn a_null_does_not_put_a_cancelled_event_on_sale_again() {
    let shop = Shop::open();
    shop.event("gala", json!({"state": "cancelled"}), &[]);
    for field in ["state", "time_zone", "max_per_order", "show_counts", "name"] {
        let refused = shop.client.patch("/api/v1/events/gala", &json!({field: null}));
        assert_eq!((refused.status, &refused.json()["errors"][0]["field"]), (422, &json!(field)));
    }
    assert_eq!(shop.client.get("/api/v1/events/gala").json()["state"], "cancelled");
}

#[test]
fn an_address_that_cannot_be_an_event_s_is_not_found() {
    let shop = Shop::open();
    for slug in ["%00", "gala%00", "%20", "GALA", "..%2f"] {
        assert_eq!(shop.client.get(&format!("/api/v1/events/{slug}")).status, 404, "{slug}");
        assert_eq!(shop.client.get(&format!("/events/{slug}")).status, 404, "{slug}");
    }
}

#[test]
fn what_is_wrong_with_an_event_is_told_by_field() {
    let shop = Shop::open();
    shop.event("gala", json!({}), &[]);
    let field = |body: serde_json::Value| {
        let refused = shop.client.post("/api/v1/events", &body);
        assert_eq!(refused.status, 422, "{refused:?}");
        refused.json()["errors"][0]["field"].as_str().unwrap().to_owned()
    };
    assert_eq!(field(json!({"slug": "gala", "name": "Again", "currency": "EUR"})), "slug", "taken");
    assert_eq!(field(json!({"slug": "a b", "name": "X", "currency": "EUR"})), "slug");
    assert_eq!(field(json!({"slug": "x", "name": "X", "currency": "EURO"})), "currency");
    assert_eq!(field(json!({"slug": "x", "name": "X", "currency": "EUR", "max_per_order": 0})), "max_per_order");
    assert_eq!(field(json!({"slug": "x", "name": "X", "currency": "EUR", "starts_at": "tomorrow"})), "starts_at");
    assert_eq!(field(json!({"slug": "x", "name": "X", "currency": "EUR", "time_zone": "Berlin"})), "time_zone");
    let taken = json!({"code": "standard", "price_minor": 1});
    assert_eq!(shop.client.post("/api/v1/events/gala/ticket-types", &taken).status, 201);
    assert_eq!(shop.client.post("/api/v1/events/gala/ticket-types", &taken).json()["errors"][0]["field"], "code");
    assert_eq!(shop.client.post("/api/v1/events/gala/ticket-types", &json!({"code": "x", "price_minor": -1})).status, 422);
}

#[test]
fn availability_counts_down_by_type() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5), ("vip", 9_000, 2)]);
    shop.buy(2);
    let left = shop.client.get("/api/v1/events/gala/availability").json();
    let types = json!([{"ticket_type": "standard", "available": 3, "held": 0}, {"ticket_type": "vip", "available": 2, "held": 0}]);
    assert_eq!(left, json!({"event": "gala", "available": 5, "held": 0, "ticket_types": types}));
}

#[test]
fn a_draft_is_seen_by_admin_keys_only() {
    let shop = Shop::open();
    shop.event("gala", json!({"state": "draft"}), &[]);
    let reader = shop.partner("reader", &[Scope::Read]);
    assert_eq!(reader.get("/api/v1/events/gala").status, 404);
    assert_eq!(reader.get("/api/v1/events").json(), json!({"events": []}));
    assert_eq!(shop.client.get("/api/v1/events/gala").status, 200);
}

#[test]
fn a_key_may_do_what_its_scopes_say() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let (reader, seller) = (shop.partner("reader", &[Scope::Read]), shop.partner("seller", &[Scope::Sell]));
    let order = crate::support::order(1);
    let forbidden = reader.post("/api/v1/events/gala/orders", &order);
    assert_eq!((forbidden.status, forbidden.code().as_str()), (403, "forbidden"));
    assert_eq!(seller.post("/api/v1/events/gala/orders", &order).status, 201);
    assert_eq!(seller.get("/api/v1/events").status, 403);
    assert_eq!(reader.post("/api/v1/events", &json!({"slug": "x", "name": "X", "currency": "EUR"})).status, 403);
    for client in [shop.client.with_key("bxo_wrong"), boxoffice_without_key(&shop)] {
        let unknown = client.get("/api/v1/events");
        assert_eq!((unknown.status, unknown.code().as_str(), unknown.header("www-authenticate")), (401, "unauthorized", "Bearer"));
    }
}

fn boxoffice_without_key(shop: &Shop) -> crate::support::Client {
    let mut client = shop.client.clone();
    client.key = None;
    client
}
