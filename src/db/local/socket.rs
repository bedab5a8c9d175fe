//! Where PostgreSQL's Unix socket is, and how to write its path down for PostgreSQL and for libpq.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use super::{
    account::Account,
    error::{LocalDatabaseError, io_error},
    place::fingerprint,
};

/// The number in the socket's name. Nothing listens on TCP.
pub(super) const PORT: u16 = 5432;
/// Longest path of a socket, in bytes: `sun_path` less its end.
const PATH_BYTES_MAX: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// A directory with a socket in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// UTF-8 without commas, which libpq takes for a list of hosts.
    pub(super) directory: String,
    pub(super) port: u16,
}

impl Address {
    /// The socket of a cluster: in the cluster itself, to which only its owner has access, or, if that path is none for a socket,
    /// in a directory below `/tmp` whose name every process can derive.
    pub(super) fn of_cluster(cluster: &Path) -> Self {
        let own = cluster.to_str().filter(|path| !path.contains(',') && socket_path(path, PORT).as_os_str().len() <= PATH_BYTES_MAX);
        Self { directory: own.map_or_else(|| format!("/tmp/boxoffice-{}", fingerprint(cluster)), str::to_owned), port: PORT }
    }

    /// The socket.
    pub(super) fn path(&self) -> PathBuf {
        socket_path(&self.directory, self.port)
    }

    /// The libpq connection string for a user and a database.
    pub(super) fn connection_string(&self, user: &str, database: &str) -> String {
        let Self { directory, port } = self;
        format!("host={} port={port} user={} dbname={}", quoted(directory), quoted(user), quoted(database))
    }

    /// The value of `unix_socket_directories` in a settings file.
    pub(super) fn setting(&self) -> String {
        // Once for the list that the value is, and once more for the file.
        let entry = format!("\"{}\"", self.directory.replace('"', "\"\""));
        let value = entry.replace('\\', "\\\\").replace('\'', "''").replace('\n', "\\n").replace('\r', "\\r");
        format!("'{value}'")
    }

    /// Makes the directory if it is not the cluster's own, and sees that nobody else can have put anything there.
    pub(super) fn prepare(&self, cluster: &Path, account: &Account) -> Result<(), LocalDatabaseError> {
        let path = Path::new(&self.directory);
        if path == cluster {
            return Ok(());
        }
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(io_error("make", path)(error)),
            _ => {}
        }
        // Not following links: whoever made the name first may have made it one.
        let look = || fs::symlink_metadata(path).map_err(io_error("look at", path));
        let mut metadata = look()?;
        if metadata.is_dir() && metadata.uid() == 0 {
            // Root made it: just now, or before it was killed.
            account.give(path)?;
            metadata = look()?;
        }
        let refused = |reason: String| LocalDatabaseError::SocketDir { path: path.to_owned(), reason };
        match (metadata.is_dir(), metadata.uid(), metadata.mode() & 0o777) {
            (false, _, _) => Err(refused("it is not a directory".to_owned())),
            (_, uid, _) if uid != account.uid() => Err(refused(format!("it belongs to uid {uid} instead of {}", account.name()))),
            (_, _, 0o700) => Ok(()),
            (_, _, mode) => Err(refused(format!("its mode is {mode:o} instead of 700"))),
        }
    }

    /// Takes the directory away if it is not the cluster's own. It is made again at the next start, so a failure matters to nobody.
    pub(super) fn remove(&self, cluster: &Path) {
        if Path::new(&self.directory) != cluster {
            let _ = fs::remove_dir(&self.directory);
        }
    }
}

fn socket_path(directory: &str, port: u16) -> PathBuf {
    Path::new(directory).join(format!(".s.PGSQL.{port}"))
}

/// A value in a libpq connection string.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(cluster: &str) -> String {
        Address::of_cluster(Path::new(cluster)).directory
    }

    #[test]
    fn the_socket_is_in_the_cluster_if_its_path_can_be_one() {
        assert_eq!(directory("/srv/data/postgres"), "/srv/data/postgres");
        let longest = format!("/{}", "d".repeat(PATH_BYTES_MAX - "/".len() - "/.s.PGSQL.5432".len()));
        assert_eq!(directory(&longest), longest);
        assert_eq!(Address::of_cluster(Path::new(&longest)).path().as_os_str().len(), PATH_BYTES_MAX);
    }

    #[test]
    fn the_socket_is_below_tmp_if_the_path_is_too_long_or_a_list_to_libpq() {
        let long = format!("/{}", "d".repeat(100));
        assert!(directory(&long).starts_with("/tmp/boxoffice-"));
        assert_eq!(directory(&long), directory(&long));
        assert_ne!(directory(&long), directory(&format!("{long}/postgres")));
        assert!(directory("/srv/this,that").starts_with("/tmp/boxoffice-"));
    }

    #[test]
    fn values_are_quoted_for_libpq_and_for_postgresql() {
        let address = Address { directory: r#"/it's "a" \ dir"#.to_owned(), port: 5432 };
        assert_eq!(address.connection_string("boxoffice", "a'b"), r#"host='/it\'s "a" \\ dir' port=5432 user='boxoffice' dbname='a\'b'"#);
        assert_eq!(address.setting(), r#"'"/it''s ""a"" \\ dir"'"#);
    }
}
