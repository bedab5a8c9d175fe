//! Events, their ticket types and their sale windows.

mod queries;
pub mod rules;

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use diesel::PgConnection;

use crate::{
    db::{DbCause, DbError, transaction},
    ids::{EventId, TicketTypeId},
    input::FieldErrors,
    money::{Currency, Money},
};
pub use rules::{Checkout, EventInput, EventState, NewEvent, NewTicketType, Selling, TicketTypeInput};

/// Most ticket types of one event: all of them are read by each sale, and shown on one page.
pub const TYPES_MAX: usize = 100;
/// Most events on one page of the list.
pub const EVENTS_PAGE_MAX: i64 = 500;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of `events`, which has a comment on each that needs one")]
pub struct Event {
    pub id: EventId,
    pub slug: String,
    pub name: String,
    pub venue: Option<String>,
    pub starts_at: Option<DateTime<Utc>>,
    pub time_zone: Tz,
    pub currency: Currency,
    pub sales_open_at: Option<DateTime<Utc>>,
    pub sales_close_at: Option<DateTime<Utc>>,
    pub state: EventState,
    pub max_per_order: i32,
    pub max_per_buyer: Option<i32>,
    pub checkout: Checkout,
    pub buyers_cancel_until: Option<DateTime<Utc>>,
    pub show_counts: bool,
    pub created_at: DateTime<Utc>,
}

impl Event {
    /// The event that `new` describes.
    #[must_use]
    pub fn new(id: EventId, created_at: DateTime<Utc>, new: NewEvent) -> Self {
        Self {
            id,
            slug: new.slug,
            name: new.name,
            venue: new.venue,
            starts_at: new.starts_at,
            time_zone: new.time_zone,
            currency: new.currency,
            sales_open_at: new.sales_open_at,
            sales_close_at: new.sales_close_at,
            state: new.state,
            max_per_order: new.max_per_order,
            max_per_buyer: new.max_per_buyer,
            checkout: new.checkout,
            buyers_cancel_until: new.buyers_cancel_until,
            show_counts: new.show_counts,
            created_at,
        }
    }

    /// Whether it sells at `now`.
    #[must_use]
    pub fn selling(&self, now: DateTime<Utc>) -> Selling {
        rules::selling(self.state, self.sales_open_at, self.sales_close_at, now)
    }

    /// An amount in the event's currency.
    #[must_use]
    pub fn money(&self, minor: i64) -> Money {
        Money { minor, currency: self.currency }
    }

    /// Whether it has begun at `now`; one without a date has not.
    #[must_use]
    pub fn has_begun(&self, now: DateTime<Utc>) -> bool {
        self.starts_at.is_some_and(|starts_at| starts_at <= now)
    }

    /// Whether the public may know of it.
    #[must_use]
    pub fn is_public(&self) -> bool {
        self.state != EventState::Draft
    }
}

/// A kind of ticket of an event, with its price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketType {
    /// Its id.
    pub id: TicketTypeId,
    /// Name in the API and in files.
    pub code: String,
    /// Name for people.
    pub name: String,
    /// Price of one, in minor units of the event's currency.
    pub price_minor: i64,
    /// When its sale opens; with the event's, if absent.
    pub sales_open_at: Option<DateTime<Utc>>,
    /// When its sale closes; with the event's, if absent.
    pub sales_close_at: Option<DateTime<Utc>>,
}

impl TicketType {
    fn new(id: TicketTypeId, new: NewTicketType) -> Self {
        let NewTicketType { code, name, price_minor, sales_open_at, sales_close_at } = new;
        Self { id, code, name, price_minor, sales_open_at, sales_close_at }
    }

    /// Whether it sells at `now`, given what its event does then.
    #[must_use]
    pub fn selling(&self, event: Selling, now: DateTime<Utc>) -> Selling {
        rules::type_selling(event, self.sales_open_at, self.sales_close_at, now)
    }
}

/// An event with its ticket types in the order of its page: all that a sale must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programme {
    /// The event.
    pub event: Event,
    /// Its ticket types.
    pub ticket_types: Vec<TicketType>,
}

impl Programme {
    /// The ticket type of that code.
    #[must_use]
    pub fn ticket_type(&self, code: &str) -> Option<&TicketType> {
        self.ticket_types.iter().find(|ticket_type| ticket_type.code == code)
    }
}

/// Why an operation on events was refused.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// There is no event of that slug.
    #[error("there is no event {0:?}")]
    NotFound(String),
    /// The event has no ticket type of that code.
    #[error("there is no ticket type {0:?}")]
    TypeNotFound(String),
    /// The input is wrong.
    #[error("{0}")]
    Invalid(FieldErrors),
    /// The database failed.
    #[error(transparent)]
    Db(#[from] DbError),
}

impl DbCause for EventError {
    fn db_cause(&self) -> Option<&DbError> {
        match self {
            Self::Db(error) => Some(error),
            _ => None,
        }
    }
}

/// Stores a new event.
///
/// # Errors
/// [`EventError::Invalid`] if the slug is taken.
pub fn create(conn: &mut PgConnection, now: DateTime<Utc>, new: &NewEvent) -> Result<Event, EventError> {
    let event = Event::new(EventId::new(), now, new.clone());
    match transaction(conn, |conn| queries::insert_event(conn, &event)) {
        Err(error) if error.is_constraint("events_slug_key") => {
            Err(EventError::Invalid(FieldErrors::one("slug", "is taken by another event")))
        }
        Err(error) => Err(error.into()),
        Ok(()) => Ok(event),
    }
}

/// Changes an event: what `change` makes of its present fields is checked and stored.
///
/// The currency is fixed from the beginning, since prices and orders are in it; so is the slug, since buyers' links have it.
///
/// # Errors
/// [`EventError::NotFound`], [`EventError::Invalid`].
pub fn update(conn: &mut PgConnection, slug: &str, change: impl Fn(&mut EventInput)) -> Result<Event, EventError> {
    transaction(conn, |conn| {
        let before = queries::event_for_update(conn, slug)?.ok_or_else(|| EventError::NotFound(slug.to_owned()))?;
        let mut input = input_of(&before);
        change(&mut input);
        let new = input.parse().map_err(EventError::Invalid)?;
        if new.currency != before.currency {
            return Err(EventError::Invalid(FieldErrors::one("currency", "cannot be changed: prices and orders are in it")));
        }
        if new.slug != before.slug {
            return Err(EventError::Invalid(FieldErrors::one("slug", "cannot be changed: buyers' links and partners' retries have it")));
        }
        let after = Event::new(before.id, before.created_at, new);
        queries::update_event(conn, &after)?;
        Ok(after)
    })
}

/// The input that would make `event` again.
fn input_of(event: &Event) -> EventInput {
    let moment = |moment: Option<DateTime<Utc>>| moment.map(|moment| moment.to_rfc3339());
    EventInput {
        slug: Some(event.slug.clone()),
        name: Some(event.name.clone()),
        venue: event.venue.clone(),
        starts_at: moment(event.starts_at),
        time_zone: Some(event.time_zone.name().to_owned()),
        currency: Some(event.currency.code().to_owned()),
        sales_open_at: moment(event.sales_open_at),
        sales_close_at: moment(event.sales_close_at),
        state: Some(event.state.name().to_owned()),
        max_per_order: Some(event.max_per_order.into()),
        max_per_buyer: event.max_per_buyer.map(Into::into),
        checkout: Some(event.checkout.name().to_owned()),
        buyers_cancel_until: moment(event.buyers_cancel_until),
        show_counts: Some(event.show_counts),
    }
}

/// Adds a ticket type to an event.
///
/// # Errors
/// [`EventError::NotFound`]; [`EventError::Invalid`], also if the code is taken or the event has [`TYPES_MAX`] types.
pub fn add_ticket_type(conn: &mut PgConnection, now: DateTime<Utc>, slug: &str, input: &TicketTypeInput) -> Result<TicketType, EventError> {
    let result = transaction(conn, |conn| {
        let event = queries::event_for_update(conn, slug)?.ok_or_else(|| EventError::NotFound(slug.to_owned()))?;
        let new = input.parse(event.time_zone).map_err(EventError::Invalid)?;
        let others = queries::ticket_types(conn, event.id)?.len();
        if others >= TYPES_MAX {
            return Err(EventError::Invalid(FieldErrors::one(
                "code",
                format!("is one too many: an event has at most {TYPES_MAX} ticket types"),
            )));
        }
        let ticket_type = TicketType::new(TicketTypeId::new(), new);
        queries::insert_ticket_type(conn, event.id, &ticket_type, i32::try_from(others).unwrap_or(0) + 1, now)?;
        Ok(ticket_type)
    });
    match result {
        Err(EventError::Db(error)) if error.is_constraint("ticket_types_event_id_code_key") => {
            Err(EventError::Invalid(FieldErrors::one("code", "is taken by another ticket type of this event")))
        }
        other => other,
    }
}

/// Changes a ticket type: what `change` makes of its present fields is checked and stored. Its code is fixed, since partners and files
/// have it. Orders that were made keep the name and the price that they were made with.
///
/// # Errors
/// [`EventError::NotFound`], [`EventError::TypeNotFound`], [`EventError::Invalid`].
pub fn update_ticket_type(
    conn: &mut PgConnection,
    slug: &str,
    code: &str,
    change: impl Fn(&mut TicketTypeInput),
) -> Result<TicketType, EventError> {
    transaction(conn, |conn| {
        let Programme { event, ticket_types } = programme_for_update(conn, slug)?;
        let not_found = || EventError::TypeNotFound(code.to_owned());
        let before = ticket_types.into_iter().find(|ticket_type| ticket_type.code == code).ok_or_else(not_found)?;
        let mut input = type_input_of(&before);
        change(&mut input);
        let new = input.parse(event.time_zone).map_err(EventError::Invalid)?;
        if new.code != before.code {
            return Err(EventError::Invalid(FieldErrors::one("code", "cannot be changed: partners' requests and files have it")));
        }
        let after = TicketType::new(before.id, new);
        queries::update_ticket_type(conn, event.id, &after)?;
        Ok(after)
    })
}

/// The input that would make `ticket_type` again.
fn type_input_of(ticket_type: &TicketType) -> TicketTypeInput {
    let moment = |moment: Option<DateTime<Utc>>| moment.map(|moment| moment.to_rfc3339());
    TicketTypeInput {
        code: Some(ticket_type.code.clone()),
        name: Some(ticket_type.name.clone()),
        price_minor: Some(ticket_type.price_minor),
        sales_open_at: moment(ticket_type.sales_open_at),
        sales_close_at: moment(ticket_type.sales_close_at),
    }
}

/// The event of that slug with its ticket types.
///
/// # Errors
/// [`EventError::NotFound`].
pub fn programme(conn: &mut PgConnection, slug: &str) -> Result<Programme, EventError> {
    let event = queries::event(conn, slug)?.ok_or_else(|| EventError::NotFound(slug.to_owned()))?;
    let ticket_types = queries::ticket_types(conn, event.id)?;
    Ok(Programme { event, ticket_types })
}

/// The slugs of these events; one that is not there is absent.
///
/// # Errors
/// The database's.
pub fn slugs(conn: &mut PgConnection, ids: &[EventId]) -> Result<HashMap<EventId, String>, DbError> {
    queries::slugs(conn, ids)
}

/// The event of that id with its ticket types.
///
/// # Errors
/// [`EventError::NotFound`].
pub fn programme_by_id(conn: &mut PgConnection, id: EventId) -> Result<Programme, EventError> {
    let event = queries::event_by_id(conn, id)?.ok_or_else(|| EventError::NotFound(id.to_string()))?;
    let ticket_types = queries::ticket_types(conn, event.id)?;
    Ok(Programme { event, ticket_types })
}

/// The same, with the event's row locked until the transaction at hand ends: for whoever changes its stock.
///
/// # Errors
/// [`EventError::NotFound`].
pub fn programme_for_update(conn: &mut PgConnection, slug: &str) -> Result<Programme, EventError> {
    let event = queries::event_for_update(conn, slug)?.ok_or_else(|| EventError::NotFound(slug.to_owned()))?;
    let ticket_types = queries::ticket_types(conn, event.id)?;
    Ok(Programme { event, ticket_types })
}

/// All events (at most [`EVENTS_PAGE_MAX`]): the next to come first, then those without a date, then those that are past, last first.
///
/// # Errors
/// The database's.
pub fn list(conn: &mut PgConnection, now: DateTime<Utc>) -> Result<Vec<Programme>, EventError> {
    let events = queries::events(conn, now)?;
    let mut ticket_types = queries::ticket_types_of(conn, &events)?;
    let programme = |event: Event| {
        let ticket_types = ticket_types.remove(&event.id).unwrap_or_default();
        Programme { event, ticket_types }
    };
    Ok(events.into_iter().map(programme).collect())
}
