//! SQL of the tickets. Takes a connection, opens and commits nothing.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use diesel::{
    PgConnection,
    dsl::{AsSelect, SqlTypeOf},
    pg::Pg,
    prelude::*,
    query_builder::AstPass,
    sql_query,
    sql_types::{Array, BigInt, Integer, Nullable, Text, Timestamptz, Untyped, Uuid as SqlUuid},
};
use serde_json::Value;
use uuid::Uuid;

use super::{
    Counts, Left, Place, Ticket,
    claim::{Held, Pass, Sold},
    load::StoredLoad,
    statements::{CLAIM_SAME, CLAIM_SKIPPING, CLAIM_WAITING, GIVE_BACK, LEFT, MARK_CONFIRMED, MARK_HELD, MARK_SOLD, ON_SHELF},
    states::{TicketChange, TicketStatus},
};
use crate::{
    db::{
        DbError, Prepared, Statement,
        schema::{inventory_loads, tickets},
    },
    ids::{EventId, LoadId, OrderId, TicketTypeId},
};

#[derive(Queryable, Selectable)]
#[diesel(table_name = tickets)]
struct TicketRow {
    position: i32,
    ticket_type_id: Uuid,
    section: Option<String>,
    // The derive has a variable of its own that is called `row`.
    #[diesel(column_name = row)]
    seat_row: Option<String>,
    seat: Option<String>,
    order_id: Option<Uuid>,
    code: Option<String>,
    used_at: Option<DateTime<Utc>>,
}

impl From<TicketRow> for Ticket {
    fn from(row: TicketRow) -> Self {
        Self {
            position: row.position,
            ticket_type: row.ticket_type_id.into(),
            place: Place { section: row.section, row: row.seat_row, seat: row.seat },
            code: row.code,
            used_at: row.used_at,
        }
    }
}

/// A ticket that is nobody's.
#[derive(Queryable, Selectable)]
#[diesel(table_name = tickets)]
struct FreeRow {
    position: i32,
    ticket_type_id: Uuid,
    section: Option<String>,
    #[diesel(column_name = row)]
    seat_row: Option<String>,
    seat: Option<String>,
}

impl From<FreeRow> for Ticket {
    fn from(row: FreeRow) -> Self {
        Self {
            position: row.position,
            ticket_type: row.ticket_type_id.into(),
            place: Place { section: row.section, row: row.seat_row, seat: row.seat },
            code: None,
            used_at: None,
        }
    }
}

/// A claim: the two differ in what they do about locked rows.
struct Claim<const WAITS: bool> {
    event: Uuid,
    ticket_type: Uuid,
    from: i32,
    quantity: i64,
}

impl<const WAITS: bool> Statement for Claim<WAITS> {
    const SQL: &'static str = if WAITS { CLAIM_WAITING } else { CLAIM_SKIPPING };
    type Row = SqlTypeOf<AsSelect<FreeRow, Pg>>;

    fn bind<'b>(&'b self, place: u32, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match place {
            1 => out.push_bind_param::<SqlUuid, _>(&self.event),
            2 => out.push_bind_param::<SqlUuid, _>(&self.ticket_type),
            3 => out.push_bind_param::<Integer, _>(&self.from),
            _ => out.push_bind_param::<BigInt, _>(&self.quantity),
        }
    }
}

pub(super) fn claim(
    conn: &mut PgConnection,
    event: EventId,
    ticket_type: TicketTypeId,
    from: i32,
    quantity: i64,
    pass: Pass,
) -> Result<Vec<Ticket>, DbError> {
    let (event, ticket_type) = (event.uuid(), ticket_type.uuid());
    let rows: Vec<FreeRow> = match pass {
        Pass::Skip => Prepared(Claim::<false> { event, ticket_type, from, quantity }).load(conn)?,
        Pass::Wait => Prepared(Claim::<true> { event, ticket_type, from, quantity }).load(conn)?,
    };
    Ok(rows.into_iter().map(Ticket::from).collect())
}

/// Marks tickets as sold: those that were just claimed, or those that the order holds.
struct MarkSold<const HELD: bool> {
    event: Uuid,
    positions: Vec<i32>,
    orders: Vec<Uuid>,
    codes: Vec<String>,
}

impl<const HELD: bool> Statement for MarkSold<HELD> {
    const SQL: &'static str = if HELD { MARK_CONFIRMED } else { MARK_SOLD };
    type Row = Untyped;

    fn bind<'b>(&'b self, place: u32, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match place {
            1 => out.push_bind_param::<SqlUuid, _>(&self.event),
            2 => out.push_bind_param::<Array<Integer>, _>(&self.positions),
            3 => out.push_bind_param::<Array<SqlUuid>, _>(&self.orders),
            _ => out.push_bind_param::<Array<Text>, _>(&self.codes),
        }
    }
}

impl<const HELD: bool> MarkSold<HELD> {
    fn of(event: EventId, sold: Vec<Sold>) -> Self {
        let mut values = Self { event: event.uuid(), positions: Vec::new(), orders: Vec::new(), codes: Vec::new() };
        for ticket in sold {
            values.positions.push(ticket.position);
            values.orders.push(ticket.order.uuid());
            values.codes.push(ticket.code);
        }
        values
    }
}

pub(super) fn mark_sold(conn: &mut PgConnection, event: EventId, sold: Vec<Sold>) -> Result<usize, DbError> {
    Ok(Prepared(MarkSold::<false>::of(event, sold)).execute(conn)?)
}

pub(super) fn mark_confirmed(conn: &mut PgConnection, event: EventId, sold: Vec<Sold>) -> Result<usize, DbError> {
    Ok(Prepared(MarkSold::<true>::of(event, sold)).execute(conn)?)
}

struct MarkHeld {
    event: Uuid,
    positions: Vec<i32>,
    orders: Vec<Uuid>,
    until: Vec<DateTime<Utc>>,
}

impl Statement for MarkHeld {
    const SQL: &'static str = MARK_HELD;
    type Row = Untyped;

    fn bind<'b>(&'b self, place: u32, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match place {
            1 => out.push_bind_param::<SqlUuid, _>(&self.event),
            2 => out.push_bind_param::<Array<Integer>, _>(&self.positions),
            3 => out.push_bind_param::<Array<SqlUuid>, _>(&self.orders),
            _ => out.push_bind_param::<Array<Timestamptz>, _>(&self.until),
        }
    }
}

pub(super) fn mark_held(conn: &mut PgConnection, event: EventId, held: Vec<Held>) -> Result<usize, DbError> {
    let mut values = MarkHeld { event: event.uuid(), positions: Vec::new(), orders: Vec::new(), until: Vec::new() };
    for ticket in held {
        values.positions.push(ticket.position);
        values.orders.push(ticket.order.uuid());
        values.until.push(ticket.until);
    }
    Ok(Prepared(values).execute(conn)?)
}

struct GiveBack {
    event: Uuid,
    positions: Vec<i32>,
    orders: Vec<Uuid>,
    from: &'static str,
}

impl Statement for GiveBack {
    const SQL: &'static str = GIVE_BACK;
    type Row = SqlTypeOf<AsSelect<FreeRow, Pg>>;

    fn bind<'b>(&'b self, place: u32, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match place {
            1 => out.push_bind_param::<SqlUuid, _>(&self.event),
            2 => out.push_bind_param::<Array<Integer>, _>(&self.positions),
            3 => out.push_bind_param::<Array<SqlUuid>, _>(&self.orders),
            _ => out.push_bind_param::<Text, _>(&self.from),
        }
    }
}

pub(super) fn give_back(
    conn: &mut PgConnection,
    event: EventId,
    tickets: &[(OrderId, i32)],
    change: TicketChange,
) -> Result<Vec<Ticket>, DbError> {
    let (orders, positions) = tickets.iter().map(|(order, position)| (order.uuid(), *position)).unzip();
    let rows: Vec<FreeRow> = Prepared(GiveBack { event: event.uuid(), positions, orders, from: change.from().column() }).load(conn)?;
    Ok(rows.into_iter().map(Ticket::from).collect())
}

struct ClaimSame {
    event: Uuid,
    positions: Vec<i32>,
}

impl Statement for ClaimSame {
    const SQL: &'static str = CLAIM_SAME;
    type Row = SqlTypeOf<AsSelect<FreeRow, Pg>>;

    fn bind<'b>(&'b self, place: u32, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match place {
            1 => out.push_bind_param::<SqlUuid, _>(&self.event),
            _ => out.push_bind_param::<Array<Integer>, _>(&self.positions),
        }
    }
}

pub(super) fn claim_same(conn: &mut PgConnection, event: EventId, positions: &[i32]) -> Result<Vec<Ticket>, DbError> {
    let rows: Vec<FreeRow> = Prepared(ClaimSame { event: event.uuid(), positions: positions.to_vec() }).load(conn)?;
    Ok(rows.into_iter().map(Ticket::from).collect())
}

/// The ticket at a position with its order, locked until the transaction at hand ends.
pub(super) fn ticket_for_update(conn: &mut PgConnection, event: EventId, position: i32) -> Result<Option<(OrderId, Ticket)>, DbError> {
    let row = tickets::table.find((event.uuid(), position)).select(TicketRow::as_select()).for_update().first(conn).optional()?;
    Ok(row.and_then(|row| row.order_id.map(|order| (order.into(), row.into()))))
}

pub(super) fn mark_used(conn: &mut PgConnection, event: EventId, position: i32, now: DateTime<Utc>) -> Result<(), DbError> {
    diesel::update(tickets::table.find((event.uuid(), position))).set(tickets::used_at.eq(now)).execute(conn)?;
    Ok(())
}

/// How many tickets each of these orders holds, of those at `positions`.
pub(super) fn held_of(conn: &mut PgConnection, event: EventId, positions: &[i32]) -> Result<HashMap<OrderId, usize>, DbError> {
    let rows: Vec<Option<Uuid>> = tickets::table
        .filter(tickets::event_id.eq(event.uuid()).and(tickets::position.eq_any(positions)))
        .filter(tickets::code.is_null())
        .select(tickets::order_id)
        .load(conn)?;
    let mut held: HashMap<OrderId, usize> = HashMap::new();
    for order in rows.into_iter().flatten() {
        *held.entry(order.into()).or_default() += 1;
    }
    Ok(held)
}

pub(super) fn tickets_at(conn: &mut PgConnection, event: EventId, positions: &[i32]) -> Result<HashMap<OrderId, Vec<Ticket>>, DbError> {
    let rows: Vec<TicketRow> = tickets::table
        .filter(tickets::event_id.eq(event.uuid()).and(tickets::position.eq_any(positions)))
        .order((tickets::event_id, tickets::position))
        .select(TicketRow::as_select())
        .load(conn)?;
    let mut by_order: HashMap<OrderId, Vec<Ticket>> = HashMap::new();
    for row in rows {
        if let Some(order) = row.order_id {
            by_order.entry(order.into()).or_default().push(row.into());
        }
    }
    Ok(by_order)
}

#[derive(QueryableByName)]
struct LeftRow {
    #[diesel(sql_type = SqlUuid)]
    ticket_type_id: Uuid,
    #[diesel(sql_type = BigInt)]
    available: i64,
    #[diesel(sql_type = BigInt)]
    held: i64,
}

pub(super) fn left(conn: &mut PgConnection, event: EventId, now: DateTime<Utc>) -> Result<HashMap<TicketTypeId, Left>, DbError> {
    let rows: Vec<LeftRow> = sql_query(LEFT).bind::<SqlUuid, _>(event.uuid()).bind::<Timestamptz, _>(now).load(conn)?;
    Ok(rows.into_iter().map(|row| (row.ticket_type_id.into(), Left { available: row.available, held: row.held })).collect())
}

#[derive(QueryableByName)]
struct EventRow {
    #[diesel(sql_type = SqlUuid)]
    id: Uuid,
}

pub(super) fn on_shelf(conn: &mut PgConnection, events: &[EventId], now: DateTime<Utc>) -> Result<HashSet<EventId>, DbError> {
    let events: Vec<Uuid> = events.iter().map(|event| event.uuid()).collect();
    let rows: Vec<EventRow> = sql_query(ON_SHELF).bind::<Array<SqlUuid>, _>(events).bind::<Timestamptz, _>(now).load(conn)?;
    Ok(rows.into_iter().map(|row| row.id.into()).collect())
}

#[derive(QueryableByName)]
struct LoadedRow {
    #[diesel(sql_type = SqlUuid)]
    event_id: Uuid,
    #[diesel(sql_type = Text)]
    code: String,
    #[diesel(sql_type = BigInt)]
    loaded: i64,
}

const LOADED: &str = "SELECT event_id, line->>'ticket_type' AS code, sum((line->>'loaded')::bigint)::bigint AS loaded \
     FROM inventory_loads, jsonb_array_elements(report->'ticket_types') AS line WHERE event_id = ANY ($1) GROUP BY 1, 2";

pub(super) fn loaded(conn: &mut PgConnection, events: &[EventId]) -> Result<HashMap<EventId, HashMap<String, i64>>, DbError> {
    let events: Vec<Uuid> = events.iter().map(|event| event.uuid()).collect();
    let rows: Vec<LoadedRow> = sql_query(LOADED).bind::<Array<SqlUuid>, _>(events).load(conn)?;
    let mut loaded: HashMap<EventId, HashMap<String, i64>> = HashMap::new();
    for row in rows {
        loaded.entry(row.event_id.into()).or_default().insert(row.code, row.loaded);
    }
    Ok(loaded)
}

#[derive(QueryableByName)]
struct CountRow {
    #[diesel(sql_type = SqlUuid)]
    ticket_type_id: Uuid,
    #[diesel(sql_type = Text)]
    status: String,
    #[diesel(sql_type = BigInt)]
    count: i64,
}

/// A hold that is over counts as available, as it does for whoever buys.
const COUNTS: &str = "SELECT ticket_type_id, CASE WHEN held_until <= $2 THEN 'AVAILABLE' ELSE status END AS status, count(*) AS count \
     FROM tickets WHERE event_id = $1 GROUP BY 1, 2";

pub(super) fn counts(conn: &mut PgConnection, event: EventId, now: DateTime<Utc>) -> Result<HashMap<TicketTypeId, Counts>, DbError> {
    let rows: Vec<CountRow> = sql_query(COUNTS).bind::<SqlUuid, _>(event.uuid()).bind::<Timestamptz, _>(now).load(conn)?;
    let mut counts: HashMap<TicketTypeId, Counts> = HashMap::new();
    for row in rows {
        let of_type = counts.entry(row.ticket_type_id.into()).or_default();
        match row.status.parse() {
            Ok(TicketStatus::Available) => of_type.available = row.count,
            Ok(TicketStatus::Held) => of_type.held = row.count,
            Ok(TicketStatus::Sold) => of_type.sold = row.count,
            Ok(TicketStatus::Blocked) | Err(()) => of_type.blocked = row.count,
        }
    }
    Ok(counts)
}

/// The last position in use, 0 if there is none. The primary key answers it.
pub(super) fn last_position(conn: &mut PgConnection, event: EventId) -> Result<i32, DbError> {
    let last: Option<i32> =
        tickets::table.filter(tickets::event_id.eq(event.uuid())).select(diesel::dsl::max(tickets::position)).first(conn)?;
    Ok(last.unwrap_or(0))
}

const INSERT_COUNTED: &str = "INSERT INTO tickets (event_id, position, ticket_type_id) \
     SELECT $1, position, $2 FROM generate_series($3, $4) AS position";

/// Adds tickets without a place at the positions `first..=last`.
pub(super) fn insert_counted(
    conn: &mut PgConnection,
    event: EventId,
    ticket_type: TicketTypeId,
    first: i32,
    last: i32,
) -> Result<usize, DbError> {
    let inserted = sql_query(INSERT_COUNTED)
        .bind::<SqlUuid, _>(event.uuid())
        .bind::<SqlUuid, _>(ticket_type.uuid())
        .bind::<Integer, _>(first)
        .bind::<Integer, _>(last)
        .execute(conn)?;
    Ok(inserted)
}

/// A ticket to be loaded that has a place or a reference.
#[derive(Clone, Debug)]
pub(super) struct NewTicket {
    pub(super) position: i32,
    pub(super) ticket_type: TicketTypeId,
    pub(super) place: Place,
    pub(super) external_ref: Option<String>,
}

const INSERT_PLACED: &str = "INSERT INTO tickets (event_id, position, ticket_type_id, section, \"row\", seat, external_ref) \
     SELECT $1, loaded.* FROM unnest($2, $3, $4, $5, $6, $7) AS loaded";

pub(super) fn insert_placed(conn: &mut PgConnection, event: EventId, new: &[NewTicket]) -> Result<usize, DbError> {
    let inserted = sql_query(INSERT_PLACED)
        .bind::<SqlUuid, _>(event.uuid())
        .bind::<Array<Integer>, _>(new.iter().map(|ticket| ticket.position).collect::<Vec<_>>())
        .bind::<Array<SqlUuid>, _>(new.iter().map(|ticket| ticket.ticket_type.uuid()).collect::<Vec<_>>())
        .bind::<Array<Nullable<Text>>, _>(new.iter().map(|ticket| ticket.place.section.as_deref()).collect::<Vec<_>>())
        .bind::<Array<Nullable<Text>>, _>(new.iter().map(|ticket| ticket.place.row.as_deref()).collect::<Vec<_>>())
        .bind::<Array<Nullable<Text>>, _>(new.iter().map(|ticket| ticket.place.seat.as_deref()).collect::<Vec<_>>())
        .bind::<Array<Nullable<Text>>, _>(new.iter().map(|ticket| ticket.external_ref.as_deref()).collect::<Vec<_>>())
        .execute(conn)?;
    Ok(inserted)
}

/// A ticket that is there already, as far as a load compares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Present {
    pub(super) ticket_type: TicketTypeId,
    pub(super) place: Place,
    pub(super) external_ref: Option<String>,
}

#[derive(QueryableByName)]
#[diesel(table_name = tickets)]
struct PresentRow {
    ticket_type_id: Uuid,
    section: Option<String>,
    // The derive has a variable of its own that is called `row`.
    #[diesel(column_name = row)]
    seat_row: Option<String>,
    seat: Option<String>,
    external_ref: Option<String>,
}

/// Two halves, so that each is served by its own unique index.
const PRESENT: &str = "SELECT ticket_type_id, section, \"row\", seat, external_ref FROM tickets \
       WHERE event_id = $1 AND external_ref IS NOT NULL AND external_ref = ANY ($2) \
     UNION \
       SELECT ticket_type_id, section, \"row\", seat, external_ref FROM tickets \
       WHERE event_id = $1 AND seat IS NOT NULL AND (coalesce(section, ''), coalesce(\"row\", ''), seat) IN (SELECT * FROM unnest($3, $4, $5))";

/// The tickets that have one of these references or one of these places.
pub(super) fn present(conn: &mut PgConnection, event: EventId, refs: &[&str], places: &[&Place]) -> Result<Vec<Present>, DbError> {
    let part = |of: fn(&Place) -> &Option<String>| places.iter().map(|place| of(place).as_deref().unwrap_or("")).collect::<Vec<_>>();
    let rows: Vec<PresentRow> = sql_query(PRESENT)
        .bind::<SqlUuid, _>(event.uuid())
        .bind::<Array<Text>, _>(refs)
        .bind::<Array<Text>, _>(part(|place| &place.section))
        .bind::<Array<Text>, _>(part(|place| &place.row))
        .bind::<Array<Text>, _>(part(|place| &place.seat))
        .load(conn)?;
    let present = |row: PresentRow| Present {
        ticket_type: row.ticket_type_id.into(),
        place: Place { section: row.section, row: row.seat_row, seat: row.seat },
        external_ref: row.external_ref,
    };
    Ok(rows.into_iter().map(present).collect())
}

pub(super) fn loads(conn: &mut PgConnection, event: EventId) -> Result<i64, DbError> {
    Ok(inventory_loads::table.filter(inventory_loads::event_id.eq(event.uuid())).count().get_result(conn)?)
}

pub(super) fn load_by_key(conn: &mut PgConnection, event: EventId, loaded_by: &str, key: &str) -> Result<Option<StoredLoad>, DbError> {
    let row: Option<(Value, Option<Vec<u8>>)> = inventory_loads::table
        .filter(inventory_loads::event_id.eq(event.uuid()))
        .filter(inventory_loads::loaded_by.eq(loaded_by))
        .filter(inventory_loads::idempotency_key.eq(key))
        .select((inventory_loads::report, inventory_loads::request_hash))
        .first(conn)
        .optional()?;
    Ok(row.map(|(report, request_hash)| StoredLoad { report, request_hash }))
}

pub(super) struct NewLoad<'a> {
    pub(super) event: EventId,
    pub(super) source: &'a str,
    pub(super) loaded_by: &'a str,
    pub(super) report: Value,
    pub(super) key: Option<&'a str>,
    pub(super) request_hash: Option<&'a [u8]>,
    pub(super) now: DateTime<Utc>,
}

pub(super) fn insert_load(conn: &mut PgConnection, new: &NewLoad<'_>) -> Result<(), DbError> {
    diesel::insert_into(inventory_loads::table)
        .values((
            inventory_loads::event_id.eq(new.event.uuid()),
            inventory_loads::id.eq(LoadId::new().uuid()),
            inventory_loads::source.eq(new.source),
            inventory_loads::loaded_by.eq(new.loaded_by),
            inventory_loads::report.eq(&new.report),
            inventory_loads::idempotency_key.eq(new.key),
            inventory_loads::request_hash.eq(new.request_hash),
            inventory_loads::created_at.eq(new.now),
        ))
        .execute(conn)?;
    Ok(())
}
