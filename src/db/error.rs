//! What can go wrong with the database, in the classes that callers treat differently.

use std::sync::Arc;

use diesel::result::{DatabaseErrorKind, Error};

/// A failure of the database, classified.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DbError {
    /// It cannot be reached, or the connection broke: nothing was changed by the transaction at hand.
    #[error("the database cannot be reached: {0}")]
    Unavailable(String),
    /// A lock, a statement or a place in the queue was waited for in vain.
    #[error("the database is busy: {0}")]
    Busy(String),
    /// Another transaction was in the way (deadlock, serialization); the same again may succeed.
    #[error("another transaction was in the way: {0}")]
    Conflict(String),
    /// A constraint refused it.
    #[error("constraint {name} refused it: {message}")]
    Constraint {
        /// Name of the constraint or unique index.
        name: String,
        /// PostgreSQL's message.
        message: String,
    },
    /// The answer to COMMIT never came: it may have happened, or not.
    #[error("the outcome of COMMIT is unknown: {0}")]
    CommitUnknown(String),
    /// A statement failed inside the transaction and the code went on: a COMMIT would have been a silent ROLLBACK.
    #[error("a failed statement was ignored inside a transaction, which was rolled back")]
    SwallowedError,
    /// Anything else: a fault of ours.
    #[error("{0}")]
    Other(#[source] Arc<Error>),
    /// The code that ran on the connection panicked.
    #[error("the operation panicked: {0}")]
    Panicked(String),
}

impl DbError {
    /// A stored value that this program could not have written.
    #[must_use]
    pub fn unreadable(what: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Other(Arc::new(Error::DeserializationError(what.into())))
    }

    /// Whether the named constraint refused the statement.
    #[must_use]
    pub fn is_constraint(&self, wanted: &str) -> bool {
        matches!(self, Self::Constraint { name, .. } if name == wanted)
    }
}

/// What of an error was the database's doing: lets [`super::transaction`] retry for every feature's error type.
pub trait DbCause: From<DbError> {
    /// The database's error inside, if that is what it is.
    fn db_cause(&self) -> Option<&DbError>;
}

impl DbCause for DbError {
    fn db_cause(&self) -> Option<&DbError> {
        Some(self)
    }
}

impl From<Error> for DbError {
    fn from(error: Error) -> Self {
        match error {
            Error::DatabaseError(kind, ref details) => {
                let message = details.message().to_owned();
                let constraint = details.constraint_name().map(str::to_owned);
                classify(kind, message, constraint).unwrap_or_else(|| Self::Other(Arc::new(error)))
            }
            Error::BrokenTransactionManager => Self::Unavailable("the connection broke".to_owned()),
            other => Self::Other(Arc::new(other)),
        }
    }
}

/// Diesel passes no SQLSTATE for most errors, so the message decides; connections ask for `lc_messages = 'C'` to keep it English.
fn classify(kind: DatabaseErrorKind, message: String, constraint: Option<String>) -> Option<DbError> {
    const BUSY: [&str; 3] =
        ["canceling statement due to lock timeout", "canceling statement due to statement timeout", "could not obtain lock"];
    const CONFLICT: [&str; 2] = ["deadlock detected", "could not serialize access"];
    const UNAVAILABLE: [&str; 18] = [
        "terminating connection",
        "the database system is",
        "server closed the connection",
        "connection not open",
        "no connection to the server",
        "connection to server",
        "could not connect",
        "could not receive data from server",
        "could not send data to server",
        "SSL connection has been closed",
        "too many clients",
        "too many connections",
        "remaining connection slots are reserved",
        "No space left on device",
        "query_wait_timeout",
        "server login has been failing",
        "in a read-only transaction",
        "could not translate host name",
    ];
    let has = |needles: &[&str]| needles.iter().any(|needle| message.contains(needle));
    match (kind, constraint) {
        (DatabaseErrorKind::SerializationFailure, _) => Some(DbError::Conflict(message)),
        (DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::UnableToSendCommand | DatabaseErrorKind::ReadOnlyTransaction, _) => {
            Some(DbError::Unavailable(message))
        }
        (_, Some(name)) => Some(DbError::Constraint { name, message }),
        _ if has(&CONFLICT) => Some(DbError::Conflict(message)),
        _ if has(&BUSY) => Some(DbError::Busy(message)),
        _ if has(&UNAVAILABLE) => Some(DbError::Unavailable(message)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(message: &str) -> Option<DbError> {
        classify(DatabaseErrorKind::Unknown, message.to_owned(), None)
    }

    #[test]
    fn messages_decide_where_diesel_gives_no_sqlstate() {
        assert!(matches!(class("deadlock detected"), Some(DbError::Conflict(_))));
        assert!(matches!(class("canceling statement due to lock timeout"), Some(DbError::Busy(_))));
        assert!(matches!(class("canceling statement due to statement timeout"), Some(DbError::Busy(_))));
        assert!(matches!(class("the database system is shutting down"), Some(DbError::Unavailable(_))));
        assert!(matches!(class("terminating connection due to administrator command"), Some(DbError::Unavailable(_))));
        assert!(class("column \"x\" does not exist").is_none());
    }
}
