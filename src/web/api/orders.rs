//! Orders: buy, hold, confirm, cancel, read, list; and the door.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
    web::{Data, Path, Payload},
};

use super::{
    answer, idempotency_key, json_body, json_body_if_any, page,
    wire::{CancelBody, NoBody, OrderBody, OrdersJson, UsedTicketJson},
};
use crate::{
    accounts::{Partner, Scope},
    app::App,
    ids::{OrderId, digest},
    input::FieldErrors,
    orders::{self, Actor, Caller, IdempotencyKey, ORDERS_PAGE_MAX, Party, Reader, Request, Taking, Which, shown::OrderJson},
    web::{auth, error::Problem},
};

/// `POST /events/{slug}/orders`: buys. 201 with the order, also when the Idempotency-Key had one already.
pub(in crate::web) async fn create(
    app: Data<App>,
    request: HttpRequest,
    slug: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let partner = auth::partner(&app, &request, Scope::Sell).await?;
    let key = idempotency_key(&request)?;
    let body: OrderBody = json_body(&app, &request, payload).await?;
    if body.ttl_seconds().is_some() {
        return Err(Problem::invalid(&FieldErrors::one("ttl_seconds", "is for holds: POST it to …/holds instead")));
    }
    // The hash is of what was understood, so that spacing and the order of members do not matter.
    let key = key.map(|key| IdempotencyKey { key, request_hash: digest(&serde_json::to_vec(&body).unwrap_or_default()) });
    place(&app, &partner, slug.into_inner(), body, key, Taking::Sell).await
}

/// `POST /events/{slug}/holds`: keeps tickets for `ttl_seconds`. 201 with the order, also when the Idempotency-Key had one already.
pub(in crate::web) async fn hold(
    app: Data<App>,
    request: HttpRequest,
    slug: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let partner = auth::partner(&app, &request, Scope::Sell).await?;
    let key = idempotency_key(&request)?;
    let body: OrderBody = json_body(&app, &request, payload).await?;
    let hold = app.config.holds.ttl(body.ttl_seconds()).map_err(|errors| Problem::invalid(&errors))?;
    // Under one key a hold is not an order, though all else be the same.
    let key = key.map(|key| IdempotencyKey { key, request_hash: digest(&serde_json::to_vec(&("hold", &body)).unwrap_or_default()) });
    place(&app, &partner, slug.into_inner(), body, key, Taking::Hold(hold)).await
}

async fn place(
    app: &App,
    partner: &Partner,
    slug: String,
    body: OrderBody,
    key: Option<IdempotencyKey>,
    taking: Taking,
) -> Result<HttpResponse, Problem> {
    let purchase = body.into_input().parse().map_err(|errors| Problem::invalid(&errors))?;
    let order = Request { purchase, caller: Caller::Partner(partner.id), key, taking };
    let placed = app.desk.sell(slug.clone(), order).await?;
    let location = format!("/api/v1/events/{slug}/orders/{}", placed.order.id);
    let mut response = answer(StatusCode::CREATED, &OrderJson::of(&slug, placed, app.clock.now()));
    if let Ok(location) = location.parse() {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// The partner as somebody who changes orders: their own, or any with the scope `admin`.
fn party(partner: &Partner) -> Party {
    Party { reader: reader(partner), actor: Actor::Partner(partner.name.clone()) }
}

fn reader(partner: &Partner) -> Reader {
    if partner.may(Scope::Admin) { Reader::Admin } else { Reader::Partner(partner.id) }
}

fn order_id(id: &str) -> Result<OrderId, Problem> {
    id.parse().map_err(|_| Problem::not_found("There is no such order."))
}

/// `POST /events/{slug}/orders/{id}/confirm`: makes a hold a sale. 200 with the order, also the second time.
pub(in crate::web) async fn confirm(
    app: Data<App>,
    request: HttpRequest,
    path: Path<(String, String)>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let partner = auth::partner(&app, &request, Scope::Sell).await?;
    idempotency_key(&request)?;
    let NoBody {} = json_body_if_any(&app, &request, payload).await?;
    let (slug, id) = path.into_inner();
    let changed = app.desk.confirm(slug.clone(), order_id(&id)?, party(&partner)).await?;
    Ok(answer(StatusCode::OK, &OrderJson::of(&slug, changed.placed, app.clock.now())))
}

/// `POST /events/{slug}/orders/{id}/cancel`: gives all tickets back, or those at `positions`. 200 with the order, also the second time.
pub(in crate::web) async fn cancel(
    app: Data<App>,
    request: HttpRequest,
    path: Path<(String, String)>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let partner = auth::partner(&app, &request, Scope::Sell).await?;
    idempotency_key(&request)?;
    let CancelBody { positions } = json_body_if_any(&app, &request, payload).await?;
    if positions.as_ref().is_some_and(Vec::is_empty) {
        return Err(Problem::invalid(&FieldErrors::one("positions", "must name a ticket; leave it out to give all of them back")));
    }
    let which = positions.map_or(Which::All, Which::These);
    let (slug, id) = path.into_inner();
    let changed = app.desk.cancel(slug.clone(), order_id(&id)?, party(&partner), which).await?;
    Ok(answer(StatusCode::OK, &OrderJson::of(&slug, changed.placed, app.clock.now())))
}

/// `POST /events/{slug}/tickets/{code}/use`: lets the holder of a ticket in, once. 409 `ticket_used` the second time, and
/// `event_cancelled` if it will not take place.
pub(in crate::web) async fn use_ticket(
    app: Data<App>,
    request: HttpRequest,
    path: Path<(String, String)>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let partner = auth::partner(&app, &request, Scope::Admin).await?;
    let NoBody {} = json_body_if_any(&app, &request, payload).await?;
    let (now, (slug, code)) = (app.clock.now(), path.into_inner());
    let (changed, position) = app.db.run(move |conn| orders::use_ticket(conn, now, &slug, &code, &party(&partner))).await?;
    Ok(answer(StatusCode::OK, &UsedTicketJson::of(changed, position, now)))
}

/// `GET /events/{slug}/orders/{id}`: one of the partner's own orders, or any for the scope `admin`.
pub(in crate::web) async fn show(app: Data<App>, request: HttpRequest, path: Path<(String, String)>) -> Result<HttpResponse, Problem> {
    let partner = auth::partner(&app, &request, Scope::Read).await?;
    let (slug, id) = path.into_inner();
    let (id, reader) = (order_id(&id)?, reader(&partner));
    let event = slug.clone();
    let (_, placed) = app.db.run(move |conn| orders::find(conn, &event, id, &reader)).await?;
    Ok(answer(StatusCode::OK, &OrderJson::of(&slug, placed, app.clock.now())))
}

/// `GET /events/{slug}/orders?limit=&cursor=`: newest first; the partner's own, or all for the scope `admin`.
pub(in crate::web) async fn list(app: Data<App>, request: HttpRequest, slug: Path<String>) -> Result<HttpResponse, Problem> {
    let partner = auth::partner(&app, &request, Scope::Read).await?;
    let (limit, before) = page(&request, ORDERS_PAGE_MAX)?;
    let whose = whose(&partner);
    let slug = slug.into_inner();
    let event = slug.clone();
    let page = app.db.run(move |conn| orders::list(conn, &event, whose, limit, before)).await?;
    let now = app.clock.now();
    let orders = page.orders.into_iter().map(|placed| OrderJson::of(&slug, placed, now)).collect();
    Ok(answer(StatusCode::OK, &OrdersJson { orders, next_cursor: page.next.map(|id| id.to_string()) }))
}

fn whose(partner: &Partner) -> Option<crate::ids::PartnerId> {
    (!partner.may(Scope::Admin)).then_some(partner.id)
}
