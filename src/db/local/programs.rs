//! Where the PostgreSQL programs are.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use nix::unistd::geteuid;

use super::{account::Account, error::LocalDatabaseError};

/// What a directory must have to be of use.
const NEEDED: [&str; 3] = ["initdb", "postgres", "pg_ctl"];
/// Directories that hold one directory a version: (directory, what a version's name begins with).
const VERSIONED: [(&str, &str); 3] = [("/usr/lib/postgresql", ""), ("/opt/homebrew/opt", "postgresql@"), ("/usr/local/opt", "postgresql@")];
/// Directories that may hold the programs themselves.
const PLAIN: [&str; 2] = ["/opt/homebrew/bin", "/usr/local/bin"];
/// How to install PostgreSQL, by the package manager that is there.
const INSTALL: [(&str, &str); 6] = [
    ("/usr/bin/apt-get", "apt-get install -y postgresql"),
    ("/opt/homebrew/bin/brew", "brew install postgresql@17"),
    ("/usr/local/bin/brew", "brew install postgresql@17"),
    ("/usr/bin/dnf", "dnf install -y postgresql-server"),
    ("/sbin/apk", "apk add postgresql"),
    ("/usr/bin/pacman", "pacman -S --noconfirm postgresql"),
];

/// A directory with the PostgreSQL programs of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Programs {
    bin: PathBuf,
    major: u32,
}

impl Programs {
    /// The first programs that `account` can run and that are of the version of `cluster`, if there is one: (where, major version).
    pub(super) fn find(account: &Account, cluster: Option<(&Path, u32)>) -> Result<Self, LocalDatabaseError> {
        let mut found = Vec::new();
        let wanted = |programs: &Self| cluster.is_none_or(|(_, major)| major == programs.major);
        if let Some(dir) = env::var_os("PG_BIN").filter(|dir| !dir.is_empty()).map(PathBuf::from) {
            // What was asked for by name is not passed over in silence.
            found.push(Self::at(&dir, account).ok_or_else(|| LocalDatabaseError::PgBin { dir, user: account.name().to_owned() })?);
        }
        if let Some(programs) = found.iter().find(|programs| wanted(programs)) {
            return Ok(programs.clone());
        }
        for dir in directories(account) {
            match Self::at(&dir, account) {
                Some(programs) if wanted(&programs) => return Ok(programs),
                Some(programs) => found.push(programs),
                None => {}
            }
        }
        Err(none(&found, cluster))
    }

    fn at(dir: &Path, account: &Account) -> Option<Self> {
        if !NEEDED.iter().all(|name| dir.join(name).is_file()) {
            return None;
        }
        let major = major_of_program(&account.ask(&dir.join("postgres"), "--version")?)?;
        Some(Self { bin: dir.to_owned(), major })
    }

    /// The path of one of them.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }

    /// Their major version.
    pub(super) fn major(&self) -> u32 {
        self.major
    }
}

fn none(found: &[Programs], cluster: Option<(&Path, u32)>) -> LocalDatabaseError {
    match cluster {
        Some((cluster, wanted)) if !found.is_empty() => {
            let mut versions: Vec<u32> = found.iter().map(Programs::major).collect();
            versions.sort_unstable();
            versions.dedup();
            let found = versions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            LocalDatabaseError::Version { cluster: cluster.to_owned(), wanted, found }
        }
        _ => LocalDatabaseError::NoPrograms { install: install_line() },
    }
}

/// Where to look, in this order.
fn directories(account: &Account) -> Vec<PathBuf> {
    let path: Vec<PathBuf> = env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
    let pg_config = path.iter().map(|dir| dir.join("pg_config")).find(|program| program.is_file());
    let mut all: Vec<PathBuf> = pg_config.and_then(|program| account.ask(&program, "--bindir")).map(PathBuf::from).into_iter().collect();
    for (dir, prefix) in VERSIONED {
        let names = fs::read_dir(dir).into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
        all.extend(newest_first(names, prefix).into_iter().map(|name| Path::new(dir).join(name).join("bin")));
    }
    all.extend(PLAIN.into_iter().map(PathBuf::from));
    // Entries of PATH may be relative, and children run elsewhere.
    all.extend(path.into_iter().filter(|dir| dir.is_absolute()));
    all
}

/// The names that are `prefix` and a version, the highest first: as numbers, since 9.6 comes before 17.
fn newest_first(names: impl Iterator<Item = String>, prefix: &str) -> Vec<String> {
    let mut versions: Vec<(Vec<u32>, String)> =
        names.filter_map(|name| Some((version_numbers(name.strip_prefix(prefix)?)?, name))).collect();
    versions.sort_by(|one, other| other.cmp(one));
    versions.into_iter().map(|(_, name)| name).collect()
}

fn version_numbers(text: &str) -> Option<Vec<u32>> {
    text.split('.').map(|part| part.parse().ok()).collect()
}

/// `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)` → 15; `… 18beta1` → 18.
fn major_of_program(answer: &str) -> Option<u32> {
    leading_number(answer.split(')').nth(1)?)
}

/// The contents of a cluster's `PG_VERSION`: `15` → 15.
pub(super) fn major_of_cluster(pg_version: &str) -> Option<u32> {
    leading_number(pg_version)
}

fn leading_number(text: &str) -> Option<u32> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.get(..end)?.parse().ok()
}

/// One line that installs PostgreSQL here.
fn install_line() -> String {
    let (manager, line) = INSTALL.into_iter().find(|(manager, _)| Path::new(manager).exists()).unwrap_or(INSTALL[0]);
    if geteuid().is_root() || manager.ends_with("brew") { line.to_owned() } else { format!("sudo {line}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_numbers() {
        let names = ["9.6", "15", "common", "17", "10"].map(str::to_owned);
        assert_eq!(newest_first(names.into_iter(), ""), ["17", "15", "10", "9.6"]);
        let names = ["postgresql@9", "postgresql@14", "postgresql", "openssl@3"].map(str::to_owned);
        assert_eq!(newest_first(names.into_iter(), "postgresql@"), ["postgresql@14", "postgresql@9"]);
    }

    #[test]
    fn major_versions_are_read_from_programs_and_clusters() {
        assert_eq!(major_of_program("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"), Some(15));
        assert_eq!(major_of_program("postgres (PostgreSQL) 18beta1"), Some(18));
        assert_eq!(major_of_program("something else"), None);
        assert_eq!(major_of_cluster("15\n"), Some(15));
        assert_eq!(major_of_cluster("9.6\n"), Some(9));
        assert_eq!(major_of_cluster(""), None);
    }

    #[test]
    fn an_error_names_both_versions_or_the_line_that_installs() {
        let found = [15, 17, 15].map(|major| Programs { bin: PathBuf::new(), major });
        let error = none(&found, Some((Path::new("/d/postgres"), 16))).to_string();
        assert!(error.contains("PostgreSQL 16") && error.contains("15, 17"), "{error}");
        let error = none(&[], None).to_string();
        assert!(error.contains("install") && error.contains("PG_BIN") && error.contains("--database-url"), "{error}");
    }
}
