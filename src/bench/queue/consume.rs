//! The consumers: the product's own, with a handler that does nothing and remembers what it was given.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use chrono::TimeDelta;

use super::{KIND, fill::FIRST_WANTED};
use crate::{
    app::App,
    bench::halt::Halt,
    queue::{Claimed, NewJob, Retry},
    worker::{Handler, Runner, Trouble},
};

/// Longest time without a job before the consumers are taken to be stuck.
const STUCK_AFTER: Duration = Duration::from_secs(30);
/// How often the consumers are looked at while they work.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often those who wait are told that all is done.
const TELL_EVERY: Duration = Duration::from_millis(1);

/// A job that was worked: its group, and its number in it.
pub(super) type Worked = (u32, u32);

/// What the consumers have done.
pub(super) struct Consumed {
    /// Every job, in the order in which it was worked.
    pub(super) worked: Vec<Worked>,
    /// From the start of the consumers until the last of them had completed its last job.
    pub(super) took: Duration,
}

/// What the handler remembers.
struct Tally {
    worked: Mutex<Progress>,
    wanted: usize,
    ended: AtomicBool,
}

#[derive(Default)]
struct Progress {
    worked: Vec<Worked>,
    wanted: usize,
}

impl Tally {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.worked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, job: Worked) {
        let mut progress = self.progress();
        progress.worked.push(job);
        progress.wanted += usize::from(job.0 >= FIRST_WANTED);
        if progress.wanted >= self.wanted {
            self.ended.store(true, Ordering::Relaxed);
        }
    }
}

/// Does nothing.
struct Empty {
    tally: Arc<Tally>,
    batch: usize,
    threads: usize,
}

impl Handler for Empty {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn retry(&self) -> Retry {
        Retry { attempts_max: 1, first_pause: TimeDelta::seconds(1), pause_max: TimeDelta::seconds(1) }
    }

    fn batch_max(&self) -> usize {
        self.batch
    }

    fn threads_max(&self, _threads: usize) -> usize {
        self.threads
    }

    fn work(&self, _: &App, job: &Claimed) -> Result<Vec<NewJob>, Trouble> {
        let worked: Worked = serde_json::from_value(job.payload.clone()).map_err(|error| Trouble::payload(&error))?;
        self.tally.add(worked);
        Ok(Vec::new())
    }
}

/// Works until so many jobs of those that are wanted are done.
pub(super) fn consume(app: &App, halt: &Halt, threads: usize, batch: usize, wanted: usize) -> Consumed {
    let tally = Arc::new(Tally { worked: Mutex::default(), wanted, ended: AtomicBool::new(false) });
    let runner = Runner::new(app, threads, vec![Box::new(Empty { tally: Arc::clone(&tally), batch, threads })]);
    let took = thread::scope(|scope| {
        let consumers = scope.spawn(|| {
            let began = Instant::now();
            runner.run(&tally.ended);
            began.elapsed()
        });
        watch(&tally, halt);
        while !consumers.is_finished() {
            app.desk.wake().nudge();
            thread::sleep(TELL_EVERY);
        }
        consumers.join().unwrap_or_default()
    });
    let worked = std::mem::take(&mut tally.progress().worked);
    Consumed { worked, took }
}

/// Waits until all is done, or nothing more is to be expected.
fn watch(tally: &Tally, halt: &Halt) {
    let (mut seen, mut since) = (0, Instant::now());
    while !tally.ended.load(Ordering::Relaxed) {
        thread::sleep(LOOK_EVERY);
        let worked = tally.progress().worked.len();
        if worked > seen {
            (seen, since) = (worked, Instant::now());
        }
        if halt.is_set() || since.elapsed() > STUCK_AFTER {
            tally.ended.store(true, Ordering::Relaxed);
        }
    }
}
