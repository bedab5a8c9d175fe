//! `kill -9` at random moments, a hundred times: of the server, of its database, and of both, while people buy, hold, confirm and give
//! back. Afterwards each buyer finds out what became of each request, and answers and database are compared to the row.

use std::{thread, time::Duration};

use boxoffice::orders::audit;
use rand::RngExt;

use super::{
    buyers::{Crowd, TICKETS, reconcile},
    counter::Counter,
    data_dir::{DataDir, put_gala_on_sale},
};
use crate::support::{Process, Shop, signal, wait_until};

const BUYERS: usize = 8;
/// Kills of the server, on a database that stays.
const SERVER_KILLS: usize = 70;
/// Kills of the postmaster; every third time the server is killed with it.
const DATABASE_KILLS: usize = 30;
/// Requests to see served between two kills, so that every buyer is in the middle of something.
const SERVED_BETWEEN: usize = 24;
/// Longest pause before a kill: a few requests, so that it may come at any moment of one.
const PAUSE_MAX: Duration = Duration::from_millis(25);

/// Returns at a moment that nobody can foresee, while people buy.
fn at_some_moment(crowd: &Crowd) {
    crowd.wait_until_served(SERVED_BETWEEN);
    thread::sleep(rand::rng().random_range(Duration::ZERO..PAUSE_MAX));
}

#[test]
fn a_server_that_is_killed_again_and_again_loses_nothing_and_does_nothing_twice() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, TICKETS)]);
    let counter = Counter::open(&shop.key, || Process::serve(&["--database-url", shop.database.url()]));
    let crowd = Crowd::default();
    let deals = crowd.buy(BUYERS, &|| counter.client(), || {
        for _ in 0..SERVER_KILLS {
            at_some_moment(&crowd);
            counter.take().kill();
            counter.start();
        }
    });
    println!("{SERVER_KILLS} kills of the server, {} orders: {crowd}", deals.len());
    assert!(crowd.unanswered() > 0, "the kills are to hit requests under way");
    reconcile(&mut shop.database.connect(), &deals);
}

#[test]
fn a_database_that_is_killed_again_and_again_loses_nothing_and_does_nothing_twice() {
    let data = DataDir::new();
    let counter = Counter::open(&data.partner_key("tester"), || data.serve(&[]));
    put_gala_on_sale(&counter.client(), TICKETS);
    let crowd = Crowd::default();
    let deals = crowd.buy(BUYERS, &|| counter.client(), || {
        for round in 0..DATABASE_KILLS {
            at_some_moment(&crowd);
            let killed = data.postmaster().unwrap();
            let with_server = (round % 3 == 2).then(|| counter.take());
            signal(killed, "KILL");
            if let Some(server) = with_server {
                server.kill();
                counter.start();
            }
            wait_until("it is started again", || data.postmaster().is_some_and(|pid| pid != killed));
        }
    });
    println!("{DATABASE_KILLS} kills of the database, {} with the server, {} orders: {crowd}", DATABASE_KILLS / 3, deals.len());
    assert!(crowd.turned_away() > 0, "the kills are to be noticed");
    let holder = data.hold();
    reconcile(&mut holder.connect(), &deals);
    assert_eq!(audit(&mut holder.connect()).unwrap().breaches, []);
}
