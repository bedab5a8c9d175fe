//! Holds, seen by many at once and by others who have rows locked.

use std::thread;

use boxoffice::orders::expire_everywhere;
use chrono::TimeDelta;
use diesel::connection::SimpleConnection;
use serde_json::json;

use crate::support::{Reply, Shop, at_once, order, wait_until};

const HOLDS: &str = "/api/v1/events/gala/holds";

fn shop_with(tickets: i64) -> Shop {
    let shop = Shop::open();
    shop.clock.set("2027-01-05T10:00:00Z".parse().unwrap());
    shop.gala(&[("standard", 4_500, tickets)]);
    shop
}

fn pass(shop: &Shop, seconds: i64) {
    shop.clock.set(shop.clock.now() + TimeDelta::seconds(seconds));
}

fn hold(shop: &Shop, quantity: i64) -> String {
    let mut body = order(quantity);
    body["ttl_seconds"] = json!(60);
    let held = shop.client.post(HOLDS, &body);
    assert_eq!(held.status, 201, "{held:?}");
    held.header("location").to_owned()
}

fn call(shop: &Shop, path: &str, what: &str) -> Reply {
    shop.client.send("POST", &format!("{path}/{what}"), &[], b"")
}

#[test]
fn a_hundred_holds_that_are_over_go_to_a_hundred_buyers_at_once() {
    let shop = shop_with(100);
    (0..50).for_each(|_| drop(hold(&shop, 2)));
    pass(&shop, 60);
    let replies = at_once(60, |_| shop.buy(2));
    assert_eq!(replies.iter().filter(|reply| reply.status == 201).count(), 50);
    assert_eq!(replies.iter().filter(|reply| reply.status == 409 && reply.code() == "sold_out").count(), 10);
    assert_eq!((shop.count("SOLD"), shop.count("HELD")), (100, 0));
}

/// The hold is being confirmed late by another process at this very moment: whether its tickets are left is not known before that ends.
#[test]
fn a_hold_that_somebody_has_locked_is_waited_for_before_anybody_is_told_sold_out() {
    for (end, expected) in [("ROLLBACK", 201), ("COMMIT", 409)] {
        let shop = shop_with(2);
        hold(&shop, 2);
        pass(&shop, 60);
        let mut holder = shop.database.connect();
        // What another process does that confirms it.
        let confirm = "BEGIN; SELECT FROM orders FOR UPDATE; UPDATE orders SET status = 'SOLD'; \
            UPDATE tickets SET status = 'SOLD', held_until = NULL, code = position || '-x'; \
            INSERT INTO order_history (event_id, order_id, number, at, actor_kind, change, positions) \
              SELECT event_id, id, 1, now(), 'buyer', 'confirm', positions FROM orders";
        holder.batch_execute(confirm).unwrap();
        let reply = thread::scope(|scope| {
            let buyer = scope.spawn(|| shop.buy(2));
            wait_until("the buyer waits for the hold", || shop.waits_for_a_lock());
            holder.batch_execute(end).unwrap();
            buyer.join().unwrap()
        });
        assert_eq!(reply.status, expected, "{end}: {reply:?}");
        assert_eq!(shop.count("SOLD"), 2);
    }
}

/// Everything that can happen to a hold, at once: each has one outcome, and the tickets add up.
#[test]
fn confirm_release_expire_and_sales_that_need_them_at_once() {
    for _ in 0..4 {
        let shop = shop_with(20);
        let holds: Vec<String> = (0..15).map(|_| hold(&shop, 1)).collect();
        pass(&shop, 60);
        let replies = at_once(46, |number| match number {
            0..15 => Some(call(&shop, &holds[number], "confirm")),
            15..30 => Some(call(&shop, &holds[number - 15], "cancel")),
            30..45 => Some(shop.buy(1)),
            _ => {
                expire_everywhere(&mut shop.database.connect(), shop.clock.now()).unwrap();
                None
            }
        });
        for reply in replies.iter().flatten() {
            let code = if reply.status < 400 { String::new() } else { reply.code() };
            let outcomes = [(200, ""), (201, ""), (409, "order_cancelled"), (409, "sold_out"), (410, "hold_expired")];
            assert!(outcomes.contains(&(reply.status, code.as_str())), "{reply:?}");
        }
        let taken = replies.iter().flatten().filter(|reply| reply.status == 200 && reply.json()["status"] == "sold").count();
        assert!(taken <= 15, "{taken} confirmed");
    }
}

/// Two who both give the same tickets back: the second finds it done, and the tickets are not freed under their next owner.
#[test]
fn two_cancels_of_one_order_at_once_free_its_tickets_once() {
    let shop = shop_with(2);
    for _ in 0..10 {
        let bought = shop.buy(2);
        let path = bought.header("location").to_owned();
        let replies = at_once(6, |number| if number < 4 { call(&shop, &path, "cancel") } else { shop.buy(2) });
        assert!(replies[..4].iter().all(|reply| reply.status == 200), "{replies:?}");
        let sold: Vec<&Reply> = replies[4..].iter().filter(|reply| reply.status == 201).collect();
        assert!(sold.len() <= 1, "two tickets, two orders of two");
        shop.audit();
        for reply in sold {
            assert_eq!(call(&shop, reply.header("location"), "cancel").status, 200);
        }
        assert_eq!(shop.count("AVAILABLE"), 2);
    }
}
