//! The server is told to end while people buy. Being killed is in `rounds`.

use std::time::{Duration, Instant};

use super::{
    buyers::{Crowd, TICKETS, reconcile},
    counter::Counter,
};
use crate::support::{Process, Shop};

const BUYERS: usize = 10;
/// Requests to see served before: enough for every buyer to have some under way.
const SERVED: usize = 60;

#[test]
fn a_server_that_is_told_to_end_under_load_ends_in_ten_seconds_and_keeps_what_it_sold() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, TICKETS)]);
    let counter = Counter::open(&shop.key, || Process::serve(&["--database-url", shop.database.url()]));
    let crowd = Crowd::default();
    let deals = crowd.buy(BUYERS, &|| counter.client(), || {
        crowd.wait_until_served(SERVED);
        let told = Instant::now();
        let status = counter.take().terminate();
        assert!(status.success(), "{status}");
        assert!(told.elapsed() < Duration::from_secs(10), "it took {:?}", told.elapsed());
        counter.start();
    });
    reconcile(&mut shop.database.connect(), &deals);
}
