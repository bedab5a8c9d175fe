//! The cluster: making it, starting it, stopping it. Every function here that changes something is called under the gate.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::{fs::OpenOptionsExt, net::UnixStream},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use nix::fcntl::OFlag;

use super::{
    NAME,
    account::{Account, run, wait},
    error::{LocalDatabaseError, io_error},
    log::Log,
    place::{self, Site, fingerprint},
    postmaster::{self, Process, State},
    programs::{Programs, major_of_cluster},
    socket::Address,
};

/// Longest time to make a cluster; a second or two on a disk of today.
const INITDB_WAIT_MAX: Duration = Duration::from_secs(120);
/// Longest wait for a start. A recovery replays up to `max_wal_size` (2 GB), which takes a slow disk a minute or more.
const START_WAIT_MAX: Duration = Duration::from_secs(120);
/// How much longer than it was told `pg_ctl` may take.
const PG_CTL_MARGIN: Duration = Duration::from_millis(500);
/// Longest wait for the children of a postmaster that was killed: each ends when it notices, after the statement at hand.
const ORPHANS_WAIT_MAX: Duration = Duration::from_secs(30);
/// Pause between two starts while such children live.
const ORPHANS_POLL: Duration = Duration::from_millis(500);
/// Longest wait for a shutdown that someone else began.
const STOPPING_WAIT_MAX: Duration = Duration::from_secs(30);
/// How long `postmaster.pid` may be unreadable; PostgreSQL writes it in one go.
const UNCLEAR_WAIT_MAX: Duration = Duration::from_secs(2);
/// Pause between two looks at a cluster that starts or stops.
const STATE_POLL: Duration = Duration::from_millis(50);
/// Longest shutdown in good order. With the second way, and the wait for the gate, it stays below the 10 s that the server has.
const STOP_WAIT_MAX: Duration = Duration::from_secs(5);
/// Longest wait for a shutdown without good order, which writes nothing.
const CUT_SHORT_WAIT_MAX: Duration = Duration::from_secs(2);
/// Longest wait for the socket of a cluster that says it is ready.
const SOCKET_WAIT_MAX: Duration = Duration::from_secs(5);

/// What PostgreSQL says when children of a killed postmaster still have its memory.
const ORPHANS_MESSAGE: &str = "pre-existing shared memory block";
/// The file of our settings, in the cluster.
const SETTINGS_FILE: &str = "boxoffice.conf";

/// Runs its arguments without the descriptors that we were started with, such as the pipes of a test harness: PostgreSQL outlives
/// us, and would keep them open. Beyond 9 a plain shell can name none; what this process opens itself is closed by `exec` anyway.
const WITHOUT_DESCRIPTORS: &str = r#"exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; exec "$@""#;

/// A cluster that exists.
#[derive(Debug)]
pub(super) struct Cluster {
    data_dir: PathBuf,
    path: PathBuf,
    major: u32,
    account: Account,
    log: Log,
}

/// How a stop went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// In good order.
    InOrder,
    /// Not in time, so without good order: the next start recovers.
    CutShort,
    /// It did not run.
    NotRunning,
    /// It runs where this process cannot reach it, as in another container.
    OutOfReach,
}

impl Cluster {
    /// The cluster of a data directory, made if there is none.
    pub(super) fn find_or_make(data_dir: &Path) -> Result<Self, LocalDatabaseError> {
        place::clear_unfinished(data_dir);
        let log = Log::of(data_dir);
        let path = match place::existing(data_dir)? {
            Some(path) => path,
            None => make(data_dir, &log)?,
        };
        let account = Account::of_cluster(&path)?;
        let major = read_major(&path)?;
        Ok(Self { data_dir: data_dir.to_owned(), path, major, account, log })
    }

    /// The data directory that it belongs to.
    pub(super) fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What it is doing.
    pub(super) fn state(&self) -> State {
        match postmaster::state(&self.path, &self.mark()) {
            // Seen from another container its process is not there, and its socket is.
            State::Crashed if answers(&self.address()) => State::Running,
            state => state,
        }
    }

    /// Keeps the log small.
    pub(super) fn trim_log(&self) {
        if let Err(error) = self.log.trim() {
            tracing::warn!(%error, log = %self.log.path().display(), "PostgreSQL's log could not be cut");
        }
    }

    /// Starts it unless it runs, and waits until it takes connections; whether it was started here.
    pub(super) fn ensure_running(&self) -> Result<bool, LocalDatabaseError> {
        let begin = Instant::now();
        loop {
            match self.state() {
                State::Running => return Ok(false),
                State::Stopped | State::Crashed => break,
                State::Unclear if begin.elapsed() >= UNCLEAR_WAIT_MAX => break,
                State::Starting if begin.elapsed() >= START_WAIT_MAX => return Err(self.still_starting()),
                State::Stopping if begin.elapsed() >= STOPPING_WAIT_MAX => return Err(self.still_stopping(STOPPING_WAIT_MAX)),
                State::Unclear | State::Starting | State::Stopping => thread::sleep(STATE_POLL),
            }
        }
        self.start()?;
        Ok(true)
    }

    /// Where it can be connected to, once it can; it is not waited for if it died meanwhile.
    pub(super) fn reach(&self) -> Result<Address, LocalDatabaseError> {
        // Its own word first: an earlier version may have put the socket elsewhere.
        let said = postmaster::read(&self.path).ok().flatten().and_then(|file| file.address);
        let address = said.unwrap_or_else(|| self.address());
        let deadline = Instant::now() + SOCKET_WAIT_MAX;
        while !answers(&address) {
            if Instant::now() >= deadline || self.state() == State::Crashed {
                return Err(LocalDatabaseError::Silent { cluster: self.path.clone(), socket: address.path() });
            }
            thread::sleep(STATE_POLL);
        }
        Ok(address)
    }

    fn start(&self) -> Result<(), LocalDatabaseError> {
        let programs = Programs::find(&self.account, Some((&self.path, self.major)))?;
        if !self.account.can_enter(&self.path)? {
            return Err(LocalDatabaseError::Unreachable { path: self.path.clone(), user: self.account.name().to_owned() });
        }
        self.trim_log();
        self.clear_stale_locks()?;
        self.address().prepare(&self.path, &self.account)?;
        self.write_settings()?;
        self.start_past_orphans(&programs)?;
        tracing::info!("PostgreSQL {} runs in {}", programs.major(), self.path.display());
        Ok(())
    }

    fn start_past_orphans(&self, programs: &Programs) -> Result<(), LocalDatabaseError> {
        let deadline = Instant::now() + ORPHANS_WAIT_MAX;
        loop {
            let Err(error) = self.pg_ctl_start(programs) else {
                return Ok(());
            };
            let orphans = matches!(&error, LocalDatabaseError::Program { tail, .. } if tail.contains(ORPHANS_MESSAGE));
            match self.state() {
                // Somebody's pg_ctl was faster.
                State::Running => return Ok(()),
                State::Starting => return Err(self.still_starting()),
                _ if orphans && Instant::now() < deadline => thread::sleep(ORPHANS_POLL),
                _ => return Err(error),
            }
        }
    }

    fn pg_ctl_start(&self, programs: &Programs) -> Result<(), LocalDatabaseError> {
        let mut start = self.account.command(Path::new("/bin/sh"));
        start.args(["-c", WITHOUT_DESCRIPTORS, "sh"]).arg(programs.path("pg_ctl")).args(["start", "-s", "-w"]);
        // The mark tells this cluster's processes from others', in `ps` and to `postmaster::process`.
        start.args(["-o", &format!("-c cluster_name={}", self.mark())]);
        self.point_at_cluster(&mut start, START_WAIT_MAX);
        run_logged(&mut start, "pg_ctl start", START_WAIT_MAX + PG_CTL_MARGIN, &self.log)
    }

    fn pg_ctl_stop(&self, programs: &Programs, mode: &str, wait_max: Duration) -> Result<(), LocalDatabaseError> {
        let mut stop = self.account.command(&programs.path("pg_ctl"));
        stop.args(["stop", "-s", "-w", "-m", mode]);
        self.point_at_cluster(&mut stop, wait_max);
        run_logged(&mut stop, "pg_ctl stop", wait_max + PG_CTL_MARGIN, &self.log)
    }

    /// The cluster is named by the environment: `-D` would go through a shell, between quotes that a path may break out of.
    fn point_at_cluster(&self, pg_ctl: &mut Command, wait_max: Duration) {
        pg_ctl.args(["-t", &wait_max.as_secs().to_string()]).env("PGDATA", &self.path);
    }

    /// Stops it: in good order, or, if that takes too long, without.
    pub(super) fn stop(&self) -> Result<Stop, LocalDatabaseError> {
        match postmaster::read(&self.path).ok().flatten().map(|file| postmaster::process(file.pid, &self.path, &self.mark())) {
            Some(Process::Postmaster) => {}
            _ if answers(&self.address()) => return Ok(Stop::OutOfReach),
            _ => return Ok(Stop::NotRunning),
        }
        let programs = Programs::find(&self.account, Some((&self.path, self.major)))?;
        let stop = self.stop_running(&programs)?;
        self.address().remove(&self.path);
        Ok(stop)
    }

    fn stop_running(&self, programs: &Programs) -> Result<Stop, LocalDatabaseError> {
        if self.pg_ctl_stop(programs, "fast", STOP_WAIT_MAX).is_ok() || self.state() == State::Stopped {
            return Ok(Stop::InOrder);
        }
        tracing::warn!("PostgreSQL did not stop in {} s and is cut short; it recovers at the next start", STOP_WAIT_MAX.as_secs());
        let result = self.pg_ctl_stop(programs, "immediate", CUT_SHORT_WAIT_MAX);
        match self.state() {
            State::Stopped | State::Crashed => Ok(Stop::CutShort),
            _ => result.and(Err(self.still_stopping(STOP_WAIT_MAX + CUT_SHORT_WAIT_MAX))),
        }
    }

    /// Takes away the lock files of a dead postmaster whose process id is taken, by another process or by its own zombie:
    /// PostgreSQL asks only whether there is such a process. Its lock on the shared memory still keeps two postmasters apart.
    fn clear_stale_locks(&self) -> Result<(), LocalDatabaseError> {
        let stale = match postmaster::read(&self.path) {
            Ok(Some(file)) => {
                matches!(postmaster::process(file.pid, &self.path, &self.mark()), Process::Other | Process::Ended { zombie: true })
            }
            Ok(None) => true,
            Err(_) => false,
        };
        if !stale {
            return Ok(());
        }
        let mut socket_lock = self.address().path().into_os_string();
        socket_lock.push(".lock");
        for path in [PathBuf::from(socket_lock), self.path.join("postmaster.pid")] {
            match fs::remove_file(&path) {
                Ok(()) => tracing::info!("removed {}, which a dead PostgreSQL left", path.display()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(io_error("remove", &path)(error)),
            }
        }
        Ok(())
    }

    /// Writes the settings anew at each start, so that those of a new version apply.
    fn write_settings(&self) -> Result<(), LocalDatabaseError> {
        let (path, new) = (self.path.join(SETTINGS_FILE), self.path.join(format!("{SETTINGS_FILE}.new")));
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).map_err(io_error("make", &new))?;
        file.write_all(settings(&self.address()).as_bytes()).and_then(|()| file.sync_all()).map_err(io_error("write", &new))?;
        self.account.give_file(&file).map_err(io_error("give away", &new))?;
        fs::rename(&new, &path).map_err(io_error("rename", &new))
    }

    fn address(&self) -> Address {
        Address::of_cluster(&self.path)
    }

    fn mark(&self) -> String {
        format!("boxoffice-{}", fingerprint(&self.path))
    }

    fn still_starting(&self) -> LocalDatabaseError {
        let (cluster, log) = (self.path.clone(), self.log.path().to_owned());
        LocalDatabaseError::StillStarting { cluster, secs: START_WAIT_MAX.as_secs(), log }
    }

    fn still_stopping(&self, waited: Duration) -> LocalDatabaseError {
        LocalDatabaseError::StillStopping { cluster: self.path.clone(), secs: waited.as_secs() }
    }
}

/// Makes the cluster of a data directory, with its database, and returns its path.
fn make(data_dir: &Path, log: &Log) -> Result<PathBuf, LocalDatabaseError> {
    let account = Account::for_new_cluster()?;
    let programs = Programs::find(&account, None)?;
    tracing::info!("making a database in {}", data_dir.display());
    let site = Site::choose(data_dir, &account)?;
    match fill(&site.unfinished, &account, &programs, log) {
        Ok(()) => site.finish(),
        Err(error) => {
            site.abandon();
            Err(error)
        }
    }
}

fn fill(directory: &Path, account: &Account, programs: &Programs, log: &Log) -> Result<(), LocalDatabaseError> {
    initdb(directory, account, programs, log)?;
    create_database(directory, account, programs, log)?;
    include_settings(directory)
}

fn initdb(directory: &Path, account: &Account, programs: &Programs, log: &Log) -> Result<(), LocalDatabaseError> {
    let mut command = account.command(&programs.path("initdb"));
    command.arg("-D").arg(directory).args(["-U", NAME, "--encoding=UTF8", "--locale=C"]);
    // The directory lets nobody in but the owner and root, and nothing listens on TCP.
    command.args(["--auth-local=trust", "--auth-host=reject"]);
    run_logged(&mut command, "initdb", INITDB_WAIT_MAX, log)
}

/// With the single-user server: it needs no socket, and the cluster has its database before anyone sees it.
fn create_database(directory: &Path, account: &Account, programs: &Programs, log: &Log) -> Result<(), LocalDatabaseError> {
    const PROGRAM: &str = "postgres --single";
    let (size, file) = (log.size(), log.open()?);
    let mut command = account.command(&programs.path("postgres"));
    // Without exit_on_error a statement's failure would not show in how the program ends.
    command.args(["--single", "-c", "exit_on_error=on", "-D"]).arg(directory).arg("template1");
    let spawned = command.stdin(Stdio::piped()).stderr(file).spawn();
    let mut child = spawned.map_err(io_error("run", Path::new(command.get_program())))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If it has ended already, how it ended says more than the broken pipe.
        let _ = stdin.write_all(format!("CREATE DATABASE {NAME}\n").as_bytes());
    }
    let outcome = wait(&mut child, INITDB_WAIT_MAX).map_err(io_error("run", Path::new(command.get_program())))?;
    judge(outcome, PROGRAM, INITDB_WAIT_MAX, log, size)
}

fn include_settings(directory: &Path) -> Result<(), LocalDatabaseError> {
    let path = directory.join("postgresql.conf");
    let line = format!("\ninclude = '{SETTINGS_FILE}'   # written at every start; what follows this line prevails\n");
    let opened = OpenOptions::new().append(true).custom_flags(OFlag::O_NOFOLLOW.bits()).open(&path);
    opened.and_then(|mut file| file.write_all(line.as_bytes()).and_then(|()| file.sync_all())).map_err(io_error("write", &path))
}

fn settings(address: &Address) -> String {
    let (directories, port) = (address.setting(), address.port);
    format!(
        "# Written by boxoffice at every start. Your own settings go to the end of postgresql.conf.
listen_addresses = ''
port = {port}
unix_socket_directories = {directories}
unix_socket_permissions = 0700
max_connections = 200
# A confirmed sale is kept.
fsync = on
synchronous_commit = on
full_page_writes = on
shared_buffers = 256MB
max_wal_size = 2GB
checkpoint_timeout = 15min
# boxoffice reads the messages.
lc_messages = 'C'
timezone = 'UTC'
log_timezone = 'UTC'
log_destination = 'stderr'
logging_collector = off
"
    )
}

fn read_major(cluster: &Path) -> Result<u32, LocalDatabaseError> {
    let file = cluster.join("PG_VERSION");
    let not_a_cluster = |reason: String| LocalDatabaseError::NotACluster { path: cluster.to_owned(), reason };
    let text = fs::read_to_string(&file).map_err(|error| not_a_cluster(format!("PG_VERSION: {error}")))?;
    major_of_cluster(&text).ok_or_else(|| not_a_cluster("PG_VERSION has no version in it".to_owned()))
}

/// Runs a program that writes to the log, and puts the end of what it wrote there into the error if it fails. The log is all that
/// it has of us: PostgreSQL, which outlives it, would keep a pipe open and whoever reads from that waiting.
fn run_logged(command: &mut Command, program: &str, wait_max: Duration, log: &Log) -> Result<(), LocalDatabaseError> {
    let (size, file) = (log.size(), log.open()?);
    let stderr = file.try_clone().map_err(io_error("open", log.path()))?;
    let outcome = run(command.stdout(file).stderr(stderr), wait_max).map_err(io_error("run", Path::new(command.get_program())))?;
    judge(outcome, program, wait_max, log, size)
}

fn judge(outcome: Option<ExitStatus>, program: &str, wait_max: Duration, log: &Log, from: u64) -> Result<(), LocalDatabaseError> {
    let outcome = match outcome {
        Some(status) if status.success() => return Ok(()),
        Some(status) => status.to_string(),
        None => format!("it took longer than {} s", wait_max.as_secs()),
    };
    Err(LocalDatabaseError::Program { program: program.to_owned(), outcome, log: log.path().to_owned(), tail: log.tail(from) })
}

/// Whether something listens at a socket. A frozen PostgreSQL lets its queue fill and connections wait: that is something.
fn answers(address: &Address) -> bool {
    const ANSWER_WAIT_MAX: Duration = Duration::from_secs(1);
    let path = address.path();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(UnixStream::connect(path).is_ok()));
    receiver.recv_timeout(ANSWER_WAIT_MAX).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_durable_and_off_the_network() {
        let text = settings(&Address { directory: "/d".to_owned(), port: 5432 });
        for line in ["listen_addresses = ''", "unix_socket_directories = '\"/d\"'", "fsync = on", "synchronous_commit = on"] {
            assert!(text.lines().any(|other| other == line), "{line}");
        }
    }
}
