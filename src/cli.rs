//! The commands: what `boxoffice --help` lists.

use std::{
    fs,
    io::{self, IsTerminal, Read, Write},
    net::TcpListener,
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use diesel::PgConnection;
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::{
    accounts::{self, AccountError, AdminInput, Scope},
    app::App,
    bench::{
        claim::{self, ClaimArgs, ClaimError},
        onsale::{self, OnsaleArgs, OnsaleError},
        queue::{self, QueueArgs, QueueError},
    },
    clock::Clock,
    config::{DatabaseArgs, ServeArgs, WorkArgs, sweep_pause, without_empty_variables},
    db::{
        DatabaseSettings, Db, DbCause, DbError,
        local::{Health, LocalDatabase, LocalDatabaseError},
        migrate::{self, MigrateError},
    },
    demo,
    inventory::{self, InventoryError, Load, LoadedBy, Stock},
    orders, web,
    worker::{self, Runner, Sweeper},
};

/// Pause between two tries to reach a database that is not there yet, and between two looks at the local one.
const DATABASE_POLL: Duration = Duration::from_millis(500);

/// Sells tickets: never twice, all or a clear error, and every confirmed sale is kept.
#[derive(Parser)]
#[command(name = "boxoffice", version, about, propagate_version = true)]
struct Cli {
    #[command(flatten)]
    database: DatabaseArgs,
    /// What to log: error, warn, info, debug, or a filter such as info,boxoffice=debug
    #[arg(long, global = true, env = "BOXOFFICE_LOG", default_value = "info", value_name = "FILTER")]
    log: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the pages and the API
    Serve(ServeArgs),
    /// Work jobs, such as confirmations, and serve nobody
    Work(WorkArgs),
    /// Bring the database's tables up to this version
    Migrate,
    /// Load inventory from a CSV file into an event
    Load(LoadArgs),
    /// Manage admins
    #[command(subcommand)]
    Admin(AdminCommand),
    /// Manage partner systems and their keys
    #[command(subcommand)]
    Partner(PartnerCommand),
    /// Check the promises over the whole database; exits 1 and names the rows if one is broken
    Audit,
    /// Measure, on this machine
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Run only the private database, until the input ends: prints its connection string
    Database,
}

#[derive(Args)]
struct LoadArgs {
    /// The event's slug
    event: String,
    /// The file, with a header: ticket_type,quantity or ticket_type,section,row,seat,price_minor,external_ref
    file: PathBuf,
    /// Only tell what would happen
    #[arg(long)]
    dry_run: bool,
}

#[derive(Subcommand)]
enum AdminCommand {
    /// Make an admin, or give one a new password, which is read from the input
    Create {
        /// E-mail address to log in with
        email: String,
    },
}

#[derive(Subcommand)]
enum PartnerCommand {
    /// Give a partner a new key: it is printed once, on the last line
    Create {
        /// The partner's name; one that exists gets a further key
        name: String,
        /// What the key may do
        #[arg(long, value_delimiter = ',', default_value = "read,sell", value_name = "read,sell,admin")]
        scope: Vec<Scope>,
    },
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Compare the ways to take rows from one table, in a scratch database; exits 1 if anything was sold twice
    Claim(ClaimArgs),
    /// Put a fresh event on sale at a running server, and compare every answer with the database; exits 1 if one does not agree
    Onsale(OnsaleArgs),
    /// Work empty jobs in whatever the job queue may find itself in, in a scratch database; exits 1 if any was done twice or out of order
    Queue(QueueArgs),
}

/// Why a command failed, in words for whoever typed it.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Local(#[from] LocalDatabaseError),
    #[error(transparent)]
    Db(#[from] DbError),
    #[error(transparent)]
    Migrate(#[from] MigrateError),
    #[error(transparent)]
    Inventory(#[from] InventoryError),
    #[error(transparent)]
    Account(#[from] AccountError),
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error(transparent)]
    Onsale(#[from] OnsaleError),
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error("cannot listen on {0}: {1}")]
    Listen(std::net::SocketAddr, io::Error),
    #[error("cannot read {0}: {1}")]
    Read(String, io::Error),
    #[error("there is no database in {0}: name another with --data-dir or --database-url")]
    NoDatabase(String),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the log filter is not one: {0}")]
    Log(String),
    /// What is wrong has been printed already.
    #[error("")]
    Told,
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let arguments = without_empty_variables(Cli::command()).get_matches();
    let cli = Cli::from_arg_matches(&arguments).unwrap_or_else(|error| error.exit());
    match start_log(&cli.log).and_then(|()| run(&cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Told) => ExitCode::FAILURE,
        Err(failure) => {
            // If even the error output is gone, the exit code still tells.
            let _ = writeln!(io::stderr(), "boxoffice: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Human-readable lines on a terminal, JSON otherwise; both on the error output, which leaves the output to results.
fn start_log(filter: &str) -> Result<(), Failure> {
    // Chosen by target and level alone: a filter by span fields would be asked each time a request goes on.
    if let Some(unknown) = filter.split(',').find(|part| !part.contains('=') && part.trim().parse::<LevelFilter>().is_err()) {
        return Err(Failure::Log(format!("{unknown:?} is not a level: off, error, warn, info, debug or trace")));
    }
    let filter: Targets = filter.parse().map_err(|error| Failure::Log(format!("{filter:?}: {error}")))?;
    let lines = fmt::layer().with_writer(io::stderr);
    if io::stderr().is_terminal() {
        tracing_subscriber::registry().with(filter).with(lines.with_target(false)).init();
    } else {
        let lines = lines.json().flatten_event(true).with_current_span(true).with_span_list(false);
        tracing_subscriber::registry().with(filter).with(lines).init();
    }
    Ok(())
}

fn run(cli: &Cli) -> Result<(), Failure> {
    match &cli.command {
        Command::Serve(args) => serve(&cli.database, args),
        Command::Work(args) => work(&cli.database, args),
        Command::Migrate => with_connection(&cli.database, |_| say("The database is up to date.")),
        Command::Load(args) => load(&cli.database, args),
        Command::Admin(AdminCommand::Create { email }) => create_admin(&cli.database, email),
        Command::Partner(PartnerCommand::Create { name, scope }) => create_partner(&cli.database, name, scope),
        Command::Audit => audit(&cli.database),
        Command::Bench(BenchCommand::Claim(args)) => bench_claim(&cli.database, args),
        Command::Bench(BenchCommand::Onsale(args)) => bench_onsale(&cli.database, args),
        Command::Bench(BenchCommand::Queue(args)) => bench_queue(&cli.database, args),
        Command::Database => database(&cli.database),
    }
}

/// A result, for people and for programs that read the output.
fn say(line: impl std::fmt::Display) -> Result<(), Failure> {
    Ok(writeln!(io::stdout(), "{line}")?)
}

/// The database that the options name: the one at the URL, or the private one, which is started unless it runs.
fn open(args: &DatabaseArgs) -> Result<(String, Option<LocalDatabase>), Failure> {
    if let Some(url) = args.url() {
        return Ok((url, None));
    }
    let local = LocalDatabase::open(&args.data_dir)?;
    Ok((local.url("boxoffice"), Some(local)))
}

/// Runs a command's work on a migrated database, and gives the private one back afterwards.
fn with_connection(args: &DatabaseArgs, work: impl FnOnce(&mut PgConnection) -> Result<(), Failure>) -> Result<(), Failure> {
    let (url, local) = open(args)?;
    let db = Db::new(DatabaseSettings::at(url));
    let patience = Duration::from_secs(args.database_wait_secs);
    let result = connect(&db, Some(patience), &AtomicBool::new(false)).and_then(|mut conn| {
        announce(&migrate::run(&mut conn)?);
        work(&mut conn)
    });
    if let Some(local) = local {
        local.close()?;
    }
    result
}

/// A connection, as soon as the database is there. Says once that it is waited for.
fn connect(db: &Db, patience: Option<Duration>, given_up: &AtomicBool) -> Result<PgConnection, Failure> {
    let began = Instant::now();
    let mut told = false;
    loop {
        match db.dedicated() {
            Ok(conn) => return Ok(conn),
            Err(error) if patience.is_some_and(|patience| began.elapsed() >= patience) || given_up.load(Ordering::Relaxed) => {
                return Err(error.into());
            }
            Err(error) if !told => {
                tracing::warn!(%error, "waiting for the database");
                told = true;
            }
            Err(_) => {}
        }
        thread::sleep(DATABASE_POLL);
    }
}

fn announce(migrations: &[String]) {
    for migration in migrations {
        tracing::info!(migration, "migrated");
    }
}

fn serve(database: &DatabaseArgs, args: &ServeArgs) -> Result<(), Failure> {
    let listener = TcpListener::bind(args.listen).map_err(|error| Failure::Listen(args.listen, error))?;
    let bound = listener.local_addr()?;
    let (url, local) = open(database)?;
    let app = App::new(args.web(bound, &database.data_dir), Db::new(args.database(url)), Clock::system());
    let duties =
        Duties { with_demo: args.demo, is_server: true, workers: args.workers.into(), sweep_pause: sweep_pause(args.hold_sweep_secs) };
    run_app(&app, local, &duties, |ended| actix_web::rt::System::new().block_on(run_server(&app, listener, args.http_threads, ended)))
}

/// Works jobs, and serves nobody.
fn work(database: &DatabaseArgs, args: &WorkArgs) -> Result<(), Failure> {
    let (url, local) = open(database)?;
    let app = App::new(args.app(&database.data_dir), Db::new(args.database(url)), Clock::system());
    let duties =
        Duties { with_demo: false, is_server: false, workers: args.workers.into(), sweep_pause: sweep_pause(args.hold_sweep_secs) };
    run_app(&app, local, &duties, |ended| actix_web::rt::System::new().block_on(until_told_to_end(ended)))
}

/// What a process does beside its main part.
struct Duties {
    with_demo: bool,
    is_server: bool,
    workers: usize,
    sweep_pause: Option<Duration>,
}

/// Prepares the database, does the duties, and meanwhile `main_part`, with whose end all of it ends.
fn run_app(
    app: &App,
    local: Option<LocalDatabase>,
    duties: &Duties,
    main_part: impl FnOnce(&AtomicBool) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let ended = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        let ended = &ended;
        let preparation = scope.spawn(|| prepare(app, duties, ended));
        let mut beside = Vec::new();
        if let Some(local) = &local {
            beside.push(scope.spawn(|| watch(local, ended)));
        }
        if let Some(pause) = duties.sweep_pause {
            beside.push(scope.spawn(move || sweep(app, pause, ended)));
        }
        if duties.workers > 0 {
            beside.push(scope.spawn(|| Runner::new(app, duties.workers, worker::handlers(&app.config)).run(ended)));
        }
        let done = main_part(ended);
        app.desk.close();
        ended.store(true, Ordering::Relaxed);
        app.desk.wake().nudge();
        beside.into_iter().for_each(|thread| drop(thread.join()));
        let prepared = preparation.join().unwrap_or(Err(Failure::Told));
        done.and(prepared)
    });
    if let Some(local) = local {
        let closed = local.close()?;
        tracing::info!(?closed, "the private database");
    }
    outcome
}

/// Ends holds that are over, until the server ends.
fn sweep(app: &App, pause: Duration, ended: &AtomicBool) {
    let mut sweeper = Sweeper::default();
    worker::run_every(pause, ended, || sweeper.sweep(app));
}

/// Serves until SIGTERM or SIGINT, or until the preparation has failed for good.
async fn run_server(app: &App, listener: TcpListener, threads: Option<u16>, ended: &AtomicBool) -> Result<(), Failure> {
    let server = web::server(app.clone(), listener, threads)?;
    let handle = server.handle();
    let mut server = std::pin::pin!(server);
    loop {
        match tokio::time::timeout(DATABASE_POLL, &mut server).await {
            Ok(ended) => return Ok(ended?),
            Err(_) if ended.load(Ordering::Relaxed) => {
                // Both at once: the server carries the stop out only while it is polled itself.
                let (served, ()) = futures_util::future::join(server, handle.stop(false)).await;
                return Ok(served?);
            }
            Err(_) => {}
        }
    }
}

/// Waits for SIGTERM or SIGINT, or until the preparation has failed for good.
async fn until_told_to_end(ended: &AtomicBool) -> Result<(), Failure> {
    let mut told = std::pin::pin!(web::told_to_end());
    while tokio::time::timeout(DATABASE_POLL, &mut told).await.is_err() {
        if ended.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(())
}

/// Brings the database to this version, then lets requests in. Until then they are answered 503, and retried by those who sent them.
fn prepare(app: &App, duties: &Duties, ended: &AtomicBool) -> Result<(), Failure> {
    let result = prepare_until_done(app, duties, ended);
    if result.is_err() {
        ended.store(true, Ordering::Relaxed);
    }
    result
}

fn prepare_until_done(app: &App, duties: &Duties, ended: &AtomicBool) -> Result<(), Failure> {
    loop {
        if ended.load(Ordering::Relaxed) {
            return Ok(());
        }
        match prepare_once(app, duties, ended) {
            // It went away in the middle: every step can be done again.
            Err(failure) if is_transient(&failure) && !ended.load(Ordering::Relaxed) => thread::sleep(DATABASE_POLL),
            Err(_) if ended.load(Ordering::Relaxed) => return Ok(()),
            other => return other,
        }
    }
}

fn prepare_once(app: &App, duties: &Duties, ended: &AtomicBool) -> Result<(), Failure> {
    let mut conn = connect(&app.db, None, ended)?;
    announce(&migrate::run(&mut conn)?);
    if duties.with_demo {
        demo::prepare(&mut conn, app.clock.now())?;
    }
    let has_admin = accounts::any_admin(&mut conn)?;
    app.db.set_prepared();
    if !duties.is_server {
        return say("boxoffice works.");
    }
    let address = &app.config.public_url;
    say(format_args!("boxoffice is ready: {address}"))?;
    if duties.with_demo {
        say(format_args!("The demo event: {address}/events/{}", demo::SLUG))?;
    }
    if !has_admin {
        say(format_args!("There is no admin yet. This link makes the first one: {address}/admin/setup?token={}", app.setup_token))?;
    }
    Ok(())
}

fn is_transient(failure: &Failure) -> bool {
    let db = match failure {
        Failure::Db(error) | Failure::Migrate(MigrateError::Db(error)) => Some(error),
        Failure::Inventory(error) => error.db_cause(),
        _ => None,
    };
    matches!(db, Some(DbError::Unavailable(_) | DbError::CommitUnknown(_) | DbError::Busy(_) | DbError::Conflict(_)))
}

/// Starts the private database again if it crashes. One that somebody stopped on purpose is left alone.
fn watch(local: &LocalDatabase, ended: &AtomicBool) {
    let mut stopped = false;
    while !ended.load(Ordering::Relaxed) {
        thread::sleep(DATABASE_POLL);
        match local.check() {
            Ok(Health::Running) => stopped = false,
            Ok(Health::Restarted) => tracing::warn!("the private database had crashed, and was started again"),
            Ok(Health::StoppedOnPurpose) if !stopped => {
                tracing::warn!("somebody stopped the private database; start it again, or this server");
                stopped = true;
            }
            Ok(Health::StoppedOnPurpose) => {}
            Err(error) => tracing::error!(%error, "the private database cannot be started again"),
        }
    }
}

fn load(database: &DatabaseArgs, args: &LoadArgs) -> Result<(), Failure> {
    let bytes = fs::read(&args.file).map_err(|error| Failure::Read(args.file.display().to_string(), error))?;
    let load = Load { event: args.event.clone(), stock: Stock::File(bytes), by: LoadedBy::CommandLine, key: None, dry_run: args.dry_run };
    with_connection(database, |conn| match inventory::load(conn, Clock::system().now(), &load) {
        Ok(report) => {
            let verb = if report.dry_run { "would be loaded" } else { "loaded" };
            for of_type in &report.ticket_types {
                say(format_args!("{}: {} {verb}, {} already there", of_type.ticket_type, of_type.loaded, of_type.already_there))?;
            }
            let noun = if report.loaded == 1 { "ticket" } else { "tickets" };
            say(format_args!("{} {noun} {verb}, {} already there", report.loaded, report.already_there))
        }
        Err(InventoryError::Rows(rows)) => {
            let mut out = io::stderr().lock();
            for error in &rows.first {
                writeln!(out, "row {}: {} {}", error.row, error.field, error.message)?;
            }
            writeln!(out, "Nothing was loaded: {} rows are wrong.", rows.total)?;
            Err(Failure::Told)
        }
        Err(error) => Err(error.into()),
    })
}

fn create_admin(database: &DatabaseArgs, email: &str) -> Result<(), Failure> {
    if io::stdin().is_terminal() {
        write!(io::stderr(), "Password (12 characters or more; it is shown as you type): ")?;
    }
    let mut password = String::new();
    io::stdin().take(1_024).read_line_into(&mut password)?;
    let input = AdminInput { email: email.to_owned(), password: password.trim_end_matches(['\r', '\n']).to_owned() };
    let new = input.parse().map_err(AccountError::Invalid)?;
    with_connection(database, |conn| {
        accounts::set_admin(conn, Clock::system().now(), &new)?;
        say(format_args!("{} can log in.", new.email.as_str()))
    })
}

/// Reads one line.
trait ReadLine {
    fn read_line_into(self, line: &mut String) -> io::Result<usize>;
}

impl<R: Read> ReadLine for R {
    fn read_line_into(self, line: &mut String) -> io::Result<usize> {
        io::BufRead::read_line(&mut io::BufReader::new(self), line)
    }
}

fn create_partner(database: &DatabaseArgs, name: &str, scopes: &[Scope]) -> Result<(), Failure> {
    with_connection(database, |conn| {
        let key = accounts::create_partner_key(conn, Clock::system().now(), name, scopes)?;
        say("The key of the partner, which is not shown again:")?;
        say(key)
    })
}

fn audit(database: &DatabaseArgs) -> Result<(), Failure> {
    // A new database would be found in order, which is no answer about the one that was meant.
    if database.url().is_none() && !database.data_dir.join("postgres").exists() {
        return Err(Failure::NoDatabase(database.data_dir.display().to_string()));
    }
    with_connection(database, |conn| {
        let report = orders::audit(conn)?;
        for breach in &report.breaches {
            say(format_args!("BREACH: {}: {}", breach.check, breach.row))?;
        }
        let size = format!("{} checks over {} tickets and {} orders", report.checks, report.tickets, report.orders);
        if report.breaches.is_empty() {
            return say(format_args!("All is well: {size}."));
        }
        say(format_args!("{} breaches: {size}.", report.breaches.len()))?;
        Err(Failure::Told)
    })
}

/// Measures beside a database, which is left as it is, and gives the private one back afterwards.
fn beside<T>(database: &DatabaseArgs, measure: impl FnOnce(&mut PgConnection, &str) -> Result<T, Failure>) -> Result<T, Failure> {
    let (url, local) = open(database)?;
    let db = Db::new(DatabaseSettings::at(&url));
    let patience = Duration::from_secs(database.database_wait_secs);
    let measured = connect(&db, Some(patience), &AtomicBool::new(false)).and_then(|mut admin| measure(&mut admin, &url));
    if let Some(local) = local {
        local.close()?;
    }
    measured
}

fn bench_queue(database: &DatabaseArgs, args: &QueueArgs) -> Result<(), Failure> {
    let measurement = beside(database, |admin, url| Ok(queue::run(admin, url, args)?))?;
    say(if args.json { measurement.to_json()? } else { measurement.to_text() })?;
    if measurement.is_right() { Ok(()) } else { Err(Failure::Told) }
}

fn bench_claim(database: &DatabaseArgs, args: &ClaimArgs) -> Result<(), Failure> {
    let comparison = beside(database, |admin, url| Ok(claim::run(admin, url, args)?))?;
    say(if args.json { comparison.to_json()? } else { comparison.to_text() })?;
    if comparison.is_right() { Ok(()) } else { Err(Failure::Told) }
}

fn bench_onsale(database: &DatabaseArgs, args: &OnsaleArgs) -> Result<(), Failure> {
    args.check()?;
    with_connection(database, |conn| {
        let outcome = onsale::run(conn, &Clock::system(), args)?;
        say(if args.json { outcome.to_json()? } else { outcome.to_text() })?;
        if outcome.is_right() { Ok(()) } else { Err(Failure::Told) }
    })
}

/// Keeps the private database running for other programs, until the input ends: which it does when the program that started this one
/// ends, however it ends.
fn database(args: &DatabaseArgs) -> Result<(), Failure> {
    let local = LocalDatabase::open(&args.data_dir)?;
    say(local.url("boxoffice"))?;
    io::copy(&mut io::stdin(), &mut io::sink())?;
    local.close()?;
    Ok(())
}
