//! The product's own way: its tables, its inventory, its desk. The purchases carry no keys, since those of the other ways have none.

use chrono::{DateTime, Utc};
use diesel::{PgConnection, connection::SimpleConnection};

use super::{
    ClaimError, TICKETS_PER_PURCHASE,
    clients::{self, Attempt, Buyer, Run, Sale},
};
use crate::{
    clock::Clock,
    db::DbError,
    events::{self, EventError, EventInput, TicketTypeInput},
    inventory::{self, Load, LoadedBy, Stock},
    orders::{Caller, Desk, LineInput, OrderError, PurchaseInput, Request, SaleLimits, Taking},
};

const SLUG: &str = "bench";
const TICKET_TYPE: &str = "standard";

/// Makes the event that everybody buys for.
pub(super) fn open_event(conn: &mut PgConnection, now: DateTime<Utc>) -> Result<(), ClaimError> {
    let event = EventInput {
        slug: Some(SLUG.to_owned()),
        name: Some("Bench".to_owned()),
        currency: Some("EUR".to_owned()),
        ..EventInput::default()
    };
    events::create(conn, now, &event.parse().map_err(EventError::Invalid)?)?;
    let standard = TicketTypeInput { code: Some(TICKET_TYPE.to_owned()), price_minor: Some(4_500), ..TicketTypeInput::default() };
    events::add_ticket_type(conn, now, SLUG, &standard)?;
    Ok(())
}

/// Empties the tables that a sale writes, and loads `tickets` new tickets.
pub(super) fn refill(conn: &mut PgConnection, now: DateTime<Utc>, tickets: u32) -> Result<(), ClaimError> {
    conn.batch_execute("TRUNCATE tickets, orders, inventory_loads")?;
    let stock = Stock::Count { ticket_type: TICKET_TYPE.to_owned(), quantity: tickets.into() };
    inventory::load(conn, now, &Load { event: SLUG.to_owned(), stock, by: LoadedBy::CommandLine, key: None, dry_run: false })?;
    conn.batch_execute("VACUUM ANALYZE tickets, orders, events, ticket_types")?;
    Ok(())
}

/// A client of the desk in this process: what a handler is, without HTTP.
struct DeskBuyer {
    desk: Desk,
    request: Request,
}

/// Sells at desks that are opened for this run.
pub(super) fn sell(run: &Run<'_>) -> Result<Sale, ClaimError> {
    let purchase = PurchaseInput {
        buyer_name: Some("Ada".to_owned()),
        buyer_email: Some("ada@example.org".to_owned()),
        lines: vec![LineInput { ticket_type: Some(TICKET_TYPE.to_owned()), quantity: Some(TICKETS_PER_PURCHASE.into()) }],
        accept_fewer: false,
    };
    let request =
        Request { purchase: purchase.parse().map_err(OrderError::Invalid)?, caller: Caller::Web, key: None, taking: Taking::Sell };
    let desk = Desk::open(run.db, &Clock::system(), SaleLimits::default());
    let buyers = (0..run.clients).map(|_| DeskBuyer { desk: desk.clone(), request: request.clone() }).collect();
    let sale = clients::on_this_thread(buyers, run);
    desk.close();
    sale
}

impl Buyer for DeskBuyer {
    async fn attempt(&mut self) -> Result<Attempt, ClaimError> {
        match self.desk.sell(SLUG.to_owned(), self.request.clone()).await {
            Ok(placed) => Ok(Attempt::Sold(placed.tickets.iter().map(|ticket| ticket.position).collect())),
            Err(OrderError::Short(..)) => Ok(Attempt::SoldOut),
            Err(OrderError::Db(DbError::Busy(_) | DbError::Conflict(_))) => Ok(Attempt::Missed),
            Err(error) => Err(error.into()),
        }
    }
}
