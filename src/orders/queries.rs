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

use super::{
    Actor, Caller, HistoryEntry, IdempotencyKey, Order, OrderStatus, Takings, What,
    history::Happening,
    jobs::OrderChanged,
    limits,
    statements::{BUYERS_HAVE, BY_KEYS, DUE_SKIPPING, DUE_WAITING, LOCK_BUYERS},
};
use crate::{
    db::{
        DbError, Prepared, Statement,
        schema::{order_history, orders},
    },
    events::Event,
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
               requested_quantity, total_minor, channel, partner_id, access_key, idempotency_scope, idempotency_key, request_hash, \
               expires_at, buyer_key) \
             SELECT $1, $2, $3, new.id, new.status, new.name, new.email, new.items::jsonb, new.positions::integer[], new.quantity, \
               new.requested, new.total, new.channel, new.partner, new.access, new.scope, new.key, new.hash, new.expires, new.buyer \
             FROM unnest($4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20) \
               AS new (id, status, name, email, items, positions, quantity, requested, total, channel, partner, access, scope, key, hash, \
                 expires, buyer)",
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
    expiries: Vec<Option<DateTime<Utc>>>,
    buyers: Vec<Option<String>>,
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
            18 => out.push_bind_param::<Array<Nullable<Binary>>, _>(&self.columns.hashes),
            19 => out.push_bind_param::<Array<Nullable<Timestamptz>>, _>(&self.columns.expiries),
            _ => out.push_bind_param::<Array<Nullable<Text>>, _>(&self.columns.buyers),
        }
    }
}

impl OrderColumns {
    fn push(&mut self, event: &Event, order: &Order, key: Option<&IdempotencyKey>) -> Result<(), DbError> {
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
        self.expiries.push(order.expires_at);
        self.buyers.push(limits::buyer_key(event, &order.buyer_email));
        Ok(())
    }
}

/// Stores orders of one batch (one currency, one moment), and returns the ids of those whose key was free.
pub(super) fn insert_orders(
    conn: &mut PgConnection,
    event: &Event,
    new: &[(&Order, Option<&IdempotencyKey>)],
) -> Result<HashSet<OrderId>, DbError> {
    let Some((first, _)) = new.first() else { return Ok(HashSet::new()) };
    let mut columns = OrderColumns::default();
    for (order, key) in new {
        columns.push(event, order, *key)?;
    }
    let (event, currency, created_at) = (event.id.uuid(), first.currency.code(), first.created_at);
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

/// A hold that is over.
pub(super) struct Due {
    pub(super) id: OrderId,
    pub(super) expires_at: DateTime<Utc>,
    pub(super) positions: Vec<i32>,
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
pub(super) fn due_holds(
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
pub(super) fn due_holds_waiting(conn: &mut PgConnection, event: EventId, now: DateTime<Utc>, limit: i64) -> Result<Vec<Due>, DbError> {
    let rows: Vec<(Uuid, DateTime<Utc>, Vec<i32>)> = Prepared(DueWaiting { event: event.uuid(), now, limit }).load(conn)?;
    Ok(rows.into_iter().map(Due::from).collect())
}

/// How many holds of an event are over at `now` and not ended.
pub(super) fn count_due(conn: &mut PgConnection, event: EventId, now: DateTime<Utc>) -> Result<i64, DbError> {
    use diesel::dsl::sql;
    let due = orders::table
        .filter(orders::event_id.eq(event.uuid()).and(sql::<diesel::sql_types::Bool>("status = 'HELD'")))
        .filter(orders::expires_at.le(now));
    Ok(due.count().get_result(conn)?)
}

/// Events that have a hold which is over at `now`.
pub(super) fn events_with_due_holds(conn: &mut PgConnection, now: DateTime<Utc>) -> Result<Vec<EventId>, DbError> {
    use diesel::dsl::sql;
    let rows: Vec<Uuid> = orders::table
        .filter(sql::<diesel::sql_types::Bool>("status = 'HELD'").and(orders::expires_at.le(now)))
        .select(orders::event_id)
        .distinct()
        .load(conn)?;
    Ok(rows.into_iter().map(EventId::from).collect())
}

struct LockBuyers {
    event: Uuid,
    keys: Vec<String>,
}

impl Statement for LockBuyers {
    const SQL: &'static str = LOCK_BUYERS;
    type Row = diesel::sql_types::Untyped;

    fn bind<'b>(&'b self, place: u32, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match place {
            1 => out.push_bind_param::<SqlUuid, _>(&self.event),
            _ => out.push_bind_param::<Array<Text>, _>(&self.keys),
        }
    }
}

pub(super) fn lock_buyers(conn: &mut PgConnection, event: EventId, keys: &[String]) -> Result<(), DbError> {
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
pub(super) fn buyers_have(
    conn: &mut PgConnection,
    event: EventId,
    keys: &[String],
    now: DateTime<Utc>,
) -> Result<HashMap<String, i64>, DbError> {
    let rows: Vec<(String, i64)> = Prepared(BuyersHave { event: event.uuid(), keys: keys.to_vec(), now }).load(conn)?;
    Ok(rows.into_iter().collect())
}

/// A page of an event's orders that have no buyer's key, locked, with their buyers' addresses.
pub(super) fn orders_without_key(
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

pub(super) fn set_buyer_keys(conn: &mut PgConnection, event: EventId, keys: &[(OrderId, String)]) -> Result<(), DbError> {
    sql_query(SET_BUYER_KEYS)
        .bind::<SqlUuid, _>(event.uuid())
        .bind::<Array<SqlUuid>, _>(keys.iter().map(|(id, _)| id.uuid()).collect::<Vec<_>>())
        .bind::<Array<Text>, _>(keys.iter().map(|(_, key)| key).collect::<Vec<_>>())
        .execute(conn)?;
    Ok(())
}

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

pub(super) fn insert_history(
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
pub(super) fn histories(conn: &mut PgConnection, event: EventId, ids: &[OrderId]) -> Result<HashMap<OrderId, Vec<HistoryEntry>>, DbError> {
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
pub(super) fn history(conn: &mut PgConnection, event: EventId, order: OrderId) -> Result<Vec<HistoryEntry>, DbError> {
    Ok(histories(conn, event, &[order])?.remove(&order).unwrap_or_default())
}

/// How often tickets of an event came back on sale.
pub(super) fn returns(conn: &mut PgConnection, event: EventId) -> Result<i64, DbError> {
    let returns = order_history::table.filter(order_history::event_id.eq(event.uuid())).filter(order_history::change.eq_any([
        "expire",
        "release",
        "release_some",
        "cancel",
        "cancel_some",
    ]));
    Ok(returns.count().get_result(conn)?)
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
