//! What each buyer has, for the limits.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use diesel::{
    PgConnection,
    pg::Pg,
    prelude::*,
    query_builder::AstPass,
    sql_query,
    sql_types::{Array, BigInt, Text, Timestamptz, Untyped, Uuid as SqlUuid},
};
use uuid::Uuid;

use crate::{
    db::{DbError, Prepared, Statement, schema::orders},
    ids::{EventId, OrderId},
    orders::statements::{BUYERS_HAVE, LOCK_BUYERS},
};

struct LockBuyers {
    event: Uuid,
    keys: Vec<String>,
}

impl Statement for LockBuyers {
    const SQL: &'static str = LOCK_BUYERS;
    type Row = Untyped;

    fn bind<'b>(&'b self, place: u32, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match place {
            1 => out.push_bind_param::<SqlUuid, _>(&self.event),
            _ => out.push_bind_param::<Array<Text>, _>(&self.keys),
        }
    }
}

pub(in crate::orders) fn lock_buyers(conn: &mut PgConnection, event: EventId, keys: &[String]) -> Result<(), DbError> {
    Prepared(LockBuyers { event: event.uuid(), keys: keys.to_vec() }).execute(conn)?;
    Ok(())
}

struct BuyersHave {
    event: Uuid,
    keys: Vec<String>,
    now: DateTime<Utc>,
}

impl Statement for BuyersHave {
    const SQL: &'static str = BUYERS_HAVE;
    type Row = (Text, BigInt);

    fn bind<'b>(&'b self, place: u32, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match place {
            1 => out.push_bind_param::<SqlUuid, _>(&self.event),
            2 => out.push_bind_param::<Array<Text>, _>(&self.keys),
            _ => out.push_bind_param::<Timestamptz, _>(&self.now),
        }
    }
}

/// How many tickets each of these buyers has, held and bought.
pub(in crate::orders) fn buyers_have(
    conn: &mut PgConnection,
    event: EventId,
    keys: &[String],
    now: DateTime<Utc>,
) -> Result<HashMap<String, i64>, DbError> {
    let rows: Vec<(String, i64)> = Prepared(BuyersHave { event: event.uuid(), keys: keys.to_vec(), now }).load(conn)?;
    Ok(rows.into_iter().collect())
}

/// A page of an event's orders that have no buyer's key, locked, with their buyers' addresses.
pub(in crate::orders) fn orders_without_key(
    conn: &mut PgConnection,
    event: EventId,
    after: Option<OrderId>,
    limit: i64,
) -> Result<Vec<(OrderId, String)>, DbError> {
    let rows: Vec<(Uuid, String)> = orders::table
        .filter(orders::event_id.eq(event.uuid()).and(orders::buyer_key.is_null()))
        .filter(orders::id.gt(after.map_or(Uuid::nil(), OrderId::uuid)))
        .order((orders::event_id, orders::id))
        .limit(limit)
        .select((orders::id, orders::buyer_email))
        .for_update()
        .load(conn)?;
    Ok(rows.into_iter().map(|(id, email)| (id.into(), email)).collect())
}

const SET_BUYER_KEYS: &str = "UPDATE orders SET buyer_key = keyed.key FROM unnest($2, $3) AS keyed (id, key) \
     WHERE orders.event_id = $1 AND orders.id = keyed.id";

pub(in crate::orders) fn set_buyer_keys(conn: &mut PgConnection, event: EventId, keys: &[(OrderId, String)]) -> Result<(), DbError> {
    sql_query(SET_BUYER_KEYS)
        .bind::<SqlUuid, _>(event.uuid())
        .bind::<Array<SqlUuid>, _>(keys.iter().map(|(id, _)| id.uuid()).collect::<Vec<_>>())
        .bind::<Array<Text>, _>(keys.iter().map(|(_, key)| key).collect::<Vec<_>>())
        .execute(conn)?;
    Ok(())
}
