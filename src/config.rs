//! Command line and environment, read once into validated structs. Nothing else in the program reads the environment.

use std::{
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, Command, builder::Resettable};
use lettre::{SmtpTransport, message::Mailbox};
use url::Url;

use crate::{
    db::DatabaseSettings,
    orders::{HoldLimits, SaleLimits},
    webhooks::Reach,
};

/// The command, for which an environment variable that is empty counts as none: in files of variables that is how one is left out.
#[must_use]
pub fn without_empty_variables(command: Command) -> Command {
    let is_empty = |name: &std::ffi::OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    command
        .mut_args(|option| if option.get_env().is_some_and(is_empty) { option.env(Resettable::Reset) } else { option })
        .mut_subcommands(without_empty_variables)
}

/// Reads the address that buyers see.
fn public_url(text: &str) -> Result<String, String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let is_plain = |url: &Url| url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    url.filter(is_plain).map(|_| text.to_owned()).ok_or_else(|| "it must be like https://tickets.example.org".to_owned())
}

/// Reads the URL of a mail server.
fn smtp_url(text: &str) -> Result<SmtpUrl, String> {
    let has_host = Url::parse(text).is_ok_and(|url| url.has_host());
    match SmtpTransport::from_url(text) {
        Ok(_) if has_host => Ok(SmtpUrl(text.to_owned())),
        _ => Err("it must be like smtps://user:password@mail.example.org or smtp://mail.example.org:587?tls=required".to_owned()),
    }
}

/// Reads who mail is from.
fn mail_from(text: &str) -> Result<Mailbox, String> {
    text.parse().map_err(|_| "it must be like tickets@example.org or: Old Opera <tickets@example.org>".to_owned())
}

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
    #[arg(long, env = "BOXOFFICE_PUBLIC_URL", value_parser = public_url, value_name = "URL")]
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
    /// Threads of this process that work jobs, such as confirmations; 0 leaves them to `boxoffice work`
    #[arg(long, env = "BOXOFFICE_WORKERS", default_value_t = 16, value_parser = clap::value_parser!(u16).range(0..=256), value_name = "N")]
    pub workers: u16,
    /// How e-mail is sent
    #[command(flatten)]
    pub mail: MailArgs,
    /// Let webhooks go to addresses that are not public, and by http: for receivers on the same network
    #[arg(long, env = "BOXOFFICE_WEBHOOK_ALLOW_PRIVATE")]
    pub webhook_allow_private: bool,
    /// Threads that serve HTTP; the default is one for each core
    #[arg(long, env = "BOXOFFICE_HTTP_THREADS", value_parser = clap::value_parser!(u16).range(1..=256), value_name = "N")]
    pub http_threads: Option<u16>,
}

/// How e-mail is sent.
#[derive(Args, Clone, Debug, Default)]
pub struct MailArgs {
    /// Who e-mail is from, such as: Old Opera <tickets@example.org>
    #[arg(long, env = "BOXOFFICE_MAIL_FROM", value_parser = mail_from, value_name = "ADDRESS")]
    pub mail_from: Option<Mailbox>,
    /// The mail server, such as smtps://user:password@mail.example.org or smtp://mail.example.org:587?tls=required; without it, mail is written into a folder
    #[arg(long, env = "BOXOFFICE_SMTP_URL", value_parser = smtp_url, value_name = "URL", hide_env_values = true)]
    pub smtp_url: Option<SmtpUrl>,
    /// The folder that mail is written into without a mail server [default: spool in the data directory]
    #[arg(long, env = "BOXOFFICE_SPOOL_DIR", value_name = "DIR")]
    pub spool_dir: Option<PathBuf>,
}

/// How e-mail is sent.
#[derive(Clone, Debug)]
pub struct MailConfig {
    /// Who it is from.
    pub from: Mailbox,
    /// Where it goes.
    pub transport: MailTransport,
}

/// Where e-mail goes.
#[derive(Clone, Debug)]
pub enum MailTransport {
    /// Into this folder, a file each.
    Spool(PathBuf),
    /// To this mail server.
    Smtp(SmtpUrl),
}

/// The URL of a mail server; one that exists can be used. It may have a password in it, which is not shown.
#[derive(Clone)]
pub struct SmtpUrl(String);

impl SmtpUrl {
    /// The URL, password and all.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SmtpUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SmtpUrl(…)")
    }
}

impl MailArgs {
    /// The same, with what is not given filled in.
    #[must_use]
    pub fn config(&self, data_dir: &Path) -> MailConfig {
        let spool = || self.spool_dir.clone().unwrap_or_else(|| data_dir.join("spool"));
        MailConfig {
            from: self.mail_from.clone().unwrap_or_else(nobody),
            transport: self.smtp_url.clone().map_or_else(|| MailTransport::Spool(spool()), MailTransport::Smtp),
        }
    }
}

/// Who mail is from until somebody says so; good for a spool folder only.
#[expect(clippy::expect_used, reason = "the address is a constant, and a test reads it")]
fn nobody() -> Mailbox {
    "boxoffice <boxoffice@localhost>".parse().expect("an address")
}

/// How `boxoffice work` works.
#[derive(Args, Clone, Debug)]
pub struct WorkArgs {
    /// Threads that work jobs
    #[arg(long, env = "BOXOFFICE_WORKERS", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256), value_name = "N")]
    pub workers: u16,
    /// The address that buyers see, such as https://tickets.example.org; links in e-mail begin with it
    #[arg(long, env = "BOXOFFICE_PUBLIC_URL", value_parser = public_url, default_value = "http://127.0.0.1:8080", value_name = "URL")]
    pub public_url: String,
    /// Pause between two sweeps that put the tickets of holds back that are over, in seconds; 0 leaves it to the sales that need them
    #[arg(long, env = "BOXOFFICE_HOLD_SWEEP_SECS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=3_600), value_name = "SECONDS")]
    pub hold_sweep_secs: u64,
    /// Let webhooks go to addresses that are not public, and by http: for receivers on the same network
    #[arg(long, env = "BOXOFFICE_WEBHOOK_ALLOW_PRIVATE")]
    pub webhook_allow_private: bool,
    /// How e-mail is sent
    #[command(flatten)]
    pub mail: MailArgs,
}

fn reach(allow_private: bool) -> Reach {
    if allow_private { Reach::Anywhere } else { Reach::Public }
}

impl WorkArgs {
    /// How to use the database at `url`: a connection for each thread, and some for the periodic tasks.
    #[must_use]
    pub fn database(&self, url: impl Into<String>) -> DatabaseSettings {
        DatabaseSettings { connections_max: u32::from(self.workers) + 2, ..DatabaseSettings::at(url) }
    }

    /// What handlers of jobs are told.
    #[must_use]
    pub fn app(&self, data_dir: &Path) -> WebConfig {
        let webhook_reach = reach(self.webhook_allow_private);
        WebConfig { mail: self.mail.config(data_dir), webhook_reach, ..WebConfig::at(&self.public_url) }
    }
}

/// Pause between two sweeps of holds; none if nothing is to be swept.
#[must_use]
pub fn sweep_pause(secs: u64) -> Option<Duration> {
    (secs > 0).then(|| Duration::from_secs(secs))
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
    /// How e-mail is sent.
    pub mail: MailConfig,
    /// Which addresses webhooks may go to.
    pub webhook_reach: Reach,
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

    /// What request handlers are told, for a server that listens on `bound`.
    #[must_use]
    pub fn web(&self, bound: SocketAddr, data_dir: &Path) -> WebConfig {
        let public_url = self.public_url.clone().unwrap_or_else(|| format!("http://{bound}"));
        let lock_wait = Duration::from_millis(self.sale_lock_wait_ms);
        WebConfig {
            sale_limits: SaleLimits { lock_wait, claim_wait: 2 * lock_wait },
            holds: HoldLimits { usual_secs: self.hold_secs, secs_max: self.hold_secs_max },
            mail: self.mail.config(data_dir),
            webhook_reach: reach(self.webhook_allow_private),
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
            mail: MailArgs::default().config(Path::new("./data")),
            webhook_reach: Reach::default(),
            body_bytes_max: BODY_BYTES_MAX,
            file_bytes_max: FILE_BYTES_MAX,
            body_wait: BODY_WAIT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_mail_and_links_need_is_checked_at_the_start() {
        for right in ["smtp://127.0.0.1:25", "smtps://u:p@mail.example.org", "smtp://mail.example.org:587?tls=required"] {
            assert!(smtp_url(right).is_ok(), "{right}");
        }
        for wrong in
            ["foo", "mail.example.org", "smtp://", "smtp://127.0.0.1:99999", "http://127.0.0.1:25", "smtp://u:p@127.0.0.1?tls=bogus"]
        {
            assert!(smtp_url(wrong).is_err(), "{wrong}");
        }
        assert_eq!(public_url("https://tickets.example.org/").unwrap(), "https://tickets.example.org/");
        for wrong in ["foo", "ftp://x", "http://", "tickets.example.org", "https://example.org/?x=1"] {
            assert!(public_url(wrong).is_err(), "{wrong}");
        }
        assert!(mail_from("foo").is_err() && mail_from("Old Opera <tickets@example.org>").is_ok());
    }

    #[test]
    fn without_a_mail_server_mail_goes_into_the_data_directory() {
        let config = MailArgs::default().config(Path::new("/srv/data"));
        assert_eq!(config.from.email.to_string(), "boxoffice@localhost");
        assert!(matches!(config.transport, MailTransport::Spool(folder) if folder == Path::new("/srv/data/spool")));
    }
}
