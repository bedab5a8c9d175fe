//! The measurement as text for a terminal.

use super::{Measurement, Row, Situation, thousands};

/// What stands above each column, and how wide it is; the name of the situation comes first.
const COLUMNS: [(&str, usize); 5] = [("jobs", 7), ("jobs/s", 9), ("lowest", 9), ("highest", 9), ("ratio", 5)];

/// The whole answer: what is measured, the rows, what they mean.
pub(super) fn draw(measurement: &Measurement) -> String {
    let width = Situation::ALL.iter().map(|situation| situation.name().chars().count()).max().unwrap_or(0);
    let mut text = heading(measurement);
    text.push_str("\n\n");
    text.push_str(&line(width, "", COLUMNS.map(|(name, _)| name.to_owned())));
    for row in &measurement.rows {
        text.push_str(&line(width, row.name, cells(row)));
    }
    text.push('\n');
    text.push_str(&meaning(measurement));
    text
}

fn heading(measurement: &Measurement) -> String {
    let Measurement { server, threads, batch, rounds, ahead, finished, .. } = measurement;
    format!(
        "How many empty jobs a second one process works, claimed, committed, completed and committed.\n\
         {threads} threads, which take up to {batch} jobs at once; the median of {rounds} rounds.\n\
         The large group has {} jobs; {} are the many that are finished.\n{}",
        thousands(&ahead.to_string()),
        thousands(&finished.to_string()),
        server.to_text()
    )
}

fn cells(row: &Row) -> [String; 5] {
    let rate = |rate: f64| thousands(&format!("{rate:.0}"));
    [
        thousands(&row.jobs.to_string()),
        rate(row.jobs_per_second),
        rate(row.lowest),
        rate(row.highest),
        row.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
    ]
}

fn line(width: usize, name: &str, cells: [String; 5]) -> String {
    let mut line = format!("{name:width$}");
    for (cell, (_, width)) in cells.into_iter().zip(COLUMNS) {
        line.push_str(&format!("  {cell:>width$}"));
    }
    format!("{}\n", line.trim_end())
}

fn meaning(measurement: &Measurement) -> String {
    let mut sentences = vec![
        "Ratio: to jobs alone in the same round, the median. A job of a group costs one write more, which makes the next one ready."
            .to_owned(),
    ];
    let behind = measurement.rows.iter().find_map(|row| row.ratio_to_small_groups);
    sentences.extend(behind.map(|ratio| {
        format!("Behind the large group the small ones are done at {ratio:.2} times the rate without it; only their own jobs count.")
    }));
    if !measurement.server.is_durable() {
        sentences.push("This server answers before what was done is on the disk, which flatters every figure.".to_owned());
    }
    sentences.push(if measurement.is_right() {
        "Every job was done exactly once, and those of each group in order.".to_owned()
    } else {
        "SOMETHING IS WRONG.".to_owned()
    });
    let breaches = measurement.rows.iter().flat_map(|row| row.breaches.iter().map(move |breach| (row, breach)));
    sentences.extend(breaches.map(|(row, breach)| format!("WRONG: {}: {breach}", row.name)));
    sentences.join("\n")
}
