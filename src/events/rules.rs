//! Pure rules of events: what a valid one is, and when it sells. No clock, no database.

use std::{fmt, ops::RangeInclusive, str::FromStr};

use chrono::{DateTime, Datelike, NaiveDateTime, TimeZone, Timelike, Utc};
use chrono_tz::Tz;

use crate::{
    input::{FieldErrors, line_of_text},
    money::Currency,
};

/// Longest slug, in bytes.
pub const SLUG_MAX: usize = 80;
/// Longest ticket type code, in bytes.
pub const CODE_MAX: usize = 40;
/// Longest name of an event, a venue or a ticket type, in characters.
pub const NAME_MAX: usize = 200;
/// Most tickets that an event may allow in one order: an order is claimed in one statement, and shown on one page.
pub const ORDER_LIMIT_MAX: i32 = 1_000;
/// Most tickets in one order, unless the event says otherwise.
pub const ORDER_LIMIT_DEFAULT: i32 = 100;
/// Highest price of one ticket, in minor units: an order of the largest size stays far inside 64 bits.
pub const PRICE_MAX: i64 = 1_000_000_000_000;

/// Whether an event sells, as its admin set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventState {
    /// Not shown to the public yet.
    Draft,
    /// Sells, within its window.
    OnSale,
    /// Shown, and not selling for now.
    Paused,
    /// Shown, and done selling.
    Closed,
    /// Will not take place.
    Cancelled,
}

impl EventState {
    /// Every state, in the order of an event's life.
    pub const ALL: [Self; 5] = [Self::Draft, Self::OnSale, Self::Paused, Self::Closed, Self::Cancelled];

    /// The name in the database and the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::OnSale => "on_sale",
            Self::Paused => "paused",
            Self::Closed => "closed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The name for people.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Draft => "Draft",
            Self::OnSale => "On sale",
            Self::Paused => "Paused",
            Self::Closed => "Sale closed",
            Self::Cancelled => "Cancelled",
        }
    }
}

impl FromStr for EventState {
    type Err = ();
    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|state| state.name() == name).ok_or(())
    }
}

impl fmt::Display for EventState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Whether an event sells at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selling {
    /// Yes.
    Open,
    /// Not yet: from this moment on, if it is known.
    NotYet(Option<DateTime<Utc>>),
    /// Paused by the organiser; may go on.
    Paused,
    /// Over.
    Closed,
    /// The event was cancelled.
    Cancelled,
}

/// Decides whether an event in `state` with this window sells at `now`. The window is half open: it sells at `opens` and no
/// longer at `closes`.
#[must_use]
pub fn selling(state: EventState, opens: Option<DateTime<Utc>>, closes: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Selling {
    match state {
        EventState::Draft => Selling::NotYet(None),
        EventState::Paused => Selling::Paused,
        EventState::Closed => Selling::Closed,
        EventState::Cancelled => Selling::Cancelled,
        EventState::OnSale if opens.is_some_and(|opens| now < opens) => Selling::NotYet(opens),
        EventState::OnSale if closes.is_some_and(|closes| now >= closes) => Selling::Closed,
        EventState::OnSale => Selling::Open,
    }
}

/// Decides whether a ticket type with a window of its own sells at `now`, given what its event does: both must be open.
#[must_use]
pub fn type_selling(event: Selling, opens: Option<DateTime<Utc>>, closes: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Selling {
    match event {
        Selling::Open => selling(EventState::OnSale, opens, closes, now),
        other => other,
    }
}

/// What the button of an event's page does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkout {
    /// It sells.
    AtOnce,
    /// It keeps the tickets for the buyer, who then confirms.
    Hold,
}

impl Checkout {
    /// Both ways, the usual one first.
    pub const ALL: [Self; 2] = [Self::AtOnce, Self::Hold];

    /// The name in the database and the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AtOnce => "at_once",
            Self::Hold => "hold",
        }
    }

    /// The name for people.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::AtOnce => "Sell at once",
            Self::Hold => "Hold, then confirm",
        }
    }
}

impl FromStr for Checkout {
    type Err = ();
    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|checkout| checkout.name() == name).ok_or(())
    }
}

/// An event as somebody sent it: nothing is checked yet, and what is absent is `None`.
#[derive(Clone, Debug, Default)]
pub struct EventInput {
    /// Name in URLs.
    pub slug: Option<String>,
    /// Name for people.
    pub name: Option<String>,
    /// Where it takes place.
    pub venue: Option<String>,
    /// When it starts: RFC 3339, or without offset in the event's zone.
    pub starts_at: Option<String>,
    /// IANA zone.
    pub time_zone: Option<String>,
    /// ISO 4217 code.
    pub currency: Option<String>,
    /// When the sale opens; as `starts_at`.
    pub sales_open_at: Option<String>,
    /// When the sale closes; as `starts_at`.
    pub sales_close_at: Option<String>,
    /// State's name.
    pub state: Option<String>,
    /// Most tickets in one order.
    pub max_per_order: Option<i64>,
    /// Most tickets that one buyer may have, over all orders; no limit, if absent.
    pub max_per_buyer: Option<i64>,
    /// Name of a [`Checkout`].
    pub checkout: Option<String>,
    /// Until when buyers may give tickets back; as `starts_at`. Never, if absent.
    pub buyers_cancel_until: Option<String>,
    /// Whether the public sees exact counts.
    pub show_counts: Option<bool>,
}

/// An event that may be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of `events`, which has a comment on each that needs one")]
pub struct NewEvent {
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
}

impl EventInput {
    /// Checks every field.
    ///
    /// # Errors
    /// All that is wrong, by field.
    pub fn parse(&self) -> Result<NewEvent, FieldErrors> {
        let mut errors = FieldErrors::new();
        let slug = errors.check(
            "slug",
            self.slug.as_deref().and_then(parse_slug),
            "must be lower-case letters, digits and single hyphens, at most 80, like summer-gala; new is taken",
        );
        let name = errors.check(
            "name",
            self.name.as_deref().and_then(|name| line_of_text(name, NAME_MAX)),
            "must be one line of 1 to 200 characters",
        );
        let venue = optional(
            &mut errors,
            "venue",
            self.venue.as_deref(),
            |venue| line_of_text(venue, NAME_MAX),
            "must be one line of at most 200 characters",
        );
        let time_zone = errors.check(
            "time_zone",
            self.time_zone.as_deref().map_or(Some(Tz::UTC), |zone| zone.trim().parse().ok()),
            "must be an IANA time zone, like Europe/Berlin",
        );
        let currency = errors.check("currency", self.currency.as_deref().and_then(Currency::parse), "must be an ISO 4217 code, like EUR");
        let zone = time_zone.unwrap_or(Tz::UTC);
        let starts_at = moment(&mut errors, "starts_at", self.starts_at.as_deref(), zone);
        let sales_open_at = moment(&mut errors, "sales_open_at", self.sales_open_at.as_deref(), zone);
        let sales_close_at = moment(&mut errors, "sales_close_at", self.sales_close_at.as_deref(), zone);
        let state = errors.check(
            "state",
            self.state.as_deref().map_or(Some(EventState::OnSale), |state| state.parse().ok()),
            "must be draft, on_sale, paused, closed or cancelled",
        );
        let max_per_order = errors.check(
            "max_per_order",
            self.max_per_order.map_or(Some(ORDER_LIMIT_DEFAULT), order_limit),
            "must be a whole number from 1 to 1000",
        );
        check_window(&mut errors, sales_open_at, sales_close_at);
        let max_per_buyer = self.max_per_buyer.and_then(|limit| {
            errors.check("max_per_buyer", i32::try_from(limit).ok().filter(|limit| *limit >= 1), "must be a whole number, 1 or more")
        });
        let checkout = errors.check(
            "checkout",
            self.checkout.as_deref().map_or(Some(Checkout::AtOnce), |checkout| checkout.parse().ok()),
            "must be at_once or hold",
        );
        let buyers_cancel_until = moment(&mut errors, "buyers_cancel_until", self.buyers_cancel_until.as_deref(), zone);
        let show_counts = self.show_counts.unwrap_or(true);
        match (slug, name, time_zone, currency, state, max_per_order, checkout) {
            (Some(slug), Some(name), Some(time_zone), Some(currency), Some(state), Some(max_per_order), Some(checkout)) => {
                errors.into_result().map(|()| NewEvent {
                    slug,
                    name,
                    venue,
                    starts_at,
                    time_zone,
                    currency,
                    sales_open_at,
                    sales_close_at,
                    state,
                    max_per_order,
                    max_per_buyer,
                    checkout,
                    buyers_cancel_until,
                    show_counts,
                })
            }
            _ => Err(errors),
        }
    }
}

/// A ticket type as somebody sent it.
#[derive(Clone, Debug, Default)]
pub struct TicketTypeInput {
    /// Name in the API and in files.
    pub code: Option<String>,
    /// Name for people; the code, if absent.
    pub name: Option<String>,
    /// Price in minor units.
    pub price_minor: Option<i64>,
    /// When its sale opens: RFC 3339, or without offset in the event's zone.
    pub sales_open_at: Option<String>,
    /// When its sale closes; as `sales_open_at`.
    pub sales_close_at: Option<String>,
}

/// A ticket type that may be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTicketType {
    /// Name in the API and in files.
    pub code: String,
    /// Name for people.
    pub name: String,
    /// Price in minor units.
    pub price_minor: i64,
    /// When its sale opens; with the event's, if absent.
    pub sales_open_at: Option<DateTime<Utc>>,
    /// When its sale closes; with the event's, if absent.
    pub sales_close_at: Option<DateTime<Utc>>,
}

impl TicketTypeInput {
    /// Checks every field; times without offset are read in `zone`, the event's.
    ///
    /// # Errors
    /// All that is wrong, by field.
    pub fn parse(&self, zone: Tz) -> Result<NewTicketType, FieldErrors> {
        let mut errors = FieldErrors::new();
        let code = errors.check(
            "code",
            self.code.as_deref().and_then(parse_code),
            "must be lower-case letters and digits joined by single - or _, at most 40, like standard",
        );
        let name = match self.name.as_deref() {
            None => code.clone(),
            Some(name) => errors.check("name", line_of_text(name, NAME_MAX), "must be one line of 1 to 200 characters"),
        };
        let price = self.price_minor.filter(|price| (0..=PRICE_MAX).contains(price));
        let price = errors.check("price_minor", price, "must be a whole number of minor units (cents), 0 or more");
        let sales_open_at = moment(&mut errors, "sales_open_at", self.sales_open_at.as_deref(), zone);
        let sales_close_at = moment(&mut errors, "sales_close_at", self.sales_close_at.as_deref(), zone);
        check_window(&mut errors, sales_open_at, sales_close_at);
        match (code, name, price) {
            (Some(code), Some(name), Some(price_minor)) => {
                errors.into_result().map(|()| NewTicketType { code, name, price_minor, sales_open_at, sales_close_at })
            }
            _ => Err(errors),
        }
    }
}

fn check_window(errors: &mut FieldErrors, opens: Option<DateTime<Utc>>, closes: Option<DateTime<Utc>>) {
    if opens.zip(closes).is_some_and(|(opens, closes)| opens >= closes) {
        errors.add("sales_close_at", "must be after sales_open_at");
    }
}

fn order_limit(limit: i64) -> Option<i32> {
    i32::try_from(limit).ok().filter(|limit| (1..=ORDER_LIMIT_MAX).contains(limit))
}

/// Slugs that are addresses of something else: `/admin/events/new`.
const RESERVED_SLUGS: [&str; 1] = ["new"];

/// Reads a slug.
#[must_use]
pub fn parse_slug(text: &str) -> Option<String> {
    words_joined_by(text.trim(), "-", SLUG_MAX).filter(|slug| !RESERVED_SLUGS.contains(&slug.as_str()))
}

/// Reads a ticket type's code; case and the spaces around it do not matter.
#[must_use]
pub fn parse_code(text: &str) -> Option<String> {
    words_joined_by(&text.trim().to_lowercase(), "-_", CODE_MAX)
}

fn words_joined_by(text: &str, joints: &str, max_bytes: usize) -> Option<String> {
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let is_joint = |character: char| joints.contains(character);
    (text.len() <= max_bytes && text.split(is_joint).all(is_word)).then(|| text.to_owned())
}

fn optional<T>(
    errors: &mut FieldErrors,
    field: &str,
    text: Option<&str>,
    parse: impl FnOnce(&str) -> Option<T>,
    message: &str,
) -> Option<T> {
    let text = text.map(str::trim).filter(|text| !text.is_empty())?;
    errors.check(field, parse(text), message)
}

fn moment(errors: &mut FieldErrors, field: &str, text: Option<&str>, zone: Tz) -> Option<DateTime<Utc>> {
    let message =
        "must be a time like 2027-01-05T20:00:00+01:00, or without offset in the event's time zone; a clock change may have skipped it";
    optional(errors, field, text, |text| parse_moment(text, zone), message)
}

/// Reads a moment: RFC 3339, or a local time (`2027-01-05T20:00`) that `zone` gives its offset. A local time that occurs twice,
/// when clocks are set back, is the first; one that never occurs is refused.
#[must_use]
pub fn parse_moment(text: &str, zone: Tz) -> Option<DateTime<Utc>> {
    read_moment(text, zone).filter(|moment| YEARS.contains(&moment.year()) && moment.nanosecond() < NANOS_OF_A_SECOND)
}

/// Years that an event may be in: RFC 3339 writes them with four digits, in every zone.
const YEARS: RangeInclusive<i32> = 1970..=9998;
/// A leap second counts more of them than a second has, and PostgreSQL stores it as the second after.
const NANOS_OF_A_SECOND: u32 = 1_000_000_000;

fn read_moment(text: &str, zone: Tz) -> Option<DateTime<Utc>> {
    if let Ok(moment) = DateTime::parse_from_rfc3339(text) {
        return Some(moment.with_timezone(&Utc));
    }
    let local =
        ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"].iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok())?;
    zone.from_local_datetime(&local).earliest().map(|moment| moment.with_timezone(&Utc))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn the_window_is_half_open() {
        let (opens, closes) = (Some(at("2027-01-05T10:00:00Z")), Some(at("2027-01-06T10:00:00Z")));
        let state = |now| selling(EventState::OnSale, opens, closes, at(now));
        assert_eq!(state("2027-01-05T09:59:59.999999Z"), Selling::NotYet(opens));
        assert_eq!(state("2027-01-05T10:00:00Z"), Selling::Open);
        assert_eq!(state("2027-01-06T09:59:59Z"), Selling::Open);
        assert_eq!(state("2027-01-06T10:00:00Z"), Selling::Closed);
        assert_eq!(selling(EventState::OnSale, None, None, at("2027-01-05T10:00:00Z")), Selling::Open);
        assert_eq!(selling(EventState::Draft, None, None, at("2027-01-05T10:00:00Z")), Selling::NotYet(None));
    }

    #[test]
    fn a_type_sells_when_its_event_does_and_its_own_window_is_open() {
        let (opens, closes) = (Some(at("2027-01-05T10:00:00Z")), Some(at("2027-01-06T10:00:00Z")));
        let early = at("2027-01-05T09:00:00Z");
        assert_eq!(type_selling(Selling::Open, opens, closes, early), Selling::NotYet(opens));
        assert_eq!(type_selling(Selling::Open, opens, closes, at("2027-01-05T10:00:00Z")), Selling::Open);
        assert_eq!(type_selling(Selling::Open, opens, closes, at("2027-01-06T10:00:00Z")), Selling::Closed);
        assert_eq!(type_selling(Selling::Paused, opens, closes, early), Selling::Paused);
        assert_eq!(type_selling(Selling::Open, None, None, early), Selling::Open);
    }

    #[test]
    fn a_local_time_is_read_in_the_event_s_zone_on_both_sides_of_a_clock_change() {
        let zone = chrono_tz::America::New_York;
        assert_eq!(parse_moment("2027-03-13T10:00", zone), Some(at("2027-03-13T15:00:00Z")));
        assert_eq!(parse_moment("2027-03-15T10:00", zone), Some(at("2027-03-15T14:00:00Z")));
        assert_eq!(parse_moment("2027-03-14T02:30", zone), None, "the clocks skip it");
        assert_eq!(parse_moment("2027-11-07T01:30", zone), Some(at("2027-11-07T05:30:00Z")), "the first of two");
        assert_eq!(parse_moment("2027-01-05T20:00:00+01:00", zone), Some(at("2027-01-05T19:00:00Z")));
        for wrong in ["9999-12-31T23:59:59-23:59", "2027-06-30T23:59:60Z", "0000-01-01T00:00:00Z"] {
            assert_eq!(parse_moment(wrong, zone), None, "{wrong}");
        }
    }

    #[test]
    fn slugs_and_codes() {
        assert_eq!(parse_slug("summer-gala-2027"), Some("summer-gala-2027".to_owned()));
        assert_eq!(parse_code(" VIP_front "), Some("vip_front".to_owned()));
        for wrong in ["", "new", "-a", "a-", "a--b", "Gala", "a b", "ü", &"a".repeat(81)] {
            assert_eq!(parse_slug(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn everything_wrong_is_told_at_once() {
        let input =
            EventInput { slug: Some("A B".to_owned()), currency: Some("EURO".to_owned()), max_per_order: Some(0), ..EventInput::default() };
        let errors = input.parse().unwrap_err();
        let fields: Vec<&str> = errors.as_slice().iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["slug", "name", "currency", "max_per_order"]);
    }
}
