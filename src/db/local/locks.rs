//! The two lock files. Both are `flock`s, which the kernel drops when a process ends, however it ends.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::error::{LocalDatabaseError, io_error};

/// Pause between two tries of the gate: the standard library's blocking lock has no time limit.
const GATE_POLL: Duration = Duration::from_millis(20);
/// From this long on a wait is worth a line, lest the program seems to hang.
const GATE_PATIENCE: Duration = Duration::from_secs(3);

/// Leave to look at the cluster and to make, start or stop it; until dropped, nobody else has it.
#[derive(Debug)]
pub(super) struct Gate(File);

impl Gate {
    /// Waits for the gate, for `wait_max` at most.
    pub(super) fn enter(data_dir: &Path, wait_max: Duration) -> Result<Self, LocalDatabaseError> {
        let path = data_dir.join("gate.lock");
        let file = open(&path)?;
        let begin = Instant::now();
        let mut told = false;
        while !locked(file.try_lock(), &path)? {
            if begin.elapsed() >= wait_max {
                return Err(LocalDatabaseError::GateBusy { data_dir: data_dir.to_owned(), secs: wait_max.as_secs() });
            }
            if begin.elapsed() >= GATE_PATIENCE && !told {
                told = true;
                tracing::info!(data_dir = %data_dir.display(), "waiting for another boxoffice process that starts or stops the database");
            }
            thread::sleep(GATE_POLL);
        }
        Ok(Self(file))
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // Closing alone would not do: a child that another thread is just starting has a copy of the descriptor until its exec.
        let _ = self.0.unlock();
    }
}

/// The mark of a process that uses the cluster. Taken and given back under the gate.
#[derive(Debug)]
pub(super) struct Share {
    file: File,
    path: PathBuf,
}

/// Held by the last one to leave, for as long as it stops the cluster.
#[derive(Debug)]
pub(super) struct Last(#[expect(dead_code, reason = "open for as long as the lock is to last")] File);

impl Share {
    /// Takes a share. Under the gate it is always to be had, since only a process that leaves, under the gate, ever excludes it.
    pub(super) fn take(data_dir: &Path) -> Result<Self, LocalDatabaseError> {
        let path = data_dir.join("users.lock");
        let file = open(&path)?;
        if !locked(file.try_lock_shared(), &path)? {
            return Err(LocalDatabaseError::GateBusy { data_dir: data_dir.to_owned(), secs: 0 });
        }
        Ok(Self { file, path })
    }

    /// Gives the share back. `Some` if nobody else has one.
    pub(super) fn give_back(self) -> Result<Option<Last>, LocalDatabaseError> {
        self.file.unlock().map_err(io_error("unlock", &self.path))?;
        Ok(locked(self.file.try_lock(), &self.path)?.then_some(Last(self.file)))
    }
}

fn locked(result: Result<(), TryLockError>, path: &Path) -> Result<bool, LocalDatabaseError> {
    match result {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(source)) => Err(io_error("lock", path)(source)),
    }
}

/// Opens a lock file, made if need be. One that another user made can be locked without leave to write.
fn open(path: &Path) -> Result<File, LocalDatabaseError> {
    match OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => File::open(path),
        other => other,
    }
    .map_err(io_error("open", path))
}
