//! What can go wrong with the local database. Every message says what to do.

use std::{
    io,
    path::{Path, PathBuf},
};

/// Why the local database could not be found, made, started, joined or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalDatabaseError {
    /// There is no PostgreSQL on the machine.
    #[error(
        "no PostgreSQL programs (initdb, postgres, pg_ctl) were found; install them with: {install} \
         (or name their directory in PG_BIN, or use a database elsewhere with --database-url)"
    )]
    NoPrograms {
        /// One line for a shell.
        install: String,
    },
    /// `PG_BIN` is set, and wrong.
    #[error(
        "PG_BIN is {}, where {user} can run no PostgreSQL programs (initdb, postgres, pg_ctl); correct it, or unset \
         it",
        dir.display()
    )]
    PgBin {
        /// What `PG_BIN` says.
        dir: PathBuf,
        /// Who tried to run them.
        user: String,
    },
    /// The cluster is of another major version than every set of programs.
    #[error(
        "the database in {} was made by PostgreSQL {wanted}, and the programs found are of version {found}; install PostgreSQL \
         {wanted} beside them, or name its programs' directory in PG_BIN",
        cluster.display()
    )]
    Version {
        /// Where the cluster is.
        cluster: PathBuf,
        /// Its major version.
        wanted: u32,
        /// The versions that were found, for people.
        found: String,
    },
    /// Something else is where the cluster should be.
    #[error("{} exists and is not a PostgreSQL cluster ({reason}); move it away, and a new one is made there", path.display())]
    NotACluster {
        /// Where the cluster should be.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The link to the cluster leads nowhere.
    #[error(
        "{} leads to {}, which is gone; bring it back, or remove the link to begin with an empty database",
        link.display(), target.display()
    )]
    Gone {
        /// The link in the data directory.
        link: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// The cluster belongs to somebody else.
    #[error("the database in {} belongs to {owner}, and this is {user}; run as {owner}, or use another --data-dir", cluster.display())]
    Owner {
        /// Where the cluster is.
        cluster: PathBuf,
        /// Whom it belongs to.
        owner: String,
        /// Who runs this process.
        user: String,
    },
    /// The cluster belongs to root, as whom PostgreSQL refuses to run.
    #[error(
        "the database in {} belongs to root, and PostgreSQL refuses to run as root; give it away: chown -R {user} \
         {}",
        cluster.display(), cluster.display()
    )]
    OwnedByRoot {
        /// Where the cluster is.
        cluster: PathBuf,
        /// Who would do.
        user: String,
    },
    /// Nobody to run PostgreSQL as.
    #[error("PostgreSQL refuses to run as root, and the machine has neither a user postgres nor nobody; run boxoffice as another user")]
    NoUser,
    /// The user that PostgreSQL runs as cannot get there.
    #[error("PostgreSQL runs as {user}, who cannot get to {}; let {user} pass (chmod o+x) every directory above it", path.display())]
    Unreachable {
        /// Where it cannot get.
        path: PathBuf,
        /// Who cannot.
        user: String,
    },
    /// The gate stayed shut.
    #[error(
        "another boxoffice process has been starting or stopping the database in {} for {secs} s; wait, or end it, and \
         try again",
        data_dir.display()
    )]
    GateBusy {
        /// The data directory.
        data_dir: PathBuf,
        /// How long was waited.
        secs: u64,
    },
    /// The directory for the socket cannot be used.
    #[error(
        "the directory {} for PostgreSQL's socket cannot be used: {reason}; remove it, or use a --data-dir with a shorter path",
        path.display()
    )]
    SocketDir {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// PostgreSQL runs, and its socket does not answer.
    #[error(
        "PostgreSQL runs in {} and does not answer at {}; stop it by hand (as its owner: pg_ctl stop -D {}), and try again",
        cluster.display(), socket.display(), cluster.display()
    )]
    Silent {
        /// Where the cluster is.
        cluster: PathBuf,
        /// The socket.
        socket: PathBuf,
    },
    /// A program failed.
    #[error("{program} failed ({outcome}); the whole log is {}, and ends:\n{tail}", log.display())]
    Program {
        /// Which.
        program: String,
        /// How it ended.
        outcome: String,
        /// PostgreSQL's log.
        log: PathBuf,
        /// Its last lines.
        tail: String,
    },
    /// It starts, and is not done yet.
    #[error(
        "PostgreSQL in {} is still starting after {secs} s (recovering from a crash?), and goes on; try again in a \
         while, and see {}",
        cluster.display(), log.display()
    )]
    StillStarting {
        /// Where the cluster is.
        cluster: PathBuf,
        /// How long was waited.
        secs: u64,
        /// PostgreSQL's log.
        log: PathBuf,
    },
    /// It stops, and is not done yet.
    #[error(
        "PostgreSQL in {} is still shutting down after {secs} s, perhaps for a client that stays connected; end those, \
         and try again",
        cluster.display()
    )]
    StillStopping {
        /// Where the cluster is.
        cluster: PathBuf,
        /// How long was waited.
        secs: u64,
    },
    /// The operating system refused something.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// For `map_err`: names what was tried, and with what.
pub(super) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LocalDatabaseError {
    let path = path.to_owned();
    move |source| LocalDatabaseError::Io { action, path, source }
}
