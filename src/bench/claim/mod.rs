//! `boxoffice bench claim`: the ways to take rows from one table, side by side.
//!
//! Each way sells from the same stock, for the same time, to the same numbers of clients, in a database of its own that is dropped
//! afterwards. Each purchase takes two tickets and stores an order. A run begins with fresh tables, analysed and checkpointed, and with
//! clients that are connected and have bought once. It ends with a look at the database: what was sold twice, and to whom.

mod chart;
mod check;
mod clients;
mod desk;
mod plain;
mod table;
mod way;

use std::{
    fs::{self, OpenOptions},
    io::{self, IsTerminal, Write},
    path::PathBuf,
    time::Duration,
};

use clap::Args;
use diesel::{PgConnection, connection::SimpleConnection};
use serde::Serialize;

use crate::{
    bench::{
        count,
        halt::{Halt, Interrupted},
        percentile, rounded,
        scratch::{Scratch, ScratchError, Server},
        thousands,
    },
    clock::Clock,
    db::{DatabaseSettings, Db, DbError, migrate},
    events::EventError,
    inventory::InventoryError,
    orders::OrderError,
};
use clients::Run;
pub use way::Way;

/// How many tickets one purchase takes.
const TICKETS_PER_PURCHASE: u32 = 2;
/// Most numbers of clients in one comparison.
const CLIENT_COUNTS_MAX: usize = 16;
/// Longest time for one statement, a wait for a lock included. Far more than the slowest way needs, and still an end.
const STATEMENT_WAIT_MAX: Duration = Duration::from_secs(60);

/// What to compare.
#[derive(Args, Clone, Debug)]
pub struct ClaimArgs {
    /// How long each way sells to each number of clients, in seconds
    #[arg(long, env = "BOXOFFICE_BENCH_CLAIM_SECS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600), value_name = "SECONDS")]
    pub secs: u64,
    /// The numbers of clients that buy at the same time
    #[arg(long, env = "BOXOFFICE_BENCH_CLAIM_CLIENTS", value_delimiter = ',', default_value = "1,8,32", value_parser = clap::value_parser!(u16).range(1..=500), value_name = "N,…")]
    pub clients: Vec<u16>,
    /// How many tickets there are before each run
    #[arg(long, env = "BOXOFFICE_BENCH_CLAIM_TICKETS", default_value_t = 500_000, value_parser = clap::value_parser!(u32).range(2_000..=1_000_000), value_name = "N")]
    pub tickets: u32,
    /// Print JSON instead of a table
    #[arg(long, env = "BOXOFFICE_BENCH_CLAIM_JSON")]
    pub json: bool,
    /// Draw a chart into this file as well
    #[arg(long, env = "BOXOFFICE_BENCH_CLAIM_SVG", value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// Why there is no comparison.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// There is no scratch database.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// Somebody ended it.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// More numbers of clients than anyone reads.
    #[error("--clients takes at most {CLIENT_COUNTS_MAX} numbers")]
    TooManyCounts,
    /// The chart cannot be written.
    #[error("cannot write {0}: {1}")]
    Chart(String, io::Error),
    /// A client ended without a word.
    #[error("a client of the comparison panicked")]
    Panicked,
    /// The system refused a thread or a signal handler.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The comparison cannot be written as JSON.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// The scratch database could not be migrated.
    #[error(transparent)]
    Migrate(#[from] migrate::MigrateError),
    /// The event could not be made.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The tickets could not be loaded.
    #[error(transparent)]
    Inventory(#[from] InventoryError),
    /// The desk refused a sale that it should have made.
    #[error("the desk refused a purchase: {0}")]
    Order(#[from] OrderError),
    /// The database failed.
    #[error(transparent)]
    Db(#[from] DbError),
}

impl From<diesel::result::Error> for ClaimError {
    fn from(error: diesel::result::Error) -> Self {
        Self::Db(error.into())
    }
}

/// What was measured, and on what.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// What every row has in common.
    #[serde(flatten)]
    pub setting: Setting,
    /// One for each way and number of clients.
    pub rows: Vec<Row>,
}

/// What every row of a comparison has in common.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    /// The server that sold.
    #[serde(flatten)]
    pub server: Server,
    /// Time of each row, in seconds.
    pub secs: u64,
    /// Tickets before each row.
    pub tickets: u32,
    /// How many of them one purchase takes.
    pub tickets_per_purchase: u32,
}

/// One way with one number of clients.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// How the tickets are taken.
    pub way: Way,
    /// The same for people.
    pub name: &'static str,
    /// How many bought at the same time.
    pub clients: u16,
    /// Purchases that were answered.
    pub purchases: usize,
    /// Time from the start to the last answer: longer than was asked for, since what was begun in time is served; shorter if it sold out.
    pub seconds: f64,
    /// Purchases divided by seconds.
    pub purchases_per_second: f64,
    /// Half of the purchases took no longer, in milliseconds. The time counts from the first attempt.
    pub median_ms: f64,
    /// 99 of 100 purchases took no longer, in milliseconds.
    pub p99_ms: f64,
    /// Attempts that came back without tickets while there were some, and were made again.
    pub empty_or_retried: u64,
    /// Tickets that more than one order was told are its own.
    pub sold_twice: u64,
    /// Everything else that is wrong in the database afterwards, in words; empty if all is well.
    pub breaches: Vec<String>,
    /// Tickets on sale afterwards.
    pub stock_left: i64,
    /// No two tickets were left before the time was up.
    pub sold_out: bool,
}

impl Comparison {
    /// Whether every ticket has one buyer, and every buyer two tickets.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.rows.iter().all(|row| row.sold_twice == 0 && row.breaches.is_empty())
    }

    /// The table for people, with what it means.
    #[must_use]
    pub fn to_text(&self) -> String {
        table::draw(self)
    }

    /// The chart, a whole SVG file.
    #[must_use]
    pub fn to_svg(&self) -> String {
        chart::draw(self)
    }

    /// The comparison for programs.
    ///
    /// # Errors
    /// None that is known; a number that JSON has not.
    pub fn to_json(&self) -> Result<String, ClaimError> {
        Ok(serde_json::to_string_pretty(self)?)
    }
}

/// Compares the ways in a new database beside the one at `url`, which `admin` is connected to, and drops it afterwards, also after an
/// error or a signal. Writes the chart, if one is asked for, and tells on the error output how far it is.
///
/// # Errors
/// [`ClaimError`].
pub fn run(admin: &mut PgConnection, url: &str, args: &ClaimArgs) -> Result<Comparison, ClaimError> {
    if args.clients.len() > CLIENT_COUNTS_MAX {
        return Err(ClaimError::TooManyCounts);
    }
    refuse_unwritable(args)?;
    let halt = Halt::on_signals()?;
    let scratch = Scratch::create(admin, url)?;
    let db = Db::new(DatabaseSettings {
        connections_max: 1,
        statement_timeout: STATEMENT_WAIT_MAX,
        lock_timeout: STATEMENT_WAIT_MAX,
        answer_timeout: STATEMENT_WAIT_MAX,
        ..DatabaseSettings::at(scratch.url())
    });
    let comparison = compare(&db, args, &halt);
    // Its connections go before the database that they are on.
    drop(db);
    drop(scratch);
    let comparison = comparison?;
    if let Some(file) = &args.svg {
        fs::write(file, comparison.to_svg()).map_err(|error| ClaimError::Chart(file.display().to_string(), error))?;
    }
    Ok(comparison)
}

/// A chart that cannot be written is better known before the minutes that it takes to measure.
fn refuse_unwritable(args: &ClaimArgs) -> Result<(), ClaimError> {
    let Some(file) = &args.svg else { return Ok(()) };
    let is_new = !file.exists();
    let opened = OpenOptions::new().create(true).append(true).open(file);
    opened.map_err(|error| ClaimError::Chart(file.display().to_string(), error))?;
    if is_new {
        // Nothing is left behind if the comparison fails. If this fails, an empty file is.
        let _ = fs::remove_file(file);
    }
    Ok(())
}

fn compare(db: &Db, args: &ClaimArgs, halt: &Halt) -> Result<Comparison, ClaimError> {
    let mut conn = db.dedicated()?;
    migrate::run(&mut conn)?;
    db.set_prepared();
    desk::open_event(&mut conn, Clock::system().now())?;
    let setting =
        Setting { server: Server::of(&mut conn)?, secs: args.secs, tickets: args.tickets, tickets_per_purchase: TICKETS_PER_PURCHASE };
    let checkpoints = conn.batch_execute("CHECKPOINT").is_ok();
    if !checkpoints {
        tracing::warn!("this role may not CHECKPOINT: one that falls into a run slows it");
    }
    let counts = distinct(&args.clients);
    let mut progress = Progress { done: 0, all: Way::ALL.len() * counts.len(), is_terminal: io::stderr().is_terminal() };
    let mut rows = Vec::with_capacity(progress.all);
    for way in Way::ALL {
        for clients in counts.iter().copied() {
            halt.refuse()?;
            progress.begin(way, clients);
            let run = Run { db, way, clients, secs: args.secs, tickets: args.tickets, checkpoints, halt };
            let row = measure(&mut conn, &run)?;
            halt.refuse()?;
            progress.end(&row);
            rows.push(row);
        }
    }
    Ok(Comparison { setting, rows })
}

/// One row: fresh stock, the sale, the check.
fn measure(conn: &mut PgConnection, run: &Run<'_>) -> Result<Row, ClaimError> {
    match run.way {
        Way::Desk => desk::refill(conn, Clock::system().now(), run.tickets)?,
        _ => plain::refill(conn, run.tickets)?,
    }
    if run.checkpoints {
        conn.batch_execute("CHECKPOINT")?;
    }
    let sale = match run.way {
        Way::Desk => desk::sell(run)?,
        _ => plain::sell(run)?,
    };
    let stored = match run.way {
        Way::Desk => check::real(conn)?,
        _ => check::plain(conn)?,
    };
    let verdict = check::verdict(&sale, &stored, run.tickets);
    let mut latencies = sale.latencies;
    latencies.sort_unstable();
    let seconds = sale.took.as_secs_f64();
    Ok(Row {
        way: run.way,
        name: run.way.name(),
        clients: run.clients,
        purchases: latencies.len(),
        seconds: rounded(seconds),
        purchases_per_second: rounded(if seconds > 0.0 { count(latencies.len()) / seconds } else { 0.0 }),
        median_ms: rounded(percentile(&latencies, 500).as_secs_f64() * 1_000.0),
        p99_ms: rounded(percentile(&latencies, 990).as_secs_f64() * 1_000.0),
        empty_or_retried: sale.missed,
        sold_twice: verdict.sold_twice,
        breaches: verdict.breaches,
        stock_left: stored.left,
        sold_out: sale.sold_out,
    })
}

fn distinct(counts: &[u16]) -> Vec<u16> {
    let mut distinct = counts.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    distinct
}

/// Tells on the error output how far the comparison is. That nobody reads it does not end the comparison.
struct Progress {
    done: usize,
    all: usize,
    is_terminal: bool,
}

impl Progress {
    /// People see at once what is being measured; a log gets whole lines.
    fn begin(&mut self, way: Way, clients: u16) {
        self.done += 1;
        if self.is_terminal {
            let _ = write!(io::stderr(), "{:>3}/{}  {}, {} … ", self.done, self.all, way.name(), of_clients(clients));
        }
    }

    fn end(&self, row: &Row) {
        let rate = thousands(&format!("{:.0}", row.purchases_per_second));
        let mut out = io::stderr();
        let _ = if self.is_terminal {
            writeln!(out, "{rate} purchases/s")
        } else {
            writeln!(out, "{:>3}/{}  {}, {}: {rate} purchases/s", self.done, self.all, row.name, of_clients(row.clients))
        };
    }
}

fn of_clients(clients: u16) -> String {
    if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") }
}
