//! Giving bought tickets back by the link of their order: as long as the event allows it, all of them or single ones.

use serde_json::json;

use super::{
    markup::Form,
    visitor::{Page, Visitor},
};
use crate::support::Shop;

const UNTIL: &str = "2027-03-10T20:00:00Z";
const STARTS: &str = "2027-03-12T20:00:00Z";
const SOME: &str = "Give back those that are ticked";
const ALL: &str = "Give back the whole order";

/// A gala of March 2027 whose buyers may give tickets back until two days before, seen in January.
fn gala(stock: i64) -> Shop {
    let shop = Shop::open();
    shop.clock.set("2027-01-05T10:00:00Z".parse().unwrap());
    shop.event("gala", json!({"starts_at": STARTS, "buyers_cancel_until": UNTIL}), &[("standard", 4_500, stock)]);
    shop
}

/// The page of an order of so many tickets.
fn bought(buyer: &Visitor, quantity: i64) -> Page {
    buyer.follow(&buyer.buy(quantity))
}

fn ticked(order: &Page, position: i32) -> Form {
    order.form(SOME).with(&format!("ticket-{position}"), "true")
}

#[test]
fn where_the_event_takes_nothing_back_there_is_no_form_and_none_can_be_made_up() {
    let shop = gala(5);
    let buyer = Visitor::of(&shop);
    let form = bought(&buyer, 2).form(ALL);
    assert_eq!(shop.client.patch("/api/v1/events/gala", &json!({"buyers_cancel_until": null})).status, 200);
    assert!(!bought(&buyer, 1).says("Give tickets back"));
    let refused = buyer.send(&form);
    assert_eq!((refused.status(), shop.count("SOLD")), (409, 3));
    assert!(refused.says("Not taken back The organiser takes no tickets of this event back."), "{}", refused.text());
}

#[test]
fn a_single_ticket_is_given_back_and_the_rest_stays() {
    let shop = gala(3);
    let buyer = Visitor::of(&shop);
    let order = bought(&buyer, 3);
    let after = buyer.follow(&buyer.send(&ticked(&order, 2)));
    assert!(after.says("You have 2 tickets") && after.says("One ticket of this order was given back"), "{}", after.text());
    assert!(after.says("2 × standard at €45.00 €90.00 Total €90.00"), "{}", after.text());
    assert_eq!(after.codes(), [order.codes()[0].clone(), order.codes()[2].clone()]);
    assert!((shop.count("SOLD"), shop.count("AVAILABLE")) == (2, 1) && buyer.get("/events/gala").says("Only 1 left"));
}

#[test]
fn a_whole_order_is_given_back_by_one_press() {
    let shop = gala(3);
    let buyer = Visitor::of(&shop);
    let after = buyer.follow(&buyer.send(&bought(&buyer, 3).form(ALL)));
    assert!(after.says("This order was cancelled") && after.says("See what is left"), "{}", after.text());
    assert!(after.codes().is_empty() && !after.says("Keep this page") && !after.says("Give tickets back"), "{}", after.text());
    assert_eq!(shop.count("AVAILABLE"), 3);
}

#[test]
fn an_only_ticket_need_not_be_ticked() {
    let shop = gala(3);
    let buyer = Visitor::of(&shop);
    let order = bought(&buyer, 1);
    assert!(!order.has_button(ALL), "{}", order.text());
    assert_eq!((buyer.send(&order.form("Give it back")).status(), shop.count("AVAILABLE")), (303, 3));
}

#[test]
fn with_nothing_ticked_nothing_is_given_back_and_the_form_is_there_at_once() {
    let shop = gala(3);
    let buyer = Visitor::of(&shop);
    let page = buyer.send(&bought(&buyer, 2).form(SOME));
    assert!(page.status() == 422 && page.says("Tick the tickets that you want to give back."), "{}", page.text());
    assert!(page.html().contains("<details class=\"return\" open>"), "{}", page.html());
    assert_eq!(shop.count("SOLD"), 2);
}

#[test]
fn a_second_time_changes_nothing_not_even_if_another_has_the_ticket_by_then() {
    let shop = gala(3);
    let buyer = Visitor::of(&shop);
    let order = bought(&buyer, 2);
    let form = ticked(&order, 1);
    assert_eq!((buyer.send(&form).status(), buyer.send(&form).status(), shop.count("SOLD")), (303, 303, 1));
    let other = bought(&Visitor::of(&shop), 2);
    assert!(other.codes()[0].starts_with("1-"), "{:?}", other.codes());
    let again = buyer.follow(&buyer.send(&form));
    assert!(again.says("You have 1 ticket") && shop.count("SOLD") == 3, "{}", again.text());
    for _ in 0..2 {
        assert_eq!((buyer.send(&order.form(ALL)).status(), shop.count("SOLD")), (303, 2), "the other's");
    }
}

#[test]
fn when_the_time_is_over_the_form_is_gone_and_one_that_was_open_is_refused() {
    let shop = gala(3);
    let buyer = Visitor::of(&shop);
    let bought = buyer.buy(2);
    let form = buyer.follow(&bought).form(ALL);
    for (moment, words) in [(UNTIL, "The time to give tickets back is over. Yours are still valid."), (STARTS, "The event has begun")] {
        shop.clock.set(moment.parse().unwrap());
        assert!(!buyer.follow(&bought).says("Give tickets back"), "{moment}");
        let refused = buyer.send(&form);
        assert_eq!((refused.status(), refused.says(words), refused.codes().len()), (409, true, 2), "{moment}: {}", refused.text());
    }
    assert_eq!(shop.count("SOLD"), 2);
}

#[test]
fn a_ticket_that_was_used_at_the_door_stays() {
    let shop = gala(3);
    let buyer = Visitor::of(&shop);
    let bought = buyer.buy(3);
    let order = buyer.follow(&bought);
    assert_eq!(shop.client.post(&format!("/api/v1/events/gala/tickets/{}/use", order.codes()[0]), &json!({})).status, 200);
    let now = buyer.follow(&bought);
    assert!(now.says("Used at the door") && !now.html().contains("ticket-1\"") && !now.has_button(ALL), "{}", now.html());
    for form in [order.form(ALL), ticked(&order, 1)] {
        let refused = buyer.send(&form);
        assert!(refused.status() == 409 && refused.says("A ticket that was used at the door stays."), "{}", refused.text());
    }
    assert_eq!((buyer.send(&ticked(&now, 2)).status(), shop.count("SOLD")), (303, 2));
}

#[test]
fn nobody_gives_back_what_is_anothers() {
    let shop = gala(4);
    let buyer = Visitor::of(&shop);
    let (own, _others) = (bought(&buyer, 2), bought(&Visitor::of(&shop), 2));
    let refused = buyer.send(&ticked(&own, 3));
    assert!(refused.status() == 422 && refused.says("One of these tickets is not part of this order."), "{}", refused.text());
    for wrong in ["", "x"] {
        assert_eq!(buyer.send(&own.form(ALL).with("key", wrong)).status(), 404, "{wrong}");
    }
    assert_eq!(shop.count("SOLD"), 4);
}

#[test]
fn tickets_of_an_event_that_is_cancelled_say_so() {
    let shop = gala(3);
    let buyer = Visitor::of(&shop);
    let bought = buyer.buy(2);
    assert_eq!(shop.client.patch("/api/v1/events/gala", &json!({"state": "cancelled"})).status, 200);
    let order = buyer.follow(&bought);
    assert!(order.says("This event is cancelled It will not take place.") && order.codes().len() == 2, "{}", order.text());
    assert!(!order.says("show the codes at the door"), "{}", order.text());
    let (path, _) = bought.header("location").split_once('?').unwrap();
    assert_eq!(shop.client.post(&format!("/api/v1{path}/cancel"), &json!({})).status, 200);
    let settled = buyer.follow(&bought);
    assert!(settled.says("This event is cancelled It will not take place. Its tickets are no longer valid."), "{}", settled.text());
    assert!(!settled.says("on sale") && !settled.says("See what is left"), "{}", settled.text());
}
