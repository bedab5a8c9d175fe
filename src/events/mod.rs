//! Events, their ticket types and their sale windows.

mod queries;
pub mod rules;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use diesel::PgConnection;

use crate::{
    db::{DbCause, DbError, transaction},
    ids::{EventId, TicketTypeId},
    input::FieldErrors,
    money::{Currency, Money},
};
pub use rules::{EventInput, EventState, NewEvent, NewTicketType, Selling, TicketTypeInput};

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
    pub show_counts: bool,
    pub created_at: DateTime<Utc>,
}

impl Event {
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
    let event = Event {
        id: EventId::new(),
        slug: new.slug.clone(),
        name: new.name.clone(),
        venue: new.venue.clone(),
        starts_at: new.starts_at,
        time_zone: new.time_zone,
        currency: new.currency,
        sales_open_at: new.sales_open_at,
        sales_close_at: new.sales_close_at,
        state: new.state,
        max_per_order: new.max_per_order,
        show_counts: new.show_counts,
        created_at: now,
    };
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
        let after = Event {
            id: before.id,
            created_at: before.created_at,
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
            show_counts: new.show_counts,
        };
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
        show_counts: Some(event.show_counts),
    }
}

/// Adds a ticket type to an event.
///
/// # Errors
/// [`EventError::NotFound`]; [`EventError::Invalid`] if the code is taken or the event has [`TYPES_MAX`] types.
pub fn add_ticket_type(conn: &mut PgConnection, now: DateTime<Utc>, slug: &str, new: &NewTicketType) -> Result<TicketType, EventError> {
    let result = transaction(conn, |conn| {
        let event = queries::event_for_update(conn, slug)?.ok_or_else(|| EventError::NotFound(slug.to_owned()))?;
        let others = queries::ticket_types(conn, event.id)?.len();
        if others >= TYPES_MAX {
            return Err(EventError::Invalid(FieldErrors::one(
                "code",
                format!("is one too many: an event has at most {TYPES_MAX} ticket types"),
            )));
        }
        let ticket_type =
            TicketType { id: TicketTypeId::new(), code: new.code.clone(), name: new.name.clone(), price_minor: new.price_minor };
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

/// The event of that slug with its ticket types.
///
/// # Errors
/// [`EventError::NotFound`].
pub fn programme(conn: &mut PgConnection, slug: &str) -> Result<Programme, EventError> {
    let event = queries::event(conn, slug)?.ok_or_else(|| EventError::NotFound(slug.to_owned()))?;
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
