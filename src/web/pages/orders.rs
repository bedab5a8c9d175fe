//! Buying, and the order that comes of it.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
    web::{Data, Path, Payload, Query},
};
use askama::Template;
use serde::Deserialize;

use super::{
    Keep,
    basket::Basket,
    counted, events,
    form::Form,
    number, page,
    refusal::{self, Offer},
    see_other, tickets,
    time::{When, with_zone},
};
use crate::{
    app::App,
    events::{Programme, rules::parse_slug},
    ids::OrderId,
    inventory::{Place, Ticket},
    orders::{self, Order, OrderError, OrderLine, OrderStatus, Placed, Reader},
    web::error::{Problem, log},
};

/// `POST /events/{slug}/orders`: buys, and shows the order; or the form again, with what was in the way.
pub(in crate::web) async fn create(
    app: Data<App>,
    request: HttpRequest,
    slug: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let basket = Basket::of(&Form::read(&app, &request, payload).await?);
    match buy(&app, &slug, &basket).await {
        Ok(placed) => Ok(see_other(&order_path(&slug, &placed.order))),
        Err(refusal) => refuse(&app, &slug, basket, refusal).await,
    }
}

/// `GET /events/{slug}/orders`: where the browser's address bar stands when a form came back. A refresh leads to the event.
pub(in crate::web) async fn to_event(slug: Path<String>) -> Result<HttpResponse, Problem> {
    let slug = parse_slug(&slug).ok_or_else(|| Problem::not_found("There is nothing at this address."))?;
    Ok(see_other(&format!("/events/{slug}")))
}

/// The buyer's link to an order, without the host.
pub(super) fn order_path(slug: &str, order: &Order) -> String {
    format!("/events/{slug}/orders/{}?key={}", order.id, order.access_key)
}

async fn buy(app: &App, slug: &str, basket: &Basket) -> Result<Placed, OrderError> {
    let request = basket.request().map_err(OrderError::Invalid)?;
    app.desk.sell(slug.to_owned(), request).await
}

/// The page that says why there is no order, and what to do.
async fn refuse(app: &App, slug: &str, mut basket: Basket, error: OrderError) -> Result<HttpResponse, Problem> {
    if matches!(error, OrderError::Db(_) | OrderError::KeyInProgress) {
        return try_again(slug, &basket, error.into());
    }
    let stall = match events::stall(app, slug).await {
        Err(problem) => return try_again(slug, &basket, problem),
        Ok(stall) => stall,
    };
    let notice = refusal::notice(&stall.programme, &mut basket, &error);
    let problem = Problem::from(error);
    log(&problem);
    // The sale's state is said in place of the form.
    let notice = notice.filter(|_| problem.code != "sales_not_open" && problem.code != "sales_closed");
    let response = events::render(problem.status, &stall, app.clock.now(), basket, notice)?;
    Ok(with_retry_after(response, &problem))
}

fn with_retry_after(mut response: HttpResponse, problem: &Problem) -> HttpResponse {
    if let Some(secs) = problem.retry_after_secs {
        response.headers_mut().insert(header::RETRY_AFTER, secs.into());
    }
    response
}

#[derive(Template)]
#[template(path = "retry.html")]
struct RetryPage<'a> {
    slug: &'a str,
    title: &'static str,
    text: &'static str,
    offer: Offer,
}

/// The page that sends the same form again, under the same key; it needs no database. Any other failure is passed on.
fn try_again(slug: &str, basket: &Basket, problem: Problem) -> Result<HttpResponse, Problem> {
    let (title, text) = match problem.code {
        "idempotency_in_progress" => ("Your order is on its way", "It was sent twice, and the first is still being worked on."),
        "busy" => ("Very busy just now", "Many people are buying at this moment, and your turn did not come in time."),
        "unavailable" => ("The box office is away for a moment", "It may or may not have received your order."),
        _ => return Err(problem),
    };
    log(&problem);
    let offer = Offer { button: "Try again".to_owned(), fields: basket.fields() };
    let response = page(problem.status, Keep::Nothing, &RetryPage { slug, title, text, offer })?;
    Ok(with_retry_after(response, &problem))
}

#[derive(Deserialize)]
pub(in crate::web) struct OrderQuery {
    key: Option<String>,
}

#[derive(Template)]
#[template(path = "order.html")]
struct OrderPage {
    title: String,
    slug: String,
    event: String,
    when: Option<When>,
    venue: Option<String>,
    status: Option<String>,
    fewer: String,
    tickets: Vec<TicketCard>,
    lines: Vec<Line>,
    total: String,
    buyer_name: String,
    buyer_email: String,
    number: String,
    bought: String,
    link: String,
}

struct TicketCard {
    ticket_type: String,
    place: Vec<(&'static str, String)>,
    code: String,
}

struct Line {
    name: String,
    quantity: String,
    unit: String,
    sum: String,
}

/// `GET /events/{slug}/orders/{id}?key=…`: an order with its tickets, for whoever has the link.
pub(in crate::web) async fn show(app: Data<App>, path: Path<(String, String)>, query: Query<OrderQuery>) -> Result<HttpResponse, Problem> {
    let (slug, id) = path.into_inner();
    let id: OrderId = id.parse().map_err(|_| no_such_order())?;
    let reader = Reader::Link(query.into_inner().key.unwrap_or_default());
    let found = app.db.run(move |conn| orders::find(conn, &slug, id, &reader)).await;
    let (programme, placed) = found.map_err(|error| match error {
        OrderError::NotFound | OrderError::EventNotFound(_) => no_such_order(),
        other => other.into(),
    })?;
    let link = format!("{}{}", app.config.public_url, order_path(&programme.event.slug, &placed.order));
    page(StatusCode::OK, Keep::Nothing, &OrderPage::new(programme, placed, link))
}

fn no_such_order() -> Problem {
    Problem::not_found("There is no order at this address. The whole link is needed, up to its last character.")
}

impl OrderPage {
    fn new(programme: Programme, placed: Placed, link: String) -> Self {
        let Placed { order, tickets, .. } = placed;
        let zone = programme.event.time_zone;
        Self {
            title: title(&order),
            status: status(&order, &programme),
            fewer: fewer(&order),
            tickets: tickets.into_iter().map(|ticket| TicketCard::new(&programme, ticket)).collect(),
            lines: order.lines.iter().map(|line| Line::new(&programme, line)).collect(),
            total: programme.event.money(order.total_minor).to_string(),
            bought: with_zone(order.created_at, zone),
            number: order.id.to_string(),
            buyer_name: order.buyer_name,
            buyer_email: order.buyer_email,
            when: programme.event.starts_at.map(|moment| When::new(moment, zone)),
            slug: programme.event.slug,
            event: programme.event.name,
            venue: programme.event.venue,
            link,
        }
    }
}

fn title(order: &Order) -> String {
    let count = tickets(order.quantity.into());
    match order.status {
        OrderStatus::Sold => format!("You have {count}"),
        OrderStatus::Held => format!("{count} held for you"),
        OrderStatus::Cancelled => "This order was cancelled".to_owned(),
        OrderStatus::Expired => "This order has expired".to_owned(),
    }
}

/// What else there is to say of an order that is not simply sold.
fn status(order: &Order, programme: &Programme) -> Option<String> {
    let deadline = order.expires_at.map(|moment| with_zone(moment, programme.event.time_zone));
    match (order.status, deadline) {
        (OrderStatus::Sold, _) => None,
        (OrderStatus::Held, Some(deadline)) => {
            Some(format!("The tickets are kept for you until {deadline}, and are yours once they are paid."))
        }
        (OrderStatus::Held, None) => Some("The tickets are kept for you, and are yours once they are paid.".to_owned()),
        (OrderStatus::Cancelled, _) => Some("Its tickets went back on sale and are no longer valid.".to_owned()),
        (OrderStatus::Expired, _) => Some("The time to buy the tickets that were held ran out, and they went back on sale.".to_owned()),
    }
}

fn fewer(order: &Order) -> String {
    if order.quantity >= order.requested_quantity {
        return String::new();
    }
    let asked = number(order.requested_quantity.into());
    format!("You asked for {asked}; {} left, and you took them.", counted(order.quantity.into(), "was", "were"))
}

impl TicketCard {
    fn new(programme: &Programme, ticket: Ticket) -> Self {
        let ticket_type = programme.ticket_types.iter().find(|ticket_type| ticket_type.id == ticket.ticket_type);
        let Place { section, row, seat } = ticket.place;
        let place = [("Section", section), ("Row", row), ("Seat", seat)];
        Self {
            ticket_type: ticket_type.map(|ticket_type| ticket_type.name.clone()).unwrap_or_default(),
            place: place.into_iter().filter_map(|(label, value)| Some((label, value?))).collect(),
            code: ticket.code.unwrap_or_default(),
        }
    }
}

impl Line {
    fn new(programme: &Programme, line: &OrderLine) -> Self {
        let money = |minor: i64| programme.event.money(minor).to_string();
        Self {
            name: line.name.clone(),
            quantity: number(line.quantity),
            unit: money(line.unit_price_minor),
            sum: money(line.quantity.saturating_mul(line.unit_price_minor)),
        }
    }
}
