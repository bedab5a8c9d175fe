//! Letting admins in, and keeping everybody else out.

use boxoffice::accounts::Scope;
use chrono::TimeDelta;
use serde_json::json;

use super::{
    markup::Form,
    visitor::{EMAIL, PASSWORD, Page, Visitor},
};
use crate::support::{Shop, at_once};

/// The form behind the one-time link, filled in.
fn setup_form(shop: &Shop, email: &str) -> Form {
    let page = Visitor::of(shop).get(&format!("/admin/setup?token={}", shop.setup_token));
    page.form("Begin").with("email", email).with("password", PASSWORD)
}

/// What comes of logging in.
fn log_in(shop: &Shop, email: &str, password: &str) -> Page {
    let visitor = Visitor::of(shop);
    visitor.send(&visitor.get("/admin/login").form("Log in").with("email", email).with("password", password))
}

#[test]
fn the_one_time_link_makes_the_first_admin_and_lets_them_in() {
    let shop = Shop::open();
    let visitor = Visitor::of(&shop);
    let made = visitor.send(&setup_form(&shop, EMAIL));
    let cookie = made.header("set-cookie").to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax") && cookie.contains("Path=/admin"), "{cookie}");
    let admin = visitor.with_cookie_of(&made);
    let home = admin.follow(&made);
    assert!(home.status() == 200 && home.says(EMAIL) && home.says("No events yet"), "{}", home.text());
    assert_eq!(log_in(&shop, EMAIL, PASSWORD).status(), 303);
}

#[test]
fn the_link_works_once() {
    let shop = Shop::open();
    let visitor = Visitor::of(&shop);
    let form = setup_form(&shop, EMAIL);
    assert_eq!(visitor.send(&form).status(), 303);
    for page in [visitor.get(&format!("/admin/setup?token={}", shop.setup_token)), visitor.send(&form.with("email", "eve@example.org"))] {
        assert_eq!((page.status(), page.says("This link has been used"), page.header("set-cookie")), (403, true, ""), "{page:?}");
    }
    assert_eq!(log_in(&shop, "eve@example.org", PASSWORD).status(), 401);
}

#[test]
fn a_link_with_a_wrong_token_makes_nobody() {
    let shop = Shop::open();
    let visitor = Visitor::of(&shop);
    for wrong in ["", "x", &shop.setup_token[1..]] {
        let page = visitor.get(&format!("/admin/setup?token={wrong}"));
        assert_eq!((page.status(), page.says("This link does not work")), (403, true), "{wrong}");
        assert_eq!(visitor.send(&setup_form(&shop, EMAIL).with("token", wrong)).status(), 403, "{wrong}");
    }
    assert_eq!(log_in(&shop, EMAIL, PASSWORD).status(), 401);
}

#[test]
fn of_two_who_use_the_link_at_once_one_becomes_the_admin() {
    let shop = Shop::open();
    let emails = ["ada@example.org", "eve@example.org"];
    let forms = emails.map(|email| setup_form(&shop, email));
    let mut statuses = at_once(2, |number| Visitor::of(&shop).send(&forms[number]).status());
    statuses.sort_unstable();
    assert_eq!(statuses, [303, 403]);
    assert_eq!(emails.iter().filter(|email| log_in(&shop, email, PASSWORD).status() == 303).count(), 1);
}

#[test]
fn a_password_that_is_too_short_is_told_and_the_link_still_works() {
    let shop = Shop::open();
    let visitor = Visitor::of(&shop);
    let page = visitor.send(&setup_form(&shop, EMAIL).with("password", "short"));
    assert_eq!((page.status(), page.says("Password must have 12 characters or more")), (422, true), "{}", page.text());
    let form = page.form("Begin");
    assert_eq!((form.value("email"), form.value("password")), (Some(EMAIL), Some("")), "a password is not sent back");
    assert_eq!(visitor.send(&form.with("password", PASSWORD)).status(), 303);
}

#[test]
fn a_wrong_password_and_an_unknown_address_are_answered_alike() {
    let shop = Shop::open();
    Visitor::admin(&shop);
    let pages = [log_in(&shop, EMAIL, "not the password"), log_in(&shop, "eve@example.org", PASSWORD)];
    for page in &pages {
        assert_eq!((page.status(), page.header("set-cookie")), (401, ""), "{page:?}");
        assert!(page.says("The e-mail address or the password is wrong."), "{}", page.text());
    }
    assert_eq!(pages[0].html().replace(EMAIL, ""), pages[1].html().replace("eve@example.org", ""));
}

#[test]
fn an_address_is_known_in_capitals_too() {
    let shop = Shop::open();
    Visitor::admin(&shop);
    assert_eq!(log_in(&shop, &EMAIL.to_uppercase(), PASSWORD).status(), 303);
}

#[test]
fn who_is_not_logged_in_is_led_to_the_log_in_and_then_to_where_they_wanted() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    Visitor::admin(&shop);
    let visitor = Visitor::of(&shop);
    let turned_away = visitor.get("/admin/events/gala/edit");
    assert_eq!(turned_away.header("location"), "/admin/login?next=/admin/events/gala/edit");
    let form = visitor.follow(&turned_away).form("Log in").with("email", EMAIL).with("password", PASSWORD);
    let page = visitor.send(&form);
    assert_eq!((page.status(), page.header("location")), (303, "/admin/events/gala/edit"));
}

#[test]
fn nobody_is_led_away_after_the_log_in() {
    let shop = Shop::open();
    let admin = Visitor::admin(&shop);
    let visitor = Visitor::of(&shop);
    for next in ["//evil.example", "https://evil.example/admin/", "/\\evil.example", "/admin/\\evil", "/events/gala"] {
        let form = visitor.get(&format!("/admin/login?next={next}")).form("Log in");
        assert_eq!(form.value("next"), Some("/admin"), "{next}");
        assert_eq!(admin.get(&format!("/admin/login?next={next}")).header("location"), "/admin", "{next}");
    }
    let forged = visitor.get("/admin/login").form("Log in").with("next", "//evil.example");
    assert_eq!(visitor.send(&forged.with("email", EMAIL).with("password", PASSWORD)).header("location"), "/admin");
}

#[test]
fn who_logged_out_is_out_even_with_the_cookie() {
    let shop = Shop::open();
    let admin = Visitor::admin(&shop);
    let out = admin.send(&admin.get("/admin").form("Log out"));
    assert_eq!((out.status(), out.header("location")), (303, "/admin/login"));
    assert!(out.header("set-cookie").contains("Max-Age=0"), "{out:?}");
    assert_eq!(admin.get("/admin").header("location"), "/admin/login?next=/admin");
}

#[test]
fn a_link_logs_nobody_out() {
    let shop = Shop::open();
    let admin = Visitor::admin(&shop);
    let page = admin.get("/admin/logout");
    assert_eq!((page.header("location"), page.header("set-cookie"), admin.get("/admin").status()), ("/admin", "", 200));
}

#[test]
fn a_shop_with_https_sends_its_cookie_over_https_only() {
    let shop = Shop::open_with(|config| config.secure_cookies = true);
    let made = Visitor::of(&shop).send(&setup_form(&shop, EMAIL));
    assert!(made.header("set-cookie").contains("Secure"), "{made:?}");
}

#[test]
fn a_session_ends_by_itself() {
    let shop = Shop::open();
    let admin = Visitor::admin(&shop);
    let now = shop.clock.now();
    shop.clock.set(now + TimeDelta::hours(boxoffice::accounts::SESSION_HOURS) - TimeDelta::minutes(1));
    assert_eq!(admin.get("/admin").status(), 200);
    shop.clock.set(now + TimeDelta::hours(boxoffice::accounts::SESSION_HOURS));
    assert_eq!(admin.get("/admin").header("location"), "/admin/login?next=/admin");
}

/// Every form of the admin pages, filled in so that it would change something; somebody has an order of the gala.
fn every_form(admin: &Visitor) -> Vec<Form> {
    let event = admin.get("/admin/events/gala");
    let order = order_page(&event);
    vec![
        admin.get("/admin/events/new").form("Make the event").with("name", "Ball").with("time_zone", "UTC"),
        admin.get("/admin/events/gala/edit").form("Save").with("name", "Ball"),
        event.form("Add it").with("name", "Balcony").with("price", "10"),
        admin.get("/admin/events/gala/ticket-types/standard").form("Save").with("price", "99"),
        admin.get(&order).form("Cancel the ticket"),
        event.form("Load").with("quantity", "7"),
        event.form_with_id("load-file").with("action", "load").with("rows", "ticket_type,quantity\nstandard,7\n"),
    ]
}

/// The address of the first order's page.
fn order_page(event: &Page) -> String {
    format!("/admin/events/gala/orders/{}", event.between("href=\"/admin/events/gala/orders/", "\""))
}

#[test]
fn a_form_without_its_token_changes_nothing() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    assert_eq!(shop.buy(1).status, 201);
    let admin = Visitor::admin(&shop);
    let before = (admin.get("/admin").text(), admin.get("/admin/events/gala").text());
    let log_out = admin.get("/admin").form("Log out");
    for form in every_form(&admin).into_iter().chain([log_out]) {
        for token in ["", "x"] {
            let page = admin.send(&form.clone().with("csrf_token", token));
            assert_eq!(page.status(), 403, "{form:?}: {page:?}");
        }
    }
    assert_eq!((admin.get("/admin").text(), admin.get("/admin/events/gala").text()), before);
    for form in every_form(&admin) {
        assert_eq!(admin.send(&form).status(), 303, "with its token it would have: {form:?}");
    }
}

#[test]
fn a_form_of_another_admins_session_changes_nothing() {
    let shop = Shop::open();
    let eve = boxoffice::accounts::AdminInput { email: "eve@example.org".into(), password: PASSWORD.into() }.parse().unwrap();
    boxoffice::accounts::set_admin(&mut shop.database.connect(), shop.clock.now(), &eve).unwrap();
    let page = log_in(&shop, "eve@example.org", PASSWORD);
    let eve = Visitor::of(&shop).with_cookie_of(&page);
    let form = eve.get("/admin/events/new").form("Make the event").with("name", "Ball").with("time_zone", "UTC");
    let admin = Visitor::admin(&shop);
    assert_eq!((admin.send(&form).status(), admin.get("/admin").says("Ball")), (403, false));
}

#[test]
fn without_a_session_no_admin_page_answers_and_no_form_changes_anything() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    assert_eq!(shop.buy(1).status, 201);
    let admin = Visitor::admin(&shop);
    let (forms, before) = (every_form(&admin), admin.get("/admin/events/gala").text());
    let visitor = Visitor::of(&shop);
    let order = order_page(&admin.get("/admin/events/gala"));
    let edit_type = "/admin/events/gala/ticket-types/standard";
    for path in ["/admin", "/admin/events/new", "/admin/events/gala", "/admin/events/gala/edit", edit_type, "/admin/jobs", &order] {
        let page = visitor.get(path);
        assert_eq!((page.status(), page.header("location")), (303, format!("/admin/login?next={path}").as_str()));
    }
    for form in forms {
        assert!(visitor.send(&form).header("location").starts_with("/admin/login?next=/admin"), "{form:?}");
    }
    assert_eq!(admin.get("/admin/events/gala").text(), before);
}

#[test]
fn a_partners_key_opens_no_admin_page() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let partner = Visitor { client: shop.partner("acme", &[Scope::Read, Scope::Sell, Scope::Admin]), cookie: None };
    assert_eq!(partner.client.get("/api/v1/events").status, 200);
    for page in [partner.get("/admin"), partner.get("/admin/events/gala")] {
        assert!(page.header("location").starts_with("/admin/login"), "{page:?}");
    }
}

#[test]
fn an_admins_cookie_opens_nothing_of_the_api() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let admin = Visitor::admin(&shop);
    assert_eq!(admin.get("/api/v1/events/gala/orders").status(), 401);
    let headers = [("cookie", admin.cookie.as_deref().unwrap()), ("content-type", "application/json")];
    let load = json!({"ticket_type": "standard", "quantity": 7}).to_string();
    assert_eq!(admin.client.send("POST", "/api/v1/events/gala/inventory", &headers, load.as_bytes()).status, 401);
    assert_eq!(shop.count("AVAILABLE"), 5);
}
