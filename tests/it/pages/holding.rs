//! Tickets that are held first: the page that counts down, what its two buttons do, and what it says when time ran out.

use chrono::TimeDelta;
use serde_json::json;

use super::visitor::{Page, Visitor};
use crate::support::Shop;

/// How long the page holds tickets, in seconds.
const HOLD_SECS: i64 = 600;
const BUY_TWO: &str = "Buy 2 tickets for €90.00";

/// A gala whose tickets are held first, with so many of them.
fn holding_gala(stock: i64) -> Shop {
    let shop = Shop::open();
    shop.event("gala", json!({"checkout": "hold"}), &[("standard", 4_500, stock)]);
    // Whatever takes how long: time passes when a test says so.
    shop.clock.set(shop.clock.now());
    shop
}

/// A buyer who holds tickets: their browser with its cookie, the link of the order, and its page.
struct Holder {
    buyer: Visitor,
    link: String,
    page: Page,
}

impl Holder {
    fn of(shop: &Shop, quantity: i64) -> Self {
        let buyer = Visitor::of(shop);
        let held = buyer.send(&buyer.reserving("gala", quantity));
        let (page, link) = (buyer.follow(&held), held.header("location").to_owned());
        Self { buyer: buyer.with_cookie_of(&held), link, page }
    }

    /// The order's page as it is now.
    fn order(&self) -> Page {
        self.buyer.get(&self.link)
    }

    fn event(&self) -> Page {
        self.buyer.get("/events/gala")
    }

    /// Presses a button of the page as it was at first.
    fn press(&self, button: &str) -> Page {
        self.buyer.send(&self.page.form(button))
    }

    /// The order's path, without its key.
    fn path(&self) -> &str {
        self.link.split('?').next().unwrap()
    }
}

/// Lets the time of every hold run out.
fn run_out(shop: &Shop) {
    shop.clock.set(shop.clock.now() + TimeDelta::seconds(HOLD_SECS));
}

fn set_state(shop: &Shop, state: &str) {
    assert_eq!(shop.client.patch("/api/v1/events/gala", &json!({"state": state})).status, 200);
}

#[test]
fn what_is_reserved_is_held_and_one_press_makes_it_tickets_with_codes() {
    let shop = holding_gala(5);
    let event = Visitor::of(&shop).get("/events/gala");
    assert!(event.says("They are kept for you for 10 minutes. You buy them on the next page."), "{}", event.text());
    let held = Holder::of(&shop, 2);
    assert!(held.page.says("2 tickets held for you") && held.page.says("10:00 left"), "{}", held.page.text());
    assert_eq!((held.page.codes().len(), shop.count("HELD"), shop.count("SOLD")), (0, 2, 0));
    let order = held.buyer.follow(&held.press(BUY_TWO));
    assert!(order.says("You have 2 tickets") && order.says("Keep this page"), "{}", order.text());
    assert_eq!((order.codes().len(), shop.count("HELD"), shop.count("SOLD")), (2, 0, 2));
}

#[test]
fn one_ticket_is_not_spoken_of_as_many() {
    let shop = holding_gala(5);
    let held = Holder::of(&shop, 1);
    assert!(held.page.says("1 ticket held for you") && held.page.says("Nobody else can take this ticket until"), "{}", held.page.text());
    assert!(held.event().says("You hold 1 ticket It is kept for you until"), "{}", held.event().text());
    assert_eq!(held.buyer.follow(&held.press("Buy 1 ticket for €45.00")).codes().len(), 1);
}

#[test]
fn what_is_given_back_is_on_sale_again() {
    let shop = holding_gala(2);
    let held = Holder::of(&shop, 2);
    let order = held.buyer.follow(&held.press("Give them back"));
    assert!(order.says("This order was given back") && order.says("See what is left"), "{}", order.text());
    assert!(!order.has_button(BUY_TWO) && order.codes().is_empty(), "{}", order.text());
    assert_eq!((shop.count("AVAILABLE"), Holder::of(&shop, 2).page.status()), (2, 200));
}

#[test]
fn each_press_does_its_work_once() {
    let shop = holding_gala(4);
    let (bought, given) = (Holder::of(&shop, 2), Holder::of(&shop, 2));
    for (holder, button) in [(&bought, BUY_TWO), (&given, "Give them back")] {
        let (first, second) = (holder.press(button), holder.press(button));
        assert_eq!((first.status(), first.header("location")), (303, second.header("location")), "{second:?}");
    }
    assert_eq!((shop.count("SOLD"), shop.count("AVAILABLE"), bought.order().codes().len()), (2, 2, 2));
    let late = given.press(BUY_TWO);
    assert!(late.status() == 409 && late.says("These tickets were given back before."), "{}", late.text());
}

#[test]
fn the_time_that_is_left_is_told_by_the_servers_clock() {
    let shop = holding_gala(2);
    let held = Holder::of(&shop, 2);
    shop.clock.set(shop.clock.now() + TimeDelta::milliseconds(1_000 * HOLD_SECS - 4_500));
    let page = held.order();
    assert!(page.says("0:05 left") && page.html().contains("data-seconds=\"5\""), "{}", page.text());
}

#[test]
fn without_a_script_the_page_comes_anew_when_time_is_over() {
    let shop = holding_gala(2);
    let held = Holder::of(&shop, 2);
    let refresh = held.page.between("<noscript><meta http-equiv=\"refresh\" content=\"", "\"></noscript>");
    assert_eq!(refresh, format!("601; url={}", held.link));
    run_out(&shop);
    assert!(held.order().says("Your time ran out") && !held.order().html().contains("http-equiv"), "{:?}", held.order());
}

#[test]
fn after_the_deadline_the_tickets_can_still_be_had_if_nobody_took_them() {
    let shop = holding_gala(2);
    let held = Holder::of(&shop, 2);
    run_out(&shop);
    let over = held.order();
    assert!(over.status() == 200 && over.says("Your time ran out") && over.says("Nothing has been bought."), "{}", over.text());
    assert!(!over.has_button("Give them back"), "{}", over.text());
    assert!(Visitor::of(&shop).get("/events/gala").says("2 left"));
    let order = held.buyer.follow(&held.buyer.send(&over.form(BUY_TWO)));
    assert_eq!((order.codes().len(), shop.count("SOLD")), (2, 2), "{}", order.text());
}

#[test]
fn after_the_deadline_others_of_the_same_kind_do_as_well() {
    let shop = holding_gala(3);
    let held = Holder::of(&shop, 2);
    run_out(&shop);
    assert_eq!(shop.buy(3).status, 201);
    let more = json!({"ticket_type": "standard", "quantity": 2});
    assert_eq!(shop.client.post("/api/v1/events/gala/inventory", &more).status, 201);
    let codes = held.buyer.follow(&held.press(BUY_TWO)).codes();
    assert!(codes.len() == 2 && codes[0].starts_with("4-") && codes[1].starts_with("5-"), "{codes:?}");
}

#[test]
fn tickets_that_others_took_after_the_deadline_are_gone() {
    let shop = holding_gala(2);
    let held = Holder::of(&shop, 2);
    run_out(&shop);
    assert_eq!(shop.buy(1).status, 201);
    let gone = held.press(BUY_TWO);
    assert_eq!((gone.status(), shop.count("SOLD"), shop.count("AVAILABLE")), (410, 1, 1));
    assert!(gone.says("The tickets are gone Others took them after your time ran out"), "{}", gone.text());
    assert!(!gone.has_button(BUY_TWO) && gone.html().contains("href=\"/events/gala\">See what is left"), "{}", gone.text());
}

#[test]
fn a_sale_that_is_paused_keeps_what_it_promised_and_sells_nothing_after_the_deadline() {
    let shop = holding_gala(4);
    let (in_time, late) = (Holder::of(&shop, 2), Holder::of(&shop, 2));
    set_state(&shop, "paused");
    assert_eq!(in_time.buyer.follow(&in_time.press(BUY_TWO)).codes().len(), 2);
    run_out(&shop);
    let over = late.order();
    assert!(over.says("Your time ran out") && !over.has_button(BUY_TWO) && over.says("It is not sold at this moment."), "{}", over.text());
    let refused = late.press(BUY_TWO);
    assert!(refused.status() == 409 && refused.says("Not on sale just now") && refused.says("Nothing has been bought."), "{refused:?}");
}

#[test]
fn tickets_of_an_event_that_is_cancelled_cannot_be_bought_any_more() {
    let shop = holding_gala(2);
    let held = Holder::of(&shop, 2);
    set_state(&shop, "cancelled");
    let refused = held.press(BUY_TWO);
    for (page, status) in [(held.order(), 200), (refused, 409)] {
        let told = page.text().matches("This event is cancelled").count();
        assert_eq!((page.status(), told, page.has_button(BUY_TWO)), (status, 1, false), "{page:?}");
    }
    shop.clock.set(shop.clock.now() + TimeDelta::hours(1));
    let over = held.order();
    assert!(over.says("This event is cancelled") && over.says("What was kept for you was given up."), "{}", over.text());
    assert!(!over.says("on sale") && !over.has_button(BUY_TWO), "{}", over.text());
    assert_eq!(shop.count("SOLD"), 0);
}

#[test]
fn who_holds_the_last_tickets_is_led_to_them_and_others_are_told_where_they_are() {
    let shop = holding_gala(2);
    let held = Holder::of(&shop, 2);
    let own = held.event();
    assert!(own.says("You hold 2 tickets") && own.says("Go on with your order"), "{}", own.text());
    assert!(!own.text().to_lowercase().contains("sold out") && !own.says("other buyers"), "{}", own.text());
    assert!(own.html().contains(&format!("href=\"{}\"", held.link)), "{own:?}");
    let other = Visitor::of(&shop).get("/events/gala");
    assert!(other.says("All tickets are in other buyers' baskets") && !other.says("You hold"), "{}", other.text());
    assert!(!other.html().contains(held.path()), "{other:?}");
}

#[test]
fn the_list_of_events_does_not_call_sold_out_what_may_come_back() {
    let shop = holding_gala(2);
    let held = Holder::of(&shop, 2);
    let list = || Visitor::of(&shop).get("/").text();
    assert!(list().contains("All in buyers' baskets") && !list().contains("Sold out"), "{}", list());
    held.press(BUY_TWO);
    assert!(list().contains("Sold out"), "{}", list());
}

#[test]
fn who_holds_the_last_tickets_and_asks_for_more_is_not_told_that_they_are_sold_out() {
    let shop = holding_gala(2);
    let form = Visitor::of(&shop).reserving("gala", 1);
    let held = Holder::of(&shop, 2);
    let short = held.buyer.send(&form);
    assert!(short.status() == 409 && short.says("You hold the last tickets"), "{short:?}");
    assert!(short.says("Go on with your order") && !short.has_button("Try again"), "{}", short.text());
    assert!(!short.text().to_lowercase().contains("sold out") && !short.says("other buyers"), "{}", short.text());
}

#[test]
fn who_holds_some_of_the_last_tickets_is_told_that_others_hold_the_rest() {
    let shop = holding_gala(3);
    let (held, _other) = (Holder::of(&shop, 2), Holder::of(&shop, 1));
    let own = held.event();
    assert!(own.says("You hold 2 tickets") && own.says("All others are in other buyers' baskets"), "{}", own.text());
}

#[test]
fn who_holds_some_can_reserve_more_and_finds_both_again() {
    let shop = holding_gala(5);
    let held = Holder::of(&shop, 2);
    let event = held.event();
    assert!(event.says("You hold 2 tickets") && event.says("Choose further tickets"), "{}", event.text());
    let more = held.buyer.send(&held.buyer.reserving("gala", 1));
    let (first, buyer) = (held.page.form(BUY_TWO), held.buyer.with_cookie_of(&more));
    let both = buyer.get("/events/gala");
    assert!(both.says("You hold 1 ticket") && both.says("You hold 2 tickets"), "{}", both.text());
    let bought = buyer.send(&first);
    let one = buyer.with_cookie_of(&bought).get("/events/gala");
    assert!(one.says("You hold 1 ticket") && !one.says("You hold 2 tickets"), "{}", one.text());
}

#[test]
fn the_cookie_is_for_this_event_and_this_server_alone_and_lasts_as_long_as_the_hold() {
    let shop = holding_gala(5);
    let buyer = Visitor::of(&shop);
    let held = buyer.send(&buyer.reserving("gala", 2));
    let cookie = held.header("set-cookie");
    for part in ["boxoffice_hold=", "HttpOnly", "SameSite=Lax", "Path=/events/gala", "Max-Age=600"] {
        assert!(cookie.contains(part), "{part}: {cookie}");
    }
    let https = Shop::open_with(|config| config.secure_cookies = true);
    https.event("gala", json!({"checkout": "hold"}), &[("standard", 4_500, 5)]);
    let buyer = Visitor::of(&https);
    assert!(buyer.send(&buyer.reserving("gala", 2)).header("set-cookie").contains("Secure"));
}

#[test]
fn the_cookie_is_cleared_when_there_is_nothing_left_to_find() {
    let shop = holding_gala(4);
    for button in [BUY_TWO, "Give them back"] {
        let held = Holder::of(&shop, 2);
        let done = held.press(button);
        let cookie = done.header("set-cookie");
        assert!(cookie.starts_with("boxoffice_hold=;") && cookie.contains("Max-Age=0") && cookie.contains("Path=/events/gala"), "{cookie}");
        // A browser that kept it all the same is told nothing that is not so.
        assert!(!held.event().says("You hold"), "{}", held.event().text());
    }
    let held = Holder::of(&shop, 2);
    run_out(&shop);
    assert!(!held.event().says("You hold"), "{}", held.event().text());
}

#[test]
fn a_cookie_that_was_made_up_shows_nothing() {
    let shop = holding_gala(2);
    let held = Holder::of(&shop, 2);
    let id = held.path().rsplit('/').next().unwrap();
    for value in [format!("{id}.wrong"), id.to_owned(), "~~..".to_owned(), String::new(), format!("x.{id}")] {
        let eve = Visitor { cookie: Some(format!("boxoffice_hold={value}")), ..Visitor::of(&shop) };
        let event = eve.get("/events/gala");
        assert_eq!((event.status(), event.says("You hold")), (200, false), "{value}: {}", event.text());
    }
}

#[test]
fn the_same_form_leads_to_the_same_hold() {
    let shop = holding_gala(5);
    let buyer = Visitor::of(&shop);
    let form = buyer.reserving("gala", 2);
    let (first, second) = (buyer.send(&form), buyer.send(&form));
    assert_eq!((first.header("location"), second.header("set-cookie")), (second.header("location"), first.header("set-cookie")));
    assert_eq!((shop.orders(), shop.count("HELD")), (1, 2));
}

#[test]
fn no_link_buys_or_gives_back() {
    let shop = holding_gala(2);
    let held = Holder::of(&shop, 2);
    let key = held.link.split('?').nth(1).unwrap();
    for what in ["confirm", "cancel"] {
        let address = format!("{}/{what}?{key}&all=true", held.path());
        assert_eq!((held.buyer.get(&address).status(), held.buyer.get(&address).header("location")), (303, held.link.as_str()));
        let other = Visitor::of(&shop).get(&address);
        assert_eq!((other.status(), other.header("location")), (303, "/events/gala"), "who does not hold it is not told its key");
    }
    assert_eq!(shop.count("HELD"), 2);
}

#[test]
fn without_the_whole_key_nothing_is_bought_or_given_back() {
    let shop = holding_gala(2);
    let held = Holder::of(&shop, 2);
    let key = held.page.form(BUY_TWO).value("key").unwrap().to_owned();
    for button in [BUY_TWO, "Give them back"] {
        for wrong in ["", "x", &key[1..], &format!("{key}x")] {
            let page = held.buyer.send(&held.page.form(button).with("key", wrong));
            assert_eq!((page.status(), page.says("ada@example.org")), (404, false), "{button} {wrong}: {page:?}");
        }
    }
    assert_eq!((shop.count("HELD"), held.press(BUY_TWO).status()), (2, 303));
}

#[test]
fn held_tickets_show_their_seats_and_no_codes() {
    let shop = Shop::open();
    shop.event("gala", json!({"checkout": "hold"}), &[("standard", 4_500, 0)]);
    shop.client.post_csv("/api/v1/events/gala/inventory", b"ticket_type;section;row;seat\nstandard;Stalls;A;17\n");
    let held = Holder::of(&shop, 1);
    assert!(held.page.says("Section Stalls Row A Seat 17") && held.page.codes().is_empty(), "{}", held.page.text());
}

#[test]
fn what_costs_nothing_is_taken_and_not_bought() {
    let shop = Shop::open();
    shop.event("gala", json!({"checkout": "hold"}), &[("standard", 0, 5)]);
    let held = Holder::of(&shop, 2);
    assert_eq!(held.buyer.follow(&held.press("Take 2 tickets for free")).codes().len(), 2);
}

#[test]
fn who_bought_up_to_the_limit_meanwhile_is_told_when_buying_after_the_deadline() {
    let shop = holding_gala(9);
    assert_eq!(shop.client.patch("/api/v1/events/gala", &json!({"max_per_buyer": 3})).status, 200);
    let held = Holder::of(&shop, 2);
    run_out(&shop);
    assert_eq!(shop.buy(2).status, 201, "the same buyer");
    let refused = held.press(BUY_TWO);
    assert_eq!((refused.status(), shop.count("SOLD")), (409, 2));
    assert!(
        refused.says("At most 3 tickets a person") && refused.says("with what this e-mail address has these would be too many"),
        "{}",
        refused.text()
    );
}
