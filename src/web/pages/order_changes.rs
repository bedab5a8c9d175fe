//! What the pages of a buyer and of an admin share about an order: its tickets and lines, the form that gives tickets back, and the words
//! when nothing came of a change.

use super::{form::Form, number, tickets};
use crate::{
    db::DbError,
    events::Programme,
    inventory::{Place, Ticket},
    orders::{OrderError, OrderLine, Which},
    when::When,
};

/// What the name of a ticket's box begins with; its position follows.
const TICKET: &str = "ticket-";

/// One ticket of an order.
pub(super) struct TicketCard {
    pub(super) position: i32,
    pub(super) ticket_type: String,
    pub(super) place: Vec<(&'static str, String)>,
    pub(super) code: String,
    pub(super) used: Option<String>,
}

impl TicketCard {
    pub(super) fn new(programme: &Programme, ticket: Ticket) -> Self {
        let ticket_type = programme.ticket_types.iter().find(|ticket_type| ticket_type.id == ticket.ticket_type);
        let Place { section, row, seat } = ticket.place;
        let place = [("Section", section), ("Row", row), ("Seat", seat)];
        Self {
            position: ticket.position,
            ticket_type: ticket_type.map(|ticket_type| ticket_type.name.clone()).unwrap_or_default(),
            place: place.into_iter().filter_map(|(label, value)| Some((label, value?))).collect(),
            code: ticket.code.unwrap_or_default(),
            used: ticket.used_at.map(|at| When::new(at, programme.event.time_zone).text),
        }
    }

    /// The words beside its box.
    fn words(&self) -> String {
        let place: Vec<String> = self.place.iter().map(|(label, value)| format!("{label} {value}")).collect();
        let parts = [self.ticket_type.clone(), place.join(", "), self.code.clone()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
    }
}

/// One line of an order.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) quantity: String,
    pub(super) unit: String,
    pub(super) sum: String,
}

impl Line {
    pub(super) fn new(programme: &Programme, line: &OrderLine) -> Self {
        let money = |minor: i64| programme.event.money(minor).to_string();
        Self {
            name: line.name.clone(),
            quantity: number(line.quantity),
            unit: money(line.unit_price_minor),
            sum: money(line.quantity.saturating_mul(line.unit_price_minor)),
        }
    }
}

/// What of an order may be given back.
pub(super) struct Choices {
    /// Each ticket by its position, with the words beside its box.
    pub(super) tickets: Vec<(i32, String)>,
    /// Whether one press may give all of them back: a ticket that was used at the door stays, and with it the order.
    pub(super) all: bool,
}

impl Choices {
    /// `None` if nothing is left that could be.
    pub(super) fn of(cards: &[TicketCard]) -> Option<Self> {
        let unused = cards.iter().filter(|card| card.used.is_none());
        let tickets: Vec<(i32, String)> = unused.map(|card| (card.position, card.words())).collect();
        let all = tickets.len() > 1 && tickets.len() == cards.len();
        (!tickets.is_empty()).then_some(Self { tickets, all })
    }

    /// Whether there is but one, which need not be ticked.
    pub(super) fn is_one(&self) -> bool {
        self.tickets.len() == 1
    }
}

/// Which tickets a form gives back; `None` if it lets choose and nothing is ticked.
pub(super) fn which(form: &Form) -> Option<Which> {
    if form.ticked("all") {
        return Some(Which::All);
    }
    let positions: Vec<i32> =
        form.pairs().filter(|(_, value)| *value == "true").filter_map(|(name, _)| name.strip_prefix(TICKET)?.parse().ok()).collect();
    (!positions.is_empty()).then_some(Which::These(positions))
}

/// What came of the form that was sent.
pub(super) struct Said {
    pub(super) tone: &'static str,
    pub(super) title: String,
    pub(super) text: String,
    /// Whether the same form may do better in a moment.
    pub(super) again: bool,
}

impl Said {
    pub(super) fn new(tone: &'static str, title: impl Into<String>, text: impl Into<String>) -> Self {
        Self { tone, title: title.into(), text: text.into(), again: false }
    }
}

/// Why nothing came of a change, for whoever asked for it; `None` for what is not theirs to know.
pub(super) fn said_of(error: &OrderError) -> Option<Said> {
    let warn = |title: &str, text: &str| Some(Said::new("warn", title, text));
    match error {
        OrderError::HoldExpired => {
            warn("The tickets are gone", "Others took them after your time ran out, and too few are left. Nothing has been bought.")
        }
        OrderError::Cancelled => warn("Nothing to buy here", "These tickets were given back before. Nothing has been bought."),
        OrderError::SalesClosed { cancelled: true, .. } => {
            Some(Said::new("bad", "This event is cancelled", "It will not take place. Nothing has been bought."))
        }
        OrderError::SalesClosed { .. } => {
            warn("The sale is over", "Your time had run out, and tickets are no longer sold. Nothing has been bought.")
        }
        OrderError::SalesNotOpen { .. } => {
            warn("Not on sale just now", "Your time had run out, and no tickets are sold at this moment. Nothing has been bought.")
        }
        OrderError::BuyerLimitExceeded { limit, .. } => {
            let text =
                "Your time had run out, and with what this e-mail address has these would be too many. Nothing more has been bought.";
            Some(Said::new("warn", format!("At most {} a person", tickets(*limit)), text))
        }
        OrderError::EventBegun => warn("Not taken back", "The event has begun, so its tickets are no longer taken back."),
        OrderError::CancelNotAllowed { until: Some(_) } => {
            warn("Not taken back", "The time to give tickets back is over. Yours are still valid.")
        }
        OrderError::CancelNotAllowed { until: None } => {
            warn("Not taken back", "The organiser takes no tickets of this event back. Yours are still valid.")
        }
        OrderError::TicketUsed { .. } => warn("Not taken back", "A ticket that was used at the door stays. Nothing was given back."),
        OrderError::Invalid(_) => warn("Nothing was given back", "One of these tickets is not part of this order."),
        OrderError::Db(DbError::Busy(_)) => {
            let text = "Your turn did not come in time, and nothing has changed. Wait a few seconds, then try again.";
            Some(Said { again: true, ..Said::new("warn", "Very busy just now", text) })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(position: i32, used: Option<&str>) -> TicketCard {
        let place = vec![("Row", "A".to_owned()), ("Seat", position.to_string())];
        let code = format!("{position}-code");
        TicketCard { position, ticket_type: "Standard".to_owned(), place, code, used: used.map(str::to_owned) }
    }

    #[test]
    fn a_ticket_is_chosen_by_what_is_written_on_it() {
        let choices = Choices::of(&[card(1, None), card(2, None)]).unwrap();
        assert_eq!(choices.tickets[1], (2, "Standard · Row A, Seat 2 · 2-code".to_owned()));
        assert!(choices.all && !choices.is_one());
    }

    #[test]
    fn what_was_used_cannot_be_chosen_and_keeps_the_whole_order() {
        let choices = Choices::of(&[card(1, Some("today")), card(2, None), card(3, None)]).unwrap();
        assert_eq!((choices.tickets.len(), choices.all), (2, false));
        assert!(Choices::of(&[card(1, Some("today"))]).is_none());
    }

    #[test]
    fn a_form_with_nothing_ticked_chooses_nothing() {
        let form = Form::default().with("key", "x");
        assert_eq!(which(&form), None);
        assert_eq!(which(&form.clone().with("ticket-7", "true")), Some(Which::These(vec![7])));
        assert_eq!(which(&form.with("ticket-7", "true").with("all", "true")), Some(Which::All));
    }
}
