//! Partners are told by webhook what happens to their orders.

use std::{
    io::Write,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use boxoffice::{
    accounts::Scope,
    ids::{EndpointId, MessageId},
    queue::{self, NewJob},
    webhooks::{self, Message, Tried},
};
use serde_json::{Value, json};

use crate::support::{Answer, Client, Database, Process, Receiver, Reply, Shop, order, wait_until};

fn worker(shop: &Shop) -> Process {
    Process::work(&["--database-url", shop.database.url(), "--webhook-allow-private", "--hold-sweep-secs", "1"])
}

fn shop() -> Shop {
    let shop = Shop::open_with(|config| config.webhook_reach = boxoffice::webhooks::Reach::Anywhere);
    shop.gala(&[("standard", 4_500, 50)]);
    shop
}

fn hook(client: &Client, receiver: &Receiver, more: Value) -> Value {
    let mut body = json!({"url": receiver.url()});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let made = client.post("/api/v1/webhooks", &body);
    assert_eq!(made.status, 201, "{made:?}");
    made.json()
}

fn call(client: &Client, made: &Reply, what: &str, body: &Value) -> Reply {
    let reply = client.post(&format!("{}/{what}", made.header("location")), body);
    assert_eq!(reply.status, 200, "{reply:?}");
    reply
}

fn deliveries(client: &Client, hook: &Value) -> Vec<Value> {
    client.get(&format!("/api/v1/webhooks/{}/deliveries", hook["id"].as_str().unwrap())).json()["deliveries"].as_array().unwrap().clone()
}

/// CASE 28.
#[test]
fn every_change_of_an_order_is_told_once_and_in_order() {
    let shop = shop();
    let receiver = Receiver::answering(|_| Answer::Status(204));
    hook(&shop.client, &receiver, json!({}));
    let held = shop.client.post("/api/v1/events/gala/holds", &order(3));
    call(&shop.client, &held, "cancel", &json!({"positions": [2]}));
    call(&shop.client, &held, "confirm", &json!({}));
    call(&shop.client, &held, "confirm", &json!({}));
    call(&shop.client, &held, "cancel", &json!({"positions": [1]}));
    call(&shop.client, &held, "cancel", &json!({}));
    let _worker = worker(&shop);
    let told: Vec<(String, i64)> = receiver.wait_for(5).iter().map(|received| received.told()).collect();
    let expected = [("order.held", 0), ("order.cancelled", 1), ("order.sold", 2), ("order.cancelled", 3), ("order.cancelled", 4)];
    assert_eq!(told, expected.map(|(kind, number)| (kind.to_owned(), number)));
    let first = receiver.so_far()[1].json();
    assert_eq!((&first["data"]["change"]["what"], &first["data"]["change"]["positions"]), (&json!("release_some"), &json!([2])), "{first}");
    assert_eq!(first["data"]["order"]["id"], held.json()["id"]);
    wait_until("all is done", || super::states(&shop.database).iter().all(|(state, _)| state == "DONE"));
    assert_eq!(receiver.so_far().len(), 5, "each once");
}

/// CASE 27.
#[test]
fn a_delivery_that_fails_is_tried_again_under_the_same_id_with_a_new_time_and_signature() {
    let shop = shop();
    let receiver = Receiver::answering(|number| Answer::Status(if number == 0 { 500 } else { 200 }));
    let made = hook(&shop.client, &receiver, json!({"events": ["order.sold"]}));
    let _worker = worker(&shop);
    assert_eq!(shop.buy(1).status, 201);
    let tries = receiver.wait_for(2);
    let header = |place: usize, name: &str| tries[place].headers[name].clone();
    assert_eq!((header(0, "webhook-id"), &tries[0].body), (header(1, "webhook-id"), &tries[1].body));
    assert_ne!(header(0, "webhook-timestamp"), header(1, "webhook-timestamp"));
    assert_ne!(header(0, "webhook-signature"), header(1, "webhook-signature"));
    wait_until("the log says so", || deliveries(&shop.client, &made).first().is_some_and(|last| last["state"] == "delivered"));
    let log = deliveries(&shop.client, &made);
    assert_eq!(
        (log.len(), &log[0]["attempts"], &log[0]["response_status"], &log[0]["response"]),
        (1, &json!(2), &json!(200), &json!("said"))
    );
    let id = header(0, "webhook-id");
    assert_eq!(Some(log[0]["id"].as_str().unwrap()), id.strip_prefix("msg_"));
    // Once more by hand, under the same id.
    let replay = format!("/api/v1/webhooks/{}/deliveries/{}/replay", made["id"].as_str().unwrap(), log[0]["id"].as_str().unwrap());
    assert_eq!(shop.client.send("POST", &replay, &[], b"").status, 202);
    assert_eq!(receiver.wait_for(3)[2].headers["webhook-id"], id);
}

/// CASE 26.
#[test]
fn endpoints_that_hang_keep_no_other_waiting() {
    let shop = shop();
    let (hung, well) = (Receiver::answering(|_| Answer::Nothing), Receiver::answering(|_| Answer::Status(200)));
    const HUNG: usize = 5;
    let stuck = [(); HUNG].map(|()| hook(&shop.client, &hung, json!({"events": ["order.sold"]})));
    let _worker = worker(&shop);
    for _ in 0..12 {
        assert_eq!(shop.buy(1).status, 201);
    }
    hung.wait_for(HUNG);
    hook(&shop.client, &well, json!({"events": ["order.sold"]}));
    for _ in 0..12 {
        assert_eq!(shop.buy(1).status, 201);
    }
    well.wait_for(12);
    assert!(hung.so_far().len() <= 2 * HUNG, "they are left alone for a while: {}", hung.so_far().len());
    wait_until("the first try is given up", || deliveries(&shop.client, &stuck[0]).first().is_some_and(|last| last["error"].is_string()));
}

/// Endpoints that take their time get few threads, and those that are quick are told as if they were not there.
#[test]
fn endpoints_that_answer_late_keep_no_other_waiting() {
    const SLOW: usize = 10;
    const ORDERS: usize = 12;
    let shop = shop();
    let late = Receiver::answering(|_| {
        thread::sleep(Duration::from_millis(1_500));
        Answer::Status(200)
    });
    let well = Receiver::answering(|_| Answer::Status(200));
    for receiver in std::iter::repeat_n(&late, SLOW).chain([&well]) {
        hook(&shop.client, receiver, json!({"events": ["order.sold"]}));
    }
    let _worker = worker(&shop);
    assert_eq!(shop.buy(1).status, 201);
    wait_until("it is known how each of them does", || super::states(&shop.database).iter().all(|(state, _)| state == "DONE"));
    let before = late.so_far().len();
    for _ in 0..ORDERS {
        assert_eq!(shop.buy(1).status, 201);
    }
    well.wait_for(1 + ORDERS);
    let meanwhile = late.so_far().len() - before;
    assert!(meanwhile < ORDERS, "{meanwhile} late answers were waited for");
}

#[test]
fn what_waits_for_an_endpoint_that_is_disabled_goes_out_when_it_is_enabled() {
    const ORDERS: usize = 5;
    let shop = shop();
    let receiver = Receiver::answering(|number| Answer::Status(if number == 0 { 410 } else { 200 }));
    let made = hook(&shop.client, &receiver, json!({"events": ["order.sold"]}));
    let path = format!("/api/v1/webhooks/{}", made["id"].as_str().unwrap());
    for _ in 0..ORDERS {
        assert_eq!(shop.buy(1).status, 201);
    }
    // With one thread: two might both have been under way when the first was answered.
    let _worker = Process::work(&["--database-url", shop.database.url(), "--webhook-allow-private", "--workers", "1"]);
    wait_until("it is disabled", || shop.client.get("/api/v1/webhooks").json()["webhooks"][0]["disabled_at"].is_string());
    let soon = chrono::Utc::now() + chrono::TimeDelta::hours(1);
    let lanes = || queue::lanes(&mut shop.database.connect(), soon).unwrap();
    wait_until("the rest waits", || lanes().iter().any(|lane| lane.rests_until > Some(soon)));
    let refused = deliveries(&shop.client, &made);
    assert_eq!((refused.len(), &refused[0]["state"]), (1, &json!("failed")));
    let replay = format!("{path}/deliveries/{}/replay", refused[0]["id"].as_str().unwrap());
    let too_soon = shop.client.send("POST", &replay, &[], b"");
    assert_eq!((too_soon.status, too_soon.code().as_str()), (409, "webhook_disabled"));
    assert_eq!(shop.client.send("POST", &format!("{path}/enable"), &[], b"").status, 200);
    receiver.wait_for(ORDERS);
    assert_eq!(shop.client.send("POST", &replay, &[], b"").status, 202);
    receiver.wait_for(ORDERS + 1);
    wait_until("all of them were taken", || {
        let log = deliveries(&shop.client, &made);
        log.len() == ORDERS && log.iter().all(|delivery| delivery["state"] == "delivered")
    });
}

/// A message may be at work, or just be made, while its endpoint is deleted.
#[test]
fn what_comes_to_wait_for_an_endpoint_that_is_gone_is_forgotten() {
    let database = Database::new();
    let mut conn = database.connect();
    queue::add_lanes(&mut conn, super::now(), &["webhook:there"]).unwrap();
    let job = |lane: &str, group| NewJob { lane: lane.to_owned(), ..super::job(group, json!(1)) };
    for lane in ["webhook:gone", "webhook:there", "other:gone"] {
        let jobs = [job(lane, Some(lane)), job(lane, Some(lane)), job(lane, None)];
        assert_eq!(super::enqueue(&mut conn, &jobs), 3);
    }
    assert_eq!(queue::forget_lanes_gone(&mut conn, &["webhook"]).unwrap(), 3);
    assert_eq!(queue::forget_lanes_gone(&mut conn, &["webhook"]).unwrap(), 0);
    assert_eq!(super::states(&database), [("CREATED".to_owned(), 6)]);
}

#[test]
fn an_endpoint_that_is_gone_is_told_nothing_more_until_it_is_enabled() {
    let shop = shop();
    let receiver = Receiver::answering(|number| Answer::Status(if number == 0 { 410 } else { 200 }));
    let made = hook(&shop.client, &receiver, json!({}));
    let _worker = worker(&shop);
    let listed = || shop.client.get("/api/v1/webhooks").json()["webhooks"][0].clone();
    assert_eq!(shop.buy(1).status, 201);
    wait_until("it is disabled", || listed()["disabled_at"].is_string());
    assert_eq!(listed()["disabled_reason"], "it answered 410: gone");
    assert_eq!(deliveries(&shop.client, &made)[0]["state"], "failed");
    assert_eq!(shop.buy(1).status, 201);
    wait_until("the second order is followed up", || {
        let waiting = super::states(&shop.database).into_iter().filter(|(state, _)| state == "CREATED" || state == "WORKING");
        waiting.count() == 0
    });
    assert_eq!(receiver.so_far().len(), 1);
    let enabled = shop.client.send("POST", &format!("/api/v1/webhooks/{}/enable", made["id"].as_str().unwrap()), &[], b"");
    assert_eq!((enabled.status, &enabled.json()["disabled_at"]), (200, &json!(null)));
    assert_eq!(shop.buy(1).status, 201);
    receiver.wait_for(2);
}

#[test]
fn a_redirect_is_not_followed() {
    let shop = shop();
    let elsewhere = Receiver::answering(|_| Answer::Status(200));
    let port = elsewhere.port();
    let receiver = Receiver::answering(move |_| Answer::Redirect(port));
    let made = hook(&shop.client, &receiver, json!({}));
    let _worker = worker(&shop);
    assert_eq!(shop.buy(1).status, 201);
    wait_until("it is logged", || !deliveries(&shop.client, &made).is_empty());
    let log = deliveries(&shop.client, &made);
    assert_eq!((&log[0]["response_status"], &log[0]["state"], elsewhere.so_far().len()), (&json!(307), &json!("pending"), 0));
}

/// A name that means a private address is found out when it is looked up, not when it is written down.
#[test]
fn a_private_address_is_not_reached_by_whatever_name() {
    let shop = shop();
    let receiver = Receiver::answering(|_| Answer::Status(200));
    let url = format!("http://localhost:{}/", receiver.port());
    let made = shop.client.post("/api/v1/webhooks", &json!({"url": url})).json();
    let _worker = Process::work(&["--database-url", shop.database.url()]);
    assert_eq!(shop.buy(1).status, 201);
    wait_until("it is logged", || !deliveries(&shop.client, &made).is_empty());
    let log = deliveries(&shop.client, &made);
    assert!(log[0]["error"].as_str().unwrap().contains("the address is not a public one"), "{log:?}");
    assert_eq!(receiver.so_far().len(), 0);
}

#[test]
fn partners_are_told_of_their_own_orders_and_an_organiser_of_all() {
    let shop = shop();
    let [ours, all] = [(); 2].map(|()| Receiver::answering(|_| Answer::Status(200)));
    let partner = shop.partner("ours", &[Scope::Sell, Scope::Read]);
    hook(&partner, &ours, json!({}));
    hook(&shop.client, &all, json!({"all_orders": true}));
    let refused = partner.post("/api/v1/webhooks", &json!({"url": ours.url(), "all_orders": true}));
    assert_eq!(refused.status, 403);
    assert_eq!(shop.buy(1).status, 201);
    let own = partner.post("/api/v1/events/gala/orders", &order(1));
    let _worker = worker(&shop);
    assert_eq!(all.wait_for(2).len(), 2);
    assert_eq!(ours.wait_for(1)[0].json()["data"]["order"]["id"], own.json()["id"]);
    wait_until("all is done", || super::states(&shop.database).iter().all(|(state, _)| state == "DONE"));
    assert_eq!(ours.so_far().len(), 1);
}

#[test]
fn that_nothing_is_left_is_told_once_and_again_when_it_happens_again() {
    let shop = Shop::open_with(|config| config.webhook_reach = boxoffice::webhooks::Reach::Anywhere);
    shop.gala(&[("standard", 4_500, 3)]);
    let receiver = Receiver::answering(|_| Answer::Status(200));
    hook(&shop.client, &receiver, json!({"events": ["event.sold_out"]}));
    let _worker = worker(&shop);
    let done = || wait_until("all is done", || super::states(&shop.database).iter().all(|(state, _)| state == "DONE"));
    assert_eq!(shop.buy(2).status, 201);
    let last = shop.buy(1);
    assert_eq!(receiver.wait_for(1)[0].json()["data"]["event"], "gala");
    call(&shop.client, &last, "cancel", &json!({}));
    done();
    assert_eq!(receiver.so_far().len(), 1);
    assert_eq!(shop.buy(1).status, 201);
    receiver.wait_for(2);
    done();
    assert_eq!(receiver.so_far().len(), 2);
}

/// What the public library of the standard, in Python, says of messages.
fn verified(messages: &[Value]) -> Vec<String> {
    let home = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = home.join("target/python");
    assert!(python.join("installed").exists(), "the library is not installed: run `make test`, which installs what is missing");
    let mut process = Command::new(python.join("bin/python"))
        .arg(home.join("tests/it/jobs/verify.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = process.stdin.take().unwrap();
    messages.iter().for_each(|message| writeln!(input, "{message}").unwrap());
    drop(input);
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn messages_are_verified_by_the_public_library_and_others_are_not() {
    let shop = shop();
    let receiver = Receiver::answering(|_| Answer::Status(200));
    let made = hook(&shop.client, &receiver, json!({}));
    let _worker = worker(&shop);
    let mut body = order(1);
    body["buyer"]["name"] = json!("Zoë \"Ö\" <b>");
    assert_eq!(shop.client.post("/api/v1/events/gala/orders", &body).status, 201);
    let received = receiver.wait_for(1).remove(0);
    let right = json!({"secret": made["secret"], "headers": received.headers, "body": received.body});
    let mut altered = right.clone();
    altered["body"] = json!(received.body.replace("Zoë", "Zoe"));
    let mut later = right.clone();
    later["headers"]["webhook-timestamp"] = json!((received.headers["webhook-timestamp"].parse::<i64>().unwrap() + 1).to_string());
    let said = verified(&[right, altered, later]);
    assert_eq!((said[0].as_str(), said[1].contains("verified"), said[2].contains("verified")), ("verified", false, false), "{said:?}");
}

#[test]
fn what_waits_for_an_endpoint_goes_with_it() {
    let shop = shop();
    let receiver = Receiver::answering(|_| Answer::Status(500));
    let made = hook(&shop.client, &receiver, json!({}));
    let path = format!("/api/v1/webhooks/{}", made["id"].as_str().unwrap());
    let _worker = worker(&shop);
    assert_eq!(shop.buy(1).status, 201);
    receiver.wait_for(1);
    let other = shop.partner("other", &[Scope::Sell, Scope::Read]);
    assert_eq!(other.send("DELETE", &path, &[], b"").status, 404, "another partner's");
    assert_eq!(other.get(&format!("{path}/deliveries")).status, 404);
    assert_eq!(shop.client.send("DELETE", &path, &[], b"").status, 204);
    assert_eq!(
        (shop.client.send("DELETE", &path, &[], b"").status, shop.client.get("/api/v1/webhooks").json()),
        (404, json!({"webhooks": []}))
    );
    wait_until("nothing waits", || super::states(&shop.database).iter().all(|(state, _)| state == "DONE"));
}

#[test]
fn an_endpoint_is_an_https_url_of_a_public_address_and_its_secret_is_told_once() {
    let shop = Shop::open();
    for (body, field) in [
        (json!({}), "url"),
        (json!({"url": "http://example.org/"}), "url"),
        (json!({"url": "https://127.0.0.1/"}), "url"),
        (json!({"url": "https://169.254.169.254/latest"}), "url"),
        (json!({"url": "https://example.org", "events": []}), "events"),
        (json!({"url": "https://example.org", "events": ["order.lost"]}), "events"),
    ] {
        let refused = shop.client.post("/api/v1/webhooks", &body);
        assert_eq!((refused.status, &refused.json()["errors"][0]["field"]), (422, &json!(field)), "{body}");
    }
    let made = shop.client.post("/api/v1/webhooks", &json!({"url": "https://example.org/hooks", "events": ["order.sold"]}));
    assert!(made.json()["secret"].as_str().unwrap().starts_with("whsec_"), "{made:?}");
    let listed = shop.client.get("/api/v1/webhooks").json();
    assert_eq!((&listed["webhooks"][0]["secret"], &listed["webhooks"][0]["events"]), (&json!(null), &json!(["order.sold"])));
    for _ in 1..20 {
        assert_eq!(shop.client.post("/api/v1/webhooks", &json!({"url": "https://example.org"})).status, 201);
    }
    let one_more = shop.client.post("/api/v1/webhooks", &json!({"url": "https://example.org"}));
    assert_eq!((one_more.status, one_more.code().as_str()), (409, "too_many"));
}

/// An endpoint that takes nothing for days is not told for ever, and one that recovers in time is not given up.
#[test]
fn an_endpoint_that_fails_for_days_is_disabled_and_one_success_begins_anew() {
    let shop = shop();
    let made = shop.client.post("/api/v1/webhooks", &json!({"url": "http://127.0.0.1:9/"})).json();
    let id: EndpointId = made["id"].as_str().unwrap().parse().unwrap();
    let mut conn = shop.database.connect();
    let mut note = |day: i64, tried: &Tried| {
        let endpoint = webhooks::endpoint(&mut conn, id).unwrap().unwrap();
        let message = Message { id: MessageId::new(), endpoint: id, kind: "order.sold".to_owned(), body: "{}".to_owned() };
        let now = super::now() + chrono::TimeDelta::days(day);
        webhooks::note(&mut conn, now, super::event(), &message, &endpoint, tried, false).unwrap();
        webhooks::endpoint(&mut conn, id).unwrap().unwrap()
    };
    let (fails, taken) = (Tried::Unanswered("no answer".to_owned()), Tried::Answered(200, String::new()));
    assert_eq!(note(0, &fails).failing_since, Some(super::now()));
    assert!(note(4, &fails).disabled.is_none());
    assert_eq!(note(5, &taken).failing_since, None);
    assert!(note(6, &fails).disabled.is_none() && note(11, &fails).disabled.is_none(), "five days from the first failure");
    let disabled = note(12, &fails).disabled;
    assert_eq!(disabled.map(|(_, reason)| reason), Some("it has taken no message for days".to_owned()));
}

/// Consumers are killed at random moments while orders change: every change is told, and those of one order in order.
#[test]
fn consumers_that_are_killed_at_random_lose_no_change_and_keep_the_order() {
    let rounds: u64 = std::env::var("BOXOFFICE_TEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(6);
    let shop = shop();
    let receiver = Receiver::answering(|_| Answer::Status(200));
    hook(&shop.client, &receiver, json!({}));
    let mut orders = 0;
    for _ in 0..rounds {
        let workers = [worker(&shop), worker(&shop)];
        for _ in 0..5 {
            let held = shop.client.post("/api/v1/events/gala/holds", &order(1));
            call(&shop.client, &held, "confirm", &json!({}));
            call(&shop.client, &held, "cancel", &json!({}));
            orders += 1;
        }
        std::thread::sleep(std::time::Duration::from_millis(rand::random_range(0..1_500)));
        workers.into_iter().for_each(Process::kill);
        // What the killed ones had taken is free for others when its lease has run out, which is not waited for here.
        shop.sql("UPDATE jobs SET lease_until = now() WHERE state = 'WORKING'");
    }
    let _worker = worker(&shop);
    wait_until("all is done", || super::states(&shop.database).iter().all(|(state, _)| state == "DONE"));
    let mut told: std::collections::BTreeMap<String, Vec<i64>> = std::collections::BTreeMap::new();
    for received in receiver.so_far() {
        let body = received.json();
        let number = body["data"]["change"]["number"].as_i64().unwrap();
        let numbers = told.entry(body["data"]["order"]["id"].as_str().unwrap().to_owned()).or_default();
        // A consumer that was killed between the answer and its note of it tells once more: at least once, and never out of order.
        if numbers.last() != Some(&number) {
            numbers.push(number);
        }
    }
    println!("{rounds} rounds of two kills, {orders} orders, {} messages", receiver.so_far().len());
    assert_eq!(told.len(), orders);
    assert!(told.values().all(|numbers| *numbers == [0, 1, 2]), "{told:?}");
}
