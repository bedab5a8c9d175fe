//! The cookie by which a browser finds its holds of an event again, so that nobody is told "sold out" who has the last tickets.

use actix_web::{
    HttpRequest, HttpResponse,
    cookie::{Cookie, SameSite, time::Duration as CookieDuration},
};

use crate::{app::App, clock::seconds_until, ids::OrderId, orders::Order};

/// Name of the cookie.
const COOKIE: &str = "boxoffice_hold";
/// Most holds that are remembered; each costs the event's page a look-up.
const REMEMBERED_MAX: usize = 5;
/// What stands between two holds in the cookie.
const BETWEEN: char = '~';

/// The holds that the browser made of the event, each with the key of its link, the newest first. They may be over by now.
pub(super) fn remembered(request: &HttpRequest) -> Vec<(OrderId, String)> {
    request.cookie(COOKIE).map_or_else(Vec::new, |cookie| parse(cookie.value()))
}

fn parse(value: &str) -> Vec<(OrderId, String)> {
    let hold = |text: &str| {
        let (id, key) = text.split_once('.')?;
        Some((id.parse().ok()?, key.to_owned()))
    };
    value.split(BETWEEN).filter_map(hold).take(REMEMBERED_MAX).collect()
}

/// Lets the browser find this hold again from the event's page, besides those that it has.
pub(super) fn remember(app: &App, request: &HttpRequest, response: &mut HttpResponse, slug: &str, order: &Order) {
    let older = remembered(request).into_iter().filter(|(id, _)| *id != order.id);
    let holds: Vec<_> = std::iter::once((order.id, order.access_key.clone())).chain(older).take(REMEMBERED_MAX).collect();
    let secs = order.expires_at.map_or(0, |until| seconds_until(until, app.clock.now()));
    set(app, response, slug, &holds, secs);
}

/// Takes an order that is no hold any more off the cookie, if it is there.
pub(super) fn forget(app: &App, request: &HttpRequest, response: &mut HttpResponse, slug: &str, order: OrderId) {
    let mut holds = remembered(request);
    let before = holds.len();
    holds.retain(|(id, _)| *id != order);
    if holds.len() < before {
        // None of the others was made for longer than this.
        set(app, response, slug, &holds, app.config.holds.usual_secs.into());
    }
}

fn set(app: &App, response: &mut HttpResponse, slug: &str, holds: &[(OrderId, String)], secs: i64) {
    let value: Vec<String> = holds.iter().map(|(id, key)| format!("{id}.{key}")).collect();
    let max_age = if holds.is_empty() { CookieDuration::ZERO } else { CookieDuration::seconds(secs) };
    let cookie = Cookie::build(COOKIE, value.join(&BETWEEN.to_string()))
        .path(format!("/events/{slug}"))
        .http_only(true)
        .same_site(SameSite::Lax)
        .secure(app.config.secure_cookies)
        .max_age(max_age)
        .finish();
    if let Err(error) = response.add_cookie(&cookie) {
        // Without it Back finds the hold by the form's key all the same.
        tracing::error!(%error, "a cookie could not be set");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_hold_is_left_out_and_there_is_an_end_to_them() {
        let id = OrderId::new();
        assert_eq!(parse(&format!("{id}.key~x.y~~{id}")), [(id, "key".to_owned())]);
        assert_eq!(parse(&vec![format!("{id}.key"); 9].join("~")).len(), REMEMBERED_MAX);
        assert_eq!(parse(""), []);
    }
}
