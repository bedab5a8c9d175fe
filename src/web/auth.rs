//! Who is calling: partners by key, admins by cookie.

use actix_web::{
    HttpRequest,
    cookie::{Cookie, SameSite, time::Duration as CookieDuration},
    http::header,
};

use super::error::Problem;
use crate::{
    accounts::{self, AdminSession, Partner, SESSION_HOURS, Scope},
    app::App,
    ids::same_secret,
};

/// Name of the admins' cookie.
const COOKIE: &str = "boxoffice_admin";

/// The partner whose key the request carries, if the key may do what `scope` says.
///
/// # Errors
/// 401 without a known key, 403 if the key may not.
pub(super) async fn partner(app: &App, request: &HttpRequest, scope: Scope) -> Result<Partner, Problem> {
    let key = bearer(request).ok_or_else(|| Problem::unauthorized("Send the partner's key: \"Authorization: Bearer KEY\"."))?;
    let partner = app.keys.partner(&app.db, key).await?;
    let partner = partner.ok_or_else(|| Problem::unauthorized("The key is not known: check that it was copied whole."))?;
    if !partner.may(scope) {
        return Err(Problem::forbidden(format!("This key does not have the scope {:?}.", scope.name())));
    }
    Ok(partner)
}

fn bearer(request: &HttpRequest) -> Option<&str> {
    let value = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, key) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

/// The session that the request's cookie stands for.
///
/// # Errors
/// The database's.
pub(super) async fn admin(app: &App, request: &HttpRequest) -> Result<Option<AdminSession>, Problem> {
    let Some(token) = session_token(request) else { return Ok(None) };
    let now = app.clock.now();
    Ok(app.db.run(move |conn| accounts::session(conn, now, &token)).await?)
}

/// The value of the session's cookie.
pub(super) fn session_token(request: &HttpRequest) -> Option<String> {
    request.cookie(COOKIE).map(|cookie| cookie.value().to_owned())
}

/// Refuses a form that the session's own pages did not make.
///
/// # Errors
/// 403.
pub(super) fn check_csrf(session: &AdminSession, sent: &str) -> Result<(), Problem> {
    if same_secret(&session.csrf_token, sent) {
        return Ok(());
    }
    Err(Problem::forbidden("The form is from another session: go back, reload the page, and send it again."))
}

/// The cookie of a new session.
pub(super) fn session_cookie(app: &App, token: String) -> Cookie<'static> {
    cookie(app, token, CookieDuration::hours(SESSION_HOURS))
}

/// The cookie that ends a session in the browser.
pub(super) fn no_session_cookie(app: &App) -> Cookie<'static> {
    cookie(app, String::new(), CookieDuration::ZERO)
}

fn cookie(app: &App, value: String, max_age: CookieDuration) -> Cookie<'static> {
    Cookie::build(COOKIE, value)
        .path("/admin")
        .http_only(true)
        .same_site(SameSite::Lax)
        .secure(app.config.secure_cookies)
        .max_age(max_age)
        .finish()
}
