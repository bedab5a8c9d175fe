//! The real binary, as a process that can be killed.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, ExitStatus, Stdio},
};

use super::http::Client;

/// A running `boxoffice serve` or `boxoffice work`.
pub struct Process {
    child: Child,
    pub base: String,
}

impl Process {
    /// Starts `boxoffice serve` with these further arguments, on a free port, and waits until it says that it is ready.
    pub fn serve(arguments: &[&str]) -> Self {
        let mut child = Self::command()
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let base = loop {
            let line = lines.next().expect("the server ended before it was ready").unwrap();
            if let Some(address) = line.strip_prefix("boxoffice is ready: ") {
                break address.to_owned();
            }
        };
        // The rest of its output must go somewhere, or it would stop when the pipe is full.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, base }
    }

    /// Starts `boxoffice work` with these further arguments.
    pub fn work(arguments: &[&str]) -> Self {
        let mut command = Self::command();
        command.arg("work").args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        Self { child: command.spawn().expect("the binary starts"), base: String::new() }
    }

    /// The binary, without the variables of whoever runs the tests.
    pub fn command() -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_boxoffice"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("BOXOFFICE_") || name == "DATABASE_URL") {
            command.env_remove(name);
        }
        command
    }

    pub fn client(&self) -> Client {
        Client::new(&self.base)
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and what became of it.
    pub fn terminate(mut self) -> ExitStatus {
        signal(self.child.id(), "TERM");
        self.child.wait().unwrap()
    }
}

impl Drop for Process {
    /// A server on a shared database may go at once: nothing it confirmed depends on its end.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process that the test started.
pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap();
    assert!(status.success(), "kill -{name} {pid}");
}
