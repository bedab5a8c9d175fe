//! PostgreSQL's log: one file in the data directory, kept small, whose end goes into error messages.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use nix::fcntl::OFlag;

use super::error::{LocalDatabaseError, io_error};

/// From this size on, in bytes, the log is moved aside; one such is kept, so the disk holds twice as much at most.
const LOG_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How much of its end is read for an error message, in bytes.
const TAIL_BYTES_MAX: u64 = 8 * 1024;
/// How many lines of it the message has.
const TAIL_LINES_MAX: usize = 15;

/// The log.
#[derive(Clone, Debug)]
pub(super) struct Log(PathBuf);

impl Log {
    /// The log of a data directory.
    pub(super) fn of(data_dir: &Path) -> Self {
        Self(data_dir.join("postgres.log"))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Opens it for a child to write to. Always appending: that is why it can be cut while PostgreSQL has it open.
    pub(super) fn open(&self) -> Result<File, LocalDatabaseError> {
        // Not following links, and for its owner alone: root may write to a directory that is not root's.
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
        options.open(&self.0).map_err(io_error("open", &self.0))
    }

    /// Its size in bytes.
    pub(super) fn size(&self) -> u64 {
        fs::metadata(&self.0).map_or(0, |metadata| metadata.len())
    }

    /// Copies it aside and empties it if it has grown too large. A line or two written in between are lost.
    pub(super) fn trim(&self) -> io::Result<()> {
        if self.size() <= LOG_BYTES_MAX {
            return Ok(());
        }
        let (copy, aside) = (self.0.with_extension("log.new"), self.0.with_extension("log.1"));
        let mut options = OpenOptions::new();
        let mut copied = options.write(true).create(true).truncate(true).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits()).open(&copy)?;
        let mut file = OpenOptions::new().read(true).write(true).custom_flags(OFlag::O_NOFOLLOW.bits()).open(&self.0)?;
        io::copy(&mut file, &mut copied)?;
        fs::rename(copy, aside)?;
        file.set_len(0)
    }

    /// The last lines that were written after it had `from` bytes.
    pub(super) fn tail(&self, from: u64) -> String {
        let read = || -> io::Result<String> {
            let mut file = File::open(&self.0)?;
            let size = file.metadata()?.len();
            file.seek(SeekFrom::Start(from.max(size.saturating_sub(TAIL_BYTES_MAX)).min(size)))?;
            let mut bytes = Vec::new();
            file.take(TAIL_BYTES_MAX).read_to_end(&mut bytes)?;
            Ok(last_lines(&String::from_utf8_lossy(&bytes), TAIL_LINES_MAX))
        };
        read().unwrap_or_else(|error| format!("(it cannot be read: {error})"))
    }
}

fn last_lines(text: &str, lines_max: usize) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.get(lines.len().saturating_sub(lines_max)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_the_last_that_say_something() {
        assert_eq!(last_lines("a\n\nb\nc\n\n", 2), "b\nc");
        assert_eq!(last_lines("a", 2), "a");
        assert_eq!(last_lines("", 2), "");
    }
}
