//! What the database says of the event and of itself. Reads only.

use std::collections::{BTreeMap, HashMap};

use diesel::{
    PgConnection, QueryableByName, RunQueryDsl, sql_query,
    sql_types::{BigInt, Integer, Nullable, Text, Uuid as SqlUuid},
};
use uuid::Uuid;

use super::reconcile::{Ledger, LedgerOrder};
use crate::{
    db::{DbError, snapshot},
    ids::EventId,
};

#[derive(QueryableByName)]
struct CountsRow {
    #[diesel(sql_type = BigInt)]
    stock: i64,
    #[diesel(sql_type = BigInt)]
    available: i64,
    #[diesel(sql_type = BigInt)]
    held: i64,
    #[diesel(sql_type = BigInt)]
    sold: i64,
}

const COUNTS: &str = "SELECT count(*) AS stock, count(*) FILTER (WHERE status = 'AVAILABLE') AS available, \
       count(*) FILTER (WHERE status = 'HELD') AS held, count(*) FILTER (WHERE status = 'SOLD') AS sold \
     FROM tickets WHERE event_id = $1";

#[derive(QueryableByName)]
struct OrderRow {
    #[diesel(sql_type = SqlUuid)]
    id: Uuid,
    #[diesel(sql_type = Text)]
    buyer_name: String,
    #[diesel(sql_type = Nullable<Text>)]
    idempotency_key: Option<String>,
    #[diesel(sql_type = Text)]
    status: String,
    #[diesel(sql_type = Integer)]
    quantity: i32,
}

const ORDERS: &str = "SELECT id, buyer_name, idempotency_key, status, quantity FROM orders WHERE event_id = $1";

#[derive(QueryableByName)]
struct TakenRow {
    #[diesel(sql_type = SqlUuid)]
    order_id: Uuid,
    #[diesel(sql_type = Integer)]
    position: i32,
}

const TAKEN: &str = "SELECT order_id, position FROM tickets WHERE event_id = $1 AND order_id IS NOT NULL";

/// The event's tickets and orders.
///
/// Which tickets an order has is read from the tickets, since they are what is sold; that the orders say the same, the audit checks.
/// The two are put together here: PostgreSQL, whose statistics are of before the sale, would join them row by row.
pub(super) fn ledger(conn: &mut PgConnection, event: EventId) -> Result<Ledger, DbError> {
    // One view of both: a buyer who hung up last may be served while this reads.
    let (counts, rows, taken) = snapshot(conn, |conn| {
        let counts: CountsRow = sql_query(COUNTS).bind::<SqlUuid, _>(event.uuid()).get_result(conn)?;
        let rows: Vec<OrderRow> = sql_query(ORDERS).bind::<SqlUuid, _>(event.uuid()).load(conn)?;
        let taken: Vec<TakenRow> = sql_query(TAKEN).bind::<SqlUuid, _>(event.uuid()).load(conn)?;
        Ok::<_, DbError>((counts, rows, taken))
    })?;
    let CountsRow { stock, available, held, sold } = counts;
    let mut positions: HashMap<Uuid, Vec<i32>> = HashMap::with_capacity(rows.len());
    for TakenRow { order_id, position } in taken {
        positions.entry(order_id).or_default().push(position);
    }
    let orders = rows.into_iter().map(|row| {
        let mut positions = positions.remove(&row.id).unwrap_or_default();
        positions.sort_unstable();
        LedgerOrder {
            id: row.id.into(),
            buyer_name: row.buyer_name,
            key: row.idempotency_key,
            status: row.status,
            quantity: row.quantity,
            positions,
        }
    });
    Ok(Ledger { orders: orders.collect(), stock, available, held, sold })
}

#[derive(QueryableByName)]
struct Setting {
    #[diesel(sql_type = Text)]
    name: String,
    #[diesel(sql_type = Text)]
    value: String,
}

/// The settings that decide how fast a commit can be, and how well it is kept.
pub(super) fn settings(conn: &mut PgConnection) -> Result<BTreeMap<String, String>, DbError> {
    const SETTINGS: &str = "SELECT name, current_setting(name) AS value FROM pg_settings \
         WHERE name IN ('server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'wal_sync_method', 'shared_buffers', \
           'commit_delay', 'max_connections')";
    let rows: Vec<Setting> = sql_query(SETTINGS).load(conn)?;
    Ok(rows.into_iter().map(|row| (row.name, row.value)).collect())
}

#[derive(QueryableByName)]
struct Bytes {
    #[diesel(sql_type = BigInt)]
    bytes: i64,
}

/// How many bytes of write-ahead log the whole server has written since it was made.
pub(super) fn wal_bytes(conn: &mut PgConnection) -> Result<i64, DbError> {
    let row: Bytes = sql_query("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint AS bytes").get_result(conn)?;
    Ok(row.bytes)
}
