//! The comparison as text for a terminal.

use super::{Comparison, Row, Setting, Way, of_clients, thousands};

/// What stands above each column, and how wide it is; the name of the way comes first.
const COLUMNS: [(&str, usize); 8] = [
    ("clients", 7),
    ("purchases/s", 11),
    ("median ms", 9),
    ("99 % ms", 9),
    ("empty or retried", 16),
    ("sold twice", 10),
    ("stock left", 11),
    ("", 0),
];

/// Marks a row that ended before its time.
const SOLD_OUT: &str = "sold out";

/// The whole answer: what is compared, the rows, what they mean.
pub(super) fn draw(comparison: &Comparison) -> String {
    let width = Way::ALL.iter().map(|way| way.name().chars().count()).max().unwrap_or(0);
    let mut text = heading(&comparison.setting);
    text.push_str("\n\n");
    text.push_str(&line(width, "", COLUMNS.map(|(name, _)| name.to_owned())));
    let mut way = None;
    for row in &comparison.rows {
        if way.is_some_and(|way| way != row.way) {
            text.push('\n');
        }
        text.push_str(&line(width, row.name, cells(row)));
        way = Some(row.way);
    }
    text.push('\n');
    for way in Way::ALL {
        text.push_str(&format!("{:width$}  {}\n", way.name(), way.idea()));
    }
    text.push('\n');
    text.push_str(&meaning(comparison));
    text
}

fn heading(setting: &Setting) -> String {
    let Setting { server, secs, tickets, tickets_per_purchase } = setting;
    let tickets = thousands(&tickets.to_string());
    format!(
        "How many purchases a second one PostgreSQL table sells, by the way in which the rows are taken.\n\
         Each purchase takes {tickets_per_purchase} of {tickets} tickets and stores an order. Every row had {secs} s and fresh tables.\n\
         {}",
        server.to_text()
    )
}

fn cells(row: &Row) -> [String; 8] {
    [
        row.clients.to_string(),
        thousands(&format!("{:.0}", row.purchases_per_second)),
        thousands(&format!("{:.2}", row.median_ms)),
        thousands(&format!("{:.2}", row.p99_ms)),
        thousands(&row.empty_or_retried.to_string()),
        thousands(&row.sold_twice.to_string()),
        thousands(&row.stock_left.to_string()),
        if row.sold_out { SOLD_OUT.to_owned() } else { String::new() },
    ]
}

fn line(width: usize, name: &str, cells: [String; 8]) -> String {
    let mut line = format!("{name:width$}");
    for (cell, (_, width)) in cells.into_iter().zip(COLUMNS) {
        line.push_str(&format!("  {cell:>width$}"));
    }
    format!("{}\n", line.trim_end())
}

/// Sentences that the numbers of this comparison bear out.
fn meaning(comparison: &Comparison) -> String {
    let mut sentences = Vec::new();
    if let Some(most) = comparison.rows.iter().map(|row| row.clients).max().filter(|most| *most > 1) {
        sentences.extend(lead(&ranked(comparison, most), most));
    }
    sentences.extend(alone(&ranked(comparison, 1)));
    sentences.push("Empty or retried: attempts that came back without tickets while there were some, and were made again.".to_owned());
    if comparison.rows.iter().any(|row| row.sold_out) {
        sentences.push(format!("A row marked \"{SOLD_OUT}\" ended early; its rate is over the time that it sold."));
    }
    if !comparison.setting.server.is_durable() {
        sentences.push("This server answers before what was sold is on the disk, which flatters every way that commits often.".to_owned());
    }
    sentences.push(rightness(comparison));
    let breaches = comparison.rows.iter().flat_map(|row| row.breaches.iter().map(move |breach| (row, breach)));
    let breaches = breaches.map(|(row, breach)| format!("\nWRONG: {}, {}: {breach}", row.name, of_clients(row.clients)));
    sentences.join("\n") + &breaches.collect::<String>()
}

/// The rows of one number of clients, the fastest first.
fn ranked(comparison: &Comparison, clients: u16) -> Vec<&Row> {
    let mut rows: Vec<&Row> = comparison.rows.iter().filter(|row| row.clients == clients).collect();
    rows.sort_by(|left, right| right.purchases_per_second.total_cmp(&left.purchases_per_second));
    rows
}

fn lead(ranked: &[&Row], clients: u16) -> Option<String> {
    let ([best, second, ..], slowest) = (ranked, ranked.last()?) else { return None };
    Some(format!(
        "With {}, \"{}\" sells {} a second:\n  {} times as many as the next, \"{}\", and {} times as many as the slowest, \"{}\".",
        of_clients(clients),
        best.name,
        thousands(&format!("{:.0}", best.purchases_per_second)),
        times(best, second),
        second.name,
        times(best, slowest),
        slowest.name,
    ))
}

/// What it costs to be ready for many when there is only one.
fn alone(ranked: &[&Row]) -> Option<String> {
    let (best, slowest) = (ranked.first()?, ranked.last()?);
    let times = times(best, slowest);
    Some(format!(
        "With 1 client there is nobody to wait for:\n  the fastest, \"{}\", sells {times} times as many as the slowest, \"{}\".",
        best.name, slowest.name
    ))
}

fn times(faster: &Row, slower: &Row) -> String {
    if slower.purchases_per_second <= 0.0 {
        "∞".to_owned()
    } else {
        format!("{:.1}", faster.purchases_per_second / slower.purchases_per_second)
    }
}

fn rightness(comparison: &Comparison) -> String {
    let twice: u64 = comparison.rows.iter().map(|row| row.sold_twice).sum();
    let purchases: usize = comparison.rows.iter().map(|row| row.purchases).sum();
    let purchases = thousands(&purchases.to_string());
    if comparison.is_right() {
        format!("Nothing was sold twice in {purchases} purchases: afterwards each sold ticket had one order, and each order two tickets.")
    } else {
        format!("SOMETHING IS WRONG: {} tickets were sold twice, in {purchases} purchases.", thousands(&twice.to_string()))
    }
}
