//! Ticket types that sell at times of their own.

use serde_json::json;

use super::visitor::Visitor;
use crate::support::Shop;

/// A gala in Berlin with three types: one until the end of January, one always, one from May on; seen at `now`.
fn gala(now: &str) -> Shop {
    let shop = Shop::open();
    shop.clock.set(now.parse().unwrap());
    shop.event("gala", json!({"time_zone": "Europe/Berlin"}), &[("early", 2_500, 9), ("standard", 4_500, 9), ("late", 1_500, 9)]);
    set(&shop, "early", &json!({"name": "Early bird", "sales_close_at": "2027-02-01T00:00"}));
    set(&shop, "late", &json!({"name": "Late night", "sales_open_at": "2027-05-01T10:00"}));
    shop
}

fn set(shop: &Shop, code: &str, fields: &serde_json::Value) {
    assert_eq!(shop.client.patch(&format!("/api/v1/events/gala/ticket-types/{code}"), fields).status, 200);
}

#[test]
fn each_type_says_when_it_sells_and_only_what_sells_can_be_chosen() {
    let shop = gala("2027-03-01T12:00:00Z");
    let event = Visitor::of(&shop).get("/events/gala");
    let form = event.form("Buy tickets");
    let offered = ["quantity-early", "quantity-standard", "quantity-late"].map(|name| form.value(name));
    assert_eq!(offered, [None, Some("1"), None], "{form:?}");
    assert!(event.says("Early bird €25.00 No longer sold"), "{}", event.text());
    assert!(event.says("Late night €15.00 On sale from Sat 1 May 2027, 10:00 (Europe/Berlin)"), "{}", event.text());
}

#[test]
fn at_its_hour_a_type_sells_and_at_its_end_it_does_not() {
    let shop = gala("2027-01-31T22:59:59Z");
    let buyer = Visitor::of(&shop);
    let early = buyer.filled_in("gala", 0).with("quantity-early", "1");
    assert_eq!(buyer.send(&early).status(), 303);
    shop.clock.set("2027-01-31T23:00:00Z".parse().unwrap());
    let again = buyer.get("/events/gala").form("Buy tickets").with("name", "Ada").with("email", "ada@example.org");
    let refused = buyer.send(&again.with("quantity-standard", "0").with("quantity-early", "1"));
    assert_eq!((refused.status(), shop.orders()), (409, 1));
    assert!(refused.says("Early bird is no longer sold Nothing has been bought."), "{}", refused.text());
    shop.clock.set("2027-05-01T08:00:00Z".parse().unwrap());
    assert_eq!(buyer.send(&buyer.filled_in("gala", 0).with("quantity-late", "1")).status(), 303);
}

#[test]
fn a_type_that_is_not_on_sale_yet_is_refused_with_its_hour() {
    let shop = gala("2027-03-01T12:00:00Z");
    let buyer = Visitor::of(&shop);
    let refused = buyer.send(&buyer.filled_in("gala", 0).with("quantity-late", "1"));
    let words = "The sale of Late night is not open It opens on Sat 1 May 2027, 10:00 (Europe/Berlin). Nothing has been bought.";
    assert!(refused.status() == 409 && refused.says(words) && refused.has_button("Buy tickets"), "{}", refused.text());
}

#[test]
fn between_two_sales_the_pages_say_when_the_next_begins() {
    let shop = gala("2027-03-01T12:00:00Z");
    set(&shop, "standard", &json!({"sales_close_at": "2027-02-15T00:00"}));
    let visitor = Visitor::of(&shop);
    let event = visitor.get("/events/gala");
    let words = "Nothing is on sale at this moment Further tickets are sold from Sat 1 May 2027, 10:00 (Europe/Berlin).";
    assert!(event.says(words) && !event.html().contains("<form"), "{}", event.text());
    assert!(event.says("On sale from Sat 1 May 2027") && event.says("No longer sold"), "{}", event.text());
    assert!(visitor.get("/").says("On sale from Sat 1 May 2027, 10:00"), "{}", visitor.get("/").text());
}

#[test]
fn when_the_last_type_has_closed_the_sale_is_over() {
    let shop = gala("2027-03-01T12:00:00Z");
    for code in ["standard", "late"] {
        set(&shop, code, &json!({"sales_open_at": null, "sales_close_at": "2027-02-15T00:00"}));
    }
    let visitor = Visitor::of(&shop);
    assert!(visitor.get("/events/gala").says("The sale is over") && visitor.get("/").says("Sale closed"));
}
