//! A buyer with a telephone, or with nothing but a keyboard.

use super::chromium::{Chromium, ENTER, RIGHT, TAB};
use crate::support::Shop;

fn gala(stock: i64) -> Shop {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, stock)]);
    shop
}

/// Types a name and an address.
pub(super) fn sign(browser: &Chromium) {
    browser.find("#name").write("Ada");
    browser.find("#email").write("ada@example.org");
}

/// Opens the event, chooses two tickets, and signs.
fn fill_in(browser: &Chromium) {
    browser.open_page("/events/gala");
    browser.named("2").tap();
    sign(browser);
}

/// Fills in the form and buys.
fn buy(browser: &Chromium) {
    fill_in(browser);
    browser.named("Buy tickets").tap();
    browser.wait_for_path("/orders/");
}

#[test]
fn two_tickets_take_three_taps_on_a_phone_besides_typing() {
    let shop = gala(5);
    let browser = Chromium::on_a_phone(&shop);
    browser.open_page("/");
    browser.named("Gala").tap();
    browser.named("2").tap();
    sign(&browser);
    browser.named("Buy tickets").tap();
    browser.wait_for_path("/events/gala/orders/");
    assert_eq!((browser.count(".code"), shop.count("SOLD")), (2, 2), "{}", browser.text());
}

#[test]
fn a_double_click_on_buy_is_one_order() {
    let shop = gala(5);
    let browser = Chromium::on_a_phone(&shop);
    fill_in(&browser);
    browser.named("Buy tickets").double_tap();
    browser.wait_for_path("/orders/");
    assert_eq!((browser.count(".code"), shop.orders(), shop.count("SOLD")), (2, 1, 2), "{}", browser.text());
}

#[test]
fn back_and_buy_again_is_still_one_order() {
    let shop = gala(5);
    let browser = Chromium::on_a_phone(&shop);
    buy(&browser);
    let order = browser.path();
    browser.back();
    browser.named("2").tap();
    sign(&browser);
    browser.named("Buy tickets").tap();
    browser.wait_for_path("/orders/");
    assert_eq!((browser.path(), shop.orders()), (order, 1));
}

#[test]
fn the_page_of_the_order_can_be_reloaded() {
    let shop = gala(5);
    let browser = Chromium::on_a_phone(&shop);
    buy(&browser);
    browser.reload();
    assert_eq!((browser.count(".code"), shop.orders()), (2, 1), "{}", browser.text());
}

#[test]
fn a_form_that_came_back_can_be_reloaded_and_buys_nothing() {
    let shop = gala(5);
    let browser = Chromium::on_a_phone(&shop);
    fill_in(&browser);
    assert_eq!(shop.buy(4).status, 201);
    browser.named("Buy tickets").tap();
    browser.find(".notice");
    browser.reload();
    assert!(browser.text().contains("Only 1 left"), "{}", browser.text());
    assert_eq!(shop.orders(), 1, "the other buyer's");
}

#[test]
fn too_few_left_is_one_tap_from_taking_them() {
    let shop = gala(5);
    let browser = Chromium::on_a_phone(&shop);
    fill_in(&browser);
    assert_eq!(shop.buy(4).status, 201);
    browser.named("Buy tickets").tap();
    browser.named("Take the one that is left").tap();
    browser.wait_for_path("/orders/");
    assert_eq!((browser.count(".code"), shop.count("AVAILABLE")), (1, 0), "{}", browser.text());
}

/// Presses Tab until the focus is on an element of that selector.
pub(super) fn tab_to(browser: &Chromium, selector: &str) {
    let is_there = format!("return document.activeElement.matches(\"{selector}\")");
    for _ in 0..12 {
        browser.press(TAB);
        if browser.script(&is_there) == true {
            return;
        }
    }
    panic!("twelve times Tab did not lead to {selector}: {}", browser.text());
}

#[test]
fn two_tickets_can_be_bought_with_the_keyboard_alone() {
    let shop = gala(5);
    let browser = Chromium::on_a_phone(&shop);
    browser.open_page("/");
    tab_to(&browser, "a[href='/events/gala']");
    browser.press(ENTER);
    browser.wait_for_path("/events/gala");
    tab_to(&browser, "[type=radio]");
    browser.press(RIGHT);
    tab_to(&browser, "#name");
    browser.press("Ada");
    tab_to(&browser, "#email");
    browser.press("ada@example.org");
    browser.press(ENTER);
    browser.wait_for_path("/orders/");
    assert_eq!((browser.count(".code"), shop.count("SOLD")), (2, 2), "{}", browser.text());
}

#[test]
fn more_than_a_handful_is_typed() {
    let shop = gala(50);
    let browser = Chromium::on_a_phone(&shop);
    browser.open_page("/events/gala");
    browser.named("More").tap();
    browser.find("#standard-typed").write("12");
    sign(&browser);
    browser.named("Buy tickets").tap();
    browser.wait_for_path("/orders/");
    assert_eq!(browser.count(".code"), 12, "{}", browser.text());
}
