//! The event of `serve --demo`.

use chrono::{DateTime, TimeDelta, Utc};
use diesel::PgConnection;

use crate::{
    events::{self, EventError, EventInput, TicketTypeInput},
    inventory::{self, InventoryError, Load, LoadedBy, Stock},
};

/// The demo event's slug.
pub const SLUG: &str = "gala";
/// Its ticket types: code, name, price in cents, how many.
const TYPES: [(&str, &str, i64, i64); 2] = [("standard", "Standard", 4_500, 400), ("vip", "VIP, front rows", 9_000, 100)];

/// Makes the demo event with 500 tickets on sale, unless it is there. A start that was interrupted is completed by the next.
///
/// # Errors
/// The database's.
pub fn prepare(conn: &mut PgConnection, now: DateTime<Utc>) -> Result<(), InventoryError> {
    if matches!(events::programme(conn, SLUG), Err(EventError::NotFound(_))) {
        let input = EventInput {
            slug: Some(SLUG.to_owned()),
            name: Some("Summer Gala".to_owned()),
            venue: Some("Old Opera House".to_owned()),
            starts_at: Some((now + TimeDelta::days(30)).format("%Y-%m-%dT20:00").to_string()),
            time_zone: Some("Europe/Berlin".to_owned()),
            currency: Some("EUR".to_owned()),
            ..EventInput::default()
        };
        ignore_taken(input.parse().map_err(EventError::Invalid).and_then(|new| events::create(conn, now, &new)))?;
    }
    for (code, name, price_minor, quantity) in TYPES {
        let (code, name) = (code.to_owned(), name.to_owned());
        let input =
            TicketTypeInput { code: Some(code.clone()), name: Some(name), price_minor: Some(price_minor), ..TicketTypeInput::default() };
        ignore_taken(events::add_ticket_type(conn, now, SLUG, &input))?;
        // The key makes the load happen once, however often the server is started.
        let key = Some((format!("demo-{code}"), Vec::new()));
        let stock = Stock::Count { ticket_type: code, quantity };
        inventory::load(conn, now, &Load { event: SLUG.to_owned(), stock, by: LoadedBy::CommandLine, key, dry_run: false })?;
    }
    Ok(())
}

/// Another server, or an earlier start, has made it already.
fn ignore_taken<T>(result: Result<T, EventError>) -> Result<(), EventError> {
    match result {
        Ok(_) | Err(EventError::Invalid(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
