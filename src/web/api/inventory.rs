//! Loading inventory.

use actix_web::{
    HttpRequest, HttpResponse,
    http::StatusCode,
    web::{Data, Path, Payload},
};
use serde::Deserialize;

use super::{answer, idempotency_key, json_body, query, wire::InventoryBody};
use crate::{
    accounts::Scope,
    app::App,
    ids::digest,
    input::FieldErrors,
    inventory::{self, LOAD_TIME_MAX, Load, LoadedBy, Stock},
    web::{auth, body, error::Problem},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadQuery {
    #[serde(default)]
    dry_run: bool,
}

/// `POST /events/{slug}/inventory`: a count as JSON, or a file as `text/csv`. 201, or 200 if nothing was to be stored.
pub(in crate::web) async fn load(
    app: Data<App>,
    request: HttpRequest,
    slug: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let partner = auth::partner(&app, &request, Scope::Admin).await?;
    let LoadQuery { dry_run } = query(&request)?;
    let key = idempotency_key(&request)?;
    let (stock, hash) = stock(&app, &request, payload).await?;
    let load = Load { event: slug.into_inner(), stock, by: LoadedBy::Partner(partner.id), key: key.map(|key| (key, hash)), dry_run };
    let now = app.clock.now();
    let report = app.db.run_within(LOAD_TIME_MAX, move |conn| inventory::load(conn, now, &load)).await?;
    let status = if dry_run { StatusCode::OK } else { StatusCode::CREATED };
    Ok(answer(status, &report))
}

/// What the body asks to load, and its hash.
async fn stock(app: &App, request: &HttpRequest, payload: Payload) -> Result<(Stock, Vec<u8>), Problem> {
    if body::is_type(request, "text/csv") {
        let bytes = body::read(payload, app.config.file_bytes_max, app.config.body_wait).await?;
        let hash = digest(&bytes);
        return Ok((Stock::File(bytes.to_vec()), hash));
    }
    if !body::is_type(request, "application/json") {
        return Err(body::unsupported("application/json or text/csv"));
    }
    let body: InventoryBody = json_body(app, request, payload).await?;
    let mut errors = FieldErrors::new();
    let ticket_type = errors.check("ticket_type", body.ticket_type.clone(), "must be the code of a ticket type, like standard");
    let quantity = errors.check("quantity", body.quantity(), "must be a whole number, 1 or more");
    match (ticket_type, quantity) {
        (Some(ticket_type), Some(quantity)) => {
            let hash = digest(format!("{ticket_type}\n{quantity}").as_bytes());
            Ok((Stock::Count { ticket_type, quantity }, hash))
        }
        _ => Err(Problem::invalid(&errors)),
    }
}
