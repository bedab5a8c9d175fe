//! SQL of the orders. Takes a connection, opens and commits nothing.

mod buyers;
mod history;
mod holds;
mod insert;

use std::{collections::HashMap, time::Duration};

use chrono::{DateTime, Utc};
use diesel::{
    PgConnection,
    connection::SimpleConnection,
    prelude::*,
    sql_query,
    sql_types::{Array, BigInt, Uuid as SqlUuid},
};
use serde_json::Value;
use uuid::Uuid;

use super::{Caller, Order, OrderStatus, Takings};
use crate::{
    db::{DbError, schema::orders},
    ids::{EventId, OrderId, PartnerId},
    money::Currency,
};
pub(super) use buyers::{buyers_have, lock_buyers, orders_without_key, set_buyer_keys};
pub(super) use history::{histories, history, insert_history, returns};
pub(super) use holds::{Due, count_due, due_holds, due_holds_waiting, events_with_due_holds};
pub(super) use insert::{insert_orders, orders_by_keys};

#[derive(Queryable, Selectable)]
#[diesel(table_name = orders)]
struct OrderRow {
    id: Uuid,
    status: String,
    buyer_name: String,
    buyer_email: String,
    items: Value,
    positions: Vec<Option<i32>>,
    quantity: i32,
    requested_quantity: i32,
    total_minor: i64,
    currency: String,
    partner_id: Option<Uuid>,
    access_key: String,
    idempotency_scope: String,
    idempotency_key: Option<String>,
    request_hash: Option<Vec<u8>>,
    expires_at: Option<DateTime<Utc>>,
    cancelled_quantity: i32,
    created_at: DateTime<Utc>,
}

impl TryFrom<OrderRow> for Order {
    type Error = DbError;

    fn try_from(row: OrderRow) -> Result<Self, DbError> {
        let unreadable = |what: &str| DbError::unreadable(format!("order {}: unreadable {what}", row.id));
        Ok(Self {
            id: row.id.into(),
            status: row.status.parse::<OrderStatus>().map_err(|()| unreadable("status"))?,
            lines: serde_json::from_value(row.items).map_err(|_| unreadable("items"))?,
            currency: Currency::parse(&row.currency).ok_or_else(|| unreadable("currency"))?,
            positions: row.positions.into_iter().flatten().collect(),
            caller: row.partner_id.map_or(Caller::Web, |id| Caller::Partner(id.into())),
            buyer_name: row.buyer_name,
            buyer_email: row.buyer_email,
            quantity: row.quantity,
            requested_quantity: row.requested_quantity,
            total_minor: row.total_minor,
            access_key: row.access_key,
            expires_at: row.expires_at,
            cancelled_quantity: row.cancelled_quantity,
            created_at: row.created_at,
        })
    }
}

/// Bounds what the waiting claim may wait, for this transaction.
pub(super) fn bound_waits(conn: &mut PgConnection, each_lock: Duration, statement: Duration) -> Result<(), DbError> {
    let (each_lock, statement) = (each_lock.as_millis(), statement.as_millis());
    conn.batch_execute(&format!("SET LOCAL lock_timeout = {each_lock}; SET LOCAL statement_timeout = {statement}"))?;
    Ok(())
}

/// The orders of these ids, by id.
pub(super) fn orders_by_ids(conn: &mut PgConnection, event: EventId, ids: &[OrderId]) -> Result<HashMap<OrderId, Order>, DbError> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
    let rows: Vec<OrderRow> =
        orders::table.filter(orders::event_id.eq(event.uuid()).and(orders::id.eq_any(ids))).select(OrderRow::as_select()).load(conn)?;
    rows.into_iter().map(|row| Order::try_from(row).map(|order| (order.id, order))).collect()
}

pub(super) fn order(conn: &mut PgConnection, event: EventId, id: OrderId) -> Result<Option<Order>, DbError> {
    let row = orders::table.find((event.uuid(), id.uuid())).select(OrderRow::as_select()).first(conn).optional()?;
    row.map(Order::try_from).transpose()
}

/// The same, locked until the transaction at hand ends.
pub(super) fn order_for_update(conn: &mut PgConnection, event: EventId, id: OrderId) -> Result<Option<Order>, DbError> {
    let row = orders::table.find((event.uuid(), id.uuid())).select(OrderRow::as_select()).for_update().first(conn).optional()?;
    row.map(Order::try_from).transpose()
}

/// Stores what can change of an order.
pub(super) fn update_order(conn: &mut PgConnection, event: EventId, order: &Order) -> Result<(), DbError> {
    diesel::update(orders::table.find((event.uuid(), order.id.uuid())))
        .set((
            orders::status.eq(order.status.column()),
            orders::items.eq(serde_json::to_value(&order.lines).map_err(DbError::unreadable)?),
            orders::positions.eq(&order.positions),
            orders::quantity.eq(order.quantity),
            orders::total_minor.eq(order.total_minor),
            orders::cancelled_quantity.eq(order.cancelled_quantity),
        ))
        .execute(conn)?;
    Ok(())
}

pub(super) fn set_status(conn: &mut PgConnection, event: EventId, ids: &[OrderId], status: OrderStatus) -> Result<(), DbError> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
    diesel::update(orders::table.filter(orders::event_id.eq(event.uuid()).and(orders::id.eq_any(ids))))
        .set(orders::status.eq(status.column()))
        .execute(conn)?;
    Ok(())
}

pub(super) fn orders(
    conn: &mut PgConnection,
    event: EventId,
    partner: Option<PartnerId>,
    limit: usize,
    before: Option<OrderId>,
) -> Result<Vec<Order>, DbError> {
    let mut query = orders::table
        .filter(orders::event_id.eq(event.uuid()))
        .order((orders::event_id.desc(), orders::id.desc()))
        .limit(i64::try_from(limit).unwrap_or(i64::MAX))
        .select(OrderRow::as_select())
        .into_boxed();
    if let Some(partner) = partner {
        query = query.filter(orders::partner_id.eq(partner.uuid()));
    }
    if let Some(before) = before {
        query = query.filter(orders::id.lt(before.uuid()));
    }
    query.load(conn)?.into_iter().map(Order::try_from).collect()
}

#[derive(QueryableByName)]
struct TakingsRow {
    #[diesel(sql_type = SqlUuid)]
    event_id: Uuid,
    #[diesel(sql_type = BigInt)]
    orders: i64,
    #[diesel(sql_type = BigInt)]
    tickets: i64,
    #[diesel(sql_type = BigInt)]
    total_minor: i64,
}

const TAKINGS: &str = "SELECT event_id, count(*) AS orders, sum(quantity)::bigint AS tickets, sum(total_minor)::bigint AS total_minor \
     FROM orders WHERE event_id = ANY ($1) AND status = 'SOLD' GROUP BY event_id";

pub(super) fn takings(conn: &mut PgConnection, events: &[EventId]) -> Result<HashMap<EventId, Takings>, DbError> {
    let events: Vec<Uuid> = events.iter().map(|event| event.uuid()).collect();
    let rows: Vec<TakingsRow> = sql_query(TAKINGS).bind::<Array<SqlUuid>, _>(events).load(conn)?;
    let takings = |row: TakingsRow| Takings { orders: row.orders, tickets: row.tickets, total_minor: row.total_minor };
    Ok(rows.into_iter().map(|row| (row.event_id.into(), takings(row))).collect())
}

/// Numbers as text that PostgreSQL reads as an array.
fn array_literal(numbers: &[i32]) -> String {
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    format!("{{{}}}", numbers.join(","))
}
