//! The page of jobs: what each lane has to do, what failed, and the buttons that hold a lane up and put a job back.

use std::collections::{HashMap, HashSet};

use actix_web::{
    HttpRequest, HttpResponse,
    http::StatusCode,
    web::{Data, Path, Payload, Query},
};
use askama::Template;
use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::{
    Keep, counted,
    login::{self, Frame},
    number, page, see_other, widths,
};
use crate::{
    accounts,
    app::App,
    db::DbError,
    events,
    ids::{EventId, OrderId, PartnerId},
    input::FieldErrors,
    queue::{self, Failure, LaneState, PutBack},
    web::error::Problem,
    webhooks::{self, Endpoint},
    when::span,
};

/// Most failures on the page. Whoever has more has one cause for many of them.
const FAILURES_MAX: usize = 50;
/// Most letters of an error on the page; some receivers answer with a whole page of theirs.
const ERROR_LETTERS_MAX: usize = 300;

#[derive(Template)]
#[template(path = "admin/jobs.html")]
struct JobsPage {
    frame: Frame,
    done: &'static str,
    lanes: Vec<LaneCard>,
    failures: Vec<FailureLine>,
    failures_title: String,
    more: String,
}

/// A lane, with its bar.
struct LaneCard {
    name: String,
    title: String,
    state: &'static str,
    tone: &'static str,
    is_paused: bool,
    parts: Vec<Part>,
    oldest: String,
    /// Where its jobs go, and whose that is; of a lane for one receiver only.
    receiver: Option<String>,
    /// What the button says that puts back what was given up.
    retry_all: Option<String>,
}

/// A state's part of a lane's bar, with where it begins and how wide it is, in thousandths.
struct Part {
    class: &'static str,
    words: String,
    start: i64,
    width: i64,
}

/// A job that failed.
struct FailureLine {
    event: String,
    id: String,
    job: String,
    /// The page of the order that it is about.
    order: Option<String>,
    tries: String,
    error: String,
    next: String,
    is_given_up: bool,
}

#[derive(Deserialize)]
pub(in crate::web) struct DoneQuery {
    done: Option<String>,
}

/// `GET /admin/jobs`.
pub(in crate::web) async fn show(app: Data<App>, request: HttpRequest, query: Query<DoneQuery>) -> Result<HttpResponse, Problem> {
    let session = match login::admin(&app, &request).await? {
        Ok(session) => session,
        Err(to_login) => return Ok(to_login),
    };
    let now = app.clock.now();
    // One more than are shown, to know whether there are more.
    let count = i64::try_from(FAILURES_MAX + 1).unwrap_or(i64::MAX);
    let (lanes, mut failures, known) = app
        .db
        .run(move |conn| {
            let (lanes, failures) = (queue::lanes(conn, now)?, queue::failures(conn, count)?);
            let about: Vec<EventId> = failures.iter().map(|failure| failure.event).collect();
            let known = Known::new(webhooks::by_lane(conn)?, &accounts::partner_names(conn)?, events::slugs(conn, &about)?);
            Ok::<_, DbError>((lanes, failures, known))
        })
        .await?;
    let more = if failures.len() > FAILURES_MAX { format!("These are the first {FAILURES_MAX}; there are more.") } else { String::new() };
    failures.truncate(FAILURES_MAX);
    let stands_still = |lane: &&LaneState| lane.paused_at.is_some() || lane.rests_until.is_some_and(|until| until > now);
    let still: HashSet<&str> = lanes.iter().filter(stands_still).map(|lane| lane.name.as_str()).collect();
    let lines = failures.into_iter().map(|failure| FailureLine::new(now, still.contains(failure.lane.as_str()), &known, failure)).collect();
    let template = JobsPage {
        frame: (&session).into(),
        done: done_text(query.into_inner().done.as_deref()),
        failures: lines,
        failures_title: failures_title(lanes.iter().map(|lane| lane.failed).sum()),
        lanes: lanes.into_iter().map(|lane| LaneCard::new(now, &known, lane)).collect(),
        more,
    };
    page(StatusCode::OK, Keep::Nothing, &template)
}

fn done_text(done: Option<&str>) -> &'static str {
    match done {
        Some("paused") => "The lane is paused. What is at work is finished, and nothing more is taken until you resume it.",
        Some("resumed") => "The lane goes on.",
        Some("retried") => "The job waits again, with all its tries.",
        Some("all-retried") => "What was given up in that lane waits again, with all its tries.",
        Some("none-given-up") => "Nothing to do: nothing is given up in that lane, or somebody has put it back already.",
        Some("not-given-up") => "Nothing to do: that job is not given up, or somebody has put it back already.",
        _ => "",
    }
}

fn failures_title(given_up: i64) -> String {
    if given_up == 0 { "Failures".to_owned() } else { format!("Failures: {} given up", counted(given_up, "job", "jobs")) }
}

/// `GET` of an address that only takes a form: where the address bar stands after the log-in that came between.
pub(in crate::web) async fn to_jobs() -> Result<HttpResponse, Problem> {
    Ok(see_other("/admin/jobs"))
}

/// `POST /admin/jobs/lanes/{lane}`: pauses a lane or lets it go on.
pub(in crate::web) async fn set_paused(
    app: Data<App>,
    request: HttpRequest,
    lane: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let (_, form) = match login::admin_form(&app, &request, payload).await? {
        Ok(sent) => sent,
        Err(to_login) => return Ok(to_login),
    };
    // The form says which of the two is wanted, so that a second click or an old page does not undo the first.
    let (paused, done) = match form.text("paused") {
        "true" => (true, "paused"),
        "false" => (false, "resumed"),
        _ => return Err(Problem::invalid(&FieldErrors::one("paused", "must be true or false"))),
    };
    let (now, lane) = (app.clock.now(), lane.into_inner());
    let name = lane.clone();
    if !app.db.run(move |conn| queue::set_paused(conn, now, &name, paused)).await? {
        return Err(Problem::not_found("There is no such lane."));
    }
    if !paused {
        app.desk.wake().wake(&lane);
    }
    Ok(see_other(&format!("/admin/jobs?done={done}")))
}

/// `POST /admin/jobs/lanes/{lane}/retry`: puts back all that was given up in a lane until now.
pub(in crate::web) async fn retry_all(
    app: Data<App>,
    request: HttpRequest,
    lane: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    match login::admin_form(&app, &request, payload).await? {
        Ok(_) => {}
        Err(to_login) => return Ok(to_login),
    }
    let (now, lane) = (app.clock.now(), lane.into_inner());
    // Some at a time, so that no transaction is a long one. What is given up anew meanwhile is not asked again.
    let mut done = "none-given-up";
    loop {
        let name = lane.clone();
        if app.db.run(move |conn| queue::retry_all_failed(conn, now, &name)).await? == 0 {
            return Ok(see_other(&format!("/admin/jobs?done={done}")));
        }
        done = "all-retried";
        app.desk.wake().wake(&lane);
    }
}

/// `POST /admin/jobs/{event}/{id}/retry`: puts a job back that was given up.
pub(in crate::web) async fn retry(
    app: Data<App>,
    request: HttpRequest,
    path: Path<(String, String)>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    match login::admin_form(&app, &request, payload).await? {
        Ok(_) => {}
        Err(to_login) => return Ok(to_login),
    }
    let unknown = || Problem::not_found("There is no such job.");
    let (event, id) = path.into_inner();
    let (event, id) = (event.parse().map_err(|_| unknown())?, id.parse().map_err(|_| unknown())?);
    let now = app.clock.now();
    match app.db.run(move |conn| queue::retry_failed(conn, now, event, id)).await? {
        PutBack::In(lane) => {
            app.desk.wake().wake(&lane);
            Ok(see_other("/admin/jobs?done=retried"))
        }
        PutBack::NotGivenUp => Ok(see_other("/admin/jobs?done=not-given-up")),
        PutBack::Unknown => Err(unknown()),
    }
}

/// What the names and payloads of jobs mean to people.
struct Known {
    /// Where the messages of a lane go, whose that is, and why it is told nothing.
    receivers: HashMap<String, Receiver>,
    slugs: HashMap<EventId, String>,
}

struct Receiver {
    url: String,
    partner: String,
    disabled: Option<String>,
}

impl Known {
    fn new(endpoints: HashMap<String, Endpoint>, partners: &HashMap<PartnerId, String>, slugs: HashMap<EventId, String>) -> Self {
        let receiver = |endpoint: Endpoint| Receiver {
            partner: partners.get(&endpoint.partner).cloned().unwrap_or_default(),
            url: endpoint.url,
            disabled: endpoint.disabled.map(|(_, why)| why),
        };
        Self { receivers: endpoints.into_iter().map(|(lane, endpoint)| (lane, receiver(endpoint))).collect(), slugs }
    }

    /// The admin's page of the order that a job is about.
    fn order_of(&self, failure: &Failure) -> Option<String> {
        let slug = self.slugs.get(&failure.event)?;
        let order: OrderId = failure.payload.get("order")?.as_str()?.parse().ok()?;
        Some(format!("/admin/events/{slug}/orders/{order}"))
    }
}

impl LaneCard {
    fn new(now: DateTime<Utc>, known: &Known, lane: LaneState) -> Self {
        let receiver = known.receivers.get(&lane.name);
        let rests = lane.rests_until.is_some_and(|until| until > now);
        let is_disabled = receiver.is_some_and(|receiver| receiver.disabled.is_some());
        let (state, tone) = match (lane.paused_at, lane.working, lane.created) {
            (Some(_), ..) => ("Paused", "soon"),
            _ if is_disabled => ("Disabled", "bad"),
            (None, 1.., _) => ("At work", "good"),
            (None, _, 1..) if rests => ("Resting", "soon"),
            (None, _, 1..) => ("Waiting", "quiet"),
            _ => ("Idle", "quiet"),
        };
        Self {
            // The id of a receiver says nothing to people, but where nothing else is known of it.
            title: words(if receiver.is_some() { lane.name.split(':').next().unwrap_or_default() } else { &lane.name }),
            state,
            tone,
            is_paused: lane.paused_at.is_some(),
            parts: parts(&lane),
            oldest: oldest(now, is_disabled, &lane),
            receiver: receiver.map(|receiver| {
                let disabled = receiver.disabled.as_ref().map(|why| format!(" Told nothing: {why}.")).unwrap_or_default();
                format!("{}, of {}.{disabled}", receiver.url, receiver.partner)
            }),
            retry_all: (lane.failed > 0).then(|| format!("Retry {} given up", number(lane.failed))),
            name: lane.name,
        }
    }
}

fn parts(lane: &LaneState) -> Vec<Part> {
    let states = [
        ("done", "done", lane.done),
        ("working", "at work", lane.working),
        ("created", "waiting", lane.created),
        ("failed", "given up", lane.failed),
    ];
    let mut start = 0;
    let part = |((class, label, count), width): ((&'static str, &str, i64), i64)| {
        let part = Part { class, words: format!("{} {label}", number(count)), start, width };
        start += width;
        part
    };
    states.into_iter().zip(widths(&states.map(|(_, _, count)| count))).map(part).collect()
}

/// How long the lane is paused, and how long somebody waits.
fn oldest(now: DateTime<Utc>, is_disabled: bool, lane: &LaneState) -> String {
    let paused = lane.paused_at.map(|since| format!("Paused for {}.", span(now - since)));
    let rests = lane.rests_until.filter(|until| *until > now && lane.created > 0);
    let rests = rests.map(|until| match is_disabled {
        true => "What waits goes out when the endpoint is enabled.".to_owned(),
        false => format!("It did not answer, and is tried again in {}.", span(until - now)),
    });
    let waits = match lane.oldest {
        Some(since) => format!("The oldest has waited {}.", span(now - since)),
        None if lane.created > 0 => "What waits is not due yet.".to_owned(),
        None => "Nothing waits.".to_owned(),
    };
    paused.into_iter().chain(rests).chain([waits]).collect::<Vec<_>>().join(" ")
}

impl FailureLine {
    fn new(now: DateTime<Utc>, lane_stands_still: bool, known: &Known, failure: Failure) -> Self {
        let order = known.order_of(&failure);
        let next = match failure.next {
            None => "Given up".to_owned(),
            Some(_) if lane_stands_still => "When its lane goes on".to_owned(),
            Some(at) if at <= now => "Now".to_owned(),
            Some(at) => format!("In {}", span(at - now)),
        };
        // A lane is named after its kind, and tells more if it is for one receiver.
        let job = match known.receivers.get(&failure.lane) {
            Some(receiver) => format!("{} to {}", words(&failure.kind), receiver.url),
            None if failure.lane.split(':').next() == Some(&failure.kind) => words(&failure.lane),
            None => words(&failure.kind),
        };
        Self {
            event: failure.event.to_string(),
            id: failure.id.to_string(),
            job,
            order,
            tries: if failure.attempts == 0 { "0, put back".to_owned() } else { number(failure.attempts.into()) },
            error: shortened(&failure.error),
            next,
            is_given_up: failure.next.is_none(),
        }
    }
}

fn shortened(error: &str) -> String {
    match error.char_indices().nth(ERROR_LETTERS_MAX) {
        Some((end, _)) => format!("{}…", error.get(..end).unwrap_or_default()),
        None => error.to_owned(),
    }
}

/// The name of a lane or a kind as people read it: `order_changes` is "Order changes". A receiver's name stays as it is.
fn words(name: &str) -> String {
    let (kind, receiver) = name.split_once(':').map_or((name, ""), |(kind, receiver)| (kind, receiver));
    let kind = kind.replace('_', " ");
    let mut letters = kind.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{} {receiver}", letters.as_str()).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_as_people_write_them() {
        assert_eq!([words("order_changes"), words("confirmation"), words("")], ["Order changes", "Confirmation", ""]);
        assert_eq!(words("webhook:a_b:c"), "Webhook a_b:c");
    }

    #[test]
    fn an_error_is_shortened_between_letters() {
        assert_eq!(shortened("no"), "no");
        let long = shortened(&"é".repeat(ERROR_LETTERS_MAX + 1));
        assert_eq!(long, format!("{}…", "é".repeat(ERROR_LETTERS_MAX)));
    }
}
