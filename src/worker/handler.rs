//! What a kind of job needs: its work, and how it may be worked.

use chrono::{DateTime, TimeDelta, Utc};
use diesel::PgConnection;

use crate::{
    app::App,
    db::DbError,
    queue::{Claimed, NewJob, Retry},
};

/// Works one kind of job. A job may come twice (its consumer died before it said that it was done), so what it does must bear that.
pub trait Handler: Send + Sync {
    /// The kind, which is also the name of its lane, or what the names of its lanes begin with.
    fn kind(&self) -> &'static str;

    /// How often it is tried.
    fn retry(&self) -> Retry;

    /// Jobs that one thread takes at once: many for what is done in no time.
    fn batch_max(&self) -> usize {
        1
    }

    /// Threads of this process that one lane may take, of so many.
    fn threads_max(&self, _threads: usize) -> usize {
        2
    }

    /// Threads of this process that all of its lanes together may take, of so many. What waits for others must not take them all.
    fn threads_in_all(&self, threads: usize) -> usize {
        threads
    }

    /// Whether all of its jobs are in one lane; if not, whoever makes a receiver makes its lane.
    fn has_lane_of_its_own(&self) -> bool {
        true
    }

    /// Deletes what it has kept for long enough; asked every half a minute.
    ///
    /// # Errors
    /// The database's.
    fn tidy(&self, _conn: &mut PgConnection, _now: DateTime<Utc>) -> Result<(), DbError> {
        Ok(())
    }

    /// Does it, and says what is to be done next: that is enqueued in the transaction that completes the job.
    ///
    /// # Errors
    /// [`Trouble`]: nothing came of it.
    fn work(&self, app: &App, job: &Claimed) -> Result<Vec<NewJob>, Trouble>;
}

/// Why a job came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// It may go well another time.
    #[error("{0}")]
    Passing(String),
    /// Whoever it is for does not answer at all, so all that is for them rests for a while.
    #[error("{why}")]
    Receiver {
        /// What went wrong.
        why: String,
        /// For how long.
        rest: TimeDelta,
    },
    /// It never will.
    #[error("{0}")]
    Lasting(String),
}

impl From<DbError> for Trouble {
    fn from(error: DbError) -> Self {
        Self::Passing(error.to_string())
    }
}

impl Trouble {
    /// The payload is none that this version makes.
    #[must_use]
    pub fn payload(error: &serde_json::Error) -> Self {
        Self::Lasting(format!("the payload cannot be read: {error}"))
    }
}
