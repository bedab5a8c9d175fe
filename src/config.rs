//! Command line and environment, read once into validated structs. Nothing else in the program reads the environment.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args;

use crate::{
    db::DatabaseSettings,
    orders::{HoldLimits, SaleLimits},
};

/// Where the database is; an option of every command.
#[derive(Args, Clone, Debug)]
pub struct DatabaseArgs {
    /// Directory of the private database, which is used when no database URL is given
    #[arg(long, global = true, env = "BOXOFFICE_DATA_DIR", default_value = "./data", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// PostgreSQL to use instead of a private one, such as postgres://user:password@host/boxoffice (also DATABASE_URL)
    #[arg(long, global = true, env = "BOXOFFICE_DATABASE_URL", value_name = "URL", hide_env_values = true)]
    pub database_url: Option<String>,
    /// How long to wait at start for a database that is not there yet, in seconds
    #[arg(long, global = true, env = "BOXOFFICE_DATABASE_WAIT_SECS", default_value_t = 60, value_name = "SECONDS")]
    pub database_wait_secs: u64,
}

impl DatabaseArgs {
    /// The URL that was given, by option or by either variable; an empty one counts as none.
    #[must_use]
    pub fn url(&self) -> Option<String> {
        let given = self.database_url.clone().or_else(|| std::env::var("DATABASE_URL").ok());
        given.filter(|url| !url.trim().is_empty())
    }
}

/// How `boxoffice serve` serves.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// Address and port to listen on
    #[arg(long, env = "BOXOFFICE_LISTEN", default_value = "127.0.0.1:8080", value_name = "ADDRESS:PORT")]
    pub listen: SocketAddr,
    /// Put a demo event with 500 tickets on sale, if it is not there yet
    #[arg(long, env = "BOXOFFICE_DEMO")]
    pub demo: bool,
    /// The address that buyers see, such as https://tickets.example.org; with https, cookies are sent over https only
    #[arg(long, env = "BOXOFFICE_PUBLIC_URL", value_name = "URL")]
    pub public_url: Option<String>,
    /// Most connections to the database
    #[arg(long, env = "BOXOFFICE_DATABASE_CONNECTIONS", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=500), value_name = "N")]
    pub database_connections: u32,
    /// Longest time for one statement, in milliseconds
    #[arg(long, env = "BOXOFFICE_STATEMENT_TIMEOUT_MS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(100..=600_000), value_name = "MS")]
    pub statement_timeout_ms: u64,
    /// Longest wait of a purchase for one ticket that somebody else has locked, in milliseconds; after it, the answer is "busy"
    #[arg(long, env = "BOXOFFICE_SALE_LOCK_WAIT_MS", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=60_000), value_name = "MS")]
    pub sale_lock_wait_ms: u64,
    /// How long tickets are held for a buyer on the page, and for a partner that does not say, in seconds
    #[arg(long, env = "BOXOFFICE_HOLD_SECS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..=86_400), value_name = "SECONDS")]
    pub hold_secs: u32,
    /// Longest hold that a partner may ask for, in seconds
    #[arg(long, env = "BOXOFFICE_HOLD_SECS_MAX", default_value_t = 3_600, value_parser = clap::value_parser!(u32).range(1..=86_400), value_name = "SECONDS")]
    pub hold_secs_max: u32,
    /// Pause between two sweeps that put the tickets of holds back that are over, in seconds; 0 leaves it to the sales that need them
    #[arg(long, env = "BOXOFFICE_HOLD_SWEEP_SECS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=3_600), value_name = "SECONDS")]
    pub hold_sweep_secs: u64,
    /// Threads that serve HTTP; the default is one for each core
    #[arg(long, env = "BOXOFFICE_HTTP_THREADS", value_parser = clap::value_parser!(u16).range(1..=256), value_name = "N")]
    pub http_threads: Option<u16>,
}

/// What request handlers need to know of the configuration.
#[derive(Clone, Debug)]
pub struct WebConfig {
    /// What links begin with, without a slash at the end.
    pub public_url: String,
    /// Cookies are for https only.
    pub secure_cookies: bool,
    /// How long a sale may wait for others.
    pub sale_limits: SaleLimits,
    /// For how long tickets may be held.
    pub holds: HoldLimits,
    /// Largest body of a JSON call or a form, in bytes.
    pub body_bytes_max: usize,
    /// Largest inventory file, in bytes.
    pub file_bytes_max: usize,
    /// Longest time in which a whole body must have arrived.
    pub body_wait: Duration,
}

/// Largest body of a JSON call or a form: a hundred lines and a long name fit many times over.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// Largest inventory file, which is held in memory.
const FILE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// A body that has not arrived by then is not coming.
const BODY_WAIT: Duration = Duration::from_secs(20);

impl ServeArgs {
    /// The settings of the database at `url`.
    #[must_use]
    pub fn database(&self, url: String) -> DatabaseSettings {
        DatabaseSettings {
            connections_max: self.database_connections,
            statement_timeout: Duration::from_millis(self.statement_timeout_ms),
            ..DatabaseSettings::at(url)
        }
    }

    /// Pause between two sweeps of holds; none if nothing is to be swept.
    #[must_use]
    pub fn sweep_pause(&self) -> Option<Duration> {
        (self.hold_sweep_secs > 0).then(|| Duration::from_secs(self.hold_sweep_secs))
    }

    /// What request handlers are told, for a server that listens on `bound`.
    #[must_use]
    pub fn web(&self, bound: SocketAddr) -> WebConfig {
        let public_url = self.public_url.clone().unwrap_or_else(|| format!("http://{bound}"));
        let lock_wait = Duration::from_millis(self.sale_lock_wait_ms);
        WebConfig {
            sale_limits: SaleLimits { lock_wait, claim_wait: 2 * lock_wait },
            holds: HoldLimits { usual_secs: self.hold_secs, secs_max: self.hold_secs_max },
            ..WebConfig::at(&public_url)
        }
    }
}

impl WebConfig {
    /// The defaults, for links that begin with `public_url`.
    #[must_use]
    pub fn at(public_url: &str) -> Self {
        Self {
            public_url: public_url.trim_end_matches('/').to_owned(),
            secure_cookies: public_url.starts_with("https://"),
            sale_limits: SaleLimits::default(),
            holds: HoldLimits::default(),
            body_bytes_max: BODY_BYTES_MAX,
            file_bytes_max: FILE_BYTES_MAX,
            body_wait: BODY_WAIT,
        }
    }
}
