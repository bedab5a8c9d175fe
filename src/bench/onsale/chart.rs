//! The charts of the report, as inline SVG. Colours are the page's, so that they follow light and dark.

use std::fmt::Write;

use super::summary::{Answers, Bar, Percentiles, Slice, Summary, grouped, ms};
use crate::bench::escaped;

/// Size of a chart in its own units; the page scales it.
const WIDTH: f64 = 420.0;
/// The same.
const HEIGHT: f64 = 250.0;
/// Where the plot begins and ends within it.
const LEFT: f64 = 52.0;
const RIGHT: f64 = 408.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 218.0;
/// Most marks on an axis.
const MARKS_MAX: f64 = 6.0;
/// Least distance between two labels at the ends of lines.
const LABEL_GAP: f64 = 14.0;

/// From values to places along one axis.
#[derive(Clone, Copy)]
struct Scale {
    least: f64,
    most: f64,
    from: f64,
    to: f64,
    logarithmic: bool,
}

impl Scale {
    fn place(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(self.least).log10() - self.least.log10()) / (self.most.log10() - self.least.log10())
        } else {
            (value - self.least) / (self.most - self.least)
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Round values on the axis.
    fn marks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades = (-6..=9).map(|power| 10_f64.powi(power));
            return decades.filter(|mark| (self.least * 0.999..=self.most * 1.001).contains(mark)).collect();
        }
        let step = step(self.most - self.least);
        let mut marks = Vec::new();
        let mut mark = 0.0;
        while mark <= self.most * 1.0001 && marks.len() < 20 {
            marks.push(mark);
            mark += step;
        }
        marks
    }
}

/// A round step, so that `span` has few of them.
fn step(span: f64) -> f64 {
    let rough = (span / MARKS_MAX).max(1e-9);
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough).unwrap_or(10.0);
    factor * power
}

/// A chart that is being drawn.
struct Chart {
    svg: String,
    across: Scale,
    up: Scale,
}

impl Chart {
    fn new(label: &str, across: Scale, up: Scale) -> Self {
        let svg = format!(r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{}">"#, escaped(label));
        Self { svg, across, up }
    }

    fn put(&mut self, piece: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.svg.write_fmt(piece);
    }

    fn text(&mut self, (x, y): (f64, f64), class: &str, text: &str) {
        self.put(format_args!(r#"<text x="{x:.1}" y="{y:.1}" class="{class}">{}</text>"#, escaped(text)));
    }

    /// Lines and labels of both axes.
    fn axes(&mut self, name_up: impl Fn(f64) -> String, name_across: impl Fn(f64) -> String) {
        for mark in self.up.marks() {
            let y = self.up.place(mark);
            self.put(format_args!(r#"<path class="grid" d="M{LEFT} {y:.1}H{RIGHT}"/>"#));
            self.text((LEFT - 6.0, y + 4.0), "end", &name_up(mark));
        }
        for mark in self.across.marks() {
            let x = self.across.place(mark);
            self.put(format_args!(r#"<path class="tick" d="M{x:.1} {BOTTOM}v4"/>"#));
            self.text((x, BOTTOM + 18.0), "mid", &name_across(mark));
        }
        self.put(format_args!(r#"<path class="axis" d="M{LEFT} {BOTTOM}H{RIGHT}"/>"#));
    }

    fn finish(mut self) -> String {
        self.svg.push_str("</svg>");
        self.svg
    }
}

fn along(most: f64) -> Scale {
    Scale { least: 0.0, most: most.max(1e-3), from: LEFT, to: RIGHT, logarithmic: false }
}

fn upward(most: f64) -> Scale {
    Scale { least: 0.0, most: most.max(1.0), from: BOTTOM, to: TOP, logarithmic: false }
}

fn upward_log(least: f64, most: f64) -> Scale {
    let floor = 10_f64.powf(least.max(1e-3).log10().floor());
    Scale { least: floor, most: most.max(floor * 10.0), from: BOTTOM, to: TOP, logarithmic: true }
}

fn last_secs(slices: &[Slice]) -> f64 {
    slices.last().map_or(1.0, |slice| slice.to_secs)
}

/// Tickets sold since the beginning, up to the stock.
pub(super) fn sold_over_time(summary: &Summary) -> String {
    let slices = &summary.over_time;
    let stock = real_i64(summary.sold.stock);
    let label = format!("Tickets sold over time: {} of {}", grouped(summary.sold.tickets), grouped(summary.sold.stock));
    let mut chart = Chart::new(&label, along(last_secs(slices)), upward(stock * 1.08));
    chart.axes(short_count, secs);
    let mut line = String::new();
    for slice in slices {
        let _ = write!(line, "L{:.1} {:.1}", chart.across.place(slice.to_secs), chart.up.place(real(slice.sold_until)));
    }
    let end = chart.across.place(last_secs(slices));
    chart.put(format_args!(r#"<path class="area s-sold" d="M{LEFT} {BOTTOM}{line}V{BOTTOM}Z"/>"#));
    chart.put(format_args!(r#"<path class="line s-sold" d="M{LEFT} {BOTTOM}{line}"/>"#));
    let y = chart.up.place(stock);
    chart.put(format_args!(r#"<path class="limit" d="M{LEFT} {y:.1}H{end:.1}"/>"#));
    chart.text((LEFT + 5.0, y + 14.0), "note", &format!("all {} tickets", grouped(summary.sold.stock)));
    chart.finish()
}

/// Percentiles of the latency of whoever came in each slice.
pub(super) fn latency_over_time(summary: &Summary) -> String {
    type Of = fn(&Percentiles) -> f64;
    const LINES: [(&str, &str, Of); 4] = [
        ("max", "s-max", |of| of.max_ms),
        ("99 %", "s-99", |of| of.p99_ms),
        ("90 %", "s-90", |of| of.p90_ms),
        ("50 %", "s-50", |of| of.p50_ms),
    ];
    let slices: Vec<&Slice> = summary.over_time.iter().filter(|slice| slice.latency.count > 0).collect();
    let extreme = |of: Of, pick: fn(f64, f64) -> f64| slices.iter().map(|slice| of(&slice.latency)).reduce(pick).unwrap_or(1.0);
    let up = upward_log(extreme(|of| of.p50_ms, f64::min), extreme(|of| of.max_ms, f64::max) * 1.1);
    // Room for the names of the lines.
    let across = Scale { to: RIGHT - 38.0, ..along(last_secs(&summary.over_time)) };
    let mut chart = Chart::new("Latency over time: percentiles from the intended start, logarithmic", across, up);
    chart.axes(short_ms, secs);
    let mut label_y = f64::MIN;
    for (name, class, of) in LINES {
        let points: Vec<(f64, f64)> = slices
            .iter()
            .map(|slice| (chart.across.place((slice.from_secs + slice.to_secs) / 2.0), chart.up.place(of(&slice.latency))))
            .collect();
        chart.put(format_args!(r#"<path class="line {class}" d="{}"/>"#, path(&points)));
        if let Some((x, y)) = points.last() {
            label_y = (y + 4.0).max(label_y + LABEL_GAP);
            chart.text((x + 5.0, label_y), &format!("name {class}"), name);
        }
    }
    chart.finish()
}

/// How many waited how long.
pub(super) fn latency_histogram(summary: &Summary) -> String {
    let bars = &summary.histogram;
    let least = bars.first().map_or(0.1, |bar| bar.from_ms);
    let most = bars.last().map_or(10.0, |bar| bar.to_ms);
    let across = Scale { least: least / 1.2, most: (most * 1.2).max(least * 20.0), from: LEFT, to: RIGHT, logarithmic: true };
    let tallest = bars.iter().map(|bar| bar.count).max().unwrap_or(1);
    let mut chart = Chart::new("Histogram of latencies, logarithmic", across, upward(real_usize(tallest) * 1.25));
    chart.axes(short_count, short_ms);
    for Bar { from_ms, to_ms, count } in bars.iter().filter(|bar| bar.count > 0) {
        let (x, right) = (chart.across.place(*from_ms), chart.across.place(*to_ms));
        // Even one buyer can be seen.
        let y = chart.up.place(real_usize(*count)).min(BOTTOM - 1.0);
        let title = format!("{} to {}: {}", ms(*from_ms), ms(*to_ms), grouped(count));
        chart.put(format_args!(
            r#"<rect class="fill s-50" x="{x:.1}" y="{y:.1}" width="{:.1}" height="{:.1}"><title>{}</title></rect>"#,
            (right - x - 1.0).max(0.8),
            BOTTOM - y,
            escaped(&title)
        ));
    }
    let Percentiles { p50_ms, p99_ms, p99_9_ms, .. } = summary.latency.all;
    for (row, (name, value)) in [(0.0, ("50 %", p50_ms)), (1.0, ("99 %", p99_ms)), (2.0, ("99.9 %", p99_9_ms))] {
        if bars.is_empty() {
            break;
        }
        // Each has a row of its own: they may be close together.
        let (x, y) = (chart.across.place(value), TOP + row * LABEL_GAP);
        chart.put(format_args!(r#"<path class="limit" d="M{x:.1} {y:.1}V{BOTTOM}"/>"#));
        let (place, class) = if x > RIGHT - 50.0 { (x - 4.0, "note end") } else { (x + 4.0, "note") };
        chart.text((place, y + 8.0), class, name);
    }
    chart.finish()
}

/// A group of answers: name, class, count.
type Group = (&'static str, &'static str, fn(&Answers) -> u64);

/// The groups of answers, from the bottom of the stack.
pub(super) const GROUPS: [Group; 6] = [
    ("sold", "s-sold", |answers| answers.sold),
    ("same order again", "s-again", |answers| answers.same_order_again),
    ("too few left", "s-short", |answers| answers.too_few_left),
    ("try again (503)", "s-busy", |answers| answers.turned_away),
    ("failed", "s-failed", |answers| answers.failed),
    ("hung up", "s-hung", |answers| answers.hung_up),
];

/// How requests ended, a second.
pub(super) fn answers_over_time(summary: &Summary) -> String {
    let slices = &summary.over_time;
    let a_second = |slice: &Slice, count: u64| real(count) / (slice.to_secs - slice.from_secs).max(1e-3);
    let tallest = slices.iter().map(|slice| a_second(slice, slice.answers.total())).fold(1.0, f64::max);
    let mut chart = Chart::new("Answers by kind over time, a second", along(last_secs(slices)), upward(tallest * 1.08));
    chart.axes(short_count, secs);
    for slice in slices {
        let (x, right) = (chart.across.place(slice.from_secs), chart.across.place(slice.to_secs));
        let mut below = 0.0;
        for (name, class, count) in GROUPS {
            let count = a_second(slice, count(&slice.answers));
            if count > 0.0 {
                let (foot, y) = (chart.up.place(below), chart.up.place(below + count));
                chart.put(format_args!(
                    r#"<rect class="fill {class}" x="{x:.1}" y="{y:.1}" width="{:.1}" height="{:.1}"><title>{:.1} s: {} {name} a second</title></rect>"#,
                    (right - x - 0.6).max(0.6),
                    foot - y,
                    slice.from_secs,
                    grouped(format!("{count:.0}"))
                ));
                below += count;
            }
        }
    }
    chart.finish()
}

fn path(points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (place, (x, y)) in points.iter().enumerate() {
        let _ = write!(path, "{}{x:.1} {y:.1}", if place == 0 { 'M' } else { 'L' });
    }
    path
}

fn secs(mark: f64) -> String {
    format!("{} s", short(mark))
}

fn short_ms(mark: f64) -> String {
    match mark {
        mark if mark < 0.999 => format!("{} µs", short(mark * 1_000.0)),
        mark if mark < 999.0 => format!("{} ms", short(mark)),
        mark => format!("{} s", short(mark / 1_000.0)),
    }
}

fn short_count(mark: f64) -> String {
    match mark {
        mark if mark < 10_000.0 => grouped(short(mark)),
        mark if mark < 1_000_000.0 => format!("{}k", short(mark / 1_000.0)),
        mark => format!("{}M", short(mark / 1_000_000.0)),
    }
}

/// A round number without zeros that say nothing.
fn short(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A count as a place on a scale, which needs no more digits than this has.
fn real(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn real_i64(count: i64) -> f64 {
    real(u64::try_from(count).unwrap_or(0))
}

fn real_usize(count: usize) -> f64 {
    real(u64::try_from(count).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_few_and_round_marks() {
        for most in [1.0, 7.0, 10.0, 12.5, 999.0, 21_600.0] {
            let marks = along(most).marks();
            assert!((3..=8).contains(&marks.len()), "{most}: {marks:?}");
        }
        assert_eq!(along(12.0).marks(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
        assert_eq!(upward_log(0.7, 50.0).marks(), [0.1, 1.0, 10.0]);
    }

    #[test]
    fn marks_are_named_briefly() {
        assert_eq!([short_ms(0.1), short_ms(1.0), short_ms(100.0), short_ms(1_000.0)], ["100 µs", "1 ms", "100 ms", "1 s"]);
        assert_eq!(
            [short_count(0.0), short_count(5_000.0), short_count(20_000.0), short_count(1_500_000.0)],
            ["0", "5,000", "20k", "1.5M"]
        );
        assert_eq!(secs(2.5), "2.5 s");
    }
}
