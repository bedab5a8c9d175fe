//! SQL of webhooks. Takes a connection, opens and commits nothing.

use chrono::{DateTime, Utc};
use diesel::{
    PgConnection,
    prelude::*,
    sql_query,
    sql_types::{BigInt, Timestamptz},
};
use uuid::Uuid;

use super::{Delivery, DeliveryState, Endpoint, EventKind, Message, RESPONSE_BYTES_MAX, Tried};
use crate::{
    db::{
        DbError,
        schema::{partners, webhook_deliveries, webhook_endpoints},
    },
    ids::{EndpointId, EventId, MessageId, PartnerId},
};

/// Most rows of the log that one statement deletes.
const PRUNE_MAX: i64 = 1_000;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = webhook_endpoints)]
struct EndpointRow {
    id: Uuid,
    partner_id: Uuid,
    url: String,
    secret: Vec<u8>,
    kinds: Vec<Option<String>>,
    all_orders: bool,
    failing_since: Option<DateTime<Utc>>,
    disabled_at: Option<DateTime<Utc>>,
    disabled_reason: Option<String>,
    created_at: DateTime<Utc>,
}

impl TryFrom<EndpointRow> for Endpoint {
    type Error = DbError;

    fn try_from(row: EndpointRow) -> Result<Self, DbError> {
        let unknown = || DbError::unreadable(format!("webhook {}: unknown kind of event", row.id));
        let kinds = row.kinds.iter().flatten().map(|name| name.parse::<EventKind>().map_err(|()| unknown())).collect::<Result<_, _>>()?;
        Ok(Self {
            id: row.id.into(),
            partner: row.partner_id.into(),
            url: row.url,
            secret: row.secret,
            kinds,
            all_orders: row.all_orders,
            failing_since: row.failing_since,
            disabled: row.disabled_at.zip(row.disabled_reason),
            created_at: row.created_at,
        })
    }
}

pub(super) fn insert_endpoint(conn: &mut PgConnection, endpoint: &Endpoint) -> Result<(), DbError> {
    let row = EndpointRow {
        id: endpoint.id.uuid(),
        partner_id: endpoint.partner.uuid(),
        url: endpoint.url.clone(),
        secret: endpoint.secret.clone(),
        kinds: endpoint.kinds.iter().map(|kind| Some(kind.name().to_owned())).collect(),
        all_orders: endpoint.all_orders,
        failing_since: None,
        disabled_at: None,
        disabled_reason: None,
        created_at: endpoint.created_at,
    };
    diesel::insert_into(webhook_endpoints::table).values(row).execute(conn)?;
    Ok(())
}

/// Locks a partner, so that two endpoints of it are made one after the other, and the second counts the first.
pub(super) fn lock_partner(conn: &mut PgConnection, id: PartnerId) -> Result<(), DbError> {
    partners::table.find(id.uuid()).select(partners::id).for_update().first::<Uuid>(conn)?;
    Ok(())
}

/// A partner's endpoints, or everybody's.
pub(super) fn endpoints(conn: &mut PgConnection, partner: Option<PartnerId>) -> Result<Vec<Endpoint>, DbError> {
    let mut query = webhook_endpoints::table.select(EndpointRow::as_select()).order(webhook_endpoints::id).into_boxed();
    if let Some(partner) = partner {
        query = query.filter(webhook_endpoints::partner_id.eq(partner.uuid()));
    }
    query.load(conn)?.into_iter().map(Endpoint::try_from).collect()
}

pub(super) fn endpoint(conn: &mut PgConnection, id: EndpointId) -> Result<Option<Endpoint>, DbError> {
    let row = webhook_endpoints::table.find(id.uuid()).select(EndpointRow::as_select()).first(conn).optional()?;
    row.map(Endpoint::try_from).transpose()
}

pub(super) fn delete_endpoint(conn: &mut PgConnection, partner: PartnerId, id: EndpointId) -> Result<bool, DbError> {
    let own = webhook_endpoints::table.find(id.uuid()).filter(webhook_endpoints::partner_id.eq(partner.uuid()));
    Ok(diesel::delete(own).execute(conn)? > 0)
}

pub(super) fn disabled_before(conn: &mut PgConnection, before: DateTime<Utc>) -> Result<Vec<EndpointId>, DbError> {
    let ids: Vec<Uuid> =
        webhook_endpoints::table.filter(webhook_endpoints::disabled_at.lt(before)).select(webhook_endpoints::id).load(conn)?;
    Ok(ids.into_iter().map(EndpointId::from).collect())
}

/// Notes since when an endpoint fails, and since when and why it is disabled.
pub(super) fn set_health(
    conn: &mut PgConnection,
    id: EndpointId,
    failing_since: Option<DateTime<Utc>>,
    disabled: Option<(DateTime<Utc>, &str)>,
) -> Result<(), DbError> {
    diesel::update(webhook_endpoints::table.find(id.uuid()))
        .set((
            webhook_endpoints::failing_since.eq(failing_since),
            webhook_endpoints::disabled_at.eq(disabled.map(|(at, _)| at)),
            webhook_endpoints::disabled_reason.eq(disabled.map(|(_, reason)| reason)),
        ))
        .execute(conn)?;
    Ok(())
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = webhook_deliveries)]
struct DeliveryRow {
    event_id: Uuid,
    id: Uuid,
    kind: String,
    body: String,
    state: String,
    attempts: i32,
    response_status: Option<i32>,
    response: Option<String>,
    error: Option<String>,
    created_at: DateTime<Utc>,
    attempted_at: DateTime<Utc>,
}

impl TryFrom<DeliveryRow> for Delivery {
    type Error = DbError;

    fn try_from(row: DeliveryRow) -> Result<Self, DbError> {
        let state = DeliveryState::of(&row.state).ok_or_else(|| DbError::unreadable(format!("delivery {}: unknown state", row.id)))?;
        Ok(Self {
            event: row.event_id.into(),
            id: row.id.into(),
            kind: row.kind,
            body: row.body,
            state,
            attempts: row.attempts,
            response_status: row.response_status,
            response: row.response,
            error: row.error,
            created_at: row.created_at,
            attempted_at: row.attempted_at,
        })
    }
}

pub(super) fn deliveries(
    conn: &mut PgConnection,
    endpoint: EndpointId,
    limit: usize,
    before: Option<MessageId>,
) -> Result<Vec<Delivery>, DbError> {
    let mut query = webhook_deliveries::table
        .filter(webhook_deliveries::endpoint_id.eq(endpoint.uuid()))
        .order((webhook_deliveries::endpoint_id.desc(), webhook_deliveries::id.desc()))
        .limit(i64::try_from(limit).unwrap_or(i64::MAX))
        .select(DeliveryRow::as_select())
        .into_boxed();
    if let Some(before) = before {
        query = query.filter(webhook_deliveries::id.lt(before.uuid()));
    }
    query.load(conn)?.into_iter().map(Delivery::try_from).collect()
}

pub(super) fn delivery(conn: &mut PgConnection, endpoint: EndpointId, id: MessageId) -> Result<Option<Delivery>, DbError> {
    let row = webhook_deliveries::table
        .filter(webhook_deliveries::endpoint_id.eq(endpoint.uuid()).and(webhook_deliveries::id.eq(id.uuid())))
        .select(DeliveryRow::as_select())
        .first(conn)
        .optional()?;
    row.map(Delivery::try_from).transpose()
}

pub(super) fn upsert_delivery(
    conn: &mut PgConnection,
    now: DateTime<Utc>,
    event: EventId,
    message: &Message,
    state: DeliveryState,
    tried: &Tried,
) -> Result<(), DbError> {
    let (status, response, error) = match tried {
        Tried::Answered(status, body) => (Some(i32::from(*status)), Some(shortened(body)), None),
        Tried::Unanswered(why) => (None, None, Some(shortened(why))),
    };
    let outcome = (
        webhook_deliveries::state.eq(state.column()),
        webhook_deliveries::response_status.eq(status),
        webhook_deliveries::response.eq(response),
        webhook_deliveries::error.eq(error),
        webhook_deliveries::attempted_at.eq(now),
    );
    diesel::insert_into(webhook_deliveries::table)
        .values((
            webhook_deliveries::event_id.eq(event.uuid()),
            webhook_deliveries::id.eq(message.id.uuid()),
            webhook_deliveries::endpoint_id.eq(message.endpoint.uuid()),
            webhook_deliveries::kind.eq(&message.kind),
            webhook_deliveries::body.eq(&message.body),
            webhook_deliveries::attempts.eq(1),
            webhook_deliveries::created_at.eq(now),
            outcome.clone(),
        ))
        .on_conflict((webhook_deliveries::event_id, webhook_deliveries::id))
        .do_update()
        .set((outcome, webhook_deliveries::attempts.eq(webhook_deliveries::attempts + 1)))
        .execute(conn)?;
    Ok(())
}

/// Text that PostgreSQL takes, of bounded length.
fn shortened(text: &str) -> String {
    text.chars().filter(|character| *character != '\0').take(RESPONSE_BYTES_MAX).collect()
}

const PRUNE: &str = "DELETE FROM webhook_deliveries USING (SELECT event_id, id FROM webhook_deliveries WHERE attempted_at < $1 \
       ORDER BY attempted_at LIMIT $2 FOR UPDATE SKIP LOCKED) AS old \
     WHERE webhook_deliveries.event_id = old.event_id AND webhook_deliveries.id = old.id";

/// Deletes a page; whether there may be more.
pub(super) fn prune(conn: &mut PgConnection, before: DateTime<Utc>) -> Result<bool, DbError> {
    let pruned = sql_query(PRUNE).bind::<Timestamptz, _>(before).bind::<BigInt, _>(PRUNE_MAX).execute(conn)?;
    Ok(i64::try_from(pruned).is_ok_and(|pruned| pruned == PRUNE_MAX))
}
