//! A data directory of a test's own, with a private database in it.

use std::{
    fs::{self, Permissions},
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, ChildStdin, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use diesel::{Connection, PgConnection};
use serde_json::json;
use tempfile::TempDir;

use crate::support::{Client, Process, signal};

/// The directory; at the end of the test its cluster is stopped and removed, whatever the test left running.
pub struct DataDir {
    directory: TempDir,
}

impl DataDir {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // For root's sake, who runs PostgreSQL as somebody else: then the cluster is in here, too.
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        Self { directory }
    }

    fn path(&self) -> &str {
        self.directory.path().to_str().unwrap()
    }

    fn cluster(&self) -> PathBuf {
        self.directory.path().join("postgres")
    }

    /// A server on it.
    pub fn serve(&self, arguments: &[&str]) -> Process {
        Process::serve(&[&["--data-dir", self.path()], arguments].concat())
    }

    /// Runs a command on it, to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        Process::command().args(["--data-dir", self.path()]).args(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// A key of a new partner, as `boxoffice partner create` prints it: alone on the last line.
    pub fn partner_key(&self, name: &str) -> String {
        let output = self.run(&["partner", "create", name, "--scope", "read,sell,admin"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().last().unwrap().to_owned()
    }

    /// The database held by a process of its own, started if it does not run.
    pub fn hold(&self) -> Holder {
        let mut command = Process::command();
        command.args(["database", "--data-dir", self.path()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Holder { input: child.stdin.take(), child, url: url.trim().to_owned() }
    }

    /// The process id of the postmaster, if one runs.
    pub fn postmaster(&self) -> Option<u32> {
        let file = fs::read_to_string(self.cluster().join("postmaster.pid")).ok()?;
        let pid = file.lines().next()?.trim().parse().ok()?;
        is_alive(pid).then_some(pid)
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        if let Some(pid) = self.postmaster() {
            signal(pid, "QUIT");
            let deadline = Instant::now() + Duration::from_secs(10);
            while is_alive(pid) && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(10));
            }
        }
        // If it is elsewhere, there is a link to it.
        if let Ok(cluster) = fs::canonicalize(self.cluster()) {
            let _ = fs::remove_dir_all(cluster);
        }
    }
}

/// `boxoffice database`, until it is dropped.
pub struct Holder {
    input: Option<ChildStdin>,
    child: Child,
    url: String,
}

impl Holder {
    pub fn connect(&self) -> PgConnection {
        PgConnection::establish(&self.url).unwrap()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// Whether a process runs; one that has ended and was not waited for does not.
pub fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X'])))
}

/// Puts a gala with `quantity` standard tickets on sale.
pub fn put_gala_on_sale(client: &Client, quantity: i64) {
    let calls = [
        ("/api/v1/events", json!({"slug": "gala", "name": "Gala", "currency": "EUR"})),
        ("/api/v1/events/gala/ticket-types", json!({"code": "standard", "price_minor": 4_500})),
        ("/api/v1/events/gala/inventory", json!({"ticket_type": "standard", "quantity": quantity})),
    ];
    for (path, body) in calls {
        let made = client.post(path, &body);
        assert_eq!(made.status, 201, "{made:?}");
    }
}
