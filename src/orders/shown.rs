//! An order as partners are shown it, field for field, by the API and by webhooks alike. A contract: what is inside may change behind it.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::{OrderLine, OrderStatus, Placed};
use crate::{
    clock::{seconds_until, timestamp},
    inventory::Ticket,
};

/// An order.
#[derive(Debug, Serialize)]
pub struct OrderJson {
    /// Its id.
    pub id: String,
    /// Slug of the event.
    pub event: String,
    status: &'static str,
    quantity: i32,
    requested_quantity: i32,
    total_minor: i64,
    currency: &'static str,
    items: Vec<ItemJson>,
    /// Its tickets, by position.
    pub tickets: Vec<TicketJson>,
    buyer: BuyerJson,
    cancelled_quantity: i32,
    expires_at: Option<String>,
    expires_in_seconds: Option<i64>,
    created_at: String,
}

#[derive(Debug, Serialize)]
struct ItemJson {
    ticket_type: String,
    quantity: i64,
    unit_price_minor: i64,
}

/// A ticket of an order.
#[derive(Debug, Default, Serialize)]
pub struct TicketJson {
    /// Its primary key within the event.
    pub position: i32,
    ticket_type: Option<String>,
    section: Option<String>,
    row: Option<String>,
    seat: Option<String>,
    code: Option<String>,
    used_at: Option<String>,
}

#[derive(Debug, Serialize)]
struct BuyerJson {
    name: String,
    email: String,
}

impl OrderJson {
    /// The order as the API shows it at `now`.
    pub fn of(event: &str, placed: Placed, now: DateTime<Utc>) -> Self {
        let Placed { order, tickets, type_codes } = placed;
        let status = order.status_at(now);
        // What became of the tickets of a hold that is over is not its buyer's any more, whether or not they were put back yet.
        let tickets = if status == OrderStatus::Expired { Vec::new() } else { tickets };
        let deadline = order.expires_at.filter(|_| matches!(status, OrderStatus::Held | OrderStatus::Expired));
        let item =
            |line: OrderLine| ItemJson { ticket_type: line.ticket_type, quantity: line.quantity, unit_price_minor: line.unit_price_minor };
        let ticket = |ticket: Ticket| TicketJson {
            position: ticket.position,
            ticket_type: type_codes.get(&ticket.ticket_type).cloned(),
            section: ticket.place.section,
            row: ticket.place.row,
            seat: ticket.place.seat,
            code: ticket.code,
            used_at: ticket.used_at.map(timestamp),
        };
        Self {
            id: order.id.to_string(),
            event: event.to_owned(),
            status: status.name(),
            quantity: order.quantity,
            requested_quantity: order.requested_quantity,
            total_minor: order.total_minor,
            currency: order.currency.code(),
            items: order.lines.into_iter().map(item).collect(),
            tickets: tickets.into_iter().map(ticket).collect(),
            buyer: BuyerJson { name: order.buyer_name, email: order.buyer_email },
            cancelled_quantity: order.cancelled_quantity,
            expires_at: deadline.map(timestamp),
            expires_in_seconds: deadline.filter(|_| status == OrderStatus::Held).map(|deadline| seconds_until(deadline, now)),
            created_at: timestamp(order.created_at),
        }
    }
}
