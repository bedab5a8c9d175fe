//! Webhooks: where partners are told of what happens, and what came of it. Messages follow Standard Webhooks.
//!
//! Each endpoint has a lane of the job queue, so that one that hangs keeps no other waiting, and each of its orders a group in it, so that
//! what happens to an order is told in order.

mod queries;
pub mod rules;

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};
use diesel::PgConnection;
use serde::{Deserialize, Serialize};

use crate::{
    db::{DbCause, DbError, transaction},
    ids::{EndpointId, EventId, MessageId, PartnerId},
    queue::{self, Group, NewJob},
};
pub use rules::{EndpointInput, EventKind, NewEndpoint, Reach};

/// Kind of the jobs, and what the names of their lanes begin with.
pub const WEBHOOK: &str = "webhook";
/// Most endpoints of one partner: each order is told to all of them.
pub const ENDPOINTS_MAX: usize = 20;
/// Most deliveries on one page of the log.
pub const DELIVERIES_PAGE_MAX: usize = 100;
/// An endpoint that has taken nothing for so long is told nothing more.
const FAILING_DAYS_MAX: i64 = 5;
/// Bytes of an answer that are kept.
pub const RESPONSE_BYTES_MAX: usize = 1_024;
/// The log is kept so long.
const LOG_DAYS: i64 = 30;

/// Where a partner is told of things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its id.
    pub id: EndpointId,
    /// Whose it is.
    pub partner: PartnerId,
    /// Where messages go.
    pub url: String,
    /// What they are signed with.
    pub secret: Vec<u8>,
    /// What it is told of.
    pub kinds: Vec<EventKind>,
    /// Whether it is told of everybody's orders.
    pub all_orders: bool,
    /// Since when no message has been taken.
    pub failing_since: Option<DateTime<Utc>>,
    /// Since when it is told nothing, and why.
    pub disabled: Option<(DateTime<Utc>, String)>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

impl Endpoint {
    /// The lane of its messages.
    #[must_use]
    pub fn lane(&self) -> String {
        lane(self.id)
    }
}

fn lane(id: EndpointId) -> String {
    format!("{WEBHOOK}:{id}")
}

/// What the job of a message is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its id, the same on every try.
    pub id: MessageId,
    /// Where it goes.
    pub endpoint: EndpointId,
    /// What it tells, by name.
    pub kind: String,
    /// What is sent, byte for byte.
    pub body: String,
}

/// A message that was tried to be delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The event that it is about.
    pub event: EventId,
    /// The message's id.
    pub id: MessageId,
    /// What it tells.
    pub kind: String,
    /// What is sent.
    pub body: String,
    /// What came of it.
    pub state: DeliveryState,
    /// How often it was tried.
    pub attempts: i32,
    /// Status of the last answer; none, if there was no answer.
    pub response_status: Option<i32>,
    /// The beginning of the last answer.
    pub response: Option<String>,
    /// Why there was no answer.
    pub error: Option<String>,
    /// When the message was made.
    pub created_at: DateTime<Utc>,
    /// When it was last tried.
    pub attempted_at: DateTime<Utc>,
}

/// What came of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryState {
    /// It will be tried again.
    Pending,
    /// It was taken.
    Delivered,
    /// It is not tried any more.
    Failed,
}

impl DeliveryState {
    const ALL: [Self; 3] = [Self::Pending, Self::Delivered, Self::Failed];

    /// The name in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }

    fn column(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Delivered => "DELIVERED",
            Self::Failed => "FAILED",
        }
    }

    fn of(column: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.column() == column)
    }
}

/// Why an operation on webhooks was refused.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// There is no such endpoint, or it is another partner's.
    #[error("there is no such webhook")]
    NotFound,
    /// There is no such message in the log.
    #[error("there is no such delivery")]
    DeliveryNotFound,
    /// The endpoint is told nothing until it is enabled.
    #[error("the webhook is disabled")]
    Disabled,
    /// The partner has [`ENDPOINTS_MAX`].
    #[error("a partner has at most {ENDPOINTS_MAX} webhooks")]
    TooMany,
    /// The database failed.
    #[error(transparent)]
    Db(#[from] DbError),
}

impl DbCause for WebhookError {
    fn db_cause(&self) -> Option<&DbError> {
        match self {
            Self::Db(error) => Some(error),
            _ => None,
        }
    }
}

/// Makes an endpoint with a secret of its own.
///
/// # Errors
/// [`WebhookError::TooMany`].
pub fn create(conn: &mut PgConnection, now: DateTime<Utc>, partner: PartnerId, new: &NewEndpoint) -> Result<Endpoint, WebhookError> {
    transaction(conn, |conn| {
        queries::lock_partner(conn, partner)?;
        if queries::endpoints(conn, Some(partner))?.len() >= ENDPOINTS_MAX {
            return Err(WebhookError::TooMany);
        }
        let endpoint = Endpoint {
            id: EndpointId::new(),
            partner,
            url: new.url.clone(),
            secret: rand::random::<[u8; rules::SECRET_BYTES]>().to_vec(),
            kinds: new.kinds.clone(),
            all_orders: new.all_orders,
            failing_since: None,
            disabled: None,
            created_at: now,
        };
        queries::insert_endpoint(conn, &endpoint)?;
        queue::add_lanes(conn, now, &[&endpoint.lane()])?;
        Ok(endpoint)
    })
}

/// A partner's endpoints, the first made first.
///
/// # Errors
/// The database's.
pub fn list(conn: &mut PgConnection, partner: PartnerId) -> Result<Vec<Endpoint>, DbError> {
    queries::endpoints(conn, Some(partner))
}

/// Everybody's endpoints, by the lane of their messages.
///
/// # Errors
/// The database's.
pub fn by_lane(conn: &mut PgConnection) -> Result<HashMap<String, Endpoint>, DbError> {
    Ok(queries::endpoints(conn, None)?.into_iter().map(|endpoint| (endpoint.lane(), endpoint)).collect())
}

/// Everybody's endpoints that are told of things.
///
/// # Errors
/// The database's.
pub fn listeners(conn: &mut PgConnection) -> Result<Vec<Endpoint>, DbError> {
    let mut all = queries::endpoints(conn, None)?;
    all.retain(|endpoint| endpoint.disabled.is_none());
    Ok(all)
}

/// An endpoint by its id, for the one who delivers.
///
/// # Errors
/// The database's.
pub fn endpoint(conn: &mut PgConnection, id: EndpointId) -> Result<Option<Endpoint>, DbError> {
    queries::endpoint(conn, id)
}

/// Deletes a partner's endpoint: it is told nothing more, also not what waits.
///
/// # Errors
/// [`WebhookError::NotFound`].
pub fn delete(conn: &mut PgConnection, partner: PartnerId, id: EndpointId) -> Result<(), WebhookError> {
    transaction(conn, |conn| {
        if !queries::delete_endpoint(conn, partner, id)? {
            return Err(WebhookError::NotFound);
        }
        queue::remove_lane(conn, &lane(id))?;
        Ok(())
    })
}

/// Lets an endpoint be told of things again that was disabled, what still waited at the time first.
///
/// # Errors
/// [`WebhookError::NotFound`].
pub fn enable(conn: &mut PgConnection, partner: PartnerId, id: EndpointId) -> Result<Endpoint, WebhookError> {
    transaction(conn, |conn| {
        let found = queries::endpoint(conn, id)?.filter(|endpoint| endpoint.partner == partner).ok_or(WebhookError::NotFound)?;
        queries::set_health(conn, id, None, None)?;
        queue::end_rest(conn, &found.lane())?;
        Ok(Endpoint { failing_since: None, disabled: None, ..found })
    })
}

/// A page of what was tried to be delivered to a partner's endpoint, the last message first.
///
/// # Errors
/// [`WebhookError::NotFound`].
pub fn deliveries(
    conn: &mut PgConnection,
    partner: PartnerId,
    id: EndpointId,
    limit: usize,
    before: Option<MessageId>,
) -> Result<(Vec<Delivery>, Option<MessageId>), WebhookError> {
    let owned = queries::endpoint(conn, id)?.filter(|endpoint| endpoint.partner == partner);
    owned.ok_or(WebhookError::NotFound)?;
    let limit = limit.clamp(1, DELIVERIES_PAGE_MAX);
    let mut page = queries::deliveries(conn, id, limit + 1, before)?;
    let more = page.len() > limit;
    page.truncate(limit);
    let next = page.last().filter(|_| more).map(|delivery| delivery.id);
    Ok((page, next))
}

/// Sends a message of the log once more, under its id.
///
/// # Errors
/// [`WebhookError::NotFound`], [`WebhookError::DeliveryNotFound`], [`WebhookError::Disabled`].
pub fn replay(
    conn: &mut PgConnection,
    now: DateTime<Utc>,
    partner: PartnerId,
    id: EndpointId,
    message: MessageId,
) -> Result<(), WebhookError> {
    transaction(conn, |conn| {
        let endpoint = queries::endpoint(conn, id)?.filter(|endpoint| endpoint.partner == partner).ok_or(WebhookError::NotFound)?;
        let delivery = queries::delivery(conn, id, message)?.ok_or(WebhookError::DeliveryNotFound)?;
        if endpoint.disabled.is_some() {
            return Err(WebhookError::Disabled);
        }
        let message = Message { id: message, endpoint: id, kind: delivery.kind, body: delivery.body };
        queue::enqueue(conn, now, &[job(&endpoint, delivery.event, &message, Group::Alone, None)?])?;
        Ok(())
    })
}

/// The job that delivers a message.
///
/// # Errors
/// A message that is not JSON, which there is none.
pub fn job(endpoint: &Endpoint, event: EventId, message: &Message, group: Group, unique_key: Option<String>) -> Result<NewJob, DbError> {
    let payload = serde_json::to_value(message).map_err(DbError::unreadable)?;
    Ok(NewJob { event, lane: endpoint.lane(), kind: WEBHOOK, group, unique_key, payload })
}

/// What one try came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// There was an answer: its status, and the beginning of its body.
    Answered(u16, String),
    /// There was none, and why.
    Unanswered(String),
}

impl Tried {
    /// Whether the message was taken.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        matches!(self, Self::Answered(200..=299, _))
    }

    /// Whether the receiver wants no more: 410.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Answered(410, _))
    }

    /// Whether the receiver did not answer at all, so that it would not take any other message either.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        matches!(self, Self::Unanswered(_))
    }
}

/// Notes what a try came to: in the log, and as the endpoint's health. An endpoint that says 410, or has taken nothing for days, is
/// disabled.
///
/// # Errors
/// The database's.
pub fn note(
    conn: &mut PgConnection,
    now: DateTime<Utc>,
    event: EventId,
    message: &Message,
    endpoint: &Endpoint,
    tried: &Tried,
    is_last: bool,
) -> Result<(), DbError> {
    transaction(conn, |conn| {
        let state = match (tried.is_taken(), is_last) {
            (true, _) => DeliveryState::Delivered,
            (false, true) => DeliveryState::Failed,
            (false, false) => DeliveryState::Pending,
        };
        queries::upsert_delivery(conn, now, event, message, state, tried)?;
        if tried.is_taken() {
            if endpoint.failing_since.is_some() {
                queries::set_health(conn, endpoint.id, None, None)?;
            }
            return Ok(());
        }
        let since = endpoint.failing_since.unwrap_or(now);
        let reason = if tried.is_gone() {
            Some("it answered 410: gone")
        } else if now - since > TimeDelta::days(FAILING_DAYS_MAX) {
            Some("it has taken no message for days")
        } else {
            None
        };
        if reason.is_some() {
            // What waits is not looked at until the endpoint is enabled, or forgotten.
            queue::rest(conn, &endpoint.lane(), now + TimeDelta::days(LOG_DAYS))?;
        }
        queries::set_health(conn, endpoint.id, Some(since), reason.map(|reason| (now, reason)))
    })
}

/// Deletes what has stood in the log for long, a page at a time, and what waits for endpoints that have been disabled for as long.
///
/// # Errors
/// The database's.
pub fn prune(conn: &mut PgConnection, now: DateTime<Utc>) -> Result<(), DbError> {
    let before = now - TimeDelta::days(LOG_DAYS);
    while queries::prune(conn, before)? {}
    for id in queries::disabled_before(conn, before)? {
        queue::empty_lane(conn, &lane(id))?;
    }
    Ok(())
}
