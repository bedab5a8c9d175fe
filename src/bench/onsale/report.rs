//! The page with the charts: one file, with nothing from elsewhere.

use std::fmt::{self, Display, Write};

use super::{
    chart::{self, GROUPS},
    summary::{Percentiles, Summary, grouped, ms, rate},
};
use crate::bench::escaped;

const STYLE: &str = include_str!("report.css");

/// The page.
pub(super) fn page(summary: &Summary) -> String {
    let mut page = String::new();
    // Writing to a string does not fail.
    let _ = write_page(&mut page, summary);
    page
}

fn write_page(page: &mut String, summary: &Summary) -> fmt::Result {
    let event = escaped(&summary.event);
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, \
         initial-scale=1\">\n<title>On-sale {event}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
    )?;
    header(page, summary)?;
    verdict(page, summary)?;
    figures(page, summary)?;
    charts(page, summary)?;
    tables(page, summary)?;
    facts(page, summary)?;
    page.write_str("</main>\n</body>\n</html>\n")
}

fn header(page: &mut String, summary: &Summary) -> fmt::Result {
    let sold = &summary.sold;
    let title = match sold.sold_out_after_secs {
        Some(secs) => format!("{} tickets, sold out in {}", grouped(sold.stock), duration(secs)),
        None => format!("{} of {} tickets sold", grouped(sold.tickets), grouped(sold.stock)),
    };
    let how = if summary.closed {
        format!("closed loop over {} connections", grouped(summary.connections))
    } else {
        format!("{} buyers a second over at most {} connections", grouped(summary.rate), grouped(summary.connections))
    };
    let servers = if summary.servers == 1 { "one server".to_owned() } else { format!("{} servers", summary.servers) };
    write!(
        page,
        "<header>\n<p class=\"over\">boxoffice bench onsale</p>\n<h1>{}</h1>\n<p class=\"hint\">{}</p>\n</header>\n",
        escaped(&title),
        escaped(&format!("{how}, {servers} · {}", summary.began_at))
    )
}

fn duration(secs: f64) -> String {
    if secs < 120.0 { format!("{secs:.1} s") } else { format!("{:.1} min", secs / 60.0) }
}

fn verdict(page: &mut String, summary: &Summary) -> fmt::Result {
    let (audit, reconciled) = (&summary.audit, &summary.reconciled);
    if summary.is_right() {
        return writeln!(
            page,
            "<p class=\"verdict\"><strong>Every answer agrees with the database.</strong> {} requests were compared with {} orders, and {} \
             audit checks found nothing.</p>",
            grouped(reconciled.requests),
            grouped(reconciled.orders),
            audit.checks
        );
    }
    page.write_str("<div class=\"verdict bad\"><strong>Something is wrong.</strong>\n<ul>\n")?;
    let mut item = |text: &str| writeln!(page, "<li>{}</li>", escaped(text));
    if let Some(why) = &summary.ended_early {
        item(&format!("The run was ended early: {why}."))?;
    }
    for breach in &audit.breaches {
        item(&format!("Audit: {breach}"))?;
    }
    for difference in &reconciled.differences.first {
        item(&format!("{}: {}", difference.check, difference.what))?;
    }
    if reconciled.differences.total > 0 {
        item(&format!("{} differences in all.", grouped(reconciled.differences.total)))?;
    }
    page.write_str("</ul></div>\n")
}

fn figures(page: &mut String, summary: &Summary) -> fmt::Result {
    let (sold, latency) = (&summary.sold, &summary.latency.all);
    let while_there = if summary.is_sold_out() { "while there were any" } else { "from the first to the last arrival" };
    let figures = [
        ("lead", rate(sold.tickets_per_sec), format!("tickets a second, {while_there}")),
        ("", rate(sold.orders_per_sec), "orders a second".to_owned()),
        ("", rate(sold.answers_per_sec), "answers a second, refusals too".to_owned()),
        ("lead", ms(latency.p50_ms), "median latency".to_owned()),
        ("", ms(latency.p99_ms), "99 % within".to_owned()),
        ("", ms(latency.max_ms), "slowest".to_owned()),
    ];
    page.write_str("<dl class=\"figures\">\n")?;
    for (class, figure, name) in figures {
        writeln!(page, "<div class=\"{class}\"><dt>{}</dt><dd>{}</dd></div>", escaped(&name), escaped(&figure))?;
    }
    page.write_str("</dl>\n")
}

fn charts(page: &mut String, summary: &Summary) -> fmt::Result {
    let from = if summary.closed { "from sending, in a closed loop" } else { "from the intended start, waits for a connection included" };
    page.write_str("<div class=\"charts\">\n")?;
    let told = summary.over_time.last().map_or(0, |slice| slice.sold_until);
    let untold = u64::try_from(summary.sold.tickets).unwrap_or(0).saturating_sub(told);
    let hint = if untold == 0 { "as answered".to_owned() } else { format!("as answered; {} more to buyers who hung up", grouped(untold)) };
    figure(page, "Tickets sold", &hint, &chart::sold_over_time(summary), "")?;
    let mut legend = String::new();
    for (name, class, count) in GROUPS {
        if summary.over_time.iter().any(|slice| count(&slice.answers) > 0) {
            write!(legend, "<li class=\"{class}\">{name}</li>")?;
        }
    }
    let legend = format!("<ul class=\"legend\">{legend}</ul>\n");
    figure(page, "How requests ended", "a second", &chart::answers_over_time(summary), &legend)?;
    figure(page, "Latency over time", from, &chart::latency_over_time(summary), "")?;
    figure(page, "How many waited how long", from, &chart::latency_histogram(summary), "")?;
    page.write_str("</div>\n")
}

fn figure(page: &mut String, title: &str, hint: &str, svg: &str, legend: &str) -> fmt::Result {
    writeln!(page, "<figure><figcaption><h2>{title}</h2><span class=\"hint\">{hint}</span></figcaption>\n{svg}\n{legend}</figure>")
}

fn tables(page: &mut String, summary: &Summary) -> fmt::Result {
    type Of = fn(&Percentiles) -> f64;
    const ROWS: [(&str, Of); 5] = [
        ("50 %", |of| of.p50_ms),
        ("90 %", |of| of.p90_ms),
        ("99 %", |of| of.p99_ms),
        ("99.9 %", |of| of.p99_9_ms),
        ("slowest", |of| of.max_ms),
    ];
    let latency = &summary.latency;
    let columns: Vec<(&str, &Percentiles)> = [("all", &latency.all), ("sold", &latency.sold), ("too few left", &latency.short)]
        .into_iter()
        .filter(|(_, percentiles)| percentiles.count > 0)
        .collect();
    page.write_str("<div class=\"pair\">\n<section class=\"card\"><h2>Latency</h2>\n<div class=\"scroll\"><table><thead><tr>")?;
    page.write_str("<th scope=\"col\">within</th>")?;
    for (name, _) in &columns {
        write!(page, "<th scope=\"col\">{name}</th>")?;
    }
    page.write_str("</tr></thead><tbody>\n")?;
    for (name, value) in ROWS {
        write!(page, "<tr><th scope=\"row\">{name}</th>")?;
        for (_, percentiles) in &columns {
            write!(page, "<td>{}</td>", ms(value(percentiles)))?;
        }
        page.write_str("</tr>\n")?;
    }
    page.write_str(
        "</tbody></table></div></section>\n<section class=\"card\"><h2>Requests</h2>\n<div class=\"scroll\"><table><thead><tr>\
         <th scope=\"col\">ended with</th><th scope=\"col\">how many</th></tr></thead><tbody>\n",
    )?;
    for (name, count) in &summary.answers {
        writeln!(page, "<tr><th scope=\"row\">{}</th><td>{}</td></tr>", escaped(name), grouped(count))?;
        if name == "201" && summary.same_order_again > 0 {
            let again = grouped(summary.same_order_again);
            writeln!(page, "<tr><th scope=\"row\">of these, the same order again</th><td>{again}</td></tr>")?;
        }
    }
    page.write_str("</tbody></table></div></section>\n</div>\n")
}

fn facts(page: &mut String, summary: &Summary) -> fmt::Result {
    let (machine, cost) = (&summary.machine, &summary.cost);
    page.write_str("<div class=\"pair\">\n<section class=\"card\"><h2>The machine</h2>\n<dl class=\"facts\">\n")?;
    let mut fact = |name: &str, value: &dyn Display| writeln!(page, "<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(&value.to_string()));
    fact("cores", &machine.cores)?;
    if let Some(processor) = &machine.processor {
        fact("processor", processor)?;
    }
    fact("system", &machine.system)?;
    for (name, value) in &machine.postgres {
        fact(if name == "server_version" { "PostgreSQL" } else { name }, value)?;
    }
    page.write_str("</dl></section>\n<section class=\"card\"><h2>What it took</h2>\n<dl class=\"facts\">\n")?;
    let mut fact = |name: &str, value: &dyn Display| writeln!(page, "<dt>{name}</dt><dd>{}</dd>", escaped(&value.to_string()));
    fact("from first to last", &duration(cost.took_secs))?;
    fact("the load itself", &format!("{:.2} s of processor time, {:.1} µs a request", cost.cpu_secs, cost.cpu_micros_per_request))?;
    if let Some(bytes) = cost.wal_bytes_per_order {
        fact("write-ahead log", &format!("{} bytes an order", grouped(bytes)))?;
    }
    fact("audit", &format!("{} checks over {} tickets", summary.audit.checks, grouped(summary.audit.tickets)))?;
    page.write_str("</dl>\n<h2 class=\"next\">The same again</h2>\n<pre>")?;
    for (place, option) in summary.command.split(" --").enumerate() {
        // An option and its value stay on one line.
        let (space, dashes) = if place == 0 { ("", "") } else { (" ", "--") };
        write!(page, "{space}<span>{dashes}{}</span>", escaped(option))?;
    }
    page.write_str("</pre>\n</section>\n</div>\n")
}
