//! The one source of "now". Operations are handed a moment; only the edges read a clock.

use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, SecondsFormat, SubsecRound, Utc};

/// Tells the time: the system's, or in tests one that the test sets.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    set_to: Arc<Mutex<Option<DateTime<Utc>>>>,
}

impl Clock {
    /// A clock that follows the system's.
    #[must_use]
    pub fn system() -> Self {
        Self::default()
    }

    /// The present moment in whole microseconds, as PostgreSQL stores it: what is written is what is read back.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        let set_to = *self.set_to.lock().unwrap_or_else(PoisonError::into_inner);
        set_to.unwrap_or_else(Utc::now).trunc_subsecs(6)
    }

    /// Stops this clock and all its clones at `moment`. For tests.
    pub fn set(&self, moment: DateTime<Utc>) {
        *self.set_to.lock().unwrap_or_else(PoisonError::into_inner) = Some(moment);
    }
}

/// A moment as it is written for programs: RFC 3339 in UTC.
#[must_use]
pub fn timestamp(moment: DateTime<Utc>) -> String {
    moment.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

/// Whole seconds until `deadline`, begun ones counted: 0 only once it has passed.
#[must_use]
pub fn seconds_until(deadline: DateTime<Utc>, now: DateTime<Utc>) -> i64 {
    let left = (deadline - now).num_milliseconds().max(0);
    left / 1_000 + i64::from(left % 1_000 > 0)
}
