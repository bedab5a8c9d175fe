//! The connection breaks at COMMIT: the buyers get their true orders all the same.

use serde_json::json;

use crate::support::{Cut, Process, Proxy, Shop, at_once, order, order_of};

fn everybody_gets_one_order_although_the_connection_breaks(cut: Cut) {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 40)]);
    let proxy = Proxy::to(&shop.database);
    let server = Process::serve(&["--database-url", &proxy.url(&shop.database)]);
    let client = server.client().with_key(&shop.key);
    // Without a key the order's own id is what finds it.
    assert_eq!(client.post("/api/v1/events/gala/orders", &order(1)).status, 201);
    proxy.cut_next(cut);
    let replies = at_once(16, |number| match number % 2 {
        0 => client.post("/api/v1/events/gala/orders", &order(2)),
        _ => client.post_keyed("/api/v1/events/gala/orders", &format!("k-{number}"), &order(2)),
    });
    assert_eq!(proxy.cuts(), 1);
    assert!(replies.iter().all(|reply| reply.status == 201), "{replies:?}");
    assert_eq!((shop.orders(), shop.count("SOLD")), (17, 33));
    for reply in replies {
        let order = reply.json();
        let stored = shop.client.get(&format!("/api/v1/events/gala/orders/{}", order["id"].as_str().unwrap()));
        assert_eq!(stored.json(), order, "what was answered is what is stored");
    }
}

#[test]
fn a_commit_whose_answer_is_lost_is_found_again() {
    everybody_gets_one_order_although_the_connection_breaks(Cut::AfterCommit);
}

#[test]
fn a_commit_that_never_arrived_is_made_up_for() {
    everybody_gets_one_order_although_the_connection_breaks(Cut::BeforeCommit);
}

/// Nobody else can have the last tickets, and the buyer is told of a sale that is only ending: by its own id, since there is no key.
#[test]
fn the_last_tickets_are_their_buyer_s_although_the_answer_to_commit_is_lost() {
    for (stock, bought, accept_fewer) in [(2, 2, false), (4, 3, false), (3, 2, true)] {
        let shop = Shop::open();
        shop.event("gala", json!({}), &[("standard", 4_500, stock), ("vip", 9_000, 1)]);
        let proxy = Proxy::to(&shop.database);
        let server = Process::serve(&["--database-url", &proxy.url(&shop.database)]);
        let client = server.client().with_key(&shop.key);
        let path = "/api/v1/events/gala/orders";
        assert_eq!(client.post(path, &order_of(&[("vip", 1)])).status, 201);
        // Each COMMIT of an order takes its time, so that the next try meets the one before.
        shop.sql(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.5); RETURN NULL; END $$; \
             CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()",
        );
        proxy.cut_next(Cut::AfterCommit);
        let mut body = order(bought);
        body["accept_fewer"] = json!(accept_fewer);
        let reply = client.post(path, &body);
        assert_eq!(proxy.cuts(), 1);
        assert_eq!(reply.status, 201, "{bought} of {stock}: {reply:?}");
        assert_eq!((shop.orders(), shop.count("SOLD")), (2, bought + 1), "{bought} of {stock}");
    }
}
