//! What holds for every page, whatever is on it: it fits a small screen.

use serde_json::json;

use super::{chromium::Chromium, desk::log_in};
use crate::{
    pages::{jobs::give_up, visitor::Visitor},
    support::{Shop, order, order_of},
};

/// As long as names get without a place to break.
const LONG: &str = "Rindfleischetikettierungsüberwachungsaufgabenübertragungsgesetz-Festspielgala";

/// An event whose names are as long as names get.
fn wide_gala() -> Shop {
    let shop = Shop::open();
    let mut fields = json!({"name": LONG, "venue": LONG, "starts_at": "2031-09-24T20:00", "buyers_cancel_until": "2031-09-23T20:00"});
    fields["time_zone"] = json!("America/Argentina/Buenos_Aires");
    shop.event("gala", fields, &[("standard", 1_234_567_890, 0)]);
    let vip = json!({"code": "vip", "name": LONG, "price_minor": 9_000});
    assert_eq!(shop.client.post("/api/v1/events/gala/ticket-types", &vip).status, 201);
    let seats =
        (0..9).fold("ticket_type,section,row,seat\n".to_owned(), |csv, seat| format!("{csv}vip,{LONG},{LONG},{seat}\nstandard,,,{seat}\n"));
    assert_eq!(shop.client.post_csv("/api/v1/events/gala/inventory", seats.as_bytes()).status, 201);
    let mut long = order(1);
    long["buyer"] = json!({"name": LONG, "email": format!("{}@{}.example.org", "a".repeat(64), "b".repeat(60))});
    assert_eq!(shop.client.post("/api/v1/events/gala/orders", &long).status, 201);
    give_up(&shop, &format!("webhook:{LONG}"), LONG);
    shop
}

/// Opens every page, and calls `look` with what it is.
fn visit(shop: &Shop, browser: &Chromium, mut look: impl FnMut(&str)) {
    let mut open = |path: &str| {
        browser.open_page(path);
        look(path);
    };
    for path in ["/", "/events/gala", "/nothing", "/admin/setup", "/admin/login"] {
        open(path);
    }
    log_in(browser);
    let type_form = "/admin/events/gala/ticket-types/vip";
    for path in ["/admin", "/admin/events/new", "/admin/events/gala/edit", "/admin/jobs", type_form, "/admin/events/gala"] {
        open(path);
    }
    browser.find("a[href*='/admin/events/gala/orders/']").tap();
    browser.named("Cancel tickets").tap();
    look("an order for admins");
    browser.open_page("/admin/events/gala");
    browser.named("Load tickets from a file").tap();
    browser.find("#rows").write(&format!("ticket_type,row\n{LONG},{LONG}\n"));
    browser.find("#load-file [value=check]").tap();
    browser.find("[aria-label='What is wrong, by row']");
    look("a file with a wrong row");
    choose_vip(browser, "12");
    browser.named("Buy tickets").tap();
    browser.find(".notice");
    look("too few left");
    browser.find(".notice button").tap();
    browser.wait_for_path("/orders/");
    browser.named("Give tickets back").tap();
    look("an order");
    browser.find(".return .button").tap();
    browser.find(".notice.bad");
    look("nothing ticked");
    browser.named("Give back the whole order").tap();
    browser.find(".notice.good");
    look("given back");
    visit_holds(shop, browser, look);
}

/// Fills in the form of the event's page, for so many tickets with long places.
fn choose_vip(browser: &Chromium, quantity: &str) {
    browser.open_page("/events/gala");
    browser.find("[for=vip-more]").tap();
    browser.find("#vip-typed").write(quantity);
    browser.find("#name").write(LONG);
    browser.find("#email").write("eve@example.org");
}

/// The same with the pages of tickets that are held first.
fn visit_holds(shop: &Shop, browser: &Chromium, mut look: impl FnMut(&str)) {
    let now = shop.clock.now();
    shop.clock.set(now);
    assert_eq!(shop.client.patch("/api/v1/events/gala", &json!({"checkout": "hold", "max_per_buyer": 10})).status, 200);
    choose_vip(browser, "9");
    browser.named("Reserve tickets").tap();
    browser.find("[role=timer]");
    look("a hold");
    let order = browser.path();
    browser.open_page("/events/gala");
    look("the event of a hold");
    browser.find("#name").write(LONG);
    browser.find("#email").write("eve@example.org");
    browser.named("Reserve tickets").tap();
    browser.find(".notice.warn");
    look("more than one person may have");
    shop.clock.set(now + chrono::TimeDelta::minutes(10));
    browser.open_page(&order);
    look("time ran out");
    assert_eq!(shop.client.post("/api/v1/events/gala/orders", &order_of(&[("vip", 9)])).status, 201);
    browser.find(".notice button").tap();
    browser.find(".notice h2");
    look("too late");
}

#[test]
fn no_page_scrolls_sideways_on_a_small_phone() {
    let shop = wide_gala();
    Visitor::admin(&shop);
    let browser = Chromium::on_a_phone(&shop);
    visit(&shop, &browser, |page| {
        for width in [390, 320] {
            browser.resize(width, 844);
            let is = browser.script("return document.documentElement.scrollWidth").as_u64().unwrap();
            assert!(is <= width.into(), "{page} is {is} wide on a screen of {width}: {}", browser.script(WIDEST));
        }
    });
}

/// The element that reaches furthest to the right.
const WIDEST: &str = "const right = e => e.getBoundingClientRect().right; \
    return [...document.body.querySelectorAll(':not(.unseen, .unseen *)')].reduce((a, b) => right(b) > right(a) ? b : a).outerHTML.slice(0, 200)";
