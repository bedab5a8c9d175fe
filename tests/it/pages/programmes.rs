//! Making an event, changing it, and seeing how it sells.

use serde_json::json;

use super::visitor::Visitor;
use crate::support::Shop;

#[test]
fn an_event_is_made_with_its_first_tickets_and_is_on_sale_when_they_are_loaded() {
    let shop = Shop::open();
    let admin = Visitor::admin(&shop);
    let form = admin.get("/admin/events/new").form("Make the event");
    let form = form.with("name", "Summer Gala 2027").with("time_zone", "Europe/Berlin").with("starts_at", "2027-07-03T20:00");
    let made = admin.send(&form.with("venue", "Opera").with("type_name", "Standard seat").with("type_price", "45"));
    assert_eq!(made.header("location"), "/admin/events/summer-gala-2027?done=created", "{made:?}");
    let event = admin.follow(&made);
    assert!(event.says("Sat 3 July 2027, 20:00 (Europe/Berlin)") && event.says("Standard seat standard-seat €45.00"), "{}", event.text());
    assert!(admin.get("/").says("Not on sale yet"));
    admin.send(&event.form("Load").with("quantity", "3"));
    assert!(admin.get("/").says("On sale €45.00"), "{}", admin.get("/").text());
}

#[test]
fn what_is_wrong_with_a_new_event_is_told_and_the_rest_is_kept() {
    let shop = Shop::open();
    let admin = Visitor::admin(&shop);
    let form = admin.get("/admin/events/new").form("Make the event").with("name", "Gala").with("time_zone", "Mars/Base");
    let page = admin.send(&form.with("type_name", "Standard").with("type_price", "4,5"));
    assert_eq!((page.status(), admin.get("/admin").says("Gala")), (422, false), "{page:?}");
    assert!(page.html().contains("id=\"time_zone-error\">Time zone must be an IANA time zone"), "{}", page.text());
    assert!(page.html().contains("id=\"type_price-error\">Price must be an amount like 45.00."), "{}", page.text());
    let form = page.form("Make the event").with("time_zone", "UTC").with("type_price", "4.50");
    assert_eq!((form.value("name"), form.value("show_counts"), admin.send(&form).status()), (Some("Gala"), Some("true"), 303));
}

#[test]
fn an_address_that_is_taken_is_told() {
    let shop = Shop::open();
    shop.gala(&[]);
    let admin = Visitor::admin(&shop);
    let page = admin.send(&admin.get("/admin/events/new").form("Make the event").with("name", "Gala").with("time_zone", "UTC"));
    assert!(page.status() == 422 && page.html().contains("id=\"slug-error\""), "{}", page.text());
}

#[test]
fn an_event_is_changed_and_what_was_not_touched_stays() {
    let shop = Shop::open();
    shop.event("gala", json!({"venue": "Opera", "max_per_order": 7, "show_counts": false}), &[("standard", 4_500, 5)]);
    let admin = Visitor::admin(&shop);
    let saved = admin.send(&admin.get("/admin/events/gala/edit").form("Save").with("state", "paused"));
    let event = admin.follow(&saved);
    assert!(event.says("Saved.") && event.says("Paused") && event.says("Opera") && event.says("at most 7 tickets"), "{}", event.text());
    assert!(event.says("whether any are left"), "{}", event.text());
    assert!(admin.get("/events/gala").says("The sale is paused"));
}

#[test]
fn how_an_event_sells_is_set_shown_and_found_again_in_the_form() {
    let shop = Shop::open();
    let admin = Visitor::admin(&shop);
    let form = admin.get("/admin/events/new").form("Make the event").with("name", "Gala").with("time_zone", "Europe/Berlin");
    assert_eq!(
        (form.value("checkout"), form.value("max_per_buyer"), form.value("buyers_cancel_until")),
        (Some("at_once"), Some(""), Some(""))
    );
    let form = form.with("checkout", "hold").with("max_per_buyer", "4").with("buyers_cancel_until", "2027-03-10T20:00");
    let event = admin.follow(&admin.send(&form));
    for fact in ["One buyer at most 4 tickets", "Checkout hold, then confirm", "until Wed 10 March 2027, 20:00 (Europe/Berlin)"] {
        assert!(event.says(fact), "{fact}: {}", event.text());
    }
    let edit = admin.get("/admin/events/gala/edit").form("Save");
    let shown = (edit.value("checkout"), edit.value("max_per_buyer"), edit.value("buyers_cancel_until"));
    assert_eq!(shown, (Some("hold"), Some("4"), Some("2027-03-10T20:00")));
    let emptied = edit.with("checkout", "at_once").with("max_per_buyer", "").with("buyers_cancel_until", "");
    let event = admin.follow(&admin.send(&emptied));
    for fact in ["One buyer any number", "Checkout sell at once", "Buyers may cancel never"] {
        assert!(event.says(fact), "{fact}: {}", event.text());
    }
}

#[test]
fn what_is_wrong_with_how_an_event_sells_is_told_beside_its_field() {
    let shop = Shop::open();
    shop.event("gala", json!({"time_zone": "Europe/Berlin", "max_per_buyer": 4}), &[]);
    let admin = Visitor::admin(&shop);
    for (field, wrong, words) in [
        ("max_per_buyer", "many", "Tickets of one buyer must be a whole number, 1 or more."),
        ("max_per_buyer", "0", "Tickets of one buyer must be a whole number, 1 or more."),
        ("checkout", "later", "Checkout must be"),
        ("buyers_cancel_until", "2027-03-28T02:30", "Buyers may cancel until is not a time that exists there: a clock change skips it."),
    ] {
        let page = admin.send(&admin.get("/admin/events/gala/edit").form("Save").with(field, wrong));
        assert!(page.status() == 422 && page.says("Not saved yet") && page.says(words), "{wrong}: {}", page.text());
        assert!(page.says("Tickets of one buyer"), "{}", page.text());
    }
    assert!(admin.get("/admin/events/gala").says("One buyer at most 4 tickets"));
}

#[test]
fn a_ticket_type_is_changed_and_orders_that_were_made_keep_their_price() {
    let shop = Shop::open();
    shop.event("gala", json!({"time_zone": "Europe/Berlin"}), &[("standard", 4_500, 5)]);
    let buyer = Visitor::of(&shop);
    let bought = buyer.buy(1);
    let admin = Visitor::admin(&shop);
    assert!(admin.get("/admin/events/gala").html().contains("href=\"/admin/events/gala/ticket-types/standard\""));
    let form = admin.get("/admin/events/gala/ticket-types/standard").form("Save");
    assert_eq!((form.value("name"), form.value("price"), form.value("sales_open_at")), (Some("standard"), Some("45.00"), Some("")));
    let form = form.with("name", "Stalls").with("price", "50").with("sales_open_at", "2027-03-01T10:00");
    let event = admin.follow(&admin.send(&form));
    assert!(event.says("The ticket type is saved.") && event.says("Stalls standard €50.00"), "{}", event.text());
    assert!(event.says("Sells from Mon 1 March 2027, 10:00 (Europe/Berlin)"), "{}", event.text());
    let again = admin.get("/admin/events/gala/ticket-types/standard").form("Save");
    assert_eq!((again.value("price"), again.value("sales_open_at")), (Some("50.00"), Some("2027-03-01T10:00")));
    assert!(buyer.follow(&bought).says("Total €45.00"), "{}", buyer.follow(&bought).text());
}

#[test]
fn what_is_wrong_with_a_ticket_type_is_told_beside_its_field_and_nothing_is_changed() {
    let shop = Shop::open();
    shop.event("gala", json!({"time_zone": "Europe/Berlin"}), &[("standard", 4_500, 5)]);
    let admin = Visitor::admin(&shop);
    let form = admin.get("/admin/events/gala/ticket-types/standard").form("Save").with("sales_open_at", "2027-03-01T10:00");
    for (field, wrong, id, words) in [
        ("name", "", "type-name", "Name is missing."),
        ("price", "4,5", "type-price", "Price in EUR must be an amount like 45.00."),
        ("sales_close_at", "2027-02-01T10:00", "type-closes", "Its sale closes must be after the moment when the sale opens."),
        ("sales_close_at", "2027-03-28T02:30", "type-closes", "Its sale closes is not a time that exists there"),
    ] {
        let page = admin.send(&form.clone().with(field, wrong));
        assert_eq!((page.status(), page.form("Save").value(field)), (422, Some(wrong)), "{page:?}");
        assert!(page.between(&format!("id=\"{id}-error\">"), "</span>").starts_with(words), "{}", page.text());
    }
    assert!(admin.get("/admin/events/gala").says("standard standard €45.00"));
}

#[test]
fn a_new_ticket_type_may_have_times_of_its_own() {
    let shop = Shop::open();
    shop.event("gala", json!({"time_zone": "Europe/Berlin"}), &[("standard", 4_500, 5)]);
    let admin = Visitor::admin(&shop);
    let form = admin.get("/admin/events/gala").form("Add it").with("name", "Early bird").with("price", "25");
    let wrong = admin.send(&form.clone().with("sales_open_at", "2027-03-01T10:00").with("sales_close_at", "2027-02-01T10:00"));
    assert!(wrong.status() == 422 && wrong.says("must be after the moment when the sale opens."), "{}", wrong.text());
    let event = admin.follow(&admin.send(&form.with("sales_close_at", "2027-02-01T00:00")));
    assert!(event.says("Sells until Mon 1 February 2027, 00:00 (Europe/Berlin)"), "{}", event.text());
}

#[test]
fn a_ticket_type_is_added_to_an_event() {
    let shop = Shop::open();
    shop.event("gala", json!({"currency": "JPY"}), &[]);
    let admin = Visitor::admin(&shop);
    let added = admin.send(&admin.get("/admin/events/gala").form("Add it").with("name", "VIP lounge").with("price", "10000"));
    let event = admin.follow(&added);
    assert!(event.says("VIP lounge vip-lounge ¥10,000"), "{}", event.text());
    let again = admin.send(&event.form("Add it").with("name", "VIP lounge").with("price", "45.50"));
    assert_eq!(again.status(), 422);
    assert!(again.says("must be an amount without decimals, like 4500."), "{}", again.text());
}

#[test]
fn the_page_of_an_event_shows_what_is_sold_and_to_whom() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let link = Visitor::of(&shop).buy(2).header("location").to_owned();
    assert_eq!(shop.buy(1).status, 201);
    let admin = Visitor::admin(&shop);
    let event = admin.get("/admin/events/gala");
    assert!(event.says("Tickets sold 3 of 5 Orders 2 Takings €135.00"), "{}", event.text());
    assert!(event.says("3 sold 2 available 5 in all") && event.says("ada@example.org"), "{}", event.text());
    let id = link.split(['/', '?']).nth(4).unwrap();
    assert!(event.html().contains(&format!("href=\"/admin/events/gala/orders/{id}\"")), "{event:?}");
    assert!(admin.get("/admin").says("3 of 5 sold €135.00"), "{}", admin.get("/admin").text());
}

#[test]
fn older_orders_are_on_further_pages() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 30)]);
    for _ in 0..21 {
        assert_eq!(shop.buy(1).status, 201);
    }
    let admin = Visitor::admin(&shop);
    let orders = |html: &str| html.matches("data-label=\"Buyer\"").count();
    let newest = admin.get("/admin/events/gala");
    let older = newest.between("href=\"/admin/events/gala?before=", "#orders").to_owned();
    let oldest = admin.get(&format!("/admin/events/gala?before={older}"));
    assert_eq!((orders(newest.html()), orders(oldest.html()), oldest.says("Older orders")), (20, 1, false));
}

#[test]
fn an_event_that_does_not_exist_has_no_admin_page() {
    let shop = Shop::open();
    let admin = Visitor::admin(&shop);
    for path in ["/admin/events/none", "/admin/events/none/edit", "/admin/events/none/ticket-types/standard"] {
        assert_eq!(admin.get(path).status(), 404, "{path}");
    }
}
