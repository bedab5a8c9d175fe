//! Webhooks: a partner's endpoints, and what was delivered to them.

use super::{
    answer, json_body, json_body_if_any, page,
    wire::{DeliveriesJson, DeliveryJson, EndpointBody, EndpointJson, EndpointsJson, NoBody},
};
use crate::{
    accounts::Scope,
    app::App,
    ids::{EndpointId, MessageId},
    web::{auth, error::Problem},
    webhooks::{self, DELIVERIES_PAGE_MAX},
};
use actix_web::{
    HttpRequest, HttpResponse,
    http::StatusCode,
    web::{Data, Path, Payload},
};

/// `POST /webhooks`: 201 with the endpoint and its secret, which is not told again.
pub(in crate::web) async fn create(app: Data<App>, request: HttpRequest, payload: Payload) -> Result<HttpResponse, Problem> {
    let partner = auth::partner(&app, &request, Scope::Sell).await?;
    let body: EndpointBody = json_body(&app, &request, payload).await?;
    let new = body.into_input().parse(app.config.webhook_reach).map_err(|errors| Problem::invalid(&errors))?;
    if new.all_orders && !partner.may(Scope::Admin) {
        return Err(Problem::forbidden("To be told of everybody's orders a key needs the scope \"admin\"."));
    }
    let now = app.clock.now();
    let endpoint = app.db.run(move |conn| webhooks::create(conn, now, partner.id, &new)).await?;
    Ok(answer(StatusCode::CREATED, &EndpointJson::with_secret(endpoint)))
}

/// `GET /webhooks`: the partner's own.
pub(in crate::web) async fn list(app: Data<App>, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let partner = auth::partner(&app, &request, Scope::Sell).await?;
    let endpoints = app.db.run(move |conn| webhooks::list(conn, partner.id)).await?;
    Ok(answer(StatusCode::OK, &EndpointsJson { webhooks: endpoints.into_iter().map(EndpointJson::of).collect() }))
}

/// `DELETE /webhooks/{id}`: 204; what waits is not delivered any more.
pub(in crate::web) async fn delete(app: Data<App>, request: HttpRequest, id: Path<String>) -> Result<HttpResponse, Problem> {
    let partner = auth::partner(&app, &request, Scope::Sell).await?;
    let id = endpoint_id(&id)?;
    app.db.run(move |conn| webhooks::delete(conn, partner.id, id)).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// `POST /webhooks/{id}/enable`: lets an endpoint be told of things again that was disabled.
pub(in crate::web) async fn enable(
    app: Data<App>,
    request: HttpRequest,
    id: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let partner = auth::partner(&app, &request, Scope::Sell).await?;
    let NoBody {} = json_body_if_any(&app, &request, payload).await?;
    let id = endpoint_id(&id)?;
    let endpoint = app.db.run(move |conn| webhooks::enable(conn, partner.id, id)).await?;
    app.desk.wake().wake(&endpoint.lane());
    Ok(answer(StatusCode::OK, &EndpointJson::of(endpoint)))
}

/// `GET /webhooks/{id}/deliveries?limit=&cursor=`: what was tried, the last message first.
pub(in crate::web) async fn deliveries(app: Data<App>, request: HttpRequest, id: Path<String>) -> Result<HttpResponse, Problem> {
    let partner = auth::partner(&app, &request, Scope::Sell).await?;
    let id = endpoint_id(&id)?;
    let (limit, before) = page(&request, DELIVERIES_PAGE_MAX)?;
    let (page, next) = app.db.run(move |conn| webhooks::deliveries(conn, partner.id, id, limit, before)).await?;
    let deliveries = page.into_iter().map(DeliveryJson::from).collect();
    Ok(answer(StatusCode::OK, &DeliveriesJson { deliveries, next_cursor: next.map(|id| id.to_string()) }))
}

/// `POST /webhooks/{id}/deliveries/{delivery}/replay`: 202; the message is sent once more, under its id.
pub(in crate::web) async fn replay(
    app: Data<App>,
    request: HttpRequest,
    path: Path<(String, String)>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let partner = auth::partner(&app, &request, Scope::Sell).await?;
    let NoBody {} = json_body_if_any(&app, &request, payload).await?;
    let (id, message) = path.into_inner();
    let message: MessageId = message.parse().map_err(|_| Problem::not_found("There is no such delivery."))?;
    let (now, id) = (app.clock.now(), endpoint_id(&id)?);
    app.db.run(move |conn| webhooks::replay(conn, now, partner.id, id, message)).await?;
    Ok(HttpResponse::Accepted().finish())
}

fn endpoint_id(text: &str) -> Result<EndpointId, Problem> {
    text.parse().map_err(|_| Problem::not_found("There is no such webhook."))
}
