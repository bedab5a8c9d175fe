//! The comparison as a chart: one SVG file without anything from elsewhere, in light and dark.

use super::{Comparison, Row, Server, Setting, Way, of_clients, thousands};
use crate::bench::escaped;

/// Width of the picture.
const WIDTH: f64 = 920.0;
/// Where the names begin.
const LEFT: f64 = 32.0;
/// Where the bars begin.
const BARS: f64 = 352.0;
/// Length of the longest bar; its numbers stand behind it.
const BAR_LENGTH_MAX: f64 = 370.0;
/// Height of a bar.
const BAR: f64 = 15.0;
/// From one bar to the next.
const STEP: f64 = 20.0;
/// Between the bars of two ways.
const GROUP_GAP: f64 = 20.0;
/// Least height of a way's group: its name and its idea.
const GROUP_MIN: f64 = 40.0;
/// Where the first group begins.
const TOP: f64 = 124.0;

/// The styles: light, and what differs in the dark. Bars get darker with the number of clients; the product's own have a hue of their own.
const STYLE: &str = "\
text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;font-size:13px;fill:#1d2630}\
.title{font-size:20px;font-weight:650}.name{font-weight:600}.quiet{fill:#5a6672}.small{font-size:12px}.number{font-weight:600}\
.number,.tick{font-variant-numeric:tabular-nums}.end{text-anchor:end}.middle{text-anchor:middle}\
.paper{fill:#fff;stroke:#d9dee4}.under{fill:#fff}.grid{stroke:#e4e8ec}.axis{stroke:#8b96a1}.bar{fill:#4a6076}.ours{fill:#c2410c}.wrong{fill:#b00020;font-weight:600}\
@media (prefers-color-scheme:dark){text{fill:#e8edf2}.quiet{fill:#a3afbb}.paper{fill:#14191f;stroke:#323b45}.under{fill:#14191f}.grid{stroke:#262e37}\
.axis{stroke:#6b7783}.bar{fill:#9db4ca}.ours{fill:#fb923c}.wrong{fill:#ff8a80}}";

/// The whole file.
pub(super) fn draw(comparison: &Comparison) -> String {
    let groups = groups(comparison);
    let longest = comparison.rows.iter().map(|row| row.purchases_per_second).fold(0.0, f64::max);
    let scale = Scale::up_to(longest);
    let bottom = groups.last().map_or(TOP, |group| group.top + group.height);
    let height = bottom + 76.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-labelledby=\"title description\">\n\
         <title id=\"title\">Purchases a second, by the way in which the tickets are taken</title>\n\
         <desc id=\"description\">{}</desc>\n<style>{STYLE}</style>\n\
         <rect class=\"paper\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"10\"/>\n",
        escaped(&description(comparison)),
        WIDTH - 1.0,
        height - 1.0,
    );
    svg.push_str(&heading(&comparison.setting));
    svg.push_str(&grid(&scale, bottom));
    for group in &groups {
        svg.push_str(&group.draw(&scale));
    }
    svg.push_str(&footer(comparison, bottom));
    svg.push_str("</svg>\n");
    svg
}

/// What the picture shows, for those who do not see it.
fn description(comparison: &Comparison) -> String {
    let row = |row: &Row| {
        let rate = thousands(&format!("{:.0}", row.purchases_per_second));
        format!("{} with {}: {rate} purchases a second, 99 % within {}.", row.name, of_clients(row.clients), milliseconds(row.p99_ms))
    };
    comparison.rows.iter().map(row).collect::<Vec<_>>().join(" ")
}

fn heading(setting: &Setting) -> String {
    let what = format!(
        "One PostgreSQL table, {} tickets; each purchase takes {} and stores an order. {} s a bar; longer is better.",
        thousands(&setting.tickets.to_string()),
        setting.tickets_per_purchase,
        setting.secs,
    );
    text(LEFT, 42.0, "title", "Purchases a second, by the way in which the tickets are taken")
        + &text(LEFT, 66.0, "quiet", &what)
        + &format!(
            "<text x=\"{:.1}\" y=\"{:.1}\"><tspan class=\"number\">purchases a second</tspan>\
             <tspan class=\"quiet small\" dx=\"8\">99 % answered within</tspan></text>\n",
            BARS + 7.0,
            TOP - 16.0,
        )
}

fn footer(comparison: &Comparison, bottom: f64) -> String {
    let Server { postgresql, fsync, synchronous_commit, cores } = &comparison.setting.server;
    let on =
        format!("boxoffice bench claim · PostgreSQL {postgresql}, fsync {fsync}, synchronous_commit {synchronous_commit} · {cores} cores");
    let right =
        if comparison.is_right() { ("quiet small end", "nothing sold twice") } else { ("wrong small end", "NOT RIGHT: see the table") };
    text(LEFT, bottom + 52.0, "quiet small", &on) + &text(WIDTH - LEFT, bottom + 52.0, right.0, right.1)
}

/// The bars of one way.
struct Group<'a> {
    way: Way,
    rows: Vec<&'a Row>,
    /// The most clients of any row, which gives the darkest bar.
    clients_max: u16,
    top: f64,
    height: f64,
}

fn groups(comparison: &Comparison) -> Vec<Group<'_>> {
    let clients_max = comparison.rows.iter().map(|row| row.clients).max().unwrap_or(1);
    let mut top = TOP;
    let mut groups = Vec::with_capacity(Way::ALL.len());
    for way in Way::ALL {
        let rows: Vec<&Row> = comparison.rows.iter().filter(|row| row.way == way).collect();
        let height = (super::count(rows.len()) * STEP).max(GROUP_MIN);
        groups.push(Group { way, rows, clients_max, top, height });
        top += height + GROUP_GAP;
    }
    groups
}

impl Group<'_> {
    fn draw(&self, scale: &Scale) -> String {
        let mut svg = text(LEFT, self.top + 13.0, "name", self.way.name()) + &text(LEFT, self.top + 31.0, "quiet small", self.way.idea());
        let class = if self.way == Way::Desk { "ours" } else { "bar" };
        for (row, place) in self.rows.iter().zip(0_u8..) {
            svg.push_str(&self.bar(row, self.top + f64::from(place) * STEP, class, scale));
        }
        svg
    }

    fn bar(&self, row: &Row, y: f64, class: &str, scale: &Scale) -> String {
        let baseline = y + 12.0;
        // A bar of nearly nothing is still seen.
        let length = scale.length(row.purchases_per_second).max(1.5);
        let opacity = 0.5 + 0.5 * f64::from(row.clients) / f64::from(self.clients_max);
        let rate = thousands(&format!("{:.0}", row.purchases_per_second));
        let late = format!("{}{}", milliseconds(row.p99_ms), if row.sold_out { ", sold out" } else { "" });
        format!(
            "{}<rect class=\"under\" x=\"{BARS}\" y=\"{y}\" width=\"{length:.1}\" height=\"{BAR}\" rx=\"2\"/>\
             <rect class=\"{class}\" x=\"{BARS}\" y=\"{y}\" width=\"{length:.1}\" height=\"{BAR}\" rx=\"2\" fill-opacity=\"{opacity:.2}\">\
             <title>{}, {}: {rate} purchases a second, median {}, 99 % within {}</title></rect>\n\
             <text x=\"{:.1}\" y=\"{baseline}\"><tspan class=\"number\">{rate}</tspan><tspan class=\"quiet small\" dx=\"8\">{}</tspan></text>\n",
            text(BARS - 8.0, baseline, "quiet small end", &of_clients(row.clients)),
            escaped(row.name),
            of_clients(row.clients),
            milliseconds(row.median_ms),
            milliseconds(row.p99_ms),
            BARS + length + 7.0,
            escaped(&late),
        )
    }
}

/// How numbers become lengths.
struct Scale {
    max: f64,
    /// From one line of the grid to the next.
    step: f64,
}

impl Scale {
    /// One on which `longest` is the longest bar, with a line at each round number.
    fn up_to(longest: f64) -> Self {
        let max = longest.max(1.0);
        // Of 1, 2, 5, 10, 20, 50, … the first that needs no more than five lines.
        let mut step = 1.0;
        for factor in [2.0, 2.5, 2.0].into_iter().cycle().take(30) {
            if max / step <= 5.0 {
                break;
            }
            step *= factor;
        }
        Self { max, step }
    }

    fn length(&self, value: f64) -> f64 {
        BAR_LENGTH_MAX * value / self.max
    }

    /// Where the lines are.
    fn ticks(&self) -> impl Iterator<Item = f64> {
        let (max, step) = (self.max, self.step);
        (0_u8..=5).map(move |place| f64::from(place) * step).take_while(move |tick| *tick <= max)
    }
}

fn grid(scale: &Scale, bottom: f64) -> String {
    let line = |tick: f64| {
        let x = BARS + scale.length(tick);
        let class = if tick == 0.0 { "axis" } else { "grid" };
        format!("<line class=\"{class}\" x1=\"{x:.1}\" y1=\"{}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>\n", TOP - 8.0)
            + &text(x, bottom + 16.0, "quiet small tick middle", &thousands(&format!("{tick:.0}")))
    };
    scale.ticks().map(line).collect()
}

fn text(x: f64, y: f64, class: &str, content: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{}</text>\n", escaped(content))
}

fn milliseconds(millis: f64) -> String {
    let places = if millis < 10.0 { 1 } else { 0 };
    format!("{} ms", thousands(&format!("{millis:.places$}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_at_round_numbers() {
        let ticks = |longest| Scale::up_to(longest).ticks().collect::<Vec<_>>();
        assert_eq!(ticks(26_104.0), [0.0, 10_000.0, 20_000.0]);
        assert_eq!(ticks(5.0), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(ticks(960.0), [0.0, 200.0, 400.0, 600.0, 800.0]);
        assert_eq!(ticks(0.0), [0.0, 1.0]);
    }

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escaped("<a> & \"b\""), "&lt;a&gt; &amp; &quot;b&quot;");
    }
}
