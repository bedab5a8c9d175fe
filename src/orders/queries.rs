//! SQL of the orders. Takes a connection, opens and commits nothing.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use chrono::{DateTime, Utc};
use diesel::{
    PgConnection,
    connection::SimpleConnection,
    prelude::*,
    sql_query,
    sql_types::{Array, BigInt, Binary, Integer, Nullable, Text, Timestamptz, Uuid as SqlUuid},
};
use serde_json::Value;
use uuid::Uuid;

use super::{Caller, IdempotencyKey, Order, OrderStatus, Takings};
use crate::{
    db::{DbError, schema::orders},
    ids::{EventId, OrderId, PartnerId},
    money::Currency,
};

#[derive(Queryable, QueryableByName, Selectable)]
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

/// An order that was stored under a key.
pub(super) struct Keyed {
    pub(super) scope: String,
    pub(super) key: String,
    pub(super) request_hash: Vec<u8>,
    pub(super) order: Order,
}

/// The condition on the key is what matches the partial unique index.
const BY_KEYS: &str = "SELECT id, status, buyer_name, buyer_email, items, positions, quantity, requested_quantity, total_minor, currency, \
     partner_id, access_key, idempotency_scope, idempotency_key, request_hash, expires_at, created_at FROM orders \
     WHERE event_id = $1 AND idempotency_key IS NOT NULL AND (idempotency_scope, idempotency_key) IN (SELECT * FROM unnest($2, $3))";

pub(super) fn orders_by_keys(conn: &mut PgConnection, event: EventId, keys: &[(String, &str)]) -> Result<Vec<Keyed>, DbError> {
    let rows: Vec<OrderRow> = sql_query(BY_KEYS)
        .bind::<SqlUuid, _>(event.uuid())
        .bind::<Array<Text>, _>(keys.iter().map(|(scope, _)| scope.as_str()).collect::<Vec<_>>())
        .bind::<Array<Text>, _>(keys.iter().map(|(_, key)| *key).collect::<Vec<_>>())
        .load(conn)?;
    rows.into_iter().map(keyed).collect()
}

fn keyed(mut row: OrderRow) -> Result<Keyed, DbError> {
    let scope = std::mem::take(&mut row.idempotency_scope);
    let key = row.idempotency_key.take().unwrap_or_default();
    let request_hash = row.request_hash.take().unwrap_or_default();
    Ok(Keyed { scope, key, request_hash, order: row.try_into()? })
}

/// `unnest` flattens an array of arrays, so the positions of an order travel as text. A key that another transaction is just storing
/// makes this wait for that transaction's end.
const INSERT: &str = "INSERT INTO orders (event_id, id, status, buyer_name, buyer_email, items, positions, quantity, requested_quantity, \
       total_minor, currency, channel, partner_id, access_key, idempotency_scope, idempotency_key, request_hash, created_at) \
     SELECT $1, new.id, new.status, new.name, new.email, new.items::jsonb, new.positions::integer[], new.quantity, new.requested, new.total, \
       new.currency, new.channel, new.partner, new.access, new.scope, new.key, new.hash, new.created_at \
     FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18) \
       AS new (id, status, name, email, items, positions, quantity, requested, total, currency, channel, partner, access, scope, key, hash, created_at) \
     ON CONFLICT (event_id, idempotency_scope, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING RETURNING id";

#[derive(QueryableByName)]
struct Inserted {
    #[diesel(sql_type = SqlUuid)]
    id: Uuid,
}

/// Stores orders, and returns the ids of those whose key was free.
pub(super) fn insert_orders(
    conn: &mut PgConnection,
    event: EventId,
    new: &[(&Order, Option<&IdempotencyKey>)],
) -> Result<HashSet<OrderId>, DbError> {
    let items: Vec<String> =
        new.iter().map(|(order, _)| serde_json::to_string(&order.lines)).collect::<Result<_, _>>().map_err(DbError::unreadable)?;
    let scopes: Vec<String> = new.iter().map(|(order, _)| order.caller.to_string()).collect();
    let positions: Vec<String> = new.iter().map(|(order, _)| array_literal(&order.positions)).collect();
    let partner = |order: &Order| match order.caller {
        Caller::Web => None,
        Caller::Partner(id) => Some(id.uuid()),
    };
    let channel = |order: &Order| match order.caller {
        Caller::Web => "web",
        Caller::Partner(_) => "api",
    };
    let rows: Vec<Inserted> = sql_query(INSERT)
        .bind::<SqlUuid, _>(event.uuid())
        .bind::<Array<SqlUuid>, _>(column(new, |order| order.id.uuid()))
        .bind::<Array<Text>, _>(column(new, |order| order.status.column()))
        .bind::<Array<Text>, _>(column(new, |order| order.buyer_name.clone()))
        .bind::<Array<Text>, _>(column(new, |order| order.buyer_email.clone()))
        .bind::<Array<Text>, _>(items)
        .bind::<Array<Text>, _>(positions)
        .bind::<Array<Integer>, _>(column(new, |order| order.quantity))
        .bind::<Array<Integer>, _>(column(new, |order| order.requested_quantity))
        .bind::<Array<BigInt>, _>(column(new, |order| order.total_minor))
        .bind::<Array<Text>, _>(column(new, |order| order.currency.code()))
        .bind::<Array<Text>, _>(column(new, channel))
        .bind::<Array<Nullable<SqlUuid>>, _>(column(new, partner))
        .bind::<Array<Text>, _>(column(new, |order| order.access_key.clone()))
        .bind::<Array<Text>, _>(scopes)
        .bind::<Array<Nullable<Text>>, _>(new.iter().map(|(_, key)| key.map(|key| key.key.as_str())).collect::<Vec<_>>())
        .bind::<Array<Nullable<Binary>>, _>(new.iter().map(|(_, key)| key.map(|key| key.request_hash.as_slice())).collect::<Vec<_>>())
        .bind::<Array<Timestamptz>, _>(column(new, |order| order.created_at))
        .load(conn)?;
    Ok(rows.into_iter().map(|row| row.id.into()).collect())
}

fn column<T>(new: &[(&Order, Option<&IdempotencyKey>)], of: impl Fn(&Order) -> T) -> Vec<T> {
    new.iter().map(|(order, _)| of(order)).collect()
}

fn array_literal(numbers: &[i32]) -> String {
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    format!("{{{}}}", numbers.join(","))
}

pub(super) fn order(conn: &mut PgConnection, event: EventId, id: OrderId) -> Result<Option<Order>, DbError> {
    let row = orders::table.find((event.uuid(), id.uuid())).select(OrderRow::as_select()).first(conn).optional()?;
    row.map(Order::try_from).transpose()
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
