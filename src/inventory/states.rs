//! The states of a ticket and what leads from one to another: the one table of it. Pure.

use std::str::FromStr;

/// Where a ticket stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TicketStatus {
    /// On sale.
    Available,
    /// Kept for an order until a deadline.
    Held,
    /// An order's.
    Sold,
    /// Kept out of the sale.
    Blocked,
}

impl TicketStatus {
    const ALL: [Self; 4] = [Self::Available, Self::Held, Self::Sold, Self::Blocked];

    /// The name in the database.
    #[must_use]
    pub const fn column(self) -> &'static str {
        match self {
            Self::Available => "AVAILABLE",
            Self::Held => "HELD",
            Self::Sold => "SOLD",
            Self::Blocked => "BLOCKED",
        }
    }

    /// Where `change` leads from here; `None` if it cannot happen to a ticket in this state.
    #[must_use]
    pub fn after(self, change: TicketChange) -> Option<Self> {
        TICKET_TRANSITIONS.iter().find(|(from, by, _)| *from == self && *by == change).map(|(_, _, to)| *to)
    }
}

impl FromStr for TicketStatus {
    type Err = ();
    fn from_str(column: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|status| status.column() == column).ok_or(())
    }
}

/// What can happen to a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketChange {
    /// It is sold at once.
    Sell,
    /// It is kept for an order.
    Hold,
    /// The order that holds it is confirmed.
    Confirm,
    /// The order that holds it gives it back.
    Release,
    /// The order that holds it has run out of time.
    Expire,
    /// The order that bought it gives it back.
    Cancel,
}

impl TicketChange {
    /// The name in the drawing.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sell => "sell",
            Self::Hold => "hold",
            Self::Confirm => "confirm",
            Self::Release => "release",
            Self::Expire => "expire",
            Self::Cancel => "cancel",
        }
    }

    /// The state that a ticket must be in for it; each change has one.
    #[must_use]
    pub fn from(self) -> TicketStatus {
        TICKET_TRANSITIONS.iter().find(|(_, by, _)| *by == self).map_or(TicketStatus::Blocked, |(from, _, _)| *from)
    }
}

/// Every transition: from, by, to. Nothing leads to or from BLOCKED while tickets are on sale.
pub const TICKET_TRANSITIONS: [(TicketStatus, TicketChange, TicketStatus); 6] = [
    (TicketStatus::Available, TicketChange::Sell, TicketStatus::Sold),
    (TicketStatus::Available, TicketChange::Hold, TicketStatus::Held),
    (TicketStatus::Held, TicketChange::Confirm, TicketStatus::Sold),
    (TicketStatus::Held, TicketChange::Release, TicketStatus::Available),
    (TicketStatus::Held, TicketChange::Expire, TicketStatus::Available),
    (TicketStatus::Sold, TicketChange::Cancel, TicketStatus::Available),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::statements::{GIVE_BACK, MARK_CONFIRMED, MARK_HELD, MARK_SOLD};

    #[test]
    fn every_change_begins_in_one_state() {
        let all = [
            TicketChange::Sell,
            TicketChange::Hold,
            TicketChange::Confirm,
            TicketChange::Release,
            TicketChange::Expire,
            TicketChange::Cancel,
        ];
        for change in all {
            assert_eq!(TICKET_TRANSITIONS.iter().filter(|(_, by, _)| *by == change).count(), 1, "{change:?}");
            assert!(change.from().after(change).is_some());
        }
    }

    #[test]
    fn the_statements_do_what_the_table_says() {
        for (sql, change) in [(MARK_SOLD, TicketChange::Sell), (MARK_HELD, TicketChange::Hold), (MARK_CONFIRMED, TicketChange::Confirm)] {
            let (from, to) = (change.from(), change.from().after(change).unwrap());
            assert!(sql.contains(&format!("SET status = '{}'", to.column())), "{sql}");
            assert!(sql.contains(&format!("status || '' = '{}'", from.column())), "{sql}");
        }
        assert!(GIVE_BACK.contains("SET status = 'AVAILABLE'"));
        for change in [TicketChange::Release, TicketChange::Expire, TicketChange::Cancel] {
            assert_eq!(change.from().after(change), Some(TicketStatus::Available));
        }
    }
}
