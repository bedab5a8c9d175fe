//! The job queue: one table, many consumers, order where order matters.
//!
//! A job is written in the transaction that makes it necessary ([`enqueue`]), and worked later by any consumer in any process: claimed and
//! committed, *then* worked, so that no lock is held meanwhile, then completed, fenced by the lease of that attempt.
//!
//! ```text
//!             claim             complete
//! CREATED ──────────▶ WORKING ──────────▶ DONE
//!    ▲                  │  │
//!    └──────────────────┘  └────────────▶ FAILED
//!     fail, or lease ran out      after a bound
//! ```
//!
//! Jobs of one *group* run one at a time and in order; groups run side by side. Each group has one *head*, the job that runs or is next,
//! and only heads can be claimed. *Lanes* keep work apart that must not wait for each other: a kind of job, or the jobs for one receiver.
//!
//! This engine knows a kind and a JSON payload, and no feature.

mod policy;
mod queries;
pub mod statements;
mod wake;

use std::collections::HashSet;

use chrono::{DateTime, TimeDelta, Utc};
use diesel::PgConnection;
use serde_json::Value;
use uuid::Uuid;

use crate::{
    db::{DbError, transaction},
    ids::{EventId, JobId},
};
pub use policy::Retry;
pub use wake::Wake;

/// Most jobs that one statement writes or takes.
pub const BATCH_MAX: usize = 1_000;
/// How often an enqueue tries again that met the end of its group's last job. Each time another transaction has got further.
const ENQUEUE_TRIES: u32 = 20;

/// What orders a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Group {
    /// Nothing: it may run beside any other.
    Alone,
    /// It runs after those of the same name that are not over when it is enqueued.
    Of(String),
}

/// A job to be done.
#[derive(Clone, Debug, PartialEq)]
pub struct NewJob {
    /// The event that it is about; [`no_event`] if it is about none.
    pub event: EventId,
    /// Where it is worked.
    pub lane: String,
    /// What is to be done.
    pub kind: &'static str,
    /// What it waits for.
    pub group: Group,
    /// If the event has, or lately had, a job of this key already, no second one is made.
    pub unique_key: Option<String>,
    /// What the consumer is told.
    pub payload: Value,
}

impl NewJob {
    /// Heads are locked in this order. A job alone is nobody else's to lock.
    fn place_in_locking(&self) -> Option<(EventId, &str)> {
        match &self.group {
            Group::Alone => None,
            Group::Of(group) => Some((self.event, group)),
        }
    }
}

/// The event of jobs that are about none.
#[must_use]
pub fn no_event() -> EventId {
    EventId::from(Uuid::nil())
}

/// A job that this consumer has taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Claimed {
    /// The event that it is about.
    pub event: EventId,
    /// Its id.
    pub id: JobId,
    /// What is to be done.
    pub kind: String,
    /// The group that it is the head of; its own id if it is alone.
    pub group: String,
    /// What the consumer is told.
    pub payload: Value,
    /// Which try this is, from 1.
    pub attempt: u32,
    /// When it was due.
    pub run_at: DateTime<Utc>,
}

/// Jobs that were taken together, with the fence of this attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    /// What completes them.
    pub token: Uuid,
    /// The jobs, the first due first.
    pub jobs: Vec<Claimed>,
}

/// What a consumer asks for.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    /// The lane.
    pub lane: &'a str,
    /// Not what was due before: the claim begins there, and does not walk what was done since an old snapshot was opened.
    pub after: DateTime<Utc>,
    /// At most so many.
    pub count: usize,
    /// The name of the consumer's process.
    pub node: &'a str,
    /// For how long the jobs are the consumer's.
    pub time: TimeDelta,
}

/// Writes jobs in the caller's transaction, and returns how many were made: a job whose unique key is there is left out.
///
/// Waits for nobody but, where a group is given that has jobs, whoever is just ending one of them or enqueueing into the group.
///
/// # Errors
/// The database's.
pub fn enqueue(conn: &mut PgConnection, now: DateTime<Utc>, jobs: &[NewJob]) -> Result<usize, DbError> {
    let mut made = 0;
    for page in jobs.chunks(BATCH_MAX) {
        // Nearly every job is the first of its group, and is written with the others. For the rest it is not known yet why they were not.
        let (firsts, later) = firsts_of_groups(page);
        let (written, others) = queries::insert_heads(conn, now, &firsts)?;
        made += written;
        let mut behind: Vec<&NewJob> = others.into_iter().chain(later).collect();
        // The sort is a stable one: what is first of its group stays first.
        behind.sort_by_key(|job| job.place_in_locking());
        for job in behind {
            made += usize::from(enqueue_behind(conn, now, job)?);
        }
    }
    Ok(made)
}

/// The jobs that are the first of their group here, and the others. Two of a group are never written as heads by one statement: the group's
/// head may end between the two, and then the first would be refused and the second become the head, ahead of it.
///
/// The first ones by group, which is the order in which everybody locks heads: two who met in two orders would wait for each other.
fn firsts_of_groups(jobs: &[NewJob]) -> (Vec<&NewJob>, Vec<&NewJob>) {
    let mut seen = HashSet::new();
    let (mut firsts, later): (Vec<&NewJob>, Vec<&NewJob>) = jobs.iter().partition(|job| match &job.group {
        Group::Alone => true,
        Group::Of(group) => seen.insert((job.event, group)),
    });
    firsts.sort_by_key(|job| job.place_in_locking());
    (firsts, later)
}

/// Writes a job behind the head of its group, or as the head if there is none any more; `false` if its unique key is there.
fn enqueue_behind(conn: &mut PgConnection, now: DateTime<Utc>, job: &NewJob) -> Result<bool, DbError> {
    for _ in 0..ENQUEUE_TRIES {
        if queries::has_unique_key(conn, job)? {
            return Ok(false);
        }
        // While the head is locked it cannot end, so that whoever ends it afterwards sees this job behind it.
        let written = match queries::last_number(conn, job)? {
            Some(last) => queries::insert_waiting(conn, now, job, last + 1)?,
            None => queries::insert_heads(conn, now, &[job])?.0 > 0,
        };
        if written {
            return Ok(true);
        }
    }
    Err(DbError::Conflict("a group of jobs changed all the time".to_owned()))
}

/// A transaction whose plans do not depend on when they were made.
fn as_consumer<T>(conn: &mut PgConnection, mut body: impl FnMut(&mut PgConnection) -> Result<T, DbError>) -> Result<T, DbError> {
    transaction(conn, |conn| {
        queries::settle_plans(conn)?;
        body(conn)
    })
}

/// Takes jobs of a lane; `None` if none is ready that nobody else is just taking.
///
/// # Errors
/// The database's.
pub fn claim(conn: &mut PgConnection, now: DateTime<Utc>, ask: &Ask<'_>) -> Result<Option<Lease>, DbError> {
    as_consumer(conn, |conn| {
        let jobs = queries::claim(conn, now, ask)?;
        if jobs.is_empty() {
            return Ok(None);
        }
        let lease = Lease { token: Uuid::new_v4(), jobs };
        queries::take(conn, now, ask, &lease)?;
        Ok(Some(lease))
    })
}

/// What came of a completion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completed {
    /// The jobs that were still the caller's. Of one that was not, nothing is written: its lease ran out, and another consumer has it or
    /// had it.
    pub jobs: Vec<JobId>,
    /// The lanes that have something to do by this: the next jobs of the groups, and what was to be done next.
    pub lanes: HashSet<String>,
}

/// Completes jobs of a lease, each with what is to be done next.
///
/// # Errors
/// The database's.
pub fn complete(conn: &mut PgConnection, now: DateTime<Utc>, lease: Uuid, done: &[(&Claimed, Vec<NewJob>)]) -> Result<Completed, DbError> {
    as_consumer(conn, |conn| {
        let jobs: Vec<&Claimed> = done.iter().map(|(job, _)| *job).collect();
        let over = queries::complete(conn, now, lease, &jobs)?;
        let mut lanes = queries::promote(conn, now, &over)?;
        let jobs: Vec<JobId> = over.into_iter().map(|over| over.id).collect();
        let next: Vec<NewJob> = done.iter().filter(|(job, _)| jobs.contains(&job.id)).flat_map(|(_, next)| next.iter().cloned()).collect();
        enqueue(conn, now, &next)?;
        lanes.extend(next.into_iter().map(|job| job.lane));
        Ok(Completed { jobs, lanes })
    })
}

/// What becomes of a job that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is tried again, not before then.
    Retry(DateTime<Utc>),
    /// It is given up, and its group goes on.
    GiveUp,
}

/// Notes that a job failed, and why; `false` if it was no longer the caller's.
///
/// # Errors
/// The database's.
pub fn fail(conn: &mut PgConnection, now: DateTime<Utc>, lease: Uuid, job: &Claimed, why: &str, fate: Fate) -> Result<bool, DbError> {
    as_consumer(conn, |conn| settle_failure(conn, now, lease, job.event, job.id, why, fate))
}

fn settle_failure(
    conn: &mut PgConnection,
    now: DateTime<Utc>,
    lease: Uuid,
    event: EventId,
    id: JobId,
    why: &str,
    fate: Fate,
) -> Result<bool, DbError> {
    match fate {
        Fate::Retry(at) => queries::retry(conn, lease, event, id, at, why),
        Fate::GiveUp => {
            let over = queries::give_up(conn, now, lease, event, id, why)?;
            queries::promote(conn, now, &over)?;
            Ok(!over.is_empty())
        }
    }
}

/// Takes back jobs whose consumer did not end them in time, and returns how many; `retry` says how often a kind is tried.
///
/// # Errors
/// The database's.
pub fn take_back(conn: &mut PgConnection, now: DateTime<Utc>, retry: impl Fn(&str) -> Retry) -> Result<usize, DbError> {
    as_consumer(conn, |conn| take_overdue_back(conn, now, &retry))
}

fn take_overdue_back(conn: &mut PgConnection, now: DateTime<Utc>, retry: impl Fn(&str) -> Retry) -> Result<usize, DbError> {
    let overdue = queries::overdue(conn, now, BATCH_MAX)?;
    for job in &overdue {
        let fate = if job.attempts >= retry(&job.kind).attempts_max { Fate::GiveUp } else { Fate::Retry(now) };
        settle_failure(conn, now, job.lease, job.event, job.id, "its consumer did not end it in time", fate)?;
    }
    Ok(overdue.len())
}

/// What a consumer asks when it has nothing to do, in one transaction: takes back jobs as [`take_back`] does, and returns the lanes that have
/// something to do, given where the claims of some of them begin.
///
/// # Errors
/// The database's.
pub fn poll(
    conn: &mut PgConnection,
    now: DateTime<Utc>,
    after: &[(String, DateTime<Utc>)],
    retry: impl Fn(&str) -> Retry,
) -> Result<Vec<String>, DbError> {
    as_consumer(conn, |conn| {
        take_overdue_back(conn, now, &retry)?;
        queries::ready(conn, now, after)
    })
}

/// Makes lanes known; those that are stay as they are. A job in a lane that is not known is never found.
///
/// # Errors
/// The database's.
pub fn add_lanes(conn: &mut PgConnection, now: DateTime<Utc>, names: &[&str]) -> Result<(), DbError> {
    queries::add_lanes(conn, now, names)
}

/// Forgets a lane, with what waits in it and what came of it: nobody will work it, or look at it.
///
/// # Errors
/// The database's.
pub fn remove_lane(conn: &mut PgConnection, name: &str) -> Result<(), DbError> {
    queries::remove_lane(conn, name)
}

/// Forgets what waits in lanes of these kinds that are not known any more: a job was at work when its receiver went, or was made just then.
/// Returns how many jobs.
///
/// # Errors
/// The database's.
pub fn forget_lanes_gone(conn: &mut PgConnection, kinds: &[&str]) -> Result<usize, DbError> {
    let gone = as_consumer(conn, |conn| queries::lanes_gone(conn, kinds))?;
    gone.iter().try_fold(0, |forgotten, lane| Ok(forgotten + queries::empty_lane(conn, lane)?))
}

/// Forgets what waits in a lane, and returns how many jobs.
///
/// # Errors
/// The database's.
pub fn empty_lane(conn: &mut PgConnection, lane: &str) -> Result<usize, DbError> {
    if queries::has_heads(conn, lane)? { queries::empty_lane(conn, lane) } else { Ok(0) }
}

/// Lets a lane rest: nobody takes its jobs before `until`, or before the end of a longer rest that it has. For a lane whose receiver does
/// not answer.
///
/// # Errors
/// The database's.
pub fn rest(conn: &mut PgConnection, lane: &str, until: DateTime<Utc>) -> Result<(), DbError> {
    queries::rest(conn, lane, until)
}

/// Ends the rest of a lane.
///
/// # Errors
/// The database's.
pub fn end_rest(conn: &mut PgConnection, lane: &str) -> Result<(), DbError> {
    queries::end_rest(conn, lane)
}

/// Stops or resumes the taking of jobs from a lane; `false` if there is no such lane. What is at work is finished. One that is paused already
/// stays so since when it was.
///
/// # Errors
/// The database's.
pub fn set_paused(conn: &mut PgConnection, now: DateTime<Utc>, lane: &str, paused: bool) -> Result<bool, DbError> {
    queries::set_paused(conn, now, lane, paused)
}

/// What came of putting a job back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutBack {
    /// It waits again, in this lane.
    In(String),
    /// It is there, and is not given up, or no longer.
    NotGivenUp,
    /// There is no such job.
    Unknown,
}

/// Puts a job back that was given up, behind whatever its group has.
///
/// # Errors
/// The database's.
pub fn retry_failed(conn: &mut PgConnection, now: DateTime<Utc>, event: EventId, id: JobId) -> Result<PutBack, DbError> {
    transaction(conn, |conn| put_back(conn, now, event, id))
}

/// Puts the jobs of a lane back that were given up until `now`, the first first, and returns how many: at most [`BATCH_MAX`].
///
/// # Errors
/// The database's.
pub fn retry_all_failed(conn: &mut PgConnection, now: DateTime<Utc>, lane: &str) -> Result<usize, DbError> {
    transaction(conn, |conn| {
        let mut back = 0;
        for (event, id) in queries::given_up(conn, lane, now, BATCH_MAX)? {
            back += usize::from(matches!(put_back(conn, now, event, id)?, PutBack::In(_)));
        }
        Ok(back)
    })
}

fn put_back(conn: &mut PgConnection, now: DateTime<Utc>, event: EventId, id: JobId) -> Result<PutBack, DbError> {
    let Some((group, lane, state)) = queries::find(conn, event, id)? else { return Ok(PutBack::Unknown) };
    if state != "FAILED" {
        return Ok(PutBack::NotGivenUp);
    }
    let of_group = NewJob { event, lane: lane.clone(), kind: "", group: Group::Of(group), unique_key: None, payload: Value::Null };
    for _ in 0..ENQUEUE_TRIES {
        let last = queries::last_number(conn, &of_group)?;
        if queries::revive(conn, now, event, id, last)? {
            return Ok(PutBack::In(lane));
        }
    }
    Err(DbError::Conflict("a group of jobs changed all the time".to_owned()))
}

/// Deletes jobs that were done before `before`, at most [`BATCH_MAX`], and returns how many. What was given up stays until it is retried.
///
/// # Errors
/// The database's.
pub fn prune(conn: &mut PgConnection, before: DateTime<Utc>) -> Result<usize, DbError> {
    as_consumer(conn, |conn| queries::prune(conn, before, BATCH_MAX))
}

/// What a lane has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneState {
    /// Its name.
    pub name: String,
    /// Nobody takes its jobs since then.
    pub paused_at: Option<DateTime<Utc>>,
    /// Nobody takes its jobs before then.
    pub rests_until: Option<DateTime<Utc>>,
    /// Jobs that wait.
    pub created: i64,
    /// Jobs at work.
    pub working: i64,
    /// Jobs that were done and are still remembered.
    pub done: i64,
    /// Jobs that were given up.
    pub failed: i64,
    /// When the job was due that has waited longest.
    pub oldest: Option<DateTime<Utc>>,
}

/// The state of every lane, by name. Reads every job.
///
/// # Errors
/// The database's.
pub fn lanes(conn: &mut PgConnection, now: DateTime<Utc>) -> Result<Vec<LaneState>, DbError> {
    queries::lanes(conn, now)
}

/// A job that was given up, or that failed and will be tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The event that it is about.
    pub event: EventId,
    /// Its id.
    pub id: JobId,
    /// Its lane.
    pub lane: String,
    /// What was to be done.
    pub kind: String,
    /// What it was told.
    pub payload: Value,
    /// How often it was tried.
    pub attempts: i32,
    /// What went wrong the last time.
    pub error: String,
    /// When it is tried again; given up, if never.
    pub next: Option<DateTime<Utc>>,
}

/// The first `count` jobs that failed: those that were given up, the last first, then those that will be tried again, the next first.
///
/// # Errors
/// The database's.
pub fn failures(conn: &mut PgConnection, count: i64) -> Result<Vec<Failure>, DbError> {
    queries::failures(conn, count)
}
