//! Orders: buy, read, list.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
    web::{Data, Path, Payload},
};
use serde::Deserialize;

use super::{
    answer, idempotency_key, json_body, query,
    wire::{OrderBody, OrderJson, OrdersJson},
};
use crate::{
    accounts::{Partner, Scope},
    app::App,
    ids::{OrderId, digest},
    input::FieldErrors,
    orders::{self, Caller, IdempotencyKey, ORDERS_PAGE_MAX, Reader, Request},
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
    // The hash is of what was understood, so that spacing and the order of members do not matter.
    let key = key.map(|key| IdempotencyKey { key, request_hash: digest(&serde_json::to_vec(&body).unwrap_or_default()) });
    let purchase = body.into_input().parse().map_err(|errors| Problem::invalid(&errors))?;
    let order = Request { purchase, caller: Caller::Partner(partner.id), key };
    let slug = slug.into_inner();
    let placed = app.desk.sell(slug.clone(), order).await?;
    let location = format!("/api/v1/events/{slug}/orders/{}", placed.order.id);
    let mut response = answer(StatusCode::CREATED, &OrderJson::of(&slug, placed));
    if let Ok(location) = location.parse() {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// `GET /events/{slug}/orders/{id}`: one of the partner's own orders, or any for the scope `admin`.
pub(in crate::web) async fn show(app: Data<App>, request: HttpRequest, path: Path<(String, String)>) -> Result<HttpResponse, Problem> {
    let partner = auth::partner(&app, &request, Scope::Read).await?;
    let (slug, id) = path.into_inner();
    let id: OrderId = id.parse().map_err(|_| Problem::not_found("There is no such order."))?;
    let reader = if partner.may(Scope::Admin) { Reader::Admin } else { Reader::Partner(partner.id) };
    let event = slug.clone();
    let (_, placed) = app.db.run(move |conn| orders::find(conn, &event, id, &reader)).await?;
    Ok(answer(StatusCode::OK, &OrderJson::of(&slug, placed)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    limit: Option<String>,
    cursor: Option<String>,
}

/// `GET /events/{slug}/orders?limit=&cursor=`: newest first; the partner's own, or all for the scope `admin`.
pub(in crate::web) async fn list(app: Data<App>, request: HttpRequest, slug: Path<String>) -> Result<HttpResponse, Problem> {
    let partner = auth::partner(&app, &request, Scope::Read).await?;
    let (limit, before) = page(&query(&request)?)?;
    let whose = whose(&partner);
    let slug = slug.into_inner();
    let event = slug.clone();
    let page = app.db.run(move |conn| orders::list(conn, &event, whose, limit, before)).await?;
    let orders = page.orders.into_iter().map(|placed| OrderJson::of(&slug, placed)).collect();
    Ok(answer(StatusCode::OK, &OrdersJson { orders, next_cursor: page.next.map(|id| id.to_string()) }))
}

fn whose(partner: &Partner) -> Option<crate::ids::PartnerId> {
    (!partner.may(Scope::Admin)).then_some(partner.id)
}

fn page(query: &ListQuery) -> Result<(usize, Option<OrderId>), Problem> {
    let mut errors = FieldErrors::new();
    let limit = query.limit.as_deref().map_or(Some(ORDERS_PAGE_MAX), |limit| limit.parse().ok());
    let limit = errors.check("limit", limit.filter(|limit| (1..=ORDERS_PAGE_MAX).contains(limit)), "must be a whole number from 1 to 100");
    let cursor = query.cursor.as_deref().filter(|cursor| !cursor.is_empty());
    let before = cursor.and_then(|cursor| errors.check("cursor", cursor.parse().ok(), "must be the next_cursor of the page before"));
    errors.into_result().map_err(|errors| Problem::invalid(&errors))?;
    Ok((limit.unwrap_or(ORDERS_PAGE_MAX), before))
}
