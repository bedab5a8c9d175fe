//! The load: buyers who arrive by the clock, over as few threads and system calls as will do, since it may share its machine with what
//! it measures.
//!
//! Each thread has its share of the buyers and of the connections, and an event loop of its own. One more thread, the metronome, tells
//! them when buyers are due: an event loop alone wakes by the millisecond.

mod client;
mod engine;

use std::{
    io,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::{
    runtime::{Builder, LocalOptions},
    sync::Notify,
};

use self::engine::Engine;
use super::{OnsaleError, args::Plan, progress::Progress, record::Record, wire::Stage};

/// Longest wait for a connection.
pub(super) const CONNECT_WAIT: Duration = Duration::from_secs(3);
/// Longest wait for an answer. The server itself answers within 15 seconds, whatever happens.
pub(super) const ANSWER_WAIT: Duration = Duration::from_secs(20);
/// How long after the last arrival whoever still waits may be served.
pub(super) const DRAIN_WAIT: Duration = Duration::from_secs(30);
/// A server that has answered nobody for so long, while connections are refused, is gone.
const REFUSED_WAIT: Duration = Duration::from_secs(5);
/// How often the thread that started the others looks at them.
const LOOK: Duration = Duration::from_millis(100);
/// Longest time between two beats of the metronome: as long may a second click be late.
const BEAT_NANOS_MAX: u64 = 1_000_000;
/// Shortest time between two beats; at higher rates a beat brings several buyers.
const BEAT_NANOS_MIN: u64 = 250_000;
/// The beat of a closed loop in which nobody clicks twice: it has nothing to wait for but its end.
const CLOSED_BEAT_NANOS: u64 = 10_000_000;
/// From the start of the threads to the first arrival.
const LEAD: Duration = Duration::from_millis(50);

/// What the threads tell while the load runs.
#[derive(Default)]
pub(super) struct Live {
    /// Orders that were answered, each once.
    pub(super) orders: AtomicU64,
    /// Their tickets.
    pub(super) tickets: AtomicU64,
    /// Answers that too few are left.
    pub(super) short: AtomicU64,
    /// 503.
    pub(super) busy: AtomicU64,
    /// Everything else that was no answer to a purchase, but planned hang-ups.
    pub(super) failed: AtomicU64,
    /// Requests that are due and have not ended.
    pub(super) waiting: AtomicU64,
    /// Time of the last answer, in nanoseconds from the beginning.
    pub(super) answered_at: AtomicU64,
    /// Connections that could not be made since the last answer.
    pub(super) refused: AtomicU64,
    /// The run is to end at once.
    stop: AtomicBool,
    /// The threads have ended.
    done: AtomicBool,
}

/// What the load has noted.
pub(super) struct Driven {
    /// One of each thread.
    pub(super) records: Vec<Record>,
    /// Why the run was ended before its time.
    pub(super) ended_early: Option<String>,
    /// Processor time that the load itself took, all threads together.
    pub(super) cpu: Duration,
    /// From the first arrival to the last end of a request.
    pub(super) took: Duration,
}

/// Sends the buyers, and returns when every request has ended, in one way or another.
pub(super) fn drive(plan: &Plan, stage: &Stage, progress: &mut Progress) -> Result<Driven, OnsaleError> {
    let live = Arc::new(Live::default());
    let origin = Instant::now() + LEAD;
    let wakers: Vec<Arc<Notify>> = (0..plan.threads).map(|_| Arc::new(Notify::new())).collect();
    let cpu_before = cpu_time();
    let (records, ended_early) = thread::scope(|scope| {
        let engines: Vec<_> = wakers
            .iter()
            .enumerate()
            .map(|(number, waker)| {
                let (live, waker) = (Arc::clone(&live), Arc::clone(waker));
                scope.spawn(move || run_engine(plan, stage, number, origin, live, &waker))
            })
            .collect();
        scope.spawn(|| metronome(beat_nanos(plan), origin, &wakers, &live));
        let mut ended_early = None;
        while !engines.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(LOOK);
            let now = Instant::now().saturating_duration_since(origin);
            progress.show(&live, now);
            if ended_early.is_none()
                && let Some(why) = is_hopeless(&live, now)
            {
                ended_early = Some(why);
                live.stop.store(true, Ordering::Relaxed);
            }
        }
        live.done.store(true, Ordering::Relaxed);
        let records: Result<Vec<Record>, OnsaleError> =
            engines.into_iter().map(|engine| engine.join().unwrap_or(Err(OnsaleError::Panicked))).collect();
        (records, ended_early)
    });
    let took = Instant::now().saturating_duration_since(origin);
    progress.finish();
    Ok(Driven { records: records?, ended_early, cpu: cpu_time().saturating_sub(cpu_before), took })
}

/// Why it is no use to go on, if it is not.
fn is_hopeless(live: &Live, now: Duration) -> Option<String> {
    if live.waiting.load(Ordering::Relaxed) == 0 && live.refused.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let silence = now.saturating_sub(Duration::from_nanos(live.answered_at.load(Ordering::Relaxed)));
    let refused = live.refused.load(Ordering::Relaxed);
    if refused > 0 && silence >= REFUSED_WAIT {
        return Some(format!(
            "no server takes connections: {refused} attempts failed, and nobody was answered for {} s",
            silence.as_secs()
        ));
    }
    (silence >= ANSWER_WAIT).then(|| format!("nobody was answered for {} s", silence.as_secs()))
}

fn run_engine(plan: &Plan, stage: &Stage, number: usize, origin: Instant, live: Arc<Live>, waker: &Notify) -> Result<Record, OnsaleError> {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default()).map_err(OnsaleError::Runtime)?;
    let engine = Rc::new(Engine::new(plan, stage, number, origin, live));
    runtime.block_on(Rc::clone(&engine).run(waker));
    // The connections hold the engine too; they end here.
    drop(runtime);
    Rc::try_unwrap(engine).map(Engine::into_record).map_err(|_| OnsaleError::Runtime(io::Error::other("a connection did not end")))
}

/// A beat that falls together with the arrivals.
fn beat_nanos(plan: &Plan) -> u64 {
    if plan.closed {
        return if plan.script.double_clicks.is_some() { BEAT_NANOS_MAX } else { CLOSED_BEAT_NANOS };
    }
    let gap = 1_000_000_000 / plan.rate.max(1);
    if gap >= BEAT_NANOS_MIN { gap / gap.div_ceil(BEAT_NANOS_MAX).max(1) } else { gap * BEAT_NANOS_MIN.div_ceil(gap.max(1)) }
}

/// Wakes every thread of the load at each beat, until the load is over.
fn metronome(beat_nanos: u64, origin: Instant, wakers: &[Arc<Notify>], live: &Live) {
    let mut next = origin;
    while !live.done.load(Ordering::Relaxed) {
        let now = Instant::now();
        match next.checked_duration_since(now) {
            Some(wait) => thread::sleep(wait),
            // Beats that were slept through are not made up for: the next brings all who are due.
            None => next = now,
        }
        wakers.iter().for_each(|waker| waker.notify_one());
        next += Duration::from_nanos(beat_nanos);
    }
}

/// Processor time of this process so far.
fn cpu_time() -> Duration {
    use nix::sys::{
        resource::{UsageWho, getrusage},
        time::TimeValLike,
    };
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Duration::ZERO };
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}
