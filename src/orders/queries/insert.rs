//! New orders, and the keys that they are stored under.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use diesel::{
    PgConnection,
    dsl::{AsSelect, SqlTypeOf},
    pg::Pg,
    prelude::*,
    query_builder::AstPass,
    sql_types::{Array, BigInt, Binary, Integer, Nullable, Text, Timestamptz, Uuid as SqlUuid},
};
use uuid::Uuid;

use super::{OrderRow, array_literal};
use crate::{
    db::{DbError, Prepared, Statement},
    events::Event,
    ids::{EventId, OrderId},
    orders::{Caller, IdempotencyKey, Order, limits, statements::BY_KEYS},
};

/// An order that was stored under a key.
pub(in crate::orders) struct Keyed {
    pub(in crate::orders) request_hash: Vec<u8>,
    pub(in crate::orders) order: Order,
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
pub(in crate::orders) fn orders_by_keys(
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
pub(in crate::orders) fn insert_orders(
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
