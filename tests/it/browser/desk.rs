//! An admin at a desk: logging in, making an event, loading a file.

use super::chromium::Chromium;
use crate::{
    pages::visitor::{EMAIL, PASSWORD, Visitor},
    support::{Shop, wait_until},
};

/// Logs in at the log-in form that is open.
pub(super) fn log_in(browser: &Chromium) {
    browser.find("#email").write(EMAIL);
    browser.find("#password").write(PASSWORD);
    browser.named("Log in").tap();
    // The tap does not wait for the answer, and whoever goes elsewhere before it is not logged in.
    wait_until("the log-in is over", || !browser.path().contains("/login"));
}

#[test]
fn an_admin_logs_in_makes_an_event_and_loads_a_file() {
    let shop = Shop::open();
    Visitor::admin(&shop);
    let browser = Chromium::on_a_phone(&shop);
    browser.open_page("/admin");
    log_in(&browser);
    browser.named("New event").tap();
    browser.find("#name").write("Gala");
    browser.find("#time_zone").write("Europe/Berlin");
    browser.find("#type_name").write("Standard");
    browser.find("#type_price").write("45");
    browser.named("Make the event").tap();
    browser.wait_for_path("/admin/events/gala");
    let file = tempfile::NamedTempFile::with_suffix(".csv").unwrap();
    std::fs::write(file.path(), "ticket_type;row;seat\nstandard;A;1\nstandard;A;2\n").unwrap();
    browser.named("Load tickets from a file").tap();
    browser.find("#file").choose(file.path());
    browser.find("#load-file [value=check]").tap();
    browser.named("Load 2 tickets").tap();
    browser.wait_for_path("?load=");
    assert!(browser.text().contains("2 tickets were loaded"), "{}", browser.text());
    assert_eq!(shop.count("AVAILABLE"), 2);
}
