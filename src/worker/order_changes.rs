//! Kind `order_changes`: what follows for each order of a batch is made into jobs of its own.

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;

use super::{
    confirmation,
    handler::{Handler, Trouble},
};
use crate::{
    app::App,
    clock::timestamp,
    db::DbError,
    events::{EventError, Programme},
    ids::{EventId, MessageId, OrderId},
    orders::{
        self, Caller, OrderChange, OrderError, Story,
        jobs::{MAKING, ORDER_CHANGES, OrderChanges},
        shown::OrderJson,
    },
    queue::{Claimed, Group, NewJob, Retry},
    webhooks::{self, Endpoint, EventKind, Message},
};

/// A change that is older was told of long ago: the jobs that tell of it may be forgotten already, so that they are not made anew.
const TOLD_DAYS: i64 = 5;

/// Makes the follow-ups of changes of orders.
pub(super) struct FollowUp;

impl Handler for FollowUp {
    fn kind(&self) -> &'static str {
        ORDER_CHANGES
    }

    fn retry(&self) -> Retry {
        // It needs nothing but the database, so it is never given up for long.
        Retry { attempts_max: 1_000, first_pause: TimeDelta::seconds(1), pause_max: TimeDelta::minutes(5) }
    }

    /// Each is worked in a millisecond or two, most of it for its own transactions; a few together share one at both ends.
    fn batch_max(&self) -> usize {
        4
    }

    fn threads_max(&self, threads: usize) -> usize {
        threads.div_ceil(4)
    }

    fn work(&self, app: &App, job: &Claimed) -> Result<Vec<NewJob>, Trouble> {
        let OrderChanges { changes } = serde_json::from_value(job.payload.clone()).map_err(|error| Trouble::payload(&error))?;
        let numbers: HashMap<OrderId, i32> = changes.iter().map(|change| (change.order, change.number)).collect();
        let ids: Vec<OrderId> = numbers.keys().copied().collect();
        let (programme, stories, listeners) = app
            .db
            .run_here(|conn| {
                let (programme, stories) = orders::stories(conn, job.event, &ids)?;
                Ok::<_, OrderError>((programme, stories, webhooks::listeners(conn)?))
            })
            .map_err(trouble)?;
        let now = app.clock.now();
        let mut jobs: Vec<NewJob> = Vec::new();
        for (story, number) in stories.iter().filter_map(|story| Some((story, *numbers.get(&story.order().id)?))) {
            if story.change(number).is_some_and(sells) {
                jobs.push(confirmation::job(job.event, story.order().id));
            }
            jobs.extend(messages(&programme, story, number, &listeners, now)?);
        }
        if stories.iter().any(|story| story.order().status == orders::OrderStatus::Sold) {
            jobs.extend(sold_out(app, &programme, &listeners, now)?);
        }
        Ok(jobs)
    }
}

fn trouble(error: OrderError) -> Trouble {
    match error {
        OrderError::Db(error) => error.into(),
        other => Trouble::Lasting(other.to_string()),
    }
}

fn sells(change: OrderChange) -> bool {
    matches!(change, OrderChange::Sell | OrderChange::Confirm | OrderChange::ConfirmLate)
}

/// What a change is to those who are told of it.
fn kind_of(change: OrderChange) -> EventKind {
    match change {
        OrderChange::Sell | OrderChange::Confirm | OrderChange::ConfirmLate => EventKind::OrderSold,
        OrderChange::Hold => EventKind::OrderHeld,
        OrderChange::Expire => EventKind::OrderExpired,
        OrderChange::Release | OrderChange::ReleaseSome | OrderChange::Cancel | OrderChange::CancelSome => EventKind::OrderCancelled,
    }
}

/// The messages about one order's change, and about those before it, which another job may not have made yet. A message that is there is not made
/// again: its key says which change it tells of.
fn messages(programme: &Programme, story: &Story, number: i32, listeners: &[Endpoint], now: DateTime<Utc>) -> Result<Vec<NewJob>, DbError> {
    let order = story.order();
    let is_theirs = |endpoint: &&Endpoint| endpoint.all_orders || order.caller == Caller::Partner(endpoint.partner);
    let mut jobs = Vec::new();
    for endpoint in listeners.iter().filter(is_theirs) {
        for number in MAKING..=number {
            let Some((change, at)) = story.change(number).zip(story.at(number)) else { continue };
            let kind = kind_of(change);
            if !endpoint.kinds.contains(&kind) || now - at > TimeDelta::days(TOLD_DAYS) {
                continue;
            }
            let data = json!({
                "change": { "number": number, "what": change.name(), "at": timestamp(at), "positions": story.positions(number) },
                "order": OrderJson::of(&programme.event.slug, story.placed.clone(), now),
            });
            let about = format!("{}:{}", endpoint.id, order.id);
            let key = format!("{}:{about}:{number}", webhooks::WEBHOOK);
            jobs.push(message(endpoint, programme.event.id, kind, at, &data, Group::Of(format!("{}:{about}", webhooks::WEBHOOK)), key)?);
        }
    }
    Ok(jobs)
}

fn message(
    endpoint: &Endpoint,
    event: EventId,
    kind: EventKind,
    at: DateTime<Utc>,
    data: &serde_json::Value,
    group: Group,
    key: String,
) -> Result<NewJob, DbError> {
    let body = json!({ "type": kind.name(), "timestamp": timestamp(at), "data": data }).to_string();
    let message = Message { id: MessageId::new(), endpoint: endpoint.id, kind: kind.name().to_owned(), body };
    webhooks::job(endpoint, event, &message, group, Some(key))
}

/// The messages that nothing is left of an event, if that is so. It is told once, and once more whenever it happens after tickets came back or
/// were loaded.
fn sold_out(app: &App, programme: &Programme, listeners: &[Endpoint], now: DateTime<Utc>) -> Result<Vec<NewJob>, Trouble> {
    let listening: Vec<&Endpoint> = listeners.iter().filter(|endpoint| endpoint.kinds.contains(&EventKind::EventSoldOut)).collect();
    if listening.is_empty() {
        return Ok(Vec::new());
    }
    let event = programme.event.id;
    let time = app.db.run_here(|conn| orders::sold_out_time(conn, event)).map_err(EventError::from).map_err(|error| match error {
        EventError::Db(error) => Trouble::from(error),
        other => Trouble::Lasting(other.to_string()),
    })?;
    let Some(time) = time else { return Ok(Vec::new()) };
    let data = json!({ "event": programme.event.slug, "name": programme.event.name });
    let job = |endpoint: &&Endpoint| {
        let key = format!("sold_out:{}:{time}", endpoint.id);
        message(endpoint, event, EventKind::EventSoldOut, now, &data, Group::Alone, key).map_err(Trouble::from)
    };
    listening.iter().map(job).collect()
}
