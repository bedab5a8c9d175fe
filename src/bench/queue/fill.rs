//! What is in the table before the consumers begin. Written by SQL, since the time that it takes is not measured: the rows are those that
//! `queue::enqueue` makes.

use chrono::{DateTime, TimeDelta, Utc};
use diesel::{
    PgConnection, RunQueryDsl,
    connection::SimpleConnection,
    sql_query,
    sql_types::{Bool, Integer, Timestamptz},
};

use super::{KIND, situation::Jobs};
use crate::db::DbError;

/// Number of the first group whose jobs are wanted. The large group has the one before.
pub(super) const FIRST_WANTED: u32 = 1;

/// `$1` first group, `$2` groups, `$3` jobs of each, `$4` whether they are alone, `$5` when the last of them became due. As if twenty
/// thousand a second had been written, about what a sale does at its busiest.
const JOBS: &str = "INSERT INTO jobs (event_id, id, lane, kind, group_key, number, is_head, payload, run_at, created_at) \
     SELECT '00000000-0000-0000-0000-000000000000', id, KIND, KIND, CASE WHEN $4 THEN id::text ELSE 'group ' || of_group END, \
       number + 1, number = 0, jsonb_build_array(of_group, number), due, due \
     FROM (SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(($1::bigint << 32) + n), 12, '0'))::uuid AS id, \
         $1 + n % $2 AS of_group, n / $2 AS number, $5 - ($2 * $3 - n) * interval '50 microseconds' AS due \
       FROM generate_series(0, $2 * $3 - 1) AS n) AS new";

/// `$1` how many, `$2` when the last of them was done.
const FINISHED: &str = "INSERT INTO jobs (event_id, id, lane, kind, group_key, number, is_head, payload, state, run_at, attempts, node, \
       taken_at, finished_at, created_at) \
     SELECT '00000000-0000-0000-0000-000000000000', id, KIND, KIND, id::text, 1, false, '[]', 'DONE', done, 1, 'before', done, done, done \
     FROM (SELECT ('00000000-0000-7000-0000-' || lpad(to_hex(n), 12, '0'))::uuid AS id, $2 - ($1 - n) * interval '1 millisecond' AS done \
       FROM generate_series(1, $1) AS n) AS old";

/// Forgets every job.
pub(super) fn empty(conn: &mut PgConnection) -> Result<(), DbError> {
    Ok(conn.batch_execute("TRUNCATE jobs")?)
}

/// Writes jobs, the first of each group before the second of any.
pub(super) fn write(conn: &mut PgConnection, now: DateTime<Utc>, first: u32, jobs: Jobs) -> Result<(), DbError> {
    sql_query(JOBS.replace("KIND", &format!("'{KIND}'")))
        .bind::<Integer, _>(first.cast_signed())
        .bind::<Integer, _>(jobs.groups.cast_signed())
        .bind::<Integer, _>(jobs.each.cast_signed())
        .bind::<Bool, _>(jobs.are_alone)
        .bind::<Timestamptz, _>(now)
        .execute(conn)?;
    Ok(())
}

/// Writes jobs that were done a while ago.
pub(super) fn write_finished(conn: &mut PgConnection, now: DateTime<Utc>, count: u32) -> Result<(), DbError> {
    sql_query(FINISHED.replace("KIND", &format!("'{KIND}'")))
        .bind::<Integer, _>(count.cast_signed())
        .bind::<Timestamptz, _>(now - TimeDelta::minutes(1))
        .execute(conn)?;
    Ok(())
}
