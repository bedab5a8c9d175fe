//! The ways that are compared.

use serde::Serialize;

/// A way to take rows from one table that many want at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// The table is locked before anything is read.
    LockTable,
    /// The rows are locked, and a locked one is waited for.
    ForUpdate,
    /// Nothing is locked beforehand: the UPDATE checks again that the rows are available.
    RepeatedCondition,
    /// A counter says which rows are next.
    CounterRow,
    /// The rows are locked, and a locked one is left out.
    SkipLocked,
    /// The product: many purchases in one transaction, on top of the former.
    Desk,
}

impl Way {
    /// Every way, in the order in which people come to them.
    pub const ALL: [Self; 6] = [Self::LockTable, Self::ForUpdate, Self::RepeatedCondition, Self::CounterRow, Self::SkipLocked, Self::Desk];

    /// The name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LockTable => "LOCK TABLE first",
            Self::ForUpdate => "Blocking FOR UPDATE",
            Self::RepeatedCondition => "UPDATE, condition repeated",
            Self::CounterRow => "One counter row",
            Self::SkipLocked => "SKIP LOCKED, singly",
            Self::Desk => "The sale desk's batches",
        }
    }

    /// How it takes the tickets, in a few words.
    #[must_use]
    pub fn idea(self) -> &'static str {
        match self {
            Self::LockTable => "one purchase at a time has the table",
            Self::ForUpdate => "all queue for the same first rows",
            Self::RepeatedCondition => "whoever lost the race starts again",
            Self::CounterRow => "all queue for one row",
            Self::SkipLocked => "each takes rows that nobody has",
            Self::Desk => "those who queue share the next commit",
        }
    }
}
