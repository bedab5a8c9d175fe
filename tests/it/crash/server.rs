//! The server is killed, or told to end, while people buy.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use super::buyers::{Crowd, TICKETS, reconcile};
use crate::support::{Client, Process, Shop, wait_until};

const BUYERS: usize = 10;
/// Sales to see between two kills: enough for every buyer to have some under way.
const SALES_BETWEEN: usize = 60;

/// A shop whose customers come through a server in a process of its own, which can be another one after a while.
struct Counter {
    shop: Shop,
    server: Mutex<Option<Process>>,
    client: Mutex<Client>,
}

impl Counter {
    fn open() -> Self {
        let shop = Shop::open();
        shop.gala(&[("standard", 4_500, TICKETS)]);
        let client = Mutex::new(shop.client.clone());
        let counter = Self { shop, server: Mutex::new(None), client };
        counter.start();
        counter
    }

    fn start(&self) {
        let server = Process::serve(&["--database-url", self.shop.database.url()]);
        *self.client.lock().unwrap() = server.client().with_key(&self.shop.key);
        *self.server.lock().unwrap() = Some(server);
    }

    fn take(&self) -> Process {
        self.server.lock().unwrap().take().unwrap()
    }

    fn client(&self) -> Client {
        self.client.lock().unwrap().clone()
    }
}

#[test]
fn a_server_that_is_killed_again_and_again_loses_no_sale_and_makes_none_twice() {
    const KILLS: usize = 4;
    let (counter, crowd) = (Counter::open(), Crowd::default());
    let sales = crowd.buy(BUYERS, &|| counter.client(), || {
        for _ in 0..KILLS {
            let sold = crowd.sold();
            wait_until("people buy", || crowd.sold() >= sold + SALES_BETWEEN);
            counter.take().kill();
            counter.start();
        }
    });
    assert!(crowd.unanswered() > 0, "the kills are to hit purchases under way");
    crowd.assert_nothing_wrong();
    reconcile(&mut counter.shop.database.connect(), &sales);
}

#[test]
fn a_server_that_is_told_to_end_under_load_ends_in_ten_seconds_and_keeps_what_it_sold() {
    let (counter, crowd) = (Counter::open(), Crowd::default());
    let sales = crowd.buy(BUYERS, &|| counter.client(), || {
        wait_until("people buy", || crowd.sold() >= SALES_BETWEEN);
        let told = Instant::now();
        let status = counter.take().terminate();
        assert!(status.success(), "{status}");
        assert!(told.elapsed() < Duration::from_secs(10), "it took {:?}", told.elapsed());
        counter.start();
    });
    crowd.assert_nothing_wrong();
    reconcile(&mut counter.shop.database.connect(), &sales);
}
