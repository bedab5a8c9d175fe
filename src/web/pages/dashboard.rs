//! The page of one event for its admins: what is sold, its ticket types, its orders, and the forms that change its stock.

use std::collections::HashMap;

use actix_web::{HttpResponse, http::StatusCode};
use askama::Template;
use chrono::{DateTime, Utc};

use super::{Keep, admin::tone, form::Filled, login::Frame, number, page, thousandths, tickets};
use crate::{
    accounts::AdminSession,
    app::App,
    events::{Programme, TicketType},
    ids::{OrderId, TicketTypeId, new_secret},
    inventory::{self, Counts, LoadReport, LoadedBy, file::RowErrors},
    money::Currency,
    orders::{self, Caller, Order, OrderError, OrderStatus, OrdersPage, Takings},
    web::error::Problem,
    when::{When, with_zone},
};

/// Orders on one page.
const ORDERS_MAX: usize = 20;

/// What the page is made of.
pub(super) struct Dashboard {
    now: DateTime<Utc>,
    page: OrdersPage,
    is_first_page: bool,
    counts: HashMap<TicketTypeId, Counts>,
    takings: Takings,
    /// The load that the page confirms.
    loaded: Option<LoadReport>,
}

/// Reads it, with the orders older than `before`, and the report of the session's load under the key `load`.
pub(super) async fn read(
    app: &App,
    session: &AdminSession,
    slug: &str,
    before: Option<OrderId>,
    load: Option<String>,
) -> Result<Dashboard, Problem> {
    let (now, slug, by) = (app.clock.now(), slug.to_owned(), LoadedBy::Admin(session.admin));
    let dashboard = app.db.run(move |conn| {
        let page = orders::list(conn, &slug, None, ORDERS_MAX, before)?;
        let event = page.programme.event.id;
        let counts = inventory::counts(conn, event, now)?;
        let takings = orders::takings(conn, &[event])?.remove(&event).unwrap_or_default();
        let loaded = match load {
            Some(key) => inventory::report_of(conn, event, by, &key)?,
            None => None,
        };
        Ok::<_, OrderError>(Dashboard { now, page, is_first_page: before.is_none(), counts, takings, loaded })
    });
    Ok(dashboard.await?)
}

/// What else the page shows: the answer to a form that was sent.
#[derive(Default)]
pub(super) struct Shown {
    pub(super) done: &'static str,
    pub(super) ticket_type: Filled,
    pub(super) count: Filled,
    pub(super) file: Filled,
    pub(super) report: Option<Report>,
}

/// What a load would do, did, or why it did nothing.
pub(super) struct Report {
    pub(super) tone: &'static str,
    pub(super) title: String,
    pub(super) lines: Vec<String>,
    pub(super) errors: Vec<ErrorLine>,
    /// The form that carries it out, with the words on its button.
    pub(super) button: Option<(&'static str, String)>,
}

pub(super) struct ErrorLine {
    row: String,
    field: String,
    message: String,
}

#[derive(Template)]
#[template(path = "admin/event.html")]
struct EventPage<'a> {
    frame: Frame,
    slug: &'a str,
    name: &'a str,
    state: &'static str,
    tone: &'static str,
    is_public: bool,
    facts: Vec<(&'static str, String)>,
    takings: String,
    sold: String,
    total: String,
    order_count: String,
    types: Vec<TypeLine>,
    price_hint: &'static str,
    price_label: String,
    orders: Vec<OrderLine>,
    is_first_page: bool,
    next: Option<String>,
    shown: Shown,
    count_key: String,
    file_key: String,
}

struct TypeLine {
    code: String,
    name: String,
    price: String,
    window: String,
    counts: Vec<Part>,
    total: String,
}

/// One state's part of a ticket type's bar, with where it begins and how wide it is, in thousandths.
struct Part {
    class: &'static str,
    label: &'static str,
    count: String,
    start: i64,
    width: i64,
}

struct OrderLine {
    path: String,
    when: String,
    buyer_name: String,
    buyer_email: String,
    quantity: String,
    total: String,
    status: &'static str,
    tone: &'static str,
    by_partner: bool,
}

impl Dashboard {
    pub(super) fn programme(&self) -> &Programme {
        &self.page.programme
    }

    /// The page.
    pub(super) fn render(self, session: &AdminSession, status: StatusCode, mut shown: Shown) -> Result<HttpResponse, Problem> {
        let Programme { event, ticket_types } = &self.page.programme;
        let confirmed = self.loaded.as_ref().map(|report| Report::of(&self.page.programme, report, None));
        shown.report = shown.report.or(confirmed);
        let key_of = |form: &Filled| Some(form.value("form_key").to_owned()).filter(|key| !key.is_empty()).unwrap_or_else(new_secret);
        let template = EventPage {
            frame: session.into(),
            slug: &event.slug,
            name: &event.name,
            state: event.state.label(),
            tone: tone(event.state),
            is_public: event.is_public(),
            facts: self.facts(),
            takings: event.money(self.takings.total_minor).to_string(),
            sold: number(self.takings.tickets),
            total: number(self.counts.values().map(Counts::total).sum()),
            order_count: number(self.takings.orders),
            types: ticket_types.iter().map(|ticket_type| self.type_line(ticket_type)).collect(),
            price_hint: price_hint(event.currency),
            price_label: format!("Price in {}", event.currency.code()),
            orders: self.page.orders.iter().map(|placed| self.order_line(&placed.order)).collect(),
            is_first_page: self.is_first_page,
            next: self.page.next.map(|id| id.to_string()),
            count_key: key_of(&shown.count),
            file_key: key_of(&shown.file),
            shown,
        };
        page(status, Keep::Nothing, &template)
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let event = &self.page.programme.event;
        let moment = |moment| with_zone(moment, event.time_zone);
        let said = |text: Option<String>, otherwise: &str| text.unwrap_or_else(|| otherwise.to_owned());
        vec![
            ("Starts", said(event.starts_at.map(moment), "no date yet")),
            ("Venue", said(event.venue.clone(), "none yet")),
            ("Sale opens", said(event.sales_open_at.map(moment), "at once")),
            ("Sale closes", said(event.sales_close_at.map(moment), "never by itself")),
            ("One order", format!("at most {}", tickets(event.max_per_order.into()))),
            ("One buyer", said(event.max_per_buyer.map(|limit| format!("at most {}", tickets(limit.into()))), "any number")),
            ("Checkout", event.checkout.label().to_lowercase()),
            ("Buyers may cancel", said(event.buyers_cancel_until.map(|until| format!("until {}", moment(until))), "never")),
            ("Buyers see", if event.show_counts { "how many are left" } else { "whether any are left" }.to_owned()),
        ]
    }

    fn type_line(&self, ticket_type: &TicketType) -> TypeLine {
        let counts = self.counts.get(&ticket_type.id).copied().unwrap_or_default();
        TypeLine {
            code: ticket_type.code.clone(),
            name: ticket_type.name.clone(),
            price: self.page.programme.event.money(ticket_type.price_minor).to_string(),
            window: self.window(ticket_type),
            counts: parts(counts),
            total: number(counts.total()),
        }
    }

    /// When a type sells, if that is not when its event does.
    fn window(&self, ticket_type: &TicketType) -> String {
        let moment = |moment| with_zone(moment, self.page.programme.event.time_zone);
        let from = ticket_type.sales_open_at.map(|opens| format!("from {}", moment(opens)));
        let until = ticket_type.sales_close_at.map(|closes| format!("until {}", moment(closes)));
        let parts: Vec<String> = [from, until].into_iter().flatten().collect();
        if parts.is_empty() { String::new() } else { format!("Sells {}", parts.join(" ")) }
    }

    fn order_line(&self, order: &Order) -> OrderLine {
        let event = &self.page.programme.event;
        OrderLine {
            path: format!("/admin/events/{}/orders/{}", event.slug, order.id),
            when: When::new(order.created_at, event.time_zone).text,
            buyer_name: order.buyer_name.clone(),
            buyer_email: order.buyer_email.clone(),
            quantity: number(order.quantity.into()),
            total: event.money(order.total_minor).to_string(),
            status: order.status_at(self.now).name(),
            tone: order_tone(order.status_at(self.now)),
            by_partner: order.caller != Caller::Web,
        }
    }
}

/// The colour of an order's state.
pub(super) fn order_tone(status: OrderStatus) -> &'static str {
    match status {
        OrderStatus::Sold => "good",
        OrderStatus::Held => "soon",
        OrderStatus::Cancelled | OrderStatus::Expired => "quiet",
    }
}

fn price_hint(currency: Currency) -> &'static str {
    match currency.decimals() {
        0 => "Without decimals, like 4500.",
        3 => "Like 45.500.",
        _ => "Like 45.00.",
    }
}

fn parts(counts: Counts) -> Vec<Part> {
    let total = counts.total();
    let states = [
        ("sold", "sold", counts.sold),
        ("held", "held", counts.held),
        ("free", "available", counts.available),
        ("blocked", "blocked", counts.blocked),
    ];
    let mut start = 0;
    let mut part = |(class, label, count): (&'static str, &'static str, i64)| {
        let width = thousandths(count, total);
        let part = Part { class, label, count: number(count), start, width };
        start += width;
        part
    };
    // What is hardly ever there is not told when it is not.
    let told = |state: &(&str, &str, i64)| state.2 > 0 || matches!(state.0, "sold" | "free");
    states.into_iter().filter(told).map(&mut part).collect()
}

impl Report {
    /// What a load did, or would do; `form` is the form whose button then does it.
    pub(super) fn of(programme: &Programme, report: &LoadReport, form: Option<&'static str>) -> Self {
        let name = |code: &str| programme.ticket_type(code).map_or(code.to_owned(), |ticket_type| ticket_type.name.clone());
        let line = |line: &inventory::TypeReport| match line.already_there {
            0 => format!("{}: {}", name(&line.ticket_type), tickets(line.loaded)),
            there => format!("{}: {} new, {} there already", name(&line.ticket_type), number(line.loaded), number(there)),
        };
        let title = match (report.loaded, report.dry_run) {
            (0, _) => "Nothing new: all of these tickets are there already".to_owned(),
            (loaded, true) => format!("{} would be loaded", tickets(loaded)),
            (1, false) => "1 ticket was loaded".to_owned(),
            (loaded, false) => format!("{} were loaded", tickets(loaded)),
        };
        let button = form.filter(|_| report.dry_run && report.loaded > 0).map(|form| (form, format!("Load {}", tickets(report.loaded))));
        let tone = if report.dry_run { "info" } else { "good" };
        Self { tone, title, lines: report.ticket_types.iter().map(line).collect(), errors: Vec::new(), button }
    }

    /// Why a file was not loaded, row by row.
    pub(super) fn of_errors(errors: RowErrors) -> Self {
        let total = errors.total;
        let untold = total.saturating_sub(errors.first.len());
        let title =
            if total == 1 { "One thing is wrong with these rows".to_owned() } else { format!("{total} things are wrong with these rows") };
        let mut lines = vec!["Nothing was loaded. Correct what the table lists, and check again.".to_owned()];
        if untold > 0 {
            lines.push(format!("The table has the first {}.", errors.first.len()));
        }
        let mut first = errors.first;
        first.sort_by_key(|error| error.row);
        let line = |error: inventory::file::RowError| ErrorLine { row: error.row.to_string(), field: error.field, message: error.message };
        Self { tone: "bad", title, lines, errors: first.into_iter().map(line).collect(), button: None }
    }

    /// Why nothing was loaded, in a sentence.
    pub(super) fn refused(title: &str, line: impl Into<String>) -> Self {
        Self { tone: "bad", title: title.to_owned(), lines: vec![line.into()], errors: Vec::new(), button: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_bar_follow_each_other() {
        let parts = parts(Counts { available: 50, held: 0, sold: 25, blocked: 25 });
        let places: Vec<(i64, i64)> = parts.iter().map(|part| (part.start, part.width)).collect();
        assert_eq!(places, [(0, 250), (250, 500), (750, 250)]);
    }
}
