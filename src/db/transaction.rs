//! One transaction: begun, committed or rolled back here and nowhere else.

use std::{cell::Cell, thread, time::Duration};

use diesel::{
    Connection, PgConnection,
    connection::{AnsiTransactionManager, Instrumentation, InstrumentationEvent, TransactionManager},
    result::Error,
};

use super::{DbCause, DbError};

/// How often a transaction that met another one (deadlock, serialization) is tried in all.
const ATTEMPTS_MAX: u32 = 4;
/// Longest pause before the next try; the pauses are random, so that two that met do not meet again.
const PAUSE_MAX_MS: u64 = 20;

thread_local! {
    /// How many statements failed on this thread's connection since the transaction began. A transaction runs on one thread.
    static FAILED_STATEMENTS: Cell<u32> = const { Cell::new(0) };
}

/// Watches a connection for failed statements; every pooled connection carries one.
pub(super) struct FailureWatch;

impl Instrumentation for FailureWatch {
    fn on_connection_event(&mut self, event: InstrumentationEvent<'_>) {
        if let InstrumentationEvent::FinishQuery { error: Some(error), .. } = event
            && !matches!(error, Error::NotFound | Error::DeserializationError(_))
        {
            FAILED_STATEMENTS.set(FAILED_STATEMENTS.get().saturating_add(1));
        }
    }
}

/// Runs `body` in one READ COMMITTED transaction, and again (a few times) if another transaction was in the way.
///
/// `body` may run several times, so it must change nothing but the database.
///
/// # Errors
/// What `body` returned, after a rollback. [`DbError::SwallowedError`] if a statement failed and `body` said `Ok` all the same:
/// PostgreSQL answers such a COMMIT with ROLLBACK, and diesel would report success. [`DbError::CommitUnknown`] if the connection
/// broke between COMMIT and its answer.
pub fn transaction<T, E: DbCause>(conn: &mut PgConnection, mut body: impl FnMut(&mut PgConnection) -> Result<T, E>) -> Result<T, E> {
    let mut attempt = 1;
    loop {
        let result = attempt_once(conn, &mut body);
        match &result {
            Err(error) if attempt < ATTEMPTS_MAX && matches!(error.db_cause(), Some(DbError::Conflict(_))) => {
                tracing::debug!(attempt, "transaction met another one and is tried again");
                thread::sleep(Duration::from_millis(rand::random_range(1..=PAUSE_MAX_MS)));
                attempt += 1;
            }
            _ => return result,
        }
    }
}

fn attempt_once<T, E: DbCause>(conn: &mut PgConnection, body: &mut impl FnMut(&mut PgConnection) -> Result<T, E>) -> Result<T, E> {
    AnsiTransactionManager::begin_transaction(conn).map_err(DbError::from)?;
    FAILED_STATEMENTS.set(0);
    let result = body(conn);
    if result.is_ok() && FAILED_STATEMENTS.get() == 0 {
        AnsiTransactionManager::commit_transaction(conn).map_err(|error| commit_error(error.into()))?;
        return result;
    }
    // A rollback that fails leaves a connection that the pool throws away; the first error is the one to tell.
    let _ = AnsiTransactionManager::rollback_transaction(conn);
    result.and_then(|_| Err(DbError::SwallowedError.into()))
}

/// A COMMIT refused by PostgreSQL did not happen; one whose answer was lost may have.
fn commit_error(error: DbError) -> DbError {
    match error {
        DbError::Unavailable(message) => DbError::CommitUnknown(message),
        DbError::Other(error) => DbError::CommitUnknown(error.to_string()),
        refused => refused,
    }
}

/// Runs `body` on one unchanging view of the whole database, in which it can write nothing.
///
/// # Errors
/// What `body` returned.
pub fn snapshot<T, E: DbCause + From<Error>>(
    conn: &mut PgConnection,
    body: impl FnOnce(&mut PgConnection) -> Result<T, E>,
) -> Result<T, E> {
    conn.build_transaction().repeatable_read().read_only().run(body)
}

/// Runs `body` so that its failure undoes only `body`'s part of the transaction at hand.
///
/// # Errors
/// What `body` returned; the transaction goes on as if it had not run.
pub fn savepoint<T, E: DbCause + From<Error>>(
    conn: &mut PgConnection,
    body: impl FnOnce(&mut PgConnection) -> Result<T, E>,
) -> Result<T, E> {
    let failed_before = FAILED_STATEMENTS.get();
    let result = conn.transaction(body);
    FAILED_STATEMENTS.set(failed_before);
    result
}
