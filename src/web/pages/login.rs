//! Letting admins in: the one-time link of the first, the log-in form, and out again.

use std::time::Duration;

use actix_web::{
    HttpRequest, HttpResponse,
    http::StatusCode,
    web::{Data, Payload, Query},
};
use askama::Template;
use serde::Deserialize;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

use super::{
    Keep,
    form::{Filled, Form},
    page, see_other,
};
use crate::{
    accounts::{self, AccountError, AdminInput, AdminSession},
    app::App,
    ids::same_secret,
    input::FieldErrors,
    web::{
        auth,
        error::{self, Problem},
    },
};

/// Passwords that are hashed at the same time. Each takes 19 MiB and most of a core, and anybody may ask for one: without this
/// bound a flood of log-ins would take the machine, and every connection to the database.
static HASHERS: Semaphore = Semaphore::const_new(2);
/// Longest wait for a turn; after it, the answer is "try again".
const HASH_WAIT: Duration = Duration::from_secs(3);
/// When to try again after that, in seconds.
const RETRY_SECS: u32 = 2;
/// Where admins begin.
const HOME: &str = "/admin";

async fn turn_to_hash() -> Result<SemaphorePermit<'static>, Problem> {
    match timeout(HASH_WAIT, HASHERS.acquire()).await {
        Ok(Ok(permit)) => Ok(permit),
        _ => {
            let mut busy = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "Many people are logging in at this moment.");
            busy.retry_after_secs = Some(RETRY_SECS);
            Err(busy)
        }
    }
}

/// The admin that asks, or the answer that leads to the log-in form and back.
pub(super) async fn admin(app: &App, request: &HttpRequest) -> Result<Result<AdminSession, HttpResponse>, Problem> {
    let session = auth::admin(app, request).await?;
    Ok(session.ok_or_else(|| see_other(&format!("{HOME}/login?next={}", request.path()))))
}

/// The admin who sends a form of their own session, and the form; or the answer that leads to the log-in form.
pub(super) async fn admin_form(
    app: &App,
    request: &HttpRequest,
    payload: Payload,
) -> Result<Result<(AdminSession, Form), HttpResponse>, Problem> {
    let session = match admin(app, request).await? {
        Ok(session) => session,
        Err(to_login) => return Ok(Err(to_login)),
    };
    let form = Form::read(app, request, payload).await?;
    auth::check_csrf(&session, form.text("csrf_token"))?;
    Ok(Ok((session, form)))
}

/// Who is logged in, for the top of an admin's page.
pub(super) struct Frame {
    pub(super) email: String,
    pub(super) csrf_token: String,
}

impl From<&AdminSession> for Frame {
    fn from(session: &AdminSession) -> Self {
        Self { email: session.email.clone(), csrf_token: session.csrf_token.clone() }
    }
}

#[derive(Deserialize)]
pub(in crate::web) struct NextQuery {
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "admin/login.html")]
struct LoginPage<'a> {
    next: &'a str,
    email: &'a str,
    error: &'a str,
    has_admin: bool,
}

/// Where to go after the log-in: only to our own admin pages, whatever the link said.
fn local(next: &str) -> &str {
    let is_ours = next == HOME || next.starts_with("/admin/");
    let is_plain = next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_ours && is_plain && next != "/admin/login" { next } else { HOME }
}

/// `GET /admin/login`.
pub(in crate::web) async fn form(app: Data<App>, request: HttpRequest, query: Query<NextQuery>) -> Result<HttpResponse, Problem> {
    let next = query.into_inner().next.unwrap_or_default();
    if auth::admin(&app, &request).await?.is_some() {
        return Ok(see_other(local(&next)));
    }
    let has_admin = app.db.run(accounts::any_admin).await?;
    page(StatusCode::OK, Keep::Nothing, &LoginPage { next: local(&next), email: "", error: "", has_admin })
}

/// `POST /admin/login`.
pub(in crate::web) async fn log_in(app: Data<App>, request: HttpRequest, payload: Payload) -> Result<HttpResponse, Problem> {
    let form = Form::read(&app, &request, payload).await?;
    let (email, password, now) = (form.text("email").to_owned(), form.raw("password").to_owned(), app.clock.now());
    let turn = turn_to_hash().await?;
    let token = app.db.run(move |conn| {
        // The turn ends with the work, not with the caller's patience.
        let _turn = turn;
        accounts::log_in(conn, now, &email, &password)
    });
    match token.await {
        Ok(token) => Ok(welcome(&app, token, local(form.text("next")))),
        Err(AccountError::WrongLogin) => {
            let error = "The e-mail address or the password is wrong.";
            let template = LoginPage { next: local(form.text("next")), email: form.text("email"), error, has_admin: true };
            page(StatusCode::UNAUTHORIZED, Keep::Nothing, &template)
        }
        Err(error) => Err(error.into()),
    }
}

fn welcome(app: &App, token: String, to: &str) -> HttpResponse {
    let mut response = see_other(to);
    // A cookie that cannot be written leaves the admin at the log-in form again.
    if let Err(error) = response.add_cookie(&auth::session_cookie(app, token)) {
        tracing::error!(%error, "the session's cookie could not be set");
    }
    response
}

/// `POST /admin/logout`.
pub(in crate::web) async fn log_out(app: Data<App>, request: HttpRequest, payload: Payload) -> Result<HttpResponse, Problem> {
    let form = Form::read(&app, &request, payload).await?;
    if let (Some(session), Some(token)) = (auth::admin(&app, &request).await?, auth::session_token(&request)) {
        auth::check_csrf(&session, form.text("csrf_token"))?;
        app.db.run(move |conn| accounts::log_out(conn, &token)).await?;
    }
    let mut response = see_other("/admin/login");
    if let Err(error) = response.add_cookie(&auth::no_session_cookie(&app)) {
        tracing::error!(%error, "the session's cookie could not be removed");
    }
    Ok(response)
}

#[derive(Deserialize)]
pub(in crate::web) struct TokenQuery {
    token: Option<String>,
}

#[derive(Template)]
#[template(path = "admin/setup.html")]
struct SetupPage<'a> {
    token: &'a str,
    form: Filled,
}

#[derive(Template)]
#[template(path = "admin/spent.html")]
struct SpentPage {
    has_admin: bool,
}

fn spent(has_admin: bool) -> Result<HttpResponse, Problem> {
    page(StatusCode::FORBIDDEN, Keep::Nothing, &SpentPage { has_admin })
}

fn is_right(app: &App, token: &str) -> bool {
    !app.setup_token.is_empty() && same_secret(&app.setup_token, token)
}

/// `GET /admin/setup?token=…`: the form that makes the first admin.
pub(in crate::web) async fn setup_form(app: Data<App>, query: Query<TokenQuery>) -> Result<HttpResponse, Problem> {
    let token = query.into_inner().token.unwrap_or_default();
    let has_admin = app.db.run(accounts::any_admin).await?;
    if has_admin || !is_right(&app, &token) {
        return spent(has_admin);
    }
    page(StatusCode::OK, Keep::Nothing, &SetupPage { token: &token, form: Filled::default() })
}

/// `POST /admin/setup`: makes the first admin, and lets them in.
pub(in crate::web) async fn set_up(app: Data<App>, request: HttpRequest, payload: Payload) -> Result<HttpResponse, Problem> {
    let form = Form::read(&app, &request, payload).await?;
    if !is_right(&app, form.text("token")) {
        return spent(app.db.run(accounts::any_admin).await?);
    }
    let input = AdminInput { email: form.text("email").to_owned(), password: form.raw("password").to_owned() };
    let new = match input.parse() {
        Ok(new) => new,
        Err(errors) => return setup_again(&form, errors),
    };
    let now = app.clock.now();
    let turn = turn_to_hash().await?;
    let token = app.db.run(move |conn| {
        let _turn = turn;
        let admin = accounts::set_first_admin(conn, now, &new)?;
        accounts::open_session(conn, now, admin)
    });
    match token.await {
        Ok(token) => Ok(welcome(&app, token, HOME)),
        Err(AccountError::AlreadySetUp) => spent(true),
        Err(error) => Err(error.into()),
    }
}

fn setup_again(form: &Form, errors: FieldErrors) -> Result<HttpResponse, Problem> {
    let problem = Problem::invalid(&errors);
    error::log(&problem);
    let filled = Filled::new(form.clone(), errors);
    page(problem.status, Keep::Nothing, &SetupPage { token: form.text("token"), form: filled })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_the_log_in_nobody_is_led_away() {
        assert_eq!(local("/admin/events/gala?done=saved"), "/admin/events/gala?done=saved");
        for elsewhere in
            ["", "https://evil.example", "//evil.example", "/\\evil.example", "/admin.evil", "/admin\r\nX: y", "/events", "/admin/login"]
        {
            assert_eq!(local(elsewhere), "/admin", "{elsewhere:?}");
        }
    }
}
