//! The audit finds what is broken, and names it.

use boxoffice::orders::audit;
use serde_json::json;

use crate::support::{Process, Shop, order};

/// What breaks a promise behind the product's back, and which one the audit then names.
const BREAKS: &[(&str, &str)] = &[
    (
        "UPDATE orders SET positions = '{1,2}' WHERE positions = '{3}'; UPDATE orders SET positions = '{3}' WHERE positions = '{4}'",
        "a ticket belongs to at most one live order",
    ),
    ("DELETE FROM orders WHERE positions = '{3}'", "a taken ticket has a live order of the same state that names it"),
    ("UPDATE tickets SET status = 'AVAILABLE', order_id = NULL, code = NULL WHERE position = 1", "a live order has exactly its tickets"),
    (
        "UPDATE tickets SET ticket_type_id = (SELECT id FROM ticket_types WHERE code = 'vip') WHERE position = 1",
        "a live order has of each ticket type what was agreed",
    ),
    ("UPDATE orders SET total_minor = 1 WHERE positions = '{3}'", "an order's quantity and total are those of its lines"),
    ("UPDATE tickets SET code = NULL WHERE position = 1", "a ticket's columns are those of its state"),
    ("UPDATE tickets SET used_at = now() WHERE position = 9", "a ticket's columns are those of its state"),
    ("UPDATE tickets SET held_until = held_until + interval '1 h' WHERE position = 5", "a held ticket is kept until its order's deadline"),
    ("UPDATE orders SET status = 'EXPIRED' WHERE positions = '{6}'", "an order that changed says so in its history"),
    ("DELETE FROM order_history", "an order that changed says so in its history"),
    ("UPDATE orders SET expires_at = NULL WHERE status = 'HELD'", "an order's columns are those of its state"),
    ("UPDATE orders SET cancelled_quantity = 1 WHERE positions = '{3}'", "an order's columns are those of its state"),
    ("UPDATE orders SET idempotency_key = 'k', request_hash = '' WHERE positions <> '{6}'", "a key has one order"),
    ("UPDATE tickets SET ticket_type_id = gen_random_uuid() WHERE position = 9", "a ticket is of an event and a type that exist"),
    ("UPDATE orders SET currency = 'USD' WHERE positions = '{3}'", "an order is of an event that exists, in its currency"),
    ("UPDATE tickets SET seat = '1' WHERE position >= 9", "a seat exists once"),
    ("UPDATE jobs SET is_head = false", "where jobs of a group wait, one is next"),
];

/// Everything that would refuse such a thing; the audit does not count on it.
const UNGUARD: &str = "DO $$ DECLARE guard record; BEGIN \
    FOR guard IN SELECT conrelid::regclass AS on_table, conname FROM pg_constraint \
        WHERE conrelid IN ('tickets'::regclass, 'orders'::regclass) AND contype = 'c' \
    LOOP EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', guard.on_table, guard.conname); END LOOP; END $$; \
    DROP INDEX tickets_seat_key, orders_idempotency_key; \
    CREATE TABLE kept_tickets AS TABLE tickets; CREATE TABLE kept_orders AS TABLE orders; CREATE TABLE kept_history AS TABLE order_history";

const RESTORE: &str = "TRUNCATE tickets, orders, order_history; INSERT INTO tickets TABLE kept_tickets; \
    INSERT INTO orders TABLE kept_orders; INSERT INTO order_history TABLE kept_history; UPDATE jobs SET is_head = true";

/// Orders in each state: sold (1 and 2; 3; 4), held (5), given back (6).
fn shop() -> Shop {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 10), ("vip", 9_000, 1)]);
    for quantity in [2, 1, 1] {
        assert_eq!(shop.buy(quantity).status, 201);
    }
    assert_eq!(shop.client.post("/api/v1/events/gala/holds", &order(1)).status, 201);
    let back = shop.buy(1).header("location").to_owned();
    assert_eq!(shop.client.post(&format!("{back}/cancel"), &json!({})).status, 200);
    shop
}

#[test]
fn every_promise_that_is_broken_is_named() {
    let shop = shop();
    shop.audit();
    shop.sql(UNGUARD);
    for (broken, check) in BREAKS {
        shop.sql(broken);
        let report = audit(&mut shop.database.connect()).unwrap();
        assert!(report.breaches.iter().any(|breach| breach.check == *check), "{broken}: {:#?}", report.breaches);
        shop.sql(RESTORE);
    }
}

#[test]
fn the_command_names_the_rows_and_ends_with_one() {
    let shop = shop();
    let run = || Process::command().args(["audit", "--database-url", shop.database.url()]).output().unwrap();
    let fine = run();
    assert!(fine.status.success() && String::from_utf8_lossy(&fine.stdout).starts_with("All is well"), "{fine:?}");
    shop.sql("UPDATE orders SET total_minor = 1 WHERE positions = '{3}'");
    let broken = run();
    let said = String::from_utf8_lossy(&broken.stdout).into_owned();
    assert_eq!(broken.status.code(), Some(1));
    assert!(said.contains("BREACH: an order's quantity and total are those of its lines: event "), "{said}");
    shop.sql("UPDATE orders SET total_minor = 4500 WHERE positions = '{3}'");
}
