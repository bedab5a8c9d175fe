//! The admins' page of jobs: seeing how they do, holding a lane up, putting a job back.

use boxoffice::queue::{self, Ask, Claimed, Fate, Group, Lease, NewJob};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;

use super::{
    markup::{Form, forms, text},
    visitor::{Page, Visitor},
};
use crate::support::Shop;

/// A shop whose clock stands still.
fn shop() -> Shop {
    let shop = Shop::open();
    shop.clock.set("2027-01-05T10:00:00Z".parse().unwrap());
    shop
}

fn enqueue(shop: &Shop, lane: &str, count: usize) {
    let mut conn = shop.database.connect();
    let kind = if lane.starts_with("webhook:") { "webhook" } else { "confirmation" };
    queue::add_lanes(&mut conn, shop.clock.now(), &[lane]).unwrap();
    let job = NewJob { event: queue::no_event(), lane: lane.to_owned(), kind, group: Group::Alone, unique_key: None, payload: json!({}) };
    assert_eq!(queue::enqueue(&mut conn, shop.clock.now(), &vec![job; count]).unwrap(), count);
}

fn claim(shop: &Shop, lane: &str, count: usize) -> Option<Lease> {
    let ask = Ask { lane, after: DateTime::UNIX_EPOCH, count, node: "tester", time: TimeDelta::seconds(60) };
    queue::claim(&mut shop.database.connect(), shop.clock.now(), &ask).unwrap()
}

/// A job that comes to nothing.
fn fail(shop: &Shop, lane: &str, error: &str, fate: Fate) {
    enqueue(shop, lane, 1);
    let lease = claim(shop, lane, 1).unwrap();
    assert!(queue::fail(&mut shop.database.connect(), shop.clock.now(), lease.token, &lease.jobs[0], error, fate).unwrap());
}

/// A lane with a job that was given up for this reason, and one that waits.
pub fn give_up(shop: &Shop, lane: &str, error: &str) {
    fail(shop, lane, error, Fate::GiveUp);
    enqueue(shop, lane, 1);
}

fn pass(shop: &Shop, time: TimeDelta) -> DateTime<Utc> {
    let now = shop.clock.now() + time;
    shop.clock.set(now);
    now
}

/// The form that pauses the lane or lets it go on, as its button sends it.
fn lane_form(page: &Page, lane: &str, button: &str) -> Form {
    let action = format!("/admin/jobs/lanes/{lane}");
    let mut all = forms(page.html()).into_iter().filter(|form| form.action == action).filter_map(|form| form.pressed(button));
    all.next_back().unwrap_or_else(|| panic!("no button {button:?} of {lane}: {}", page.text()))
}

/// What a reader sees of each job that failed.
fn failures(page: &Page) -> Vec<String> {
    page.html()
        .split("<tr><td data-label=\"Job\"")
        .skip(1)
        .map(|line| text(&format!("<td{}", line.split("</tr>").next().unwrap())))
        .collect()
}

#[test]
fn a_shop_where_nothing_ever_ran_says_so() {
    let shop = shop();
    let page = Visitor::admin(&shop).get("/admin/jobs");
    assert!(page.status() == 200 && page.says("No lanes yet") && page.says("Nothing has failed."), "{}", page.text());
}

#[test]
fn a_lane_shows_what_waits_what_is_at_work_and_what_is_over() {
    let shop = shop();
    enqueue(&shop, "order_changes", 0);
    enqueue(&shop, "confirmation", 1_300);
    let lease = claim(&shop, "confirmation", 5).unwrap();
    let done: Vec<(&Claimed, Vec<NewJob>)> = lease.jobs[..2].iter().map(|job| (job, Vec::new())).collect();
    let now = pass(&shop, TimeDelta::seconds(150));
    assert_eq!(queue::complete(&mut shop.database.connect(), now, lease.token, &done).unwrap().jobs.len(), 2);
    let page = Visitor::admin(&shop).get("/admin/jobs");
    assert!(
        page.says("Confirmation At work 2 done 3 at work 1,295 waiting 0 given up The oldest has waited 2 min. Pause"),
        "{}",
        page.text()
    );
    assert!(page.says("Order changes Idle 0 done 0 at work 0 waiting 0 given up Nothing waits. Pause"), "{}", page.text());
    assert!(page.html().contains("<rect class=\"created\" x=\"20\" width=\"980\""), "{}", page.html());
}

#[test]
fn the_page_is_found_from_every_page_of_an_admin() {
    let shop = shop();
    shop.gala(&[("standard", 4_500, 1)]);
    let admin = Visitor::admin(&shop);
    for path in ["/admin", "/admin/events/new", "/admin/events/gala", "/admin/jobs"] {
        assert!(admin.get(path).html().contains("href=\"/admin/jobs\""), "{path}");
    }
}

#[test]
fn a_lane_is_paused_and_goes_on() {
    let shop = shop();
    enqueue(&shop, "confirmation", 1);
    let admin = Visitor::admin(&shop);
    let before = admin.get("/admin/jobs");
    let pause = lane_form(&before, "confirmation", "Pause");
    let paused = admin.follow(&admin.send(&pause));
    assert!(paused.says("The lane is paused.") && paused.says("Confirmation Paused"), "{}", paused.text());
    assert!(claim(&shop, "confirmation", 1).is_none(), "nobody takes from it");
    pass(&shop, TimeDelta::hours(3));
    let again = admin.follow(&admin.send(&pause));
    assert!(again.says("Paused for 3 h. The oldest has waited 3 h. Resume"), "a second click changes nothing: {}", again.text());
    let resumed = admin.follow(&admin.send(&lane_form(&again, "confirmation", "Resume")));
    assert!(resumed.says("The lane goes on.") && resumed.says("Confirmation Waiting"), "{}", resumed.text());
    assert!(claim(&shop, "confirmation", 1).is_some());
}

#[test]
fn a_lane_with_any_name_is_paused() {
    let shop = shop();
    let names = ["webhook:a b", "webhook:ü/../x?y#z", "webhook:100%25"];
    names.iter().for_each(|name| enqueue(&shop, name, 1));
    let admin = Visitor::admin(&shop);
    for form in forms(admin.get("/admin/jobs").html()).into_iter().filter_map(|form| form.pressed("Pause")) {
        assert_eq!(admin.send(&form).header("location"), "/admin/jobs?done=paused", "{form:?}");
    }
    for name in names {
        assert!(claim(&shop, name, 1).is_none(), "{name}");
    }
}

#[test]
fn what_failed_is_listed_with_its_reason_and_what_becomes_of_it() {
    let shop = shop();
    fail(&shop, "confirmation", "no such mailbox", Fate::GiveUp);
    pass(&shop, TimeDelta::minutes(1));
    fail(&shop, "webhook:acme", "answered 404", Fate::GiveUp);
    let now = shop.clock.now();
    fail(&shop, "confirmation", "the mail server is away", Fate::Retry(now + TimeDelta::minutes(4)));
    fail(&shop, "webhook:acme", "answered 503", Fate::Retry(now + TimeDelta::hours(5)));
    let admin = Visitor::admin(&shop);
    let page = admin.get("/admin/jobs");
    assert!(page.says("Failures: 2 jobs given up"), "{}", page.text());
    let expected = [
        ("Webhook acme answered 404", "1 Given up Retry Webhook acme"),
        ("Confirmation no such mailbox", "1 Given up Retry Confirmation"),
        ("Confirmation the mail server is away", "1 In 4 min"),
        ("Webhook acme answered 503", "1 In 5 h"),
    ];
    assert_eq!(failures(&page).len(), expected.len());
    for (line, (begin, end)) in failures(&page).iter().zip(expected) {
        assert!(line.starts_with(begin) && line.ends_with(end), "{line}");
    }
    pass(&shop, TimeDelta::minutes(4));
    assert!(failures(&admin.get("/admin/jobs"))[2].ends_with("1 Now"));
    let page = admin.follow(&admin.send(&lane_form(&page, "confirmation", "Pause")));
    assert!(failures(&page)[2].ends_with("1 When its lane goes on"), "{}", page.text());
}

#[test]
fn more_failures_than_a_page_holds_are_told() {
    let shop = shop();
    (0..51).for_each(|_| fail(&shop, "confirmation", "no", Fate::GiveUp));
    let page = Visitor::admin(&shop).get("/admin/jobs");
    assert_eq!(page.html().matches("data-label=\"Job\"").count(), 50);
    assert!(page.says("Failures: 51 jobs given up") && page.says("These are the first 50; there are more."), "{}", page.text());
}

#[test]
fn a_job_that_was_given_up_is_put_back_once() {
    let shop = shop();
    fail(&shop, "confirmation", "no such mailbox", Fate::GiveUp);
    let admin = Visitor::admin(&shop);
    let form = admin.get("/admin/jobs").form("Retry");
    let page = admin.follow(&admin.send(&form));
    assert!(page.says("The job waits again, with all its tries.") && page.says("1 waiting 0 given up"), "{}", page.text());
    assert!(failures(&page)[0].ends_with("0, put back Now") && !page.has_button("Retry"), "{}", page.text());
    let again = admin.follow(&admin.send(&form));
    assert!(again.says("Nothing to do") && again.says("1 waiting"), "{}", again.text());
    assert_eq!(claim(&shop, "confirmation", 9).unwrap().jobs.len(), 1);
}

#[test]
fn all_that_was_given_up_in_a_lane_is_put_back_at_once() {
    let shop = shop();
    (0..3).for_each(|_| fail(&shop, "confirmation", "no", Fate::GiveUp));
    fail(&shop, "order_changes", "no", Fate::GiveUp);
    let admin = Visitor::admin(&shop);
    let form = admin.get("/admin/jobs").form("Retry 3 given up");
    let page = admin.follow(&admin.send(&form));
    assert!(page.says("What was given up in that lane waits again") && page.says("Failures: 1 job given up"), "{}", page.text());
    assert_eq!(claim(&shop, "confirmation", 9).unwrap().jobs.len(), 3);
    let again = admin.follow(&admin.send(&form));
    assert!(again.says("Nothing to do: nothing is given up in that lane") && again.says("Failures: 1 job given up"), "{}", again.text());
}

#[test]
fn a_lane_for_one_receiver_says_where_its_jobs_go_and_whose_they_are() {
    let shop = shop();
    let made = shop.client.post("/api/v1/webhooks", &json!({"url": "https://example.org/hooks"})).json();
    let lane = format!("webhook:{}", made["id"].as_str().unwrap());
    fail(&shop, &lane, "no answer", Fate::Retry(shop.clock.now()));
    queue::rest(&mut shop.database.connect(), &lane, shop.clock.now() + TimeDelta::seconds(90)).unwrap();
    queue::rest(&mut shop.database.connect(), &lane, shop.clock.now() + TimeDelta::seconds(15)).unwrap();
    let page = Visitor::admin(&shop).get("/admin/jobs");
    let whose = page.says("Webhook Resting https://example.org/hooks, of tester.");
    assert!(whose && page.says("It did not answer, and is tried again in 1 min.") && !page.text().contains(&lane), "{}", page.text());
    assert!(failures(&page)[0].starts_with("Webhook to https://example.org/hooks no answer"), "{:?}", failures(&page));
    assert!(failures(&page)[0].ends_with("1 When its lane goes on"), "{:?}", failures(&page));
}

#[test]
fn a_job_about_an_order_leads_to_it() {
    let shop = shop();
    shop.gala(&[("standard", 4_500, 5)]);
    let order = shop.buy(1).json()["id"].as_str().unwrap().to_owned();
    fail(&shop, "confirmation", "no such mailbox", Fate::GiveUp);
    shop.sql(&format!(
        "UPDATE jobs SET event_id = (SELECT id FROM events), payload = '{{\"order\": \"{order}\"}}' WHERE lane = 'confirmation'"
    ));
    let page = Visitor::admin(&shop).get("/admin/jobs");
    assert!(page.html().contains(&format!("<a href=\"/admin/events/gala/orders/{order}\">Its order</a>")), "{page:?}");
}

#[test]
fn an_unknown_lane_and_an_unknown_job_are_not_found() {
    let shop = shop();
    fail(&shop, "confirmation", "no", Fate::GiveUp);
    let admin = Visitor::admin(&shop);
    let page = admin.get("/admin/jobs");
    let (pause, retry) = (lane_form(&page, "confirmation", "Pause"), page.form("Retry"));
    let nil = "00000000-0000-0000-0000-000000000000";
    let addressed = |form: &Form, action: &str| {
        let mut form = form.clone();
        form.action = action.to_owned();
        admin.send(&form)
    };
    assert_eq!(addressed(&pause, "/admin/jobs/lanes/nobody").status(), 404);
    for action in [format!("/admin/jobs/{nil}/{nil}/retry"), format!("/admin/jobs/{nil}/1/retry"), "/admin/jobs/x/y/retry".to_owned()] {
        let page = addressed(&retry, &action);
        assert_eq!((page.status(), page.says("We cannot find that page")), (404, true), "{action}");
    }
    assert_eq!(admin.send(&pause.with("paused", "perhaps")).status(), 422);
}

#[test]
fn without_its_token_or_a_session_a_form_of_the_jobs_changes_nothing() {
    let shop = shop();
    give_up(&shop, "confirmation", "no such mailbox");
    let (admin, nobody) = (Visitor::admin(&shop), Visitor::of(&shop));
    let page = admin.get("/admin/jobs");
    for form in [lane_form(&page, "confirmation", "Pause"), page.form("Retry")] {
        for token in ["", "x"] {
            assert_eq!(admin.send(&form.clone().with("csrf_token", token)).status(), 403, "{form:?}");
        }
        let turned_away = nobody.send(&form);
        assert_eq!(turned_away.header("location"), format!("/admin/login?next={}", form.action));
        assert_eq!(admin.get(&form.action).header("location"), "/admin/jobs", "where the log-in leads");
    }
    assert_eq!(admin.get("/admin/jobs").text(), page.text());
    assert_eq!(nobody.get("/admin/jobs").header("location"), "/admin/login?next=/admin/jobs");
}
