//! What the on-sale needs before the first buyer comes, and what is known of the machine.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::TcpStream,
    thread,
    time::Duration,
};

use chrono::{DateTime, Utc};
use diesel::PgConnection;
use serde::Serialize;

use super::{
    OnsaleError,
    args::{Plan, Server},
    queries,
    wire::{self, Stage, text_member},
};
use crate::{
    accounts::{self, Scope},
    events::{self, EventError, EventInput, TicketTypeInput, rules::ORDER_LIMIT_DEFAULT},
    ids::{EventId, new_secret},
    inventory::{self, LOAD_TICKETS_MAX, Load, LoadedBy, Stock},
};

/// The ticket type of the event.
const TICKET_TYPE: &str = "standard";
/// Its price, in cents.
const PRICE_MINOR: i64 = 4_500;
/// Letters of a run's name: so many are not drawn twice.
const RUN_LETTERS: usize = 8;
/// Longest wait for a server that is asked whether it is there.
const PROBE_WAIT: Duration = Duration::from_secs(5);
/// Longest answer to that.
const PROBE_BYTES_MAX: u64 = 64 * 1024;

/// Makes a fresh event with its stock, and a partner's key.
pub(super) fn prepare(conn: &mut PgConnection, now: DateTime<Utc>, plan: &Plan) -> Result<(Stage, EventId), OnsaleError> {
    let run: String = new_secret().chars().take(RUN_LETTERS).collect();
    let slug = format!("onsale-{run}");
    let input = EventInput {
        slug: Some(slug.clone()),
        name: Some(format!("On-sale {run}")),
        currency: Some("EUR".to_owned()),
        max_per_order: Some(i64::from(ORDER_LIMIT_DEFAULT).max(i64::from(plan.script.quantity.most))),
        ..EventInput::default()
    };
    let event = input.parse().map_err(EventError::Invalid).and_then(|new| events::create(conn, now, &new))?;
    let input = TicketTypeInput { code: Some(TICKET_TYPE.to_owned()), price_minor: Some(PRICE_MINOR), ..TicketTypeInput::default() };
    events::add_ticket_type(conn, now, &slug, &input)?;
    let mut left = i64::try_from(plan.tickets).unwrap_or(i64::MAX);
    while left > 0 {
        let quantity = left.min(LOAD_TICKETS_MAX);
        let stock = Stock::Count { ticket_type: TICKET_TYPE.to_owned(), quantity };
        inventory::load(conn, now, &Load { event: slug.clone(), stock, by: LoadedBy::CommandLine, key: None, dry_run: false })?;
        left -= quantity;
    }
    let key = accounts::create_partner_key(conn, now, &slug, &[Scope::Read, Scope::Sell])?;
    Ok((Stage { slug, ticket_type: TICKET_TYPE.to_owned(), key, run }, event.id))
}

/// Takes the event off sale, so that nobody finds it on the page of events.
pub(super) fn close(conn: &mut PgConnection, stage: &Stage) -> Result<(), OnsaleError> {
    events::update(conn, &stage.slug, |event| event.state = Some("closed".to_owned()))?;
    Ok(())
}

/// Asks each server for the event: it must be there, and sell from the same database.
pub(super) fn check_servers(plan: &Plan, stage: &Stage) -> Result<(), OnsaleError> {
    plan.servers.iter().try_for_each(|server| check_server(server, stage))
}

fn check_server(server: &Server, stage: &Stage) -> Result<(), OnsaleError> {
    let refuse = |why: String| OnsaleError::Server(server.url.clone(), why);
    let answer = ask(server, &stage.probe(server)).map_err(|error| refuse(error.to_string()))?;
    let head = wire::head(&answer).ok().flatten().ok_or_else(|| refuse("it does not answer as an HTTP server does".to_owned()))?;
    let code = answer.get(head.head_bytes..).and_then(|body| text_member(body, "code")).unwrap_or("no code");
    match head.status {
        200 => Ok(()),
        401 | 404 => {
            Err(refuse(format!("it does not know the event or the key that were just made ({code}): does it use another database?")))
        }
        status => Err(refuse(format!("it answered {status} ({code})"))),
    }
}

fn ask(server: &Server, request: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&server.address, PROBE_WAIT)?;
    stream.set_read_timeout(Some(PROBE_WAIT))?;
    stream.set_write_timeout(Some(PROBE_WAIT))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(PROBE_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(answer)
}

/// The machine, and the database's settings that decide how fast and how safe a commit is.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Machine {
    pub(super) cores: usize,
    pub(super) processor: Option<String>,
    pub(super) system: String,
    pub(super) postgres: BTreeMap<String, String>,
}

/// Looks at the machine.
pub(super) fn machine(conn: &mut PgConnection) -> Result<Machine, OnsaleError> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).and_then(|line| line.split_once(':'));
    Ok(Machine {
        cores: thread::available_parallelism().map_or(1, Into::into),
        processor: model.map(|(_, model)| model.trim().to_owned()),
        system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        postgres: queries::settings(conn)?,
    })
}
