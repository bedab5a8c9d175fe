//! What admins do with events.

use actix_web::{
    HttpRequest, HttpResponse,
    http::StatusCode,
    web::{Data, Path, Payload, Query},
};
use askama::Template;
use serde::Deserialize;

use super::{
    Keep,
    dashboard::{self, Dashboard, Shown},
    event_form,
    form::{Filled, Form},
    login::{self, Frame},
    number, page, see_other, thousandths,
};
use crate::{
    accounts::AdminSession,
    app::App,
    events::{self, Checkout, Event, EventError, EventInput, EventState, Programme, TicketTypeInput, rules},
    ids::OrderId,
    input::FieldErrors,
    inventory,
    orders::{self, Takings},
    web::error::{self, Problem},
    when::When,
};

#[derive(Template)]
#[template(path = "admin/home.html")]
struct HomePage {
    frame: Frame,
    events: Vec<EventLine>,
}

struct EventLine {
    slug: String,
    name: String,
    when: Option<When>,
    state: &'static str,
    tone: &'static str,
    sold: String,
    bar: i64,
    takings: String,
}

/// `GET /admin`: every event, and how it sells.
pub(in crate::web) async fn home(app: Data<App>, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let session = match login::admin(&app, &request).await? {
        Ok(session) => session,
        Err(to_login) => return Ok(to_login),
    };
    let now = app.clock.now();
    let (programmes, loaded, takings) = app
        .db
        .run(move |conn| {
            let programmes = events::list(conn, now)?;
            let ids: Vec<_> = programmes.iter().map(|programme| programme.event.id).collect();
            let loaded = inventory::loaded(conn, &ids)?;
            let takings = orders::takings(conn, &ids)?;
            Ok::<_, EventError>((programmes, loaded, takings))
        })
        .await?;
    let line = |Programme { event, .. }: Programme| {
        let loaded = loaded.get(&event.id).map_or(0, |by_type| by_type.values().sum());
        EventLine::new(event.clone(), loaded, takings.get(&event.id).copied().unwrap_or_default())
    };
    page(StatusCode::OK, Keep::Nothing, &HomePage { frame: (&session).into(), events: programmes.into_iter().map(line).collect() })
}

impl EventLine {
    fn new(event: Event, loaded: i64, takings: Takings) -> Self {
        let total = loaded.max(takings.tickets);
        Self {
            when: event.starts_at.map(|moment| When::new(moment, event.time_zone)),
            state: event.state.label(),
            tone: tone(event.state),
            sold: if total == 0 { "No tickets yet".to_owned() } else { format!("{} of {} sold", number(takings.tickets), number(total)) },
            bar: thousandths(takings.tickets, total),
            takings: event.money(takings.total_minor).to_string(),
            slug: event.slug,
            name: event.name,
        }
    }
}

/// The colour of a state.
pub(super) fn tone(state: EventState) -> &'static str {
    match state {
        EventState::OnSale => "good",
        EventState::Draft | EventState::Paused => "soon",
        EventState::Closed => "quiet",
        EventState::Cancelled => "bad",
    }
}

/// `GET /admin/events/new`.
pub(in crate::web) async fn new_event(app: Data<App>, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let session = match login::admin(&app, &request).await? {
        Ok(session) => session,
        Err(to_login) => return Ok(to_login),
    };
    let fresh = Form::default()
        .with("state", EventState::OnSale.name())
        .with("show_counts", "true")
        .with("currency", "EUR")
        .with("checkout", Checkout::AtOnce.name())
        .with("max_per_order", rules::ORDER_LIMIT_DEFAULT.to_string());
    event_form::show(&session, None, fresh, FieldErrors::new())
}

/// `GET /admin/events`: where the address bar stands when the form of a new event came back.
pub(in crate::web) async fn to_home() -> Result<HttpResponse, Problem> {
    Ok(see_other("/admin"))
}

/// `POST /admin/events`: makes an event, and its first ticket type if there is one.
pub(in crate::web) async fn create_event(app: Data<App>, request: HttpRequest, payload: Payload) -> Result<HttpResponse, Problem> {
    let (session, form) = match login::admin_form(&app, &request, payload).await? {
        Ok(sent) => sent,
        Err(to_login) => return Ok(to_login),
    };
    let (new, ticket_type) = match event_form::parse_new(&form) {
        Ok(parsed) => parsed,
        Err(errors) => return event_form::show(&session, None, form, errors),
    };
    let now = app.clock.now();
    let created = app.db.run(move |conn| {
        let event = events::create(conn, now, &new)?;
        if let Some(ticket_type) = ticket_type {
            events::add_ticket_type(conn, now, &event.slug, &ticket_type)?;
        }
        Ok(event)
    });
    match created.await {
        Ok(event) => Ok(see_other(&format!("/admin/events/{}?done=created", event.slug))),
        Err(EventError::Invalid(errors)) => event_form::show(&session, None, form, errors),
        Err(error) => Err(error.into()),
    }
}

/// `GET /admin/events/{slug}/edit`.
pub(in crate::web) async fn edit_event(app: Data<App>, request: HttpRequest, slug: Path<String>) -> Result<HttpResponse, Problem> {
    let session = match login::admin(&app, &request).await? {
        Ok(session) => session,
        Err(to_login) => return Ok(to_login),
    };
    let slug = slug.into_inner();
    let Programme { event, .. } = app.db.run(move |conn| events::programme(conn, &slug)).await?;
    event_form::show(&session, Some(&event.slug), event_form::form_of(&event), FieldErrors::new())
}

/// `POST /admin/events/{slug}/edit`.
pub(in crate::web) async fn update_event(
    app: Data<App>,
    request: HttpRequest,
    slug: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let (session, form) = match login::admin_form(&app, &request, payload).await? {
        Ok(sent) => sent,
        Err(to_login) => return Ok(to_login),
    };
    let (slug, typed) = (slug.into_inner(), form.clone());
    let event = slug.clone();
    let change = move |input: &mut EventInput| {
        event_form::fill(input, &typed);
        // An event that exists has a limit: a field that was emptied is told, and not filled with the default.
        input.max_per_order = input.max_per_order.or(Some(-1));
    };
    match app.db.run(move |conn| orders::change_event(conn, &event, change)).await {
        Ok(event) => Ok(see_other(&format!("/admin/events/{}?done=saved", event.slug))),
        Err(EventError::Invalid(errors)) => event_form::show(&session, Some(&slug), form, event_form::in_page_words(Some(errors))),
        Err(error) => Err(error.into()),
    }
}

#[derive(Deserialize)]
pub(in crate::web) struct EventQuery {
    done: Option<String>,
    load: Option<String>,
    before: Option<String>,
}

/// `GET /admin/events/{slug}`: how an event sells, its ticket types, its orders, and the forms that change its stock.
pub(in crate::web) async fn event(
    app: Data<App>,
    request: HttpRequest,
    slug: Path<String>,
    query: Query<EventQuery>,
) -> Result<HttpResponse, Problem> {
    let session = match login::admin(&app, &request).await? {
        Ok(session) => session,
        Err(to_login) => return Ok(to_login),
    };
    let EventQuery { done, load, before } = query.into_inner();
    let before: Option<OrderId> = before.and_then(|before| before.parse().ok());
    let dashboard = dashboard::read(&app, &session, &slug, before, load).await?;
    dashboard.render(&session, StatusCode::OK, Shown { done: done_text(done.as_deref()), ..Shown::default() })
}

fn done_text(done: Option<&str>) -> &'static str {
    match done {
        Some("created") => "The event is there. Next: its ticket types and its tickets.",
        Some("saved") => "Saved.",
        Some("type-saved") => "The ticket type is saved.",
        Some("ticket-type") => "The ticket type is there. Next: its tickets.",
        _ => "",
    }
}

/// `GET` of an address that only takes forms: where the address bar stands when one came back.
pub(in crate::web) async fn to_event(slug: Path<String>) -> Result<HttpResponse, Problem> {
    let slug = rules::parse_slug(&slug).ok_or_else(|| Problem::not_found("There is nothing at this address."))?;
    Ok(see_other(&format!("/admin/events/{slug}")))
}

/// `POST /admin/events/{slug}/ticket-types`.
pub(in crate::web) async fn add_ticket_type(
    app: Data<App>,
    request: HttpRequest,
    slug: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let (session, form) = match login::admin_form(&app, &request, payload).await? {
        Ok(sent) => sent,
        Err(to_login) => return Ok(to_login),
    };
    let dashboard = dashboard::read(&app, &session, &slug, None, None).await?;
    let new = match event_form::new_type(&form, &dashboard.programme().event) {
        Ok(new) => new,
        Err(errors) => return type_again(dashboard, &session, form, errors),
    };
    let (now, slug) = (app.clock.now(), slug.into_inner());
    let event = slug.clone();
    match app.db.run(move |conn| events::add_ticket_type(conn, now, &event, &new)).await {
        Ok(_) => Ok(see_other(&format!("/admin/events/{slug}?done=ticket-type"))),
        Err(EventError::Invalid(errors)) => type_again(dashboard, &session, form, errors),
        Err(error) => Err(error.into()),
    }
}

/// The form of a ticket type that exists.
#[derive(Template)]
#[template(path = "admin/ticket_type.html")]
struct TicketTypePage<'a> {
    frame: Frame,
    slug: &'a str,
    event: &'a str,
    zone: &'static str,
    code: &'a str,
    price_label: String,
    form: Filled,
}

/// `GET /admin/events/{slug}/ticket-types/{code}`.
pub(in crate::web) async fn edit_ticket_type(
    app: Data<App>,
    request: HttpRequest,
    path: Path<(String, String)>,
) -> Result<HttpResponse, Problem> {
    let session = match login::admin(&app, &request).await? {
        Ok(session) => session,
        Err(to_login) => return Ok(to_login),
    };
    let (slug, code) = path.into_inner();
    let programme = app.db.run(move |conn| events::programme(conn, &slug)).await?;
    let ticket_type = programme.ticket_type(&code).ok_or_else(|| EventError::TypeNotFound(code.clone()))?;
    let form = event_form::form_of_type(&programme.event, ticket_type);
    ticket_type_page(&session, &programme.event, &code, form, FieldErrors::new())
}

fn ticket_type_page(session: &AdminSession, event: &Event, code: &str, form: Form, errors: FieldErrors) -> Result<HttpResponse, Problem> {
    let status = if errors.as_slice().is_empty() {
        StatusCode::OK
    } else {
        let problem = Problem::invalid(&errors);
        error::log(&problem);
        problem.status
    };
    let template = TicketTypePage {
        frame: session.into(),
        slug: &event.slug,
        event: &event.name,
        zone: event.time_zone.name(),
        code,
        price_label: format!("Price in {}", event.currency.code()),
        form: Filled::new(form, errors),
    };
    page(status, Keep::Nothing, &template)
}

/// `POST /admin/events/{slug}/ticket-types/{code}`.
pub(in crate::web) async fn update_ticket_type(
    app: Data<App>,
    request: HttpRequest,
    path: Path<(String, String)>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let (session, form) = match login::admin_form(&app, &request, payload).await? {
        Ok(sent) => sent,
        Err(to_login) => return Ok(to_login),
    };
    let (slug, code) = path.into_inner();
    let (of, typed) = ((slug.clone(), code.clone()), form.clone());
    let updated = app.db.run(move |conn| {
        let event = events::programme(conn, &of.0)?.event;
        let change = |input: &mut TicketTypeInput| event_form::fill_type(input, &typed, &event);
        let updated = match events::update_ticket_type(conn, &of.0, &of.1, change) {
            Err(EventError::Invalid(errors)) => Some(event_form::type_errors(&errors, event.currency)),
            other => other.map(|_| None)?,
        };
        Ok::<_, EventError>((event, updated))
    });
    match updated.await? {
        (_, None) => Ok(see_other(&format!("/admin/events/{slug}?done=type-saved"))),
        (event, Some(errors)) => ticket_type_page(&session, &event, &code, form, errors),
    }
}

fn type_again(dashboard: Dashboard, session: &AdminSession, form: Form, errors: FieldErrors) -> Result<HttpResponse, Problem> {
    let problem = Problem::invalid(&errors);
    error::log(&problem);
    dashboard.render(session, problem.status, Shown { ticket_type: Filled::new(form, errors), ..Shown::default() })
}
