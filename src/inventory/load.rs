//! Loading: from what somebody sent to rows on sale, all of it or nothing.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use chrono::{DateTime, Utc};
use diesel::PgConnection;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    EVENT_TICKETS_MAX, InventoryError, LOAD_TICKETS_MAX, Place,
    file::{self, RowErrors, Seat},
    queries::{self, NewLoad, NewTicket, Present},
};
use crate::{
    db::{DbError, transaction},
    events::{self, Programme},
    ids::{AdminId, EventId, PartnerId, TicketTypeId},
};

/// Rows with a place in one INSERT: each travels to the database in it.
const INSERT_ROWS_MAX: usize = 10_000;
/// Rows without a place in one INSERT: PostgreSQL makes them, and no statement may run longer than `statement_timeout`.
const COUNTED_ROWS_MAX: i32 = 50_000;

/// What to load.
#[derive(Clone, Debug)]
pub enum Stock {
    /// So many tickets of a type, without places.
    Count {
        /// The type's code.
        ticket_type: String,
        /// How many.
        quantity: i64,
    },
    /// A CSV file.
    File(Vec<u8>),
}

/// Who loads; Idempotency-Keys are theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadedBy {
    /// A partner with the scope `admin`.
    Partner(PartnerId),
    /// An admin, from the page.
    Admin(AdminId),
    /// `boxoffice load`, or the demo.
    CommandLine,
}

impl fmt::Display for LoadedBy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Partner(id) => write!(out, "partner:{id}"),
            Self::Admin(id) => write!(out, "admin:{id}"),
            Self::CommandLine => out.write_str("command-line"),
        }
    }
}

/// One load, asked for.
#[derive(Clone, Debug)]
pub struct Load {
    /// The event's slug.
    pub event: String,
    /// What to load.
    pub stock: Stock,
    /// Who loads.
    pub by: LoadedBy,
    /// Idempotency-Key, with the hash of the request.
    pub key: Option<(String, Vec<u8>)>,
    /// Only tell what would happen.
    pub dry_run: bool,
}

/// What a load did, or would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadReport {
    /// The event's slug.
    pub event: String,
    /// Nothing was stored.
    pub dry_run: bool,
    /// Tickets that were added.
    pub loaded: i64,
    /// Tickets of the file that the event had already.
    pub already_there: i64,
    /// The same by type.
    pub ticket_types: Vec<TypeReport>,
}

/// One ticket type's part of a [`LoadReport`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeReport {
    /// The type's code.
    pub ticket_type: String,
    /// Tickets that were added.
    pub loaded: i64,
    /// Tickets that were there already.
    pub already_there: i64,
}

/// A load of before, as stored.
pub(super) struct StoredLoad {
    pub(super) report: Value,
    pub(super) request_hash: Option<Vec<u8>>,
}

/// Loads inventory. A ticket that is there already (the same reference, or the same seat) is not loaded again.
///
/// # Errors
/// [`InventoryError::Rows`] naming every wrong row, [`InventoryError::KeyReused`], [`InventoryError::Event`] if there is no such event or
/// the quantity is wrong. Nothing is stored in any of these cases.
pub fn load(conn: &mut PgConnection, now: DateTime<Utc>, load: &Load) -> Result<LoadReport, InventoryError> {
    transaction(conn, |conn| {
        // Loads of an event run one after the other, by the lock on its row, so that what is compared stays true until it is stored.
        // Sales do not lock that row, and go on.
        let programme = events::programme_for_update(conn, &load.event)?;
        if let Some(report) = replay(conn, &programme, load)? {
            return Ok(report);
        }
        let plan = plan(conn, &programme, &load.stock)?;
        let report = plan.report(&programme, load.dry_run);
        if !load.dry_run {
            store(conn, &programme, plan)?;
            record(conn, now, &programme, load, &report)?;
        }
        Ok(report)
    })
}

/// The report of the load that `by` made under `key`, if there was one.
///
/// # Errors
/// The database's.
pub fn report_of(conn: &mut PgConnection, event: EventId, by: LoadedBy, key: &str) -> Result<Option<LoadReport>, DbError> {
    let Some(stored) = queries::load_by_key(conn, event, &by.to_string(), key)? else { return Ok(None) };
    serde_json::from_value(stored.report).map(Some).map_err(DbError::unreadable)
}

fn replay(conn: &mut PgConnection, programme: &Programme, load: &Load) -> Result<Option<LoadReport>, InventoryError> {
    let Some((key, hash)) = load.key.as_ref().filter(|_| !load.dry_run) else { return Ok(None) };
    match queries::load_by_key(conn, programme.event.id, &load.by.to_string(), key)? {
        None => Ok(None),
        Some(stored) if stored.request_hash.as_ref() != Some(hash) => Err(InventoryError::KeyReused),
        Some(stored) => serde_json::from_value(stored.report).map(Some).map_err(|error| DbError::unreadable(error).into()),
    }
}

fn record(
    conn: &mut PgConnection,
    now: DateTime<Utc>,
    programme: &Programme,
    load: &Load,
    report: &LoadReport,
) -> Result<(), InventoryError> {
    let new = NewLoad {
        event: programme.event.id,
        source: if matches!(load.stock, Stock::File(_)) { "csv" } else { "count" },
        loaded_by: &load.by.to_string(),
        report: serde_json::to_value(report).map_err(DbError::unreadable)?,
        key: load.key.as_ref().map(|(key, _)| key.as_str()),
        request_hash: load.key.as_ref().map(|(_, hash)| hash.as_slice()),
        now,
    };
    Ok(queries::insert_load(conn, &new)?)
}

/// What will be stored, in the order of the file.
#[derive(Default)]
struct Plan {
    shelves: Vec<Shelf>,
    already_there: HashMap<TicketTypeId, i64>,
}

/// Tickets that are stored by one kind of statement.
enum Shelf {
    Counted(TicketTypeId, i64),
    Placed(Vec<Seat>),
}

impl Plan {
    fn add(&mut self, seat: Seat) {
        let counted = seat.place.seat.is_none() && seat.external_ref.is_none();
        match (self.shelves.last_mut(), counted) {
            (Some(Shelf::Counted(ticket_type, quantity)), true) if *ticket_type == seat.ticket_type => *quantity += seat.quantity,
            (_, true) => self.shelves.push(Shelf::Counted(seat.ticket_type, seat.quantity)),
            (Some(Shelf::Placed(seats)), false) => seats.push(seat),
            (_, false) => self.shelves.push(Shelf::Placed(vec![seat])),
        }
    }

    fn loaded(&self, wanted: TicketTypeId) -> i64 {
        let of_shelf = |shelf: &Shelf| match shelf {
            Shelf::Counted(ticket_type, quantity) => {
                if *ticket_type == wanted {
                    *quantity
                } else {
                    0
                }
            }
            Shelf::Placed(seats) => i64::try_from(seats.iter().filter(|seat| seat.ticket_type == wanted).count()).unwrap_or(i64::MAX),
        };
        self.shelves.iter().map(of_shelf).sum()
    }

    fn report(&self, programme: &Programme, dry_run: bool) -> LoadReport {
        let of_type = |ticket_type: &events::TicketType| TypeReport {
            ticket_type: ticket_type.code.clone(),
            loaded: self.loaded(ticket_type.id),
            already_there: self.already_there.get(&ticket_type.id).copied().unwrap_or(0),
        };
        let ticket_types: Vec<TypeReport> =
            programme.ticket_types.iter().map(of_type).filter(|report| report.loaded + report.already_there > 0).collect();
        LoadReport {
            event: programme.event.slug.clone(),
            dry_run,
            loaded: ticket_types.iter().map(|report| report.loaded).sum(),
            already_there: ticket_types.iter().map(|report| report.already_there).sum(),
            ticket_types,
        }
    }
}

fn plan(conn: &mut PgConnection, programme: &Programme, stock: &Stock) -> Result<Plan, InventoryError> {
    let plan = match stock {
        Stock::Count { ticket_type, quantity } => plan_count(programme, ticket_type, *quantity)?,
        Stock::File(bytes) => {
            let seats = file::parse(bytes, programme).map_err(InventoryError::Rows)?;
            plan_seats(conn, programme, seats)?
        }
    };
    let loaded = plan.report(programme, true).loaded;
    let last = queries::last_position(conn, programme.event.id)?;
    if i64::from(last) + loaded > EVENT_TICKETS_MAX {
        return Err(InventoryError::invalid("quantity", format!("is too many: an event has at most {EVENT_TICKETS_MAX} tickets")));
    }
    Ok(plan)
}

fn plan_count(programme: &Programme, code: &str, quantity: i64) -> Result<Plan, InventoryError> {
    let ticket_type = programme
        .ticket_type(code)
        .ok_or_else(|| InventoryError::invalid("ticket_type", format!("{code:?} is not a ticket type of this event")))?;
    if !(1..=LOAD_TICKETS_MAX).contains(&quantity) {
        return Err(InventoryError::invalid("quantity", format!("must be a whole number from 1 to {LOAD_TICKETS_MAX}")));
    }
    Ok(Plan { shelves: vec![Shelf::Counted(ticket_type.id, quantity)], already_there: HashMap::new() })
}

/// Leaves out what the event has already, and refuses what contradicts it.
fn plan_seats(conn: &mut PgConnection, programme: &Programme, seats: Vec<Seat>) -> Result<Plan, InventoryError> {
    let refs: Vec<&str> = seats.iter().filter_map(|seat| seat.external_ref.as_deref()).collect();
    let places: Vec<&Place> = seats.iter().map(|seat| &seat.place).filter(|place| place.seat.is_some()).collect();
    let shelf = OnShelf::of(queries::present(conn, programme.event.id, &refs, &places)?);
    let (mut plan, mut errors) = (Plan::default(), RowErrors::default());
    for seat in seats {
        match shelf.compare(&seat) {
            Compared::New => plan.add(seat),
            Compared::Same => *plan.already_there.entry(seat.ticket_type).or_default() += 1,
            Compared::Contradiction(field, message) => errors.add(seat.line, field, message),
        }
    }
    errors.or(plan).map_err(InventoryError::Rows)
}

/// The tickets that the event has, as far as a file mentions them.
struct OnShelf {
    by_ref: HashMap<String, Present>,
    places: HashSet<(TicketTypeId, Place)>,
    taken: HashSet<Place>,
}

enum Compared {
    New,
    Same,
    Contradiction(&'static str, &'static str),
}

impl OnShelf {
    fn of(present: Vec<Present>) -> Self {
        let mut shelf = Self { by_ref: HashMap::new(), places: HashSet::new(), taken: HashSet::new() };
        for ticket in present {
            if ticket.place.seat.is_some() {
                shelf.taken.insert(ticket.place.clone());
                shelf.places.insert((ticket.ticket_type, ticket.place.clone()));
            }
            if let Some(external_ref) = ticket.external_ref.clone() {
                shelf.by_ref.insert(external_ref, ticket);
            }
        }
        shelf
    }

    fn compare(&self, seat: &Seat) -> Compared {
        if let Some(external_ref) = &seat.external_ref {
            return match self.by_ref.get(external_ref) {
                Some(present) if present.ticket_type == seat.ticket_type && present.place == seat.place => Compared::Same,
                Some(_) => Compared::Contradiction("external_ref", "is loaded already, with another type or place"),
                None if self.taken.contains(&seat.place) => {
                    Compared::Contradiction("seat", "is loaded already, under another external_ref")
                }
                None => Compared::New,
            };
        }
        if seat.place.seat.is_none() || !self.taken.contains(&seat.place) {
            return Compared::New;
        }
        if self.places.contains(&(seat.ticket_type, seat.place.clone())) {
            return Compared::Same;
        }
        Compared::Contradiction("seat", "is loaded already, with another ticket type")
    }
}

fn store(conn: &mut PgConnection, programme: &Programme, plan: Plan) -> Result<(), InventoryError> {
    let event = programme.event.id;
    let mut last = queries::last_position(conn, event)?;
    for shelf in plan.shelves {
        match shelf {
            Shelf::Counted(ticket_type, quantity) => {
                let until = last + i32::try_from(quantity).unwrap_or(i32::MAX);
                while last < until {
                    let first = last + 1;
                    last = until.min(last + COUNTED_ROWS_MAX);
                    queries::insert_counted(conn, event, ticket_type, first, last)?;
                }
            }
            Shelf::Placed(seats) => {
                for chunk in seats.chunks(INSERT_ROWS_MAX) {
                    let new: Vec<NewTicket> = chunk.iter().zip(last + 1..).map(|(seat, position)| new_ticket(seat, position)).collect();
                    queries::insert_placed(conn, event, &new)?;
                    last += i32::try_from(new.len()).unwrap_or(i32::MAX);
                }
            }
        }
    }
    Ok(())
}

fn new_ticket(seat: &Seat, position: i32) -> NewTicket {
    NewTicket { position, ticket_type: seat.ticket_type, place: seat.place.clone(), external_ref: seat.external_ref.clone() }
}
