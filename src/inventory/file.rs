//! Reading an inventory file: CSV as spreadsheets write it, into rows that are right, or a list of what is wrong. Pure.

use std::collections::HashMap;

use csv::{ReaderBuilder, StringRecord, Trim};
use serde::Serialize;

use super::{LOAD_TICKETS_MAX, Place};
use crate::{events::Programme, ids::TicketTypeId, input::line_of_text};

/// Longest section, row, seat or reference, in characters.
const CELL_MAX: usize = 100;
/// Most errors that are told; the rest is counted.
const ERRORS_TOLD_MAX: usize = 100;
/// The columns that a file may have.
const COLUMNS: [&str; 7] = ["ticket_type", "quantity", "section", "row", "seat", "price_minor", "external_ref"];

/// A line of the file that is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Line in the file, the header being line 1.
    pub line: u64,
    /// Type of the tickets.
    pub ticket_type: TicketTypeId,
    /// How many; 1 where there is a place or a reference.
    pub quantity: i64,
    /// Where it is.
    pub place: Place,
    /// The loading system's own name of the ticket.
    pub external_ref: Option<String>,
}

/// What is wrong with one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RowError {
    /// Line in the file, the header being line 1.
    pub row: u64,
    /// The column, or `file` where it is not one column's fault.
    pub field: String,
    /// What is wrong and what it must be.
    pub message: String,
}

/// All that is wrong with a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowErrors {
    /// The first of them.
    pub first: Vec<RowError>,
    /// How many there are in all.
    pub total: usize,
}

impl RowErrors {
    /// Adds one error.
    pub fn add(&mut self, row: u64, field: &str, message: impl Into<String>) {
        self.total += 1;
        if self.first.len() < ERRORS_TOLD_MAX {
            self.first.push(RowError { row, field: field.to_owned(), message: message.into() });
        }
    }

    fn one(row: u64, message: impl Into<String>) -> Self {
        let mut errors = Self::default();
        errors.add(row, "file", message);
        errors
    }

    /// `Ok(value)` if nothing was wrong.
    ///
    /// # Errors
    /// Itself, if anything was.
    pub fn or<T>(self, value: T) -> Result<T, Self> {
        if self.total == 0 { Ok(value) } else { Err(self) }
    }
}

/// Reads a file for an event.
///
/// UTF-8 with or without byte order mark; `,` `;` or tab, whichever the header uses; header names in any case and with spaces around.
///
/// # Errors
/// Everything that is wrong, by line. Nothing is guessed and nothing left out.
pub fn parse(bytes: &[u8], programme: &Programme) -> Result<Vec<Seat>, RowErrors> {
    let text = decode(bytes)?;
    refuse_unclosed_quote(text)?;
    let mut reader = ReaderBuilder::new().delimiter(delimiter(text)).flexible(true).trim(Trim::All).from_reader(text.as_bytes());
    let columns = match reader.headers() {
        Ok(header) => Columns::of(header)?,
        Err(error) => return Err(RowErrors::one(1, error.to_string())),
    };
    let mut errors = RowErrors::default();
    let mut seats = Vec::new();
    let mut lines = Lines::of(text);
    for record in reader.records() {
        match record {
            Ok(record) if record.iter().all(str::is_empty) => {}
            Ok(record) => {
                let line = lines.line_at(record.position().map_or(0, csv::Position::byte));
                seats.extend(columns.seat(&record, line, programme, &mut errors));
            }
            Err(error) => errors.add(error.position().map_or(0, csv::Position::line), "file", error.to_string()),
        }
    }
    refuse_duplicates(&seats, &mut errors);
    refuse_sum(&seats, &mut errors);
    if seats.is_empty() && errors.total == 0 {
        errors.add(1, "file", "has a header and no rows: add one row for each ticket, or for each ticket_type and quantity");
    }
    errors.or(seats)
}

fn decode(bytes: &[u8]) -> Result<&str, RowErrors> {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err(RowErrors::one(1, "is UTF-16, not UTF-8: save it as \"CSV UTF-8\""));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let good = bytes.get(..error.valid_up_to()).unwrap_or(bytes);
        let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
        RowErrors::one(u64::try_from(line).unwrap_or(0), "has a character that is not UTF-8: save the file as \"CSV UTF-8\"")
    })?;
    if text.trim().is_empty() {
        return Err(RowErrors::one(1, "is empty: the first line must name the columns, such as ticket_type,quantity"));
    }
    Ok(text)
}

/// The reader would take an unclosed quote for one long cell, up to the end of the file: rows would vanish.
fn refuse_unclosed_quote(text: &str) -> Result<(), RowErrors> {
    let (mut line, mut opened_on, mut cell_starts) = (1_u64, None, true);
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        line += u64::from(byte == b'\n');
        match (byte, opened_on) {
            (b'"', None) if cell_starts => opened_on = Some(line),
            (b'"', Some(_)) if bytes.peek() == Some(&b'"') => {
                bytes.next();
            }
            (b'"', Some(_)) => opened_on = None,
            _ => {}
        }
        cell_starts = matches!(byte, b',' | b';' | b'\t' | b'\n' | b'\r') || (cell_starts && byte == b' ');
    }
    match opened_on {
        Some(line) => Err(RowErrors::one(line, "has a quote (\") that is never closed")),
        None => Ok(()),
    }
}

/// Counts lines as a spreadsheet does. The reader's own count is one behind where lines end in CR LF, since it begins a row at the LF.
struct Lines<'t> {
    text: &'t str,
    offset: usize,
    line: u64,
}

impl<'t> Lines<'t> {
    fn of(text: &'t str) -> Self {
        Self { text, offset: 0, line: 1 }
    }

    /// The line of the first character at or behind byte `offset` that does not end a line. Offsets must grow from call to call.
    fn line_at(&mut self, offset: u64) -> u64 {
        let bytes = self.text.as_bytes();
        let ends_line = |place: usize| match bytes.get(place) {
            Some(b'\n') => true,
            Some(b'\r') => bytes.get(place + 1) != Some(&b'\n'),
            _ => false,
        };
        let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        while self.offset < offset || matches!(bytes.get(self.offset), Some(b'\n' | b'\r')) {
            self.line += u64::from(ends_line(self.offset));
            self.offset += 1;
        }
        self.line
    }
}

fn delimiter(text: &str) -> u8 {
    let header = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
    let count = |delimiter: &u8| header.bytes().filter(|byte| byte == delimiter).count();
    // The last of equals wins, so the comma stands last: a header of one column has none of them.
    [b'\t', b';', b','].into_iter().max_by_key(count).unwrap_or(b',')
}

/// Where in a row each column stands.
struct Columns {
    places: HashMap<&'static str, usize>,
    width: usize,
}

impl Columns {
    fn of(header: &StringRecord) -> Result<Self, RowErrors> {
        let mut errors = RowErrors::default();
        let mut columns = HashMap::new();
        for (place, cell) in header.iter().enumerate() {
            let name = cell.trim().to_lowercase().replace([' ', '-'], "_");
            match COLUMNS.iter().find(|column| **column == name) {
                Some(column) if columns.insert(*column, place).is_some() => errors.add(1, column, "is named twice in the header"),
                Some(_) => {}
                None if name.is_empty() => {}
                None => errors.add(1, "file", format!("has a column {cell:?} that is not known: the columns are {}", COLUMNS.join(", "))),
            }
        }
        if !columns.contains_key("ticket_type") {
            errors.add(1, "ticket_type", "is missing in the header: the first line must name the columns, such as ticket_type,quantity");
        }
        errors.or(Self { places: columns, width: header.len() })
    }

    fn cell<'a>(&self, record: &'a StringRecord, column: &str) -> Option<&'a str> {
        let cell = record.get(*self.places.get(column)?)?;
        (!cell.is_empty()).then_some(cell)
    }

    /// Reads one row; what is wrong with it is added to `errors`.
    fn seat(&self, record: &StringRecord, line: u64, programme: &Programme, errors: &mut RowErrors) -> Option<Seat> {
        let wrong_before = errors.total;
        let mut text = |column: &str| {
            let cell = self.cell(record, column)?;
            let line_of_text = line_of_text(cell, CELL_MAX);
            if line_of_text.is_none() {
                errors.add(line, column, format!("must be one line of at most {CELL_MAX} characters"));
            }
            line_of_text
        };
        let place = Place { section: text("section"), row: text("row"), seat: text("seat") };
        let external_ref = text("external_ref");
        if record.iter().skip(self.width).any(|cell| !cell.is_empty()) {
            errors.add(line, "file", "has more cells than the header has columns");
        }
        if place.seat.is_none() && place != Place::default() {
            errors.add(line, "seat", "is missing: a section or a row needs a seat, so that the same place is not loaded twice");
        }
        let ticket_type = self.ticket_type(record, line, programme, errors);
        let is_one_ticket = place.seat.is_some() || external_ref.is_some();
        let quantity = self.quantity(record, line, is_one_ticket, errors);
        if errors.total > wrong_before {
            return None;
        }
        Some(Seat { line, ticket_type: ticket_type?, quantity: quantity?, place, external_ref })
    }

    fn ticket_type(&self, record: &StringRecord, line: u64, programme: &Programme, errors: &mut RowErrors) -> Option<TicketTypeId> {
        let Some(code) = self.cell(record, "ticket_type") else {
            errors.add(line, "ticket_type", "is missing");
            return None;
        };
        let Some(ticket_type) = programme.ticket_type(&code.to_lowercase()) else {
            let known: Vec<&str> = programme.ticket_types.iter().map(|ticket_type| ticket_type.code.as_str()).collect();
            let hint = if known.is_empty() {
                "the event has none yet: add one first".to_owned()
            } else {
                format!("the event has {}", known.join(", "))
            };
            errors.add(line, "ticket_type", format!("{code:?} is not a ticket type of this event: {hint}"));
            return None;
        };
        let price = self.cell(record, "price_minor");
        if price.is_some_and(|price| price.parse() != Ok(ticket_type.price_minor)) {
            let message = format!(
                "must be {}, the price of {} in minor units: a ticket with another price needs a ticket type of its own",
                ticket_type.price_minor, ticket_type.code
            );
            errors.add(line, "price_minor", message);
        }
        Some(ticket_type.id)
    }

    fn quantity(&self, record: &StringRecord, line: u64, is_one_ticket: bool, errors: &mut RowErrors) -> Option<i64> {
        let Some(cell) = self.cell(record, "quantity") else {
            if self.places.contains_key("quantity") && !is_one_ticket {
                errors.add(line, "quantity", "is missing");
                return None;
            }
            return Some(1);
        };
        let quantity = cell.parse().ok().filter(|quantity| (1..=LOAD_TICKETS_MAX).contains(quantity));
        match quantity {
            None => errors.add(line, "quantity", format!("must be a whole number from 1 to {LOAD_TICKETS_MAX}")),
            Some(many) if many > 1 && is_one_ticket => errors.add(line, "quantity", "must be 1 where there is a seat or an external_ref"),
            Some(_) => {}
        }
        quantity
    }
}

/// A seat or a reference stands once in a file.
fn refuse_duplicates(seats: &[Seat], errors: &mut RowErrors) {
    let (mut places, mut refs) = (HashMap::new(), HashMap::new());
    for seat in seats {
        if seat.place.seat.is_some()
            && let Some(first) = places.insert(&seat.place, seat.line)
        {
            errors.add(seat.line, "seat", format!("is the same seat as in row {first}"));
        }
        if let Some(external_ref) = &seat.external_ref
            && let Some(first) = refs.insert(external_ref, seat.line)
        {
            errors.add(seat.line, "external_ref", format!("is the same as in row {first}"));
        }
    }
}

fn refuse_sum(seats: &[Seat], errors: &mut RowErrors) {
    let sum: i64 = seats.iter().map(|seat| seat.quantity).sum();
    if sum > LOAD_TICKETS_MAX {
        errors.add(1, "file", format!("has {sum} tickets in all: one load brings at most {LOAD_TICKETS_MAX}, so split it"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        events::{Event, EventInput, TicketType},
        ids::EventId,
    };

    fn programme() -> Programme {
        let input =
            EventInput { slug: Some("gala".into()), name: Some("Gala".into()), currency: Some("EUR".into()), ..EventInput::default() };
        let event = Event::new(EventId::new(), chrono::DateTime::UNIX_EPOCH, input.parse().unwrap());
        let ticket_type = |code: &str, price_minor| TicketType {
            id: TicketTypeId::new(),
            code: code.into(),
            name: code.into(),
            price_minor,
            sales_open_at: None,
            sales_close_at: None,
        };
        Programme { event, ticket_types: vec![ticket_type("standard", 4_500), ticket_type("vip", 9_000)] }
    }

    fn read(text: impl AsRef<[u8]>) -> Result<Vec<Seat>, RowErrors> {
        parse(text.as_ref(), &programme())
    }

    fn error(text: impl AsRef<[u8]>) -> (u64, String, String) {
        let errors = read(text).unwrap_err();
        let first = errors.first.into_iter().next().unwrap();
        (first.row, first.field, first.message)
    }

    #[test]
    fn a_german_spreadsheet_with_a_bom_accents_and_a_padded_header_loads() {
        let seats = read("\u{feff}Ticket_Type ; Section;ROW;Seat;price_minor\r\nstandard;Galerie \u{e9}t\u{e9};A;1;4500\r\nVIP;\"Loge; links\";B;2;\r\n\r\n").unwrap();
        assert_eq!(seats.len(), 2);
        assert_eq!(seats[0].place.section.as_deref(), Some("Galerie \u{e9}t\u{e9}"));
        assert_eq!(seats[1].place.section.as_deref(), Some("Loge; links"));
        assert_eq!(seats[1].line, 3);
    }

    #[test]
    fn rows_are_counted_as_a_spreadsheet_does_whatever_ends_a_line() {
        for end in ["\n", "\r\n", "\r"] {
            let text = ["ticket_type,section,seat", "standard,\"two\u{2028}lines\",1", "", "standard,A,2", "none,A,3"].join(end);
            assert_eq!(error(&text).0, 5, "{end:?}");
        }
        assert_eq!(error("ticket_type,section,seat\r\nstandard,\"A\r\nB\",1\r\nnone,A,3\r\n").0, 2, "a cell of two lines is refused");
    }

    #[test]
    fn a_tab_or_a_comma_or_a_single_column_will_do() {
        assert_eq!(read("ticket_type\tquantity\nstandard\t5\n").unwrap()[0].quantity, 5);
        assert_eq!(read("ticket_type,quantity\nstandard, 5\nvip,2").unwrap()[1].quantity, 2);
        assert_eq!(read("ticket_type\nstandard\nstandard\n").unwrap().len(), 2);
    }

    #[test]
    fn what_is_not_utf_8_is_refused_with_its_row_and_never_guessed() {
        let (row, field, message) = error(b"ticket_type,section,seat\nstandard,ok,1\nstandard,caf\xe9,2\n");
        assert_eq!((row, field.as_str()), (3, "file"));
        assert!(message.contains("not UTF-8"), "{message}");
        assert!(error(b"\xff\xfet\0i\0").2.contains("UTF-16"));
    }

    #[test]
    fn an_unclosed_quote_is_found_where_it_opens() {
        let (row, _, message) = error("ticket_type,section,seat\nstandard,A,1\nstandard,\"B,2\nstandard,C,3\n");
        assert_eq!(row, 3);
        assert!(message.contains("never closed"), "{message}");
        let five_inches = read("ticket_type,section,seat\nstandard,\"the \"\"A\"\" block\",1\nstandard,5\" rail,2\n").unwrap();
        assert_eq!(five_inches[0].place.section.as_deref(), Some("the \"A\" block"));
    }

    #[test]
    fn every_wrong_row_is_told_with_its_number() {
        let errors = read("ticket_type,quantity,section,row,seat,price_minor,external_ref\nbalcony,1,,,,,\nstandard,0,,,,,\nstandard,2,A,1,1,,\nstandard,,A,1,,,\nstandard,,A,1,2,4400,\n,1,,,,,\nstandard,1,,,,,,,surplus\n").unwrap_err();
        let told: Vec<(u64, &str)> = errors.first.iter().map(|error| (error.row, error.field.as_str())).collect();
        assert_eq!(
            told,
            [
                (2, "ticket_type"),
                (3, "quantity"),
                (4, "quantity"),
                (5, "seat"),
                (5, "quantity"),
                (6, "price_minor"),
                (7, "ticket_type"),
                (8, "file")
            ]
        );
    }

    #[test]
    fn a_seat_or_a_reference_stands_once_in_a_file() {
        let (row, field, message) = error("ticket_type,section,row,seat\nstandard,A,1,1\nstandard,A,1,2\nvip,A,1,1\n");
        assert_eq!((row, field.as_str(), message.as_str()), (4, "seat", "is the same seat as in row 2"));
        assert_eq!(error("ticket_type,external_ref\nstandard,x\nstandard,x\n").0, 3);
    }

    #[test]
    fn a_file_without_rows_or_with_unknown_columns_is_refused() {
        assert!(error("").2.contains("is empty"));
        assert!(error("ticket_type,quantity\n").2.contains("no rows"));
        assert!(error("ticket_type,price\nstandard,1\n").2.contains("\"price\""));
        assert!(error("standard,5\nvip,1\n").2.contains("not known"));
        assert!(error("ticket_type,quantity,quantity\nstandard,1,1\n").2.contains("twice"));
    }
}
