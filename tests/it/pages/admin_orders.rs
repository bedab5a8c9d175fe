//! The page of one order for admins: what happened to it and by whom, and the form that gives its tickets back.

use boxoffice::accounts::Scope;
use serde_json::json;

use super::{
    markup::Form,
    visitor::{EMAIL, Page, Visitor},
};
use crate::support::{Shop, order};

const SOME: &str = "Cancel those that are ticked";
const ALL: &str = "Cancel the whole order";

/// A gala, an admin, and the address of the page of an order of so many tickets that was bought on the event's page.
fn sold(quantity: i64) -> (Shop, Visitor, String) {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let address = page_of(Visitor::of(&shop).buy(quantity).header("location"));
    let admin = Visitor::admin(&shop);
    (shop, admin, address)
}

/// The admin's page of the order that a buyer's link is for.
fn page_of(link: &str) -> String {
    format!("/admin{}", link.split('?').next().unwrap())
}

fn ticked(page: &Page, position: i32) -> Form {
    page.form(SOME).with(&format!("ticket-{position}"), "true")
}

/// What the history's rows say, without when.
fn history(page: &Page) -> Vec<String> {
    let rows = page.between("<h2>History</h2>", "</table>").split("<tr>").skip(2);
    let words = |row: &str| row.split("data-label=\"").skip(2).map(cell).collect::<Vec<_>>().join(", ");
    rows.map(words).collect()
}

/// The words of a cell.
fn cell(html: &str) -> String {
    html.split_once('>').unwrap().1.split('<').next().unwrap().to_owned()
}

#[test]
fn the_list_leads_to_the_order_with_its_buyer_tickets_and_history() {
    let (_shop, admin, address) = sold(2);
    assert!(admin.get("/admin/events/gala").html().contains(&format!("href=\"{address}\"")));
    let page = admin.get(&address);
    assert!(page.says("2 tickets for Ada sold") && page.says("ada@example.org") && page.says("Through the page"), "{}", page.text());
    assert!(page.says("2 × standard at €45.00 €90.00 Total €90.00") && page.says("No. 1 · standard · 1-"), "{}", page.text());
    assert_eq!(history(&page), ["Bought, the buyer, 2 tickets"]);
}

#[test]
fn an_admin_cancels_one_of_two_tickets_and_the_history_says_who() {
    let (shop, admin, address) = sold(2);
    let after = admin.follow(&admin.send(&ticked(&admin.get(&address), 2)));
    assert!(after.says("Given back The tickets are back in the stock."), "{}", after.text());
    assert!(after.says("1 ticket for Ada sold") && after.says("Total €45.00"), "{}", after.text());
    assert_eq!((shop.count("SOLD"), shop.count("AVAILABLE")), (1, 4));
    assert_eq!(history(&after), ["Bought, the buyer, 2 tickets", &format!("Some cancelled, admin {EMAIL}, 1 ticket: no. 2")]);
    let whole = admin.follow(&admin.send(&after.form("Cancel the ticket")));
    assert!(whole.says("cancelled") && whole.says("They are no longer this order's.") && !whole.has_button(ALL), "{}", whole.text());
    assert_eq!(history(&whole)[2], format!("Cancelled, admin {EMAIL}, 1 ticket: no. 1"));
}

#[test]
fn a_whole_order_is_cancelled_by_one_press_and_a_second_changes_nothing() {
    let (shop, admin, address) = sold(3);
    let form = admin.get(&address).form(ALL);
    for _ in 0..2 {
        assert_eq!((admin.send(&form).status(), shop.count("AVAILABLE")), (303, 5));
    }
    assert_eq!(history(&admin.get(&address)).len(), 2);
}

#[test]
fn the_history_tells_a_hold_its_deadline_and_a_partner() {
    let shop = Shop::open();
    shop.event("gala", json!({"checkout": "hold"}), &[("standard", 4_500, 5)]);
    let (buyer, admin) = (Visitor::of(&shop), Visitor::admin(&shop));
    let held = buyer.send(&buyer.reserving("gala", 2));
    let page = admin.get(&page_of(held.header("location")));
    assert!(page.says("2 tickets for Ada held") && page.says("Held until"), "{}", page.text());
    let released = admin.follow(&admin.send(&page.form("Release the whole order")));
    assert_eq!(history(&released), ["Held, the buyer, 2 tickets", &format!("Released, admin {EMAIL}, 2 tickets: no. 1–2")]);
    let partner = shop.partner("acme", &[Scope::Read, Scope::Sell]);
    let made = partner.post("/api/v1/events/gala/holds", &order(1)).json();
    let id = made["id"].as_str().unwrap();
    assert_eq!(partner.post(&format!("/api/v1/events/gala/orders/{id}/confirm"), &json!({})).status, 200);
    let page = admin.get(&format!("/admin/events/gala/orders/{id}"));
    assert!(page.says("Through the API"), "{}", page.text());
    assert_eq!(history(&page), ["Held, partner acme, 1 ticket", "Confirmed, partner acme, 1 ticket: no. 1"]);
}

#[test]
fn a_hold_that_is_over_has_no_tickets_and_nothing_to_cancel() {
    let shop = Shop::open();
    shop.event("gala", json!({"checkout": "hold"}), &[("standard", 4_500, 5)]);
    let (buyer, admin) = (Visitor::of(&shop), Visitor::admin(&shop));
    let address = page_of(buyer.send(&buyer.reserving("gala", 2)).header("location"));
    shop.clock.set(shop.clock.now() + chrono::TimeDelta::minutes(10));
    let page = admin.get(&address);
    assert!(page.says("expired") && page.says("Ran out") && page.says("They are no longer this order's."), "{}", page.text());
    assert!(!page.has_button("Release the whole order"), "{}", page.text());
}

#[test]
fn an_admin_may_cancel_when_buyers_may_not_but_not_after_the_event_began() {
    let (shop, admin, address) = sold(2);
    let form = admin.get(&address).form(ALL);
    let now = shop.clock.now();
    assert_eq!(shop.client.patch("/api/v1/events/gala", &json!({"starts_at": now.to_rfc3339()})).status, 200);
    assert!(!admin.get(&address).has_button(ALL), "{}", admin.get(&address).text());
    let refused = admin.send(&form);
    assert!(refused.status() == 409 && refused.says("The event has begun"), "{}", refused.text());
    assert_eq!(shop.count("SOLD"), 2);
}

#[test]
fn with_nothing_ticked_or_a_ticket_of_another_order_nothing_is_cancelled() {
    let (shop, admin, address) = sold(2);
    let page = admin.get(&address);
    let none = admin.send(&page.form(SOME));
    assert!(none.status() == 422 && none.says("Tick the tickets that are to be given back."), "{}", none.text());
    assert_eq!(shop.buy(1).status, 201);
    let wrong = admin.send(&ticked(&page, 3));
    assert!(wrong.status() == 422 && wrong.says("One of these tickets is not part of this order."), "{}", wrong.text());
    assert_eq!(shop.count("SOLD"), 3);
}

#[test]
fn a_ticket_that_was_used_at_the_door_is_marked_and_stays() {
    let (shop, admin, address) = sold(2);
    let page = admin.get(&address);
    let code = page.between("· <span class=\"id\">", "<").to_owned();
    assert_eq!(shop.client.post(&format!("/api/v1/events/gala/tickets/{code}/use"), &json!({})).status, 200);
    let now = admin.get(&address);
    assert!(now.says("used ") && !now.has_button(ALL) && now.has_button("Cancel the ticket"), "{}", now.text());
    assert_eq!(history(&now)[1], "Used at the door, partner tester, 1 ticket: no. 1");
    let refused = admin.send(&page.form(ALL));
    assert!(refused.status() == 409 && refused.says("A ticket that was used at the door stays."), "{}", refused.text());
}

#[test]
fn no_link_cancels_anything() {
    let (shop, admin, address) = sold(2);
    let page = admin.get(&format!("{address}/cancel?all=true"));
    assert_eq!((page.status(), page.header("location"), shop.count("SOLD")), (303, address.as_str(), 2));
}

#[test]
fn an_order_that_does_not_exist_has_no_page() {
    let (_shop, admin, address) = sold(1);
    let other = if address.ends_with('0') { "1" } else { "0" };
    for path in
        [format!("{}{other}", &address[..address.len() - 1]), "/admin/events/gala/orders/x".to_owned(), address.replace("gala", "ball")]
    {
        assert_eq!(admin.get(&path).status(), 404, "{path}");
    }
}
