//! Kind `webhook`: delivers one message to one endpoint, signed as Standard Webhooks ask.

use std::{io::Read, net::SocketAddr, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use diesel::PgConnection;
use ureq::{
    Agent,
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver},
        transport::{DefaultConnector, NextTimeout},
    },
};

use super::handler::{Handler, Trouble};
use crate::{
    app::App,
    db::DbError,
    queue::{Claimed, NewJob, Retry},
    webhooks::{self, Endpoint, Message, RESPONSE_BYTES_MAX, Reach, Tried, WEBHOOK, rules},
};

/// Longest time for one delivery, from looking the name up to the end of the answer.
const DELIVERY_TIME_MAX: Duration = Duration::from_secs(10);
/// Longest time for the connection alone.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// Longest time for the body of an answer, of which only the beginning is kept.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);
/// How long an endpoint is left alone that does not answer, beside its message's own pause: at first, and at most.
const REST_SECS: (i64, i64) = (15, 900);
/// The rest becomes this part of the time for which nothing has been taken.
const REST_PART: i32 = 10;

/// Delivers messages.
pub(super) struct Webhook {
    agent: Agent,
}

impl Webhook {
    /// Deliveries to addresses within `reach`.
    #[must_use]
    pub(super) fn new(reach: Reach) -> Self {
        let config = Config::builder()
            .http_status_as_error(false)
            // Where a message goes is what was agreed with the partner, not what its server says.
            .max_redirects(0)
            // A proxy would look names up by itself, past the check.
            .proxy(None)
            .timeout_global(Some(DELIVERY_TIME_MAX))
            .timeout_connect(Some(CONNECT_TIME_MAX))
            .timeout_recv_body(Some(ANSWER_TIME_MAX))
            .max_idle_connections_per_host(2)
            .user_agent(concat!("boxoffice/", env!("CARGO_PKG_VERSION")))
            .build();
        let resolver = Guarded { inner: DefaultResolver::default(), reach };
        Self { agent: Agent::with_parts(config, DefaultConnector::default(), resolver) }
    }

    /// One try.
    fn deliver(&self, app: &App, endpoint: &Endpoint, message: &Message) -> Tried {
        let (id, now) = (format!("msg_{}", message.id), app.clock.now());
        let request = self
            .agent
            .post(&endpoint.url)
            .header("content-type", "application/json")
            .header("webhook-id", &id)
            .header("webhook-timestamp", now.timestamp().to_string())
            .header("webhook-signature", rules::signature(&endpoint.secret, &id, now, &message.body));
        match request.send(&message.body) {
            Ok(mut response) => {
                let status = response.status().as_u16();
                let mut beginning = Vec::new();
                let most = u64::try_from(RESPONSE_BYTES_MAX).unwrap_or(u64::MAX);
                // The status is the answer; a body that breaks off changes nothing about it.
                let _ = response.body_mut().as_reader().take(most).read_to_end(&mut beginning);
                Tried::Answered(status, String::from_utf8_lossy(&beginning).into_owned())
            }
            Err(error) => Tried::Unanswered(in_words(&error)),
        }
    }
}

impl Handler for Webhook {
    fn kind(&self) -> &'static str {
        WEBHOOK
    }

    fn retry(&self) -> Retry {
        // About five days: a receiver that is down over a long weekend loses nothing.
        Retry { attempts_max: 20, first_pause: TimeDelta::seconds(5), pause_max: TimeDelta::hours(12) }
    }

    fn threads_in_all(&self, threads: usize) -> usize {
        threads.div_ceil(2)
    }

    fn has_lane_of_its_own(&self) -> bool {
        false
    }

    fn tidy(&self, conn: &mut PgConnection, now: DateTime<Utc>) -> Result<(), DbError> {
        webhooks::prune(conn, now)
    }

    fn work(&self, app: &App, job: &Claimed) -> Result<Vec<NewJob>, Trouble> {
        let message: Message = serde_json::from_value(job.payload.clone()).map_err(|error| Trouble::payload(&error))?;
        let endpoint = app.db.run_here(|conn| webhooks::endpoint(conn, message.endpoint))?;
        // Deleted meanwhile: there is nobody to tell.
        let Some(endpoint) = endpoint else { return Ok(Vec::new()) };
        if let Some((_, reason)) = &endpoint.disabled {
            // It was claimed just before that, and waits like the rest of its lane.
            return Err(Trouble::Passing(format!("the endpoint is disabled: {reason}")));
        }
        let tried = self.deliver(app, &endpoint, &message);
        let is_last = tried.is_gone() || job.attempt >= self.retry().attempts_max;
        app.db.run_here(|conn| webhooks::note(conn, app.clock.now(), job.event, &message, &endpoint, &tried, is_last))?;
        let why = match &tried {
            tried if tried.is_taken() => return Ok(Vec::new()),
            Tried::Answered(status, _) => format!("it answered {status}"),
            Tried::Unanswered(why) => why.clone(),
        };
        Err(match (is_last, tried.is_unanswered()) {
            (true, _) => Trouble::Lasting(why),
            (false, true) => Trouble::Receiver { why, rest: rest(endpoint.failing_since, app.clock.now()) },
            (false, false) => Trouble::Passing(why),
        })
    }
}

/// Why there was no answer, for the partner who reads the log.
fn in_words(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => format!("it did not answer within {} seconds", DELIVERY_TIME_MAX.as_secs()),
        ureq::Error::HostNotFound => "its name is not known".to_owned(),
        ureq::Error::BadUri(why) => why.clone(),
        ureq::Error::Io(error) => format!("the connection failed: {error}"),
        other => other.to_string(),
    }
}

/// How long an endpoint rests that has taken nothing since then. What failed for hours is not asked every minute by thousands of messages.
fn rest(failing_since: Option<DateTime<Utc>>, now: DateTime<Utc>) -> TimeDelta {
    let (least, most) = (TimeDelta::seconds(REST_SECS.0), TimeDelta::seconds(REST_SECS.1));
    failing_since.map_or(least, |since| (now - since) / REST_PART).clamp(least, most)
}

/// Looks names up and leaves out the addresses that must not be reached. It is the connection's own look-up, so that a name cannot mean one
/// address when it is checked and another when it is used.
#[derive(Debug)]
struct Guarded {
    inner: DefaultResolver,
    reach: Reach,
}

impl Resolver for Guarded {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.inner.resolve(uri, config, timeout)?;
        let mut allowed = self.empty();
        for address in found.iter().filter(|address: &&SocketAddr| rules::may_reach(address.ip(), self.reach)) {
            allowed.push(*address);
        }
        if allowed.is_empty() {
            return Err(ureq::Error::BadUri("the address is not a public one".to_owned()));
        }
        Ok(allowed)
    }
}
