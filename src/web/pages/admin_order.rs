//! The page of one order for admins: what it is, what happened to it, and the form that gives its tickets back.

use actix_web::{
    HttpRequest, HttpResponse,
    http::StatusCode,
    web::{Data, Path, Payload, Query},
};
use askama::Template;
use serde::Deserialize;

use super::{
    Keep,
    dashboard::order_tone,
    form::Form,
    login::{self, Frame},
    order::{Line, Said, TicketCard, choices, order_path, which},
    order_changes::said_of,
    page, see_other, tickets,
    time::{When, with_zone},
};
use crate::{
    accounts::AdminSession,
    app::App,
    events::rules::parse_slug,
    ids::OrderId,
    orders::{self, Actor, Caller, HistoryEntry, OrderChange, OrderError, OrderStatus, Party, Reader, What},
    web::{
        auth,
        error::{Problem, log},
    },
};

#[derive(Template)]
#[template(path = "admin/order.html")]
struct OrderPage {
    frame: Frame,
    slug: String,
    event: String,
    id: String,
    title: String,
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
    when: When,
    what: String,
    who: String,
    tickets: String,
}

struct Cancel {
    button: &'static str,
    choices: Vec<(i32, String)>,
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
        Some("cancelled") => Some(Said::new("good", "Given back", "The tickets are on sale again.")),
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
    let session = match login::admin(&app, &request).await? {
        Ok(session) => session,
        Err(to_login) => return Ok(to_login),
    };
    let form = Form::read(&app, &request, payload).await?;
    auth::check_csrf(&session, form.text("csrf_token"))?;
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
            let entries = orders::history(conn, programme.event.id, &placed.order)?;
            Ok::<_, OrderError>((programme, placed, entries))
        })
        .await?;
    let (order, zone) = (placed.order, programme.event.time_zone);
    let order_status = order.status_at(now);
    let cards: Vec<TicketCard> = match order_status {
        OrderStatus::Expired => Vec::new(),
        _ => placed.tickets.into_iter().map(|ticket| TicketCard::new(&programme, ticket)).collect(),
    };
    let by = if order.caller == Caller::Web { "the page" } else { "the API" };
    let deadline = order.expires_at.map(|until| ("Held until", with_zone(until, zone)));
    let facts = [
        ("Buyer", order.buyer_name.clone()),
        ("E-mail", order.buyer_email.clone()),
        ("Made", with_zone(order.created_at, zone)),
        ("Through", by.to_owned()),
    ];
    let template = OrderPage {
        frame: session.into(),
        title: format!("{} for {}", tickets(order.quantity.into()), order.buyer_name),
        status: order_status.name(),
        tone: order_tone(order_status),
        cancel: Cancel::of(order_status, &cards, programme.event.has_begun(now)),
        lines: order.lines.iter().map(|line| Line::new(&programme, line)).collect(),
        total: programme.event.money(order.total_minor).to_string(),
        facts: facts.into_iter().chain(deadline).chain([("Order", order.id.to_string())]).collect(),
        history: entries.into_iter().map(|entry| Entry::new(entry, order.caller, zone)).collect(),
        buyers_page: order_path(&programme.event.slug, &order),
        id: order.id.to_string(),
        slug: programme.event.slug,
        event: programme.event.name,
        tickets: cards,
        notice,
    };
    page(status, Keep::Nothing, &template)
}

impl Cancel {
    fn of(status: OrderStatus, cards: &[TicketCard], has_begun: bool) -> Option<Self> {
        let button = match status {
            OrderStatus::Held => "Release",
            OrderStatus::Sold if !has_begun => "Cancel",
            _ => return None,
        };
        let choices = choices(cards);
        (!choices.is_empty()).then_some(Self { button, choices })
    }
}

impl Entry {
    fn new(entry: HistoryEntry, caller: Caller, zone: chrono_tz::Tz) -> Self {
        let who = match (entry.actor, caller) {
            (Some(Actor::Buyer), _) => "the buyer".to_owned(),
            (Some(Actor::Partner(name)), _) => format!("partner {name}"),
            (Some(Actor::Admin(email)), _) => format!("admin {email}"),
            (Some(Actor::Clock), _) => "the deadline".to_owned(),
            (None, _) => "a partner".to_owned(),
        };
        let which = match entry.positions.as_slice() {
            [] => String::new(),
            positions => format!(": {}", positions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
        };
        Self {
            when: When::new(entry.at, zone),
            what: words(entry.what).to_owned(),
            who,
            tickets: format!("{}{which}", tickets(i64::try_from(entry.quantity).unwrap_or(i64::MAX))),
        }
    }
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
