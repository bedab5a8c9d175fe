//! The private PostgreSQL: made, started, shared and stopped by the boxoffice processes of one data directory.
//!
//! Two lock files order everything. Whoever holds `gate.lock` alone may look at the cluster and decide to make, start or stop
//! it. Every process that uses the cluster holds a share of `users.lock`; the one that finds nobody else's share is the last, and
//! stops it. The kernel takes both locks from a process that dies, so a `kill -9` leaves nothing to clean up: at most a cluster
//! that still runs, which the next process joins.
//!
//! ```text
//! DATA_DIR/gate.lock      held while looking and deciding
//!          users.lock     shared by those who use the cluster
//!          postgres.log   what PostgreSQL and its programs say
//!          postgres/      the cluster, or a link to it (see `place`)
//! ```

mod account;
mod cluster;
mod error;
mod locks;
mod log;
mod place;
mod postmaster;
mod programs;
mod socket;

use std::{path::Path, time::Duration};

use cluster::{Cluster, Stop};
use locks::{Gate, Share};
use postmaster::State;
use socket::Address;

pub use error::LocalDatabaseError;

/// The superuser of the cluster, and the name of the database that every cluster has from the start.
const NAME: &str = "boxoffice";
/// Longest wait for the gate. Whoever holds it makes a cluster (seconds), or lets it recover from a crash (minutes at worst), and
/// the process that waits should find it ready rather than give up first.
const GATE_WAIT_MAX: Duration = Duration::from_secs(180);
/// Longest wait for the gate when closing: the whole server has 10 s to end, and most of them are PostgreSQL's. Whoever has the
/// gate is there to use the cluster, or to find that it is the last.
const CLOSING_GATE_WAIT_MAX: Duration = Duration::from_secs(1);

/// A process's share in the cluster below a data directory. Dropping it closes it, and logs what failed.
#[derive(Debug)]
pub struct LocalDatabase {
    cluster: Cluster,
    share: Option<Share>,
    address: Address,
    started_here: bool,
}

/// What [`LocalDatabase::check`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// PostgreSQL runs.
    Running,
    /// It was shut down in good order: someone meant it, so it is left alone. Opening again starts it.
    StoppedOnPurpose,
    /// It had crashed, and was started again: what was committed is there, connections from before are broken.
    Restarted,
}

/// What [`LocalDatabase::close`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// Another process uses the cluster, which runs on.
    LeftRunning,
    /// This process was the last one, and stopped the cluster in good order.
    Stopped,
    /// The last one, and the cluster took too long to stop in good order: it was cut short, and recovers at the next start.
    CutShort,
    /// The cluster was not running any more.
    WasStopped,
}

impl LocalDatabase {
    /// Takes a share in the cluster below `data_dir`: makes it if there is none, starts it if it is down, joins it if it runs.
    /// Blocks for as long as that takes: a few seconds to make one, milliseconds to join, minutes at worst after a crash.
    ///
    /// # Errors
    /// [`LocalDatabaseError`], which says what to do. An existing cluster is never deleted.
    pub fn open(data_dir: &Path) -> Result<Self, LocalDatabaseError> {
        let data_dir = place::data_dir(data_dir)?;
        let gate = Gate::enter(&data_dir, GATE_WAIT_MAX)?;
        let cluster = Cluster::find_or_make(&data_dir)?;
        let mut started_here = cluster.ensure_running()?;
        let address = match cluster.reach() {
            // It was being killed when it was looked at, and was not dead yet.
            Err(LocalDatabaseError::Silent { .. }) if cluster.state() == State::Crashed => {
                started_here = cluster.ensure_running()?;
                cluster.reach()?
            }
            reached => reached?,
        };
        let share = Share::take(&data_dir)?;
        drop(gate);
        Ok(Self { cluster, share: Some(share), address, started_here })
    }

    /// How to connect to `database`: a libpq `key='value'` string, over the Unix socket, as the superuser `boxoffice`.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        self.address.connection_string(NAME, database)
    }

    /// Whether [`Self::open`] started the cluster, rather than join one that ran.
    #[must_use]
    pub fn started_here(&self) -> bool {
        self.started_here
    }

    /// Looks whether PostgreSQL runs (well below a millisecond if it does), and starts it again if it crashed (seconds, blocking). To be
    /// called every now and then by whoever needs the database to stay.
    ///
    /// # Errors
    /// [`LocalDatabaseError`] if it had crashed and could not be started; the next call tries again.
    pub fn check(&self) -> Result<Health, LocalDatabaseError> {
        self.cluster.trim_log();
        match self.cluster.state() {
            State::Stopped => Ok(Health::StoppedOnPurpose),
            State::Unclear | State::Starting | State::Running | State::Stopping => Ok(Health::Running),
            State::Crashed => self.restart(),
        }
    }

    /// Looks again under the gate: of several processes that saw the crash, one starts it and the others find it running.
    fn restart(&self) -> Result<Health, LocalDatabaseError> {
        let _gate = Gate::enter(self.cluster.data_dir(), GATE_WAIT_MAX)?;
        match self.cluster.state() {
            State::Stopped => Ok(Health::StoppedOnPurpose),
            State::Unclear | State::Starting | State::Running | State::Stopping => Ok(Health::Running),
            State::Crashed => {
                tracing::warn!(cluster = %self.cluster.path().display(), "PostgreSQL crashed, and is started again");
                self.cluster.ensure_running()?;
                self.cluster.reach()?;
                Ok(Health::Restarted)
            }
        }
    }

    /// Gives the share back; the last one to do so stops the cluster. Takes 9 s at most, and mostly far below one.
    ///
    /// # Errors
    /// [`LocalDatabaseError`] if the cluster could not be stopped. The share is given back all the same.
    pub fn close(mut self) -> Result<Closed, LocalDatabaseError> {
        self.leave()
    }

    fn leave(&mut self) -> Result<Closed, LocalDatabaseError> {
        let Some(share) = self.share.take() else {
            return Ok(Closed::LeftRunning);
        };
        let gate = match Gate::enter(self.cluster.data_dir(), CLOSING_GATE_WAIT_MAX) {
            Ok(gate) => gate,
            Err(LocalDatabaseError::GateBusy { .. }) => return Ok(Closed::LeftRunning),
            Err(error) => return Err(error),
        };
        let Some(_last) = share.give_back()? else {
            return Ok(Closed::LeftRunning);
        };
        let stopped = self.cluster.stop()?;
        drop(gate);
        Ok(match stopped {
            Stop::InOrder => Closed::Stopped,
            Stop::CutShort => Closed::CutShort,
            Stop::NotRunning => Closed::WasStopped,
            Stop::OutOfReach => Closed::LeftRunning,
        })
    }
}

impl Drop for LocalDatabase {
    fn drop(&mut self) {
        if let Err(error) = self.leave() {
            tracing::warn!(%error, "the local database could not be closed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_can_be_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<LocalDatabase>();
    }
}
