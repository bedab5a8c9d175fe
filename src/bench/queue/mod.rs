//! `boxoffice bench queue`: how fast one process works jobs that are empty, in whatever the queue may find itself in.
//!
//! The engine and the consumers are the product's own; only the handler is not, which does nothing and remembers what it was given. The
//! situations take turns, round by round, in a database of their own that is dropped afterwards. A run begins with a fresh table without
//! statistics, as a queue is between two visits of autovacuum. It ends with a look at the table: what was done twice, or out of order.

mod check;
mod consume;
mod fill;
mod situation;
mod table;

use std::io::{self, Write};

use clap::Args;
use diesel::{PgConnection, connection::SimpleConnection};
use serde::Serialize;

use crate::{
    app::App,
    bench::{
        count,
        halt::{Halt, Interrupted},
        rounded,
        scratch::{Scratch, ScratchError, Server},
        thousands,
    },
    clock::Clock,
    config::WebConfig,
    db::{DatabaseSettings, Db, DbError, migrate},
};
use check::Expected;
use fill::FIRST_WANTED;
use situation::Jobs;
pub use situation::Situation;

/// Kind and lane of the jobs.
const KIND: &str = "empty";
/// Jobs that are worked before the first round, so that connections are made and statements prepared.
const WARM_UP: u32 = 1_000;

/// What to measure.
#[derive(Args, Clone, Debug)]
pub struct QueueArgs {
    /// How many jobs there are to do
    #[arg(long, env = "BOXOFFICE_BENCH_QUEUE_JOBS", default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000), value_name = "N")]
    pub jobs: u32,
    /// How many jobs the large group has that is ahead of the small ones
    #[arg(long, env = "BOXOFFICE_BENCH_QUEUE_AHEAD", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000), value_name = "N")]
    pub ahead: u32,
    /// How many jobs are finished already
    #[arg(long, env = "BOXOFFICE_BENCH_QUEUE_FINISHED", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(0..=10_000_000), value_name = "N")]
    pub finished: u32,
    /// How often each situation is measured
    #[arg(long, env = "BOXOFFICE_BENCH_QUEUE_ROUNDS", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100), value_name = "N")]
    pub rounds: u32,
    /// Threads that work jobs
    #[arg(long, env = "BOXOFFICE_BENCH_QUEUE_THREADS", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256), value_name = "N")]
    pub threads: u16,
    /// Jobs that one thread takes at once
    #[arg(long, env = "BOXOFFICE_BENCH_QUEUE_BATCH", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1_000), value_name = "N")]
    pub batch: u16,
    /// Print JSON instead of a table
    #[arg(long, env = "BOXOFFICE_BENCH_QUEUE_JSON")]
    pub json: bool,
}

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// There is no scratch database.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// Somebody ended it.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// The system refused a thread or a signal handler.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The measurement cannot be written as JSON.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// The scratch database could not be migrated.
    #[error(transparent)]
    Migrate(#[from] migrate::MigrateError),
    /// The database failed.
    #[error(transparent)]
    Db(#[from] DbError),
}

impl From<diesel::result::Error> for QueueError {
    fn from(error: diesel::result::Error) -> Self {
        Self::Db(error.into())
    }
}

/// What was measured, and on what.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// The server that kept the jobs.
    #[serde(flatten)]
    pub server: Server,
    /// Threads that worked jobs.
    pub threads: u16,
    /// Jobs that one thread took at once, at most.
    pub batch: u16,
    /// How often each situation was measured.
    pub rounds: u32,
    /// Jobs of the large group.
    pub ahead: u32,
    /// Jobs that were finished already, where there were many.
    pub finished: u32,
    /// One for each situation.
    pub rows: Vec<Row>,
}

/// One situation.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was there.
    pub situation: Situation,
    /// The same for people.
    pub name: &'static str,
    /// Jobs that were to be done in each round.
    pub jobs: u32,
    /// Jobs of the large group that were done beside them, in all rounds.
    pub done_beside: usize,
    /// The median of the rounds.
    pub jobs_per_second: f64,
    /// The slowest round.
    pub lowest: f64,
    /// The fastest round.
    pub highest: f64,
    /// Jobs a second divided by those of jobs alone in the same round, the median; absent for jobs one after the other, which is another
    /// thing.
    pub ratio: Option<f64>,
    /// The same to those of small groups, for small groups that have something ahead: what that costs them.
    pub ratio_to_small_groups: Option<f64>,
    /// Everything that is wrong, in words; empty if each job was done once, and each group in order.
    pub breaches: Vec<String>,
}

impl Measurement {
    /// Whether every job was done exactly once, and each group in order.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.rows.iter().all(|row| row.breaches.is_empty())
    }

    /// The table for people, with what it means.
    #[must_use]
    pub fn to_text(&self) -> String {
        table::draw(self)
    }

    /// The measurement for programs.
    ///
    /// # Errors
    /// None that is known; a number that JSON has not.
    pub fn to_json(&self) -> Result<String, QueueError> {
        Ok(serde_json::to_string_pretty(self)?)
    }
}

/// Measures in a new database beside the one at `url`, which `admin` is connected to, and drops it afterwards, also after an error or a
/// signal.
///
/// # Errors
/// [`QueueError`].
pub fn run(admin: &mut PgConnection, url: &str, args: &QueueArgs) -> Result<Measurement, QueueError> {
    let halt = Halt::on_signals()?;
    let scratch = Scratch::create(admin, url)?;
    let db = Db::new(DatabaseSettings { connections_max: u32::from(args.threads) + 1, ..DatabaseSettings::at(scratch.url()) });
    let app = App::new(WebConfig::at("http://localhost"), db, Clock::system());
    let measured = measure(&app, args, &halt);
    // Its connections go before the database that they are on.
    app.desk.close();
    drop(app);
    drop(scratch);
    measured
}

fn measure(app: &App, args: &QueueArgs, halt: &Halt) -> Result<Measurement, QueueError> {
    let mut conn = app.db.dedicated()?;
    migrate::run(&mut conn)?;
    app.db.set_prepared();
    let checkpoints = conn.batch_execute("CHECKPOINT").is_ok();
    if !checkpoints {
        tracing::warn!("this role may not CHECKPOINT: one that falls into a run slows it");
    }
    let mut bench = Bench { app, args, halt, conn, checkpoints };
    bench.work(Situation::Alone, Jobs { groups: WARM_UP, each: 1, are_alone: true })?;
    let mut runs: Vec<(Situation, Run)> = Vec::new();
    for round in 1..=args.rounds {
        for situation in Situation::ALL {
            let run = bench.work(situation, situation.wanted(args))?;
            tell(round, args.rounds, situation, &run);
            runs.push((situation, run));
        }
    }
    Ok(Measurement {
        server: Server::of(&mut bench.conn)?,
        threads: args.threads,
        batch: args.batch,
        rounds: args.rounds,
        ahead: args.ahead,
        finished: args.finished,
        rows: Situation::ALL.map(|situation| Row::of(situation, args, &runs)).to_vec(),
    })
}

/// What every run has in common.
struct Bench<'a> {
    app: &'a App,
    args: &'a QueueArgs,
    halt: &'a Halt,
    conn: PgConnection,
    checkpoints: bool,
}

/// One round of one situation.
struct Run {
    jobs_per_second: f64,
    done_beside: usize,
    breaches: Vec<String>,
}

impl Bench<'_> {
    /// A fresh table, the consumers, the check.
    fn work(&mut self, situation: Situation, wanted: Jobs) -> Result<Run, QueueError> {
        self.halt.refuse()?;
        let ahead = if situation == Situation::LargeGroupAhead { self.args.ahead } else { 0 };
        let finished = if situation == Situation::ManyFinished { self.args.finished } else { 0 };
        let expected = Expected { wanted, ahead, finished };
        fill::empty(&mut self.conn)?;
        let snapshot = if situation == Situation::OldSnapshot { Some(self.snapshot()?) } else { None };
        self.fill(&expected)?;
        let wanted_count = usize::try_from(wanted.count()).unwrap_or(usize::MAX);
        let consumed = consume::consume(self.app, self.halt, self.args.threads.into(), self.args.batch.into(), wanted_count);
        drop(snapshot);
        self.halt.refuse()?;
        let stored = check::stored(&mut self.conn)?;
        let seconds = consumed.took.as_secs_f64();
        let done_beside = consumed.worked.iter().filter(|(group, _)| *group < FIRST_WANTED).count();
        Ok(Run {
            jobs_per_second: if seconds > 0.0 { count(consumed.worked.len() - done_beside) / seconds } else { 0.0 },
            done_beside,
            breaches: check::breaches(&expected, &consumed.worked, &stored),
        })
    }

    /// A connection that goes on seeing the table as it is now, as a long report does, until it is dropped.
    fn snapshot(&self) -> Result<PgConnection, QueueError> {
        let mut conn = self.app.db.dedicated()?;
        conn.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")?;
        Ok(conn)
    }

    fn fill(&mut self, expected: &Expected) -> Result<(), QueueError> {
        let now = || self.app.clock.now();
        if expected.finished > 0 {
            fill::write_finished(&mut self.conn, now(), expected.finished)?;
        }
        if expected.ahead > 0 {
            let large = Jobs { groups: 1, each: expected.ahead, are_alone: false };
            fill::write(&mut self.conn, now(), FIRST_WANTED - 1, large)?;
        }
        fill::write(&mut self.conn, now(), FIRST_WANTED, expected.wanted)?;
        if self.checkpoints {
            self.conn.batch_execute("CHECKPOINT")?;
        }
        Ok(())
    }
}

impl Row {
    /// The rounds of one situation.
    fn of(situation: Situation, args: &QueueArgs, runs: &[(Situation, Run)]) -> Self {
        let rounds = |wanted| runs.iter().filter(move |(of, _)| *of == wanted).map(|(_, run)| run);
        let rates: Vec<f64> = sorted(rounds(situation).map(|run| run.jobs_per_second));
        let ratio_to = |base| {
            let pairs = rounds(situation).zip(rounds(base)).filter(|(_, base)| base.jobs_per_second > 0.0);
            rounded(median(&sorted(pairs.map(|(run, base)| run.jobs_per_second / base.jobs_per_second))))
        };
        Self {
            situation,
            name: situation.name(),
            jobs: situation.wanted(args).count(),
            done_beside: rounds(situation).map(|run| run.done_beside).sum(),
            jobs_per_second: rounded(median(&rates)),
            lowest: rounded(rates.first().copied().unwrap_or_default()),
            highest: rounded(rates.last().copied().unwrap_or_default()),
            ratio: (situation != Situation::OneGroup).then(|| ratio_to(Situation::Alone)),
            ratio_to_small_groups: (situation == Situation::LargeGroupAhead).then(|| ratio_to(Situation::SmallGroups)),
            breaches: rounds(situation).flat_map(|run| run.breaches.iter().cloned()).collect(),
        }
    }
}

fn sorted(numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = numbers.collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The one in the middle; of two, the larger.
fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Tells on the error output how far the measurement is. That nobody reads it does not end the measurement.
fn tell(round: u32, rounds: u32, situation: Situation, run: &Run) {
    let rate = thousands(&format!("{:.0}", run.jobs_per_second));
    let _ = writeln!(io::stderr(), "round {round}/{rounds}  {}: {rate} jobs/s", situation.name());
}
