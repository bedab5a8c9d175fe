//! A buyer whose tickets are held first: the countdown, and what the page does at its end.

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;

use super::{
    chromium::{Chromium, ENTER},
    purchase::{sign, tab_to},
};
use crate::support::{Shop, wait_until};

const HOLD_SECS: i64 = 600;
const BUY_TWO: &str = "Buy 2 tickets for €90.00";

/// A gala whose tickets are held first, and the moment at which the shop's clock stands.
fn holding_gala(stock: i64) -> (Shop, DateTime<Utc>) {
    let shop = Shop::open();
    shop.event("gala", json!({"checkout": "hold"}), &[("standard", 4_500, stock)]);
    let now = shop.clock.now();
    shop.clock.set(now);
    (shop, now)
}

/// Chooses two tickets at the event's page and reserves them.
fn reserve(browser: &Chromium) {
    browser.named("2").tap();
    sign(browser);
    browser.named("Reserve tickets").tap();
    browser.wait_for_path("/orders/");
}

/// A browser with two tickets on hold, on their page.
fn holder(shop: &Shop) -> Chromium {
    let browser = Chromium::on_a_phone(shop);
    browser.open_page("/events/gala");
    reserve(&browser);
    browser
}

/// The seconds that the clock shows.
fn shown(browser: &Chromium) -> i64 {
    let clock = browser.script("return document.querySelector('[role=timer]').textContent");
    let (minutes, seconds) = clock.as_str().unwrap().split_once(':').unwrap();
    60 * minutes.parse::<i64>().unwrap() + seconds.parse::<i64>().unwrap()
}

#[test]
fn two_tickets_are_held_in_two_taps_besides_typing_and_bought_with_one_more() {
    let (shop, _) = holding_gala(5);
    let browser = holder(&shop);
    assert!(browser.text().contains("2 tickets held for you"), "{}", browser.text());
    assert_eq!((browser.count(".code"), shop.count("HELD")), (0, 2));
    browser.named(BUY_TWO).tap();
    browser.find(".code");
    assert_eq!((browser.count(".code"), browser.count("[role=timer]"), shop.count("SOLD")), (2, 0, 2), "{}", browser.text());
}

#[test]
fn the_clock_runs_and_a_reload_sets_it_by_the_servers() {
    let (shop, now) = holding_gala(5);
    let browser = holder(&shop);
    wait_until("the clock runs", || shown(&browser) < HOLD_SECS);
    shop.clock.set(now + TimeDelta::seconds(HOLD_SECS / 2));
    browser.reload();
    let left = shown(&browser);
    assert!((HOLD_SECS / 2 - 60..=HOLD_SECS / 2).contains(&left), "{left}");
    assert_eq!(browser.count(".last"), 0);
}

#[test]
fn in_the_last_minute_the_clock_says_so_aloud() {
    let (shop, now) = holding_gala(5);
    let browser = holder(&shop);
    assert_eq!(browser.script("return document.querySelector('.hold [role=status]').textContent"), "");
    shop.clock.set(now + TimeDelta::seconds(HOLD_SECS - 50));
    browser.reload();
    browser.find(".clock .last");
    assert_eq!(browser.script("return document.querySelector('.hold [role=status]').textContent"), "Less than a minute left.");
}

#[test]
fn at_the_deadline_the_page_says_by_itself_that_time_ran_out_and_one_tap_tries_all_the_same() {
    let (shop, now) = holding_gala(5);
    let browser = holder(&shop);
    shop.clock.set(now + TimeDelta::seconds(HOLD_SECS - 2));
    // A link within the page is no reason to stay there.
    browser.script("location.hash = 'main'");
    browser.reload();
    shop.clock.set(now + TimeDelta::seconds(HOLD_SECS));
    wait_until("the page says it", || browser.text().contains("Your time ran out"));
    assert_eq!((browser.count("[role=timer]"), browser.count(".hold")), (0, 0), "{}", browser.text());
    browser.named(BUY_TWO).tap();
    browser.find(".code");
    assert_eq!(shop.count("SOLD"), 2);
}

#[test]
fn tickets_that_are_gone_after_the_deadline_are_told_with_a_way_on() {
    let (shop, now) = holding_gala(2);
    let browser = holder(&shop);
    shop.clock.set(now + TimeDelta::seconds(HOLD_SECS));
    assert_eq!(shop.buy(1).status, 201);
    browser.named(BUY_TWO).tap();
    browser.find(".notice");
    assert!(browser.text().contains("The tickets are gone"), "{}", browser.text());
    browser.named("See what is left").tap();
    browser.find("[type=radio]");
    assert!(browser.text().contains("Only 1 left"), "{}", browser.text());
}

#[test]
fn back_and_reserve_again_is_the_same_hold() {
    let (shop, _) = holding_gala(5);
    let browser = holder(&shop);
    let order = browser.path();
    browser.back();
    browser.wait_for_path("/events/gala");
    reserve(&browser);
    assert_eq!((browser.path(), shop.orders(), shop.count("HELD")), (order, 1, 2));
}

#[test]
fn the_events_page_leads_back_to_the_hold_even_of_the_last_tickets() {
    let (shop, _) = holding_gala(2);
    let browser = holder(&shop);
    let order = browser.path();
    browser.open_page("/events/gala");
    assert!(!browser.text().contains("Sold out"), "{}", browser.text());
    browser.named("Go on with your order").tap();
    browser.wait_for_path("/orders/");
    assert_eq!(browser.path(), order);
    browser.named("Give them back").tap();
    browser.find(".onward");
    browser.open_page("/events/gala");
    assert!(browser.text().contains("Only 2 left") && !browser.text().contains("You hold"), "{}", browser.text());
}

#[test]
fn a_refresh_after_a_refusal_leads_back_to_the_order() {
    let (shop, _) = holding_gala(2);
    let browser = holder(&shop);
    let order = browser.path();
    assert_eq!(shop.client.patch("/api/v1/events/gala", &json!({"state": "cancelled"})).status, 200);
    browser.named(BUY_TWO).tap();
    browser.find(".notice");
    assert!(browser.path().ends_with("/confirm"), "{}", browser.path());
    browser.open_page(&browser.path());
    assert_eq!(browser.path(), order);
}

#[test]
fn tickets_are_reserved_and_bought_with_the_keyboard_alone() {
    let (shop, _) = holding_gala(5);
    let browser = Chromium::on_a_phone(&shop);
    browser.open_page("/events/gala");
    tab_to(&browser, "#name");
    browser.press("Ada");
    tab_to(&browser, "#email");
    browser.press("ada@example.org");
    browser.press(ENTER);
    browser.wait_for_path("/orders/");
    tab_to(&browser, ".hold .button");
    browser.press(ENTER);
    browser.find(".code");
    assert_eq!(shop.count("SOLD"), 1);
}

#[test]
fn a_ticket_that_was_bought_is_given_back_with_the_keyboard_alone() {
    let (shop, now) = holding_gala(5);
    let until = json!({"checkout": "at_once", "buyers_cancel_until": (now + TimeDelta::days(1)).to_rfc3339()});
    assert_eq!(shop.client.patch("/api/v1/events/gala", &until).status, 200);
    let browser = Chromium::on_a_phone(&shop);
    browser.open_page("/events/gala");
    browser.named("2").tap();
    sign(&browser);
    browser.named("Buy tickets").tap();
    browser.find(".code");
    tab_to(&browser, "summary");
    browser.press(ENTER);
    tab_to(&browser, "[type=checkbox]");
    browser.press(" ");
    tab_to(&browser, ".return .button");
    browser.press(ENTER);
    browser.wait_for_path("done=returned");
    assert!(browser.text().contains("You have 1 ticket"), "{}", browser.text());
    assert_eq!((shop.count("SOLD"), shop.count("AVAILABLE")), (1, 4));
}
