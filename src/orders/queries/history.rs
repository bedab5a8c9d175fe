//! The histories of orders.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use diesel::{
    PgConnection,
    prelude::*,
    sql_query,
    sql_types::{Array, Nullable, Text, Timestamptz, Uuid as SqlUuid},
};
use uuid::Uuid;

use super::array_literal;
use crate::{
    db::{DbError, schema::order_history},
    ids::{EventId, OrderId},
    orders::{Actor, HistoryEntry, What, history::Happening, jobs::OrderChanged},
};

/// Each entry gets the number behind the last one of its order, which is locked.
const INSERT_HISTORY: &str = "INSERT INTO order_history (event_id, order_id, number, at, actor_kind, actor_name, change, positions) \
     SELECT $1, new.order_id, coalesce((SELECT max(number) FROM order_history h WHERE h.event_id = $1 AND h.order_id = new.order_id), 0) + 1, \
       $2, $3, $4, new.change, new.positions::integer[] FROM unnest($5, $6, $7) AS new (order_id, change, positions) \
     RETURNING order_id, number";

#[derive(QueryableByName)]
#[diesel(table_name = order_history)]
struct NumberRow {
    order_id: Uuid,
    number: i32,
}

pub(in crate::orders) fn insert_history(
    conn: &mut PgConnection,
    event: EventId,
    now: DateTime<Utc>,
    actor: &Actor,
    happenings: &[Happening<'_>],
) -> Result<Vec<OrderChanged>, DbError> {
    let rows: Vec<NumberRow> = sql_query(INSERT_HISTORY)
        .bind::<SqlUuid, _>(event.uuid())
        .bind::<Timestamptz, _>(now)
        .bind::<Text, _>(actor.kind())
        .bind::<Nullable<Text>, _>(actor.name())
        .bind::<Array<SqlUuid>, _>(happenings.iter().map(|happening| happening.order.uuid()).collect::<Vec<_>>())
        .bind::<Array<Text>, _>(happenings.iter().map(|happening| happening.what.column()).collect::<Vec<_>>())
        .bind::<Array<Text>, _>(happenings.iter().map(|happening| array_literal(happening.positions)).collect::<Vec<_>>())
        .load(conn)?;
    Ok(rows.into_iter().map(|row| OrderChanged { order: row.order_id.into(), number: row.number }).collect())
}

type HistoryRow = (Uuid, DateTime<Utc>, String, Option<String>, String, Vec<Option<i32>>);

/// What happened to each of these orders after its making, in order; one that did not change is absent.
pub(in crate::orders) fn histories(
    conn: &mut PgConnection,
    event: EventId,
    ids: &[OrderId],
) -> Result<HashMap<OrderId, Vec<HistoryEntry>>, DbError> {
    let rows: Vec<HistoryRow> = order_history::table
        .filter(order_history::event_id.eq(event.uuid()))
        .filter(order_history::order_id.eq_any(ids.iter().map(|id| id.uuid()).collect::<Vec<_>>()))
        .order((order_history::order_id, order_history::number))
        .select((
            order_history::order_id,
            order_history::at,
            order_history::actor_kind,
            order_history::actor_name,
            order_history::change,
            order_history::positions,
        ))
        .load(conn)?;
    let mut histories: HashMap<OrderId, Vec<HistoryEntry>> = HashMap::new();
    for (order, at, kind, name, change, positions) in rows {
        let unreadable = |what: &str| DbError::unreadable(format!("history of order {order}: unknown {what}"));
        let actor = Actor::of(&kind, name).ok_or_else(|| unreadable("actor"))?;
        let what = What::of(&change).ok_or_else(|| unreadable("change"))?;
        let positions: Vec<i32> = positions.into_iter().flatten().collect();
        let entry = HistoryEntry { at, actor: Some(actor), what, quantity: positions.len(), positions };
        histories.entry(order.into()).or_default().push(entry);
    }
    Ok(histories)
}

/// What happened to an order after its making, in order.
pub(in crate::orders) fn history(conn: &mut PgConnection, event: EventId, order: OrderId) -> Result<Vec<HistoryEntry>, DbError> {
    Ok(histories(conn, event, &[order])?.remove(&order).unwrap_or_default())
}

/// How often tickets of an event came back on sale.
pub(in crate::orders) fn returns(conn: &mut PgConnection, event: EventId) -> Result<i64, DbError> {
    let returns = order_history::table.filter(order_history::event_id.eq(event.uuid())).filter(order_history::change.eq_any([
        "expire",
        "release",
        "release_some",
        "cancel",
        "cancel_some",
    ]));
    Ok(returns.count().get_result(conn)?)
}
