//! What holds for every page: names are only text, headers keep others out, errors say nothing of the inside.

use serde_json::json;

use super::{
    jobs::give_up,
    markup::unlabelled,
    visitor::{Page, Visitor},
};
use crate::support::Shop;

const SCRIPT: &str = "<script>alert('1')</script>";
const PICTURE: &str = "\"><img src=x onerror=\"alert(1)\">&amp;";

/// Lets the gala's buyers hold first, or buy at once, and give back what they bought until its end.
fn set_checkout(shop: &Shop, checkout: &str) {
    let change = json!({"checkout": checkout, "buyers_cancel_until": "9000-01-01T00:00"});
    assert_eq!(shop.client.patch("/api/v1/events/gala", &change).status, 200);
}

/// The pages that come with holding tickets; at the end none are held, and the gala sells at once.
fn of_holds(shop: &Shop, buyer: &Visitor) -> Vec<(&'static str, Page)> {
    set_checkout(shop, "hold");
    let held = buyer.send(&buyer.reserving("gala", 1));
    let page = buyer.follow(&held);
    let holder = Visitor::of(shop).with_cookie_of(&held);
    let (confirm, release) = (page.form_by_end("/confirm"), page.form("Give it back"));
    let pages = vec![
        (HOLD, page),
        ("an event of which one holds tickets", holder.get("/events/gala")),
        ("not the hold's key", buyer.send(&confirm.clone().with("key", SCRIPT))),
        ("given back", buyer.follow(&buyer.send(&release))),
        ("bought after it was given back", buyer.send(&confirm)),
    ];
    set_checkout(shop, "at_once");
    pages
}

/// The page that counts down.
const HOLD: &str = "a hold";

/// Every page about a gala of which somebody has bought a ticket; errors too.
fn every_page(shop: &Shop) -> Vec<(String, Page)> {
    let buyer = Visitor::of(shop);
    let mut pages = vec![("the one-time link".to_owned(), buyer.get(&format!("/admin/setup?token={}", shop.setup_token)))];
    let admin = Visitor::admin(shop);
    set_checkout(shop, "at_once");
    let order = buyer.buy(1).header("location").to_owned();
    for path in ["/", "/events/gala", "/events/none", "/nothing", &order, order.split('?').next().unwrap(), "/admin/login", "/admin/setup"]
    {
        pages.push((path.to_owned(), buyer.get(path)));
    }
    for path in ["/admin", "/admin/events/new", "/admin/events/gala", "/admin/events/gala/edit", "/admin/events/none", "/admin/jobs"] {
        pages.push((path.to_owned(), admin.get(path)));
    }
    let mut sent = |what: &str, page: Page| pages.push((what.to_owned(), page));
    sent("a bought ticket given back", buyer.follow(&buyer.send(&buyer.get(&order).form("Give it back"))));
    for (what, page) in of_holds(shop, &buyer) {
        sent(what, page);
    }
    sent("edit a ticket type", admin.get("/admin/events/gala/ticket-types/standard"));
    let edit = admin.get("/admin/events/gala/ticket-types/standard").form("Save");
    sent("not a ticket type", admin.send(&edit.with("name", SCRIPT).with("price", PICTURE)));
    let of_admin = format!("/admin{}", order.split('?').next().unwrap());
    sent("an order for admins", admin.get(&of_admin));
    sent("no such order for admins", admin.get("/admin/events/gala/orders/x"));
    let form = buyer.filled_in("gala", 1);
    sent("too few", buyer.send(&form.clone().with("quantity-standard", "90")));
    sent("not a form", buyer.send(&form.clone().with("email", "ada")));
    sent("too many", buyer.send(&form.with("quantity-standard", "101")));
    sent("no such method", Page(buyer.client.send("DELETE", "/events/gala", &[], b"x")));
    sent("not a form either", Page(buyer.client.send("POST", "/events/gala/orders", &[("content-type", "text/plain")], b"x")));
    sent("too large", Page(buyer.client.submit("/events/gala/orders", &[("name", &"x".repeat(70_000))], None)));
    sent("wrong login", buyer.send(&buyer.get("/admin/login").form("Log in").with("email", SCRIPT)));
    sent("no token", admin.send(&admin.get("/admin/events/new").form("Make the event").with("csrf_token", "")));
    sent("not an event", admin.send(&admin.get("/admin/events/new").form("Make the event").with("name", SCRIPT).with("slug", SCRIPT)));
    pages
}

/// A gala whose every name means mischief, and a buyer of that name too.
fn mischief() -> Shop {
    let shop = Shop::open();
    shop.event("gala", json!({"name": SCRIPT, "venue": PICTURE}), &[]);
    let standard = json!({"code": "standard", "name": PICTURE, "price_minor": 4_500});
    assert_eq!(shop.client.post("/api/v1/events/gala/ticket-types", &standard).status, 201);
    assert_eq!(shop.client.post_csv("/api/v1/events/gala/inventory", seats().as_bytes()).status, 201);
    give_up(&shop, &format!("webhook:{SCRIPT}"), PICTURE);
    shop
}

fn seats() -> String {
    let cell = PICTURE.replace('"', "\"\"");
    (0..9).fold("ticket_type,section,row,seat\n".to_owned(), |csv, seat| format!("{csv}standard,\"{cell}\",{SCRIPT},{seat}\n"))
}

#[test]
fn names_that_mean_mischief_are_only_text() {
    let shop = mischief();
    let buyer = Visitor::of(&shop);
    let bought = buyer.send(&buyer.filled_in("gala", 1).with("name", SCRIPT));
    let mut pages = every_page(&shop);
    pages.push(("the order".to_owned(), buyer.follow(&bought)));
    pages.push(("a name that came back".to_owned(), buyer.send(&buyer.filled_in("gala", 0).with("name", PICTURE))));
    for (what, page) in &pages {
        let html = without_our_script(what, page);
        for tag in ["<script", "<img", "onerror=\""] {
            assert!(!html.contains(tag), "{what}: {tag}: {html}");
        }
    }
    let shown = |what: &str, text: &str| {
        let page = &pages.iter().find(|(name, _)| name == what).unwrap().1;
        assert!(page.text().contains(text), "{what} does not show {text}: {}", page.text());
    };
    for (what, text) in [("/", SCRIPT), ("/events/gala", PICTURE), ("the order", SCRIPT), ("the order", PICTURE), (HOLD, PICTURE)] {
        shown(what, text);
    }
    for (what, text) in [
        ("/admin", SCRIPT),
        ("/admin/events/gala", SCRIPT),
        ("/admin/events/gala", PICTURE),
        ("an order for admins", SCRIPT),
        ("edit a ticket type", SCRIPT),
    ] {
        shown(what, text);
    }
    shown("/admin/jobs", SCRIPT);
    shown("/admin/jobs", PICTURE);
}

#[test]
fn every_page_carries_the_headers_that_keep_others_out() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 9)]);
    for (what, page) in every_page(&shop) {
        assert_eq!(page.header("content-type"), "text/html; charset=utf-8", "{what}");
        let policy = page.header("content-security-policy");
        for part in ["default-src 'none'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
            assert!(policy.contains(part), "{what}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{what}: {policy}");
        assert_eq!((page.header("x-content-type-options"), page.header("referrer-policy")), ("nosniff", "no-referrer"), "{what}");
        assert!(page.header("cache-control").contains("no-"), "{what}: {page:?}");
    }
}

#[test]
fn no_page_carries_a_script_but_the_one_that_counts_down_and_none_in_its_text() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 9)]);
    for (what, page) in every_page(&shop) {
        let html = without_our_script(&what, &page);
        for blocked in ["<script", "<style", " style=", " onclick=", " onload=", " onsubmit=", "javascript:"] {
            assert!(!html.contains(blocked), "{what}: {blocked}: {html}");
        }
    }
}

/// The page's HTML; the page of a hold has one script, which is a file of ours.
fn without_our_script(what: &str, page: &Page) -> String {
    const BEGINS: &str = "<script type=\"module\" src=\"/static/hold.js?v=";
    match page.html().split_once(BEGINS) {
        None => page.html().to_owned(),
        Some((before, rest)) => {
            assert!(what == HOLD, "{what} has a script");
            format!("{before}{}", rest.split_once("></script>").unwrap().1)
        }
    }
}

#[test]
fn every_field_has_a_label() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 50), ("vip", 9_000, 50)]);
    for (what, page) in every_page(&shop) {
        assert_eq!(unlabelled(page.html()), [""; 0], "{what}");
    }
}

#[test]
fn the_page_of_an_order_is_neither_stored_nor_found_nor_told_to_others() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 9)]);
    let buyer = Visitor::of(&shop);
    let bought = buyer.buy(1);
    let order = buyer.follow(&bought);
    let hold = of_holds(&shop, &buyer).swap_remove(0).1;
    for page in [&bought, &order, &hold] {
        assert_eq!((page.header("cache-control"), page.header("referrer-policy")), ("no-store", "no-referrer"), "{page:?}");
    }
    assert!(order.html().contains("<meta name=\"robots\" content=\"noindex\">"), "{}", order.html());
}

#[test]
fn admin_pages_are_not_stored() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 9)]);
    let admin = Visitor::admin(&shop);
    let order = format!("/admin{}", Visitor::of(&shop).buy(1).header("location").split('?').next().unwrap());
    let edit_type = "/admin/events/gala/ticket-types/standard";
    for path in
        ["/admin", "/admin/events/new", "/admin/events/gala", "/admin/events/gala/edit", edit_type, "/admin/jobs", &order, "/admin/login"]
    {
        assert_eq!(admin.get(path).header("cache-control"), "no-store", "{path}");
    }
}

#[test]
fn a_request_for_the_head_has_the_status_and_no_body() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 9)]);
    let buyer = Visitor::of(&shop);
    let order = buyer.buy(1).header("location").to_owned();
    for (path, status) in [("/", 200), ("/events/gala", 200), (&*order, 200), ("/events/none", 404), ("/admin", 303), ("/admin/login", 200)]
    {
        let reply = buyer.client.send("HEAD", path, &[], b"");
        assert_eq!((reply.status, reply.body.as_str()), (status, ""), "{path}");
    }
}

#[test]
fn a_fault_of_ours_has_a_page_with_a_number_and_says_nothing_of_the_inside() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 9)]);
    let buyer = Visitor::of(&shop);
    let form = buyer.filled_in("gala", 1);
    shop.sql("ALTER TABLE tickets RENAME TO elsewhere");
    for page in [buyer.get("/events/gala"), buyer.send(&form)] {
        assert_eq!((page.status(), page.says("Something went wrong")), (500, true), "{page:?}");
        assert!(page.says(page.header("x-request-id")) && !page.header("x-request-id").is_empty(), "{}", page.text());
        assert!(!page.html().contains("relation") && !page.html().contains("tickets\""), "{}", page.html());
    }
    shop.sql("ALTER TABLE elsewhere RENAME TO tickets");
}

#[test]
fn the_style_sheet_and_the_script_are_there_and_kept_for_good_under_their_own_addresses() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 9)]);
    let visitor = Visitor::of(&shop);
    let hold = of_holds(&shop, &visitor).swap_remove(0).1;
    for (mark, content_type) in
        [("<link rel=\"stylesheet\" href=\"", "text/css; charset=utf-8"), ("type=\"module\" src=\"", "text/javascript; charset=utf-8")]
    {
        let link = hold.between(mark, "\"").to_owned();
        let file = visitor.get(&link);
        assert_eq!((file.status(), file.header("content-type")), (200, content_type));
        assert!(file.header("cache-control").contains("immutable"), "{link}");
    }
    assert_eq!(visitor.get("/static/boxoffice.css?v=other").header("cache-control"), "no-cache");
    assert_eq!(visitor.get("/static/..%2f..%2fetc%2fpasswd").status(), 404);
}
