//! The job queue, and what it delivers.

mod confirmations;
mod contract;
mod groups;
mod languages;
mod leases;
mod webhooks;

use std::collections::HashMap;

use boxoffice::{
    ids::EventId,
    queue::{self, Ask, Claimed, Group, Lease, NewJob},
};
use chrono::{DateTime, TimeDelta, Utc};
use diesel::PgConnection;
use serde_json::{Value, json};

use crate::support::Database;

fn now() -> DateTime<Utc> {
    "2027-01-05T10:00:00Z".parse().unwrap()
}

fn after(seconds: i64) -> DateTime<Utc> {
    now() + TimeDelta::seconds(seconds)
}

/// A job of the lane `tests`, in a group or alone.
fn job(group: Option<&str>, payload: Value) -> NewJob {
    let group = group.map_or(Group::Alone, |name| Group::Of(name.to_owned()));
    NewJob { event: queue::no_event(), lane: "tests".to_owned(), kind: "test", group, unique_key: None, payload }
}

/// Jobs of one group, numbered from 1.
fn jobs_of(group: &str, count: usize) -> Vec<NewJob> {
    (1..=count).map(|number| job(Some(group), json!(number))).collect()
}

fn enqueue(conn: &mut PgConnection, jobs: &[NewJob]) -> usize {
    boxoffice::db::transaction(conn, |conn| queue::enqueue(conn, now(), jobs)).unwrap()
}

fn claim_at(conn: &mut PgConnection, at: DateTime<Utc>, count: usize) -> Option<Lease> {
    let ask = Ask { lane: "tests", after: DateTime::UNIX_EPOCH, count, node: "tester", time: TimeDelta::seconds(60) };
    queue::claim(conn, at, &ask).unwrap()
}

fn claim(conn: &mut PgConnection, count: usize) -> Vec<Value> {
    claim_at(conn, now(), count).map(|lease| told(&lease.jobs)).unwrap_or_default()
}

fn told(jobs: &[Claimed]) -> Vec<Value> {
    jobs.iter().map(|job| job.payload.clone()).collect()
}

fn complete(conn: &mut PgConnection, at: DateTime<Utc>, lease: &Lease) -> usize {
    let done: Vec<(&Claimed, Vec<NewJob>)> = lease.jobs.iter().map(|job| (job, Vec::new())).collect();
    queue::complete(conn, at, lease.token, &done).unwrap().jobs.len()
}

/// Works everything there is, in batches of at most `count`; returns what was done of each group, in order, the group being the first member
/// of the payload.
fn work_off(conn: &mut PgConnection, count: usize) -> HashMap<Value, Vec<Value>> {
    let mut done: HashMap<Value, Vec<Value>> = HashMap::new();
    while let Some(lease) = claim_at(conn, after(1), count) {
        for job in &lease.jobs {
            done.entry(job.payload[0].clone()).or_default().push(job.payload[1].clone());
        }
        assert_eq!(complete(conn, after(1), &lease), lease.jobs.len());
    }
    done
}

fn states(database: &Database) -> Vec<(String, i64)> {
    use diesel::{QueryableByName, RunQueryDsl, sql_query, sql_types};
    #[derive(QueryableByName)]
    struct Row {
        #[diesel(sql_type = sql_types::Text)]
        state: String,
        #[diesel(sql_type = sql_types::BigInt)]
        count: i64,
    }
    let rows: Vec<Row> =
        sql_query("SELECT state, count(*) AS count FROM jobs GROUP BY 1 ORDER BY 1").load(&mut database.connect()).unwrap();
    rows.into_iter().map(|row| (row.state, row.count)).collect()
}

fn event() -> EventId {
    EventId::new()
}
