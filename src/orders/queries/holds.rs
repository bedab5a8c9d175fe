//! Holds that are over.

use chrono::{DateTime, Utc};
use diesel::{
    PgConnection,
    dsl::sql,
    pg::Pg,
    prelude::*,
    query_builder::AstPass,
    sql_types::{Array, BigInt, Bool, Integer, Timestamptz, Uuid as SqlUuid},
};
use uuid::Uuid;

use crate::{
    db::{DbError, Prepared, Statement, schema::orders},
    ids::{EventId, OrderId},
    orders::statements::{DUE_SKIPPING, DUE_WAITING},
};

/// A hold that is over.
pub(in crate::orders) struct Due {
    pub(in crate::orders) id: OrderId,
    pub(in crate::orders) expires_at: DateTime<Utc>,
    pub(in crate::orders) positions: Vec<i32>,
}

type DueColumns = (SqlUuid, Timestamptz, Array<Integer>);

impl From<(Uuid, DateTime<Utc>, Vec<i32>)> for Due {
    fn from((id, expires_at, positions): (Uuid, DateTime<Utc>, Vec<i32>)) -> Self {
        Self { id: id.into(), expires_at, positions }
    }
}

struct DueSkipping {
    event: Uuid,
    now: DateTime<Utc>,
    after: (DateTime<Utc>, Uuid),
    limit: i64,
}

impl Statement for DueSkipping {
    const SQL: &'static str = DUE_SKIPPING;
    type Row = DueColumns;

    fn bind<'b>(&'b self, place: u32, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match place {
            1 => out.push_bind_param::<SqlUuid, _>(&self.event),
            2 => out.push_bind_param::<Timestamptz, _>(&self.now),
            3 => out.push_bind_param::<Timestamptz, _>(&self.after.0),
            4 => out.push_bind_param::<SqlUuid, _>(&self.after.1),
            _ => out.push_bind_param::<BigInt, _>(&self.limit),
        }
    }
}

/// Locks holds that are over at `now`, those behind `after`, and skips what others have locked.
pub(in crate::orders) fn due_holds(
    conn: &mut PgConnection,
    event: EventId,
    now: DateTime<Utc>,
    after: Option<(DateTime<Utc>, OrderId)>,
    limit: i64,
) -> Result<Vec<Due>, DbError> {
    let after = after.map_or((DateTime::UNIX_EPOCH, Uuid::nil()), |(at, id)| (at, id.uuid()));
    let rows: Vec<(Uuid, DateTime<Utc>, Vec<i32>)> = Prepared(DueSkipping { event: event.uuid(), now, after, limit }).load(conn)?;
    Ok(rows.into_iter().map(Due::from).collect())
}

struct DueWaiting {
    event: Uuid,
    now: DateTime<Utc>,
    limit: i64,
}

impl Statement for DueWaiting {
    const SQL: &'static str = DUE_WAITING;
    type Row = DueColumns;

    fn bind<'b>(&'b self, place: u32, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match place {
            1 => out.push_bind_param::<SqlUuid, _>(&self.event),
            2 => out.push_bind_param::<Timestamptz, _>(&self.now),
            _ => out.push_bind_param::<BigInt, _>(&self.limit),
        }
    }
}

/// Locks holds that are over at `now`, and waits for those that others have locked.
pub(in crate::orders) fn due_holds_waiting(
    conn: &mut PgConnection,
    event: EventId,
    now: DateTime<Utc>,
    limit: i64,
) -> Result<Vec<Due>, DbError> {
    let rows: Vec<(Uuid, DateTime<Utc>, Vec<i32>)> = Prepared(DueWaiting { event: event.uuid(), now, limit }).load(conn)?;
    Ok(rows.into_iter().map(Due::from).collect())
}

/// How many holds of an event are over at `now` and not ended.
pub(in crate::orders) fn count_due(conn: &mut PgConnection, event: EventId, now: DateTime<Utc>) -> Result<i64, DbError> {
    let due =
        orders::table.filter(orders::event_id.eq(event.uuid()).and(sql::<Bool>("status = 'HELD'"))).filter(orders::expires_at.le(now));
    Ok(due.count().get_result(conn)?)
}

/// Events that have a hold which is over at `now`.
pub(in crate::orders) fn events_with_due_holds(conn: &mut PgConnection, now: DateTime<Utc>) -> Result<Vec<EventId>, DbError> {
    let rows: Vec<Uuid> = orders::table
        .filter(sql::<Bool>("status = 'HELD'").and(orders::expires_at.le(now)))
        .select(orders::event_id)
        .distinct()
        .load(conn)?;
    Ok(rows.into_iter().map(EventId::from).collect())
}
