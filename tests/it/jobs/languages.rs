//! Consumers in another language work beside ours on one table: nothing is done twice, nothing is lost, groups stay in order.

use std::{
    io::{BufRead, BufReader, Lines, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use boxoffice::{
    db::{DbError, transaction},
    ids::EventId,
    queue::{self, Ask, Claimed, Fate, Lease, NewJob, Retry, Wake, statements},
};
use chrono::{DateTime, TimeDelta, Utc};
use diesel::{
    PgConnection, QueryableByName, RunQueryDsl,
    connection::SimpleConnection,
    sql_query,
    sql_types::{BigInt, Text, Uuid as SqlUuid},
};
use serde_json::json;

use super::{event, job};
use crate::support::{Database, wait_until};

const JOBS: usize = 20_000;
/// Jobs of the one large group.
const HOT: usize = 700;
/// Jobs of groups of forty, and of groups of two; the rest are alone.
const MIDDLING: usize = 1_600;
const PAIRS: usize = 2_000;
/// Every so many jobs, one fails at first; as many fail always.
const FAILING_EVERY: usize = 100;
/// Jobs that one consumer takes at once.
const BATCH: usize = 50;
/// Tries are never what ends a job here.
const RETRY: Retry = Retry { attempts_max: u32::MAX, first_pause: TimeDelta::zero(), pause_max: TimeDelta::zero() };

/// A Python process that works jobs.
struct Worker {
    process: Child,
    /// Its end is what ends the worker.
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    /// Starts one, which stands still with jobs in hand once it has done `hold_after`.
    fn start(database: &Database, node: &str, hold_after: Option<usize>) -> Self {
        let home = Path::new(env!("CARGO_MANIFEST_DIR"));
        let python = home.join("target/python");
        assert!(python.join("installed").exists(), "the Python workers are not installed: run `make test`, which installs what is missing");
        let mut process = Command::new(python.join("bin/python"))
            .arg(home.join("tests/it/jobs/worker.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut worker = Self { input: process.stdin.take(), output, process };
        let statements = json!({
            "settings": statements::SETTINGS,
            "take": statements::TAKE,
            "complete": statements::COMPLETE,
            "promote": statements::PROMOTE,
            "retry": statements::RETRY,
            "give_up": statements::GIVE_UP,
        });
        let told = json!({"url": database.url(), "lane": "tests", "node": node, "batch": BATCH, "hold_after": hold_after});
        let mut told = told.as_object().unwrap().clone();
        told.insert("statements".to_owned(), statements);
        worker.tell(&json!(told).to_string());
        assert_eq!(worker.says(), "ready");
        worker
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn says(&mut self) -> String {
        self.output.next().expect("the worker ended before its time; its error is above").unwrap()
    }

    /// The number behind a word that it says next.
    fn says_how_many(&mut self, word: &str) -> usize {
        let said = self.says();
        said.strip_prefix(word).unwrap_or_else(|| panic!("{said:?} instead of {word:?}")).trim().parse().unwrap()
    }

    /// `kill -9`.
    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Lets it end when nothing is left.
    fn end(mut self) {
        drop(self.input.take());
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Ends our consumers, also when the test fails.
struct Ending<'a>(&'a AtomicBool, &'a Wake);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.nudge();
    }
}

/// The jobs, in the order in which they are enqueued: those of a group in theirs, the large group among the others.
fn jobs() -> Vec<NewJob> {
    let events: [EventId; 3] = [event(), event(), queue::no_event()];
    let mut counters = std::collections::HashMap::<Option<String>, usize>::new();
    let mut made = |turn: usize| {
        // A step that has no divisor with the number of jobs mixes the kinds.
        let place = turn * 7_919 % JOBS;
        let group = match place {
            _ if place < HOT => Some("hot".to_owned()),
            _ if place < HOT + MIDDLING => Some(format!("forty-{}", place % (MIDDLING / 40))),
            _ if place < HOT + MIDDLING + PAIRS => Some(format!("pair-{}", place % (PAIRS / 2))),
            _ => None,
        };
        let number = counters.entry(group.clone()).or_default();
        *number += 1;
        let fails = match turn % FAILING_EVERY {
            1 => Some("once"),
            2 => Some("always"),
            _ => None,
        };
        // A group is one of its event.
        let event = events[group.as_ref().map_or(turn, String::len) % events.len()];
        NewJob { event, ..job(group.as_deref(), json!({"number": *number, "fails": fails})) }
    };
    (0..JOBS).map(&mut made).collect()
}

fn enqueue(conn: &mut PgConnection, jobs: &[NewJob]) {
    for page in jobs.chunks(200) {
        assert_eq!(transaction(conn, |conn| queue::enqueue(conn, Utc::now(), page)).unwrap(), page.len());
    }
}

/// One of our own consumers: works until `ended`.
fn consume(database: &Database, node: &str, wake: &Wake, ended: &AtomicBool) {
    let mut conn = database.connect();
    while !ended.load(Ordering::Relaxed) {
        let time = TimeDelta::minutes(10);
        let ask = Ask { lane: "tests", after: DateTime::UNIX_EPOCH, count: BATCH, node, time };
        match queue::claim(&mut conn, Utc::now(), &ask).unwrap() {
            Some(lease) => end(&mut conn, node, &lease),
            None => drop(wake.wait(Duration::from_millis(20))),
        }
    }
}

fn end(conn: &mut PgConnection, node: &str, lease: &Lease) {
    let mut done: Vec<(&Claimed, Vec<NewJob>)> = Vec::new();
    for job in &lease.jobs {
        let (why, fate) = match (job.payload["fails"].as_str(), job.attempt) {
            (Some("once"), 1) => ("not yet", Fate::Retry(Utc::now())),
            (Some("always"), _) => ("never", Fate::GiveUp),
            _ => {
                done.push((job, Vec::new()));
                continue;
            }
        };
        assert!(queue::fail(conn, Utc::now(), lease.token, job, why, fate).unwrap());
    }
    let ours = transaction(conn, |conn| {
        let ours = queue::complete(conn, Utc::now(), lease.token, &done)?;
        for (job, _) in done.iter().filter(|(job, _)| ours.jobs.contains(&job.id)) {
            let note = sql_query("INSERT INTO done_log (event_id, id, by) VALUES ($1, $2, $3)");
            note.bind::<SqlUuid, _>(job.event.uuid()).bind::<SqlUuid, _>(job.id.uuid()).bind::<Text, _>(node).execute(conn)?;
        }
        Ok::<_, DbError>(ours)
    });
    assert_eq!(ours.unwrap().jobs.len(), done.len(), "nobody takes from one who lives");
}

fn count(conn: &mut PgConnection, sql: &str) -> usize {
    #[derive(QueryableByName)]
    struct Count {
        #[diesel(sql_type = BigInt)]
        count: i64,
    }
    let count = sql_query(format!("SELECT count(*) AS count FROM {sql}")).get_result::<Count>(conn).unwrap().count;
    usize::try_from(count).unwrap()
}

/// Makes the leases of a consumer run out, and takes the jobs back that it held. One whose group is just being enqueued into is locked, and
/// is left to the next time.
fn take_back_from(conn: &mut PgConnection, node: &str, held: usize) {
    let_leases_run_out(conn, node);
    let mut back = 0;
    wait_until("all that it held is taken back", || {
        back += queue::take_back(conn, Utc::now(), |_| RETRY).unwrap();
        back == held
    });
}

fn let_leases_run_out(conn: &mut PgConnection, node: &str) {
    conn.batch_execute(&format!("UPDATE jobs SET lease_until = taken_at WHERE state = 'WORKING' AND node = '{node}'")).unwrap();
}

/// The same, but jobs go from one hand into the other: they are at work again when anybody sees them. What is locked at one moment is still its
/// own, and it might end that; so it has nothing any more when this returns.
fn inherit_from(conn: &mut PgConnection, node: &str) -> Vec<Lease> {
    let_leases_run_out(conn, node);
    let mut inherited = Vec::new();
    wait_until("something that it held is at work again, and it has nothing left", || {
        let before = Utc::now();
        let lease = transaction(conn, |conn| {
            queue::take_back(conn, Utc::now(), |_| RETRY)?;
            let ask = Ask { lane: "tests", after: before, count: BATCH, node: "heir", time: TimeDelta::minutes(10) };
            queue::claim(conn, Utc::now(), &ask)
        });
        inherited.extend(lease.unwrap());
        let is_again = inherited.iter().flat_map(|lease: &Lease| &lease.jobs).any(|job| job.attempt > 1 && job.payload["fails"].is_null());
        is_again && count(conn, &format!("jobs WHERE state = 'WORKING' AND node = '{node}'")) == 0
    });
    inherited
}

fn wait_until_all_is_over(conn: &mut PgConnection) {
    let mut left = || count(conn, "jobs WHERE state IN ('CREATED', 'WORKING')");
    let mut before = left();
    while before > 0 {
        wait_until("the jobs get fewer", || left() < before);
        before = left();
    }
}

#[test]
fn python_workers_beside_ours_do_everything_once_and_in_order_though_some_are_killed() {
    let database = Database::new();
    let mut conn = database.connect();
    let prepare = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$; \
        CREATE TABLE done_log (event_id uuid NOT NULL, id uuid NOT NULL, by text NOT NULL, at bigserial)";
    // Nobody pulls the plug here, so nobody need wait for the disk.
    conn.batch_execute(prepare).unwrap();
    queue::add_lanes(&mut conn, Utc::now(), &["tests"]).unwrap();
    let (jobs, wake, ended) = (jobs(), Wake::default(), AtomicBool::new(false));
    let (before, meanwhile) = jobs.split_at(JOBS / 4);
    let mut killed = Worker::start(&database, "killed", Some(100));
    let mut zombie = Worker::start(&database, "zombie", Some(200));
    enqueue(&mut database.connect(), before);
    thread::scope(|scope| {
        let _ending = Ending(&ended, &wake);
        let enqueuer = scope.spawn(|| enqueue(&mut database.connect(), meanwhile));
        for node in ["ours-1", "ours-2"] {
            let (database, wake, ended) = (&database, &wake, &ended);
            scope.spawn(move || consume(database, node, wake, ended));
        }
        let held = killed.says_how_many("holding");
        killed.kill();
        take_back_from(&mut conn, "killed", held);
        let second = Worker::start(&database, "second", None);
        zombie.says_how_many("holding");
        let inherited = inherit_from(&mut conn, "zombie");
        zombie.tell("go on");
        assert_eq!(zombie.says_how_many("ended"), 0, "another has what it held");
        inherited.iter().for_each(|lease| end(&mut conn, "heir", lease));
        enqueuer.join().unwrap();
        wait_until_all_is_over(&mut conn);
        [second, zombie].into_iter().for_each(Worker::end);
    });
    assert_that_all_was_done_once_and_in_order(&mut conn);
}

fn assert_that_all_was_done_once_and_in_order(conn: &mut PgConnection) {
    let given_up = JOBS / FAILING_EVERY;
    assert_eq!(count(conn, "jobs WHERE state = 'FAILED' AND payload->>'fails' = 'always'"), given_up);
    assert_eq!(count(conn, "jobs WHERE state = 'DONE' AND payload->>'fails' IS DISTINCT FROM 'always'"), JOBS - given_up);
    assert_eq!(count(conn, "done_log"), JOBS - given_up, "nothing twice");
    assert_eq!(count(conn, "jobs JOIN done_log USING (event_id, id) WHERE state = 'DONE' AND node = by"), JOBS - given_up, "nothing lost");
    let orders = "(SELECT (payload->>'number')::int AS number, \
          lag((payload->>'number')::int) OVER (PARTITION BY event_id, group_key ORDER BY at) AS before \
        FROM done_log JOIN jobs USING (event_id, id)) AS told WHERE before > number";
    assert_eq!(count(conn, orders), 0, "groups in order");
    for node in ["killed", "zombie", "ours-1", "ours-2"] {
        assert!(count(conn, &format!("done_log WHERE by = '{node}'")) >= BATCH, "{node} did its part");
    }
}
