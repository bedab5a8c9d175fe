//! Who runs the PostgreSQL programs, and running them: never as root, never at the terminal, never without an end.

use std::{
    env,
    fs::{self, File},
    io::{self, Read},
    os::unix::{
        fs::{MetadataExt, fchown, lchown},
        process::CommandExt,
    },
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::{Pid, Uid, User, geteuid},
};

use super::error::{LocalDatabaseError, io_error};

/// Longest wait for a program that only looks at something; it takes milliseconds.
const LOOK_WAIT_MAX: Duration = Duration::from_secs(5);
/// Pause between two looks whether a program has ended.
const POLL: Duration = Duration::from_millis(10);

/// What the programs may need of our environment: where other programs and libraries are.
const KEPT_VARIABLES: [&str; 4] = ["PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"];

/// The operating-system user that PostgreSQL runs as.
#[derive(Clone, Debug)]
pub(super) struct Account {
    uid: u32,
    gid: u32,
    name: String,
    /// Whether this process is root, and so has to become that user.
    switch: bool,
}

impl Account {
    /// For a cluster that is still to be made: this process's user, or in root's place `postgres` or `nobody`.
    pub(super) fn for_new_cluster() -> Result<Self, LocalDatabaseError> {
        let me = geteuid();
        if !me.is_root() {
            return Ok(Self { uid: me.as_raw(), gid: nix::unistd::getegid().as_raw(), name: user_name(me), switch: false });
        }
        let found = ["postgres", "nobody"].into_iter().find_map(|name| User::from_name(name).ok().flatten());
        let user = found.filter(|user| !user.uid.is_root()).ok_or(LocalDatabaseError::NoUser)?;
        Ok(Self { uid: user.uid.as_raw(), gid: user.gid.as_raw(), name: user.name, switch: true })
    }

    /// For a cluster that is there: its owner, whom only root and the owner itself can be.
    pub(super) fn of_cluster(cluster: &Path) -> Result<Self, LocalDatabaseError> {
        let metadata = fs::metadata(cluster).map_err(io_error("look at", cluster))?;
        let (me, owner) = (geteuid(), Uid::from_raw(metadata.uid()));
        if owner.is_root() {
            let user = Self::for_new_cluster()?.name;
            return Err(LocalDatabaseError::OwnedByRoot { cluster: cluster.to_owned(), user });
        }
        if me != owner && !me.is_root() {
            return Err(LocalDatabaseError::Owner { cluster: cluster.to_owned(), owner: user_name(owner), user: user_name(me) });
        }
        let gid = User::from_uid(owner).ok().flatten().map_or(metadata.gid(), |user| user.gid.as_raw());
        Ok(Self { uid: owner.as_raw(), gid, name: user_name(owner), switch: me.is_root() })
    }

    /// Its name, for messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Its number.
    pub(super) fn uid(&self) -> u32 {
        self.uid
    }

    /// Gives it a file or directory that this process just made.
    pub(super) fn give(&self, path: &Path) -> Result<(), LocalDatabaseError> {
        if self.switch { lchown(path, Some(self.uid), Some(self.gid)).map_err(io_error("give away", path)) } else { Ok(()) }
    }

    /// Gives it an open file: in a directory that is not root's, the name may be another file's by now.
    pub(super) fn give_file(&self, file: &File) -> io::Result<()> {
        if self.switch { fchown(file, Some(self.uid), Some(self.gid)) } else { Ok(()) }
    }

    /// Whether it can get to a directory. Tried rather than computed: modes are only one of the things that decide.
    pub(super) fn can_enter(&self, directory: &Path) -> Result<bool, LocalDatabaseError> {
        if !self.switch {
            return Ok(true);
        }
        let mut test = self.command(Path::new("/bin/sh"));
        test.args(["-c", "test -x \"$1\" && test -r \"$1\"", "sh"]).arg(directory);
        Ok(run(&mut test, LOOK_WAIT_MAX).map_err(io_error("run", Path::new("/bin/sh")))?.is_some_and(|status| status.success()))
    }

    /// A command that runs as this user, out of reach of the terminal's Ctrl-C, saying and hearing nothing unless told otherwise.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        // The user may not be allowed into the directory we are in.
        command.current_dir("/").process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // PGDATA and its like are meant for other clusters, and our secrets not for another user. LC_ALL: messages are read by us.
        command.env_clear().env("LC_ALL", "C");
        command.envs(KEPT_VARIABLES.iter().filter_map(|name| Some((name, env::var_os(name)?))));
        if self.switch {
            command.uid(self.uid).gid(self.gid);
        }
        command
    }

    /// What a program that only looks at something prints; nothing if it fails.
    pub(super) fn ask(&self, program: &Path, argument: &str) -> Option<String> {
        ask(self.command(program).arg(argument))
    }
}

/// What a command prints (a line or so, which fits into a pipe) that only looks at something; nothing if it fails.
pub(super) fn ask(command: &mut Command) -> Option<String> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0).spawn().ok()?;
    let status = wait(&mut child, LOOK_WAIT_MAX).ok().flatten()?;
    let mut output = String::new();
    child.stdout.take()?.read_to_string(&mut output).ok()?;
    status.success().then(|| output.trim().to_owned())
}

/// Runs a command to its end; `None` if it took longer than `wait_max` and was ended, with all that it started in its group.
pub(super) fn run(command: &mut Command, wait_max: Duration) -> io::Result<Option<ExitStatus>> {
    wait(&mut command.spawn()?, wait_max)
}

/// Waits for a child of [`Account::command`]; `None` if it took longer than `wait_max` and was ended.
pub(super) fn wait(child: &mut Child, wait_max: Duration) -> io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + wait_max;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            if let Ok(group) = i32::try_from(child.id()) {
                let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
            }
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(POLL);
    }
}

fn user_name(uid: Uid) -> String {
    User::from_uid(uid).ok().flatten().map_or_else(|| format!("user {uid}"), |user| user.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_takes_too_long_is_ended() {
        let account = Account { uid: 0, gid: 0, name: String::new(), switch: false };
        let mut sleep = account.command(Path::new("/bin/sleep"));
        assert!(matches!(run(sleep.arg("60"), Duration::from_millis(50)), Ok(None)));
    }

    #[test]
    fn an_answer_is_what_was_printed() {
        let account = Account { uid: 0, gid: 0, name: String::new(), switch: false };
        assert_eq!(account.ask(Path::new("/bin/echo"), "15").as_deref(), Some("15"));
        assert_eq!(account.ask(Path::new("/nowhere"), "15"), None);
    }
}
