//! Loading tickets from the page of an event: by number and by file.

use super::{
    markup::Form,
    visitor::{Page, Visitor},
};
use crate::support::Shop;

/// An event with a ticket type and no tickets, and its admin.
fn empty_gala() -> (Shop, Visitor) {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 0)]);
    let admin = Visitor::admin(&shop);
    (shop, admin)
}

fn count_form(admin: &Visitor, quantity: &str) -> Form {
    admin.get("/admin/events/gala").form_with_id("load-count").with("quantity", quantity)
}

/// Sends a file, to be checked or loaded.
fn upload(admin: &Visitor, action: &str, file: &[u8]) -> Page {
    admin.upload(&admin.get("/admin/events/gala").form_with_id("load-file").with("action", action), file)
}

#[test]
fn a_number_is_checked_first_and_then_loaded_by_one_press() {
    let (shop, admin) = empty_gala();
    let checked = admin.send(&count_form(&admin, "500").with("action", "check"));
    assert!(checked.status() == 200 && checked.says("500 tickets would be loaded"), "{}", checked.text());
    assert_eq!(shop.count("AVAILABLE"), 0);
    let loaded = admin.follow(&admin.send(&checked.form("Load 500 tickets")));
    assert!(loaded.says("500 tickets were loaded"), "{}", loaded.text());
    assert_eq!(shop.count("AVAILABLE"), 500);
}

#[test]
fn a_load_that_is_sent_twice_loads_once() {
    let (shop, admin) = empty_gala();
    let form = count_form(&admin, "5").with("action", "load");
    let (first, second) = (admin.send(&form), admin.send(&form));
    assert_eq!((first.header("location"), second.status()), (second.header("location"), 303));
    assert_eq!(shop.count("AVAILABLE"), 5);
    assert!(admin.follow(&second).says("5 tickets were loaded"));
}

#[test]
fn a_load_form_that_was_changed_asks_before_it_loads_more() {
    let (shop, admin) = empty_gala();
    let form = count_form(&admin, "5").with("action", "load");
    admin.send(&form);
    let asked = admin.send(&form.with("quantity", "6"));
    assert!(asked.says("This form has been used"), "{}", asked.text());
    assert_eq!(shop.count("AVAILABLE"), 5);
    admin.send(&asked.form_with_id("load-count").with("action", "load"));
    assert_eq!(shop.count("AVAILABLE"), 11);
}

#[test]
fn a_number_that_is_none_loads_nothing_and_is_told_beside_its_field() {
    let (shop, admin) = empty_gala();
    for wrong in ["0", "-5", "many", "", "9999999999"] {
        let page = admin.send(&count_form(&admin, wrong).with("action", "load"));
        assert_eq!((page.status(), page.html().contains("id=\"load-quantity-error\"")), (422, true), "{wrong}: {}", page.text());
        assert_eq!(page.form_with_id("load-count").value("quantity"), Some(wrong));
    }
    assert_eq!(shop.count("AVAILABLE"), 0);
}

#[test]
fn a_file_is_checked_first_and_then_loaded_without_choosing_it_again() {
    let (shop, admin) = empty_gala();
    let checked = upload(&admin, "check", b"ticket_type;section;row;seat\nstandard;Stalls;A;1\nstandard;Stalls;A;2\n");
    assert!(checked.status() == 200 && checked.says("2 tickets would be loaded"), "{}", checked.text());
    assert_eq!(shop.count("AVAILABLE"), 0);
    let loaded = admin.follow(&admin.send(&checked.form("Load 2 tickets")));
    assert!(loaded.says("2 tickets were loaded"), "{}", loaded.text());
    assert_eq!(shop.count("AVAILABLE"), 2);
}

#[test]
fn the_same_file_twice_loads_its_seats_once() {
    let (shop, admin) = empty_gala();
    let file = b"ticket_type,row,seat\nstandard,A,1\nstandard,A,2\n";
    upload(&admin, "load", file);
    let again = admin.follow(&upload(&admin, "load", file));
    assert!(again.says("Nothing new: all of these tickets are there already"), "{}", again.text());
    assert_eq!(shop.count("AVAILABLE"), 2);
}

#[test]
fn a_file_with_a_wrong_row_shows_its_number_and_loads_nothing() {
    let (shop, admin) = empty_gala();
    let page = upload(&admin, "load", b"ticket_type,row,seat\nstandard,A,1\nbalcony,A,2\nstandard,A,1\n");
    assert_eq!((page.status(), shop.count("AVAILABLE")), (422, 0));
    assert!(page.says("2 things are wrong with these rows Nothing was loaded."), "{}", page.text());
    assert!(page.html().contains("<td class=\"number\">3</td>") && page.html().contains("<td class=\"number\">4</td>"), "{}", page.text());
}

#[test]
fn a_file_as_a_german_spreadsheet_saves_it_loads() {
    let (shop, admin) = empty_gala();
    let loaded = upload(&admin, "load", "\u{feff}Ticket_Type ; Section;Row;Seat\r\nstandard;Parkett rechts;Ä;1\r\n".as_bytes());
    assert_eq!((loaded.status(), shop.count("AVAILABLE")), (303, 1), "{}", loaded.text());
    assert!(admin.follow(&admin.buy(1)).says("Section Parkett rechts Row Ä"));
}

#[test]
fn a_file_that_is_not_utf_8_is_refused_with_its_row() {
    let (shop, admin) = empty_gala();
    let page = upload(&admin, "load", b"ticket_type,section\nstandard,Parkett\nstandard,Ch\xf6r\n");
    assert_eq!((page.status(), shop.count("AVAILABLE")), (422, 0));
    assert!(page.says("UTF-8") && page.html().contains("<td class=\"number\">3</td>"), "{}", page.text());
}

#[test]
fn rows_that_are_typed_load_as_a_file_does_and_no_rows_are_told() {
    let (shop, admin) = empty_gala();
    let form = admin.get("/admin/events/gala").form_with_id("load-file").with("action", "load");
    let page = admin.upload(&form, b"");
    assert!(page.status() == 422 && page.says("The rows is missing.") | page.says("must be chosen as a file, or typed"), "{}", page.text());
    assert_eq!(admin.upload(&form.with("rows", "ticket_type,quantity\nstandard,4\n"), b"").status(), 303);
    assert_eq!(shop.count("AVAILABLE"), 4);
}

#[test]
fn a_file_that_is_too_large_is_refused() {
    let shop = Shop::open_with(|config| config.file_bytes_max = 10_000);
    shop.gala(&[("standard", 4_500, 0)]);
    let admin = Visitor::admin(&shop);
    let page = upload(&admin, "load", &b"ticket_type,quantity\n".repeat(5_000));
    assert_eq!((page.status(), page.says("That is too large"), shop.count("AVAILABLE")), (413, true, 0), "{page:?}");
}
