//! Making an event, changing it, and seeing how it sells.

use serde_json::json;

use super::visitor::Visitor;
use crate::support::Shop;

#[test]
fn an_event_is_made_with_its_first_tickets_and_is_on_sale_when_they_are_loaded() {
    let shop = Shop::open();
    let admin = Visitor::admin(&shop);
    let form = admin.get("/admin/events/new").form("Make the event");
    let form = form.with("name", "Summer Gala 2027").with("time_zone", "Europe/Berlin").with("starts_at", "2027-07-03T20:00");
    let made = admin.send(&form.with("venue", "Opera").with("type_name", "Standard seat").with("type_price", "45"));
    assert_eq!(made.header("location"), "/admin/events/summer-gala-2027?done=created", "{made:?}");
    let event = admin.follow(&made);
    assert!(event.says("Sat 3 July 2027, 20:00 (Europe/Berlin)") && event.says("Standard seat standard-seat €45.00"), "{}", event.text());
    assert!(admin.get("/").says("Not on sale yet"));
    admin.send(&event.form("Load").with("quantity", "3"));
    assert!(admin.get("/").says("On sale €45.00"), "{}", admin.get("/").text());
}

#[test]
fn what_is_wrong_with_a_new_event_is_told_and_the_rest_is_kept() {
    let shop = Shop::open();
    let admin = Visitor::admin(&shop);
    let form = admin.get("/admin/events/new").form("Make the event").with("name", "Gala").with("time_zone", "Mars/Base");
    let page = admin.send(&form.with("type_name", "Standard").with("type_price", "4,5"));
    assert_eq!((page.status(), admin.get("/admin").says("Gala")), (422, false), "{page:?}");
    assert!(page.html().contains("id=\"time_zone-error\">Time zone must be an IANA time zone"), "{}", page.text());
    assert!(page.html().contains("id=\"type_price-error\">Price must be an amount like 45.00."), "{}", page.text());
    let form = page.form("Make the event").with("time_zone", "UTC").with("type_price", "4.50");
    assert_eq!((form.value("name"), form.value("show_counts"), admin.send(&form).status()), (Some("Gala"), Some("true"), 303));
}

#[test]
fn an_address_that_is_taken_is_told() {
    let shop = Shop::open();
    shop.gala(&[]);
    let admin = Visitor::admin(&shop);
    let page = admin.send(&admin.get("/admin/events/new").form("Make the event").with("name", "Gala").with("time_zone", "UTC"));
    assert!(page.status() == 422 && page.html().contains("id=\"slug-error\""), "{}", page.text());
}

#[test]
fn an_event_is_changed_and_what_was_not_touched_stays() {
    let shop = Shop::open();
    shop.event("gala", json!({"venue": "Opera", "max_per_order": 7, "show_counts": false}), &[("standard", 4_500, 5)]);
    let admin = Visitor::admin(&shop);
    let saved = admin.send(&admin.get("/admin/events/gala/edit").form("Save").with("state", "paused"));
    let event = admin.follow(&saved);
    assert!(event.says("Saved.") && event.says("Paused") && event.says("Opera") && event.says("at most 7 tickets"), "{}", event.text());
    assert!(event.says("whether any are left"), "{}", event.text());
    assert!(admin.get("/events/gala").says("The sale is paused"));
}

#[test]
fn a_ticket_type_is_added_to_an_event() {
    let shop = Shop::open();
    shop.event("gala", json!({"currency": "JPY"}), &[]);
    let admin = Visitor::admin(&shop);
    let added = admin.send(&admin.get("/admin/events/gala").form("Add it").with("name", "VIP lounge").with("price", "10000"));
    let event = admin.follow(&added);
    assert!(event.says("VIP lounge vip-lounge ¥10,000"), "{}", event.text());
    let again = admin.send(&event.form("Add it").with("name", "VIP lounge").with("price", "45.50"));
    assert_eq!(again.status(), 422);
    assert!(again.says("must be an amount without decimals, like 4500."), "{}", again.text());
}

#[test]
fn the_page_of_an_event_shows_what_is_sold_and_to_whom() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let link = Visitor::of(&shop).buy(2).header("location").to_owned();
    assert_eq!(shop.buy(1).status, 201);
    let admin = Visitor::admin(&shop);
    let event = admin.get("/admin/events/gala");
    assert!(event.says("Tickets sold 3 of 5 Orders 2 Takings €135.00"), "{}", event.text());
    assert!(event.says("3 sold 2 available 5 in all") && event.says("ada@example.org"), "{}", event.text());
    let id = link.split(['/', '?']).nth(4).unwrap();
    assert!(event.html().contains(&format!("href=\"/admin/events/gala/orders/{id}\"")), "{event:?}");
    assert!(admin.get("/admin").says("3 of 5 sold €135.00"), "{}", admin.get("/admin").text());
}

#[test]
fn older_orders_are_on_further_pages() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 30)]);
    for _ in 0..21 {
        assert_eq!(shop.buy(1).status, 201);
    }
    let admin = Visitor::admin(&shop);
    let orders = |html: &str| html.matches("data-label=\"Buyer\"").count();
    let newest = admin.get("/admin/events/gala");
    let older = newest.between("href=\"/admin/events/gala?before=", "#orders").to_owned();
    let oldest = admin.get(&format!("/admin/events/gala?before={older}"));
    assert_eq!((orders(newest.html()), orders(oldest.html()), oldest.says("Older orders")), (20, 1, false));
}

#[test]
fn an_event_that_does_not_exist_has_no_admin_page() {
    let shop = Shop::open();
    let admin = Visitor::admin(&shop);
    for path in ["/admin/events/none", "/admin/events/none/edit"] {
        assert_eq!(admin.get(path).status(), 404, "{path}");
    }
}
