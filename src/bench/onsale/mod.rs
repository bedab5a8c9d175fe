//! `boxoffice bench onsale`: an on-sale against running servers, over HTTP, with every answer compared with the database afterwards.
//!
//! The load is *open*: buyers arrive by the clock, whether or not those before them were answered, and how long one waits is counted
//! from the moment that buyer meant to send. A server that stalls is measured by all who came meanwhile, not by the few who were let
//! in.
//!
//! | room | what lives there |
//! |---|---|
//! | `args` | the options, checked |
//! | `script` | who comes and what they do, drawn from the seed |
//! | `stage` | the event, its stock, the machine |
//! | `drive/` | the load: threads, connections, the clock |
//! | `wire` | requests as bytes, answers from bytes |
//! | `record` | what became of every request |
//! | `reconcile` | every answer against the database |
//! | `summary`, `chart`, `report` | the numbers, for people, programs and browsers |

mod args;
mod chart;
mod drive;
mod progress;
mod queries;
mod reconcile;
mod record;
mod report;
mod script;
mod stage;
mod summary;
mod wire;

use std::{collections::BTreeMap, fs, io, path::Path, time::Duration};

use chrono::{SecondsFormat, Utc};
use diesel::PgConnection;

use self::{
    args::Plan,
    drive::Driven,
    progress::Progress,
    record::{Click, Record},
    summary::{Cost, Figures, Reconciled, Summary},
};
use crate::{accounts::AccountError, clock::Clock, db::DbError, events::EventError, inventory::InventoryError, orders};
pub use args::{OnsaleArgs, Quantity, Share};

/// Why an on-sale could not be made or measured.
#[derive(Debug, thiserror::Error)]
pub enum OnsaleError {
    /// The options do not go together.
    #[error("{0}")]
    Options(String),
    /// A server cannot be used.
    #[error("the server {0} cannot be used: {1}")]
    Server(String, String),
    /// The event could not be made.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The stock could not be loaded.
    #[error(transparent)]
    Inventory(#[from] InventoryError),
    /// The partner's key could not be made.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// The database failed.
    #[error(transparent)]
    Db(#[from] DbError),
    /// The threads of the load could not be started.
    #[error("the load could not be made: {0}")]
    Runtime(io::Error),
    /// A thread of the load panicked.
    #[error("a thread of the load panicked; its message is above")]
    Panicked,
    /// The report could not be written.
    #[error("cannot write {0}: {1}")]
    Report(String, io::Error),
    /// The numbers could not be written as JSON.
    #[error("the numbers cannot be written: {0}")]
    Json(#[from] serde_json::Error),
}

/// What came out.
pub struct Outcome {
    summary: Summary,
}

impl Outcome {
    /// The numbers as lines for people.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.summary.to_string()
    }

    /// All numbers as JSON.
    ///
    /// # Errors
    /// [`OnsaleError::Json`].
    pub fn to_json(&self) -> Result<String, OnsaleError> {
        Ok(serde_json::to_string_pretty(&self.summary)?)
    }

    /// Whether the run went to its end, every answer agrees with the database, and the audit found nothing.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.summary.is_right()
    }
}

/// Puts a fresh event on sale, sends the buyers, and compares what they were told with what was sold. Writes the report, if one is
/// asked for, also if something is wrong.
///
/// # Errors
/// [`OnsaleError`]. What was sold wrongly is no error of this: see [`Outcome::is_right`].
pub fn run(conn: &mut PgConnection, clock: &Clock, args: &OnsaleArgs) -> Result<Outcome, OnsaleError> {
    let plan = args.plan()?;
    let began_at = clock.now();
    let (stage, event) = stage::prepare(conn, began_at, &plan)?;
    stage::check_servers(&plan, &stage)?;
    let machine = stage::machine(conn)?;
    let wal_before = queries::wal_bytes(conn).ok();
    let driven = drive::drive(&plan, &stage, &mut Progress::of(plan.tickets))?;
    let wal_after = queries::wal_bytes(conn).ok();
    stage::close(conn, &stage)?;
    let ledger = queries::ledger(conn, event)?;
    let mut clicks: Vec<Click> = driven.records.iter().flat_map(Record::clicks).collect();
    let differences = reconcile::reconcile(&plan.script, &stage, clicks.iter().collect(), &ledger);
    let audit = orders::audit(conn)?.into();
    let wal = wal_before.zip(wal_after).map(|(before, after)| after - before);
    let cost = cost(&plan, &driven, clicks.len(), wal, ledger.orders.len());
    let Figures { sold, latency, answers, same_order_again, over_time, histogram } =
        Figures::of(&mut clicks, &ledger, plan.warmup, plan.end.min(driven.took));
    let summary = Summary {
        event: stage.slug,
        began_at: began_at.with_timezone(&Utc).to_rfc3339_opts(SecondsFormat::Secs, true),
        command: args.command(),
        closed: plan.closed,
        rate: plan.rate,
        servers: plan.servers.len(),
        connections: plan.connections,
        machine,
        ended_early: driven.ended_early,
        sold,
        latency,
        answers,
        same_order_again,
        examples: examples(&driven.records),
        over_time,
        histogram,
        cost,
        audit,
        reconciled: Reconciled { requests: clicks.len(), orders: ledger.orders.len(), differences },
    };
    if let Some(path) = &args.report {
        write_report(path, &summary)?;
    }
    Ok(Outcome { summary })
}

fn cost(plan: &Plan, driven: &Driven, requests: usize, wal_bytes: Option<i64>, orders: usize) -> Cost {
    let requests = u32::try_from(requests).unwrap_or(u32::MAX).max(1);
    let orders = i64::try_from(orders).unwrap_or(i64::MAX).max(1);
    Cost {
        took_secs: driven.took.as_secs_f64(),
        threads: plan.threads,
        cpu_secs: driven.cpu.as_secs_f64(),
        cpu_micros_per_request: (driven.cpu / requests).max(Duration::ZERO).as_secs_f64() * 1e6,
        wal_bytes_per_order: wal_bytes.map(|bytes| bytes / orders),
    }
}

fn examples(records: &[Record]) -> BTreeMap<u16, String> {
    records.iter().flat_map(|record| record.examples.clone()).collect()
}

fn write_report(path: &Path, summary: &Summary) -> Result<(), OnsaleError> {
    fs::write(path, report::page(summary)).map_err(|error| OnsaleError::Report(path.display().to_string(), error))
}
