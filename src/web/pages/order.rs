//! The page of one order, for whoever has its link: its tickets, the time that a hold has left, and what its buyer may do with it.

use actix_web::{
    HttpRequest, HttpResponse,
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
    order_changes::{Choices, Line, Said, TicketCard, said_of, which},
    own_holds::{self, remembered},
    page, see_other, tickets,
};
use crate::{
    app::App,
    clock::seconds_until,
    events::{Event, EventState, Programme, rules::parse_slug},
    ids::OrderId,
    orders::{self, Actor, Order, OrderError, OrderStatus, Party, Placed, Reader, rules},
    web::error::{Problem, log},
    when::{When, time_of_day, with_zone},
};

/// The buyer's link to an order, without the host.
pub(super) fn order_path(slug: &str, order: &Order) -> String {
    link(slug, order.id, &order.access_key)
}

fn link(slug: &str, id: OrderId, key: &str) -> String {
    format!("/events/{slug}/orders/{id}?key={key}")
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
    sections: Vec<Section>,
    hold: Option<Hold>,
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

/// One thing that there is to say of the order, above its tickets.
#[derive(Default)]
struct Section {
    tone: &'static str,
    title: String,
    lines: Vec<String>,
    /// It just happened, and is read out.
    is_news: bool,
    /// The words on the button that buys after the deadline.
    again: Option<String>,
    /// The words on the link to the event.
    onward: Option<&'static str>,
}

/// A hold that is not over.
struct Hold {
    seconds: i64,
    clock: String,
    promise: String,
    confirm: String,
    release: &'static str,
    /// The page that says that it is over.
    then: String,
}

/// What the buyer may give back.
struct Cancel {
    until: String,
    choices: Choices,
    /// The form is shown at once: it has just been sent, and refused.
    is_open: bool,
}

/// What happened just before the page is shown.
enum News {
    Nothing,
    /// Tickets were given back.
    Returned,
    /// Nothing came of a form.
    Refused(Said),
}

/// `GET /events/{slug}/orders/{id}?key=…`: an order with its tickets, for whoever has the link.
pub(in crate::web) async fn show(app: Data<App>, path: Path<(String, String)>, query: Query<OrderQuery>) -> Result<HttpResponse, Problem> {
    let (slug, id) = path.into_inner();
    let OrderQuery { key, done } = query.into_inner();
    let news = if done.as_deref() == Some("returned") { News::Returned } else { News::Nothing };
    render(&app, StatusCode::OK, slug, &id, key.unwrap_or_default(), news).await
}

/// `GET` of an address that only takes forms: where the address bar stands when one came back. A browser that holds the order is led back
/// to it; any other to the event, since the address lacks the order's key.
pub(in crate::web) async fn to_order(request: HttpRequest, path: Path<(String, String)>) -> Result<HttpResponse, Problem> {
    let (slug, id) = path.into_inner();
    let slug = parse_slug(&slug).ok_or_else(|| Problem::not_found("There is nothing at this address."))?;
    let held = id.parse().ok().and_then(|id| remembered(&request).into_iter().find(|(held, _)| *held == id));
    Ok(see_other(&held.map_or_else(|| format!("/events/{slug}"), |(id, key)| link(&slug, id, &key))))
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
    match app.desk.confirm(slug.clone(), order_id(&id)?, by_link(&key)).await {
        Ok(changed) => Ok(changed_to(&app, &request, &slug, &changed.placed.order, "")),
        Err(error) => refuse(&app, slug, &id, key, error).await,
    }
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
        return render(&app, StatusCode::UNPROCESSABLE_ENTITY, slug, &id, key, News::Refused(said)).await;
    };
    match app.desk.cancel(slug.clone(), order_id(&id)?, by_link(&key), which).await {
        Ok(changed) => Ok(changed_to(&app, &request, &slug, &changed.placed.order, "&done=returned")),
        Err(error) => refuse(&app, slug, &id, key, error).await,
    }
}

fn by_link(key: &str) -> Party {
    Party { reader: Reader::Link(key.to_owned()), actor: Actor::Buyer }
}

fn order_id(id: &str) -> Result<OrderId, Problem> {
    id.parse().map_err(|_| no_such_order())
}

fn no_such_order() -> Problem {
    Problem::not_found("There is no order at this address. The whole link is needed, up to its last character.")
}

/// Leads to the order as it is now.
fn changed_to(app: &App, request: &HttpRequest, slug: &str, order: &Order, done: &str) -> HttpResponse {
    let mut response = see_other(&format!("{}{done}", order_path(slug, order)));
    if order.status != OrderStatus::Held {
        own_holds::forget(app, request, &mut response, slug, order.id);
    }
    response
}

/// The order's page with why nothing came of a form.
async fn refuse(app: &App, slug: String, id: &str, key: String, error: OrderError) -> Result<HttpResponse, Problem> {
    if matches!(error, OrderError::NotFound | OrderError::EventNotFound(_)) {
        return Err(no_such_order());
    }
    let said = said_of(&error);
    let problem = Problem::from(error);
    let Some(said) = said else { return Err(problem) };
    log(&problem);
    let mut response = render(app, problem.status, slug, id, key, News::Refused(said)).await?;
    if let Some(secs) = problem.retry_after_secs {
        response.headers_mut().insert(header::RETRY_AFTER, secs.into());
    }
    Ok(response)
}

async fn render(app: &App, status: StatusCode, slug: String, id: &str, key: String, news: News) -> Result<HttpResponse, Problem> {
    let id = order_id(id)?;
    let reader = Reader::Link(key);
    let found = app.db.run(move |conn| orders::find(conn, &slug, id, &reader)).await;
    let (programme, placed) = found.map_err(|error| match error {
        OrderError::NotFound | OrderError::EventNotFound(_) => no_such_order(),
        other => other.into(),
    })?;
    page(status, Keep::Nothing, &OrderPage::new(&programme, placed, &app.config.public_url, news, app.clock.now()))
}

impl OrderPage {
    fn new(programme: &Programme, placed: Placed, public_url: &str, news: News, now: DateTime<Utc>) -> Self {
        let Placed { order, tickets, .. } = placed;
        let event = &programme.event;
        let status = order.status_at(now);
        // A hold that is over has no tickets, whether or not they were put back yet.
        let tickets = if status == OrderStatus::Expired { Vec::new() } else { tickets };
        let cards: Vec<TicketCard> = tickets.into_iter().map(|ticket| TicketCard::new(programme, ticket)).collect();
        let path = order_path(&event.slug, &order);
        let takes_place = event.state != EventState::Cancelled;
        let is_refused = matches!(news, News::Refused(_));
        Self {
            title: title(&order, status),
            sections: sections(programme, &order, news, now),
            hold: (status == OrderStatus::Held && event.state != EventState::Cancelled)
                .then(|| Hold::new(event, &order, path.clone(), now)),
            cancel: (status == OrderStatus::Sold).then(|| Cancel::of(event, &cards, is_refused, now)).flatten(),
            link: (status == OrderStatus::Sold && takes_place).then(|| format!("{public_url}{path}")),
            tickets: worth_a_card(cards, status),
            lines: order.lines.iter().map(|line| Line::new(programme, line)).collect(),
            total: event.money(order.total_minor).to_string(),
            made: (if order.expires_at.is_some() { "Reserved" } else { "Bought" }, with_zone(order.created_at, event.time_zone)),
            number: order.id.to_string(),
            path: format!("/events/{}/orders/{}", event.slug, order.id),
            key: order.access_key,
            buyer_name: order.buyer_name,
            buyer_email: order.buyer_email,
            when: event.starts_at.map(|moment| When::new(moment, event.time_zone)),
            slug: event.slug.clone(),
            event: event.name.clone(),
            venue: event.venue.clone(),
        }
    }
}

/// Held tickets have no codes, and without seats their cards would say nothing that the sum does not.
fn worth_a_card(cards: Vec<TicketCard>, status: OrderStatus) -> Vec<TicketCard> {
    let has_seats = cards.iter().any(|card| !card.place.is_empty());
    if status == OrderStatus::Held && !has_seats { Vec::new() } else { cards }
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

/// All that there is to say of an order besides what it is, the newest first.
fn sections(programme: &Programme, order: &Order, news: News, now: DateTime<Utc>) -> Vec<Section> {
    let status = order.status_at(now);
    let is_over = matches!(status, OrderStatus::Cancelled | OrderStatus::Expired);
    let returned = matches!(news, News::Returned);
    let refused = match news {
        News::Refused(said) => Some(Section::refused(said, programme, order, status)),
        News::Nothing | News::Returned => None,
    };
    let over = (is_over && refused.is_none()).then(|| Section::over(programme, order, status, returned, now));
    // A form that was refused for that reason has said so.
    let off = Section::of_cancelled_event(&programme.event, status)
        .filter(|off| refused.as_ref().is_none_or(|refused| refused.title != off.title));
    let mut sections: Vec<Section> = refused.into_iter().chain(off).chain(over).collect();
    if !is_over {
        sections.extend(Section::of_returned(order, returned));
        sections.extend(Section::of_fewer(order));
    }
    sections
}

impl Section {
    fn new(tone: &'static str, line: impl Into<String>) -> Self {
        Self { tone, lines: vec![line.into()], ..Self::default() }
    }

    /// Why nothing came of a form, and what can be done now if the order is over.
    fn refused(said: Said, programme: &Programme, order: &Order, status: OrderStatus) -> Self {
        let again = (said.again && status == OrderStatus::Expired).then(|| button_of(&programme.event, order));
        let onward = (again.is_none() && matches!(status, OrderStatus::Cancelled | OrderStatus::Expired)).then_some("See what is left");
        Self { title: said.title, is_news: true, again, onward, ..Self::new(said.tone, said.text) }
    }

    /// What became of an order that is over.
    fn over(programme: &Programme, order: &Order, status: OrderStatus, returned: bool, now: DateTime<Utc>) -> Self {
        let takes_place = programme.event.state != EventState::Cancelled;
        let sells = rules::may_sell(programme, order.lines.iter().map(|line| line.ticket_type.as_str()), now).is_ok();
        let onward = if sells { "See what is left" } else { "Back to the event" };
        if status == OrderStatus::Cancelled {
            let text = if sells {
                "Its tickets are on sale again, and no longer valid. Nothing is owed for them."
            } else {
                "Its tickets are no longer valid. Nothing is owed for them."
            };
            let tone = if returned { "good" } else { "info" };
            return Self { is_news: returned, onward: Some(onward), ..Self::new(tone, text) };
        }
        if !takes_place {
            return Self { onward: Some(onward), ..Self::new("warn", "What was kept for you was given up. Nothing has been bought.") };
        }
        let mut section = Self::new("warn", "What was kept for you went back on sale. Nothing has been bought.");
        if !sells {
            section.lines.push("It is not sold at this moment.".to_owned());
            return Self { onward: Some(onward), ..section };
        }
        section.lines.push(
            "You can still try. What others took is replaced with tickets of the same kind and price, while there are any.".to_owned(),
        );
        Self { again: Some(button_of(&programme.event, order)), onward: Some(onward), ..section }
    }

    fn of_cancelled_event(event: &Event, status: OrderStatus) -> Option<Self> {
        let text =
            if status == OrderStatus::Held { "It will not take place, and nothing has been bought." } else { "It will not take place." };
        (event.state == EventState::Cancelled).then(|| Self { title: "This event is cancelled".to_owned(), ..Self::new("bad", text) })
    }

    fn of_returned(order: &Order, is_news: bool) -> Option<Self> {
        let text = match order.cancelled_quantity {
            0 => return None,
            1 => "One ticket of this order was given back, and is no longer valid.".to_owned(),
            given_back => format!("{} of this order were given back, and are no longer valid.", tickets(given_back.into())),
        };
        Some(Self { is_news, ..Self::new(if is_news { "good" } else { "info" }, text) })
    }

    fn of_fewer(order: &Order) -> Option<Self> {
        let got = order.quantity + order.cancelled_quantity;
        let asked = number(order.requested_quantity.into());
        let text = || format!("You asked for {asked}; {} left, and you took them.", counted(got.into(), "was", "were"));
        (got < order.requested_quantity).then(|| Self::new("info", text()))
    }
}

/// `Buy 2 tickets for €90.00`.
fn button_of(event: &Event, order: &Order) -> String {
    let count = tickets(order.quantity.into());
    if order.total_minor == 0 { format!("Take {count} for free") } else { format!("Buy {count} for {}", event.money(order.total_minor)) }
}

impl Hold {
    fn new(event: &Event, order: &Order, then: String, now: DateTime<Utc>) -> Self {
        let deadline = order.expires_at.unwrap_or(now);
        let (seconds, until) = (seconds_until(deadline, now), time_of_day(deadline, event.time_zone));
        let is_one = order.quantity == 1;
        Self {
            seconds,
            clock: format!("{}:{:02}", seconds / 60, seconds % 60),
            promise: if is_one {
                format!("Nobody else can take this ticket until {until}. Then it goes back on sale.")
            } else {
                format!("Nobody else can take these tickets until {until}. Then they go back on sale.")
            },
            confirm: button_of(event, order),
            release: if is_one { "Give it back" } else { "Give them back" },
            then,
        }
    }
}

impl Cancel {
    /// `None` if the buyer may not, or nothing is left that could be.
    fn of(event: &Event, cards: &[TicketCard], is_open: bool, now: DateTime<Utc>) -> Option<Self> {
        rules::may_cancel(event, true, now).ok()?;
        let until = with_zone(event.buyers_cancel_until?, event.time_zone);
        Some(Self { until, choices: Choices::of(cards)?, is_open })
    }
}
