//! For whoever watches the process.

use actix_web::{HttpResponse, web::Data};

use super::error::Problem;
use crate::app::App;

/// `GET /livez`: the process answers. A database that is away is no reason to kill it.
pub(super) async fn live() -> HttpResponse {
    HttpResponse::Ok().content_type("text/plain; charset=utf-8").body("ok\n")
}

/// `GET /readyz`: it can serve, since the database answers. 503 otherwise.
pub(super) async fn ready(app: Data<App>) -> Result<HttpResponse, Problem> {
    app.db.check().await?;
    Ok(HttpResponse::Ok().content_type("text/plain; charset=utf-8").body("ok\n"))
}
