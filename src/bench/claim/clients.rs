//! The clients: each buys, and again as soon as it is answered, until the time is up.

use std::{
    future::Future,
    thread,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use tokio::runtime::{Builder, Runtime};

use super::{ClaimError, Way};
use crate::{bench::halt::Halt, db::Db};

/// Most attempts at one purchase.
const ATTEMPTS_MAX: u32 = 100_000;
/// Longest time after the end in which a purchase that was begun before it is still tried again.
const GRACE: Duration = Duration::from_secs(10);
/// Time for the threads to be there before the clock starts.
const START_DELAY: Duration = Duration::from_millis(50);

/// One way, one number of clients.
pub(super) struct Run<'a> {
    /// The scratch database.
    pub(super) db: &'a Db,
    /// How the tickets are taken.
    pub(super) way: Way,
    /// How many buy at the same time.
    pub(super) clients: u16,
    /// For how long.
    pub(super) secs: u64,
    /// How many tickets there are.
    pub(super) tickets: u32,
    /// Whether the role may make a checkpoint before each run.
    pub(super) checkpoints: bool,
    /// Whether to stop early.
    pub(super) halt: &'a Halt,
}

/// What became of one attempt at a purchase.
pub(super) enum Attempt {
    /// The buyer was told that these tickets are theirs.
    Sold(Vec<i32>),
    /// Nothing was taken, and the same again may succeed.
    Missed,
    /// Too few are left for one purchase.
    SoldOut,
}

/// Whoever can try to buy.
pub(super) trait Buyer {
    /// One attempt at one purchase.
    fn attempt(&mut self) -> impl Future<Output = Result<Attempt, ClaimError>>;
}

/// What all clients of a run saw.
#[derive(Default)]
pub(super) struct Sale {
    /// Time of each purchase that was made after the start, its retries included.
    pub(super) latencies: Vec<Duration>,
    /// Purchases before the start, one a client at most: they prepare the statements.
    pub(super) before: usize,
    /// Attempts that were made again.
    pub(super) missed: u64,
    /// Every ticket that a buyer was told is theirs, before the start too.
    pub(super) positions: Vec<i32>,
    /// A client found too few tickets left for a purchase.
    pub(super) sold_out: bool,
    /// From the start to the end of the last client.
    pub(super) took: Duration,
}

impl Sale {
    fn add(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        self.before += other.before;
        self.missed += other.missed;
        self.positions.extend(other.positions);
        self.sold_out |= other.sold_out;
        self.took = self.took.max(other.took);
    }
}

/// One client.
struct Client<B> {
    buyer: B,
    sale: Sale,
}

impl<B: Buyer> Client<B> {
    /// Buys once, so that its connection is made and its statements are prepared before the clock starts.
    async fn warm_up(&mut self, halt: &Halt) -> Result<(), ClaimError> {
        self.sale.before = usize::from(self.buy(halt, Instant::now() + GRACE).await?);
        self.sale.missed = 0;
        Ok(())
    }

    /// Buys from `start` until the time is up. A purchase that was begun in time is waited for, and counts.
    async fn serve(&mut self, start: Instant, secs: u64, halt: &Halt) -> Result<(), ClaimError> {
        let end = start + Duration::from_secs(secs);
        let mut began = Instant::now();
        while began < end && !halt.is_set() {
            if !self.buy(halt, end + GRACE).await? {
                break;
            }
            let answered = Instant::now();
            self.sale.latencies.push(answered - began);
            began = answered;
        }
        self.sale.took = start.elapsed();
        Ok(())
    }

    /// One purchase, tried until it succeeds; whether it did.
    async fn buy(&mut self, halt: &Halt, end: Instant) -> Result<bool, ClaimError> {
        for _ in 0..ATTEMPTS_MAX {
            match self.buyer.attempt().await? {
                Attempt::Sold(positions) => {
                    self.sale.positions.extend(positions);
                    return Ok(true);
                }
                Attempt::SoldOut => {
                    self.sale.sold_out = true;
                    return Ok(false);
                }
                Attempt::Missed => self.sale.missed += 1,
            }
            if halt.is_set() || Instant::now() >= end {
                break;
            }
        }
        Ok(false)
    }
}

fn runtime() -> Result<Runtime, ClaimError> {
    Ok(Builder::new_current_thread().enable_time().build()?)
}

/// Lets `buyers` that block buy, each on a thread of its own.
pub(super) fn on_threads<B: Buyer + Send>(buyers: Vec<B>, run: &Run<'_>) -> Result<Sale, ClaimError> {
    let mut clients: Vec<Client<B>> = buyers.into_iter().map(|buyer| Client { buyer, sale: Sale::default() }).collect();
    let here = runtime()?;
    for client in &mut clients {
        here.block_on(client.warm_up(run.halt))?;
    }
    let start = Instant::now() + START_DELAY;
    thread::scope(|scope| {
        let serve = |mut client: Client<B>| {
            move || -> Result<Sale, ClaimError> {
                let here = runtime()?;
                thread::sleep(start.saturating_duration_since(Instant::now()));
                let served = here.block_on(client.serve(start, run.secs, run.halt));
                served.inspect_err(|_| run.halt.fail())?;
                Ok(client.sale)
            }
        };
        let threads: Vec<_> = clients.into_iter().map(|client| thread::Builder::new().spawn_scoped(scope, serve(client))).collect();
        let mut sale = Sale::default();
        for thread in threads {
            let thread = thread.inspect_err(|_| run.halt.fail())?;
            sale.add(thread.join().unwrap_or(Err(ClaimError::Panicked))?);
        }
        Ok(sale)
    })
}

/// Lets `buyers` that do not block buy, all on this thread, as a thread of the server does.
pub(super) fn on_this_thread<B: Buyer>(buyers: Vec<B>, run: &Run<'_>) -> Result<Sale, ClaimError> {
    let mut clients: Vec<Client<B>> = buyers.into_iter().map(|buyer| Client { buyer, sale: Sale::default() }).collect();
    runtime()?.block_on(async {
        for client in &mut clients {
            client.warm_up(run.halt).await?;
        }
        let start = Instant::now();
        let served = clients.iter_mut().map(|client| async move {
            let served = client.serve(start, run.secs, run.halt).await;
            served.inspect_err(|_| run.halt.fail())
        });
        join_all(served).await.into_iter().collect::<Result<Vec<()>, ClaimError>>()
    })?;
    let mut sale = Sale::default();
    clients.into_iter().for_each(|client| sale.add(client.sale));
    Ok(sale)
}
