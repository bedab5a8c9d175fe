//! Migrations, built into the program and run under a lock.

use std::{
    thread,
    time::{Duration, Instant},
};

use diesel::{
    PgConnection, RunQueryDsl,
    connection::SimpleConnection,
    sql_query,
    sql_types::{BigInt, Bool},
};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};

use super::DbError;

/// Every migration of this version.
pub const MIGRATIONS: EmbeddedMigrations = embed_migrations!("migrations");

/// The advisory lock that keeps two servers from migrating at once.
const LOCK: i64 = 0x626f_786f_6666_6963;
/// Longest wait for another server's migrations.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(120);
/// Pause between two looks at the lock. `pg_try_advisory_lock` is asked again rather than blocking in one statement: a waiting
/// statement holds a snapshot, and a migration that builds an index concurrently would wait for that, in a circle.
const LOCK_POLL: Duration = Duration::from_millis(100);

/// A migration that could not be run.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The database failed.
    #[error(transparent)]
    Db(#[from] DbError),
    /// Another process holds the lock.
    #[error("another process has been migrating this database for {} s; end it, or wait and start again", LOCK_WAIT_MAX.as_secs())]
    Locked,
    /// The migration itself failed.
    #[error("a migration failed, and was undone: {0}")]
    Failed(String),
    /// The database was migrated by a later version.
    #[error("the database has migrations that this version does not know ({0}): run the later version of boxoffice")]
    TooNew(String),
}

impl super::DbCause for MigrateError {
    fn db_cause(&self) -> Option<&DbError> {
        match self {
            Self::Db(error) => Some(error),
            _ => None,
        }
    }
}

#[derive(diesel::QueryableByName)]
struct Locked {
    #[diesel(sql_type = Bool)]
    locked: bool,
}

/// Runs what has not run yet, and returns the names of what was run. Takes a connection of its own (see [`super::Db::dedicated`]),
/// since it lifts the session's time limits.
///
/// # Errors
/// [`MigrateError`]; a migration that failed is undone, those before it stay.
pub fn run(conn: &mut PgConnection) -> Result<Vec<String>, MigrateError> {
    // Building an index on a large table takes longer than any statement of a sale may.
    conn.batch_execute("SET statement_timeout = 0; SET lock_timeout = '30s'").map_err(DbError::from)?;
    lock(conn)?;
    let result = run_locked(conn);
    sql_query("SELECT pg_advisory_unlock($1)").bind::<BigInt, _>(LOCK).execute(conn).map_err(DbError::from)?;
    result
}

fn run_locked(conn: &mut PgConnection) -> Result<Vec<String>, MigrateError> {
    refuse_unknown(conn)?;
    let ran = conn.run_pending_migrations(MIGRATIONS).map_err(|error| MigrateError::Failed(error.to_string()))?;
    Ok(ran.iter().map(ToString::to_string).collect())
}

/// A database from the future is left alone: this version does not know what its columns mean.
fn refuse_unknown(conn: &mut PgConnection) -> Result<(), MigrateError> {
    use diesel::migration::MigrationSource;
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| MigrateError::Failed(error.to_string());
    let known: Vec<String> = MigrationSource::<diesel::pg::Pg>::migrations(&MIGRATIONS)
        .map_err(failed)?
        .iter()
        .map(|migration| migration.name().version().to_string())
        .collect();
    let applied = conn.applied_migrations().map_err(failed)?;
    match applied.iter().map(ToString::to_string).find(|version| !known.contains(version)) {
        Some(unknown) => Err(MigrateError::TooNew(unknown)),
        None => Ok(()),
    }
}

fn lock(conn: &mut PgConnection) -> Result<(), MigrateError> {
    let deadline = Instant::now() + LOCK_WAIT_MAX;
    loop {
        let answer: Locked =
            sql_query("SELECT pg_try_advisory_lock($1) AS locked").bind::<BigInt, _>(LOCK).get_result(conn).map_err(DbError::from)?;
        if answer.locked {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(MigrateError::Locked);
        }
        thread::sleep(LOCK_POLL);
    }
}
