//! Buying, and the order that comes of it.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
    web::{Data, Path, Payload, Query},
};
use askama::Template;
use serde::Deserialize;

use super::{
    Keep, counted, events,
    form::{Form, sentence},
    number, page, see_other, tickets,
    time::{When, with_zone},
};
use crate::{
    app::App,
    events::{Programme, rules::parse_slug},
    ids::{OrderId, digest, new_secret},
    input::FieldErrors,
    inventory::{Place, Ticket},
    orders::{
        self, Caller, IdempotencyKey, LineInput, Order, OrderError, OrderLine, OrderStatus, Placed, Purchase, PurchaseInput, Reader,
        Request, Short, Shortage, rules,
    },
    web::error::{self, Problem},
};

/// What the name of a quantity's field begins with; the ticket type's code follows.
const QUANTITY: &str = "quantity-";
/// The same for the field that is typed into, where the quantity is "more".
const MORE: &str = "more-";

/// What a buyer filled in.
#[derive(Clone, Default)]
pub(super) struct Basket {
    pub(super) name: String,
    pub(super) email: String,
    /// Code of the ticket type and quantity, as typed; nothing in them means that the form is fresh.
    quantities: Vec<(String, String)>,
    accept_fewer: bool,
    pub(super) form_key: String,
    errors: FieldErrors,
}

impl Basket {
    /// An empty one, with a key of its own.
    pub(super) fn new() -> Self {
        Self { form_key: new_secret(), ..Self::default() }
    }

    fn of(form: &Form) -> Self {
        let quantity = |(name, value): (&str, &str)| {
            let code = name.strip_prefix(QUANTITY)?;
            let value = if value == "more" { form.text(&format!("{MORE}{code}")) } else { value.trim() };
            Some((code.to_owned(), value.to_owned()))
        };
        Self {
            name: form.text("name").to_owned(),
            email: form.text("email").to_owned(),
            quantities: form.pairs().filter_map(quantity).collect(),
            accept_fewer: form.ticked("accept_fewer"),
            form_key: form.text("form_key").to_owned(),
            errors: FieldErrors::new(),
        }
    }

    /// Whether the form has not been sent yet.
    fn is_fresh(&self) -> bool {
        self.quantities.is_empty()
    }

    /// How many of a type are chosen, as typed.
    pub(super) fn chosen(&self, code: &str, preset: &str) -> String {
        if self.is_fresh() {
            return preset.to_owned();
        }
        let typed = self.quantities.iter().find(|(sent, _)| sent == code).map(|(_, quantity)| quantity.as_str());
        typed.filter(|quantity| !quantity.is_empty()).unwrap_or("0").to_owned()
    }

    /// What is wrong with the quantity of a type; empty if nothing is.
    pub(super) fn error(&self, code: &str) -> String {
        self.field_error(&format!("{QUANTITY}{code}"))
    }

    pub(super) fn name_error(&self) -> String {
        self.field_error("name")
    }

    pub(super) fn email_error(&self) -> String {
        self.field_error("email")
    }

    fn field_error(&self, id: &str) -> String {
        self.errors.of(id).unwrap_or_default().to_owned()
    }

    /// The types of which any are wanted; what is no number is wanted, and refused later.
    fn lines(&self) -> Vec<(&str, &str)> {
        let lines = self.quantities.iter().map(|(code, quantity)| (code.as_str(), quantity.as_str()));
        lines.filter(|(_, quantity)| !quantity.is_empty() && quantity.parse() != Ok(0_i64)).collect()
    }

    fn purchase(&self) -> Result<Purchase, FieldErrors> {
        let line = |(code, quantity): (&str, &str)| LineInput { ticket_type: Some(code.to_owned()), quantity: quantity.parse().ok() };
        let input = PurchaseInput {
            buyer_name: Some(self.name.clone()),
            buyer_email: Some(self.email.clone()),
            lines: self.lines().into_iter().map(line).collect(),
            accept_fewer: self.accept_fewer,
        };
        input.parse()
    }

    /// The purchase under the form's key.
    fn request(&self) -> Result<Request, FieldErrors> {
        let purchase = self.purchase()?;
        let key = rules::parse_key(&self.form_key)
            .ok_or_else(|| FieldErrors::one("form_key", "was missing, so that two presses would have been two orders; send it again"))?;
        // The hash is of what was understood, so that a space at the end of a name makes no other order.
        let understood = (&purchase.buyer_name, purchase.buyer_email.as_str(), &purchase.lines, purchase.accept_fewer);
        let request_hash = digest(&serde_json::to_vec(&understood).unwrap_or_default());
        Ok(Request { purchase, caller: Caller::Web, key: Some(IdempotencyKey { key, request_hash }) })
    }

    /// The fields that send it once more.
    fn fields(&self) -> Vec<(String, String)> {
        let mut fields: Vec<(String, String)> =
            self.quantities.iter().map(|(code, quantity)| (format!("{QUANTITY}{code}"), quantity.clone())).collect();
        fields.push(("name".to_owned(), self.name.clone()));
        fields.push(("email".to_owned(), self.email.clone()));
        fields.push(("form_key".to_owned(), self.form_key.clone()));
        if self.accept_fewer {
            fields.push(("accept_fewer".to_owned(), "true".to_owned()));
        }
        fields
    }

    /// Notes what is wrong by the ids of the form's fields, in sentences; what has no field stays with the notice.
    fn note(&mut self, programme: &Programme, errors: &FieldErrors) -> Vec<FieldLink> {
        let codes: Vec<String> = self.lines().iter().map(|(code, _)| (*code).to_owned()).collect();
        let has_lines = !codes.is_empty();
        let first = programme.ticket_types.first().map_or("", |ticket_type| ticket_type.code.as_str());
        let mut links = Vec::new();
        let mut noted = FieldErrors::new();
        for error in errors.as_slice() {
            let (id, text) = match error.field.as_str() {
                "buyer.name" => ("name".to_owned(), sentence("Your name", &self.name, &error.message)),
                "buyer.email" => ("email".to_owned(), sentence("Your e-mail address", &self.email, &error.message)),
                "items" if !has_lines => (format!("{QUANTITY}{first}"), "Choose at least one ticket.".to_owned()),
                "form_key" => (String::new(), sentence("The form's key", "-", &error.message)),
                field => match item_code(field, &codes).and_then(|code| programme.ticket_type(code)) {
                    Some(ticket_type) => {
                        let label = format!("The number of {} tickets", ticket_type.name);
                        (format!("{QUANTITY}{}", ticket_type.code), sentence(&label, "-", &error.message))
                    }
                    None => (String::new(), "The form has a ticket type that this event does not have.".to_owned()),
                },
            };
            if !id.is_empty() {
                noted.add(id.clone(), text.clone());
            }
            links.push(FieldLink { id, text });
        }
        self.errors = noted;
        links
    }
}

/// The ticket type that `items[2].quantity` is about.
fn item_code<'a>(field: &str, codes: &'a [String]) -> Option<&'a str> {
    let place: usize = field.strip_prefix("items[")?.split(']').next()?.parse().ok()?;
    codes.get(place).map(String::as_str)
}

/// What stands above the form when it comes back.
pub(super) struct Notice {
    pub(super) tone: &'static str,
    pub(super) title: String,
    pub(super) lines: Vec<String>,
    pub(super) links: Vec<FieldLink>,
    pub(super) offer: Option<Offer>,
}

/// One thing that is wrong, with the id of its field, if it has one.
pub(super) struct FieldLink {
    pub(super) id: String,
    pub(super) text: String,
}

/// A button that sends a form of hidden fields.
pub(super) struct Offer {
    pub(super) button: String,
    pub(super) fields: Vec<(String, String)>,
}

impl Notice {
    fn new(title: impl Into<String>, lines: Vec<String>) -> Self {
        Self { tone: "warn", title: title.into(), lines, links: Vec::new(), offer: None }
    }
}

/// `POST /events/{slug}/orders`: buys, and shows the order; or the form again, with what was in the way.
pub(in crate::web) async fn create(
    app: Data<App>,
    request: HttpRequest,
    slug: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let basket = Basket::of(&Form::read(&app, &request, payload).await?);
    match buy(&app, &slug, &basket).await {
        Ok(placed) => Ok(see_other(&order_path(&slug, &placed.order))),
        Err(refusal) => refuse(&app, &slug, basket, refusal).await,
    }
}

/// `GET /events/{slug}/orders`: where the browser's address bar stands when a form came back. A refresh leads to the event.
pub(in crate::web) async fn to_event(slug: Path<String>) -> Result<HttpResponse, Problem> {
    let slug = parse_slug(&slug).ok_or_else(|| Problem::not_found("There is nothing at this address."))?;
    Ok(see_other(&format!("/events/{slug}")))
}

/// The buyer's link to an order, without the host.
pub(super) fn order_path(slug: &str, order: &Order) -> String {
    format!("/events/{slug}/orders/{}?key={}", order.id, order.access_key)
}

async fn buy(app: &App, slug: &str, basket: &Basket) -> Result<Placed, OrderError> {
    let request = basket.request().map_err(OrderError::Invalid)?;
    app.desk.sell(slug.to_owned(), request).await
}

/// The page that says why there is no order, and what to do.
async fn refuse(app: &App, slug: &str, mut basket: Basket, refusal: OrderError) -> Result<HttpResponse, Problem> {
    if matches!(refusal, OrderError::Db(_) | OrderError::KeyInProgress) {
        return try_again(slug, &basket, refusal.into());
    }
    let stall = match events::stall(app, slug).await {
        Err(problem) => return try_again(slug, &basket, problem),
        Ok(stall) => stall,
    };
    let notice = notice(&stall.programme, &mut basket, &refusal);
    let problem = Problem::from(refusal);
    error::log(&problem);
    // The sale's state is said in place of the form.
    let notice = notice.filter(|_| problem.code != "sales_not_open" && problem.code != "sales_closed");
    let response = events::render(problem.status, &stall, app.clock.now(), basket, notice)?;
    Ok(with_retry_after(response, &problem))
}

fn with_retry_after(mut response: HttpResponse, problem: &Problem) -> HttpResponse {
    if let Some(secs) = problem.retry_after_secs {
        response.headers_mut().insert(header::RETRY_AFTER, secs.into());
    }
    response
}

/// What to say of a refusal; also makes `basket` ready to be sent again.
fn notice(programme: &Programme, basket: &mut Basket, refusal: &OrderError) -> Option<Notice> {
    match refusal {
        OrderError::Invalid(errors) => {
            let links = basket.note(programme, errors);
            if rules::parse_key(&basket.form_key).is_none() {
                basket.form_key = new_secret();
            }
            let title = if links.len() == 1 { "One thing is not right yet" } else { "A few things are not right yet" };
            Some(Notice { tone: "bad", links, ..Notice::new(title, vec!["Nothing has been bought.".to_owned()]) })
        }
        OrderError::LimitExceeded { limit, requested } => {
            let title = format!("At most {} an order", tickets(*limit));
            let asked = format!("You asked for {}. Choose fewer, and send it again. Nothing has been bought.", number(*requested));
            Some(Notice::new(title, vec![asked]))
        }
        OrderError::KeyReused => {
            basket.form_key = new_secret();
            let lines = vec![
                "You bought with this form before, and changed it since: that order stands.".to_owned(),
                "To buy these tickets as well, send the form again.".to_owned(),
            ];
            Some(Notice::new("This form has been used", lines))
        }
        OrderError::Short(short, shortages) => basket.purchase().ok().map(|purchase| {
            let shortage = ShortPage { programme, purchase: &purchase, short: *short, shortages };
            shortage.notice(basket)
        }),
        _ => None,
    }
}

/// What a shortage looks like to its buyer.
struct ShortPage<'a> {
    programme: &'a Programme,
    purchase: &'a Purchase,
    short: Short,
    shortages: &'a [Shortage],
}

impl ShortPage<'_> {
    fn notice(&self, basket: &Basket) -> Notice {
        let rest = self.rest();
        let rest_total: i64 = rest.iter().map(|(_, quantity)| quantity).sum();
        let mut lines: Vec<String> =
            if self.is_one_line() { vec![self.asked()] } else { self.shortages.iter().map(|short| self.line(short)).collect() };
        lines.push("Nothing has been bought.".to_owned());
        let offer = match (rest_total, self.short) {
            (0, Short::AllHeld) => Some(Offer { button: "Try again".to_owned(), fields: basket.fields() }),
            (0, _) => None,
            _ => Some(self.offer(basket, &rest)),
        };
        let title = if rest_total == 0 && self.shortages.len() > 1 { "None of these are left".to_owned() } else { self.title() };
        Notice { offer, ..Notice::new(title, lines) }
    }

    /// Whether one ticket type was asked for.
    fn is_one_line(&self) -> bool {
        self.purchase.lines.len() == 1
    }

    fn shows_counts(&self) -> bool {
        self.programme.event.show_counts
    }

    /// The name of a type, where the event has more than one.
    fn of_type(&self, code: &str) -> String {
        let name = self.programme.ticket_type(code).map_or(code, |ticket_type| ticket_type.name.as_str());
        if self.programme.ticket_types.len() == 1 { String::new() } else { format!(" {name}") }
    }

    fn title(&self) -> String {
        let [shortage] = self.shortages else { return "Fewer are left than you asked for".to_owned() };
        let of_type = self.of_type(&shortage.ticket_type);
        match shortage {
            Shortage { available: 0, held: 0, .. } => format!("{} sold out", if of_type.is_empty() { "Just" } else { of_type.trim() }),
            Shortage { available: 0, .. } => format!("All{of_type} tickets are in other buyers' baskets"),
            Shortage { requested, .. } if !self.shows_counts() => format!("Fewer than {}{of_type} are left", number(*requested)),
            Shortage { available, .. } => format!("Only {}{of_type} left", number(*available)),
        }
    }

    fn asked(&self) -> String {
        let requested = self.purchase.lines.iter().map(|(_, quantity)| quantity).sum();
        match self.short {
            Short::SoldOut => "The last ones went before your order came in.".to_owned(),
            Short::AllHeld => "What they do not buy comes back on sale: try again in a moment.".to_owned(),
            Short::TooFewLeft => format!("You asked for {}.", tickets(requested)),
        }
    }

    fn line(&self, shortage: &Shortage) -> String {
        let name = self.programme.ticket_type(&shortage.ticket_type).map_or(shortage.ticket_type.as_str(), |ticket_type| &ticket_type.name);
        let requested = number(shortage.requested);
        match shortage {
            Shortage { available: 0, held: 0, .. } => format!("{name}: sold out; you asked for {requested}."),
            Shortage { available: 0, .. } => format!("{name}: all in other buyers' baskets; you asked for {requested}."),
            _ if !self.shows_counts() => format!("{name}: fewer than {requested} left."),
            Shortage { available, .. } => format!("{name}: {} left; you asked for {requested}.", number(*available)),
        }
    }

    /// What could be had of each line, in the order of the request.
    fn rest(&self) -> Vec<(String, i64)> {
        let available = |code: &str, wanted: i64| {
            let shortage = self.shortages.iter().find(|shortage| shortage.ticket_type == code);
            shortage.map_or(wanted, |shortage| shortage.available.min(wanted))
        };
        self.purchase.lines.iter().map(|(code, wanted)| (code.clone(), available(code, *wanted))).collect()
    }

    /// The button that takes the rest: by its count where that is told and is one number, and "whatever there is" otherwise.
    fn offer(&self, basket: &Basket, rest: &[(String, i64)]) -> Offer {
        let mut taken = Basket { form_key: new_secret(), ..basket.clone() };
        if self.shows_counts() {
            taken.quantities = rest.iter().map(|(code, quantity)| (code.clone(), quantity.to_string())).collect();
        }
        taken.accept_fewer = !(self.shows_counts() && self.is_one_line());
        Offer { button: self.button(rest), fields: taken.fields() }
    }

    fn button(&self, rest: &[(String, i64)]) -> String {
        if !self.shows_counts() {
            return "Take what is left".to_owned();
        }
        if let [(_, quantity)] = rest {
            return if *quantity == 1 {
                "Take the one that is left".to_owned()
            } else {
                format!("Take the {} that are left", number(*quantity))
            };
        }
        let part = |(code, quantity): &(String, i64)| format!("{}{}", number(*quantity), self.of_type(code));
        let parts: Vec<String> = rest.iter().filter(|(_, quantity)| *quantity > 0).map(part).collect();
        format!("Take {}", enumerated(&parts))
    }
}

/// `a`, `a and b`, `a, b and c`.
fn enumerated(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[derive(Template)]
#[template(path = "retry.html")]
struct RetryPage<'a> {
    slug: &'a str,
    title: &'static str,
    text: &'static str,
    offer: Offer,
}

/// The page that sends the same form again, under the same key; it needs no database. Any other failure is passed on.
fn try_again(slug: &str, basket: &Basket, problem: Problem) -> Result<HttpResponse, Problem> {
    let (title, text) = match problem.code {
        "idempotency_in_progress" => ("Your order is on its way", "It was sent twice, and the first is still being worked on."),
        "busy" => ("Very busy just now", "Many people are buying at this moment, and your turn did not come in time."),
        "unavailable" => ("The box office is away for a moment", "It may or may not have received your order."),
        _ => return Err(problem),
    };
    error::log(&problem);
    let offer = Offer { button: "Try again".to_owned(), fields: basket.fields() };
    let response = page(problem.status, Keep::Nothing, &RetryPage { slug, title, text, offer })?;
    Ok(with_retry_after(response, &problem))
}

#[derive(Deserialize)]
pub(in crate::web) struct OrderQuery {
    key: Option<String>,
}

#[derive(Template)]
#[template(path = "order.html")]
struct OrderPage {
    title: String,
    slug: String,
    event: String,
    when: Option<When>,
    venue: Option<String>,
    status: Option<String>,
    fewer: String,
    tickets: Vec<TicketCard>,
    lines: Vec<Line>,
    total: String,
    buyer_name: String,
    buyer_email: String,
    number: String,
    bought: String,
    link: String,
}

struct TicketCard {
    ticket_type: String,
    place: Vec<(&'static str, String)>,
    code: String,
}

struct Line {
    name: String,
    quantity: String,
    unit: String,
    sum: String,
}

/// `GET /events/{slug}/orders/{id}?key=…`: an order with its tickets, for whoever has the link.
pub(in crate::web) async fn show(app: Data<App>, path: Path<(String, String)>, query: Query<OrderQuery>) -> Result<HttpResponse, Problem> {
    let (slug, id) = path.into_inner();
    let id: OrderId = id.parse().map_err(|_| no_such_order())?;
    let reader = Reader::Link(query.into_inner().key.unwrap_or_default());
    let found = app.db.run(move |conn| orders::find(conn, &slug, id, &reader)).await;
    let (programme, placed) = found.map_err(|error| match error {
        OrderError::NotFound | OrderError::EventNotFound(_) => no_such_order(),
        other => other.into(),
    })?;
    let link = format!("{}{}", app.config.public_url, order_path(&programme.event.slug, &placed.order));
    page(StatusCode::OK, Keep::Nothing, &OrderPage::new(programme, placed, link))
}

fn no_such_order() -> Problem {
    Problem::not_found("There is no order at this address. The whole link is needed, up to its last character.")
}

impl OrderPage {
    fn new(programme: Programme, placed: Placed, link: String) -> Self {
        let Placed { order, tickets, .. } = placed;
        let zone = programme.event.time_zone;
        Self {
            title: title(&order),
            status: status(&order, &programme),
            fewer: fewer(&order),
            tickets: tickets.into_iter().map(|ticket| TicketCard::new(&programme, ticket)).collect(),
            lines: order.lines.iter().map(|line| Line::new(&programme, line)).collect(),
            total: programme.event.money(order.total_minor).to_string(),
            bought: with_zone(order.created_at, zone),
            number: order.id.to_string(),
            buyer_name: order.buyer_name,
            buyer_email: order.buyer_email,
            when: programme.event.starts_at.map(|moment| When::new(moment, zone)),
            slug: programme.event.slug,
            event: programme.event.name,
            venue: programme.event.venue,
            link,
        }
    }
}

fn title(order: &Order) -> String {
    let count = tickets(order.quantity.into());
    match order.status {
        OrderStatus::Sold => format!("You have {count}"),
        OrderStatus::Held => format!("{count} held for you"),
        OrderStatus::Cancelled => "This order was cancelled".to_owned(),
        OrderStatus::Expired => "This order has expired".to_owned(),
    }
}

/// What else there is to say of an order that is not simply sold.
fn status(order: &Order, programme: &Programme) -> Option<String> {
    let deadline = order.expires_at.map(|moment| with_zone(moment, programme.event.time_zone));
    match (order.status, deadline) {
        (OrderStatus::Sold, _) => None,
        (OrderStatus::Held, Some(deadline)) => {
            Some(format!("The tickets are kept for you until {deadline}, and are yours once they are paid."))
        }
        (OrderStatus::Held, None) => Some("The tickets are kept for you, and are yours once they are paid.".to_owned()),
        (OrderStatus::Cancelled, _) => Some("Its tickets went back on sale and are no longer valid.".to_owned()),
        (OrderStatus::Expired, _) => Some("The time to buy the tickets that were held ran out, and they went back on sale.".to_owned()),
    }
}

fn fewer(order: &Order) -> String {
    if order.quantity >= order.requested_quantity {
        return String::new();
    }
    let asked = number(order.requested_quantity.into());
    format!("You asked for {asked}; {} left, and you took them.", counted(order.quantity.into(), "was", "were"))
}

impl TicketCard {
    fn new(programme: &Programme, ticket: Ticket) -> Self {
        let ticket_type = programme.ticket_types.iter().find(|ticket_type| ticket_type.id == ticket.ticket_type);
        let Place { section, row, seat } = ticket.place;
        let place = [("Section", section), ("Row", row), ("Seat", seat)];
        Self {
            ticket_type: ticket_type.map(|ticket_type| ticket_type.name.clone()).unwrap_or_default(),
            place: place.into_iter().filter_map(|(label, value)| Some((label, value?))).collect(),
            code: ticket.code.unwrap_or_default(),
        }
    }
}

impl Line {
    fn new(programme: &Programme, line: &OrderLine) -> Self {
        let money = |minor: i64| programme.event.money(minor).to_string();
        Self {
            name: line.name.clone(),
            quantity: number(line.quantity),
            unit: money(line.unit_price_minor),
            sum: money(line.quantity.saturating_mul(line.unit_price_minor)),
        }
    }
}
