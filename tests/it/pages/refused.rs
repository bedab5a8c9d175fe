//! What cannot be bought, and how the page says so.

use serde_json::json;

use super::visitor::Visitor;
use crate::support::Shop;

#[test]
fn a_number_that_is_none_is_told_beside_its_field_and_the_rest_is_kept() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5), ("vip", 9_000, 5)]);
    let buyer = Visitor::of(&shop);
    for wrong in ["-1", "two", "1.5", "2147483648", "99999999999999999999"] {
        let page = buyer.send(&buyer.filled_in("gala", 1).with("quantity-standard", wrong).with("quantity-vip", "2"));
        assert_eq!(page.status(), 422, "{wrong}: {page:?}");
        let field = page.between("id=\"quantity-standard\"", "</fieldset>");
        assert!(field.contains("class=\"error\"") && field.contains(wrong), "{wrong}: {field}");
        let form = page.form("Buy tickets");
        assert_eq!(
            (form.value("name"), form.value("email"), form.value("quantity-vip")),
            (Some("Ada"), Some("ada@example.org"), Some("2"))
        );
    }
    assert_eq!((shop.count("SOLD"), shop.orders()), (0, 0));
}

#[test]
fn no_ticket_at_all_is_told_beside_the_first() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5), ("vip", 9_000, 5)]);
    let buyer = Visitor::of(&shop);
    for none in ["0", ""] {
        let page = buyer.send(&buyer.filled_in("gala", 1).with("quantity-standard", none));
        assert_eq!(page.status(), 422, "{page:?}");
        assert!(page.between("id=\"quantity-standard\"", "</fieldset>").contains("Choose at least one ticket."), "{}", page.text());
    }
}

#[test]
fn a_name_and_an_address_that_are_missing_are_told_beside_their_fields() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let buyer = Visitor::of(&shop);
    let page = buyer.send(&buyer.filled_in("gala", 2).with("name", " ").with("email", "ada"));
    assert_eq!(page.status(), 422);
    assert!(page.html().contains("id=\"name-error\">Your name is missing."), "{}", page.text());
    assert!(page.html().contains("id=\"email-error\">Your e-mail address"), "{}", page.text());
    assert_eq!((page.form("Buy tickets").value("quantity-standard"), page.form("Buy tickets").value("email")), (Some("2"), Some("ada")));
    assert_eq!(shop.orders(), 0);
}

#[test]
fn a_form_that_is_put_right_buys_with_the_key_it_had() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let buyer = Visitor::of(&shop);
    let form = buyer.filled_in("gala", 2);
    let right = buyer.send(&form.clone().with("email", "ada")).form("Buy tickets").with("email", "ada@example.org");
    assert_eq!(right.value("form_key"), form.value("form_key"));
    assert_eq!(buyer.follow(&buyer.send(&right)).codes().len(), 2);
}

#[test]
fn a_form_without_its_key_buys_nothing_and_comes_back_with_one() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let buyer = Visitor::of(&shop);
    let page = buyer.send(&buyer.filled_in("gala", 2).with("form_key", ""));
    assert_eq!((page.status(), shop.orders()), (422, 0));
    assert_eq!(buyer.send(&page.form("Buy tickets")).status(), 303);
}

#[test]
fn more_than_one_order_may_have_is_refused_and_the_limit_is_told() {
    let shop = Shop::open();
    shop.event("gala", json!({"max_per_order": 3}), &[("standard", 4_500, 9), ("vip", 9_000, 9)]);
    let buyer = Visitor::of(&shop);
    assert!(buyer.get("/events/gala").says("At most 3 tickets an order."));
    let page = buyer.send(&buyer.filled_in("gala", 2).with("quantity-vip", "2"));
    assert_eq!((page.status(), shop.orders()), (409, 0));
    assert!(page.says("At most 3 tickets an order You asked for 4."), "{}", page.text());
    assert!(page.has_button("Buy tickets"));
}

#[test]
fn more_than_one_person_may_have_is_refused_and_what_is_left_is_told() {
    let shop = Shop::open();
    shop.event("gala", json!({"max_per_buyer": 4}), &[("standard", 4_500, 9)]);
    let buyer = Visitor::of(&shop);
    assert!(buyer.get("/events/gala").says("At most 4 tickets a person."));
    let first = buyer.send(&buyer.filled_in("gala", 5));
    assert!(first.status() == 409 && first.says("At most 4 tickets a person You asked for 5."), "{}", first.text());
    assert_eq!(buyer.buy(3).status(), 303);
    // The same mailbox, written otherwise.
    let more = buyer.send(&buyer.filled_in("gala", 2).with("email", "Ada+gala@Example.org"));
    let words =
        "With those that this e-mail address has already it would be more. Choose fewer, and send it again. Nothing more has been bought.";
    assert!(more.status() == 409 && more.says(words), "{}", more.text());
    assert_eq!(buyer.send(&more.form("Buy tickets").with("quantity-standard", "1")).status(), 303);
    let full = buyer.buy(1);
    assert!(full.says("At most 4 tickets a person") && !full.says("4 tickets already"), "{}", full.text());
    assert_eq!(shop.count("SOLD"), 4);
}

#[test]
fn a_sale_that_is_paused_or_over_says_so_to_who_has_the_form_still_open() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let buyer = Visitor::of(&shop);
    let form = buyer.filled_in("gala", 1);
    for (state, words) in [("paused", "The sale is paused"), ("closed", "The sale is over"), ("cancelled", "This event is cancelled")] {
        assert_eq!(shop.client.patch("/api/v1/events/gala", &json!({"state": state})).status, 200);
        for (page, status) in [(buyer.get("/events/gala"), 200), (buyer.send(&form), 409)] {
            assert_eq!(
                (page.status(), page.says(words), page.has_button("Buy tickets")),
                (status, true, false),
                "{state}: {}",
                page.text()
            );
        }
    }
    assert_eq!(shop.orders(), 0);
}

#[test]
fn a_draft_is_nowhere_to_be_seen() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let buyer = Visitor::of(&shop);
    let form = buyer.filled_in("gala", 1);
    assert_eq!(shop.client.patch("/api/v1/events/gala", &json!({"state": "draft"})).status, 200);
    assert!(!buyer.get("/").says("Gala"));
    for page in [buyer.get("/events/gala"), buyer.send(&form)] {
        assert_eq!((page.status(), page.says("Gala")), (404, false), "{}", page.text());
    }
}

#[test]
fn before_the_sale_opens_the_page_says_when_in_the_events_own_time() {
    let shop = Shop::open();
    let window = json!({"time_zone": "America/New_York", "sales_open_at": "2027-03-15T10:00", "sales_close_at": "2027-03-16T10:00"});
    shop.event("gala", window, &[("standard", 4_500, 5)]);
    let buyer = Visitor::of(&shop);
    shop.clock.set("2027-03-15T13:59:59Z".parse().unwrap());
    let early = buyer.get("/events/gala");
    let words = "Not on sale yet The sale opens on Mon 15 March 2027, 10:00 (America/New_York).";
    assert!(early.says(words) && !early.has_button("Buy tickets"), "{}", early.text());
    shop.clock.set("2027-03-15T14:00:00Z".parse().unwrap());
    let form = buyer.filled_in("gala", 1);
    shop.clock.set("2027-03-16T14:00:00Z".parse().unwrap());
    let late = buyer.send(&form);
    assert_eq!((late.status(), late.says("The sale is over"), shop.orders()), (409, true, 0), "{}", late.text());
}

#[test]
fn an_event_without_tickets_says_that_there_are_none_yet() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 0)]);
    let event = Visitor::of(&shop).get("/events/gala");
    assert!(event.says("No tickets yet") && !event.html().contains("<form"), "{}", event.text());
}

#[test]
fn a_ticket_type_that_the_event_does_not_have_is_refused() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let buyer = Visitor::of(&shop);
    let page = buyer.send(&buyer.filled_in("gala", 1).with("quantity-balcony", "1"));
    assert_eq!((page.status(), shop.orders()), (422, 0));
    assert!(page.says("a ticket type that this event does not have"), "{}", page.text());
}
