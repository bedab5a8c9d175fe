//! What the pages of a buyer and of an admin share about changes of an order: the form, and the words when nothing came of it.

use super::{form::Form, order::Said, tickets};
use crate::orders::OrderError;

/// What the name of a ticket's box begins with; its position follows.
const TICKET: &str = "ticket-";

/// The positions of the tickets that are ticked.
pub(super) fn positions(form: &Form) -> Vec<i32> {
    form.pairs().filter_map(|(name, _)| name.strip_prefix(TICKET)?.parse().ok()).collect()
}

/// Why nothing came of a change, for whoever asked for it; `None` for what is not theirs to know.
pub(super) fn said_of(error: &OrderError) -> Option<Said> {
    let said = |tone, title: &str, text: &str| Some(Said::new(tone, title, text));
    match error {
        OrderError::HoldExpired => said(
            "warn",
            "The tickets are gone",
            "After your time ran out others took them, and not enough others are left. Nothing has been bought.",
        ),
        OrderError::Cancelled => said("warn", "Nothing to buy here", "These tickets were given back. Nothing has been bought."),
        OrderError::SalesClosed { cancelled: true, .. } => {
            said("bad", "This event is cancelled", "It will not take place. Nothing has been bought.")
        }
        OrderError::SalesClosed { .. } => {
            said("warn", "The sale is over", "Your time had run out, and tickets are no longer sold. Nothing has been bought.")
        }
        OrderError::SalesNotOpen { .. } => {
            said("warn", "The sale is paused", "Your time had run out, and no tickets are sold at this moment. Nothing has been bought.")
        }
        OrderError::BuyerLimitExceeded { limit, has, .. } => {
            let text = format!("Your time had run out, and you have bought {} since. Nothing more has been bought.", tickets(*has));
            Some(Said::new("warn", format!("At most {} a person", tickets(*limit)), text))
        }
        OrderError::EventBegun => said("warn", "Not taken back", "The event has begun, so its tickets are no longer taken back."),
        OrderError::CancelNotAllowed { .. } => {
            said("warn", "Not taken back", "The organiser does not take tickets of this event back, or no longer. Yours are still valid.")
        }
        OrderError::TicketUsed { .. } => {
            said("warn", "Not taken back", "A ticket that was used at the door is not taken back. Nothing was given back.")
        }
        OrderError::Invalid(_) => said("warn", "Nothing was given back", "One of these tickets is not part of this order."),
        OrderError::Db(crate::db::DbError::Busy(_)) => said(
            "warn",
            "Very busy just now",
            "Your turn did not come in time, and nothing has changed. Wait a few seconds, then try again.",
        ),
        _ => None,
    }
}
