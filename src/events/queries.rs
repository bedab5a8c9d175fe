//! SQL of events. Takes a connection, opens and commits nothing.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use uuid::Uuid;

use super::{Checkout, EVENTS_PAGE_MAX, Event, EventState, TicketType, rules::parse_slug};
use crate::{
    db::{
        DbError,
        schema::{events, ticket_types},
    },
    ids::{EventId, TicketTypeId},
    money::Currency,
};

#[derive(Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = events, treat_none_as_null = true)]
struct EventRow {
    id: Uuid,
    slug: String,
    name: String,
    venue: Option<String>,
    starts_at: Option<DateTime<Utc>>,
    time_zone: String,
    currency: String,
    sales_open_at: Option<DateTime<Utc>>,
    sales_close_at: Option<DateTime<Utc>>,
    state: String,
    max_per_order: i32,
    max_per_buyer: Option<i32>,
    checkout: String,
    buyers_cancel_until: Option<DateTime<Utc>>,
    show_counts: bool,
    created_at: DateTime<Utc>,
}

impl From<&Event> for EventRow {
    fn from(event: &Event) -> Self {
        Self {
            id: event.id.uuid(),
            slug: event.slug.clone(),
            name: event.name.clone(),
            venue: event.venue.clone(),
            starts_at: event.starts_at,
            time_zone: event.time_zone.name().to_owned(),
            currency: event.currency.code().to_owned(),
            sales_open_at: event.sales_open_at,
            sales_close_at: event.sales_close_at,
            state: event.state.name().to_owned(),
            max_per_order: event.max_per_order,
            max_per_buyer: event.max_per_buyer,
            checkout: event.checkout.name().to_owned(),
            buyers_cancel_until: event.buyers_cancel_until,
            show_counts: event.show_counts,
            created_at: event.created_at,
        }
    }
}

impl TryFrom<EventRow> for Event {
    type Error = DbError;

    /// A row that this program could not have written is a fault, not an absence.
    fn try_from(row: EventRow) -> Result<Self, DbError> {
        let unreadable = |what: &str, value: &str| DbError::unreadable(format!("event {}: unknown {what} {value:?}", row.id));
        let time_zone = row.time_zone.parse().map_err(|_| unreadable("time zone", &row.time_zone))?;
        let currency = Currency::parse(&row.currency).ok_or_else(|| unreadable("currency", &row.currency))?;
        let state: EventState = row.state.parse().map_err(|()| unreadable("state", &row.state))?;
        let checkout: Checkout = row.checkout.parse().map_err(|()| unreadable("checkout", &row.checkout))?;
        Ok(Self {
            id: row.id.into(),
            slug: row.slug,
            name: row.name,
            venue: row.venue,
            starts_at: row.starts_at,
            time_zone,
            currency,
            sales_open_at: row.sales_open_at,
            sales_close_at: row.sales_close_at,
            state,
            max_per_order: row.max_per_order,
            max_per_buyer: row.max_per_buyer,
            checkout,
            buyers_cancel_until: row.buyers_cancel_until,
            show_counts: row.show_counts,
            created_at: row.created_at,
        })
    }
}

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = ticket_types)]
struct TicketTypeRow {
    event_id: Uuid,
    id: Uuid,
    code: String,
    name: String,
    price_minor: i64,
    sort_order: i32,
    sales_open_at: Option<DateTime<Utc>>,
    sales_close_at: Option<DateTime<Utc>>,
    created_at: DateTime<Utc>,
}

impl From<TicketTypeRow> for TicketType {
    fn from(row: TicketTypeRow) -> Self {
        Self {
            id: TicketTypeId::from(row.id),
            code: row.code,
            name: row.name,
            price_minor: row.price_minor,
            sales_open_at: row.sales_open_at,
            sales_close_at: row.sales_close_at,
        }
    }
}

pub(super) fn insert_event(conn: &mut PgConnection, event: &Event) -> Result<(), DbError> {
    diesel::insert_into(events::table).values(EventRow::from(event)).execute(conn)?;
    Ok(())
}

pub(super) fn update_event(conn: &mut PgConnection, event: &Event) -> Result<(), DbError> {
    diesel::update(events::table.find(event.id.uuid())).set(EventRow::from(event)).execute(conn)?;
    Ok(())
}

/// An address may have anything in it, and PostgreSQL refuses a NUL: what cannot be a slug is no event's.
fn is_slug(slug: &str) -> bool {
    parse_slug(slug).is_some_and(|parsed| parsed == slug)
}

pub(super) fn event(conn: &mut PgConnection, slug: &str) -> Result<Option<Event>, DbError> {
    if !is_slug(slug) {
        return Ok(None);
    }
    let row = events::table.filter(events::slug.eq(slug)).select(EventRow::as_select()).first(conn).optional()?;
    row.map(Event::try_from).transpose()
}

pub(super) fn event_by_id(conn: &mut PgConnection, id: EventId) -> Result<Option<Event>, DbError> {
    let row = events::table.find(id.uuid()).select(EventRow::as_select()).first(conn).optional()?;
    row.map(Event::try_from).transpose()
}

pub(super) fn slugs(conn: &mut PgConnection, ids: &[EventId]) -> Result<HashMap<EventId, String>, DbError> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
    let rows: Vec<(Uuid, String)> = events::table.filter(events::id.eq_any(ids)).select((events::id, events::slug)).load(conn)?;
    Ok(rows.into_iter().map(|(id, slug)| (id.into(), slug)).collect())
}

pub(super) fn event_for_update(conn: &mut PgConnection, slug: &str) -> Result<Option<Event>, DbError> {
    if !is_slug(slug) {
        return Ok(None);
    }
    let row = events::table.filter(events::slug.eq(slug)).select(EventRow::as_select()).for_update().first(conn).optional()?;
    row.map(Event::try_from).transpose()
}

pub(super) fn events(conn: &mut PgConnection, now: DateTime<Utc>) -> Result<Vec<Event>, DbError> {
    use diesel::dsl::sql;
    use diesel::sql_types::{Double, Nullable, Timestamptz};
    // Distance from now, with the past after everything to come and the undated between them.
    let place = sql::<Nullable<Double>>("CASE WHEN starts_at IS NULL THEN 1e11 WHEN starts_at >= ")
        .bind::<Timestamptz, _>(now)
        .sql(" THEN 0 ELSE 2e11 END + coalesce(abs(extract(epoch FROM starts_at - ")
        .bind::<Timestamptz, _>(now)
        .sql(")::float8), 0)");
    let rows: Vec<EventRow> =
        events::table.select(EventRow::as_select()).order((place, events::id.desc())).limit(EVENTS_PAGE_MAX).load(conn)?;
    rows.into_iter().map(Event::try_from).collect()
}

pub(super) fn ticket_types(conn: &mut PgConnection, event: EventId) -> Result<Vec<TicketType>, DbError> {
    let rows: Vec<TicketTypeRow> = ticket_types::table
        .filter(ticket_types::event_id.eq(event.uuid()))
        .order((ticket_types::sort_order, ticket_types::id))
        .select(TicketTypeRow::as_select())
        .load(conn)?;
    Ok(rows.into_iter().map(TicketType::from).collect())
}

pub(super) fn ticket_types_of(conn: &mut PgConnection, events: &[Event]) -> Result<HashMap<EventId, Vec<TicketType>>, DbError> {
    let ids: Vec<Uuid> = events.iter().map(|event| event.id.uuid()).collect();
    let rows: Vec<TicketTypeRow> = ticket_types::table
        .filter(ticket_types::event_id.eq_any(ids))
        .order((ticket_types::sort_order, ticket_types::id))
        .select(TicketTypeRow::as_select())
        .load(conn)?;
    let mut by_event: HashMap<EventId, Vec<TicketType>> = HashMap::new();
    for row in rows {
        by_event.entry(row.event_id.into()).or_default().push(row.into());
    }
    Ok(by_event)
}

pub(super) fn insert_ticket_type(
    conn: &mut PgConnection,
    event: EventId,
    ticket_type: &TicketType,
    sort_order: i32,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    let row = TicketTypeRow {
        event_id: event.uuid(),
        id: ticket_type.id.uuid(),
        code: ticket_type.code.clone(),
        name: ticket_type.name.clone(),
        price_minor: ticket_type.price_minor,
        sort_order,
        sales_open_at: ticket_type.sales_open_at,
        sales_close_at: ticket_type.sales_close_at,
        created_at: now,
    };
    diesel::insert_into(ticket_types::table).values(row).execute(conn)?;
    Ok(())
}

pub(super) fn update_ticket_type(conn: &mut PgConnection, event: EventId, ticket_type: &TicketType) -> Result<(), DbError> {
    diesel::update(ticket_types::table.find((event.uuid(), ticket_type.id.uuid())))
        .set((
            ticket_types::name.eq(&ticket_type.name),
            ticket_types::price_minor.eq(ticket_type.price_minor),
            ticket_types::sales_open_at.eq(ticket_type.sales_open_at),
            ticket_types::sales_close_at.eq(ticket_type.sales_close_at),
        ))
        .execute(conn)?;
    Ok(())
}
