//! SQL of the queue. Takes a connection, opens and commits nothing.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use diesel::{
    PgConnection,
    connection::SimpleConnection,
    pg::Pg,
    prelude::*,
    query_builder::AstPass,
    sql_query,
    sql_types::{Array, BigInt, Bool, Integer, Jsonb, Nullable, Text, Timestamptz, Untyped, Uuid as SqlUuid},
};
use serde_json::Value;
use uuid::Uuid;

use super::{
    Ask, Claimed, Failure, Group, LaneState, Lease, NewJob,
    statements::{CLAIM, COMPLETE, GIVE_UP, HAS_KEY, HEAD, LAST, OVERDUE, PROMOTE, PRUNE, READY, RETRY, SETTINGS, TAKE},
};
use crate::{
    db::{
        DbError, Prepared, Statement,
        schema::{job_lanes, jobs},
    },
    ids::{EventId, JobId},
};

/// Has the statements of this transaction planned as [`SETTINGS`] says.
pub(super) fn settle_plans(conn: &mut PgConnection) -> Result<(), DbError> {
    Ok(conn.batch_execute(SETTINGS)?)
}

/// A job that is over, and so makes place for the next of its group.
pub(super) struct Over {
    event: Uuid,
    pub(super) id: JobId,
    group: String,
    number: i32,
}

type OverColumns = (SqlUuid, SqlUuid, Text, Integer);

impl From<(Uuid, Uuid, String, i32)> for Over {
    fn from((event, id, group, number): (Uuid, Uuid, String, i32)) -> Self {
        Self { event, id: id.into(), group, number }
    }
}

impl NewJob {
    /// A job alone is a group of its own: its id.
    fn group_key(&self, id: JobId) -> String {
        match &self.group {
            Group::Alone => id.to_string(),
            Group::Of(key) => key.clone(),
        }
    }
}

struct InsertHeads {
    now: DateTime<Utc>,
    events: Vec<Uuid>,
    ids: Vec<Uuid>,
    lanes: Vec<String>,
    kinds: Vec<&'static str>,
    groups: Vec<String>,
    keys: Vec<Option<String>>,
    payloads: Vec<Value>,
}

impl Statement for InsertHeads {
    const SQL: &'static str = "INSERT INTO jobs (event_id, id, lane, kind, group_key, number, is_head, unique_key, payload, run_at, created_at) \
         SELECT new.event_id, new.id, new.lane, new.kind, new.group_key, 1, true, new.unique_key, new.payload, $1, $1 \
         FROM unnest($2, $3, $4, $5, $6, $7, $8) AS new (event_id, id, lane, kind, group_key, unique_key, payload) \
         ON CONFLICT DO NOTHING RETURNING id";
    type Row = SqlUuid;

    fn bind<'b>(&'b self, place: u32, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match place {
            1 => out.push_bind_param::<Timestamptz, _>(&self.now),
            2 => out.push_bind_param::<Array<SqlUuid>, _>(&self.events),
            3 => out.push_bind_param::<Array<SqlUuid>, _>(&self.ids),
            4 => out.push_bind_param::<Array<Text>, _>(&self.lanes),
            5 => out.push_bind_param::<Array<Text>, _>(&self.kinds),
            6 => out.push_bind_param::<Array<Text>, _>(&self.groups),
            7 => out.push_bind_param::<Array<Nullable<Text>>, _>(&self.keys),
            _ => out.push_bind_param::<Array<Jsonb>, _>(&self.payloads),
        }
    }
}

/// Writes jobs as the heads of their groups; returns how many were, and those that were not: their group has a head, or their key is
/// there.
pub(super) fn insert_heads<'j>(
    conn: &mut PgConnection,
    now: DateTime<Utc>,
    new: &[&'j NewJob],
) -> Result<(usize, Vec<&'j NewJob>), DbError> {
    if new.is_empty() {
        return Ok((0, Vec::new()));
    }
    let ids: Vec<JobId> = new.iter().map(|_| JobId::new()).collect();
    let written: Vec<Uuid> = Prepared(InsertHeads {
        now,
        events: new.iter().map(|job| job.event.uuid()).collect(),
        ids: ids.iter().map(|id| id.uuid()).collect(),
        lanes: new.iter().map(|job| job.lane.clone()).collect(),
        kinds: new.iter().map(|job| job.kind).collect(),
        groups: new.iter().zip(&ids).map(|(job, id)| job.group_key(*id)).collect(),
        keys: new.iter().map(|job| job.unique_key.clone()).collect(),
        payloads: new.iter().map(|job| job.payload.clone()).collect(),
    })
    .load(conn)?;
    let written: HashSet<Uuid> = written.into_iter().collect();
    let others = new.iter().zip(&ids).filter(|(_, id)| !written.contains(&id.uuid())).map(|(job, _)| *job).collect();
    Ok((written.len(), others))
}

struct HasKey {
    event: Uuid,
    key: String,
}

impl Statement for HasKey {
    const SQL: &'static str = HAS_KEY;
    type Row = Integer;

    fn bind<'b>(&'b self, place: u32, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match place {
            1 => out.push_bind_param::<SqlUuid, _>(&self.event),
            _ => out.push_bind_param::<Text, _>(&self.key),
        }
    }
}

pub(super) fn has_unique_key(conn: &mut PgConnection, job: &NewJob) -> Result<bool, DbError> {
    let Some(key) = &job.unique_key else { return Ok(false) };
    let found: Vec<i32> = Prepared(HasKey { event: job.event.uuid(), key: key.clone() }).load(conn)?;
    Ok(!found.is_empty())
}

struct Head {
    event: Uuid,
    group: String,
}

impl Statement for Head {
    const SQL: &'static str = HEAD;
    type Row = Integer;

    fn bind<'b>(&'b self, place: u32, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match place {
            1 => out.push_bind_param::<SqlUuid, _>(&self.event),
            _ => out.push_bind_param::<Text, _>(&self.group),
        }
    }
}

struct Last {
    event: Uuid,
    group: String,
}

impl Statement for Last {
    const SQL: &'static str = LAST;
    type Row = Integer;

    fn bind<'b>(&'b self, place: u32, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match place {
            1 => out.push_bind_param::<SqlUuid, _>(&self.event),
            _ => out.push_bind_param::<Text, _>(&self.group),
        }
    }
}

/// Locks the head of a job's group, and returns the last number that the group has; `None` if there is no head.
pub(super) fn last_number(conn: &mut PgConnection, job: &NewJob) -> Result<Option<i32>, DbError> {
    let Group::Of(group) = &job.group else { return Ok(None) };
    let head: Option<i32> = Prepared(Head { event: job.event.uuid(), group: group.clone() }).load(conn)?.pop();
    let Some(head) = head else { return Ok(None) };
    let waiting: Option<i32> = Prepared(Last { event: job.event.uuid(), group: group.clone() }).load(conn)?.pop();
    Ok(Some(waiting.unwrap_or(head).max(head)))
}

/// Writes a job behind others of its group; `false` if its unique key is there by now.
pub(super) fn insert_waiting(conn: &mut PgConnection, now: DateTime<Utc>, job: &NewJob, number: i32) -> Result<bool, DbError> {
    let id = JobId::new();
    let written = diesel::insert_into(jobs::table)
        .values((
            jobs::event_id.eq(job.event.uuid()),
            jobs::id.eq(id.uuid()),
            jobs::lane.eq(&job.lane),
            jobs::kind.eq(job.kind),
            jobs::group_key.eq(job.group_key(id)),
            jobs::number.eq(number),
            jobs::is_head.eq(false),
            jobs::unique_key.eq(&job.unique_key),
            jobs::payload.eq(&job.payload),
            jobs::run_at.eq(now),
            jobs::created_at.eq(now),
        ))
        .on_conflict_do_nothing()
        .execute(conn)?;
    Ok(written > 0)
}

type ClaimedRow = (Uuid, Uuid, String, String, i32, Value, i32, DateTime<Utc>);

struct ClaimValues {
    lane: String,
    after: DateTime<Utc>,
    now: DateTime<Utc>,
    count: i64,
}

impl Statement for ClaimValues {
    const SQL: &'static str = CLAIM;
    type Row = (SqlUuid, SqlUuid, Text, Text, Integer, Jsonb, Integer, Timestamptz);

    fn bind<'b>(&'b self, place: u32, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match place {
            1 => out.push_bind_param::<Text, _>(&self.lane),
            2 => out.push_bind_param::<Timestamptz, _>(&self.after),
            3 => out.push_bind_param::<Timestamptz, _>(&self.now),
            _ => out.push_bind_param::<BigInt, _>(&self.count),
        }
    }
}

pub(super) fn claim(conn: &mut PgConnection, now: DateTime<Utc>, ask: &Ask<'_>) -> Result<Vec<Claimed>, DbError> {
    let count = i64::try_from(ask.count).unwrap_or(i64::MAX);
    let rows: Vec<ClaimedRow> = Prepared(ClaimValues { lane: ask.lane.to_owned(), after: ask.after, now, count }).load(conn)?;
    let claimed = |(event, id, kind, group, _, payload, attempts, run_at): ClaimedRow| Claimed {
        event: event.into(),
        id: id.into(),
        kind,
        group,
        payload,
        attempt: u32::try_from(attempts).unwrap_or(0) + 1,
        run_at,
    };
    Ok(rows.into_iter().map(claimed).collect())
}

struct Take {
    events: Vec<Uuid>,
    ids: Vec<Uuid>,
    node: String,
    now: DateTime<Utc>,
    lease: Uuid,
    until: DateTime<Utc>,
}

impl Statement for Take {
    const SQL: &'static str = TAKE;
    type Row = Untyped;

    fn bind<'b>(&'b self, place: u32, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match place {
            1 => out.push_bind_param::<Array<SqlUuid>, _>(&self.events),
            2 => out.push_bind_param::<Array<SqlUuid>, _>(&self.ids),
            3 => out.push_bind_param::<Text, _>(&self.node),
            4 => out.push_bind_param::<Timestamptz, _>(&self.now),
            5 => out.push_bind_param::<SqlUuid, _>(&self.lease),
            _ => out.push_bind_param::<Timestamptz, _>(&self.until),
        }
    }
}

pub(super) fn take(conn: &mut PgConnection, now: DateTime<Utc>, ask: &Ask<'_>, lease: &Lease) -> Result<(), DbError> {
    let (events, ids) = lease.jobs.iter().map(|job| (job.event.uuid(), job.id.uuid())).unzip();
    let taken = Prepared(Take { events, ids, node: ask.node.to_owned(), now, lease: lease.token, until: now + ask.time }).execute(conn)?;
    if taken == lease.jobs.len() {
        return Ok(());
    }
    Err(DbError::unreadable(format!("claimed {} jobs and could take {taken}", lease.jobs.len())))
}

struct Complete {
    events: Vec<Uuid>,
    ids: Vec<Uuid>,
    groups: Vec<String>,
    lease: Uuid,
    now: DateTime<Utc>,
}

impl Statement for Complete {
    const SQL: &'static str = COMPLETE;
    type Row = OverColumns;

    fn bind<'b>(&'b self, place: u32, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match place {
            1 => out.push_bind_param::<Array<SqlUuid>, _>(&self.events),
            2 => out.push_bind_param::<Array<SqlUuid>, _>(&self.ids),
            3 => out.push_bind_param::<Array<Text>, _>(&self.groups),
            4 => out.push_bind_param::<SqlUuid, _>(&self.lease),
            _ => out.push_bind_param::<Timestamptz, _>(&self.now),
        }
    }
}

pub(super) fn complete(conn: &mut PgConnection, now: DateTime<Utc>, lease: Uuid, done: &[&Claimed]) -> Result<Vec<Over>, DbError> {
    let (events, ids) = done.iter().map(|job| (job.event.uuid(), job.id.uuid())).unzip();
    let groups = done.iter().map(|job| job.group.clone()).collect();
    let rows: Vec<(Uuid, Uuid, String, i32)> = Prepared(Complete { events, ids, groups, lease, now }).load(conn)?;
    Ok(rows.into_iter().map(Over::from).collect())
}

struct Promote {
    events: Vec<Uuid>,
    groups: Vec<String>,
    numbers: Vec<i32>,
    now: DateTime<Utc>,
}

impl Statement for Promote {
    const SQL: &'static str = PROMOTE;
    type Row = Text;

    fn bind<'b>(&'b self, place: u32, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match place {
            1 => out.push_bind_param::<Array<SqlUuid>, _>(&self.events),
            2 => out.push_bind_param::<Array<Text>, _>(&self.groups),
            3 => out.push_bind_param::<Array<Integer>, _>(&self.numbers),
            _ => out.push_bind_param::<Timestamptz, _>(&self.now),
        }
    }
}

/// Lets the next job of each group be its head, and returns the lanes that these are in.
pub(super) fn promote(conn: &mut PgConnection, now: DateTime<Utc>, over: &[Over]) -> Result<HashSet<String>, DbError> {
    // Nothing can wait behind a job alone, whose group nobody else can name.
    let grouped: Vec<&Over> = over.iter().filter(|over| over.group != over.id.to_string()).collect();
    if grouped.is_empty() {
        return Ok(HashSet::new());
    }
    let lanes: Vec<String> = Prepared(Promote {
        events: grouped.iter().map(|over| over.event).collect(),
        groups: grouped.iter().map(|over| over.group.clone()).collect(),
        numbers: grouped.iter().map(|over| over.number).collect(),
        now,
    })
    .load(conn)?;
    Ok(lanes.into_iter().collect())
}

pub(super) fn retry(
    conn: &mut PgConnection,
    lease: Uuid,
    event: EventId,
    id: JobId,
    at: DateTime<Utc>,
    why: &str,
) -> Result<bool, DbError> {
    let retried = sql_query(RETRY)
        .bind::<SqlUuid, _>(event.uuid())
        .bind::<SqlUuid, _>(id.uuid())
        .bind::<SqlUuid, _>(lease)
        .bind::<Timestamptz, _>(at)
        .bind::<Text, _>(why)
        .execute(conn)?;
    Ok(retried > 0)
}

#[derive(QueryableByName)]
#[diesel(table_name = jobs)]
struct OverRow {
    event_id: Uuid,
    id: Uuid,
    group_key: String,
    number: i32,
}

pub(super) fn give_up(
    conn: &mut PgConnection,
    now: DateTime<Utc>,
    lease: Uuid,
    event: EventId,
    id: JobId,
    why: &str,
) -> Result<Vec<Over>, DbError> {
    let rows: Vec<OverRow> = sql_query(GIVE_UP)
        .bind::<SqlUuid, _>(event.uuid())
        .bind::<SqlUuid, _>(id.uuid())
        .bind::<SqlUuid, _>(lease)
        .bind::<Timestamptz, _>(now)
        .bind::<Text, _>(why)
        .load(conn)?;
    Ok(rows.into_iter().map(|row| Over::from((row.event_id, row.id, row.group_key, row.number))).collect())
}

/// A job whose lease has run out.
pub(super) struct Overdue {
    pub(super) event: EventId,
    pub(super) id: JobId,
    pub(super) lease: Uuid,
    pub(super) attempts: u32,
    pub(super) kind: String,
}

#[derive(QueryableByName)]
struct OverdueRow {
    #[diesel(sql_type = SqlUuid)]
    event_id: Uuid,
    #[diesel(sql_type = SqlUuid)]
    id: Uuid,
    #[diesel(sql_type = SqlUuid)]
    lease: Uuid,
    #[diesel(sql_type = Integer)]
    attempts: i32,
    #[diesel(sql_type = Text)]
    kind: String,
}

pub(super) fn overdue(conn: &mut PgConnection, now: DateTime<Utc>, count: usize) -> Result<Vec<Overdue>, DbError> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let rows: Vec<OverdueRow> = sql_query(OVERDUE).bind::<Timestamptz, _>(now).bind::<BigInt, _>(count).load(conn)?;
    let overdue = |row: OverdueRow| Overdue {
        event: row.event_id.into(),
        id: row.id.into(),
        lease: row.lease,
        attempts: u32::try_from(row.attempts).unwrap_or(0),
        kind: row.kind,
    };
    Ok(rows.into_iter().map(overdue).collect())
}

struct Ready {
    lanes: Vec<String>,
    after: Vec<DateTime<Utc>>,
    now: DateTime<Utc>,
}

impl Statement for Ready {
    const SQL: &'static str = READY;
    type Row = Text;

    fn bind<'b>(&'b self, place: u32, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match place {
            1 => out.push_bind_param::<Array<Text>, _>(&self.lanes),
            2 => out.push_bind_param::<Array<Timestamptz>, _>(&self.after),
            _ => out.push_bind_param::<Timestamptz, _>(&self.now),
        }
    }
}

pub(super) fn ready(conn: &mut PgConnection, now: DateTime<Utc>, after: &[(String, DateTime<Utc>)]) -> Result<Vec<String>, DbError> {
    let (lanes, after) = after.iter().cloned().unzip();
    Ok(Prepared(Ready { lanes, after, now }).load(conn)?)
}

pub(super) fn add_lanes(conn: &mut PgConnection, now: DateTime<Utc>, names: &[&str]) -> Result<(), DbError> {
    let rows: Vec<_> = names.iter().map(|name| (job_lanes::name.eq(*name), job_lanes::created_at.eq(now))).collect();
    diesel::insert_into(job_lanes::table).values(rows).on_conflict_do_nothing().execute(conn)?;
    Ok(())
}

pub(super) fn remove_lane(conn: &mut PgConnection, name: &str) -> Result<(), DbError> {
    diesel::delete(job_lanes::table.find(name)).execute(conn)?;
    diesel::delete(jobs::table.filter(jobs::lane.eq(name).and(jobs::state.ne("WORKING")))).execute(conn)?;
    Ok(())
}

/// The lanes of these kinds that have jobs to take and are not known, found by skipping from lane to lane in the index of heads.
const LANES_GONE: &str = "WITH RECURSIVE lanes (name) AS (\
       (SELECT lane FROM jobs WHERE state = 'CREATED' AND is_head ORDER BY lane, run_at, event_id, id LIMIT 1) \
       UNION ALL SELECT (SELECT lane FROM jobs WHERE state = 'CREATED' AND is_head AND lane > lanes.name \
         ORDER BY lane, run_at, event_id, id LIMIT 1) FROM lanes WHERE name IS NOT NULL) \
     SELECT name FROM lanes WHERE split_part(name, ':', 1) = ANY ($1) AND NOT EXISTS (SELECT FROM job_lanes AS known WHERE known.name = lanes.name)";

#[derive(QueryableByName)]
struct NameRow {
    #[diesel(sql_type = Text)]
    name: String,
}

pub(super) fn lanes_gone(conn: &mut PgConnection, kinds: &[&str]) -> Result<Vec<String>, DbError> {
    let rows: Vec<NameRow> = sql_query(LANES_GONE).bind::<Array<Text>, _>(kinds).load(conn)?;
    Ok(rows.into_iter().map(|row| row.name).collect())
}

/// Whether a lane has a job to take, now or later.
pub(super) fn has_heads(conn: &mut PgConnection, lane: &str) -> Result<bool, DbError> {
    use diesel::dsl::sql;
    let heads = jobs::table.filter(jobs::lane.eq(lane).and(sql::<Bool>("state = 'CREATED' AND is_head")));
    Ok(heads.select(jobs::id).first::<Uuid>(conn).optional()?.is_some())
}

pub(super) fn empty_lane(conn: &mut PgConnection, lane: &str) -> Result<usize, DbError> {
    Ok(diesel::delete(jobs::table.filter(jobs::lane.eq(lane).and(jobs::state.eq("CREATED")))).execute(conn)?)
}

const REST: &str = "UPDATE job_lanes SET rests_until = greatest(rests_until, $2) WHERE name = $1";

pub(super) fn rest(conn: &mut PgConnection, lane: &str, until: DateTime<Utc>) -> Result<(), DbError> {
    sql_query(REST).bind::<Text, _>(lane).bind::<Timestamptz, _>(until).execute(conn)?;
    Ok(())
}

pub(super) fn end_rest(conn: &mut PgConnection, lane: &str) -> Result<(), DbError> {
    diesel::update(job_lanes::table.find(lane)).set(job_lanes::rests_until.eq(None::<DateTime<Utc>>)).execute(conn)?;
    Ok(())
}

const SET_PAUSED: &str = "UPDATE job_lanes SET paused_at = CASE WHEN $3 THEN coalesce(paused_at, $2) END WHERE name = $1";

pub(super) fn set_paused(conn: &mut PgConnection, now: DateTime<Utc>, lane: &str, paused: bool) -> Result<bool, DbError> {
    let set = sql_query(SET_PAUSED).bind::<Text, _>(lane).bind::<Timestamptz, _>(now).bind::<Bool, _>(paused).execute(conn)?;
    Ok(set > 0)
}

/// The group, the lane and the state of a job, which is locked.
pub(super) fn find(conn: &mut PgConnection, event: EventId, id: JobId) -> Result<Option<(String, String, String)>, DbError> {
    let job = jobs::table.find((event.uuid(), id.uuid())).select((jobs::group_key, jobs::lane, jobs::state));
    Ok(job.for_update().first(conn).optional()?)
}

/// Jobs of a lane that were given up until then, the first first.
pub(super) fn given_up(conn: &mut PgConnection, lane: &str, until: DateTime<Utc>, count: usize) -> Result<Vec<(EventId, JobId)>, DbError> {
    use diesel::dsl::sql;
    let rows: Vec<(Uuid, Uuid)> = jobs::table
        .filter(sql::<Bool>("state = 'FAILED'").and(jobs::lane.eq(lane)).and(jobs::finished_at.le(until)))
        .order((jobs::finished_at, jobs::number))
        .limit(i64::try_from(count).unwrap_or(i64::MAX))
        .select((jobs::event_id, jobs::id))
        .load(conn)?;
    Ok(rows.into_iter().map(|(event, id)| (event.into(), id.into())).collect())
}

const REVIVE: &str = "UPDATE jobs SET state = 'CREATED', attempts = 0, run_at = $3, finished_at = NULL, is_head = $4, number = $5 \
     WHERE event_id = $1 AND id = $2 AND state = 'FAILED' \
       AND NOT ($4 AND EXISTS (SELECT FROM jobs AS head WHERE head.event_id = $1 AND head.group_key = jobs.group_key AND head.is_head))";

/// Puts a job back behind the `last` one of its group, or as its head; `false` if the group has got a head meanwhile.
pub(super) fn revive(conn: &mut PgConnection, now: DateTime<Utc>, event: EventId, id: JobId, last: Option<i32>) -> Result<bool, DbError> {
    let revived = sql_query(REVIVE)
        .bind::<SqlUuid, _>(event.uuid())
        .bind::<SqlUuid, _>(id.uuid())
        .bind::<Timestamptz, _>(now)
        .bind::<Bool, _>(last.is_none())
        .bind::<Integer, _>(last.unwrap_or(0) + 1)
        .execute(conn)?;
    Ok(revived > 0)
}

pub(super) fn prune(conn: &mut PgConnection, before: DateTime<Utc>, count: usize) -> Result<usize, DbError> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    Ok(sql_query(PRUNE).bind::<Timestamptz, _>(before).bind::<BigInt, _>(count).execute(conn)?)
}

#[derive(QueryableByName)]
struct LaneRow {
    #[diesel(sql_type = Text)]
    name: String,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    paused_at: Option<DateTime<Utc>>,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    rests_until: Option<DateTime<Utc>>,
    #[diesel(sql_type = BigInt)]
    created: i64,
    #[diesel(sql_type = BigInt)]
    working: i64,
    #[diesel(sql_type = BigInt)]
    done: i64,
    #[diesel(sql_type = BigInt)]
    failed: i64,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    oldest: Option<DateTime<Utc>>,
}

const LANES: &str = "SELECT known.name, known.paused_at, known.rests_until, coalesce(created, 0) AS created, coalesce(working, 0) AS working, \
       coalesce(done, 0) AS done, coalesce(failed, 0) AS failed, oldest \
     FROM job_lanes AS known LEFT JOIN (SELECT lane, count(*) FILTER (WHERE state = 'CREATED') AS created, \
         count(*) FILTER (WHERE state = 'WORKING') AS working, count(*) FILTER (WHERE state = 'DONE') AS done, \
         count(*) FILTER (WHERE state = 'FAILED') AS failed, min(run_at) FILTER (WHERE state = 'CREATED' AND run_at <= $1) AS oldest \
       FROM jobs GROUP BY lane) AS counted ON counted.lane = known.name ORDER BY known.name";

pub(super) fn lanes(conn: &mut PgConnection, now: DateTime<Utc>) -> Result<Vec<LaneState>, DbError> {
    let rows: Vec<LaneRow> = sql_query(LANES).bind::<Timestamptz, _>(now).load(conn)?;
    let lane = |LaneRow { name, paused_at, rests_until, created, working, done, failed, oldest }| LaneState {
        name,
        paused_at,
        rests_until,
        created,
        working,
        done,
        failed,
        oldest,
    };
    Ok(rows.into_iter().map(lane).collect())
}

type FailureRow = (Uuid, Uuid, String, String, Value, i32, Option<String>, String, DateTime<Utc>);

pub(super) fn failures(conn: &mut PgConnection, count: i64) -> Result<Vec<Failure>, DbError> {
    use diesel::dsl::sql;
    let columns = (jobs::event_id, jobs::id, jobs::lane, jobs::kind, jobs::payload, jobs::attempts, jobs::error, jobs::state, jobs::run_at);
    let given_up: Vec<FailureRow> =
        jobs::table.filter(sql::<Bool>("state = 'FAILED'")).order(jobs::finished_at.desc()).limit(count).select(columns).load(conn)?;
    let left = count - i64::try_from(given_up.len()).unwrap_or(count);
    let waiting: Vec<FailureRow> = jobs::table
        .filter(sql::<Bool>("state = 'CREATED' AND error IS NOT NULL"))
        .order(jobs::run_at)
        .limit(left)
        .select(columns)
        .load(conn)?;
    let failure = |(event, id, lane, kind, payload, attempts, error, state, run_at): FailureRow| Failure {
        event: event.into(),
        id: id.into(),
        lane,
        kind,
        payload,
        attempts,
        error: error.unwrap_or_default(),
        next: (state == "CREATED").then_some(run_at),
    };
    Ok(given_up.into_iter().chain(waiting).map(failure).collect())
}
