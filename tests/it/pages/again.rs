//! The same form more than once: a double click, a refresh, Back.

use std::time::Duration;

use diesel::connection::SimpleConnection;

use super::visitor::Visitor;
use crate::support::{Shop, at_once};

#[test]
fn a_form_sent_twice_is_one_order_and_leads_there_twice() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let buyer = Visitor::of(&shop);
    let form = buyer.filled_in("gala", 2);
    let (first, second) = (buyer.send(&form), buyer.send(&form));
    assert_eq!((first.status(), second.status(), first.header("location")), (303, 303, second.header("location")));
    assert_eq!((shop.orders(), shop.count("SOLD")), (1, 2));
}

#[test]
fn a_form_sent_four_times_at_once_is_one_order_and_leads_there_four_times() {
    for stock in [2, 50] {
        let shop = Shop::open();
        shop.gala(&[("standard", 4_500, stock)]);
        let buyer = Visitor::of(&shop);
        let form = buyer.filled_in("gala", 2);
        let pages = at_once(4, |_| buyer.send(&form));
        for page in &pages {
            assert_eq!((page.status(), page.header("location")), (303, pages[0].header("location")), "{page:?}");
        }
        assert_eq!((shop.orders(), shop.count("SOLD")), (1, 2));
    }
}

#[test]
fn a_form_that_is_opened_anew_is_another_order() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let buyer = Visitor::of(&shop);
    assert_ne!(buyer.buy(2).header("location"), buyer.buy(2).header("location"));
    assert_eq!((shop.orders(), shop.count("SOLD")), (2, 4));
}

#[test]
fn a_form_that_was_changed_after_it_bought_asks_before_it_buys_more() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 9)]);
    let buyer = Visitor::of(&shop);
    let form = buyer.filled_in("gala", 2);
    buyer.send(&form);
    let asked = buyer.send(&form.clone().with("quantity-standard", "3"));
    assert_eq!((asked.status(), shop.orders()), (422, 1), "{asked:?}");
    assert!(asked.says("This form has been used"), "{}", asked.text());
    let fresh = asked.form("Buy tickets");
    assert_ne!(fresh.value("form_key"), form.value("form_key"));
    assert_eq!((fresh.value("quantity-standard"), fresh.value("name")), (Some("3"), Some("Ada")));
    assert_eq!(buyer.follow(&buyer.send(&fresh)).codes().len(), 3);
}

#[test]
fn a_form_that_found_too_few_may_be_sent_again_when_more_are_there() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 2)]);
    let buyer = Visitor::of(&shop);
    let form = buyer.filled_in("gala", 3);
    assert_eq!(buyer.send(&form).status(), 409);
    let one_more = serde_json::json!({"ticket_type": "standard", "quantity": 1});
    assert_eq!(shop.client.post("/api/v1/events/gala/inventory", &one_more).status, 201);
    assert_eq!(buyer.follow(&buyer.send(&form)).codes().len(), 3);
}

#[test]
fn while_the_database_is_busy_the_page_keeps_the_order_and_sends_it_once() {
    let shop = Shop::open_with(|config| config.sale_limits.lock_wait = Duration::from_millis(100));
    shop.gala(&[("standard", 4_500, 5)]);
    let buyer = Visitor::of(&shop);
    let form = buyer.filled_in("gala", 2);
    let mut other = shop.database.connect();
    other.batch_execute("BEGIN; SELECT FROM tickets FOR UPDATE").unwrap();
    let busy = buyer.send(&form);
    assert_eq!((busy.status(), busy.says("Very busy just now")), (503, true), "{busy:?}");
    assert!(!busy.header("retry-after").is_empty());
    let again = busy.form("Try again");
    assert_eq!(again.value("form_key"), form.value("form_key"));
    other.batch_execute("ROLLBACK").unwrap();
    let (first, second) = (buyer.send(&again), buyer.send(&form));
    assert_eq!((first.status(), first.header("location")), (303, second.header("location")), "{second:?}");
    assert_eq!((shop.orders(), shop.count("SOLD")), (1, 2));
}
