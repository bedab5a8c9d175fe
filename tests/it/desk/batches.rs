//! What is sold together does not fall together.

use std::{task::Poll, thread, time::Duration};

use diesel::connection::SimpleConnection;
use serde_json::json;

use boxoffice::{
    db::{DatabaseSettings, Db, DbError},
    orders::{Caller, Desk, IdempotencyKey, LineInput, OrderError, Outcome, PurchaseInput, Request, SaleLimits, Taking},
};

use crate::support::{Process, Shop, at_once, order, wait_until};

/// Makes every sale stand still in the middle, so that what comes meanwhile is queued, until [`go_on`].
fn stand_still(shop: &Shop) {
    shop.sql(
        "CREATE TABLE standstill AS SELECT true AS yes; \
         CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
           WHILE EXISTS (SELECT FROM standstill) LOOP PERFORM pg_sleep(0.005); END LOOP; RETURN NULL; END $$; \
         CREATE TRIGGER wait BEFORE INSERT ON orders FOR EACH STATEMENT EXECUTE FUNCTION wait()",
    );
}

fn go_on(shop: &Shop) {
    shop.sql("DELETE FROM standstill");
}

fn named(name: &str, quantity: i64) -> serde_json::Value {
    let mut body = order(quantity);
    body["buyer"]["name"] = json!(name);
    body
}

#[test]
fn an_order_that_the_database_refuses_takes_no_other_down_with_it() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 100)]);
    shop.sql(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not Mallory'; END $$; \
         CREATE TRIGGER refuse BEFORE INSERT ON orders FOR EACH ROW WHEN (NEW.buyer_name = 'Mallory') EXECUTE FUNCTION refuse()",
    );
    let replies = at_once(40, |number| {
        let name = if number == 7 { "Mallory" } else { "Ada" };
        shop.client.post("/api/v1/events/gala/orders", &named(name, 1))
    });
    assert_eq!(replies[7].status, 500);
    assert_eq!(replies.iter().filter(|reply| reply.status == 201).count(), 39);
    assert_eq!((shop.count("SOLD"), shop.orders()), (39, 39));
}

#[test]
fn each_of_a_batch_gets_its_own_answer() {
    let shop = Shop::open();
    shop.event("gala", json!({"max_per_order": 20}), &[("standard", 4_500, 30)]);
    let path = "/api/v1/events/gala/orders";
    let replies = at_once(32, |number| match number % 4 {
        0 => shop.client.post_keyed(path, "the-same", &order(2)),
        1 => shop.client.post(path, &order(21)),
        2 => shop.client.post(path, &crate::support::order_of(&[("balcony", 1)])),
        _ => shop.client.post(path, &order(3)),
    });
    let statuses = |kind: usize| replies.iter().skip(kind).step_by(4).map(|reply| reply.status).collect::<Vec<_>>();
    assert_eq!((statuses(0), statuses(1), statuses(2)), (vec![201; 8], vec![409; 8], vec![422; 8]));
    assert_eq!(statuses(3), [201; 8]);
    assert_eq!((shop.orders(), shop.count("SOLD")), (9, 2 + 8 * 3));
}

#[test]
fn a_large_order_that_does_not_fit_does_not_stop_the_smaller_ones() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 20)]);
    let replies = at_once(11, |number| shop.buy(if number == 0 { 21 } else { 2 }));
    assert_eq!(replies[0].status, 409);
    assert!(replies[1..].iter().all(|reply| reply.status == 201), "{replies:?}");
}

#[test]
fn a_buyer_who_hung_up_is_served_and_finds_the_order_by_key() {
    use std::{io::Write, net::TcpStream};
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    stand_still(&shop);
    let body = order(2).to_string();
    let mut stream = TcpStream::connect(shop.client.base.trim_start_matches("http://")).unwrap();
    write!(
        stream,
        "POST /api/v1/events/gala/orders HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nIdempotency-Key: gone\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        shop.key,
        body.len()
    )
    .unwrap();
    wait_until("the sale is under way", || shop.is_in_a_sale());
    drop(stream);
    go_on(&shop);
    wait_until("the order is stored", || shop.orders() == 1);
    assert_eq!(shop.client.post_keyed("/api/v1/events/gala/orders", "gone", &order(2)).status, 201);
    assert_eq!((shop.orders(), shop.count("SOLD")), (1, 2));
}

fn request(ticket_type: &str) -> Request {
    let input = PurchaseInput {
        buyer_name: Some("Ada".into()),
        buyer_email: Some("ada@example.org".into()),
        lines: vec![LineInput { ticket_type: Some(ticket_type.into()), quantity: Some(1) }],
        accept_fewer: false,
    };
    Request { purchase: input.parse().unwrap(), caller: Caller::Web, key: None, taking: Taking::Sell }
}

/// Lets `buyers` come to a desk of the test's own, one after the other, while it cannot commit; calls `meanwhile` when all are there, and
/// tells what became of each, in the order in which they came.
fn crowd(shop: &Shop, buyers: impl Iterator<Item = Request>, meanwhile: impl FnOnce(&Desk)) -> Vec<Outcome> {
    // A debug build on a busy machine may take longer than a buyer would wait.
    let patient = DatabaseSettings { answer_timeout: Duration::from_secs(120), ..DatabaseSettings::at(shop.database.url()) };
    let db = Db::new(patient);
    db.set_prepared();
    let desk = Desk::open(&db, &shop.clock, SaleLimits::default());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    // The desk looks an event up before its first purchase, and only then: from here on, whoever was polled once is in the queue, or was
    // turned away.
    let refused = runtime.block_on(desk.sell("gala".to_owned(), request("balcony")));
    assert!(matches!(refused, Err(OrderError::Invalid(_))), "{refused:?}");
    stand_still(shop);
    let sales: Vec<_> = runtime.block_on(async {
        let mut sales = Vec::new();
        for buyer in buyers {
            let desk = desk.clone();
            let mut sale = Box::pin(async move { desk.sell("gala".to_owned(), buyer).await });
            sales.push(match futures_util::poll!(&mut sale) {
                Poll::Ready(outcome) => tokio::spawn(async { outcome }),
                Poll::Pending => tokio::spawn(sale),
            });
        }
        sales
    });
    wait_until("the first sale is under way", || shop.is_in_a_sale());
    go_on(shop);
    meanwhile(&desk);
    let outcomes = sales.into_iter().map(|sale| runtime.block_on(sale).unwrap()).collect();
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcomes
}

/// Buyers of one ticket each.
fn singles(count: usize) -> impl Iterator<Item = Request> {
    std::iter::repeat_with(|| request("standard")).take(count)
}

/// How many of them got their ticket, and how many were told that the desk is busy.
fn sold_and_busy(outcomes: &[Outcome]) -> (usize, usize) {
    let sold = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    (sold, outcomes.iter().filter(|outcome| matches!(outcome, Err(OrderError::Db(DbError::Busy(_))))).count())
}

#[test]
fn who_comes_first_gets_the_lower_ticket_whichever_seller_serves() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 2_000)]);
    let outcomes = crowd(&shop, singles(2_000), |_| {});
    let positions: Vec<i32> = outcomes.into_iter().map(|outcome| outcome.unwrap().order.positions[0]).collect();
    assert_eq!(positions, (1..=2_000).collect::<Vec<i32>>());
}

#[test]
fn who_asks_for_an_event_that_is_not_there_takes_no_turn_at_a_desk() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 10)]);
    stand_still(&shop);
    thread::scope(|scope| {
        // One after the other, so that each of the desk's two sellers has one.
        let sales = [1, 2].map(|sellers| {
            let sale = scope.spawn(|| shop.buy(1));
            wait_until("the sale is under way", || shop.sales_under_way() == sellers);
            sale
        });
        // There are two desks, and some of these would go to the one that stands still.
        for number in 0..16 {
            let reply = shop.client.post(&format!("/api/v1/events/nosuch-{number}/orders"), &order(1));
            assert_eq!((reply.status, reply.code().as_str()), (404, "not_found"));
        }
        go_on(&shop);
        for sale in sales {
            assert_eq!(sale.join().unwrap().status, 201);
        }
    });
}

#[test]
fn a_full_queue_turns_away_at_once_and_serves_everybody_in_it() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 6_000)]);
    let (sold, busy) = sold_and_busy(&crowd(&shop, singles(5_000), |_| {}));
    // 4,096 in the queue, and up to two batches of 256 that were taken from it before it was full.
    assert_eq!(sold + busy, 5_000);
    assert!((4_096..=4_608).contains(&sold), "{sold}");
    assert_eq!(shop.orders(), i64::try_from(sold).unwrap());
}

#[test]
fn a_desk_that_closes_serves_what_is_queued() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 500)]);
    let (sold, busy) = sold_and_busy(&crowd(&shop, singles(300), Desk::close));
    assert_eq!((sold, busy, shop.orders()), (300, 0, 300));
}

#[test]
fn a_server_that_ends_answers_everybody_although_its_database_does_not() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 100)]);
    let path = "/api/v1/events/gala/orders";
    let server = Process::serve(&["--database-url", shop.database.url()]);
    let client = server.client().with_key(&shop.key);
    assert_eq!(client.post(path, &order(1)).status, 201);
    stand_still(&shop);
    let replies = thread::scope(|scope| {
        let buy = |number: usize| client.post_keyed(path, &format!("k-{number}"), &order(1));
        let mut buyers: Vec<_> = (0..20).map(|number| scope.spawn(move || buy(number))).collect();
        wait_until("both sellers have begun", || shop.sales_under_way() == 2);
        // Whoever comes now waits in the queue. That the server answers something else says that it has read what came before.
        buyers.extend((20..40).map(|number| scope.spawn(move || buy(number))));
        (0..5).for_each(|_| assert_eq!(client.get("/livez").status, 200));
        assert!(server.terminate().success());
        buyers.into_iter().map(|buyer| buyer.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(replies.iter().all(|reply| reply.status == 503), "{replies:?}");
    // Some were refused, and some may have been sold: the key tells.
    assert!(replies.iter().any(|reply| reply.code() == "busy") && replies.iter().any(|reply| reply.code() == "unavailable"), "{replies:?}");
    go_on(&shop);
    for number in 0..40 {
        assert_eq!(shop.client.post_keyed(path, &format!("k-{number}"), &order(1)).status, 201);
    }
    assert_eq!((shop.orders(), shop.count("SOLD")), (41, 41));
}

#[test]
fn a_key_whose_first_use_was_refused_is_free_for_another_request_of_the_same_batch() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 20)]);
    let keyed = |number: usize| {
        let key = Some(IdempotencyKey { key: format!("k-{}", number / 2), request_hash: vec![u8::try_from(number % 2).unwrap()] });
        Request { key, ..request(if number.is_multiple_of(2) { "balcony" } else { "standard" }) }
    };
    for (number, outcome) in crowd(&shop, (0..40).map(keyed), |_| {}).into_iter().enumerate() {
        match number % 2 {
            0 => assert!(matches!(outcome, Err(OrderError::Invalid(_))), "{outcome:?}"),
            _ => assert!(outcome.is_ok(), "{outcome:?}"),
        }
    }
}

#[test]
fn a_table_that_somebody_keeps_makes_the_desk_busy_and_not_for_minutes() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 50)]);
    let mut holder = shop.database.connect();
    holder.batch_execute("BEGIN; LOCK TABLE orders IN EXCLUSIVE MODE").unwrap();
    let replies = at_once(40, |_| shop.buy(1));
    assert!(replies.iter().all(|reply| reply.status == 503 && reply.code() == "busy"), "{replies:?}");
    holder.batch_execute("ROLLBACK").unwrap();
    assert_eq!(shop.buy(1).status, 201);
}

#[test]
fn a_key_that_a_transaction_elsewhere_keeps_is_in_progress_and_stops_nobody_else() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 50)]);
    let path = "/api/v1/events/gala/orders";
    let first = shop.client.post_keyed(path, "first", &order(1)).json();
    let mut holder = shop.database.connect();
    // The same partner's key, being stored by another process that takes its time.
    holder
        .batch_execute(&format!(
            "BEGIN; INSERT INTO orders SELECT (jsonb_populate_record(o, jsonb_build_object('id', gen_random_uuid(), 'idempotency_key', 'slow', \
             'status', 'CANCELLED', 'positions', '{{49}}'::int[]))).* FROM orders o WHERE id = '{}'",
            first["id"].as_str().unwrap()
        ))
        .unwrap();
    let replies = at_once(10, |number| if number == 0 { shop.client.post_keyed(path, "slow", &order(1)) } else { shop.buy(1) });
    assert_eq!((replies[0].status, replies[0].code().as_str()), (409, "idempotency_in_progress"), "{:?}", replies[0]);
    assert!(replies[1..].iter().all(|reply| reply.status == 201), "{replies:?}");
    holder.batch_execute("ROLLBACK").unwrap();
    assert_eq!(shop.client.post_keyed(path, "slow", &order(1)).status, 201);
}
