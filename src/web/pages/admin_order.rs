//! The page of one order for admins: what it is, what happened to it, and the form that gives its tickets back.

use actix_web::{
    HttpRequest, HttpResponse,
    http::StatusCode,
    web::{Data, Path, Payload, Query},
};
use askama::Template;
use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use serde::Deserialize;

use super::{
    Keep,
    dashboard::order_tone,
    login::{self, Frame},
    order::order_path,
    order_changes::{Choices, Line, Said, TicketCard, said_of, which},
    page, see_other, tickets,
};
use crate::{
    accounts::{self, AdminSession},
    app::App,
    events::{Programme, rules::parse_slug},
    ids::OrderId,
    orders::{self, Actor, Caller, HistoryEntry, Order, OrderChange, OrderError, OrderStatus, Party, Placed, Reader, What},
    web::error::{Problem, log},
    when::{to_the_second, with_zone},
};

#[derive(Template)]
#[template(path = "admin/order.html")]
struct OrderPage {
    frame: Frame,
    slug: String,
    event: String,
    id: String,
    title: String,
    zone: &'static str,
    status: &'static str,
    tone: &'static str,
    notice: Option<Said>,
    tickets: Vec<TicketCard>,
    lines: Vec<Line>,
    total: String,
    facts: Vec<(&'static str, String)>,
    history: Vec<Entry>,
    buyers_page: String,
    cancel: Option<Cancel>,
}

/// One line of the history.
struct Entry {
    when: String,
    what: &'static str,
    who: String,
    tickets: String,
}

struct Cancel {
    button: &'static str,
    choices: Choices,
}

#[derive(Deserialize)]
pub(in crate::web) struct DoneQuery {
    done: Option<String>,
}

/// `GET /admin/events/{slug}/orders/{id}`.
pub(in crate::web) async fn show(
    app: Data<App>,
    request: HttpRequest,
    path: Path<(String, String)>,
    query: Query<DoneQuery>,
) -> Result<HttpResponse, Problem> {
    let session = match login::admin(&app, &request).await? {
        Ok(session) => session,
        Err(to_login) => return Ok(to_login),
    };
    let notice = match query.into_inner().done.as_deref() {
        Some("cancelled") => Some(Said::new("good", "Given back", "The tickets are back in the stock.")),
        _ => None,
    };
    let (slug, id) = path.into_inner();
    render(&app, &session, StatusCode::OK, slug, &id, notice).await
}

/// `GET` of the address that only takes the form: where the address bar stands when it came back.
pub(in crate::web) async fn to_order(path: Path<(String, String)>) -> Result<HttpResponse, Problem> {
    let (slug, id) = path.into_inner();
    let slug = parse_slug(&slug).ok_or_else(|| Problem::not_found("There is nothing at this address."))?;
    Ok(see_other(&format!("/admin/events/{slug}/orders/{}", order_id(&id)?)))
}

/// `POST /admin/events/{slug}/orders/{id}/cancel`: gives the tickets back that are ticked, or all.
pub(in crate::web) async fn cancel(
    app: Data<App>,
    request: HttpRequest,
    path: Path<(String, String)>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let (session, form) = match login::admin_form(&app, &request, payload).await? {
        Ok(sent) => sent,
        Err(to_login) => return Ok(to_login),
    };
    let (slug, id) = path.into_inner();
    let Some(which) = which(&form) else {
        let said = Said::new("bad", "Nothing was given back", "Tick the tickets that are to be given back.");
        return render(&app, &session, StatusCode::UNPROCESSABLE_ENTITY, slug, &id, Some(said)).await;
    };
    let party = Party { reader: Reader::Admin, actor: Actor::Admin(session.email.clone()) };
    let error = match app.desk.cancel(slug.clone(), order_id(&id)?, party, which).await {
        Ok(_) => return Ok(see_other(&format!("/admin/events/{slug}/orders/{id}?done=cancelled"))),
        Err(error) => error,
    };
    let said = said_of(&error);
    let problem = Problem::from(error);
    let Some(said) = said else { return Err(problem) };
    log(&problem);
    render(&app, &session, problem.status, slug, &id, Some(said)).await
}

fn order_id(id: &str) -> Result<OrderId, Problem> {
    id.parse().map_err(|_| Problem::not_found("There is no such order."))
}

async fn render(
    app: &App,
    session: &AdminSession,
    status: StatusCode,
    slug: String,
    id: &str,
    notice: Option<Said>,
) -> Result<HttpResponse, Problem> {
    let (now, id) = (app.clock.now(), order_id(id)?);
    let (programme, placed, entries) = app
        .db
        .run(move |conn| {
            let (programme, placed) = orders::find(conn, &slug, id, &Reader::Admin)?;
            let mut entries = orders::history(conn, programme.event.id, &placed.order)?;
            if let (Caller::Partner(partner), Some(making)) = (placed.order.caller, entries.first_mut()) {
                making.actor = accounts::partner_name(conn, partner)?.map(Actor::Partner);
            }
            Ok::<_, OrderError>((programme, placed, entries))
        })
        .await?;
    page(status, Keep::Nothing, &OrderPage::new(session, programme, placed, entries, notice, now))
}

impl OrderPage {
    fn new(
        session: &AdminSession,
        programme: Programme,
        placed: Placed,
        entries: Vec<HistoryEntry>,
        notice: Option<Said>,
        now: DateTime<Utc>,
    ) -> Self {
        let Placed { order, tickets, .. } = placed;
        let (status, zone) = (order.status_at(now), programme.event.time_zone);
        // A hold that is over has no tickets, whether or not they were put back yet.
        let tickets = if status == OrderStatus::Expired { Vec::new() } else { tickets };
        let cards: Vec<TicketCard> = tickets.into_iter().map(|ticket| TicketCard::new(&programme, ticket)).collect();
        Self {
            frame: session.into(),
            title: format!("{} for {}", super::tickets(order.quantity.into()), order.buyer_name),
            status: status.name(),
            tone: order_tone(status),
            notice,
            cancel: Cancel::of(status, &cards, programme.event.has_begun(now)),
            tickets: cards,
            lines: order.lines.iter().map(|line| Line::new(&programme, line)).collect(),
            total: programme.event.money(order.total_minor).to_string(),
            facts: facts(&order, status, zone),
            history: entries.into_iter().map(|entry| Entry::new(entry, zone)).collect(),
            zone: zone.name(),
            buyers_page: order_path(&programme.event.slug, &order),
            id: order.id.to_string(),
            slug: programme.event.slug,
            event: programme.event.name,
        }
    }
}

fn facts(order: &Order, status: OrderStatus, zone: Tz) -> Vec<(&'static str, String)> {
    let through = if order.caller == Caller::Web { "the page" } else { "the API" };
    let deadline = match status {
        OrderStatus::Held => Some("Held until"),
        OrderStatus::Expired => Some("Ran out"),
        OrderStatus::Sold | OrderStatus::Cancelled => None,
    };
    let deadline = deadline.zip(order.expires_at).map(|(label, until)| (label, with_zone(until, zone)));
    let facts = [
        ("Buyer", order.buyer_name.clone()),
        ("E-mail", order.buyer_email.clone()),
        ("Made", with_zone(order.created_at, zone)),
        ("Through", through.to_owned()),
    ];
    facts.into_iter().chain(deadline).chain([("Order", order.id.to_string())]).collect()
}

impl Cancel {
    fn of(status: OrderStatus, cards: &[TicketCard], has_begun: bool) -> Option<Self> {
        let button = match status {
            OrderStatus::Held => "Release",
            OrderStatus::Sold if !has_begun => "Cancel",
            _ => return None,
        };
        Some(Self { button, choices: Choices::of(cards)? })
    }
}

impl Entry {
    fn new(entry: HistoryEntry, zone: Tz) -> Self {
        let who = match entry.actor {
            Some(Actor::Buyer) => "the buyer".to_owned(),
            Some(Actor::Partner(name)) => format!("partner {name}"),
            Some(Actor::Admin(email)) => format!("admin {email}"),
            Some(Actor::Clock) => "the deadline".to_owned(),
            None => "a partner".to_owned(),
        };
        Self { when: to_the_second(entry.at, zone), what: words(entry.what), who, tickets: which_tickets(entry.quantity, &entry.positions) }
    }
}

/// `3 tickets: no. 1, 2, 7`; of an order's making only how many.
fn which_tickets(quantity: usize, positions: &[i32]) -> String {
    let count = tickets(i64::try_from(quantity).unwrap_or(i64::MAX));
    if positions.is_empty() { count } else { format!("{count}: no. {}", ranges(positions)) }
}

/// `1–3, 7`: a block of a hundred seats is told in one breath.
fn ranges(positions: &[i32]) -> String {
    let mut sorted = positions.to_vec();
    sorted.sort_unstable();
    let mut ranges: Vec<(i32, i32)> = Vec::new();
    for position in sorted {
        match ranges.last_mut() {
            Some((_, last)) if position.checked_sub(1) == Some(*last) => *last = position,
            _ => ranges.push((position, position)),
        }
    }
    let told = |(first, last): &(i32, i32)| if first == last { first.to_string() } else { format!("{first}–{last}") };
    ranges.iter().map(told).collect::<Vec<_>>().join(", ")
}

fn words(what: What) -> &'static str {
    match what {
        What::Used => "Used at the door",
        What::Changed(change) => match change {
            OrderChange::Sell => "Bought",
            OrderChange::Hold => "Held",
            OrderChange::Confirm => "Confirmed",
            OrderChange::ConfirmLate => "Confirmed after the deadline",
            OrderChange::ReleaseSome => "Some released",
            OrderChange::Release => "Released",
            OrderChange::Expire => "Expired",
            OrderChange::CancelSome => "Some cancelled",
            OrderChange::Cancel => "Cancelled",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_told_as_a_range() {
        assert_eq!(ranges(&[3, 1, 2, 7, 9, 10]), "1–3, 7, 9–10");
        assert_eq!(which_tickets(1, &[5]), "1 ticket: no. 5");
        assert_eq!(which_tickets(2, &[]), "2 tickets");
    }
}
