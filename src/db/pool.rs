//! Connections: how many, how long to wait for one, and what each is set to.

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use diesel::{
    Connection, PgConnection, RunQueryDsl,
    connection::SimpleConnection,
    r2d2::{ConnectionManager, CustomizeConnection, Pool, PooledConnection},
};
use tokio::{sync::Semaphore, task::JoinError, time::timeout};

use super::{DbCause, DbError, transaction::FailureWatch};

/// How to reach the database, and how long to wait for it.
#[derive(Clone, Debug)]
pub struct DatabaseSettings {
    /// libpq URL or `key=value` string.
    pub url: String,
    /// Most connections of this process.
    pub connections_max: u32,
    /// Longest time one statement may run.
    pub statement_timeout: Duration,
    /// Longest wait for one lock, outside the sale's own bounded pass.
    pub lock_timeout: Duration,
    /// Longest wait for a free connection.
    pub entry_timeout: Duration,
    /// Longest time from a request to its answer; a frozen database shows itself only by this.
    pub answer_timeout: Duration,
}

impl DatabaseSettings {
    /// The settings that serve well, for a database at `url`.
    #[must_use]
    pub fn at(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            connections_max: 16,
            statement_timeout: Duration::from_secs(10),
            lock_timeout: Duration::from_secs(5),
            entry_timeout: Duration::from_secs(3),
            answer_timeout: Duration::from_secs(15),
        }
    }

    /// The URL with what keeps a connection attempt, and a connection whose peer vanished, from hanging for minutes.
    fn bounded_url(&self) -> String {
        const BOUNDS: [(&str, &str); 4] =
            [("connect_timeout", "3"), ("tcp_user_timeout", "10000"), ("keepalives_idle", "10"), ("application_name", "boxoffice")];
        let is_url = self.url.starts_with("postgres://") || self.url.starts_with("postgresql://");
        let mut url = self.url.clone();
        for (name, value) in BOUNDS.iter().filter(|(name, _)| !self.url.contains(name)) {
            let joint = match (is_url, url.contains('?')) {
                (false, _) => ' ',
                (true, false) => '?',
                (true, true) => '&',
            };
            url.push(joint);
            url.push_str(&format!("{name}={value}"));
        }
        url
    }
}

/// The database, shared by everything in the process. Cheap to clone.
#[derive(Clone)]
pub struct Db {
    pool: Pool<ConnectionManager<PgConnection>>,
    entry: Arc<Semaphore>,
    settings: Arc<DatabaseSettings>,
    reachable: Arc<AtomicBool>,
    prepared: Arc<AtomicBool>,
}

impl Db {
    /// Makes the pool. It connects when first used, so this succeeds with the database down. Until [`Self::set_prepared`] is called,
    /// [`Self::run`] turns everybody away: the tables may not be there yet.
    #[must_use]
    pub fn new(settings: DatabaseSettings) -> Self {
        let pool = Pool::builder()
            .max_size(settings.connections_max)
            .min_idle(Some(1))
            .connection_timeout(settings.entry_timeout)
            .connection_customizer(Box::new(SessionSettings::of(&settings)))
            .error_handler(Box::new(QuietPool))
            .build_unchecked(ConnectionManager::new(settings.bounded_url()));
        let permits = usize::try_from(settings.connections_max).unwrap_or(1);
        Self {
            pool,
            entry: Arc::new(Semaphore::new(permits)),
            settings: Arc::new(settings),
            reachable: Arc::new(AtomicBool::new(true)),
            prepared: Arc::new(AtomicBool::new(false)),
        }
    }

    /// The settings it was made with.
    #[must_use]
    pub fn settings(&self) -> &DatabaseSettings {
        &self.settings
    }

    /// The database has been reached and migrated: serve.
    pub fn set_prepared(&self) {
        self.prepared.store(true, Ordering::Release);
    }

    /// Runs `work` on a connection, off the async threads, and bounds the whole of it in time.
    ///
    /// `work` runs to its end even if the caller goes away, or the time is up: a buyer who hung up is still served.
    ///
    /// # Errors
    /// What `work` returned; [`DbError::Busy`] if no connection came free in time; [`DbError::Unavailable`] if there is none to be
    /// had, or no answer in time; [`DbError::Panicked`].
    pub async fn run<T, E>(&self, work: impl FnOnce(&mut PgConnection) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: DbCause + Send + 'static,
    {
        self.run_within(self.settings.answer_timeout, work).await
    }

    /// The same with a bound of the caller's own: for work that is known to be long, such as a load.
    ///
    /// # Errors
    /// Those of [`Self::run`].
    pub async fn run_within<T, E>(
        &self,
        answer_timeout: Duration,
        work: impl FnOnce(&mut PgConnection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: DbCause + Send + 'static,
    {
        if !self.is_prepared() {
            return Err(DbError::Unavailable("the database has not been reached and migrated yet".to_owned()).into());
        }
        let entered = timeout(self.settings.entry_timeout, Arc::clone(&self.entry).acquire_owned()).await;
        let Ok(Ok(permit)) = entered else {
            return Err(DbError::Busy("all connections are in use".to_owned()).into());
        };
        let db = self.clone();
        let task = tokio::task::spawn_blocking(move || {
            // The permit is kept until the work is done, not until the caller stops waiting: it stands for the connection.
            let _permit = permit;
            db.run_here(work)
        });
        match timeout(answer_timeout, task).await {
            Ok(Ok(result)) => result,
            Ok(Err(failure)) => Err(DbError::Panicked(panic_message(failure)).into()),
            Err(_elapsed) => Err(DbError::Unavailable("no answer in time".to_owned()).into()),
        }
    }

    /// Runs `work` on a connection, on this thread. For commands, and for code that is off the async threads already.
    ///
    /// # Errors
    /// What `work` returned, or [`DbError::Unavailable`].
    pub fn run_here<T, E: DbCause>(&self, work: impl FnOnce(&mut PgConnection) -> Result<T, E>) -> Result<T, E> {
        let mut conn = self.connection()?;
        let result = work(&mut conn);
        if let Some(DbError::Unavailable(reason) | DbError::CommitUnknown(reason)) = result.as_ref().err().and_then(DbCause::db_cause) {
            self.note_unreachable(reason);
        }
        result
    }

    /// Whether [`Self::set_prepared`] was called.
    #[must_use]
    pub fn is_prepared(&self) -> bool {
        self.prepared.load(Ordering::Acquire)
    }

    /// A connection of the caller's own, outside the pool, with the pool's time limits.
    ///
    /// # Errors
    /// [`DbError::Unavailable`], saying why.
    pub fn dedicated_in_time(&self) -> Result<PgConnection, DbError> {
        let connected = self.dedicated().and_then(|mut conn| {
            SessionSettings::of(&self.settings).apply(&mut conn)?;
            Ok(conn)
        });
        match &connected {
            Ok(_) => self.note_reachable(),
            Err(error) => self.note_unreachable(&error.to_string()),
        }
        connected
    }

    /// A connection of the caller's own, outside the pool, without time limits.
    ///
    /// # Errors
    /// [`DbError::Unavailable`], saying why.
    pub fn dedicated(&self) -> Result<PgConnection, DbError> {
        let mut conn = PgConnection::establish(&self.settings.bounded_url()).map_err(|error| DbError::Unavailable(error.to_string()))?;
        conn.set_instrumentation(FailureWatch);
        Ok(conn)
    }

    /// Whether the database answers, for the readiness check.
    ///
    /// # Errors
    /// [`DbError`] saying why not.
    pub async fn check(&self) -> Result<(), DbError> {
        self.run(|conn| diesel::sql_query("SELECT 1").execute(conn).map(|_| ()).map_err(DbError::from)).await
    }

    fn connection(&self) -> Result<PooledConnection<ConnectionManager<PgConnection>>, DbError> {
        match self.pool.get() {
            Ok(conn) => {
                self.note_reachable();
                Ok(conn)
            }
            Err(error) => {
                self.note_unreachable(&error.to_string());
                Err(DbError::Unavailable(error.to_string()))
            }
        }
    }

    fn note_reachable(&self) {
        if !self.reachable.swap(true, Ordering::Relaxed) {
            tracing::info!("the database is back");
        }
    }

    /// Says it once, not once a request.
    fn note_unreachable(&self, reason: &str) {
        if self.reachable.swap(false, Ordering::Relaxed) {
            tracing::warn!(reason, "the database cannot be reached; requests are answered 503 until it is back");
        }
    }
}

/// What every session is set to before its first use.
#[derive(Debug)]
struct SessionSettings {
    sql: String,
}

impl SessionSettings {
    fn of(settings: &DatabaseSettings) -> Self {
        // No query of a request runs for as long as PostgreSQL takes to compile one.
        let sql = format!(
            "SET statement_timeout = {}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = 30000; \
             SET TimeZone = 'UTC'; SET default_transaction_isolation = 'read committed'; SET jit = off",
            settings.statement_timeout.as_millis(),
            settings.lock_timeout.as_millis(),
        );
        Self { sql }
    }
}

impl SessionSettings {
    fn apply(&self, conn: &mut PgConnection) -> Result<(), diesel::result::Error> {
        conn.batch_execute(&self.sql)?;
        // Only a superuser may set it; others are served as long as their server speaks English, as nearly all do.
        if conn.batch_execute("SET lc_messages = 'C'").is_err() {
            tracing::debug!("lc_messages could not be set: give this role SET on it, or set lc_messages = 'C' for the database");
        }
        conn.set_instrumentation(FailureWatch);
        Ok(())
    }
}

impl CustomizeConnection<PgConnection, diesel::r2d2::Error> for SessionSettings {
    fn on_acquire(&self, conn: &mut PgConnection) -> Result<(), diesel::r2d2::Error> {
        self.apply(conn).map_err(diesel::r2d2::Error::QueryError)
    }
}

/// The pool's own reports repeat every second while the database is away; [`Db`] says it once.
#[derive(Debug)]
struct QuietPool;

impl diesel::r2d2::HandleError<diesel::r2d2::Error> for QuietPool {
    fn handle_error(&self, error: diesel::r2d2::Error) {
        tracing::debug!(%error, "a connection could not be made");
    }
}

fn panic_message(failure: JoinError) -> String {
    match failure.try_into_panic() {
        Ok(payload) => payload_text(payload.as_ref()),
        Err(cancelled) => cancelled.to_string(),
    }
}

fn payload_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_added_to_either_form_of_url_and_never_override() {
        let url = |url: &str| DatabaseSettings::at(url).bounded_url();
        assert!(url("postgres://db/x").starts_with("postgres://db/x?connect_timeout=3&"));
        assert!(url("postgres://db/x?sslmode=require").starts_with("postgres://db/x?sslmode=require&connect_timeout=3&"));
        assert!(url("host=/tmp dbname=x").starts_with("host=/tmp dbname=x connect_timeout=3 "));
        assert!(!url("postgres://db/x?connect_timeout=60").contains("connect_timeout=3&"));
    }
}
