//! The states of an order and what leads from one to another: the one table of it. Pure.

use std::{fmt::Write, str::FromStr};

use crate::inventory::{TICKET_TRANSITIONS, TicketChange};

/// Where an order stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderStatus {
    /// Its tickets are kept for the buyer until a deadline.
    Held,
    /// Its tickets are the buyer's.
    Sold,
    /// Given back.
    Cancelled,
    /// The deadline passed.
    Expired,
}

impl OrderStatus {
    const ALL: [Self; 4] = [Self::Held, Self::Sold, Self::Cancelled, Self::Expired];

    /// The name in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Sold => "sold",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// The name in the database.
    #[must_use]
    pub fn column(self) -> &'static str {
        match self {
            Self::Held => "HELD",
            Self::Sold => "SOLD",
            Self::Cancelled => "CANCELLED",
            Self::Expired => "EXPIRED",
        }
    }

    /// Where `change` leads from here; `None` if it cannot happen to an order in this state.
    #[must_use]
    pub fn after(self, change: OrderChange) -> Option<Self> {
        ORDER_TRANSITIONS.iter().find(|(from, by, _)| *from == Some(self) && *by == change).map(|(_, _, to)| *to)
    }
}

impl FromStr for OrderStatus {
    type Err = ();
    fn from_str(column: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|status| status.column() == column).ok_or(())
    }
}

/// What can happen to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderChange {
    /// It is made, and sold at once.
    Sell,
    /// It is made, and its tickets are kept.
    Hold,
    /// Its buyer takes what it holds.
    Confirm,
    /// Its buyer wanted it after the deadline, and there were tickets still.
    ConfirmLate,
    /// Some of what it holds is given back.
    ReleaseSome,
    /// All that it holds is given back.
    Release,
    /// Its deadline passed.
    Expire,
    /// Some of its tickets are given back.
    CancelSome,
    /// All of its tickets are given back.
    Cancel,
}

impl OrderChange {
    const ALL: [Self; 9] = [
        Self::Sell,
        Self::Hold,
        Self::Confirm,
        Self::ConfirmLate,
        Self::ReleaseSome,
        Self::Release,
        Self::Expire,
        Self::CancelSome,
        Self::Cancel,
    ];

    /// The name in the history and in the drawing.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sell => "sell",
            Self::Hold => "hold",
            Self::Confirm => "confirm",
            Self::ConfirmLate => "confirm_late",
            Self::ReleaseSome => "release_some",
            Self::Release => "release",
            Self::Expire => "expire",
            Self::CancelSome => "cancel_some",
            Self::Cancel => "cancel",
        }
    }

    /// What it does to each ticket that it is about.
    #[must_use]
    pub fn of_tickets(self) -> TicketChange {
        match self {
            Self::Sell | Self::ConfirmLate => TicketChange::Sell,
            Self::Hold => TicketChange::Hold,
            Self::Confirm => TicketChange::Confirm,
            Self::ReleaseSome | Self::Release => TicketChange::Release,
            Self::Expire => TicketChange::Expire,
            Self::CancelSome | Self::Cancel => TicketChange::Cancel,
        }
    }
}

impl FromStr for OrderChange {
    type Err = ();
    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|change| change.name() == name).ok_or(())
    }
}

/// Every transition: from (nothing: it is made), by, to.
pub const ORDER_TRANSITIONS: [(Option<OrderStatus>, OrderChange, OrderStatus); 9] = [
    (None, OrderChange::Sell, OrderStatus::Sold),
    (None, OrderChange::Hold, OrderStatus::Held),
    (Some(OrderStatus::Held), OrderChange::Confirm, OrderStatus::Sold),
    (Some(OrderStatus::Held), OrderChange::ReleaseSome, OrderStatus::Held),
    (Some(OrderStatus::Held), OrderChange::Release, OrderStatus::Cancelled),
    (Some(OrderStatus::Held), OrderChange::Expire, OrderStatus::Expired),
    (Some(OrderStatus::Expired), OrderChange::ConfirmLate, OrderStatus::Sold),
    (Some(OrderStatus::Sold), OrderChange::CancelSome, OrderStatus::Sold),
    (Some(OrderStatus::Sold), OrderChange::Cancel, OrderStatus::Cancelled),
];

/// Both tables as the README draws them: Mermaid, which code hosts render.
#[must_use]
pub fn drawing() -> String {
    let mut drawing = String::from("```mermaid\nstateDiagram-v2\n  state \"one ticket\" as ticket {\n    [*] --> AVAILABLE: load\n");
    // Writing to a string does not fail.
    for (from, change, to) in TICKET_TRANSITIONS {
        let _ = writeln!(drawing, "    {} --> {}: {}", from.column(), to.column(), change.name());
    }
    drawing.push_str("  }\n  state \"an order\" as order {\n");
    for (from, change, to) in ORDER_TRANSITIONS {
        // Names within one drawing are shared, and the two tables have some in common.
        let from = from.map_or("[*]".to_owned(), |from| format!("order_{}", from.column()));
        let _ = writeln!(drawing, "    {from} --> order_{}: {}", to.column(), change.name());
    }
    drawing.push_str("  }\n```\n");
    drawing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_draws_these_tables() {
        let readme = include_str!("../../README.md");
        assert!(readme.contains(&drawing()), "the README should have this drawing:\n{}", drawing());
    }

    #[test]
    fn what_happens_to_an_order_happens_to_its_tickets() {
        for (from, change, to) in ORDER_TRANSITIONS {
            let (before, after) = (change.of_tickets().from(), change.of_tickets().from().after(change.of_tickets()).unwrap());
            // What an order has before and after names the state of its tickets; what it has lost is on sale.
            let taken = |status: OrderStatus| matches!(status, OrderStatus::Held | OrderStatus::Sold);
            match from.filter(|from| taken(*from)) {
                Some(from) => assert_eq!(before.column(), from.column(), "{change:?}"),
                None => assert_eq!(before.column(), "AVAILABLE", "{change:?}"),
            }
            let gives_some = matches!(change, OrderChange::ReleaseSome | OrderChange::CancelSome);
            let after_expected = if taken(to) && !gives_some { to.column() } else { "AVAILABLE" };
            assert_eq!(after.column(), after_expected, "{change:?}");
        }
    }

    #[test]
    fn no_state_has_two_ways_by_one_change_and_what_is_over_stays_over() {
        for change in OrderChange::ALL {
            assert_eq!(ORDER_TRANSITIONS.iter().filter(|(_, by, _)| *by == change).count(), 1, "{change:?}");
            assert_eq!(OrderStatus::Cancelled.after(change), None);
            assert_eq!(change.name().parse(), Ok(change));
        }
        assert_eq!(OrderStatus::Expired.after(OrderChange::Confirm), None);
        assert_eq!(OrderStatus::Held.after(OrderChange::Cancel), None);
    }
}
