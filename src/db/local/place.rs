//! Where the cluster is: `DATA_DIR/postgres`, or where that leads.
//!
//! Root runs PostgreSQL as another user, who often cannot get to the data directory (a clone in `/root`). A cluster made then is
//! kept in [`ELSEWHERE`], and `DATA_DIR/postgres` is a link to it. A cluster there is never taken over without such a link: the
//! directory that it was made for may have been moved, and still use it.

use std::{
    fs::{self, DirBuilder, File, Permissions},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
    process,
    time::{SystemTime, UNIX_EPOCH},
};

use super::{
    account::Account,
    error::{LocalDatabaseError, io_error},
};

/// Where clusters are kept that cannot be in their data directory.
const ELSEWHERE: &str = "/var/lib/boxoffice";
/// The cluster's name in the data directory.
const CLUSTER: &str = "postgres";
/// What follows the cluster's name in the name of one that is being made.
const UNFINISHED: &str = ".initdb-";
/// How many clusters one data directory may have had elsewhere, each left behind when the directory was removed.
const ELSEWHERE_MAX: u32 = 1000;

/// Makes the data directory if need be, and names it by its one true path.
pub(super) fn data_dir(path: &Path) -> Result<PathBuf, LocalDatabaseError> {
    fs::create_dir_all(path).map_err(io_error("make", path))?;
    fs::canonicalize(path).map_err(io_error("find", path))
}

/// The cluster of a data directory by its one true path, if there is one.
pub(super) fn existing(data_dir: &Path) -> Result<Option<PathBuf>, LocalDatabaseError> {
    let path = data_dir.join(CLUSTER);
    match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(io_error("look at", &path))?,
    };
    match fs::canonicalize(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let target = fs::read_link(&path).map_err(io_error("follow", &path))?;
            Err(LocalDatabaseError::Gone { link: path, target })
        }
        other => other.map(Some).map_err(io_error("find", &path)),
    }
}

/// A directory in which a cluster is made, and where it goes when it is whole: `kill -9` leaves nothing half made in its place.
pub(super) struct Site {
    /// Made, empty, and the account's.
    pub(super) unfinished: PathBuf,
    finished: PathBuf,
    link: PathBuf,
}

impl Site {
    /// Finds a place that `account` can get to.
    pub(super) fn choose(data_dir: &Path, account: &Account) -> Result<Self, LocalDatabaseError> {
        let link = data_dir.join(CLUSTER);
        let here = Self { unfinished: unfinished(&link), finished: link.clone(), link: link.clone() };
        if here.make(account)? {
            return Ok(here);
        }
        let finished = elsewhere(data_dir)?;
        let there = Self { unfinished: unfinished(&finished), finished, link };
        if there.make(account)? {
            tracing::info!(
                "PostgreSQL runs as {} here, who cannot get to {}: the database is kept in {}",
                account.name(),
                data_dir.display(),
                there.finished.display()
            );
            return Ok(there);
        }
        Err(LocalDatabaseError::Unreachable { path: there.finished, user: account.name().to_owned() })
    }

    /// Whether the account can use the directory; if not, it is taken away again.
    fn make(&self, account: &Account) -> Result<bool, LocalDatabaseError> {
        let path = &self.unfinished;
        DirBuilder::new().mode(0o700).create(path).map_err(io_error("make", path))?;
        account.give(path)?;
        let usable = account.can_enter(path)?;
        if !usable {
            fs::remove_dir(path).map_err(io_error("remove", path))?;
        }
        Ok(usable)
    }

    /// Clears the site after a failure. What cannot be removed now is at the next start.
    pub(super) fn abandon(self) {
        let _ = fs::remove_dir_all(self.unfinished);
    }

    /// Puts the finished cluster in its place, and returns that.
    pub(super) fn finish(self) -> Result<PathBuf, LocalDatabaseError> {
        fs::rename(&self.unfinished, &self.finished).map_err(io_error("rename", &self.unfinished))?;
        sync_parent(&self.finished)?;
        if self.link != self.finished {
            symlink(&self.finished, &self.link).map_err(io_error("link", &self.link))?;
            sync_parent(&self.link)?;
        }
        Ok(self.finished)
    }
}

/// Clears away what was being made when a process was killed. Under the gate, so nobody is making anything now.
pub(super) fn clear_unfinished(data_dir: &Path) {
    for (directory, name) in [(data_dir, CLUSTER.to_owned()), (Path::new(ELSEWHERE), fingerprint(data_dir))] {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let is_ours = entry.file_name().to_string_lossy().split_once(UNFINISHED).is_some_and(|(start, _)| is_cluster_of(start, &name));
            if is_ours && let Err(error) = fs::remove_dir_all(entry.path()) {
                // Perhaps an initdb that outlived its boxoffice still writes there; the next start finds it ended.
                tracing::warn!(%error, path = %entry.path().display(), "an unfinished database could not be removed");
            }
        }
    }
}

/// Whether `candidate` is `name` or `name-2`, `name-3` …
fn is_cluster_of(candidate: &str, name: &str) -> bool {
    let rest = candidate.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('-').is_some_and(|number| number.parse::<u32>().is_ok()))
}

/// A free path for a cluster elsewhere.
fn elsewhere(data_dir: &Path) -> Result<PathBuf, LocalDatabaseError> {
    let base = Path::new(ELSEWHERE);
    fs::create_dir_all(base).map_err(io_error("make", base))?;
    // Whatever the umask says: others must be able to pass.
    fs::set_permissions(base, Permissions::from_mode(0o755)).map_err(io_error("open up", base))?;
    let name = fingerprint(data_dir);
    let names = (1..=ELSEWHERE_MAX).map(|number| if number == 1 { name.clone() } else { format!("{name}-{number}") });
    for path in names.map(|name| base.join(name)) {
        if fs::symlink_metadata(&path).is_err() {
            return Ok(path);
        }
        tracing::warn!("{} is a database made for a data directory at this path before, and is left as it is", path.display());
    }
    Err(io_error("find a free name in", base)(io::Error::from(io::ErrorKind::AlreadyExists)))
}

/// A name that no other attempt has: an initdb that outlived its boxoffice may still be writing to the last one.
fn unfinished(finished: &Path) -> PathBuf {
    let moment = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let mut path = finished.as_os_str().to_owned();
    path.push(format!("{UNFINISHED}{}-{moment}", process::id()));
    PathBuf::from(path)
}

/// A directory entry survives a power failure once its directory is synced.
pub(super) fn sync_parent(path: &Path) -> Result<(), LocalDatabaseError> {
    let parent = path.parent().unwrap_or(path);
    File::open(parent).and_then(|directory| directory.sync_all()).map_err(io_error("sync", parent))
}

/// A short name for a path, the same in every process and every version: FNV-1a with 64 bits, in hexadecimal.
pub(super) fn fingerprint(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_stays_the_same_for_good() {
        assert_eq!(fingerprint(Path::new("")), "cbf29ce484222325");
        assert_eq!(fingerprint(Path::new("foobar")), "85944171f73967e8");
    }

    #[test]
    fn unfinished_clusters_are_told_from_others() {
        let path = unfinished(Path::new("/var/lib/boxoffice/00ff-2"));
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let (start, _) = name.split_once(UNFINISHED).unwrap_or_default();
        assert!(is_cluster_of(start, "00ff"));
        assert!(!is_cluster_of(start, "00fe"));
        assert!(is_cluster_of("postgres", "postgres"));
        assert!(!is_cluster_of("postgres-old", "postgres"));
    }
}
