//! The page of one order, for whoever has its link: its tickets, the time that a hold has left, and what its buyer may do with it.

use actix_web::{
    HttpRequest, HttpResponse,
    cookie::{Cookie, SameSite, time::Duration as CookieDuration},
    http::{StatusCode, header},
    web::{Data, Path, Payload, Query},
};
use askama::Template;
use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::{
    Keep, counted,
    form::Form,
    number,
    order_changes::{positions, said_of},
    page, see_other, tickets,
    time::{When, time_of_day, with_zone},
};
use crate::{
    app::App,
    clock::seconds_until,
    events::{Event, Programme, rules::parse_slug},
    ids::OrderId,
    inventory::{Place, Ticket},
    orders::{self, Actor, Order, OrderError, OrderLine, OrderStatus, Party, Placed, Reader, Which, rules},
    web::error::{Problem, log},
};

/// Name of the cookie by which a browser finds its hold again.
const HOLD_COOKIE: &str = "boxoffice_hold";

/// The buyer's link to an order, without the host.
pub(super) fn order_path(slug: &str, order: &Order) -> String {
    format!("/events/{slug}/orders/{}?key={}", order.id, order.access_key)
}

/// Lets the browser find a hold again from the event's page.
pub(super) fn remember(app: &App, response: &mut HttpResponse, slug: &str, order: &Order) {
    let left = order.expires_at.map_or(0, |until| seconds_until(until, app.clock.now()));
    let value = format!("{}.{}", order.id, order.access_key);
    set_cookie(response, hold_cookie(app, slug, value, CookieDuration::seconds(left)));
}

fn forget(app: &App, response: &mut HttpResponse, slug: &str) {
    set_cookie(response, hold_cookie(app, slug, String::new(), CookieDuration::ZERO));
}

fn set_cookie(response: &mut HttpResponse, cookie: Cookie<'_>) {
    if let Err(error) = response.add_cookie(&cookie) {
        // Without it Back finds the hold by the form's key all the same.
        tracing::error!(%error, "a cookie could not be set");
    }
}

fn hold_cookie(app: &App, slug: &str, value: String, max_age: CookieDuration) -> Cookie<'static> {
    Cookie::build(HOLD_COOKIE, value)
        .path(format!("/events/{slug}"))
        .http_only(true)
        .same_site(SameSite::Lax)
        .secure(app.config.secure_cookies)
        .max_age(max_age)
        .finish()
}

/// The hold that the browser made last, with the key of its link.
pub(super) fn remembered(request: &HttpRequest) -> Option<(OrderId, String)> {
    let cookie = request.cookie(HOLD_COOKIE)?;
    let (id, key) = cookie.value().split_once('.')?;
    Some((id.parse().ok()?, key.to_owned()))
}

#[derive(Deserialize)]
pub(in crate::web) struct OrderQuery {
    key: Option<String>,
    done: Option<String>,
}

#[derive(Template)]
#[template(path = "order.html")]
struct OrderPage {
    title: String,
    slug: String,
    event: String,
    when: Option<When>,
    venue: Option<String>,
    notice: Option<Said>,
    hold: Option<Hold>,
    again: Option<String>,
    status: Option<String>,
    fewer: String,
    tickets: Vec<TicketCard>,
    lines: Vec<Line>,
    total: String,
    buyer_name: String,
    buyer_email: String,
    number: String,
    made: (&'static str, String),
    path: String,
    key: String,
    link: Option<String>,
    cancel: Option<Cancel>,
}

/// What came of the form that was sent.
pub(super) struct Said {
    pub(super) tone: &'static str,
    pub(super) title: String,
    pub(super) text: String,
}

/// A hold that is not over.
struct Hold {
    seconds: i64,
    clock: String,
    until: String,
    button: String,
}

/// What the buyer may give back.
struct Cancel {
    until: String,
    choices: Vec<(i32, String)>,
}

pub(super) struct TicketCard {
    pub(super) position: i32,
    pub(super) ticket_type: String,
    pub(super) place: Vec<(&'static str, String)>,
    pub(super) code: String,
    pub(super) used: Option<String>,
}

pub(super) struct Line {
    pub(super) name: String,
    pub(super) quantity: String,
    pub(super) unit: String,
    pub(super) sum: String,
}

/// `GET /events/{slug}/orders/{id}?key=…`: an order with its tickets, for whoever has the link.
pub(in crate::web) async fn show(app: Data<App>, path: Path<(String, String)>, query: Query<OrderQuery>) -> Result<HttpResponse, Problem> {
    let (slug, id) = path.into_inner();
    let OrderQuery { key, done } = query.into_inner();
    let notice = match done.as_deref() {
        Some("returned") => Some(Said::new("good", "Given back", "The tickets that you gave back are no longer valid.")),
        _ => None,
    };
    render(&app, StatusCode::OK, slug, &id, key.unwrap_or_default(), notice).await
}

/// `GET` of an address that only takes forms: where the address bar stands when one came back.
pub(in crate::web) async fn to_event(path: Path<(String, String)>) -> Result<HttpResponse, Problem> {
    let slug = parse_slug(&path.0).ok_or_else(|| Problem::not_found("There is nothing at this address."))?;
    Ok(see_other(&format!("/events/{slug}")))
}

/// `POST /events/{slug}/orders/{id}/confirm`: the buyer takes what is held.
pub(in crate::web) async fn confirm(
    app: Data<App>,
    request: HttpRequest,
    path: Path<(String, String)>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let form = Form::read(&app, &request, payload).await?;
    let (slug, id) = path.into_inner();
    let key = form.text("key").to_owned();
    let changed = app.desk.confirm(slug.clone(), order_id(&id)?, by_link(&key)).await;
    after(&app, changed, slug, id, key, "").await
}

/// `POST /events/{slug}/orders/{id}/cancel`: the buyer gives all tickets back, or those that are ticked.
pub(in crate::web) async fn cancel(
    app: Data<App>,
    request: HttpRequest,
    path: Path<(String, String)>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let form = Form::read(&app, &request, payload).await?;
    let (slug, id) = path.into_inner();
    let key = form.text("key").to_owned();
    let Some(which) = which(&form) else {
        let said = Said::new("bad", "Nothing was given back", "Tick the tickets that you want to give back.");
        return render(&app, StatusCode::UNPROCESSABLE_ENTITY, slug, &id, key, Some(said)).await;
    };
    let changed = app.desk.cancel(slug.clone(), order_id(&id)?, by_link(&key), which).await;
    after(&app, changed, slug, id, key, "&done=returned").await
}

/// Which tickets a form gives back; `None` if it lets choose and nothing is ticked.
pub(super) fn which(form: &Form) -> Option<Which> {
    if form.ticked("all") {
        return Some(Which::All);
    }
    Some(positions(form)).filter(|positions| !positions.is_empty()).map(Which::These)
}

fn by_link(key: &str) -> Party {
    Party { reader: Reader::Link(key.to_owned()), actor: Actor::Buyer }
}

fn order_id(id: &str) -> Result<OrderId, Problem> {
    id.parse().map_err(|_| no_such_order())
}

/// What follows a form: the order as it is now, or the same page with why nothing came of it.
async fn after(
    app: &App,
    changed: Result<orders::Changed, OrderError>,
    slug: String,
    id: String,
    key: String,
    done: &str,
) -> Result<HttpResponse, Problem> {
    let error = match changed {
        Ok(changed) => {
            let mut response = see_other(&format!("{}{done}", order_path(&slug, &changed.placed.order)));
            forget(app, &mut response, &slug);
            return Ok(response);
        }
        Err(OrderError::NotFound | OrderError::EventNotFound(_)) => return Err(no_such_order()),
        Err(error) => error,
    };
    let said = said_of(&error);
    let problem = Problem::from(error);
    let Some(said) = said else { return Err(problem) };
    log(&problem);
    let mut response = render(app, problem.status, slug, &id, key, Some(said)).await?;
    if let Some(secs) = problem.retry_after_secs {
        response.headers_mut().insert(header::RETRY_AFTER, secs.into());
    }
    Ok(response)
}

async fn render(app: &App, status: StatusCode, slug: String, id: &str, key: String, notice: Option<Said>) -> Result<HttpResponse, Problem> {
    let id = order_id(id)?;
    let reader = Reader::Link(key);
    let found = app.db.run(move |conn| orders::find(conn, &slug, id, &reader)).await;
    let (programme, placed) = found.map_err(|error| match error {
        OrderError::NotFound | OrderError::EventNotFound(_) => no_such_order(),
        other => other.into(),
    })?;
    let link = format!("{}{}", app.config.public_url, order_path(&programme.event.slug, &placed.order));
    page(status, Keep::Nothing, &OrderPage::new(programme, placed, link, notice, app.clock.now()))
}

fn no_such_order() -> Problem {
    Problem::not_found("There is no order at this address. The whole link is needed, up to its last character.")
}

impl Said {
    pub(super) fn new(tone: &'static str, title: impl Into<String>, text: impl Into<String>) -> Self {
        Self { tone, title: title.into(), text: text.into() }
    }
}

impl OrderPage {
    fn new(programme: Programme, placed: Placed, link: String, notice: Option<Said>, now: DateTime<Utc>) -> Self {
        let Placed { order, tickets, .. } = placed;
        let zone = programme.event.time_zone;
        let status = order.status_at(now);
        // A hold that is over has no tickets, whether or not they were put back yet.
        let tickets = if status == OrderStatus::Expired { Vec::new() } else { tickets };
        let cards: Vec<TicketCard> = tickets.into_iter().map(|ticket| TicketCard::new(&programme, ticket)).collect();
        Self {
            title: title(&order, status),
            hold: (status == OrderStatus::Held).then(|| Hold::new(&programme.event, &order, now)),
            again: (status == OrderStatus::Expired && notice.is_none()).then(|| button_of(&programme.event, &order)),
            cancel: (status == OrderStatus::Sold).then(|| Cancel::of(&programme.event, &cards, now)).flatten(),
            link: (status == OrderStatus::Sold).then_some(link),
            status: status_text(status, order.cancelled_quantity),
            fewer: fewer(&order, status),
            tickets: cards,
            lines: order.lines.iter().map(|line| Line::new(&programme, line)).collect(),
            total: programme.event.money(order.total_minor).to_string(),
            made: (if order.expires_at.is_some() { "Reserved" } else { "Bought" }, with_zone(order.created_at, zone)),
            number: order.id.to_string(),
            path: format!("/events/{}/orders/{}", programme.event.slug, order.id),
            key: order.access_key,
            buyer_name: order.buyer_name,
            buyer_email: order.buyer_email,
            when: programme.event.starts_at.map(|moment| When::new(moment, zone)),
            slug: programme.event.slug,
            event: programme.event.name,
            venue: programme.event.venue,
            notice,
        }
    }
}

fn title(order: &Order, status: OrderStatus) -> String {
    let count = tickets(order.quantity.into());
    match status {
        OrderStatus::Sold => format!("You have {count}"),
        OrderStatus::Held => format!("{count} held for you"),
        OrderStatus::Cancelled if order.expires_at.is_some() => "This order was given back".to_owned(),
        OrderStatus::Cancelled => "This order was cancelled".to_owned(),
        OrderStatus::Expired => "Your time ran out".to_owned(),
    }
}

/// What else there is to say of an order that is over, or of which a part is.
fn status_text(status: OrderStatus, cancelled_quantity: i32) -> Option<String> {
    match (status, cancelled_quantity) {
        (OrderStatus::Held, _) | (OrderStatus::Sold, 0) => None,
        (OrderStatus::Sold, 1) => Some("One ticket of this order was given back, and is no longer valid.".to_owned()),
        (OrderStatus::Sold, given_back) => {
            Some(format!("{} of this order were given back, and are no longer valid.", tickets(given_back.into())))
        }
        (OrderStatus::Cancelled, _) => Some("Its tickets went back on sale and are no longer valid. Nothing is owed for them.".to_owned()),
        (OrderStatus::Expired, _) => {
            Some("The tickets were kept for you until then, and went back on sale. Nothing has been bought.".to_owned())
        }
    }
}

fn fewer(order: &Order, status: OrderStatus) -> String {
    let got = order.quantity + order.cancelled_quantity;
    if got >= order.requested_quantity || !matches!(status, OrderStatus::Held | OrderStatus::Sold) {
        return String::new();
    }
    let asked = number(order.requested_quantity.into());
    format!("You asked for {asked}; {} left, and you took them.", counted(got.into(), "was", "were"))
}

/// `Buy 2 tickets for €90.00`.
fn button_of(event: &Event, order: &Order) -> String {
    format!("Buy {} for {}", tickets(order.quantity.into()), event.money(order.total_minor))
}

impl Hold {
    fn new(event: &Event, order: &Order, now: DateTime<Utc>) -> Self {
        let until = order.expires_at.unwrap_or(now);
        let seconds = seconds_until(until, now);
        Self {
            seconds,
            clock: format!("{}:{:02}", seconds / 60, seconds % 60),
            until: time_of_day(until, event.time_zone),
            button: button_of(event, order),
        }
    }
}

impl Cancel {
    /// `None` if the buyer may not, or nothing is left that could be.
    fn of(event: &Event, cards: &[TicketCard], now: DateTime<Utc>) -> Option<Self> {
        rules::may_cancel(event, true, now).ok()?;
        let choices = choices(cards);
        let until = with_zone(event.buyers_cancel_until?, event.time_zone);
        (!choices.is_empty()).then_some(Self { until, choices })
    }
}

/// The tickets that could be given back, by position, each with the words beside its box.
pub(super) fn choices(cards: &[TicketCard]) -> Vec<(i32, String)> {
    let words = |card: &TicketCard| {
        let place: Vec<String> = card.place.iter().map(|(label, value)| format!("{label} {value}")).collect();
        let parts = [card.ticket_type.clone(), place.join(", "), card.code.clone()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
    };
    cards.iter().filter(|card| card.used.is_none()).map(|card| (card.position, words(card))).collect()
}

impl TicketCard {
    pub(super) fn new(programme: &Programme, ticket: Ticket) -> Self {
        let ticket_type = programme.ticket_types.iter().find(|ticket_type| ticket_type.id == ticket.ticket_type);
        let Place { section, row, seat } = ticket.place;
        let place = [("Section", section), ("Row", row), ("Seat", seat)];
        Self {
            position: ticket.position,
            ticket_type: ticket_type.map(|ticket_type| ticket_type.name.clone()).unwrap_or_default(),
            place: place.into_iter().filter_map(|(label, value)| Some((label, value?))).collect(),
            code: ticket.code.unwrap_or_default(),
            used: ticket.used_at.map(|at| When::new(at, programme.event.time_zone).text),
        }
    }
}

impl Line {
    pub(super) fn new(programme: &Programme, line: &OrderLine) -> Self {
        let money = |minor: i64| programme.event.money(minor).to_string();
        Self {
            name: line.name.clone(),
            quantity: number(line.quantity),
            unit: money(line.unit_price_minor),
            sum: money(line.quantity.saturating_mul(line.unit_price_minor)),
        }
    }
}
