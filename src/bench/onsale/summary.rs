//! The numbers: made of what was noted, for people and for programs. Pure.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
    fmt,
    time::Duration,
};

use serde::Serialize;

use super::{
    reconcile::{Differences, Ledger},
    record::{Click, Kind},
    stage::Machine,
};
use crate::{
    bench::{percentile, thousands},
    orders::AuditReport,
};

/// Most slices of the time line.
const SLICES_MAX: u64 = 60;
/// What a slice may last, in milliseconds.
const SLICE_MILLIS: [u64; 12] = [100, 200, 250, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 600_000];
/// Bars of the histogram for each power of ten.
const BARS_A_DECADE: u32 = 10;
/// Powers of ten that the histogram spans, from one microsecond.
const DECADES: u32 = 8;

/// What was measured, and what it was compared with.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Summary {
    /// The event's slug.
    pub(super) event: String,
    /// When it began, RFC 3339.
    pub(super) began_at: String,
    /// The command that does the same again.
    pub(super) command: String,
    /// Closed loop.
    pub(super) closed: bool,
    /// Buyers a second; of no meaning in a closed loop.
    pub(super) rate: u64,
    pub(super) servers: usize,
    pub(super) connections: usize,
    pub(super) machine: Machine,
    /// Why it was ended before its time.
    pub(super) ended_early: Option<String>,
    pub(super) sold: Sold,
    /// From the intended start to the end of the answer.
    pub(super) latency: Latency,
    /// Requests by how they ended, warm-up and second clicks included.
    pub(super) answers: BTreeMap<Cow<'static, str>, u64>,
    /// Second clicks, and others, that were given the order again.
    pub(super) same_order_again: u64,
    /// What answers that were not expected said, by status.
    pub(super) examples: BTreeMap<u16, String>,
    pub(super) over_time: Vec<Slice>,
    pub(super) histogram: Vec<Bar>,
    pub(super) cost: Cost,
    pub(super) audit: Audit,
    pub(super) reconciled: Reconciled,
}

/// What was sold.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Sold {
    pub(super) stock: i64,
    /// By the database, in the end.
    pub(super) tickets: i64,
    pub(super) orders: usize,
    pub(super) available: i64,
    /// When the last ticket was sold, from the first arrival.
    pub(super) sold_out_after_secs: Option<f64>,
    /// From the end of the warm-up to the last arrival, or to the last sale if the stock ran out.
    pub(super) measured_secs: f64,
    pub(super) tickets_per_sec: f64,
    pub(super) orders_per_sec: f64,
    /// Answers of every kind, over the whole time after the warm-up.
    pub(super) answers_per_sec: f64,
}

/// Latencies of the requests that were meant to be sent after the warm-up.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Latency {
    /// Whoever was answered; who was not counts with the time until the wait was given up.
    pub(super) all: Percentiles,
    /// Whoever was given an order.
    pub(super) sold: Percentiles,
    /// Whoever was told that too few are left.
    pub(super) short: Percentiles,
}

/// Percentiles in milliseconds; zero if there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Percentiles {
    pub(super) count: usize,
    pub(super) p50_ms: f64,
    pub(super) p90_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) p99_9_ms: f64,
    pub(super) max_ms: f64,
}

impl Percentiles {
    fn of(mut latencies: Vec<Duration>) -> Self {
        latencies.sort_unstable();
        let at = |per_mille| millis(percentile(&latencies, per_mille));
        Self { count: latencies.len(), p50_ms: at(500), p90_ms: at(900), p99_ms: at(990), p99_9_ms: at(999), max_ms: at(1_000) }
    }
}

/// A slice of the time line.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Slice {
    pub(super) from_secs: f64,
    pub(super) to_secs: f64,
    /// Tickets sold since the beginning, at the end of the slice.
    pub(super) sold_until: u64,
    /// Requests that ended in it.
    pub(super) answers: Answers,
    /// Of whoever meant to send in it.
    pub(super) latency: Percentiles,
}

/// Requests by how they ended, in a few groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Answers {
    pub(super) sold: u64,
    pub(super) same_order_again: u64,
    pub(super) too_few_left: u64,
    pub(super) turned_away: u64,
    pub(super) failed: u64,
    pub(super) hung_up: u64,
}

impl Answers {
    pub(super) fn total(&self) -> u64 {
        self.sold + self.same_order_again + self.too_few_left + self.turned_away + self.failed + self.hung_up
    }

    fn add(&mut self, kind: Kind, is_again: bool) {
        let counter = match kind {
            Kind::Sold if is_again => &mut self.same_order_again,
            Kind::Sold => &mut self.sold,
            Kind::SoldOut | Kind::TooFewLeft | Kind::AllHeld => &mut self.too_few_left,
            Kind::Busy | Kind::Unavailable | Kind::InProgress => &mut self.turned_away,
            Kind::HungUp => &mut self.hung_up,
            _ => &mut self.failed,
        };
        *counter += 1;
    }
}

/// One bar of the histogram of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Bar {
    pub(super) from_ms: f64,
    pub(super) to_ms: f64,
    pub(super) count: usize,
}

/// What it took.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Cost {
    /// From the first arrival until every request had ended.
    pub(super) took_secs: f64,
    /// Threads of the load.
    pub(super) threads: usize,
    /// Processor time of the load itself.
    pub(super) cpu_secs: f64,
    /// The same for each request, in microseconds.
    pub(super) cpu_micros_per_request: f64,
    /// Write-ahead log of the whole database server for each order, in bytes.
    pub(super) wal_bytes_per_order: Option<i64>,
}

/// The audit.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Audit {
    pub(super) tickets: i64,
    pub(super) orders: i64,
    pub(super) checks: usize,
    pub(super) breaches: Vec<String>,
}

impl From<AuditReport> for Audit {
    fn from(report: AuditReport) -> Self {
        let breaches = report.breaches.iter().map(|breach| format!("{}: {}", breach.check, breach.row)).collect();
        Self { tickets: report.tickets, orders: report.orders, checks: report.checks, breaches }
    }
}

/// The comparison of the answers with the database.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Reconciled {
    pub(super) requests: usize,
    pub(super) orders: usize,
    pub(super) differences: Differences,
}

/// What is made of the clicks alone.
pub(super) struct Figures {
    pub(super) sold: Sold,
    pub(super) latency: Latency,
    pub(super) answers: BTreeMap<Cow<'static, str>, u64>,
    pub(super) same_order_again: u64,
    pub(super) over_time: Vec<Slice>,
    pub(super) histogram: Vec<Bar>,
}

impl Figures {
    /// Works them out. `warmup` and `end` are when measuring begins and when the last buyer comes.
    pub(super) fn of(clicks: &mut [Click], ledger: &Ledger, warmup: Duration, end: Duration) -> Self {
        clicks.sort_unstable_by_key(|click| click.ended);
        let is_again = again(clicks);
        let sold = sold(clicks, &is_again, ledger, warmup, end);
        let of_kind = |is_so: &dyn Fn(Kind) -> bool| {
            let measured = clicks.iter().filter(|click| Duration::from_nanos(click.intended) >= warmup && is_so(click.kind));
            measured.map(latency).collect::<Vec<Duration>>()
        };
        let all = of_kind(&has_latency);
        let histogram = histogram(&all);
        let latency = Latency {
            all: Percentiles::of(all),
            sold: Percentiles::of(of_kind(&|kind| kind == Kind::Sold)),
            short: Percentiles::of(of_kind(&Kind::is_shortage)),
        };
        let mut answers: BTreeMap<Kind, u64> = BTreeMap::new();
        for click in clicks.iter() {
            *answers.entry(click.kind).or_default() += 1;
        }
        let same_order_again = u64::try_from(is_again.iter().filter(|is_again| **is_again).count()).unwrap_or(0);
        let over_time = over_time(clicks, &is_again);
        let answers = answers.into_iter().map(|(kind, count)| (kind.name(), count)).collect();
        Self { sold, latency, answers, same_order_again, over_time, histogram }
    }
}

fn latency(click: &Click) -> Duration {
    Duration::from_nanos(click.ended.saturating_sub(click.intended))
}

fn has_latency(kind: Kind) -> bool {
    kind.is_answer() || matches!(kind, Kind::TimedOut | Kind::NotSent)
}

/// Of each click, by time of answer, whether its order had been given before.
fn again(clicks: &[Click]) -> Vec<bool> {
    let mut given = HashSet::new();
    clicks.iter().map(|click| click.order.as_ref().is_some_and(|order| !given.insert(order.id))).collect()
}

fn sold(clicks: &[Click], is_again: &[bool], ledger: &Ledger, warmup: Duration, end: Duration) -> Sold {
    let firsts = || clicks.iter().zip(is_again).filter(|(click, is_again)| click.kind == Kind::Sold && !**is_again).map(|(click, _)| click);
    // A second click may be the first to be told of an order that its buyer, who hung up, has had for long.
    let last = firsts().rfind(|click| !click.is_second).map_or(Duration::ZERO, |click| Duration::from_nanos(click.ended));
    // A stock that ran out while the last buyers were still queueing ran out then, and not when they came.
    let until = if ledger.available == 0 { last } else { end };
    let within = |click: &&Click, until: Duration| (warmup..=until).contains(&Duration::from_nanos(click.ended));
    let (mut orders, mut tickets) = (0, 0);
    for click in firsts().filter(|click| within(click, until)) {
        orders += 1;
        tickets += click.order.as_ref().map_or(0, |order| u32::try_from(order.quantity).unwrap_or(0));
    }
    let answers = clicks.iter().filter(|click| click.kind.is_answer() && within(click, end)).count();
    Sold {
        stock: ledger.stock,
        tickets: ledger.sold,
        orders: ledger.orders.len(),
        available: ledger.available,
        sold_out_after_secs: (ledger.available == 0).then_some(last.as_secs_f64()),
        measured_secs: until.saturating_sub(warmup).as_secs_f64(),
        tickets_per_sec: per_sec(tickets, until.saturating_sub(warmup)),
        orders_per_sec: per_sec(orders, until.saturating_sub(warmup)),
        answers_per_sec: per_sec(u32::try_from(answers).unwrap_or(u32::MAX), end.saturating_sub(warmup)),
    }
}

fn per_sec(count: u32, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { f64::from(count) / time.as_secs_f64() }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

fn over_time(clicks: &[Click], is_again: &[bool]) -> Vec<Slice> {
    let last_millis = clicks.last().map_or(0, |click| click.ended / 1_000_000);
    let width = SLICE_MILLIS.into_iter().find(|width| last_millis / width < SLICES_MAX).unwrap_or(600_000);
    let place = |nanos: u64| usize::try_from(nanos / 1_000_000 / width).unwrap_or(usize::MAX);
    let count = place(last_millis * 1_000_000) + 1;
    let mut slices = vec![Slice::default(); count];
    let mut latencies = vec![Vec::new(); count];
    let mut sold = 0;
    for (click, is_again) in clicks.iter().zip(is_again) {
        if has_latency(click.kind)
            && let Some(latencies) = latencies.get_mut(place(click.intended))
        {
            latencies.push(latency(click));
        }
        let Some(slice) = slices.get_mut(place(click.ended)) else { continue };
        slice.answers.add(click.kind, *is_again);
        if click.kind == Kind::Sold && !is_again {
            sold += click.order.as_ref().map_or(0, |order| u64::try_from(order.quantity).unwrap_or(0));
        }
        slice.sold_until = sold;
    }
    let mut from = Duration::ZERO;
    let mut sold_until = 0;
    for (slice, latencies) in slices.iter_mut().zip(latencies) {
        let to = from + Duration::from_millis(width);
        (slice.from_secs, slice.to_secs) = (from.as_secs_f64(), to.as_secs_f64());
        slice.latency = Percentiles::of(latencies);
        // A slice without an answer has sold as much as the one before.
        sold_until = slice.sold_until.max(sold_until);
        slice.sold_until = sold_until;
        from = to;
    }
    slices
}

/// Bars that are equally wide on a logarithmic scale, from the first that is not empty to the last.
fn histogram(latencies: &[Duration]) -> Vec<Bar> {
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable();
    let edge = |place: u32| 10_f64.powf(f64::from(place) / f64::from(BARS_A_DECADE)) / 1_000.0;
    let below = |edge: f64| sorted.partition_point(|latency| millis(*latency) < edge);
    let bars: Vec<Bar> = (0..DECADES * BARS_A_DECADE)
        .map(|place| {
            let (from_ms, to_ms) = (edge(place), edge(place + 1));
            Bar { from_ms, to_ms, count: below(to_ms) - below(from_ms) }
        })
        .collect();
    let first = bars.iter().position(|bar| bar.count > 0);
    let last = bars.iter().rposition(|bar| bar.count > 0);
    first.zip(last).and_then(|(first, last)| bars.get(first..=last)).map(<[Bar]>::to_vec).unwrap_or_default()
}

impl Summary {
    /// Whether every promise was kept, and the run went to its end.
    pub(super) fn is_right(&self) -> bool {
        self.audit.breaches.is_empty() && self.reconciled.differences.total == 0 && self.ended_early.is_none()
    }

    /// Whether everything was sold.
    pub(super) fn is_sold_out(&self) -> bool {
        self.sold.available == 0
    }
}

/// A count, with its thousands set apart.
pub(super) fn grouped(number: impl ToString) -> String {
    thousands(&number.to_string())
}

/// A rate, as a whole number.
pub(super) fn rate(number: f64) -> String {
    thousands(&format!("{number:.0}"))
}

/// Milliseconds, with as many digits as mean something.
pub(super) fn ms(number: f64) -> String {
    match number {
        number if number < 10.0 => format!("{number:.2} ms"),
        number if number < 100.0 => format!("{number:.1} ms"),
        number if number < 10_000.0 => format!("{} ms", rate(number)),
        number => format!("{:.1} s", number / 1_000.0),
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sold, latency) = (&self.sold, &self.latency);
        if let Some(why) = &self.ended_early {
            writeln!(out, "THE RUN WAS ENDED EARLY: {why}")?;
        }
        writeln!(
            out,
            "sold        {} of {} tickets in {} orders; {} tickets and {} orders a second over {:.1} s{}",
            grouped(sold.tickets),
            grouped(sold.stock),
            grouped(sold.orders),
            rate(sold.tickets_per_sec),
            rate(sold.orders_per_sec),
            sold.measured_secs,
            if self.is_sold_out() { ", until they were sold out" } else { "" }
        )?;
        let from = if self.closed { "from sending, in a closed loop" } else { "from the intended start" };
        writeln!(out, "latency     {from}")?;
        for (name, percentiles) in [("all", latency.all), ("sold", latency.sold), ("too few", latency.short)] {
            if percentiles.count > 0 {
                let Percentiles { p50_ms, p90_ms, p99_ms, p99_9_ms, max_ms, .. } = percentiles;
                writeln!(
                    out,
                    "  {name:<9} 50 % {:>9}   90 % {:>9}   99 % {:>9}   99.9 % {:>9}   max {:>9}",
                    ms(p50_ms),
                    ms(p90_ms),
                    ms(p99_ms),
                    ms(p99_9_ms),
                    ms(max_ms)
                )?;
            }
        }
        writeln!(out, "answers     {} a second", rate(sold.answers_per_sec))?;
        for (name, count) in &self.answers {
            let again = if name == "201" && self.same_order_again > 0 {
                format!(", of which {} the same order again", grouped(self.same_order_again))
            } else {
                String::new()
            };
            writeln!(out, "  {name:<28} {:>10}{again}", grouped(count))?;
        }
        for (status, text) in &self.examples {
            writeln!(out, "  the first {status} said: {text}")?;
        }
        let Cost { cpu_secs, cpu_micros_per_request, wal_bytes_per_order, .. } = self.cost;
        write!(out, "cost        the load itself {cpu_secs:.2} s of processor time, {cpu_micros_per_request:.1} µs a request")?;
        if let Some(bytes) = wal_bytes_per_order {
            write!(out, "; {} bytes of write-ahead log an order", grouped(bytes))?;
        }
        writeln!(out)?;
        self.verdict(out)
    }
}

impl Summary {
    fn verdict(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Audit { tickets, orders, checks, breaches } = &self.audit;
        writeln!(
            out,
            "audit       {}: {checks} checks over {} tickets and {} orders",
            if breaches.is_empty() { "all is well".to_owned() } else { format!("{} BREACHES", breaches.len()) },
            grouped(tickets),
            grouped(orders)
        )?;
        for breach in breaches {
            writeln!(out, "  BREACH: {breach}")?;
        }
        let Reconciled { requests, orders, differences } = &self.reconciled;
        write!(
            out,
            "reconciled  {}: {} requests with {} orders",
            if differences.total == 0 { "no difference".to_owned() } else { format!("{} DIFFERENCES", grouped(differences.total)) },
            grouped(requests),
            grouped(orders)
        )?;
        for difference in &differences.first {
            write!(out, "\n  DIFFERENCE: {}: {}", difference.check, difference.what)?;
        }
        let untold = differences.total.saturating_sub(u64::try_from(differences.first.len()).unwrap_or(0));
        if untold > 0 { write!(out, "\n  and {} more", grouped(untold)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bench::onsale::record::Answered, ids::OrderId};

    const MS: u64 = 1_000_000;

    fn click(intended_ms: u64, latency_ms: u64, kind: Kind) -> Click {
        let intended = intended_ms * MS;
        let order = (kind == Kind::Sold).then(|| Answered { id: OrderId::new(), quantity: 2, positions: vec![1, 2] });
        Click { buyer: 0, is_second: false, intended, sent: intended, ended: intended + latency_ms * MS, kind, order, available: None }
    }

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn what_happens_in_the_warm_up_or_after_the_last_arrival_does_not_count() {
        let mut clicks: Vec<Click> = [500, 1_500, 2_500, 2_990].map(|at| click(at, 100, Kind::Sold)).into();
        let ledger = Ledger { stock: 100, available: 92, sold: 8, ..Ledger::default() };
        let figures = Figures::of(&mut clicks, &ledger, secs(1), secs(3));
        assert_eq!((figures.sold.orders_per_sec, figures.sold.tickets_per_sec, figures.sold.measured_secs), (1.0, 2.0, 2.0));
        assert_eq!(figures.latency.sold.count, 3);
        assert_eq!(figures.answers["201"], 4);
    }

    #[test]
    fn a_rate_is_over_the_time_in_which_there_was_something_to_sell() {
        let mut clicks = vec![click(0, 500, Kind::Sold), click(600, 400, Kind::Sold), click(5_000, 10, Kind::SoldOut)];
        let ledger = Ledger { stock: 4, sold: 4, ..Ledger::default() };
        let figures = Figures::of(&mut clicks, &ledger, secs(0), secs(10));
        assert_eq!((figures.sold.orders_per_sec, figures.sold.measured_secs), (2.0, 1.0));
    }

    #[test]
    fn the_same_order_again_is_sold_once() {
        let first = click(0, 10, Kind::Sold);
        let mut clicks = vec![Click { ended: 900 * MS, ..first.clone() }, first];
        let figures = Figures::of(&mut clicks, &Ledger { available: 1, ..Ledger::default() }, secs(0), secs(1));
        assert_eq!((figures.sold.orders_per_sec, figures.same_order_again), (1.0, 1));
        assert_eq!(figures.over_time.iter().map(|slice| slice.sold_until).collect::<Vec<_>>(), [2; 10]);
    }

    #[test]
    fn who_was_never_answered_counts_with_the_time_that_was_waited() {
        let mut clicks = vec![click(0, 1, Kind::Sold), click(0, 20_000, Kind::TimedOut), click(0, 1, Kind::HungUp)];
        let figures = Figures::of(&mut clicks, &Ledger::default(), secs(0), secs(1));
        assert_eq!((figures.latency.all.count, figures.latency.all.max_ms), (2, 20_000.0));
    }

    #[test]
    fn every_latency_is_in_one_bar() {
        let latencies: Vec<Duration> = (1..2_000).map(|number| Duration::from_micros(number * 37)).collect();
        let bars = histogram(&latencies);
        assert_eq!(bars.iter().map(|bar| bar.count).sum::<usize>(), latencies.len());
        assert!(bars.first().unwrap().count > 0 && bars.last().unwrap().count > 0);
        assert_eq!(histogram(&[]), []);
    }
}
