//! The connection breaks at COMMIT: the buyers get their true orders all the same.

use crate::support::{Cut, Process, Proxy, Shop, at_once, order};

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
