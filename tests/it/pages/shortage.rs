//! Fewer are left than were asked for: the page says how many, and one press takes them.

use serde_json::json;

use super::visitor::{Page, Visitor};
use crate::support::{Shop, order_of};

#[test]
fn a_form_sent_after_others_went_says_what_is_left_and_one_press_takes_it() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let buyer = Visitor::of(&shop);
    let form = buyer.filled_in("gala", 3);
    assert_eq!(shop.buy(3).status, 201);
    let short = buyer.send(&form);
    assert_eq!((short.status(), shop.count("SOLD")), (409, 3));
    assert!(short.says("Only 2 left You asked for 3 tickets. Nothing has been bought."), "{}", short.text());
    let order = buyer.follow(&buyer.send(&short.form("Take the 2 that are left")));
    assert_eq!((order.codes().len(), shop.count("SOLD")), (2, 5));
}

#[test]
fn the_press_that_takes_the_rest_is_one_order_too() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 2)]);
    let buyer = Visitor::of(&shop);
    let rest = short(&shop, &buyer, 2, 3).form("Take the 2 that are left");
    assert_eq!(buyer.send(&rest).header("location"), buyer.send(&rest).header("location"));
    assert_eq!(shop.orders(), 1);
}

#[test]
fn if_even_the_rest_went_meanwhile_the_page_says_so() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let buyer = Visitor::of(&shop);
    let page = short(&shop, &buyer, 2, 3);
    assert_eq!(shop.buy(1).status, 201);
    let again = buyer.send(&page.form("Take the 2 that are left"));
    assert!(again.status() == 409 && again.has_button("Take the one that is left"), "{}", again.text());
}

#[test]
fn the_quantity_that_was_asked_for_stays_in_the_form() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let form = short(&shop, &Visitor::of(&shop), 2, 3).form("Buy tickets");
    let typed = (form.value("quantity-standard"), form.value("more-standard"));
    assert_eq!((typed, form.value("name"), form.value("email")), ((Some("more"), Some("3")), Some("Ada"), Some("ada@example.org")));
}

#[test]
fn after_the_last_ticket_went_the_page_says_sold_out_and_has_no_form() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 2)]);
    let buyer = Visitor::of(&shop);
    let form = buyer.filled_in("gala", 1);
    assert_eq!(shop.buy(2).status, 201);
    let gone = buyer.send(&form);
    assert_eq!(gone.status(), 409);
    assert!(gone.says("Just sold out") && !gone.html().contains("<form"), "{}", gone.text());
    let event = buyer.get("/events/gala");
    assert!(event.says("Sold out") && !event.html().contains("<form"), "{}", event.text());
    assert!(buyer.get("/").says("Sold out"));
}

#[test]
fn of_two_types_the_one_that_is_left_can_be_had() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5), ("vip", 9_000, 1)]);
    let buyer = Visitor::of(&shop);
    let form = buyer.filled_in("gala", 2).with("quantity-vip", "1");
    assert_eq!(shop.client.post("/api/v1/events/gala/orders", &order_of(&[("vip", 1)])).status, 201);
    let short = buyer.send(&form);
    assert!(short.status() == 409 && short.says("vip sold out"), "{}", short.text());
    assert_eq!(buyer.follow(&buyer.send(&short.form("Take 2 standard"))).codes().len(), 2);
}

#[test]
fn tickets_in_other_baskets_may_come_back_and_the_page_tries_again_with_the_same_form() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 2)]);
    let buyer = Visitor::of(&shop);
    let form = buyer.filled_in("gala", 1);
    assert_eq!(shop.buy(2).status, 201);
    shop.sql(
        "UPDATE orders SET status = 'HELD', expires_at = now() + interval '1 hour'; \
         UPDATE tickets SET status = 'HELD', code = NULL, held_until = now() + interval '1 hour'",
    );
    let held = buyer.send(&form);
    assert!(held.status() == 409 && held.says("in other buyers' baskets") && !held.header("retry-after").is_empty(), "{held:?}");
    assert_eq!(held.form("Try again").value("form_key"), form.value("form_key"));
}

/// The shortage page of an event that hides its counts and has `left` tickets, without what differs between any two forms.
fn hidden(shop: &Shop, slug: &str, left: i64) -> Vec<String> {
    shop.event(slug, json!({"show_counts": false}), &[("standard", 4_500, left)]);
    let buyer = Visitor::of(shop);
    let pages = [buyer.get("/"), buyer.get(&format!("/events/{slug}")), buyer.send(&buyer.filled_in(slug, 60))];
    assert_eq!(pages[2].status(), 409);
    let without_key = |page: &Page| {
        let parts = page.html().split("name=\"form_key\" value=\"").enumerate();
        let parts = parts.map(|(number, part)| if number == 0 { part } else { part.split_once('"').unwrap().1 });
        parts.collect::<String>().replace(slug, "gala")
    };
    pages.iter().map(without_key).collect()
}

#[test]
fn where_counts_are_hidden_no_public_page_tells_one_stock_from_another() {
    let (shop, other) = (Shop::open(), Shop::open());
    assert_eq!(hidden(&shop, "gala", 3), hidden(&other, "gala", 59));
}

#[test]
fn where_counts_are_hidden_one_press_still_takes_what_is_left() {
    let shop = Shop::open();
    hidden(&shop, "gala", 3);
    let buyer = Visitor::of(&shop);
    let short = buyer.buy(60);
    assert!(short.says("Fewer than 60 are left"), "{}", short.text());
    let order = buyer.follow(&buyer.send(&short.form("Take what is left")));
    assert_eq!((order.codes().len(), shop.count("AVAILABLE")), (3, 0));
    assert!(order.says("You asked for 60; 3 were left, and you took them."), "{}", order.text());
}

/// The page after a form for `wanted` was sent when `left` were left.
fn short(shop: &Shop, buyer: &Visitor, left: i64, wanted: i64) -> Page {
    let form = buyer.filled_in("gala", wanted);
    let others = shop.count("AVAILABLE") - left;
    if others > 0 {
        assert_eq!(shop.buy(others).status, 201);
    }
    buyer.send(&form)
}
