//! Errors are problem+json, whatever went wrong, and a bad request changes nothing.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use serde_json::json;

use crate::support::{Shop, order};

#[test]
fn every_error_is_a_problem_with_a_code_and_the_request_s_id() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 1)]);
    let orders = "/api/v1/events/gala/orders";
    let csv = [("content-type", "text/plain")];
    for (reply, status, code) in [
        (shop.client.get("/api/v1/nothing"), 404, "not_found"),
        (shop.client.get("/api/v1/events/none"), 404, "not_found"),
        (shop.client.get("/api/v1/events/gala/orders/none"), 404, "not_found"),
        (shop.client.post("/api/v1/events/none/orders", &order(1)), 404, "not_found"),
        (shop.client.send("DELETE", "/api/v1/events", &[], b"{}"), 405, "method_not_allowed"),
        (shop.client.send("POST", orders, &csv, b"{}"), 415, "unsupported_media_type"),
        (shop.client.send("POST", orders, &[("content-type", "application/json")], b"{"), 422, "invalid_request"),
        (shop.client.send("POST", orders, &[("content-type", "application/json")], b"[]"), 422, "invalid_request"),
        (shop.client.send("POST", orders, &[("content-type", "application/json")], b"\xff\xfe"), 422, "invalid_request"),
        (shop.client.send("POST", orders, &[("content-type", "application/json")], &[b' '; 70_000]), 413, "payload_too_large"),
        (shop.client.post("/api/v1/events/gala/inventory?dry_run=perhaps", &json!({})), 422, "invalid_request"),
    ] {
        assert_eq!(
            (reply.status, reply.code().as_str(), reply.header("content-type")),
            (status, code, "application/problem+json"),
            "{reply:?}"
        );
        assert_eq!(reply.json()["request_id"], reply.header("x-request-id"));
        assert_eq!(reply.json()["status"], status);
    }
    assert_eq!((shop.count("SOLD"), shop.orders()), (0, 0));
}

#[test]
fn a_fault_of_ours_says_nothing_of_the_inside() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 1)]);
    shop.sql("ALTER TABLE tickets RENAME TO elsewhere");
    let failed = shop.buy(1);
    assert_eq!((failed.status, failed.code().as_str()), (500, "internal"));
    assert!(!failed.body.contains("tickets") && !failed.body.contains("relation"), "{}", failed.body);
    shop.sql("ALTER TABLE elsewhere RENAME TO tickets");
    assert_eq!(shop.buy(1).status, 201);
}

#[test]
fn a_body_that_stalls_is_given_up_and_sells_nothing() {
    let shop = Shop::open_with(|config| config.body_wait = Duration::from_millis(300));
    shop.gala(&[("standard", 4_500, 1)]);
    let mut stream = TcpStream::connect(shop.client.base.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = format!(
        "POST /api/v1/events/gala/orders HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: 200\r\n\r\n{{\"buyer\":",
        shop.key
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
    assert_eq!((shop.count("SOLD"), shop.orders()), (0, 0));
}

#[test]
fn a_client_that_goes_away_in_the_middle_of_its_body_changes_nothing() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 1)]);
    let mut stream = TcpStream::connect(shop.client.base.trim_start_matches("http://")).unwrap();
    let head = format!(
        "POST /api/v1/events/gala/orders HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: 200\r\n\r\n{{",
        shop.key
    );
    stream.write_all(head.as_bytes()).unwrap();
    drop(stream);
    assert_eq!(shop.buy(1).status, 201, "the next one is served");
    assert_eq!(shop.orders(), 1);
}
