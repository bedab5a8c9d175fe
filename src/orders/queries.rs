//! SQL of the orders. Takes a connection, opens and commits nothing.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use chrono::{DateTime, Utc};
use diesel::{
    PgConnection,
    connection::SimpleConnection,
    dsl::{AsSelect, SqlTypeOf},
    pg::Pg,
    prelude::*,
    query_builder::AstPass,
    sql_query,
    sql_types::{Array, BigInt, Binary, Integer, Nullable, Text, Timestamptz, Uuid as SqlUuid},
};
use serde_json::Value;
use uuid::Uuid;

use super::{Caller, IdempotencyKey, Order, OrderStatus, Takings, statements::BY_KEYS};
use crate::{
    db::{DbError, Prepared, Statement, schema::orders},
    ids::{EventId, OrderId, PartnerId},
    money::Currency,
};

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
    pub(super) request_hash: Vec<u8>,
    pub(super) order: Order,
}

struct ByKeys {
    event: Uuid,
    scopes: Vec<String>,
    keys: Vec<String>,
}

impl Statement for ByKeys {
    const SQL: &'static str = BY_KEYS;
    type Row = SqlTypeOf<AsSelect<OrderRow, Pg>>;

    fn bind<'b>(&'b self, place: u32, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match place {
            1 => out.push_bind_param::<SqlUuid, _>(&self.event),
            2 => out.push_bind_param::<Array<Text>, _>(&self.scopes),
            _ => out.push_bind_param::<Array<Text>, _>(&self.keys),
        }
    }
}

/// The orders that these keys have, by scope and key.
pub(super) fn orders_by_keys(
    conn: &mut PgConnection,
    event: EventId,
    keys: &[(Caller, &IdempotencyKey)],
) -> Result<HashMap<(String, String), Keyed>, DbError> {
    let rows: Vec<OrderRow> = Prepared(ByKeys {
        event: event.uuid(),
        scopes: keys.iter().map(|(caller, _)| caller.to_string()).collect(),
        keys: keys.iter().map(|(_, key)| key.key.clone()).collect(),
    })
    .load(conn)?;
    rows.into_iter().map(keyed).collect()
}

fn keyed(mut row: OrderRow) -> Result<((String, String), Keyed), DbError> {
    let scope = std::mem::take(&mut row.idempotency_scope);
    let key = row.idempotency_key.take().unwrap_or_default();
    let request_hash = row.request_hash.take().unwrap_or_default();
    Ok(((scope, key), Keyed { request_hash, order: row.try_into()? }))
}

/// The orders of these ids, by id.
pub(super) fn orders_by_ids(conn: &mut PgConnection, event: EventId, ids: &[OrderId]) -> Result<HashMap<OrderId, Order>, DbError> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
    let rows: Vec<OrderRow> =
        orders::table.filter(orders::event_id.eq(event.uuid()).and(orders::id.eq_any(ids))).select(OrderRow::as_select()).load(conn)?;
    rows.into_iter().map(|row| Order::try_from(row).map(|order| (order.id, order))).collect()
}

/// `unnest` flattens an array of arrays, so the positions of an order travel as text. A key or an id that another transaction is just
/// storing makes this wait for that transaction's end.
macro_rules! insert {
    ($on_conflict:literal) => {
        concat!(
            "INSERT INTO orders (event_id, currency, created_at, id, status, buyer_name, buyer_email, items, positions, quantity, \
               requested_quantity, total_minor, channel, partner_id, access_key, idempotency_scope, idempotency_key, request_hash) \
             SELECT $1, $2, $3, new.id, new.status, new.name, new.email, new.items::jsonb, new.positions::integer[], new.quantity, \
               new.requested, new.total, new.channel, new.partner, new.access, new.scope, new.key, new.hash \
             FROM unnest($4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18) \
               AS new (id, status, name, email, items, positions, quantity, requested, total, channel, partner, access, scope, key, hash)",
            $on_conflict,
            " RETURNING id"
        )
    };
}

/// For a batch in which nobody has a key: there is nothing to conflict with, and PostgreSQL stores a row twice as it were where it has to
/// look out for one.
const INSERT: &str = insert!("");
/// The conflict is that of the key alone: with any other PostgreSQL would look the new id up, too, before it stores it.
const INSERT_KEYED: &str =
    insert!(" ON CONFLICT (event_id, idempotency_scope, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING");

/// The columns of new orders, each as an array, but for what orders of one batch share.
struct InsertOrders<const KEYED: bool> {
    event: Uuid,
    currency: &'static str,
    created_at: DateTime<Utc>,
    columns: OrderColumns,
}

#[derive(Default)]
struct OrderColumns {
    ids: Vec<Uuid>,
    statuses: Vec<&'static str>,
    names: Vec<String>,
    emails: Vec<String>,
    items: Vec<String>,
    positions: Vec<String>,
    quantities: Vec<i32>,
    requested: Vec<i32>,
    totals: Vec<i64>,
    channels: Vec<&'static str>,
    partners: Vec<Option<Uuid>>,
    access_keys: Vec<String>,
    scopes: Vec<String>,
    keys: Vec<Option<String>>,
    hashes: Vec<Option<Vec<u8>>>,
}

impl<const KEYED: bool> Statement for InsertOrders<KEYED> {
    const SQL: &'static str = if KEYED { INSERT_KEYED } else { INSERT };
    type Row = SqlUuid;

    fn bind<'b>(&'b self, place: u32, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match place {
            1 => out.push_bind_param::<SqlUuid, _>(&self.event),
            2 => out.push_bind_param::<Text, _>(&self.currency),
            3 => out.push_bind_param::<Timestamptz, _>(&self.created_at),
            4 => out.push_bind_param::<Array<SqlUuid>, _>(&self.columns.ids),
            5 => out.push_bind_param::<Array<Text>, _>(&self.columns.statuses),
            6 => out.push_bind_param::<Array<Text>, _>(&self.columns.names),
            7 => out.push_bind_param::<Array<Text>, _>(&self.columns.emails),
            8 => out.push_bind_param::<Array<Text>, _>(&self.columns.items),
            9 => out.push_bind_param::<Array<Text>, _>(&self.columns.positions),
            10 => out.push_bind_param::<Array<Integer>, _>(&self.columns.quantities),
            11 => out.push_bind_param::<Array<Integer>, _>(&self.columns.requested),
            12 => out.push_bind_param::<Array<BigInt>, _>(&self.columns.totals),
            13 => out.push_bind_param::<Array<Text>, _>(&self.columns.channels),
            14 => out.push_bind_param::<Array<Nullable<SqlUuid>>, _>(&self.columns.partners),
            15 => out.push_bind_param::<Array<Text>, _>(&self.columns.access_keys),
            16 => out.push_bind_param::<Array<Text>, _>(&self.columns.scopes),
            17 => out.push_bind_param::<Array<Nullable<Text>>, _>(&self.columns.keys),
            _ => out.push_bind_param::<Array<Nullable<Binary>>, _>(&self.columns.hashes),
        }
    }
}

impl OrderColumns {
    fn push(&mut self, order: &Order, key: Option<&IdempotencyKey>) -> Result<(), DbError> {
        let (channel, partner) = match order.caller {
            Caller::Web => ("web", None),
            Caller::Partner(id) => ("api", Some(id.uuid())),
        };
        self.ids.push(order.id.uuid());
        self.statuses.push(order.status.column());
        self.names.push(order.buyer_name.clone());
        self.emails.push(order.buyer_email.clone());
        self.items.push(serde_json::to_string(&order.lines).map_err(DbError::unreadable)?);
        self.positions.push(array_literal(&order.positions));
        self.quantities.push(order.quantity);
        self.requested.push(order.requested_quantity);
        self.totals.push(order.total_minor);
        self.channels.push(channel);
        self.partners.push(partner);
        self.access_keys.push(order.access_key.clone());
        self.scopes.push(order.caller.to_string());
        self.keys.push(key.map(|key| key.key.clone()));
        self.hashes.push(key.map(|key| key.request_hash.clone()));
        Ok(())
    }
}

/// Stores orders of one batch (one currency, one moment), and returns the ids of those whose key was free.
pub(super) fn insert_orders(
    conn: &mut PgConnection,
    event: EventId,
    new: &[(&Order, Option<&IdempotencyKey>)],
) -> Result<HashSet<OrderId>, DbError> {
    let Some((first, _)) = new.first() else { return Ok(HashSet::new()) };
    let mut columns = OrderColumns::default();
    for (order, key) in new {
        columns.push(order, *key)?;
    }
    let (event, currency, created_at) = (event.uuid(), first.currency.code(), first.created_at);
    let ids: Vec<Uuid> = if new.iter().any(|(_, key)| key.is_some()) {
        Prepared(InsertOrders::<true> { event, currency, created_at, columns }).load(conn)?
    } else {
        Prepared(InsertOrders::<false> { event, currency, created_at, columns }).load(conn)?
    };
    Ok(ids.into_iter().map(OrderId::from).collect())
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
