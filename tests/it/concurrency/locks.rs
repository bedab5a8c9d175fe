//! Somebody else has the last rows locked: the answer waits for them, and is then exact.

use std::{thread, time::Duration};

use diesel::connection::SimpleConnection;

use crate::support::{Shop, wait_until};

const LOCK_FIVE: &str = "BEGIN; SELECT FROM tickets WHERE status = 'AVAILABLE' FOR UPDATE";

/// Sells to one buyer while another session has every row locked, and ends that session's transaction as soon as the buyer waits.
fn buy_while_locked(shop: &Shop, quantity: i64, end: &str) -> crate::support::Reply {
    let mut holder = shop.database.connect();
    holder.batch_execute(LOCK_FIVE).unwrap();
    thread::scope(|scope| {
        let buyer = scope.spawn(|| shop.buy(quantity));
        wait_until("the buyer waits for the rows", || shop.waits_for_a_lock());
        holder.batch_execute(end).unwrap();
        buyer.join().unwrap()
    })
}

#[test]
fn the_holder_rolls_back_and_the_buyer_gets_three() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let bought = buy_while_locked(&shop, 3, "ROLLBACK");
    assert_eq!((bought.status, shop.count("SOLD")), (201, 3), "{bought:?}");
}

#[test]
fn the_holder_commits_them_sold_and_the_buyer_is_told_the_exact_rest() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    // What the holder sells is an order like any other, so that the audit at the end holds.
    let sell_three = "INSERT INTO orders (event_id, id, status, buyer_name, buyer_email, items, positions, quantity, requested_quantity, \
          total_minor, currency, channel, access_key, idempotency_scope, created_at) \
        SELECT id, gen_random_uuid(), 'SOLD', 'Eve', 'eve@example.org', \
          '[{\"ticket_type\": \"standard\", \"name\": \"standard\", \"quantity\": 3, \"unit_price_minor\": 4500}]', '{1,2,3}', 3, 3, 13500, 'EUR', 'web', \
          'x', 'web', now() FROM events; \
        UPDATE tickets SET status = 'SOLD', order_id = (SELECT id FROM orders), code = 'x' WHERE position <= 3; COMMIT";
    let refused = buy_while_locked(&shop, 3, sell_three);
    assert_eq!(
        (refused.status, refused.code().as_str(), refused.json()["available"].as_i64()),
        (409, "too_few_left", Some(2)),
        "{refused:?}"
    );
}

#[test]
fn rows_that_stay_locked_make_the_answer_busy_and_not_sold_out() {
    let shop = Shop::open_with(|config| config.sale_limits.lock_wait = Duration::from_millis(100));
    shop.gala(&[("standard", 4_500, 5)]);
    let mut holder = shop.database.connect();
    holder.batch_execute(LOCK_FIVE).unwrap();
    let refused = shop.buy(3);
    assert_eq!((refused.status, refused.code().as_str()), (503, "busy"), "{refused:?}");
    assert!(!refused.header("retry-after").is_empty());
    holder.batch_execute("ROLLBACK").unwrap();
    assert_eq!(shop.buy(3).status, 201);
}

#[test]
fn rows_that_are_free_are_sold_without_waiting_for_those_that_are_locked() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 8)]);
    let mut holder = shop.database.connect();
    holder.batch_execute("BEGIN; SELECT FROM tickets WHERE position <= 5 FOR UPDATE").unwrap();
    let bought = shop.buy(3).json();
    assert_eq!(bought["tickets"][0]["position"], 6, "{bought}");
    holder.batch_execute("ROLLBACK").unwrap();
}
