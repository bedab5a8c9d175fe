//! The plans of the job queue, whatever the planner knows of a table that is empty at one moment and full at the next.
//!
//! Consumers take their connections from a pool and keep what they prepared, so each statement is explained with a generic plan as well as
//! with one made for the values at hand.

use boxoffice::queue::statements::{CLAIM, COMPLETE, GIVE_UP, HEAD, LAST, OVERDUE, PROMOTE, PRUNE, READY, RETRY, TAKE};
use diesel::{PgConnection, connection::SimpleConnection};

use super::plans::{Expected, Plan, Statistics, too_much};
use crate::support::Database;

/// How many jobs wait in one group.
const WAITING: i64 = 100_000;
/// How many jobs are done.
const DONE: i64 = 100_000;
/// How many small groups there are, of two jobs each.
const SMALL: i64 = 5_000;
const EVENT: &str = "'00000000-0000-0000-0000-000000000000'::uuid";
const LEASE: &str = "'00000000-0000-0000-0000-00000000001e'";

/// Writes jobs of `groups` groups, `each` in each; their ids begin with `first`, the heads first. What is not said of them is as `more` says.
fn write(conn: &mut PgConnection, first: char, groups: i64, each: i64, (columns, values): (&str, &str)) {
    let write = format!(
        "INSERT INTO jobs (event_id, id, lane, kind, group_key, number, payload, created_at, run_at, {columns}) \
         SELECT {EVENT}, ('{first}' || lpad(n::text, 31, '0'))::uuid, 'tests', 'test', '{first}' || n % {groups}, n / {groups} + 1, '{{}}', now(), \
           now() - ({groups} * {each} - n) * interval '1 millisecond', {values} FROM generate_series(0, {groups} * {each} - 1) AS n"
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

/// A table with all that a queue has on its worst day.
fn fill(conn: &mut PgConnection, statistics: Statistics) {
    conn.batch_execute("ALTER TABLE jobs SET (autovacuum_enabled = false)").unwrap();
    conn.batch_execute("INSERT INTO job_lanes (name, created_at) VALUES ('tests', now()), ('idle', now()), ('other', now())").unwrap();
    write(conn, 'a', 200, 1, ("is_head", "true"));
    if statistics == Statistics::Stale {
        conn.batch_execute("VACUUM ANALYZE jobs, job_lanes").unwrap();
    }
    write(conn, 'd', DONE, 1, DONE_BEFORE);
    write(conn, 'b', 1, WAITING, LARGE);
    write(conn, 'c', SMALL, 2, SMALLS);
    // The first jobs of these and of the large group have just ended, and the next are no heads yet.
    write(conn, 'f', 100, 2, ENDED);
    write(conn, 'e', 200, 1, AT_WORK);
    // Some were done long ago, and are to be forgotten.
    conn.batch_execute("UPDATE jobs SET finished_at = now() - interval '8 days' WHERE state = 'DONE' AND group_key = 'd99'").unwrap();
    if statistics == Statistics::Fresh {
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
    let complete = format!("{}, {LEASE}, now()", jobs('e', 100));
    vec![
        expected(
            "the claim",
            "text, timestamptz, timestamptz, bigint",
            CLAIM,
            "'tests', 'epoch', now(), 100".to_owned(),
            &[("jobs_ready", 100)],
        ),
        expected("taking what was claimed", "uuid[], uuid[], text, timestamptz, uuid, timestamptz", TAKE, take, HUNDRED),
        expected("completing", "uuid[], uuid[], uuid, timestamptz", COMPLETE, complete, HUNDRED),
        expected(
            "the next jobs of a hundred groups",
            "uuid[], text[], integer[], timestamptz",
            PROMOTE,
            groups(100),
            &[("jobs_waiting", 100), ("jobs_pkey", 100)],
        ),
        expected(
            "the next job of the large group",
            "uuid[], text[], integer[], timestamptz",
            PROMOTE,
            groups(1),
            &[("jobs_waiting", 1), ("jobs_pkey", 10)],
        ),
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

fn each_reads_only_what_it_needs(statistics: Statistics) {
    let database = Database::new();
    let mut conn = database.connect();
    fill(&mut conn, statistics);
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
    each_reads_only_what_it_needs(Statistics::Stale);
}

#[test]
fn every_statement_reads_only_what_it_needs_without_statistics() {
    each_reads_only_what_it_needs(Statistics::None);
}

#[test]
fn every_statement_reads_only_what_it_needs_with_fresh_statistics() {
    each_reads_only_what_it_needs(Statistics::Fresh);
}

/// A consumer that was started before the first job keeps the plans that it made then.
#[test]
fn plans_that_were_made_on_an_empty_table_serve_a_full_one() {
    let database = Database::new();
    let mut consumer = database.connect();
    consumer.batch_execute("VACUUM ANALYZE jobs, job_lanes").unwrap();
    consumer.batch_execute("SET plan_cache_mode = force_generic_plan").unwrap();
    let statements = statements();
    for (number, Expected { types, statement, values, .. }) in statements.iter().enumerate() {
        consumer
            .batch_execute(&format!("PREPARE s{number} ({types}) AS {statement}; BEGIN; EXECUTE s{number} ({values}); ROLLBACK"))
            .unwrap();
    }
    fill(&mut database.connect(), Statistics::None);
    let mut found = Vec::new();
    for (number, expected) in statements.iter().enumerate() {
        let plan = Plan::explain(&mut consumer, &format!("EXECUTE s{number} ({})", expected.values));
        found.extend(too_much(&plan, expected).map(|why| format!("{}: {why}:\n{plan:?}", expected.name)));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
