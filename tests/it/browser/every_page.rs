//! What holds for every page, whatever is on it: it fits a small screen.

use serde_json::json;

use super::{chromium::Chromium, desk::log_in};
use crate::{
    pages::{jobs::give_up, visitor::Visitor},
    support::{Shop, order},
};

/// As long as names get without a place to break.
const LONG: &str = "Rindfleischetikettierungsüberwachungsaufgabenübertragungsgesetz-Festspielgala";

/// An event whose names are as long as names get.
fn wide_gala() -> Shop {
    let shop = Shop::open();
    let fields = json!({"name": LONG, "venue": LONG, "starts_at": "2031-09-24T20:00", "time_zone": "America/Argentina/Buenos_Aires"});
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
fn visit(browser: &Chromium, mut look: impl FnMut(&str)) {
    let mut open = |path: &str| {
        browser.open_page(path);
        look(path);
    };
    for path in ["/", "/events/gala", "/nothing", "/admin/setup", "/admin/login"] {
        open(path);
    }
    log_in(browser);
    for path in ["/admin", "/admin/events/new", "/admin/events/gala/edit", "/admin/jobs", "/admin/events/gala"] {
        open(path);
    }
    browser.named("Load tickets from a file").tap();
    browser.find("#rows").write(&format!("ticket_type,row\n{LONG},{LONG}\n"));
    browser.find("#load-file [value=check]").tap();
    browser.find("[aria-label='What is wrong, by row']");
    look("a file with a wrong row");
    browser.open_page("/events/gala");
    browser.find("[for=vip-more]").tap();
    browser.find("#vip-typed").write("12");
    browser.find("#name").write(LONG);
    browser.find("#email").write("ada@example.org");
    browser.named("Buy tickets").tap();
    browser.find(".notice");
    look("too few left");
    browser.find(".notice button").tap();
    browser.wait_for_path("/orders/");
    look("an order");
}

#[test]
fn no_page_scrolls_sideways_on_a_small_phone() {
    let shop = wide_gala();
    Visitor::admin(&shop);
    let browser = Chromium::on_a_phone(&shop);
    visit(&browser, |page| {
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
