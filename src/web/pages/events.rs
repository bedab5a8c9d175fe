//! The events, and one event with what is left of it and the form to buy.

use std::collections::HashMap;

use actix_web::{
    HttpRequest, HttpResponse,
    http::StatusCode,
    web::{Data, Path},
};
use askama::Template;
use chrono::{DateTime, TimeDelta, Utc};

use super::{Keep, basket::Basket, counted, number, order, own_holds, page, refusal::Notice, thousandths, tickets};
use crate::{
    app::App,
    events::{self, Checkout, Event, EventError, Programme, Selling, TicketType},
    ids::TicketTypeId,
    inventory::{self, Left},
    orders::{self, Order},
    web::error::Problem,
    when::{When, time_of_day, with_zone},
};

/// So many tickets are offered as buttons; more are typed.
const PILLS_MAX: i64 = 4;
/// From here on a stock is "only so many left".
const FEW: i64 = 10;

#[derive(Template)]
#[template(path = "events.html")]
struct EventsPage {
    events: Vec<Card>,
}

struct Card {
    slug: String,
    name: String,
    when: Option<When>,
    venue: Option<String>,
    price: String,
    badge: Badge,
}

/// Whether an event has tickets.
#[derive(Clone, Copy)]
enum Shelf {
    NeverFilled,
    Full,
    /// All that is left is held by buyers, and may come back.
    InBaskets,
    SoldOut,
}

/// A word or two on whether tickets can be had.
struct Badge {
    tone: &'static str,
    text: String,
}

/// `GET /`: the public events.
pub(in crate::web) async fn list(app: Data<App>) -> Result<HttpResponse, Problem> {
    let now = app.clock.now();
    let (programmes, on_shelf, in_baskets, loaded) = app
        .db
        .run(move |conn| {
            let programmes: Vec<Programme> = events::list(conn, now)?.into_iter().filter(|programme| programme.event.is_public()).collect();
            let ids: Vec<_> = programmes.iter().map(|programme| programme.event.id).collect();
            let on_shelf = inventory::on_shelf(conn, &ids, now)?;
            // What is on the shelf only when every hold is over is in baskets now.
            let others: Vec<_> = ids.iter().copied().filter(|id| !on_shelf.contains(id)).collect();
            let in_baskets = inventory::left_or_held(conn, &others)?;
            let loaded = inventory::loaded(conn, &ids)?;
            Ok::<_, EventError>((programmes, on_shelf, in_baskets, loaded))
        })
        .await?;
    let card = |programme: Programme| {
        let id = programme.event.id;
        let shelf = match loaded.contains_key(&id) {
            _ if on_shelf.contains(&id) => Shelf::Full,
            _ if in_baskets.contains(&id) => Shelf::InBaskets,
            true => Shelf::SoldOut,
            false => Shelf::NeverFilled,
        };
        Card::new(programme, shelf, now)
    };
    page(StatusCode::OK, Keep::ForBack, &EventsPage { events: programmes.into_iter().map(card).collect() })
}

impl Card {
    fn new(programme: Programme, shelf: Shelf, now: DateTime<Utc>) -> Self {
        let price = from_price(&programme);
        let sale = badge(&programme, shelf, now);
        let event = programme.event;
        Self {
            badge: sale,
            when: event.starts_at.map(|moment| When::new(moment, event.time_zone)),
            slug: event.slug,
            name: event.name,
            venue: event.venue,
            price,
        }
    }
}

/// `from €45.00`; without "from" if there is but one price, and empty if there is none.
fn from_price(programme: &Programme) -> String {
    let prices = || programme.ticket_types.iter().map(|ticket_type| ticket_type.price_minor);
    let (Some(least), Some(most)) = (prices().min(), prices().max()) else { return String::new() };
    let least_text = price(&programme.event, least);
    if least == most { least_text } else { format!("from {least_text}") }
}

fn price(event: &Event, minor: i64) -> String {
    if minor == 0 { "free".to_owned() } else { event.money(minor).to_string() }
}

fn badge(programme: &Programme, shelf: Shelf, now: DateTime<Utc>) -> Badge {
    let badge = |tone, text: &str| Badge { tone, text: text.to_owned() };
    match (selling_of_any(programme, now), shelf) {
        (Selling::Open, Shelf::Full) => badge("good", "On sale"),
        (Selling::Open, Shelf::InBaskets) => badge("soon", "All in buyers' baskets"),
        (Selling::Open, Shelf::SoldOut) => badge("quiet", "Sold out"),
        (Selling::Open, Shelf::NeverFilled) => badge("soon", "Not on sale yet"),
        (Selling::NotYet(Some(opens)), _) => {
            Badge { tone: "soon", text: format!("On sale from {}", When::new(opens, programme.event.time_zone).text) }
        }
        (Selling::NotYet(None), _) => badge("soon", "Not on sale yet"),
        (Selling::Paused, _) => badge("soon", "Sale paused"),
        (Selling::Closed, _) => badge("quiet", "Sale closed"),
        (Selling::Cancelled, _) => badge("bad", "Cancelled"),
    }
}

/// Whether an event sells at `now`: as long as one of its ticket types does, and otherwise from when the first of them will.
fn selling_of_any(programme: &Programme, now: DateTime<Utc>) -> Selling {
    let of_event = programme.event.selling(now);
    let of_types: Vec<Selling> = programme.ticket_types.iter().map(|ticket_type| ticket_type.selling(of_event, now)).collect();
    if of_event != Selling::Open || of_types.is_empty() || of_types.contains(&Selling::Open) {
        return of_event;
    }
    let opens = of_types.into_iter().filter_map(|selling| if let Selling::NotYet(opens) = selling { opens } else { None });
    opens.min().map_or(Selling::Closed, |opens| Selling::NotYet(Some(opens)))
}

/// What the page of an event is made of.
pub(super) struct Stall {
    pub(super) programme: Programme,
    /// What this browser holds of the event, the newest first.
    pub(super) own_holds: Vec<Order>,
    /// For how long the page holds tickets, if it does.
    hold: Option<TimeDelta>,
    left: HashMap<TicketTypeId, Left>,
    /// By the type's code.
    loaded: HashMap<String, i64>,
}

/// Reads what the page of an event needs. A draft is not found: the public does not know of it.
pub(super) async fn stall(app: &App, request: &HttpRequest, slug: &str) -> Result<Stall, Problem> {
    let (now, slug) = (app.clock.now(), slug.to_owned());
    let usual_hold = app.config.holds.ttl(None).ok();
    let remembered = own_holds::remembered(request);
    let stall = app.db.run(move |conn| {
        let programme = events::programme(conn, &slug)?;
        if !programme.event.is_public() {
            return Err(EventError::NotFound(slug));
        }
        let id = programme.event.id;
        let left = inventory::left(conn, id, now)?;
        let loaded = inventory::loaded(conn, &[id])?.remove(&id).unwrap_or_default();
        let mut own_holds = Vec::new();
        for (order, key) in remembered {
            own_holds.extend(orders::own_hold(conn, now, id, order, &key)?);
        }
        let hold = usual_hold.filter(|_| programme.event.checkout == Checkout::Hold);
        Ok::<_, EventError>(Stall { programme, own_holds, hold, left, loaded })
    });
    Ok(stall.await?)
}

/// `GET /events/{slug}`.
pub(in crate::web) async fn show(app: Data<App>, request: HttpRequest, slug: Path<String>) -> Result<HttpResponse, Problem> {
    let stall = stall(&app, &request, &slug).await?;
    render(StatusCode::OK, &stall, app.clock.now(), Basket::new(), None)
}

#[derive(Template)]
#[template(path = "event.html")]
struct EventPage<'a> {
    slug: &'a str,
    name: &'a str,
    when: Option<When>,
    venue: Option<&'a str>,
    notice: Option<Notice>,
    own_holds: Vec<OwnHold>,
    /// In place of the form.
    closed: Option<Closed>,
    /// The event sells, so that it is worth telling how each of its types does.
    sells: bool,
    heading: &'static str,
    rows: Vec<Row>,
    limit_hint: String,
    button: &'static str,
    button_hint: String,
    basket: Basket,
}

/// What this browser holds already, and the way back to it.
struct OwnHold {
    title: String,
    text: String,
    path: String,
}

struct Closed {
    title: &'static str,
    text: String,
    /// It may be over in a minute.
    look_again: bool,
}

impl Closed {
    fn new(title: &'static str, text: impl Into<String>) -> Self {
        Self { title, text: text.into(), look_again: false }
    }
}

/// One ticket type.
struct Row {
    code: String,
    name: String,
    price: String,
    stock: Stock,
    pills: Vec<Pill>,
    more: Option<More>,
    error: String,
}

/// What is left of it.
struct Stock {
    tone: &'static str,
    text: String,
    /// In thousandths, where counts are told.
    bar: Option<i64>,
}

/// A quantity to press.
struct Pill {
    value: i64,
    checked: bool,
}

/// A quantity to type.
struct More {
    checked: bool,
    value: String,
}

/// The page of an event, with `basket` in its form and `notice` above it.
pub(super) fn render(
    status: StatusCode,
    stall: &Stall,
    now: DateTime<Utc>,
    basket: Basket,
    notice: Option<Notice>,
) -> Result<HttpResponse, Problem> {
    let event = &stall.programme.event;
    let rows = stall.rows(&basket, now);
    let has_own = !stall.own_holds.is_empty();
    let template = EventPage {
        slug: &event.slug,
        name: &event.name,
        when: event.starts_at.map(|moment| When::new(moment, event.time_zone)),
        venue: event.venue.as_deref(),
        heading: match notice {
            Some(_) => "Change your order",
            None if has_own => "Choose further tickets",
            None => "Choose your tickets",
        },
        notice,
        own_holds: stall.own_holds.iter().map(|order| OwnHold::new(event, order)).collect(),
        sells: event.selling(now) == Selling::Open,
        closed: closed(event, now).or_else(|| stall.gone()).or_else(|| stall.types_closed(now)),
        rows,
        limit_hint: limit_hint(event),
        button: if stall.hold.is_some() { "Reserve tickets" } else { "Buy tickets" },
        button_hint: match stall.hold {
            Some(time) => format!("They are kept for you for {}. You buy them on the next page.", words_of(time)),
            None => "One press is enough: pressed twice, it is still one order.".to_owned(),
        },
        basket,
    };
    page(status, Keep::ForBack, &template)
}

impl OwnHold {
    fn new(event: &Event, order: &Order) -> Self {
        let until = order.expires_at.map(|until| time_of_day(until, event.time_zone)).unwrap_or_default();
        Self {
            title: format!("You hold {}", tickets(order.quantity.into())),
            text: format!("{} kept for you until {until}.", if order.quantity == 1 { "It is" } else { "They are" }),
            path: order::order_path(&event.slug, order),
        }
    }
}

/// `10 minutes`, `90 seconds`.
fn words_of(time: TimeDelta) -> String {
    match time.num_seconds() {
        secs if secs % 60 == 0 => counted(secs / 60, "minute", "minutes"),
        secs => counted(secs, "second", "seconds"),
    }
}

fn limit_hint(event: &Event) -> String {
    let per_order = match event.max_per_order {
        1 => Some("One ticket an order.".to_owned()),
        limit if limit < 100 => Some(format!("At most {limit} tickets an order.")),
        _ => None,
    };
    let per_buyer = event.max_per_buyer.map(|limit| format!("At most {} a person.", tickets(limit.into())));
    [per_order, per_buyer].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// How many tickets of a type these orders have.
pub(super) fn quantity_of(orders: &[Order], code: &str) -> i64 {
    orders.iter().flat_map(|order| &order.lines).filter(|line| line.ticket_type == code).map(|line| line.quantity).sum()
}

/// Why there is no form, as far as the event and its window decide.
fn closed(event: &Event, now: DateTime<Utc>) -> Option<Closed> {
    let closed = |title, text: &str| Some(Closed::new(title, text));
    match event.selling(now) {
        Selling::Open => None,
        Selling::NotYet(Some(opens)) => {
            let text = format!("The sale opens on {}. Come back then.", with_zone(opens, event.time_zone));
            Some(Closed::new("Not on sale yet", text))
        }
        Selling::NotYet(None) => closed("Not on sale yet", "The organiser has not opened the sale. Come back later."),
        Selling::Paused => closed("The sale is paused", "The organiser has stopped the sale for now. It may go on: come back later."),
        Selling::Closed => closed("The sale is over", "Tickets are no longer sold here."),
        Selling::Cancelled => closed("This event is cancelled", "It will not take place, and no tickets are sold."),
    }
}

impl Stall {
    fn left(&self, ticket_type: &TicketType) -> Left {
        self.left.get(&ticket_type.id).copied().unwrap_or_default()
    }

    /// Why there is no form, as far as the stock decides.
    fn gone(&self) -> Option<Closed> {
        let left = || self.programme.ticket_types.iter().map(|ticket_type| self.left(ticket_type));
        if left().any(|left| left.available > 0) {
            return None;
        }
        if let Some(closed) = self.own_are_the_last() {
            return Some(closed);
        }
        if left().any(|left| left.held > 0) {
            let text = "What they do not buy comes back on sale, so look again in a minute.";
            return Some(Closed { look_again: true, ..Closed::new("All tickets are in other buyers' baskets", text) });
        }
        if self.loaded.is_empty() {
            return Some(Closed::new("No tickets yet", "The organiser has not put any tickets on sale. Come back later."));
        }
        Some(Closed::new("Sold out", "Every ticket has found its owner."))
    }

    /// Why there is no form for who holds the last tickets, or some of them.
    fn own_are_the_last(&self) -> Option<Closed> {
        if self.own_holds.is_empty() {
            return None;
        }
        let types = &self.programme.ticket_types;
        if types.iter().all(|ticket_type| self.left(ticket_type).held <= quantity_of(&self.own_holds, &ticket_type.code)) {
            return Some(Closed::new("These are the last", "All others are sold. What you do not buy in time goes back on sale."));
        }
        let text = "What they do not buy comes back on sale, so look again in a minute.";
        Some(Closed { look_again: true, ..Closed::new("All others are in other buyers' baskets", text) })
    }

    /// Why there is no form although tickets are left: those that are left are of types that do not sell at `now`.
    fn types_closed(&self, now: DateTime<Utc>) -> Option<Closed> {
        let left = || self.programme.ticket_types.iter().filter(|ticket_type| self.left(ticket_type).available > 0);
        if left().any(|ticket_type| self.selling(ticket_type, now) == Selling::Open) {
            return None;
        }
        let opens = left().filter_map(|ticket_type| match self.selling(ticket_type, now) {
            Selling::NotYet(opens) => opens,
            _ => None,
        });
        Some(match opens.min() {
            Some(opens) => {
                let text = format!("Further tickets are sold from {}. Come back then.", with_zone(opens, self.programme.event.time_zone));
                Closed::new("Nothing is on sale at this moment", text)
            }
            None => Closed::new("The sale is over", "Tickets are no longer sold here."),
        })
    }

    fn selling(&self, ticket_type: &TicketType, now: DateTime<Utc>) -> Selling {
        ticket_type.selling(self.programme.event.selling(now), now)
    }

    fn rows(&self, basket: &Basket, now: DateTime<Utc>) -> Vec<Row> {
        let types = &self.programme.ticket_types;
        let to_be_had = |ticket_type: &&TicketType| self.left(ticket_type).available > 0 && self.selling(ticket_type, now) == Selling::Open;
        let first = types.iter().find(to_be_had).map(|ticket_type| ticket_type.id);
        types.iter().map(|ticket_type| self.row(ticket_type, basket, first == Some(ticket_type.id), now)).collect()
    }

    fn row(&self, ticket_type: &TicketType, basket: &Basket, is_first: bool, now: DateTime<Utc>) -> Row {
        let event = &self.programme.event;
        let left = self.left(ticket_type);
        let limit = i64::from(event.max_per_order).min(event.max_per_buyer.map_or(i64::MAX, i64::from));
        // The event's own state is told above all rows.
        let window = match self.selling(ticket_type, now) {
            _ if event.selling(now) != Selling::Open => None,
            Selling::NotYet(Some(opens)) => Some(format!("On sale from {}", with_zone(opens, event.time_zone))),
            Selling::Closed => Some("No longer sold".to_owned()),
            _ => None,
        };
        let most = if event.show_counts { limit.min(left.available) } else { limit };
        let least = i64::from(self.programme.ticket_types.len() == 1);
        let chosen = basket.chosen(&ticket_type.code, if is_first { "1" } else { "0" });
        let (pills, more) = if left.available > 0 && window.is_none() { choices(least, most, &chosen) } else { (Vec::new(), None) };
        let stock = window.map(|text| Stock { tone: "gone", text, bar: None }).unwrap_or_else(|| self.stock(ticket_type, left));
        Row {
            price: price(event, ticket_type.price_minor),
            stock,
            error: basket.error(&ticket_type.code),
            code: ticket_type.code.clone(),
            name: ticket_type.name.clone(),
            pills,
            more,
        }
    }

    fn stock(&self, ticket_type: &TicketType, left: Left) -> Stock {
        let stock = |tone, text: &str| Stock { tone, text: text.to_owned(), bar: None };
        match left {
            Left { available: 0, held: 0 } if !self.loaded.contains_key(&ticket_type.code) => stock("gone", "Not on sale yet"),
            Left { available: 0, held: 0 } => stock("gone", "Sold out"),
            Left { available: 0, held } => match quantity_of(&self.own_holds, &ticket_type.code) {
                0 => stock("held", "All in other buyers' baskets"),
                own if own < held => stock("held", "All others in other buyers' baskets"),
                _ => stock("held", "You hold the last ones"),
            },
            _ if !self.programme.event.show_counts => stock("good", "Available"),
            Left { available, .. } => {
                let few = available <= FEW;
                let text = format!("{}{} left", if few { "Only " } else { "" }, number(available));
                let whole = self.loaded.get(&ticket_type.code).copied().unwrap_or(0).max(available);
                Stock { tone: if few { "few" } else { "good" }, text, bar: Some(thousandths(available, whole)) }
            }
        }
    }
}

/// The quantities to press, from `least` to a handful, and the field for more where `most` allows it.
fn choices(least: i64, most: i64, chosen: &str) -> (Vec<Pill>, Option<More>) {
    let last = most.min(least + PILLS_MAX);
    let pill = |value: i64| Pill { value, checked: chosen == value.to_string() };
    let pills: Vec<Pill> = (least..=last).map(pill).collect();
    let is_pressed = pills.iter().any(|pill| pill.checked);
    let has_more = most > last || (!is_pressed && chosen != "0");
    let value = if is_pressed { String::new() } else { chosen.to_owned() };
    let more = has_more.then_some(More { checked: !is_pressed && chosen != "0", value });
    (pills, more)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(least: i64, most: i64, chosen: &str) -> (Vec<i64>, Option<i64>, Option<String>) {
        let (pills, more) = choices(least, most, chosen);
        let pressed = pills.iter().find(|pill| pill.checked).map(|pill| pill.value);
        (pills.iter().map(|pill| pill.value).collect(), pressed, more.map(|more| more.value))
    }

    #[test]
    fn a_handful_is_pressed_and_more_is_typed() {
        assert_eq!(shown(1, 100, "1"), (vec![1, 2, 3, 4, 5], Some(1), Some(String::new())));
        assert_eq!(shown(0, 100, "2"), (vec![0, 1, 2, 3, 4], Some(2), Some(String::new())));
        assert_eq!(shown(0, 2, "2"), (vec![0, 1, 2], Some(2), None));
        assert_eq!(shown(0, 100, "25"), (vec![0, 1, 2, 3, 4], None, Some("25".into())));
    }

    #[test]
    fn what_was_typed_is_kept_even_where_it_cannot_be() {
        assert_eq!(shown(0, 3, "12"), (vec![0, 1, 2, 3], None, Some("12".into())));
        assert_eq!(shown(1, 5, "two"), (vec![1, 2, 3, 4, 5], None, Some("two".into())));
    }
}
