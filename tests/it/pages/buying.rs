//! A purchase, from the list of events to the tickets.

use serde_json::json;

use super::visitor::Visitor;
use crate::support::Shop;

#[test]
fn the_first_page_leads_to_the_event_and_says_that_it_sells() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5), ("vip", 9_000, 5)]);
    let list = Visitor::of(&shop).get("/");
    assert!(list.html().contains("href=\"/events/gala\""), "{list:?}");
    assert!(list.says("Gala") && list.says("On sale") && list.says("from €45.00"), "{}", list.text());
}

#[test]
fn who_buys_two_tickets_is_led_to_a_page_with_two_codes() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let buyer = Visitor::of(&shop);
    let order = buyer.follow(&buyer.buy(2));
    let codes = order.codes();
    assert!(codes.len() == 2 && codes[0].starts_with("1-") && codes[1].starts_with("2-"), "{codes:?}");
    assert!(order.says("You have 2 tickets") && order.says("ada@example.org"), "{}", order.text());
    assert_eq!(shop.count("SOLD"), 2);
}

#[test]
fn a_form_that_is_only_signed_buys_one_ticket() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5), ("vip", 9_000, 5)]);
    let buyer = Visitor::of(&shop);
    let form = buyer.get("/events/gala").form("Buy tickets").with("name", "Ada").with("email", "ada@example.org");
    let order = buyer.follow(&buyer.send(&form));
    assert_eq!(order.codes().len(), 1, "{}", order.text());
}

#[test]
fn a_number_that_is_typed_beside_more_is_bought() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 50)]);
    let buyer = Visitor::of(&shop);
    let form = buyer.filled_in("gala", 1).with("quantity-standard", "more").with("more-standard", "12");
    assert_eq!(buyer.follow(&buyer.send(&form)).codes().len(), 12);
}

#[test]
fn tickets_of_several_types_are_one_order() {
    let shop = Shop::open();
    shop.gala(&[("standard", 3_400, 5), ("vip", 9_000, 5)]);
    let buyer = Visitor::of(&shop);
    let order = buyer.follow(&buyer.send(&buyer.filled_in("gala", 2).with("quantity-vip", "1")));
    assert_eq!((order.codes().len(), shop.orders()), (3, 1));
    assert!(order.says("2 × standard at €34.00 €68.00 1 × vip at €90.00 €90.00 Total €158.00"), "{}", order.text());
}

#[test]
fn ten_thousand_yen_are_shown_without_decimals() {
    let shop = Shop::open();
    shop.event("gala", json!({"currency": "JPY"}), &[("standard", 10_000, 5)]);
    let buyer = Visitor::of(&shop);
    for page in [buyer.get("/"), buyer.get("/events/gala"), buyer.follow(&buyer.buy(1))] {
        assert!(page.says("¥10,000") && !page.says("¥10,000."), "{}", page.text());
    }
}

#[test]
fn a_link_without_its_whole_key_shows_nothing() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let buyer = Visitor::of(&shop);
    let link = buyer.buy(1).header("location").to_owned();
    let (path, key) = link.split_once("?key=").unwrap();
    for wrong in [path.to_owned(), format!("{path}?key="), format!("{path}?key={}", &key[1..]), format!("{link}x")] {
        let page = buyer.get(&wrong);
        assert_eq!((page.status(), page.says("ada@example.org")), (404, false), "{wrong}");
    }
    assert_eq!(buyer.get(&link).status(), 200);
}

#[test]
fn a_link_shows_no_order_of_another_event() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    shop.event("ball", json!({}), &[("standard", 4_500, 5)]);
    let buyer = Visitor::of(&shop);
    let link = buyer.buy(1).header("location").replace("/gala/", "/ball/");
    assert_eq!(buyer.get(&link).status(), 404);
}

#[test]
fn the_address_of_a_form_that_came_back_leads_to_the_event() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 1)]);
    let buyer = Visitor::of(&shop);
    let shown = buyer.get("/events/gala/orders");
    assert_eq!((shown.status(), shown.header("location")), (303, "/events/gala"));
}

#[test]
fn seats_are_on_their_tickets() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 0)]);
    shop.client.post_csv("/api/v1/events/gala/inventory", b"ticket_type;section;row;seat\nstandard;Stalls;A;17\n");
    let buyer = Visitor::of(&shop);
    let order = buyer.follow(&buyer.buy(1));
    assert!(order.says("Section Stalls Row A Seat 17"), "{}", order.text());
}
