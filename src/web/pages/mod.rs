//! The pages: HTML for people. They work without a script; the one there is counts a hold down.
//!
//! A handler parses, calls one operation, renders. What a template shows is put together here, as text, so that templates only place it.

pub mod admin;
pub mod admin_order;
pub mod assets;
mod basket;
mod dashboard;
mod event_form;
pub mod events;
mod form;
pub mod inventory;
pub mod jobs;
pub mod login;
pub mod order;
mod order_changes;
pub mod orders;
mod own_holds;
mod refusal;

use actix_web::{
    HttpResponse,
    body::BoxBody,
    http::{StatusCode, header},
};
use askama::Template;

use super::error::Problem;

/// Nothing but our own style sheet, script and pictures is loaded, nothing frames us, and forms go nowhere else.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// How long a browser may keep a page.
#[derive(Clone, Copy)]
enum Keep {
    /// Back shows it again as it was, with the key of its form; everything else asks again.
    ForBack,
    /// Not at all: it shows what only its reader may see.
    Nothing,
}

impl Keep {
    fn header(self) -> &'static str {
        match self {
            Self::ForBack => "private, no-cache",
            Self::Nothing => "no-store",
        }
    }
}

/// A page, with the headers of every page.
fn page(status: StatusCode, keep: Keep, template: &impl Template) -> Result<HttpResponse, Problem> {
    let html = template.render().map_err(|error| {
        tracing::error!(%error, "a template failed");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "Something went wrong on our side. Nothing was lost; please try again.")
    })?;
    Ok(html_response(status, keep, html))
}

fn html_response(status: StatusCode, keep: Keep, html: String) -> HttpResponse {
    HttpResponse::build(status)
        .content_type("text/html; charset=utf-8")
        .insert_header((header::CACHE_CONTROL, keep.header()))
        .insert_header((header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY))
        .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        // The address of an order is its key, so no page tells anyone where its reader came from.
        .insert_header((header::REFERRER_POLICY, "no-referrer"))
        .body(html)
}

/// "See there": what follows a form that was carried out, so that a refresh does not send it again.
fn see_other(location: &str) -> HttpResponse {
    HttpResponse::SeeOther()
        .insert_header((header::LOCATION, location))
        .insert_header((header::CACHE_CONTROL, Keep::Nothing.header()))
        .insert_header((header::REFERRER_POLICY, "no-referrer"))
        .finish()
}

/// `1 ticket`, `2 tickets`, `1,000 tickets`.
fn tickets(count: i64) -> String {
    counted(count, "ticket", "tickets")
}

fn counted(count: i64, one: &str, many: &str) -> String {
    format!("{} {}", number(count), if count == 1 { one } else { many })
}

/// A count as people write it; there are no negative ones.
fn number(count: i64) -> String {
    crate::money::grouped(u64::try_from(count).unwrap_or(0))
}

/// What part of `whole` is `part`, in thousandths: the width of a bar. Whatever is there at all can be seen.
fn thousandths(part: i64, whole: i64) -> i64 {
    if part <= 0 || whole <= 0 { 0 } else { (part.saturating_mul(1_000) / whole).clamp(10, 1_000) }
}

/// How wide the parts of a bar are, in thousandths. Together they fill it: what is hardly there is seen too, at the cost of the largest.
fn widths(counts: &[i64]) -> Vec<i64> {
    let whole = counts.iter().fold(0_i64, |sum, count| sum.saturating_add(*count));
    let mut widths: Vec<i64> = counts.iter().map(|count| thousandths(*count, whole)).collect();
    let rest = if whole == 0 { 0 } else { 1_000 - widths.iter().sum::<i64>() };
    if let Some(largest) = widths.iter_mut().max() {
        *largest += rest;
    }
    widths
}

/// Whatever is not in [`super::routes`].
pub(super) async fn not_found() -> Result<HttpResponse, Problem> {
    Err(Problem::not_found("There is nothing at this address."))
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage<'a> {
    status: u16,
    title: &'a str,
    what: &'a str,
    then: &'a str,
    try_again: bool,
    request_id: &'a str,
}

/// The page of a problem.
#[must_use]
pub fn problem(problem: &Problem, request_id: &str) -> HttpResponse<BoxBody> {
    let (title, then) = words(problem.status);
    let ours = problem.status.is_server_error();
    // What is said to programs ("retry with the same key") is of no use to a reader.
    let what = if ours { ours_to_say(problem.code) } else { problem.detail.as_str() };
    let template = ProblemPage { status: problem.status.as_u16(), title, what, then, try_again: ours, request_id };
    page(problem.status, Keep::Nothing, &template).unwrap_or_else(|_| html_response(problem.status, Keep::Nothing, title.to_owned()))
}

/// What happened, and what to do about it.
fn words(status: StatusCode) -> (&'static str, &'static str) {
    match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => (
            "We cannot find that page",
            "Check the address: a link that was copied in part does not work. All events are on the first page.",
        ),
        StatusCode::METHOD_NOT_ALLOWED => ("That address does not work like that", "Go back, or start from the first page."),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            ("That is not allowed", "If you should be able to do this, log in again and retry.")
        }
        StatusCode::REQUEST_TIMEOUT => ("That took too long", "Check your connection, go back, and send it again."),
        StatusCode::PAYLOAD_TOO_LARGE => ("That is too large", "Go back and send less at once: a large file can be split in two."),
        StatusCode::TOO_MANY_REQUESTS => ("A little slower, please", "Wait a minute, then try again."),
        StatusCode::SERVICE_UNAVAILABLE => ("Just a moment", "Wait a few seconds, then try again."),
        status if status.is_server_error() => {
            ("Something went wrong", "Try again. If it happens again, tell the organiser, with the number below.")
        }
        _ => ("We could not read that", "Go back, check what you entered, and send it again."),
    }
}

fn ours_to_say(code: &str) -> &'static str {
    match code {
        "busy" => "A lot is going on at this moment, and your turn did not come in time.",
        "unavailable" => "The box office is not available at this moment.",
        _ => "This is our fault, not yours.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_read_as_people_say_them() {
        assert_eq!(tickets(1), "1 ticket");
        assert_eq!(tickets(0), "0 tickets");
        assert_eq!(tickets(12_345), "12,345 tickets");
    }

    #[test]
    fn one_of_a_million_can_still_be_seen() {
        assert_eq!(thousandths(0, 100), 0);
        assert_eq!(thousandths(1, 1_000_000), 10);
        assert_eq!(thousandths(50, 100), 500);
        assert_eq!(thousandths(7, 5), 1_000);
        assert_eq!(thousandths(7, 0), 0);
    }

    #[test]
    fn the_parts_of_a_bar_fill_it_and_all_of_them_are_seen() {
        assert_eq!(widths(&[0, 0]), [0, 0]);
        assert_eq!(widths(&[2, 1, 1]), [500, 250, 250]);
        assert_eq!(widths(&[1_000_000, 1, 0, 1]), [980, 10, 0, 10]);
        assert_eq!(widths(&[1, 1, 1]).iter().sum::<i64>(), 1_000);
    }
}
