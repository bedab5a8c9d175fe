//! Kind `confirmation`: the e-mail that a buyer gets for an order, with its tickets.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
    time::Duration,
};

use askama::Template;
use chrono::TimeDelta;
use fast_qr::{ECL, QRBuilder};
use lettre::{
    Message, SmtpTransport, Transport,
    message::{Attachment, Mailbox, MultiPart, SinglePart, header::ContentType},
};
use serde::{Deserialize, Serialize};

use super::handler::{Handler, Trouble};
use crate::{
    app::App,
    config::{MailConfig, MailTransport},
    email::Email,
    events::Programme,
    ids::{EventId, OrderId},
    inventory::Ticket,
    orders::{self, OrderError, OrderStatus, Placed},
    queue::{Claimed, Group, NewJob, Retry},
    when::with_zone,
};

/// Kind and lane.
pub const CONFIRMATION: &str = "confirmation";
/// Longest time for one command to a mail server; all of them together stay far inside a lease.
const SMTP_TIMEOUT: Duration = Duration::from_secs(15);
/// How long all mail rests when the mail server does not answer or let us in, or the folder cannot be written to.
const REST_SECS: i64 = 15;
/// The folder in the spool folder in which mails are written before they get their names.
const UNFINISHED: &str = ".unfinished";
/// A mail that was not finished in that time never will be.
const UNFINISHED_MAX: Duration = Duration::from_secs(3_600);
/// White modules around a QR code, without which readers do not find it.
const QUIET_ZONE: usize = 4;
/// Dots of a picture for one module of a QR code.
const MODULE_DOTS: usize = 6;

#[derive(Serialize, Deserialize)]
struct Payload {
    order: OrderId,
}

/// The job that confirms an order. However often it is enqueued, there is one.
#[must_use]
pub fn job(event: EventId, order: OrderId) -> NewJob {
    NewJob {
        event,
        lane: CONFIRMATION.to_owned(),
        kind: CONFIRMATION,
        group: Group::Alone,
        unique_key: Some(format!("{CONFIRMATION}:{order}")),
        payload: serde_json::json!({ "order": order }),
    }
}

/// Sends confirmations.
pub struct Confirmation;

impl Confirmation {
    /// One that sends by this way.
    #[must_use]
    pub fn by(transport: &MailTransport) -> Self {
        if let MailTransport::Spool(folder) = transport
            && let Err(error) = clear(folder)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, folder = %folder.display(), "unfinished mails could not be deleted");
        }
        Self
    }
}

impl Handler for Confirmation {
    fn kind(&self) -> &'static str {
        CONFIRMATION
    }

    fn retry(&self) -> Retry {
        // About three days: long enough for a mail server to be mended.
        Retry { attempts_max: 30, first_pause: TimeDelta::seconds(10), pause_max: TimeDelta::hours(4) }
    }

    fn threads_max(&self, threads: usize) -> usize {
        threads.div_ceil(2)
    }

    fn work(&self, app: &App, job: &Claimed) -> Result<Vec<NewJob>, Trouble> {
        let Payload { order } = serde_json::from_value(job.payload.clone()).map_err(|error| Trouble::payload(&error))?;
        let (programme, placed) = app.db.run_here(|conn| orders::find_by_id(conn, job.event, order)).map_err(|error| match error {
            OrderError::Db(error) => error.into(),
            other => Trouble::Lasting(other.to_string()),
        })?;
        // Given back before the mail went out: there is nothing to confirm.
        if placed.order.status == OrderStatus::Sold {
            let message = message(&app.config.mail, &app.config.public_url, &programme, &placed)?;
            send(&app.config.mail.transport, order, &message)?;
        }
        Ok(Vec::new())
    }
}

#[derive(Template)]
#[template(path = "mail/confirmation.txt")]
struct Text<'a> {
    mail: &'a Mail,
}

#[derive(Template)]
#[template(path = "mail/confirmation.html")]
struct Html<'a> {
    mail: &'a Mail,
}

/// What the mail says.
struct Mail {
    name: String,
    event: String,
    when: Option<String>,
    venue: Option<String>,
    count: String,
    tickets: Vec<MailTicket>,
    lines: Vec<(String, String)>,
    total: String,
    link: String,
    order: String,
}

struct MailTicket {
    number: usize,
    ticket_type: String,
    place: String,
    code: String,
    picture: String,
}

impl Mail {
    fn new(public_url: &str, programme: &Programme, placed: &Placed) -> Self {
        let (event, order) = (&programme.event, &placed.order);
        let line = |line: &orders::OrderLine| {
            let sum = event.money(line.quantity.saturating_mul(line.unit_price_minor));
            (format!("{} × {}", line.quantity, line.name), sum.to_string())
        };
        Self {
            name: order.buyer_name.clone(),
            event: event.name.clone(),
            when: event.starts_at.map(|at| with_zone(at, event.time_zone)),
            venue: event.venue.clone(),
            count: if order.quantity == 1 { "Your ticket".to_owned() } else { format!("Your {} tickets", order.quantity) },
            tickets: placed.tickets.iter().enumerate().map(|(place, ticket)| MailTicket::new(programme, ticket, place + 1)).collect(),
            lines: order.lines.iter().map(line).collect(),
            total: event.money(order.total_minor).to_string(),
            link: format!("{public_url}/events/{}/orders/{}?key={}", event.slug, order.id, order.access_key),
            order: order.id.to_string(),
        }
    }
}

impl MailTicket {
    fn new(programme: &Programme, ticket: &Ticket, number: usize) -> Self {
        let name = programme.ticket_types.iter().find(|of| of.id == ticket.ticket_type).map(|of| of.name.clone());
        let place = [("Section", &ticket.place.section), ("Row", &ticket.place.row), ("Seat", &ticket.place.seat)];
        let place: Vec<String> = place.into_iter().filter_map(|(label, value)| Some(format!("{label} {}", value.as_ref()?))).collect();
        Self {
            number,
            ticket_type: name.unwrap_or_default(),
            place: place.join(", "),
            code: ticket.code.clone().unwrap_or_default(),
            picture: format!("ticket-{}", ticket.position),
        }
    }
}

/// The mail, whole: as text, and as HTML with a picture for each ticket.
fn message(config: &MailConfig, public_url: &str, programme: &Programme, placed: &Placed) -> Result<Message, Trouble> {
    let mail = Mail::new(public_url, programme, placed);
    let lasting = |what: &str, error: &dyn std::fmt::Display| Trouble::Lasting(format!("{what}: {error}"));
    let text = Text { mail: &mail }.render().map_err(|error| lasting("the text could not be made", &error))?;
    let html = Html { mail: &mail }.render().map_err(|error| lasting("the text could not be made", &error))?;
    let mut related = MultiPart::related().singlepart(SinglePart::html(html));
    for ticket in &mail.tickets {
        let picture = Attachment::new_inline(ticket.picture.clone());
        let kind = ContentType::parse("image/png").map_err(|error| lasting("the picture has no type", &error))?;
        related = related.singlepart(picture.body(qr_png(&ticket.code)?, kind));
    }
    let address = Email::ascii(&placed.order.buyer_email).unwrap_or_else(|| placed.order.buyer_email.clone());
    let to = address.parse().map_err(|error| lasting("the address cannot be written to", &error))?;
    let to = Mailbox::new(Some(placed.order.buyer_name.clone()), to);
    let domain = config.from.email.domain();
    Message::builder()
        // The same however often it is sent, so that a mail server may drop the second.
        .message_id(Some(format!("<{}.confirmation@{domain}>", placed.order.id)))
        .from(config.from.clone())
        .to(to)
        .subject(format!("{} for {}", mail.count, mail.event))
        .multipart(MultiPart::alternative().singlepart(SinglePart::plain(text)).multipart(related))
        .map_err(|error| lasting("the mail could not be put together", &error))
}

/// A ticket's code as a picture that a door's reader takes.
fn qr_png(code: &str) -> Result<Vec<u8>, Trouble> {
    let broken = |error: &dyn std::fmt::Display| Trouble::Lasting(format!("the QR code could not be made: {error}"));
    let qr = QRBuilder::new(code).ecl(ECL::M).build().map_err(|error| broken(&error))?;
    let dots = (qr.size + 2 * QUIET_ZONE) * MODULE_DOTS;
    let is_dark = |row: usize, column: usize| {
        let module = |dot: usize| (dot / MODULE_DOTS).checked_sub(QUIET_ZONE).filter(|module| *module < qr.size);
        module(row)
            .zip(module(column))
            .is_some_and(|(row, column)| qr.data.get(row * qr.size + column).is_some_and(|module| module.value()))
    };
    let pixels: Vec<u8> = (0..dots)
        .flat_map(|row| (0..dots).map(move |column| (row, column)))
        .map(|(row, column)| if is_dark(row, column) { 0 } else { 255 })
        .collect();
    let mut picture = Vec::new();
    let side = u32::try_from(dots).map_err(|error| broken(&error))?;
    let mut encoder = png::Encoder::new(&mut picture, side, side);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header().and_then(|mut writer| writer.write_image_data(&pixels)).map_err(|error| broken(&error))?;
    Ok(picture)
}

fn send(transport: &MailTransport, order: OrderId, message: &Message) -> Result<(), Trouble> {
    match transport {
        MailTransport::Spool(folder) => {
            spool(folder, order, &message.formatted()).map_err(|error| all_wait(format!("{}: {error}", folder.display())))
        }
        MailTransport::Smtp(url) => {
            let builder = SmtpTransport::from_url(url.as_str()).map_err(|error| all_wait(format!("the mail server's URL: {error}")))?;
            let server = builder.timeout(Some(SMTP_TIMEOUT)).build();
            let Err(error) = server.send(message) else { return Ok(()) };
            if error.is_client() {
                return Err(Trouble::Passing(format!("the mail server cannot be told: {error}")));
            }
            if !error.is_permanent() && !error.is_transient() {
                return Err(all_wait(format!("the mail server does not answer: {error}")));
            }
            // "No" for good may mean this mail or us: whoever is let in without a mail is refused for the mail.
            match server.test_connection() {
                Ok(true) if error.is_permanent() => Err(Trouble::Lasting(format!("the mail server refused it: {error}"))),
                Ok(true) => Err(Trouble::Passing(format!("the mail server did not take it: {error}"))),
                _ => Err(all_wait(format!("the mail server does not let us in: {error}"))),
            }
        }
    }
}

/// What stops every mail, not this one.
fn all_wait(why: String) -> Trouble {
    Trouble::Receiver { why, rest: TimeDelta::seconds(REST_SECS) }
}

/// Writes the mail where another program picks it up: under the order's name, whole or not at all, so that twice is once. Whoever can read it has
/// the tickets, so a folder that we make is ours alone; one that is there is as open as its owner wants.
fn spool(folder: &Path, order: OrderId, mail: &[u8]) -> io::Result<()> {
    let unfinished_ones = folder.join(UNFINISHED);
    DirBuilder::new().recursive(true).mode(0o700).create(&unfinished_ones)?;
    let unfinished = unfinished_ones.join(format!("{order}.{}", std::process::id()));
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o640).open(&unfinished)?;
        file.write_all(mail)?;
        file.sync_all()?;
        fs::rename(&unfinished, folder.join(format!("{order}.eml")))
    };
    write().inspect_err(|_| drop(fs::remove_file(&unfinished)))
}

/// Deletes what killed processes have left unfinished in a spool folder.
fn clear(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder.join(UNFINISHED))? {
        let entry = entry?;
        if entry.metadata()?.modified()?.elapsed().is_ok_and(|age| age > UNFINISHED_MAX) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
