//! The form of an event: what was typed becomes an event and a ticket type, or comes back beside what is wrong with it.

use actix_web::{HttpResponse, http::StatusCode};
use askama::Template;
use chrono::DateTime;
use chrono_tz::Tz;

use super::{
    Keep,
    form::{Filled, Form},
    login::Frame,
    page,
};
use crate::{
    accounts::AdminSession,
    events::{Checkout, Event, EventInput, EventState, NewEvent, TicketType, TicketTypeInput, rules},
    input::FieldErrors,
    money::{Currency, parse_amount},
    web::error::{self, Problem},
    when::for_input,
};

/// Zones that the form suggests; any other of the IANA's may be typed.
const ZONES: [&str; 36] = [
    "UTC",
    "Europe/London",
    "Europe/Dublin",
    "Europe/Lisbon",
    "Europe/Madrid",
    "Europe/Paris",
    "Europe/Brussels",
    "Europe/Amsterdam",
    "Europe/Berlin",
    "Europe/Zurich",
    "Europe/Vienna",
    "Europe/Rome",
    "Europe/Prague",
    "Europe/Warsaw",
    "Europe/Copenhagen",
    "Europe/Oslo",
    "Europe/Stockholm",
    "Europe/Helsinki",
    "Europe/Athens",
    "Europe/Kyiv",
    "Europe/Istanbul",
    "America/New_York",
    "America/Chicago",
    "America/Denver",
    "America/Los_Angeles",
    "America/Toronto",
    "America/Mexico_City",
    "America/Sao_Paulo",
    "Africa/Johannesburg",
    "Africa/Lagos",
    "Asia/Dubai",
    "Asia/Kolkata",
    "Asia/Singapore",
    "Asia/Tokyo",
    "Australia/Sydney",
    "Pacific/Auckland",
];
/// Currencies that the form suggests.
const CURRENCIES: [&str; 12] = ["EUR", "USD", "GBP", "CHF", "SEK", "NOK", "DKK", "PLN", "CAD", "AUD", "INR", "JPY"];

#[derive(Template)]
#[template(path = "admin/event_form.html")]
struct EventForm<'a> {
    frame: Frame,
    /// The event that is changed; none for a new one.
    slug: Option<&'a str>,
    form: Filled,
    states: Vec<Choice>,
    checkouts: Vec<Choice>,
    zones: &'static [&'static str],
    currencies: &'static [&'static str],
}

struct Choice {
    name: &'static str,
    label: &'static str,
    chosen: bool,
}

/// The fields that have a place for their error; what is wrong elsewhere is told on top.
const EVENT_FIELDS: [&str; 17] = [
    "name",
    "slug",
    "venue",
    "starts_at",
    "time_zone",
    "currency",
    "sales_open_at",
    "sales_close_at",
    "state",
    "max_per_order",
    "max_per_buyer",
    "checkout",
    "buyers_cancel_until",
    "show_counts",
    "type_name",
    "type_code",
    "type_price",
];

impl EventForm<'_> {
    /// What is wrong with no field of the form.
    fn other_errors(&self) -> Vec<String> {
        self.form.other_errors(&EVENT_FIELDS)
    }
}

/// The page of the form.
pub(super) fn show(session: &AdminSession, slug: Option<&str>, form: Form, errors: FieldErrors) -> Result<HttpResponse, Problem> {
    let status = if errors.as_slice().is_empty() {
        StatusCode::OK
    } else {
        let problem = Problem::invalid(&errors);
        error::log(&problem);
        problem.status
    };
    let choice = |field, name, label| Choice { name, label, chosen: form.text(field) == name };
    let checkout = |checkout: Checkout| choice("checkout", checkout.name(), checkout.label());
    let state = |state: EventState| choice("state", state.name(), state.label());
    let template = EventForm {
        frame: session.into(),
        slug,
        states: EventState::ALL.into_iter().map(state).collect(),
        checkouts: Checkout::ALL.into_iter().map(checkout).collect(),
        form: Filled::new(form, errors),
        zones: &ZONES,
        currencies: &CURRENCIES,
    };
    page(status, Keep::Nothing, &template)
}

/// Reads a new event, and its first ticket type if any of that is filled in.
pub(super) fn parse_new(form: &Form) -> Result<(NewEvent, Option<TicketTypeInput>), FieldErrors> {
    let mut input = EventInput { currency: form.filled("currency"), ..EventInput::default() };
    fill(&mut input, form);
    input.slug = Some(form.filled("slug").unwrap_or_else(|| words_of(form.text("name"), rules::SLUG_MAX)));
    let event = input.parse();
    let ticket_type = first_type(form);
    match (event, ticket_type) {
        (Ok(event), Ok(ticket_type)) => Ok((event, ticket_type)),
        (event, ticket_type) => Err(both(in_page_words(event.err()), ticket_type.err(), form.filled("slug").is_some())),
    }
}

/// The errors of two parts of a form. A name that is missing leaves no address to be made of it, which need not be told too.
fn both(event: FieldErrors, ticket_type: Option<FieldErrors>, slug_was_typed: bool) -> FieldErrors {
    let mut all = FieldErrors::new();
    let tells_slug = slug_was_typed || event.of("name").is_none();
    for error in event.as_slice().iter().filter(|error| tells_slug || error.field != "slug") {
        all.add(error.field.clone(), error.message.clone());
    }
    for error in ticket_type.iter().flat_map(FieldErrors::as_slice) {
        all.add(format!("type_{}", error.field), error.message.clone());
    }
    all
}

/// The same errors, for a reader who sees labels and pickers, not names and RFC 3339.
pub(super) fn in_page_words(errors: Option<FieldErrors>) -> FieldErrors {
    let mut told = FieldErrors::new();
    for error in errors.iter().flat_map(FieldErrors::as_slice) {
        let message = match error.message.as_str() {
            message if message.starts_with("must be a time") => "is not a time that exists there: a clock change skips it",
            "must be after sales_open_at" => "must be after the moment when the sale opens",
            message => message,
        };
        told.add(error.field.clone(), message);
    }
    told
}

fn first_type(form: &Form) -> Result<Option<TicketTypeInput>, FieldErrors> {
    let typed = ["name", "code", "price"].map(|field| form.filled(&format!("type_{field}")));
    if typed.iter().all(Option::is_none) {
        return Ok(None);
    }
    let [name, code, price] = typed;
    // A first type sells whenever its event does, so that it has no times to be read in any zone.
    ticket_type(name, code, price, [None, None], Currency::parse(form.text("currency")), Tz::UTC).map(Some)
}

/// Reads a new ticket type of an event in that currency and zone.
pub(super) fn new_type(form: &Form, event: &Event) -> Result<TicketTypeInput, FieldErrors> {
    let [name, code, price, opens, closes] = ["name", "code", "price", "sales_open_at", "sales_close_at"].map(|field| form.filled(field));
    ticket_type(name, code, price, [opens, closes], Some(event.currency), event.time_zone)
}

/// Puts what was typed for a ticket type that exists into `input`.
pub(super) fn fill_type(input: &mut TicketTypeInput, form: &Form, event: &Event) {
    input.name = Some(form.text("name").to_owned());
    input.price_minor = Some(parse_amount(form.text("price"), event.currency).unwrap_or(-1));
    set_moment(&mut input.sales_open_at, form.text("sales_open_at"), Some(event.time_zone));
    set_moment(&mut input.sales_close_at, form.text("sales_close_at"), Some(event.time_zone));
}

/// The form as a ticket type fills it.
pub(super) fn form_of_type(event: &Event, ticket_type: &TicketType) -> Form {
    let moment = |moment: Option<_>| moment.map(|moment| for_input(moment, event.time_zone)).unwrap_or_default();
    Form::default()
        .with("name", ticket_type.name.clone())
        .with("price", event.money(ticket_type.price_minor).plain())
        .with("sales_open_at", moment(ticket_type.sales_open_at))
        .with("sales_close_at", moment(ticket_type.sales_close_at))
}

/// The errors of a ticket type, for a reader who sees labels, not names.
pub(super) fn type_errors(errors: &FieldErrors, currency: Currency) -> FieldErrors {
    let mut told = FieldErrors::new();
    for error in errors.as_slice() {
        match error.field.as_str() {
            "price_minor" => told.add("price", price_expected(Some(currency))),
            field => told.add(field, error.message.clone()),
        }
    }
    in_page_words(Some(told))
}

/// Reads a ticket type as typed. A code that was left empty is made of the name.
fn ticket_type(
    name: Option<String>,
    code: Option<String>,
    price: Option<String>,
    [sales_open_at, sales_close_at]: [Option<String>; 2],
    currency: Option<Currency>,
    zone: Tz,
) -> Result<TicketTypeInput, FieldErrors> {
    let code_was_typed = code.is_some();
    let price_minor = price.as_deref().zip(currency).and_then(|(price, currency)| parse_amount(price, currency));
    let input = TicketTypeInput {
        code: Some(code.unwrap_or_else(|| words_of(name.as_deref().unwrap_or_default(), rules::CODE_MAX))),
        name: Some(name.clone().unwrap_or_default()),
        price_minor,
        sales_open_at,
        sales_close_at,
    };
    let Err(errors) = input.parse(zone) else { return Ok(input) };
    let mut told = FieldErrors::new();
    for error in errors.as_slice() {
        match error.field.as_str() {
            "price_minor" => told.add("price", price_expected(currency)),
            "code" if !code_was_typed && name.is_none() => {}
            field => told.add(field, error.message.clone()),
        }
    }
    Err(in_page_words(Some(told)))
}

fn price_expected(currency: Option<Currency>) -> &'static str {
    match currency.map(Currency::decimals) {
        Some(0) => "must be an amount without decimals, like 4500",
        Some(3) => "must be an amount like 45.500",
        _ => "must be an amount like 45.00",
    }
}

/// A slug or a code that says what `name` says: its letters and digits, joined by hyphens.
fn words_of(name: &str, bytes_max: usize) -> String {
    let mut words = String::new();
    for letter in name.to_lowercase().chars() {
        let plain = plain(letter);
        if plain.is_empty() {
            if !words.is_empty() && !words.ends_with('-') {
                words.push('-');
            }
        } else if words.len() + plain.len() <= bytes_max {
            words.push_str(&plain);
        }
    }
    words.truncate(bytes_max);
    words.trim_end_matches('-').to_owned()
}

/// A letter without its accents, as it is written where there are none.
fn plain(letter: char) -> String {
    let plain = match letter {
        'a'..='z' | '0'..='9' => return letter.to_string(),
        'ä' | 'æ' => "ae",
        'ö' | 'ø' | 'œ' => "oe",
        'ü' => "ue",
        'ß' => "ss",
        'à' | 'á' | 'â' | 'ã' | 'å' | 'ą' => "a",
        'ç' | 'č' | 'ć' => "c",
        'è' | 'é' | 'ê' | 'ë' | 'ę' | 'ě' => "e",
        'ì' | 'í' | 'î' | 'ï' => "i",
        'ł' => "l",
        'ñ' | 'ń' | 'ň' => "n",
        'ò' | 'ó' | 'ô' | 'õ' => "o",
        'ř' => "r",
        'ś' | 'š' => "s",
        'ù' | 'ú' | 'û' | 'ů' => "u",
        'ý' => "y",
        'ź' | 'ż' | 'ž' => "z",
        _ => "",
    };
    plain.to_owned()
}

/// Puts what was typed into `input`.
pub(super) fn fill(input: &mut EventInput, form: &Form) {
    let zone_before: Option<Tz> = input.time_zone.as_deref().and_then(|zone| zone.parse().ok());
    let zone = form.text("time_zone").to_owned();
    let same_zone = zone_before.filter(|before| before.name() == zone);
    input.name = Some(form.text("name").to_owned());
    input.venue = form.filled("venue");
    set_moment(&mut input.starts_at, form.text("starts_at"), same_zone);
    set_moment(&mut input.sales_open_at, form.text("sales_open_at"), same_zone);
    set_moment(&mut input.sales_close_at, form.text("sales_close_at"), same_zone);
    input.time_zone = Some(zone);
    input.state = Some(form.text("state").to_owned());
    input.max_per_order = form.number("max_per_order");
    input.max_per_buyer = form.number("max_per_buyer");
    input.checkout = Some(form.text("checkout").to_owned());
    set_moment(&mut input.buyers_cancel_until, form.text("buyers_cancel_until"), same_zone);
    input.show_counts = Some(form.ticked("show_counts"));
}

/// A moment that was left as it was shown stays what it was: the form shows neither its seconds nor which of two equal local times
/// it is, on the night when clocks are set back.
fn set_moment(moment: &mut Option<String>, typed: &str, same_zone: Option<Tz>) {
    let shown = moment.as_deref().and_then(|moment| DateTime::parse_from_rfc3339(moment).ok()).zip(same_zone);
    if shown.is_some_and(|(moment, zone)| for_input(moment.to_utc(), zone) == typed) {
        return;
    }
    *moment = Some(typed.to_owned()).filter(|typed| !typed.is_empty());
}

/// The form as an event fills it.
pub(super) fn form_of(event: &Event) -> Form {
    let moment = |moment: Option<_>| moment.map(|moment| for_input(moment, event.time_zone)).unwrap_or_default();
    Form::default()
        .with("name", event.name.clone())
        .with("venue", event.venue.clone().unwrap_or_default())
        .with("starts_at", moment(event.starts_at))
        .with("time_zone", event.time_zone.name())
        .with("currency", event.currency.code())
        .with("sales_open_at", moment(event.sales_open_at))
        .with("sales_close_at", moment(event.sales_close_at))
        .with("state", event.state.name())
        .with("max_per_order", event.max_per_order.to_string())
        .with("max_per_buyer", event.max_per_buyer.map(|limit| limit.to_string()).unwrap_or_default())
        .with("checkout", event.checkout.name())
        .with("buyers_cancel_until", moment(event.buyers_cancel_until))
        .with("show_counts", event.show_counts.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_makes_an_address() {
        assert_eq!(words_of("Summer Gala 2027!", 80), "summer-gala-2027");
        assert_eq!(words_of("  Über den Wolken — Café  ", 80), "ueber-den-wolken-cafe");
        assert_eq!(words_of("日本", 80), "");
        assert!(rules::parse_slug(&words_of(&"ab ".repeat(60), 80)).is_some());
    }

    #[test]
    fn a_moment_that_was_not_touched_stays_to_the_second() {
        let before = Some("2027-10-31T01:30:45+00:00".to_owned());
        let mut moment = before.clone();
        set_moment(&mut moment, "2027-10-31T02:30", Some(Tz::Europe__Berlin));
        assert_eq!(moment, before);
        set_moment(&mut moment, "2027-10-31T03:30", Some(Tz::Europe__Berlin));
        assert_eq!(moment.as_deref(), Some("2027-10-31T03:30"));
        set_moment(&mut moment, "", None);
        assert_eq!(moment, None);
    }

    #[test]
    fn a_ticket_type_needs_a_name_and_a_price_and_makes_its_own_code() {
        let eur = Currency::parse("EUR");
        let some = |text: &str| Some(text.to_owned());
        let standard = ticket_type(some("Standard seat"), None, some("45"), [None, None], eur, Tz::UTC).unwrap();
        assert_eq!((standard.code.as_deref(), standard.price_minor), (Some("standard-seat"), Some(4_500)));
        let errors = ticket_type(None, None, some("4,5"), [None, None], eur, Tz::UTC).unwrap_err();
        let fields: Vec<&str> = errors.as_slice().iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["name", "price"]);
    }
}
