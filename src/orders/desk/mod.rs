//! The sale desk: purchases that arrive while a commit is under way are sold together in the next one.
//!
//! A desk has a bounded queue and two sellers, each a thread with a connection of its own, who take turns: one claims while the other
//! stores what it claimed, or waits for the disk. A seller takes whatever has queued by its turn: there is no timer, so a lone buyer waits for
//! nobody. Events are spread over the desks by name, so that one event's purchases meet in one batch, and claims are made in the order
//! of arrival. Other desks, processes and machines may sell the same event at once; the row locks keep them all right.
//!
//! ```text
//! sell() → queue ─┬→ take, claim │ store, COMMIT → answers
//!                 └→               take, claim │ store, COMMIT → answers
//!                        │ whoever is short
//!                        ▼
//!                    queue → waiting pass → answers: the exact rest
//! ```
//!
//! Whoever is short is tried once more on the spot if there were holds that are over, whose tickets that brings back. The waiting pass has a
//! thread of its own, so that those who fit never wait for those who do not.

mod queue;
mod seller;

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use diesel::{PgConnection, connection::SimpleConnection};
use futures_util::future::{Either, select};
use queue::{Batch, Queue};
use seller::{Connect, Seller};
use tokio::{
    sync::{Notify, oneshot},
    time::timeout,
};

use super::{
    Changed, OrderError, Party, Request, Which, expiry,
    jobs::ORDER_CHANGES,
    life,
    sale::{self, Entry, Outcome, SaleLimits, Terms, Verdict},
    statements::SALE_SESSION,
};
use crate::{
    clock::Clock,
    db::{Db, DbError},
    events,
    ids::{EventId, OrderId},
    inventory::{
        Ticket,
        claim::{LowWater, Pass},
    },
    queue::Wake,
};

/// Desks of one process. A second one works while the first waits for its commit, and more would only make the batches smaller.
const DESKS: usize = 2;
/// Sellers of one desk: while one stores or waits for the disk, the other claims. A third one was no faster on two cores.
const SELLERS: usize = 2;
/// Longest wait for a transaction elsewhere that stores the same key; the whole batch waits with it.
const KEY_WAIT_MAX: Duration = Duration::from_secs(1);
/// Most waiting passes for one purchase: as long as tickets come back while it looks, what it found is not the last word.
const LOOKS_MAX: u32 = 4;
/// Longest wait for the desks to end when the process does: what is queued is sold or refused by then.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(3);

/// The desks of this process. Cheap to clone.
#[derive(Clone)]
pub struct Desk {
    counters: Arc<[Counter]>,
    /// Slugs of events that are there. Requests for any others never come to a desk: they would take its turns from those who can buy.
    known: Arc<Mutex<HashSet<String>>>,
    /// Told when the desks are closed and somebody still waits.
    ended: Arc<Notify>,
    db: Db,
    clock: Clock,
    limits: SaleLimits,
    wake: Wake,
}

/// One desk: its queue, and the threads that serve it.
struct Counter {
    arrivals: Arc<Queue>,
    shorts: Arc<Queue>,
    /// The marks of its events; whoever has their lock has the turn.
    turn: Arc<Mutex<LowWater>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.arrivals.close();
    }
}

/// A purchase in a queue, with whoever waits for its outcome.
struct Waiting {
    slug: String,
    entry: Entry,
    answer: oneshot::Sender<Outcome>,
}

impl Waiting {
    /// A buyer who hung up has nobody to tell; the order is there all the same, and found by its key.
    fn tell(self, outcome: Outcome) {
        let _ = self.answer.send(outcome);
    }

    fn quantity(&self) -> i64 {
        self.entry.request.purchase.lines.iter().map(|(_, quantity)| quantity).sum()
    }
}

impl Desk {
    /// Opens the desks. Each connects when it first has something to sell.
    #[must_use]
    pub fn open(db: &Db, clock: &Clock, limits: SaleLimits) -> Self {
        let wake = Wake::default();
        let counters = (0..DESKS).map(|number| Counter::open(number, db, clock, limits, &wake)).collect();
        Self { counters, known: Arc::default(), ended: Arc::default(), db: db.clone(), clock: clock.clone(), limits, wake }
    }

    /// What the desk wakes when it has made follow-ups necessary.
    #[must_use]
    pub fn wake(&self) -> &Wake {
        &self.wake
    }

    /// Sells to one request, together with whatever else is queued.
    ///
    /// It is sold even if the caller stops waiting for this.
    ///
    /// # Errors
    /// [`OrderError`]; [`DbError::Busy`] if the queue is full; [`DbError::CommitUnknown`] if there was no answer in time.
    pub async fn sell(&self, slug: String, request: Request) -> Outcome {
        if !self.db.is_prepared() {
            return Err(DbError::Unavailable("the database has not been reached and migrated yet".to_owned()).into());
        }
        self.find(&slug).await?;
        let (answer, outcome) = oneshot::channel();
        let ended = self.ended.notified();
        let waiting = Waiting { entry: Entry { id: OrderId::new(), request }, answer, slug };
        let Some(counter) = self.counters.get(place(&waiting.slug, self.counters.len())) else {
            return Err(DbError::Busy("there is no desk".to_owned()).into());
        };
        if counter.arrivals.push(waiting).is_err() {
            return Err(DbError::Busy("the queue of the desk is full".to_owned()).into());
        }
        let answer = timeout(self.db.settings().answer_timeout, outcome);
        let unknown = |reason: &str| Err(DbError::CommitUnknown(reason.to_owned()).into());
        match select(pin!(answer), pin!(ended)).await {
            Either::Left((Ok(Ok(outcome)), _)) => outcome,
            Either::Left((Ok(Err(_dropped)), _)) => unknown("the desk ended without an answer"),
            Either::Left((Err(_elapsed), _)) => unknown("no answer in time"),
            Either::Right(_) => unknown("the server ends"),
        }
    }

    /// Makes a hold a sale. Done twice, it is done once. After the deadline it gets the same tickets if nobody has taken them, else others.
    ///
    /// # Errors
    /// [`OrderError::EventNotFound`], [`OrderError::NotFound`]; [`OrderError::Cancelled`] if it was given back; [`OrderError::SalesClosed`]
    /// if the event was cancelled. After the deadline also [`OrderError::HoldExpired`] if too few tickets are left,
    /// [`OrderError::BuyerLimitExceeded`], and what a new sale would be refused for.
    pub async fn confirm(&self, slug: String, id: OrderId, party: Party) -> Result<Changed, OrderError> {
        let (now, limits) = (self.clock.now(), self.limits);
        let confirmed = self.db.run(move |conn| life::confirm(conn, now, limits, &slug, id, &party)).await;
        self.wake.wake(ORDER_CHANGES);
        confirmed
    }

    /// Gives tickets of an order back. Done twice, it is done once. What comes back is claimed first from then on.
    ///
    /// # Errors
    /// [`OrderError::EventNotFound`], [`OrderError::NotFound`]; [`OrderError::Invalid`] for a position that was never the order's. Of tickets that
    /// were bought also [`OrderError::TicketUsed`], [`OrderError::EventBegun`], [`OrderError::CancelNotAllowed`].
    pub async fn cancel(&self, slug: String, id: OrderId, party: Party, which: Which) -> Result<Changed, OrderError> {
        let (now, desk) = (self.clock.now(), self.clone());
        let cancel = move |conn: &mut PgConnection| {
            let changed = life::cancel(conn, now, &slug, id, &party, &which)?;
            desk.note_returned(changed.programme.event.id, &changed.returned);
            Ok(changed)
        };
        let cancelled = self.db.run(cancel).await;
        self.wake.wake(ORDER_CHANGES);
        cancelled
    }

    /// Lets the claims of an event begin with tickets that are on sale again. Without it they would be sold all the same, last.
    pub fn note_returned(&self, event: EventId, returned: &[Ticket]) {
        // Only one desk has marks of the event; to lower those that another does not have costs it nothing.
        for counter in self.counters.iter().filter(|_| !returned.is_empty()) {
            lock(&counter.turn).lower(event, returned);
        }
    }

    /// Makes sure that there is such an event. Events stay once they are there, so each is looked up once.
    async fn find(&self, slug: &str) -> Result<(), OrderError> {
        if lock(&self.known).contains(slug) {
            return Ok(());
        }
        let wanted = slug.to_owned();
        let programme = self.db.run(move |conn| events::programme(conn, &wanted)).await?;
        lock(&self.known).insert(programme.event.slug);
        Ok(())
    }

    /// Takes no more, and waits (for a bounded time) until what is queued is sold. Whoever is still waiting then is answered all the
    /// same: refused if no seller had begun with it, and told that the outcome is unknown otherwise.
    pub fn close(&self) {
        let deadline = Instant::now() + CLOSE_WAIT_MAX;
        for counter in self.counters.iter() {
            counter.arrivals.close();
        }
        let mut threads: Vec<_> = self.counters.iter().flat_map(|counter| lock(&counter.threads).drain(..).collect::<Vec<_>>()).collect();
        while Instant::now() < deadline {
            threads.retain(|thread| !thread.is_finished());
            if threads.is_empty() {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        for counter in self.counters.iter() {
            for waiting in counter.arrivals.clear().into_iter().chain(counter.shorts.clear()) {
                waiting.tell(Err(DbError::Busy("the server ends".to_owned()).into()));
            }
        }
        // What is stuck in a frozen database ends with the process.
        self.ended.notify_waiters();
    }
}

/// Which of `count` desks an event's purchases go to.
fn place(slug: &str, count: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    slug.hash(&mut hasher);
    usize::try_from(hasher.finish() % u64::try_from(count.max(1)).unwrap_or(1)).unwrap_or(0)
}

impl Counter {
    fn open(number: usize, db: &Db, clock: &Clock, limits: SaleLimits, wake: &Wake) -> Self {
        let (arrivals, shorts) = (Arc::new(Queue::default()), Arc::new(Queue::default()));
        let seller = || Seller::new(connect_to(db), clock.clone(), limits);
        let (turn, to_shorts) = (Arc::new(Mutex::new(LowWater::default())), Arc::new(ToShorts(Arc::clone(&shorts))));
        let skipping = (0..SELLERS).map(|place| {
            let (seller, arrivals, turn, to_shorts) = (seller(), Arc::clone(&arrivals), Arc::clone(&turn), Arc::clone(&to_shorts));
            let wake = wake.clone();
            spawn(format!("desk-{number}.{place}"), move || serve_arrivals(seller, &arrivals, &turn, &to_shorts, &wake))
        });
        let mut threads: Vec<_> = skipping.collect();
        let (waiting, served, marks, wake) = (seller(), Arc::clone(&shorts), Arc::clone(&turn), wake.clone());
        threads.push(spawn(format!("desk-{number}.waiting"), move || serve_shorts(waiting, &served, &marks, &wake)));
        Self { arrivals, shorts, turn, threads: Mutex::new(threads.into_iter().flatten().collect()) }
    }
}

/// The way to the waiting pass. It is closed when the last seller who may send somebody there has ended.
struct ToShorts(Arc<Queue>);

impl Drop for ToShorts {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Makes connections for sales only.
fn connect_to(db: &Db) -> Connect<PgConnection> {
    let db = db.clone();
    Box::new(move || {
        let mut conn = db.dedicated_in_time()?;
        let key_wait = KEY_WAIT_MAX.as_millis();
        conn.batch_execute(&format!("{SALE_SESSION}; SET lock_timeout = {key_wait}"))?;
        Ok(conn)
    })
}

fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    // Without its thread a desk answers nobody: its queue fills, and everybody is told "busy".
    thread::Builder::new().name(name).spawn(work).inspect_err(|error| tracing::error!(%error, "a desk could not be opened")).ok()
}

/// Sells what arrives; hands whoever is short to the waiting pass.
///
/// Whoever has the lock on the marks has the turn: it is taken before the batch and given up when all of it is claimed. Nobody waits for
/// arrivals with it.
fn serve_arrivals(mut seller: Seller<PgConnection>, arrivals: &Queue, turn: &Mutex<LowWater>, to_shorts: &ToShorts, wake: &Wake) {
    while arrivals.wait() {
        let mut held = Some(lock(turn));
        let Some(Batch { slug, waiting }) = arrivals.take() else { continue };
        // A batch that has to be sold again waits for another turn.
        let mut my_turn = || held.take().unwrap_or_else(|| lock(turn));
        let mut skipping = |conn: &mut PgConnection, terms: Terms<'_>, entries: &[&Entry]| {
            sale::skipping_pass(conn, terms, entries, &mut my_turn).inspect_err(|_| my_turn().forget())
        };
        let mut verdicts = seller.sell(&slug, &entries_of(&waiting), Pass::Skip, &mut skipping);
        let short: Vec<usize> = short_of(&verdicts);
        let wanted = short.iter().filter_map(|place| waiting.get(*place)).map(Waiting::quantity).sum();
        if !short.is_empty() && end_holds(&mut seller, &slug, wanted, turn) {
            look_again(&waiting, &mut verdicts, |again| seller.sell(&slug, again, Pass::Skip, &mut skipping));
        }
        drop(held);
        wake.wake(ORDER_CHANGES);
        for (waiting, verdict) in waiting.into_iter().zip(verdicts) {
            match verdict {
                Verdict::Settled(outcome) => {
                    let outcome = outcome.map_err(|error| key_in_progress(error, &waiting.entry));
                    waiting.tell(outcome);
                }
                Verdict::LookAgain => {
                    if let Err(refused) = to_shorts.0.push(waiting) {
                        refused.tell(Err(DbError::Busy("too many wait for the last tickets".to_owned()).into()));
                    }
                }
            }
        }
    }
}

/// Sells once more to those of a batch who were short.
fn look_again(batch: &[Waiting], verdicts: &mut [Verdict], sell: impl FnOnce(&[&Entry]) -> Vec<Verdict>) {
    let short = short_of(verdicts);
    let again: Vec<&Entry> = short.iter().filter_map(|place| batch.get(*place)).map(|waiting| &waiting.entry).collect();
    for (place, verdict) in short.into_iter().zip(sell(&again)) {
        if let Some(slot) = verdicts.get_mut(place) {
            *slot = verdict;
        }
    }
}

/// Who of a batch was short.
fn short_of(verdicts: &[Verdict]) -> Vec<usize> {
    verdicts.iter().enumerate().filter(|(_, verdict)| matches!(verdict, Verdict::LookAgain)).map(|(place, _)| place).collect()
}

/// Ends holds of an event that are over, until `wanted` tickets are back; says whether any are.
fn end_holds(seller: &mut Seller<PgConnection>, slug: &str, wanted: i64, marks: &Mutex<LowWater>) -> bool {
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    match seller.run(|conn, now| expiry::expire_due_of(conn, slug, now, wanted)) {
        Ok((event, swept)) => {
            lock(marks).lower(event, &swept.returned);
            !swept.returned.is_empty()
        }
        Err(error) => {
            // The waiting pass ends them too, and tells if it cannot.
            tracing::warn!(%error, event = slug, "holds that are over could not be ended");
            false
        }
    }
}

/// Gives those who were short the last word.
fn serve_shorts(mut seller: Seller<PgConnection>, shorts: &Queue, marks: &Mutex<LowWater>, wake: &Wake) {
    while shorts.wait() {
        let Some(Batch { slug, waiting }) = shorts.take() else { continue };
        end_holds(&mut seller, &slug, i64::MAX, marks);
        let mut verdicts = seller.sell(&slug, &entries_of(&waiting), Pass::Wait, &mut sale::waiting_pass);
        for _ in 1..LOOKS_MAX {
            if short_of(&verdicts).is_empty() {
                break;
            }
            look_again(&waiting, &mut verdicts, |again| seller.sell(&slug, again, Pass::Wait, &mut sale::waiting_pass));
        }
        wake.wake(ORDER_CHANGES);
        for (waiting, verdict) in waiting.into_iter().zip(verdicts) {
            waiting.tell(match verdict {
                Verdict::Settled(outcome) => *outcome,
                Verdict::LookAgain => Err(DbError::Busy("the waiting claim was not final".to_owned()).into()),
            });
        }
    }
}

fn entries_of(group: &[Waiting]) -> Vec<&Entry> {
    group.iter().map(|waiting| &waiting.entry).collect()
}

/// The skipping pass waits for nothing but keys, so a lock that it waited for in vain is the key's.
fn key_in_progress(error: OrderError, entry: &Entry) -> OrderError {
    match error {
        OrderError::Db(DbError::Busy(reason)) if entry.request.key.is_some() && reason.contains("lock timeout") => {
            OrderError::KeyInProgress
        }
        other => other,
    }
}

/// A lock whose holder panicked is as good as any: each change under it is one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
