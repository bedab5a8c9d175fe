//! The database that a comparison runs in, and the server that it is on.
//!
//! A `kill -9` leaves it behind, and the next comparison says so: whether its process still runs, perhaps elsewhere, nobody can tell from
//! here.

use diesel::{
    PgConnection, QueryResult, QueryableByName, RunQueryDsl,
    connection::SimpleConnection,
    sql_query,
    sql_types::{Bool, Text},
};

use serde::Serialize;

use crate::db::{DatabaseSettings, Db, DbError};

/// Why there is no scratch database.
#[derive(Debug, thiserror::Error)]
pub enum ScratchError {
    /// The role has not the right to make one.
    #[error(
        "the comparison runs in a scratch database, and the role {role:?} may not create databases; \
         `ALTER ROLE \"{role}\" CREATEDB` allows it, and without a database URL a private PostgreSQL is used"
    )]
    MayNotCreate {
        /// The role.
        role: String,
    },
    /// The database failed.
    #[error(transparent)]
    Db(#[from] DbError),
}

impl From<diesel::result::Error> for ScratchError {
    fn from(error: diesel::result::Error) -> Self {
        Self::Db(error.into())
    }
}

/// A database that is there for as long as this value is.
pub(super) struct Scratch<'a> {
    admin: &'a mut PgConnection,
    admin_url: String,
    name: String,
}

#[derive(QueryableByName)]
struct RoleRow {
    #[diesel(sql_type = Text)]
    role: String,
    #[diesel(sql_type = Bool)]
    may_create: bool,
}

#[derive(QueryableByName)]
struct NameRow {
    #[diesel(sql_type = Text)]
    name: String,
}

const ROLE: &str = "SELECT rolname::text AS role, rolsuper OR rolcreatedb AS may_create FROM pg_roles WHERE rolname = current_user";
const OTHERS: &str = "SELECT datname::text AS name FROM pg_database WHERE datname ~ '^boxoffice_bench_[0-9]+$' ORDER BY 1 LIMIT 10";

impl<'a> Scratch<'a> {
    /// Makes the database, on the server at `url`.
    pub(super) fn create(admin: &'a mut PgConnection, url: &str) -> Result<Self, ScratchError> {
        let RoleRow { role, may_create } = sql_query(ROLE).get_result(admin)?;
        if !may_create {
            return Err(ScratchError::MayNotCreate { role });
        }
        admin.batch_execute("SET statement_timeout = 0")?;
        let name = format!("boxoffice_bench_{}", std::process::id());
        // What an earlier process of that number left. A database in use, by a process of that number elsewhere, is not dropped.
        admin.batch_execute(&format!("DROP DATABASE IF EXISTS {name}"))?;
        let others: Vec<NameRow> = sql_query(OTHERS).load(admin)?;
        for other in others {
            tracing::warn!(database = other.name, "another comparison runs, or one was killed and left this database: drop it if so");
        }
        admin.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0"))?;
        Ok(Self { admin, admin_url: url.to_owned(), name })
    }

    /// How to connect to it.
    pub(super) fn url(&self) -> String {
        of_database(&self.admin_url, &self.name)
    }

    fn drop_database(&mut self) -> QueryResult<()> {
        self.admin.batch_execute(&drop_sql(&self.name))
    }

    /// The connection may have broken during the comparison.
    fn drop_on_new_connection(&self) -> Result<(), ScratchError> {
        Ok(Db::new(DatabaseSettings::at(&self.admin_url)).dedicated()?.batch_execute(&drop_sql(&self.name))?)
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        if self.drop_database().is_err()
            && let Err(error) = self.drop_on_new_connection()
        {
            tracing::error!(%error, database = self.name, "the scratch database could not be dropped; please do");
        }
    }
}

/// What the server says of itself, and the machine that asks.
#[derive(Clone, Debug, Serialize)]
pub struct Server {
    /// Version of PostgreSQL.
    pub postgresql: String,
    /// PostgreSQL's `fsync`.
    pub fsync: String,
    /// PostgreSQL's `synchronous_commit`.
    pub synchronous_commit: String,
    /// Cores of the machine that the clients run on.
    pub cores: usize,
}

#[derive(QueryableByName)]
struct ServerRow {
    #[diesel(sql_type = Text)]
    version: String,
    #[diesel(sql_type = Text)]
    fsync: String,
    #[diesel(sql_type = Text)]
    synchronous_commit: String,
}

const SERVER: &str = "SELECT current_setting('server_version') AS version, current_setting('fsync') AS fsync, \
     current_setting('synchronous_commit') AS synchronous_commit";

impl Server {
    /// Asks the server.
    pub(super) fn of(conn: &mut PgConnection) -> Result<Self, DbError> {
        let server: ServerRow = sql_query(SERVER).get_result(conn)?;
        Ok(Self {
            // Without the packager's name: `15.14 (Debian 15.14-0+deb12u1)`.
            postgresql: server.version.split(' ').next().unwrap_or_default().to_owned(),
            fsync: server.fsync,
            synchronous_commit: server.synchronous_commit,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        })
    }

    /// The same for people.
    pub(super) fn to_text(&self) -> String {
        let Self { postgresql, fsync, synchronous_commit, cores } = self;
        format!("PostgreSQL {postgresql}, fsync {fsync}, synchronous_commit {synchronous_commit}; {cores} cores here.")
    }

    /// Whether what is committed is on the disk.
    pub(super) fn is_durable(&self) -> bool {
        self.fsync == "on" && self.synchronous_commit != "off"
    }
}

fn drop_sql(name: &str) -> String {
    format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")
}

/// The URL or `key=value` string of another database on the same server. In both forms libpq heeds the last of two equal keys.
fn of_database(url: &str, database: &str) -> String {
    let is_url = url.starts_with("postgres://") || url.starts_with("postgresql://");
    let joint = match (is_url, url.contains('?')) {
        (false, _) => ' ',
        (true, false) => '?',
        (true, true) => '&',
    };
    format!("{url}{joint}dbname={database}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_form_of_url_is_led_to_another_database() {
        assert_eq!(of_database("host=/tmp dbname=a", "b"), "host=/tmp dbname=a dbname=b");
        assert_eq!(of_database("postgres://db/a", "b"), "postgres://db/a?dbname=b");
        assert_eq!(of_database("postgresql://db/a?sslmode=require", "b"), "postgresql://db/a?sslmode=require&dbname=b");
    }
}
