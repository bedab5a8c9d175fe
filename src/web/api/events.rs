//! Events, ticket types, availability.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
    web::{Data, Path, Payload},
};

use super::{
    answer, json_body,
    wire::{AvailabilityJson, EventBody, EventJson, EventsJson, TicketTypeBody, TicketTypeJson},
};
use crate::{
    accounts::{Partner, Scope},
    app::App,
    events::{self, Event, EventError, EventInput, Programme, TicketTypeInput},
    inventory, orders,
    web::{auth, error::Problem},
};

/// `GET /events`: those on sale, to come, and past; drafts only for the scope `admin`.
pub(in crate::web) async fn list(app: Data<App>, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let partner = auth::partner(&app, &request, Scope::Read).await?;
    let now = app.clock.now();
    let programmes = app.db.run(move |conn| events::list(conn, now)).await?;
    let events = programmes.into_iter().filter(|programme| may_see(&partner, &programme.event)).map(EventJson::from).collect();
    Ok(answer(StatusCode::OK, &EventsJson { events }))
}

/// `GET /events/{slug}`.
pub(in crate::web) async fn show(app: Data<App>, request: HttpRequest, slug: Path<String>) -> Result<HttpResponse, Problem> {
    let partner = auth::partner(&app, &request, Scope::Read).await?;
    let slug = slug.into_inner();
    let programme = app.db.run(move |conn| visible(events::programme(conn, &slug)?, &partner)).await?;
    Ok(answer(StatusCode::OK, &EventJson::from(programme)))
}

/// `GET /events/{slug}/availability`.
pub(in crate::web) async fn availability(app: Data<App>, request: HttpRequest, slug: Path<String>) -> Result<HttpResponse, Problem> {
    let partner = auth::partner(&app, &request, Scope::Read).await?;
    let (now, slug) = (app.clock.now(), slug.into_inner());
    let (programme, left) = app
        .db
        .run(move |conn| {
            let programme = visible(events::programme(conn, &slug)?, &partner)?;
            let left = inventory::left(conn, programme.event.id, now)?;
            Ok::<_, EventError>((programme, left))
        })
        .await?;
    let body = AvailabilityJson::of(&programme, |ticket_type| left.get(&ticket_type.id).copied().unwrap_or_default());
    Ok(answer(StatusCode::OK, &body))
}

fn may_see(partner: &Partner, event: &Event) -> bool {
    event.is_public() || partner.may(Scope::Admin)
}

fn visible(programme: Programme, partner: &Partner) -> Result<Programme, EventError> {
    if may_see(partner, &programme.event) { Ok(programme) } else { Err(EventError::NotFound(programme.event.slug)) }
}

/// `POST /events`.
pub(in crate::web) async fn create(app: Data<App>, request: HttpRequest, payload: Payload) -> Result<HttpResponse, Problem> {
    auth::partner(&app, &request, Scope::Admin).await?;
    let body: EventBody = json_body(&app, &request, payload).await?;
    let mut input = EventInput::default();
    body.apply(&mut input);
    let new = input.parse().map_err(|errors| Problem::invalid(&errors))?;
    let now = app.clock.now();
    let event = app.db.run(move |conn| events::create(conn, now, &new)).await?;
    let location = format!("/api/v1/events/{}", event.slug);
    let mut response = answer(StatusCode::CREATED, &EventJson::from(Programme { event, ticket_types: Vec::new() }));
    if let Ok(location) = location.parse() {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// `PATCH /events/{slug}`: what is absent stays, what is null is cleared.
pub(in crate::web) async fn update(
    app: Data<App>,
    request: HttpRequest,
    slug: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    auth::partner(&app, &request, Scope::Admin).await?;
    let body: EventBody = json_body(&app, &request, payload).await?;
    body.refuse_nulls().map_err(|errors| Problem::invalid(&errors))?;
    let slug = slug.into_inner();
    let programme = app
        .db
        .run(move |conn| {
            let event = orders::change_event(conn, &slug, |input| body.apply(input))?;
            events::programme(conn, &event.slug)
        })
        .await?;
    Ok(answer(StatusCode::OK, &EventJson::from(programme)))
}

/// `POST /events/{slug}/ticket-types`.
pub(in crate::web) async fn add_ticket_type(
    app: Data<App>,
    request: HttpRequest,
    slug: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    auth::partner(&app, &request, Scope::Admin).await?;
    let body: TicketTypeBody = json_body(&app, &request, payload).await?;
    let mut input = TicketTypeInput::default();
    body.apply(&mut input);
    let (now, slug) = (app.clock.now(), slug.into_inner());
    let ticket_type = app.db.run(move |conn| events::add_ticket_type(conn, now, &slug, &input)).await?;
    Ok(answer(StatusCode::CREATED, &TicketTypeJson::from(ticket_type)))
}

/// `PATCH /events/{slug}/ticket-types/{code}`: what is absent stays, what is null is cleared.
pub(in crate::web) async fn update_ticket_type(
    app: Data<App>,
    request: HttpRequest,
    path: Path<(String, String)>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    auth::partner(&app, &request, Scope::Admin).await?;
    let body: TicketTypeBody = json_body(&app, &request, payload).await?;
    body.refuse_nulls().map_err(|errors| Problem::invalid(&errors))?;
    let (slug, code) = path.into_inner();
    let ticket_type = app.db.run(move |conn| events::update_ticket_type(conn, &slug, &code, |input| body.apply(input))).await?;
    Ok(answer(StatusCode::OK, &TicketTypeJson::from(ticket_type)))
}
