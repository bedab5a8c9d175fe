//! The JSON API, version 1: wire types and handlers.

pub mod events;
pub mod inventory;
pub mod orders;
pub mod webhooks;
pub mod wire;

use std::str::FromStr;

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
    web::{self, Payload},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{body, error::Problem};
use crate::{
    app::App,
    input::FieldErrors,
    orders::rules::{self, KEY_MAX},
};

/// Whatever is not in [`super::routes`].
pub(super) async fn not_found() -> Result<HttpResponse, Problem> {
    Err(Problem::not_found("There is nothing at this address."))
}

/// An answer of ours: JSON that no cache keeps.
fn answer(status: StatusCode, body: &impl Serialize) -> HttpResponse {
    HttpResponse::build(status).insert_header((header::CACHE_CONTROL, "no-store")).json(body)
}

/// The request's body, which must be declared as JSON.
async fn json_body<T: DeserializeOwned>(app: &App, request: &HttpRequest, payload: Payload) -> Result<T, Problem> {
    if !body::is_type(request, "application/json") {
        return Err(body::unsupported("application/json"));
    }
    let bytes = body::read(payload, app.config.body_bytes_max, app.config.body_wait).await?;
    body::json(&bytes)
}

/// The same where all of a body may be left out: no body is an empty object.
async fn json_body_if_any<T: DeserializeOwned + Default>(app: &App, request: &HttpRequest, payload: Payload) -> Result<T, Problem> {
    let bytes = body::read(payload, app.config.body_bytes_max, app.config.body_wait).await?;
    if bytes.is_empty() {
        return Ok(T::default());
    }
    if !body::is_type(request, "application/json") {
        return Err(body::unsupported("application/json"));
    }
    body::json(&bytes)
}

/// The request's Idempotency-Key, if it has one. Of two, neither is taken: whoever sent them means one of them, and would retry with either.
fn idempotency_key(request: &HttpRequest) -> Result<Option<String>, Problem> {
    let wrong = |message: String| Problem::invalid(&FieldErrors::one("Idempotency-Key", message));
    let mut values = request.headers().get_all("idempotency-key");
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(wrong("must be sent once".to_owned()));
    }
    let key = value.to_str().ok().and_then(rules::parse_key);
    key.map(Some).ok_or_else(|| wrong(format!("must be 1 to {KEY_MAX} visible ASCII characters")))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PageQuery {
    limit: Option<String>,
    cursor: Option<String>,
}

/// Which page of a list is asked for, `?limit=&cursor=`: at most how many, and what the page before ended with.
fn page<Id: FromStr>(request: &HttpRequest, max: usize) -> Result<(usize, Option<Id>), Problem> {
    let PageQuery { limit, cursor } = query(request)?;
    let mut errors = FieldErrors::new();
    let limit = limit.map_or(Some(max), |limit| limit.parse().ok().filter(|limit| (1..=max).contains(limit)));
    let limit = errors.check("limit", limit, &format!("must be a whole number from 1 to {max}"));
    let cursor = cursor.filter(|cursor| !cursor.is_empty());
    let before = cursor.and_then(|cursor| errors.check("cursor", cursor.parse().ok(), "must be the next_cursor of the page before"));
    errors.into_result().map_err(|errors| Problem::invalid(&errors))?;
    Ok((limit.unwrap_or(max), before))
}

/// Reads the query string into `T`.
fn query<T: DeserializeOwned>(request: &HttpRequest) -> Result<T, Problem> {
    web::Query::<T>::from_query(request.query_string())
        .map(web::Query::into_inner)
        .map_err(|error| Problem::invalid(&FieldErrors::one("query", error.to_string())))
}
