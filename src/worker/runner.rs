//! The consumers of the job queue in this process: threads that take whatever lane has something to do.
//!
//! Idle, the whole process asks the database one question about once a second. Busy, it does not wait: who makes work in this process wakes
//! it, and a lane that gave a full batch is asked again at once. A lane has a bound on how many threads it may take, so that one whose receiver
//! hangs leaves the others theirs.

use std::{
    collections::{HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use chrono::{DateTime, TimeDelta, Utc};

use super::handler::{Handler, Trouble};
use crate::{
    app::App,
    db::DbError,
    queue::{self, Ask, Claimed, Fate, Lease, NewJob, Retry, Wake},
};

/// How long a job is its consumer's. Every handler ends long before, or is taken for dead.
pub const LEASE_SECS: i64 = 120;
/// Pause between two polls; a random part of as much again is added, so that many processes do not poll together.
const POLL: Duration = Duration::from_millis(600);
/// Claims of a lane begin so long before the last job that they found: a transaction that took so long to commit is still found at once.
/// While an old snapshot is open a claim walks over every job that was due since then and is done, so this is short.
const MARK_SLACK: TimeDelta = TimeDelta::milliseconds(200);
/// A poll begins so long before, and so do the claims that follow it: what took longer to commit than the slack is found about a second
/// late.
const LOOK_BACK: TimeDelta = TimeDelta::seconds(10);
/// So often claims begin at the very first job again, for whatever was committed later than that.
const MARKS_FORGOTTEN: Duration = Duration::from_secs(30);
/// Done jobs are remembered so long.
const REMEMBERED_DAYS: i64 = 7;
/// A receiver that takes so long for a job is slow.
const SLOW: Duration = Duration::from_secs(1);
/// Pause after a failure of the database.
const TROUBLE_PAUSE: Duration = Duration::from_secs(1);

/// The consumers of one process.
pub struct Runner<'a> {
    app: &'a App,
    handlers: HashMap<&'static str, Box<dyn Handler>>,
    node: String,
    threads: usize,
    lanes: Mutex<Lanes>,
    poll: Mutex<Poll>,
}

/// The lanes that this process has heard of.
#[derive(Default)]
struct Lanes {
    known: HashMap<String, Lane>,
    /// Those that may have something to do, the next first.
    ready: VecDeque<String>,
    /// Threads at work, by kind and by the pace of their lane when they began: counted here, since there may be a thousand lanes.
    at_work: HashMap<(&'static str, Pace), usize>,
}

/// A thread's place in a lane, from taking it to leaving it.
struct Turn {
    lane: String,
    kind: &'static str,
    pace: Pace,
    /// How often the lane was said to be ready.
    told: u64,
}

#[derive(Default)]
struct Lane {
    at_work: usize,
    pace: Pace,
    is_ready: bool,
    /// How often it was said to be ready. Who finds nothing in it believes that only if nobody has said so since.
    told: u64,
    /// What was due before is done, as far as this process knows.
    mark: Option<DateTime<Utc>>,
    /// The next claim is to find what lies before the mark.
    looks_back: bool,
}

/// How a lane's receiver did the last time that this process worked a job for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Pace {
    /// There was none.
    #[default]
    Unknown,
    Quick,
    /// It took its time, for whatever answer.
    Slow,
    /// It did not answer.
    Silent,
}

impl Lane {
    /// Where the next claim begins, and whether that is before the mark.
    fn claim_from(&mut self) -> (Option<DateTime<Utc>>, bool) {
        let looks_back = std::mem::take(&mut self.looks_back);
        (if looks_back { self.poll_from() } else { self.mark }, looks_back)
    }

    /// A claim has found as many jobs as it asked for, or all, up to this one.
    fn claimed(&mut self, last: DateTime<Utc>, looked_back: bool, is_all: bool) {
        let mark = Some(last - MARK_SLACK);
        // What else was missed before the mark would wait for the next poll, a batch a second.
        self.looks_back |= looked_back && !is_all && mark < self.mark;
        self.mark = self.mark.max(mark);
    }

    /// A job that is due at that time was committed only now.
    fn committed(&mut self, due: DateTime<Utc>) {
        self.mark = self.mark.min(Some(due - MARK_SLACK));
    }

    /// Where a poll begins.
    fn poll_from(&self) -> Option<DateTime<Utc>> {
        self.mark.map(|mark| mark - LOOK_BACK)
    }
}

/// When to ask the database again.
struct Poll {
    next: Instant,
    marks_from: Instant,
    /// The next poll also keeps house.
    keeps_house: bool,
}

impl<'a> Runner<'a> {
    /// So many threads of consumers with these handlers. Nothing runs yet.
    #[must_use]
    pub fn new(app: &'a App, threads: usize, handlers: Vec<Box<dyn Handler>>) -> Self {
        let handlers = handlers.into_iter().map(|handler| (handler.kind(), handler)).collect();
        let now = Instant::now();
        Self {
            app,
            handlers,
            node: node(),
            threads,
            lanes: Mutex::default(),
            poll: Mutex::new(Poll { next: now, marks_from: now, keeps_house: true }),
        }
    }

    /// Works until `ended`; whoever sets that should [`Wake::nudge`]. What is at work then is finished.
    pub fn run(&self, ended: &AtomicBool) {
        while !self.app.db.is_prepared() && !ended.load(Ordering::Relaxed) {
            thread::sleep(POLL.min(Duration::from_millis(100)));
        }
        self.make_lanes_known(ended);
        thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| {
                    while !ended.load(Ordering::Relaxed) {
                        self.go_around();
                    }
                });
            }
        });
    }

    /// One turn of a thread. The poll comes first: what others write must be found, and dead leases taken back, also while a lane here is
    /// never empty.
    fn go_around(&self) {
        let wait = self.until_poll();
        if wait.is_zero() {
            return self.ask();
        }
        match self.next_lane() {
            Some(turn) => {
                self.serve(&turn);
                self.leave(&turn);
            }
            None => self.wake().wait(wait).iter().for_each(|lane| self.set_ready(lane)),
        }
    }

    fn make_lanes_known(&self, ended: &AtomicBool) {
        let lanes: Vec<&str> =
            self.handlers.values().filter(|handler| handler.has_lane_of_its_own()).map(|handler| handler.kind()).collect();
        while !ended.load(Ordering::Relaxed) {
            match self.app.db.run_here(|conn| queue::add_lanes(conn, self.app.clock.now(), &lanes)) {
                Ok(()) => return,
                Err(error) => self.pause_after(&error),
            }
        }
    }

    fn wake(&self) -> &Wake {
        self.app.desk.wake()
    }

    /// The handler of a lane: lanes for one receiver are called KIND:RECEIVER.
    fn handler(&self, lane: &str) -> Option<&dyn Handler> {
        self.handlers.get(kind_of(lane)).map(AsRef::as_ref)
    }

    fn retry_of(&self, kind: &str) -> Retry {
        // A kind of another version, or of a consumer in another language, whose jobs are taken back here too.
        const UNKNOWN: Retry = Retry { attempts_max: 25, first_pause: TimeDelta::seconds(1), pause_max: TimeDelta::seconds(1) };
        self.handlers.get(kind).map_or(UNKNOWN, |handler| handler.retry())
    }

    /// A lane that may have something to do and may take one more thread, which it then has.
    fn next_lane(&self) -> Option<Turn> {
        let mut lanes = lock(&self.lanes);
        for _ in 0..lanes.ready.len() {
            // Others may help as long as it has more.
            lanes.ready.rotate_left(1);
            let Some((lane, handler)) = lanes.ready.back().and_then(|lane| Some((lane, self.handler(lane)?))) else { continue };
            if let Some(pace) = self.may_take_a_thread(&lanes, lane, handler) {
                let (lane, kind) = (lane.clone(), handler.kind());
                *lanes.at_work.entry((kind, pace)).or_default() += 1;
                let known = lanes.known.entry(lane.clone()).or_default();
                known.at_work += 1;
                return Some(Turn { lane, kind, pace, told: known.told });
            }
        }
        None
    }

    /// Whether a lane, its kind, and all lanes of the kind with its pace have a thread left to take; then its pace. Receivers that hang or take
    /// their time keep their threads for so long, and must leave enough for those that are known to be quick: one thread each, half of the
    /// kind's threads for those that nothing is known of, a quarter for those that are known to be slow.
    fn may_take_a_thread(&self, lanes: &Lanes, name: &str, handler: &dyn Handler) -> Option<Pace> {
        let at_work = |paces: &[Pace]| -> usize { paces.iter().filter_map(|pace| lanes.at_work.get(&(handler.kind(), *pace))).sum() };
        let (own, pace) = lanes.known.get(name).map(|lane| (lane.at_work, lane.pace)).unwrap_or_default();
        let in_all = handler.threads_in_all(self.threads);
        let has_room = match pace {
            Pace::Unknown if !handler.has_lane_of_its_own() => own == 0 && at_work(&[Pace::Unknown]) < in_all.div_ceil(2),
            Pace::Unknown | Pace::Quick => own < handler.threads_max(self.threads),
            Pace::Slow | Pace::Silent => own == 0 && at_work(&[Pace::Slow, Pace::Silent]) < in_all.div_ceil(4),
        };
        (has_room && at_work(&[Pace::Unknown, Pace::Quick, Pace::Slow, Pace::Silent]) < in_all).then_some(pace)
    }

    /// Takes jobs of a lane and works them.
    fn serve(&self, Turn { lane, told, .. }: &Turn) {
        let Some(handler) = self.handler(lane) else { return };
        let (after, looked_back) = lock(&self.lanes).known.get_mut(lane).map(Lane::claim_from).unwrap_or_default();
        let ask = Ask {
            lane,
            after: after.unwrap_or(DateTime::UNIX_EPOCH),
            count: handler.batch_max(),
            node: &self.node,
            time: TimeDelta::seconds(LEASE_SECS),
        };
        match self.app.db.run_here(|conn| queue::claim(conn, self.app.clock.now(), &ask)) {
            Ok(Some(lease)) => {
                let is_all = lease.jobs.len() < ask.count;
                if let Some((known, last)) = lock(&self.lanes).known.get_mut(lane).zip(lease.jobs.last()) {
                    known.claimed(last.run_at, looked_back, is_all);
                }
                if is_all {
                    self.set_idle(lane, *told);
                } else {
                    self.call_help(lane, handler);
                }
                self.work(handler, lane, &lease);
            }
            Ok(None) => self.set_idle(lane, *told),
            Err(error) => {
                self.set_idle(lane, *told);
                self.pause_after(&error);
            }
        }
    }

    /// Gives a thread's place back.
    fn leave(&self, turn: &Turn) {
        let mut lanes = lock(&self.lanes);
        let counts = lanes.at_work.get_mut(&(turn.kind, turn.pace));
        counts.into_iter().for_each(|count| *count = count.saturating_sub(1));
        if let Some(known) = lanes.known.get_mut(&turn.lane) {
            known.at_work = known.at_work.saturating_sub(1);
        }
    }

    /// Somebody says that a lane has something to do.
    fn set_ready(&self, name: &str) {
        let mut lanes = lock(&self.lanes);
        let lane = lanes.known.entry(name.to_owned()).or_default();
        lane.told += 1;
        if !std::mem::replace(&mut lane.is_ready, true) {
            lanes.ready.push_back(name.to_owned());
        }
    }

    /// A claim found no more in a lane, which was begun when it had been said to be ready so often. What was written since, it may have
    /// missed.
    fn set_idle(&self, name: &str, told: u64) {
        let mut lanes = lock(&self.lanes);
        if let Some(lane) = lanes.known.get_mut(name).filter(|lane| lane.told == told && lane.is_ready) {
            lane.is_ready = false;
            lanes.ready.retain(|ready| ready != name);
        }
    }

    /// A lane has more than one thread takes at once: those who wait need not wait for the next poll.
    fn call_help(&self, lane: &str, handler: &dyn Handler) {
        let has_room = lock(&self.lanes).known.get(lane).is_some_and(|lane| lane.at_work < handler.threads_max(self.threads));
        if has_room {
            self.wake().nudge();
        }
    }

    /// Works each job, and ends them: those that went well together, the others one by one.
    fn work(&self, handler: &dyn Handler, lane: &str, lease: &Lease) {
        let mut done: Vec<(&Claimed, Vec<NewJob>)> = Vec::with_capacity(lease.jobs.len());
        for job in &lease.jobs {
            let began = Instant::now();
            // A panic is a fault of ours, which is tried again like a fault of somebody else's.
            let outcome = catch_unwind(AssertUnwindSafe(|| handler.work(self.app, job)))
                .unwrap_or_else(|_| Err(Trouble::Passing("the consumer panicked".to_owned())));
            self.note_pace(handler, lane, &outcome, began.elapsed());
            match outcome {
                Ok(next) => done.push((job, next)),
                Err(trouble) => self.fail(lane, lease, job, &trouble),
            }
        }
        if done.is_empty() {
            return;
        }
        let now = self.app.clock.now();
        match self.app.db.run_here(|conn| queue::complete(conn, now, lease.token, &done)) {
            Ok(completed) => {
                let lost = done.len() - completed.jobs.len();
                if lost > 0 {
                    tracing::warn!(jobs = lost, lane, "jobs took longer than their lease, and were taken by others");
                }
                completed.lanes.iter().for_each(|ready| self.go_on(lane, ready, now));
            }
            // They are worked once more when the lease has run out.
            Err(error) => tracing::warn!(%error, jobs = done.len(), lane, "jobs that are done could not be completed"),
        }
    }

    /// A lane has something to do by what this thread did in `lane`: the same one it serves next itself, another may need another thread.
    fn go_on(&self, lane: &str, ready: &str, due: DateTime<Utc>) {
        if let Some(known) = lock(&self.lanes).known.get_mut(ready) {
            known.committed(due);
        }
        if ready == lane {
            self.set_ready(ready);
        } else {
            self.wake().wake(ready);
        }
    }

    /// Remembers how the receiver did, and tells once when it falls silent and when it is back.
    fn note_pace(&self, handler: &dyn Handler, lane: &str, outcome: &Result<Vec<NewJob>, Trouble>, took: Duration) {
        let pace = match outcome {
            Err(Trouble::Receiver { .. }) => Pace::Silent,
            // What all jobs of a kind need is not slow beside another.
            _ if took >= SLOW && !handler.has_lane_of_its_own() => Pace::Slow,
            _ => Pace::Quick,
        };
        let before = lock(&self.lanes).known.get_mut(lane).map(|known| std::mem::replace(&mut known.pace, pace));
        match (before, outcome) {
            (Some(before), Err(trouble @ Trouble::Receiver { .. })) if before != Pace::Silent => {
                tracing::warn!(lane, why = %trouble, "the receiver takes nothing now; its jobs wait and are tried again");
            }
            (Some(Pace::Silent), Ok(_)) => tracing::info!(lane, "the receiver takes jobs again"),
            _ => {}
        }
    }

    /// Nobody takes jobs of the lane before `until`.
    fn rest(&self, lane: &str, until: DateTime<Utc>) {
        if let Err(error) = self.app.db.run_here(|conn| queue::rest(conn, lane, until)) {
            tracing::warn!(%error, lane, "a lane could not be given a rest");
        }
    }

    fn fail(&self, lane: &str, lease: &Lease, job: &Claimed, trouble: &Trouble) {
        let (now, retry) = (self.app.clock.now(), self.retry_of(&job.kind));
        let fate = match trouble {
            Trouble::Passing(_) | Trouble::Receiver { .. } if job.attempt < retry.attempts_max => {
                Fate::Retry(now + retry.pause(job.attempt, rand::random()))
            }
            _ => Fate::GiveUp,
        };
        let why = trouble.to_string();
        match fate {
            Fate::GiveUp => tracing::warn!(job = %job.id, kind = job.kind, attempt = job.attempt, why, "a job was given up"),
            Fate::Retry(_) => {
                tracing::debug!(job = %job.id, kind = job.kind, attempt = job.attempt, why, "a job failed and will be tried again")
            }
        }
        if let Trouble::Receiver { rest, .. } = trouble {
            self.rest(lane, now + *rest);
        }
        if let Err(error) = self.app.db.run_here(|conn| queue::fail(conn, now, lease.token, job, &why, fate)) {
            tracing::warn!(%error, job = %job.id, "the failure of a job could not be noted");
        }
        if fate == Fate::GiveUp {
            // Its group may have more.
            self.go_on(lane, lane, now);
        }
    }

    /// How long until the database is to be asked again. If that is now, it is for this thread to ask, and the others wait for the next
    /// time.
    fn until_poll(&self) -> Duration {
        let mut poll = lock(&self.poll);
        let wait = poll.next.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            poll.next = Instant::now() + POLL + POLL.mul_f64(rand::random());
            if poll.marks_from.elapsed() > MARKS_FORGOTTEN {
                poll.marks_from = Instant::now();
                poll.keeps_house = true;
                lock(&self.lanes).known.values_mut().for_each(|lane| lane.mark = None);
            }
        }
        wait
    }

    /// Asks the database which lanes have something to do, takes dead leases back, and from time to time keeps house.
    fn ask(&self) {
        let now = self.app.clock.now();
        let after = lock(&self.lanes).known.iter().filter_map(|(name, lane)| Some((name.clone(), lane.poll_from()?))).collect::<Vec<_>>();
        match self.app.db.run_here(|conn| queue::poll(conn, now, &after, |kind| self.retry_of(kind))) {
            Ok(ready) => ready.iter().filter(|lane| self.handler(lane).is_some()).for_each(|lane| {
                lock(&self.lanes).known.entry(lane.clone()).or_default().looks_back = true;
                self.set_ready(lane);
            }),
            Err(error) => return self.pause_after(&error),
        }
        if std::mem::take(&mut lock(&self.poll).keeps_house)
            && let Err(error) = self.keep_house(now)
        {
            self.pause_after(&error);
        }
    }

    /// Forgets what is over for long, and what is left of receivers that are gone. It walks over dead entries, so not every poll does.
    fn keep_house(&self, now: DateTime<Utc>) -> Result<(), DbError> {
        let for_receivers: Vec<&str> =
            self.handlers.values().filter(|handler| !handler.has_lane_of_its_own()).map(|handler| handler.kind()).collect();
        self.app.db.run_here(|conn| queue::forget_lanes_gone(conn, &for_receivers))?;
        // A page a transaction, so that none is long.
        while self.app.db.run_here(|conn| queue::prune(conn, now - TimeDelta::days(REMEMBERED_DAYS)))? == queue::BATCH_MAX {}
        self.handlers.values().try_for_each(|handler| self.app.db.run_here(|conn| handler.tidy(conn, now)))
    }

    fn pause_after(&self, error: &DbError) {
        // The database's absence is told by `db`.
        if !matches!(error, DbError::Unavailable(_) | DbError::CommitUnknown(_) | DbError::Busy(_)) {
            tracing::error!(%error, "the job queue could not be read");
        }
        thread::sleep(TROUBLE_PAUSE);
    }
}

/// The kind of a lane's jobs: lanes for one receiver are called KIND:RECEIVER.
fn kind_of(lane: &str) -> &str {
    lane.split(':').next().unwrap_or(lane)
}

/// The name of this process among the consumers.
fn node() -> String {
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_else(|| "unknown".to_owned());
    format!("{host}/{}", std::process::id())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
    }

    #[test]
    fn claims_begin_shortly_before_the_last_job_that_was_found() {
        let mut lane = Lane::default();
        assert_eq!(lane.claim_from(), (None, false), "at the very first");
        lane.claimed(at(100), false, false);
        lane.claimed(at(90), false, false);
        assert_eq!(lane.claim_from(), (Some(at(100) - MARK_SLACK), false));
    }

    #[test]
    fn what_a_poll_found_before_the_mark_is_taken_to_its_end() {
        let mut lane = Lane::default();
        lane.claimed(at(100), false, true);
        lane.looks_back = true;
        assert_eq!(lane.claim_from(), (Some(at(100) - MARK_SLACK - LOOK_BACK), true));
        lane.claimed(at(95), true, false);
        assert!(lane.claim_from().1, "a full batch, and all of it before the mark: there may be more");
        lane.claimed(at(96), true, true);
        assert!(!lane.claim_from().1, "that was all");
        lane.looks_back = true;
        assert!(lane.claim_from().1);
        lane.claimed(at(101), true, false);
        assert!(!lane.claim_from().1, "beyond the mark");
    }

    #[test]
    fn a_job_that_is_committed_late_moves_the_mark_back_to_it() {
        let mut lane = Lane::default();
        lane.committed(at(50));
        assert_eq!(lane.claim_from().0, None);
        lane.claimed(at(100), false, true);
        lane.committed(at(99));
        assert_eq!(lane.claim_from().0, Some(at(99) - MARK_SLACK));
        lane.committed(at(200));
        assert_eq!(lane.claim_from().0, Some(at(99) - MARK_SLACK));
    }
}
