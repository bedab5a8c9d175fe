//! One PostgreSQL for the whole run: the product's own private database, kept by `boxoffice database` until this process ends.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use boxoffice::db::{DatabaseSettings, Db, migrate};
use diesel::{Connection, PgConnection, QueryableByName, RunQueryDsl, connection::SimpleConnection, sql_query, sql_types::Text};

struct Cluster {
    /// `KEY=VALUE` connection string of the cluster's own database.
    url: String,
    /// Its input closes when this process ends, however it ends, and the cluster stops.
    _keeper: Child,
}

static CLUSTER: OnceLock<Cluster> = OnceLock::new();
static NEXT: AtomicU32 = AtomicU32::new(0);

fn cluster() -> &'static Cluster {
    CLUSTER.get_or_init(|| {
        let mut keeper = Command::new(env!("CARGO_BIN_EXE_boxoffice"))
            .args(["database", "--data-dir", concat!(env!("CARGO_TARGET_TMPDIR"), "/it")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut url = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        assert!(!url.is_empty(), "`boxoffice database` did not start; its error is above");
        drop_leftovers(&url);
        let template = template();
        PgConnection::establish(&url).unwrap().batch_execute(&format!("CREATE DATABASE {template}")).unwrap();
        migrate::run(&mut PgConnection::establish(&of_database(&url, &template)).unwrap()).unwrap();
        Cluster { url, _keeper: keeper }
    })
}

fn template() -> String {
    format!("it_{}_template", std::process::id())
}

fn of_database(url: &str, database: &str) -> String {
    // The last of two equal keys counts.
    format!("{url} dbname={database}")
}

#[derive(QueryableByName)]
struct Name {
    #[diesel(sql_type = Text)]
    datname: String,
}

/// Drops what runs that were killed have left; a run that goes on beside this one keeps its own.
fn drop_leftovers(url: &str) {
    let mut conn = PgConnection::establish(url).unwrap();
    let names: Vec<Name> = sql_query(r"SELECT datname::text FROM pg_database WHERE datname LIKE 'it\_%'").load(&mut conn).unwrap();
    for Name { datname } in names {
        let pid = datname.split('_').nth(1).unwrap_or_default();
        if !std::path::Path::new("/proc").join(pid).exists() || pid == std::process::id().to_string() {
            conn.batch_execute(&format!("DROP DATABASE IF EXISTS {datname} WITH (FORCE)")).unwrap();
        }
    }
}

/// A database of a test's own, with the schema and nothing in it. It is dropped when the next run begins: to drop one makes PostgreSQL
/// write everything out, and the tests that run at the same time wait for it.
pub struct Database {
    name: String,
    url: String,
}

impl Database {
    /// A copy of the migrated template.
    pub fn new() -> Self {
        Self::made_with(&format!("TEMPLATE {}", template()))
    }

    /// One without any tables.
    pub fn empty() -> Self {
        Self::made_with("TEMPLATE template0")
    }

    fn made_with(options: &str) -> Self {
        let cluster = cluster();
        let name = format!("it_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut conn = PgConnection::establish(&cluster.url).unwrap();
        conn.batch_execute(&format!("CREATE DATABASE {name} {options}")).unwrap();
        Self { url: of_database(&cluster.url, &name), name }
    }

    /// Its connection string.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The cluster's socket.
    pub fn socket(&self) -> std::path::PathBuf {
        let value = |key: &str| self.url.split(&format!("{key}='")).nth(1).unwrap().split('\'').next().unwrap();
        std::path::Path::new(value("host")).join(format!(".s.PGSQL.{}", self.url.split("port=").nth(1).unwrap().split(' ').next().unwrap()))
    }

    /// A connection of the test's own.
    pub fn connect(&self) -> PgConnection {
        PgConnection::establish(&self.url).unwrap()
    }

    /// The product's pool on it.
    pub fn pool(&self) -> Db {
        let db = Db::new(DatabaseSettings { connections_max: 20, ..DatabaseSettings::at(&self.url) });
        db.set_prepared();
        db
    }

    /// Whether somebody waits for a lock on it.
    pub fn waits_for_a_lock(&self) -> bool {
        self.waiting_for_a_lock() > 0
    }

    /// How many wait for a lock on it.
    pub fn waiting_for_a_lock(&self) -> usize {
        let sql = "SELECT pid::text AS datname FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        sql_query(sql).load::<Name>(&mut self.connect()).unwrap().len()
    }

    /// Ends every session on it but the caller's, as an administrator would.
    pub fn end_sessions(&self) {
        let sql = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'", self.name);
        PgConnection::establish(&cluster().url).unwrap().batch_execute(&sql).unwrap();
    }
}
