//! Whether PostgreSQL runs: `postmaster.pid`, and whether the process named there is what it says.

use std::{fs, io, os::unix::fs::MetadataExt, path::Path, process::Command};

use nix::{errno::Errno, sys::signal::kill, unistd::Pid};

use super::{account::ask, socket::Address};

/// What a cluster is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// There is no `postmaster.pid`: never started, or shut down in good order.
    Stopped,
    /// It starts, or recovers from a crash.
    Starting,
    /// It takes connections.
    Running,
    /// It shuts down.
    Stopping,
    /// It ended without taking `postmaster.pid` away.
    Crashed,
    /// There is a `postmaster.pid` with nothing legible in it: it is just being written, or was when the power failed.
    Unclear,
}

/// What `postmaster.pid` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PidFile {
    pub(super) pid: i32,
    /// None until it listens.
    pub(super) address: Option<Address>,
    status: State,
}

/// What is at a process id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Process {
    /// No process that runs; `zombie` if its id is still taken.
    Ended { zombie: bool },
    /// Another one: the id was used again, as happens after a reboot.
    Other,
    /// The postmaster of the cluster.
    Postmaster,
}

/// Reads a cluster's `postmaster.pid`, if there is one. `Ok(None)` also for one that is just being written.
pub(super) fn read(cluster: &Path) -> io::Result<Option<PidFile>> {
    fs::read_to_string(cluster.join("postmaster.pid")).map(|text| parse(&text))
}

/// What the cluster is doing; `mark` is the `cluster_name` that it was started with.
pub(super) fn state(cluster: &Path, mark: &str) -> State {
    match read(cluster) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => State::Stopped,
        Err(_) | Ok(None) => State::Unclear,
        Ok(Some(file)) => match process(file.pid, cluster, mark) {
            Process::Postmaster => file.status,
            Process::Ended { .. } | Process::Other => State::Crashed,
        },
    }
}

/// Lines: pid, directory, start time, port, socket directory, TCP address, shared memory, status. The last come when it listens.
fn parse(text: &str) -> Option<PidFile> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    // Negative: the single-user server has it.
    let pid = lines.first()?.parse::<i32>().ok()?.checked_abs().filter(|pid| *pid > 0)?;
    let port = lines.get(3).and_then(|line| line.parse().ok());
    let directory = lines.get(4).filter(|line| line.starts_with('/')).map(|line| (*line).to_owned());
    let address = directory.zip(port).map(|(directory, port)| Address { directory, port });
    let status = match lines.get(7).copied() {
        Some("ready" | "standby") => State::Running,
        Some("stopping") => State::Stopping,
        _ => State::Starting,
    };
    Some(PidFile { pid, address, status })
}

/// Looks at what is at `pid`. In doubt it is the postmaster, since then nothing is started or taken away.
pub(super) fn process(pid: i32, cluster: &Path, mark: &str) -> Process {
    if kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH) {
        return Process::Ended { zombie: false };
    }
    // In a container whose first process reaps no orphans, a dead postmaster stays a zombie, which kill() takes for alive.
    if fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| is_zombie(&stat)) {
        return Process::Ended { zombie: true };
    }
    // A postmaster's working directory is its cluster. Compared by inode: the same directory has many paths.
    let ours = match (fs::metadata(format!("/proc/{pid}/cwd")), fs::metadata(cluster)) {
        (Ok(cwd), Ok(cluster)) => (cwd.dev(), cwd.ino()) == (cluster.dev(), cluster.ino()),
        // Not Linux, or root without the right to look at others' processes, as in a container.
        _ => command_line(pid).is_none_or(|line| may_be_postmaster(&line, mark)),
    };
    if ours { Process::Postmaster } else { Process::Other }
}

/// `pid (name) state …`, where the name may have any character in it.
fn is_zombie(stat: &str) -> bool {
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']))
}

fn command_line(pid: i32) -> Option<String> {
    if let Ok(bytes) = fs::read(format!("/proc/{pid}/cmdline")) {
        return Some(String::from_utf8_lossy(&bytes).replace('\0', " "));
    }
    ask(Command::new("ps").args(["-o", "command=", "-p", &pid.to_string()]).current_dir("/"))
}

/// The cluster's mark is in the command line if boxoffice started it; someone may have started it by hand, without.
fn may_be_postmaster(command_line: &str, mark: &str) -> bool {
    let named = command_line.contains("postgres") || command_line.contains("postmaster");
    named && (command_line.contains(mark) || !command_line.contains("cluster_name=boxoffice-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNNING: &str = "4711\n/srv/my data/postgres\n1764595000\n5432\n/srv/my data/postgres\n\n  1234567     32768\nready   \n";

    #[test]
    fn a_pid_file_says_who_where_and_what() {
        let address = Some(Address { directory: "/srv/my data/postgres".to_owned(), port: 5432 });
        assert_eq!(parse(RUNNING), Some(PidFile { pid: 4711, address, status: State::Running }));
        let status = |word| parse(&RUNNING.replace("ready", word)).map(|file| file.status);
        assert_eq!(status("stopping"), Some(State::Stopping));
        assert_eq!(status("starting"), Some(State::Starting));
    }

    #[test]
    fn a_pid_file_may_be_short_or_empty_or_of_a_single_user_server() {
        assert_eq!(parse("4711\n/srv\n1764595000\n"), Some(PidFile { pid: 4711, address: None, status: State::Starting }));
        assert_eq!(parse("-4711\n/srv\n").map(|file| file.pid), Some(4711));
        assert_eq!(parse(""), None);
        assert_eq!(parse("0\n"), None);
    }

    #[test]
    fn zombies_are_told_by_the_field_after_the_name() {
        assert!(is_zombie("12 (a) Z b) Z 1 12"));
        assert!(!is_zombie("12 (a) Z b) S 1 12"));
    }

    #[test]
    fn a_command_line_tells_the_postmaster_from_others() {
        let mark = "boxoffice-00ff";
        assert!(may_be_postmaster("/usr/lib/postgresql/15/bin/postgres -c cluster_name=boxoffice-00ff", mark));
        assert!(may_be_postmaster("/usr/lib/postgresql/15/bin/postgres -D /srv/data", mark));
        assert!(!may_be_postmaster("/usr/lib/postgresql/15/bin/postgres -c cluster_name=boxoffice-1234", mark));
        assert!(!may_be_postmaster("nginx: master process", mark));
    }

    #[test]
    fn this_process_is_no_postmaster_and_an_unused_id_is_nobody() {
        let me = nix::unistd::getpid().as_raw();
        assert_eq!(process(me, Path::new("/var"), "boxoffice-00ff"), Process::Other);
        assert_eq!(process(i32::MAX, Path::new("/var"), "boxoffice-00ff"), Process::Ended { zombie: false });
    }
}
