//! The plans of the job queue, whatever the planner knows of a table that is empty at one moment and full at the next.
//!
//! Consumers take their connections from a pool and keep what they prepared, so each statement is explained with a generic plan as well as
//! with one made for the values at hand.

use std::collections::BTreeSet;

use boxoffice::queue::statements::{CLAIM, COMPLETE, GIVE_UP, HAS_KEY, HEAD, LAST, OVERDUE, PROMOTE, PRUNE, READY, RETRY, SETTINGS, TAKE};
use diesel::{PgConnection, connection::SimpleConnection};

use super::plans::{Expected, Plan, too_much};
use crate::support::Database;

/// How many jobs wait in one group.
const WAITING: i64 = 100_000;
/// How many jobs are done.
const DONE: i64 = 100_000;
/// How many small groups there are, of two jobs each.
const SMALL: i64 = 5_000;
const EVENT: &str = "'00000000-0000-0000-0000-000000000000'::uuid";
const LEASE: &str = "'00000000-0000-0000-0000-00000000001e'";

/// Writes jobs of `groups` groups, `each` in each; their ids begin with `first`. The last columns are as is said.
fn write(conn: &mut PgConnection, first: char, groups: i64, each: i64, (columns, values): (&str, &str)) {
    let write = format!(
        "INSERT INTO jobs (event_id, id, lane, kind, group_key, number, payload, created_at, run_at, {columns}) \
         SELECT {EVENT}, ('{first}' || lpad(n::text, 31, '0'))::uuid, 'tests', 'test', '{first}' || n % {groups}, n / {groups} + 1, \
           '{{}}', now(), now() - ({groups} * {each} - n) * interval '1 millisecond', {values} FROM generate_series(0, {groups} * {each} - 1) n"
    );
    conn.batch_execute(&write).unwrap();
}

/// What each kind of job is, as columns and values: `n` is its number, from 0.
const DONE_BEFORE: (&str, &str) = ("state, is_head, finished_at", "'DONE', false, now() - interval '1 hour'");
const LARGE: (&str, &str) =
    ("state, is_head, finished_at", "CASE WHEN n < 1 THEN 'DONE' ELSE 'CREATED' END, false, CASE WHEN n < 1 THEN now() END");
const ENDED: (&str, &str) =
    ("state, is_head, finished_at", "CASE WHEN n < 100 THEN 'DONE' ELSE 'CREATED' END, false, CASE WHEN n < 100 THEN now() END");
const SMALLS: (&str, &str) = ("is_head", "n < 5000");
const AT_WORK: (&str, &str) = (
    "state, is_head, lease, lease_until",
    "'WORKING', true, '00000000-0000-0000-0000-00000000001e', now() + make_interval(mins => CASE WHEN n < 20 THEN -1 ELSE 1 END)",
);

/// What the planner knows of the jobs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Known {
    /// What it knew in a quiet hour, when few had been written.
    Few,
    /// Autovacuum came when all had been forgotten: many pages, and nothing in them.
    None,
    /// Nothing, since autovacuum has never come.
    Nothing,
    /// All there is.
    All,
}

/// A consumer's session: the settings of its transactions, for all of it.
fn consumer(database: &Database) -> PgConnection {
    let mut conn = database.connect();
    conn.batch_execute(&SETTINGS.replace("SET LOCAL", "SET")).unwrap();
    conn
}

/// A table with all that a queue has on its worst day.
fn fill(conn: &mut PgConnection, known: Known) {
    conn.batch_execute("ALTER TABLE jobs SET (autovacuum_enabled = false)").unwrap();
    if known == Known::None {
        write(conn, 'd', DONE, 1, DONE_BEFORE);
        conn.batch_execute("DELETE FROM jobs").unwrap();
        conn.batch_execute("ANALYZE jobs").unwrap();
    }
    conn.batch_execute("INSERT INTO job_lanes (name, created_at) VALUES ('tests', now()), ('idle', now()), ('other', now())").unwrap();
    write(conn, 'a', 200, 1, ("is_head", "true"));
    if known == Known::Few {
        conn.batch_execute("VACUUM ANALYZE jobs, job_lanes").unwrap();
    }
    write(conn, 'd', DONE, 1, DONE_BEFORE);
    write(conn, 'b', 1, WAITING, LARGE);
    write(conn, 'c', SMALL, 2, SMALLS);
    // The first jobs of these and of the large group have just ended, and the next are no heads yet.
    write(conn, 'f', 100, 2, ENDED);
    write(conn, 'e', 200, 1, AT_WORK);
    // One was done long ago, and is to be forgotten; some have keys.
    conn.batch_execute("UPDATE jobs SET unique_key = 'key ' || number || group_key WHERE group_key < 'b'").unwrap();
    conn.batch_execute("UPDATE jobs SET finished_at = now() - interval '8 days' WHERE state = 'DONE' AND group_key = 'd99'").unwrap();
    if known == Known::All {
        conn.batch_execute("VACUUM ANALYZE jobs, job_lanes").unwrap();
    }
}

fn id(first: char, number: usize) -> String {
    format!("'{first}{number:031}'")
}

/// Values for so many jobs: their events and ids.
fn jobs(first: char, count: usize) -> String {
    let ids: Vec<String> = (0..count).map(|number| id(first, number)).collect();
    format!("ARRAY[{}], ARRAY[{}]::uuid[]", vec![EVENT; count].join(","), ids.join(","))
}

/// Values for the large group and the first small ones, of each of which the first job is over.
fn groups(count: usize) -> String {
    let small = (0..count - 1).map(|number| format!("'f{number}'"));
    let groups: Vec<String> = std::iter::once("'b0'".to_owned()).chain(small).collect();
    format!("ARRAY[{}], ARRAY[{}], ARRAY[{}], now()", vec![EVENT; count].join(","), groups.join(","), vec!["1"; count].join(","))
}

fn statements() -> Vec<Expected> {
    // A bitmap counts also the versions that the statements explained before have left of the same rows.
    const ONE: &[(&str, i64)] = &[("jobs_pkey", 10)];
    const HUNDRED: &[(&str, i64)] = &[("jobs_pkey", 300)];
    const ASK: &str = "text[], timestamptz[], timestamptz";
    let expected = |name, types, statement, values, reads| Expected { name, types, statement, values, reads };
    let take = format!("{}, 'node', now(), {LEASE}, now()", jobs('c', 100));
    let groups_of: Vec<String> = (0..100).map(|number| format!("'e{number}'")).collect();
    let complete = format!("{}, ARRAY[{}], {LEASE}, now()", jobs('e', 100), groups_of.join(","));
    vec![
        expected(
            "the claim",
            "text, timestamptz, timestamptz, bigint",
            CLAIM,
            "'tests', 'epoch', now(), 100".to_owned(),
            &[("jobs_ready", 100)],
        ),
        expected("taking what was claimed", "uuid[], uuid[], text, timestamptz, uuid, timestamptz", TAKE, take, HUNDRED),
        expected("completing", "uuid[], uuid[], text[], uuid, timestamptz", COMPLETE, complete, HUNDRED),
        expected(
            "the next jobs of a hundred groups",
            "uuid[], text[], integer[], timestamptz",
            PROMOTE,
            groups(100),
            &[("jobs_waiting", 100)],
        ),
        expected("the next job of the large group", "uuid[], text[], integer[], timestamptz", PROMOTE, groups(1), &[("jobs_waiting", 1)]),
        expected(
            "trying again",
            "uuid, uuid, uuid, timestamptz, text",
            RETRY,
            format!("{EVENT}, {}, {LEASE}, now(), 'no'", id('e', 7)),
            ONE,
        ),
        expected(
            "giving up",
            "uuid, uuid, uuid, timestamptz, text",
            GIVE_UP,
            format!("{EVENT}, {}, {LEASE}, now(), 'no'", id('e', 7)),
            ONE,
        ),
        expected("the head of a group", "uuid, text", HEAD, format!("{EVENT}, 'c7'"), &[("jobs_head", 1)]),
        expected("whether a key is there", "uuid, text", HAS_KEY, format!("{EVENT}, 'key 1a7'"), &[("jobs_unique_key", 1)]),
        expected("the last of a group", "uuid, text", LAST, format!("{EVENT}, 'b0'"), &[("jobs_waiting", 1)]),
        expected("the lanes that are ready", ASK, READY, "'{tests}', '{epoch}', now()".to_owned(), &[("jobs_ready", 1)]),
        expected("the lanes, of which none is known", ASK, READY, "'{}', '{}', now()".to_owned(), &[("jobs_ready", 1)]),
        expected("leases that ran out", "timestamptz, bigint", OVERDUE, "now(), 1000".to_owned(), &[("jobs_leased", 20)]),
        expected(
            "forgetting what was done",
            "timestamptz, bigint",
            PRUNE,
            "now() - interval '7 days', 1000".to_owned(),
            &[("jobs_done", 1)],
        ),
    ]
}

/// A statement that is not among those above may read the whole table, as one once did.
#[test]
fn no_statement_of_the_queue_is_left_out() {
    let source = include_str!("../../../src/queue/statements.rs");
    let written = source.lines().filter(|line| line.starts_with("pub const ")).count();
    let explained: BTreeSet<&str> = statements().iter().map(|expected| expected.statement).collect();
    assert_eq!(explained.len(), written - 1, "all but the settings");
}

fn each_reads_only_what_it_needs(known: Known) {
    let database = Database::new();
    let mut conn = consumer(&database);
    fill(&mut conn, known);
    let mut found = Vec::new();
    for expected in statements() {
        for mode in ["force_generic_plan", "force_custom_plan"] {
            let plan = Plan::of(&mut conn, mode, expected.types, expected.statement, &expected.values);
            found.extend(too_much(&plan, &expected).map(|why| format!("{} ({mode}): {why}:\n{plan:?}", expected.name)));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_statement_reads_only_what_it_needs_with_statistics_from_a_quiet_hour() {
    each_reads_only_what_it_needs(Known::Few);
}

#[test]
fn every_statement_reads_only_what_it_needs_without_statistics() {
    each_reads_only_what_it_needs(Known::Nothing);
}

#[test]
fn every_statement_reads_only_what_it_needs_with_fresh_statistics() {
    each_reads_only_what_it_needs(Known::All);
}

/// Seen with bench queue: the plans that come of this worked a thousand jobs a second where twenty thousand were, or none at all.
#[test]
fn every_statement_reads_only_what_it_needs_though_the_table_was_empty_when_it_was_analysed() {
    each_reads_only_what_it_needs(Known::None);
}

/// A consumer that was started before the first job, or just after it, keeps the plans that it made then.
#[test]
fn plans_that_were_made_on_an_empty_table_serve_a_full_one() {
    for jobs_before in [0, 1] {
        let database = Database::new();
        let mut conn = consumer(&database);
        if jobs_before > 0 {
            write(&mut conn, '9', jobs_before, 1, ("is_head", "true"));
        }
        conn.batch_execute("VACUUM ANALYZE jobs, job_lanes").unwrap();
        let statements = statements();
        for (number, Expected { types, statement, values, .. }) in statements.iter().enumerate() {
            let prepare = format!("PREPARE s{number} ({types}) AS {statement}; BEGIN; EXECUTE s{number} ({values}); ROLLBACK");
            conn.batch_execute(&prepare).unwrap();
        }
        // By somebody else, since a change by the session itself would have it plan anew.
        fill(&mut database.connect(), Known::Nothing);
        let mut found = Vec::new();
        for (number, expected) in statements.iter().enumerate() {
            let plan = Plan::explain(&mut conn, &format!("EXECUTE s{number} ({})", expected.values));
            found.extend(too_much(&plan, expected).map(|why| format!("{}: {why}:\n{plan:?}", expected.name)));
        }
        assert!(found.is_empty(), "after {jobs_before} jobs: {}", found.join("\n"));
    }
}
