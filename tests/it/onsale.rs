//! `boxoffice bench onsale`, against real servers: its numbers add up, and it says so by its exit code.

use std::{
    fs,
    net::TcpListener,
    process::{Output, Stdio},
};

use serde_json::Value;

use crate::support::{Process, Shop};

fn onsale(shop: &Shop, arguments: &[&str]) -> Output {
    Process::command()
        .args(["--database-url", shop.database.url(), "bench", "onsale"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts")
}

fn numbers(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("not JSON: {error}: {output:?}"))
}

fn error_of(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn an_on_sale_through_two_servers_reconciles_to_the_last_click() {
    let shop = Shop::open();
    let servers = [0, 1].map(|_| Process::serve(&["--database-url", shop.database.url()]));
    let bases = servers.each_ref().map(|server| server.base.as_str()).join(",");
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("onsale.html");
    let output = onsale(
        &shop,
        &[
            "--json",
            "--server",
            &bases,
            "--rate",
            "200",
            "--secs",
            "2",
            // Four hundred buyers ask for a thousand.
            "--tickets",
            "600",
            "--double-clicks",
            "0.3",
            "--hang-ups",
            "0.1",
            "--keys",
            "0.8",
            "--connections",
            "32",
            "--report",
            page.to_str().unwrap(),
        ],
    );
    assert!(output.status.success(), "{output:?}");
    let numbers = numbers(&output);
    assert_eq!(numbers["reconciled"]["differences"]["total"], 0);
    assert_eq!(numbers["audit"]["breaches"], serde_json::json!([]));
    assert_eq!((&numbers["sold"]["tickets"], &numbers["sold"]["available"]), (&600.into(), &0.into()));
    assert_eq!(shop.count("SOLD"), 600);
    let answers = numbers["answers"].as_object().unwrap();
    let count = |name: &str| answers.get(name).map_or(0, |count| count.as_u64().unwrap());
    assert!(count("201") > 0 && count("409 sold_out") > 0 && count("hung up") > 0, "{answers:?}");
    assert!(numbers["same_order_again"].as_u64().unwrap() > 0, "{numbers}");
    let in_all: u64 = answers.values().map(|count| count.as_u64().unwrap()).sum();
    assert!(in_all > 400 && numbers["reconciled"]["requests"] == in_all, "every buyer, and the second clicks: {in_all}");
    assert_is_well_formed(&fs::read_to_string(page).unwrap());
}

/// Every element that is opened is closed, in order; nothing is fetched from elsewhere.
fn assert_is_well_formed(page: &str) {
    const VOID: [&str; 1] = ["meta"];
    assert!(page.starts_with("<!doctype html>") && page.contains("--server http://127.0.0.1:"), "{page}");
    assert_eq!(page.matches("<svg").count(), 4);
    for elsewhere in ["src=", "<link", "url(", "@import", "<script"] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
    for no_number in ["NaN", "inf"] {
        let in_a_chart = page.split("<svg").skip(1).filter_map(|chart| chart.split("</svg>").next()).any(|chart| chart.contains(no_number));
        assert!(!in_a_chart, "{no_number}");
    }
    let mut open = Vec::new();
    for tag in page.split('<').skip(2) {
        let (tag, _) = tag.split_once('>').unwrap();
        let name = tag.trim_start_matches('/').split([' ', '\n', '/']).next().unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{tag}");
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert_eq!(open, [""; 0]);
}

#[test]
fn a_closed_loop_reconciles_too() {
    let shop = Shop::open();
    let output = onsale(
        &shop,
        &[
            "--json",
            "--server",
            &shop.client.base,
            "--closed",
            "--connections",
            "8",
            "--threads",
            "2",
            "--secs",
            "1",
            "--tickets",
            "100000",
        ],
    );
    assert!(output.status.success(), "{output:?}");
    let numbers = numbers(&output);
    assert_eq!((&numbers["reconciled"]["differences"]["total"], &numbers["closed"]), (&0.into(), &true.into()));
    assert_eq!(numbers["sold"]["tickets"], shop.count("SOLD"));
}

#[test]
fn the_event_is_off_sale_afterwards() {
    let shop = Shop::open();
    let output = onsale(&shop, &["--json", "--server", &shop.client.base, "--rate", "20", "--secs", "1", "--tickets", "10"]);
    let event = numbers(&output)["event"].as_str().unwrap().to_owned();
    assert_eq!(shop.client.get(&format!("/api/v1/events/{event}")).json()["state"], "closed");
}

#[test]
fn a_server_on_another_database_is_told_apart_before_the_load_begins() {
    let (shop, other) = (Shop::open(), Shop::open());
    let error = error_of(&onsale(&shop, &["--server", &other.client.base]));
    assert!(error.contains("does it use another database?"), "{error}");
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let shop = Shop::open();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = error_of(&onsale(&shop, &["--server", &base]));
    assert!(error.contains(&format!("the server {base} cannot be used")), "{error}");
}

#[test]
fn load_stays_on_this_machine() {
    let shop = Shop::open();
    let error = error_of(&onsale(&shop, &["--server", "http://192.0.2.1:8080"]));
    assert!(error.contains("--allow-remote"), "{error}");
}

#[test]
fn a_server_that_dies_ends_the_run_with_its_reason() {
    let shop = Shop::open();
    let server = Process::serve(&["--database-url", shop.database.url()]);
    let base = server.base.clone();
    let output = std::thread::scope(|scope| {
        let run = scope.spawn(|| onsale(&shop, &["--json", "--server", &base, "--rate", "100", "--secs", "600", "--tickets", "100000"]));
        crate::support::wait_until("something is sold", || shop.orders() > 50);
        server.kill();
        run.join().unwrap()
    });
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let numbers = numbers(&output);
    assert!(numbers["ended_early"].as_str().unwrap().starts_with("no server takes connections"), "{numbers}");
    assert_eq!(numbers["reconciled"]["differences"]["total"], 0, "what was answered was kept");
}
