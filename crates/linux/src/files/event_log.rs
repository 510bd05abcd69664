//! [`EventLog`]: a debug log of every access to the machine: one line for each file read or written
//! and each command run, with the time, the process and the result.
//!
//! Each line is one write(2) with `O_APPEND` and is not buffered. So a kill loses nothing, and the
//! lines of several processes do not mix.

use crate::error::{Error, ErrorCause, Operation, Result, errno_name};
use crate::files::regular::open_regular;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The maximum number of characters of a value in one line.
const VALUE_CHARS_MAX: usize = 200;

/// A log, open for appending.
#[derive(Debug, Clone)]
pub struct EventLog {
    file: Arc<File>,
    /// Its absolute path.
    path: Arc<Path>,
}

impl EventLog {
    /// Opens the log for appending; creates it if it does not exist.
    ///
    /// # Errors
    /// The file system's error, or it is not a regular file.
    pub fn open(path: &Path) -> Result<EventLog> {
        let mut options = OpenOptions::new();
        let file = open_regular(path, options.append(true).create(true).mode(0o600))
            .map_err(|e| Error::open(Operation::Write, &path.display().to_string(), e))?;
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Ok(EventLog { file: Arc::new(file), path: path.into() })
    }

    /// Its absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line about this process itself.
    pub fn note(&self, event: &str, text: &str) {
        self.add(&format!("{event} {}", text.escape_debug()));
    }

    /// Adds a line about an access, with the value that was written and the result.
    pub fn access<T>(&self, verb: Operation, path: &str, value: Option<&str>, answer: &Result<T>) {
        let mut line = format!("{} {path}", verb.word());
        if let Some(value) = value {
            let shown: String = value.chars().take(VALUE_CHARS_MAX).collect();
            line.push_str(&format!(" {shown:?}"));
        }
        match answer {
            Ok(_) => line.push_str(": ok"),
            Err(error) => line.push_str(&format!(": {}", error_word(error))),
        }
        self.add(&line);
    }

    /// Adds a line about an access that does not go through a host.
    pub(crate) fn io<T>(&self, verb: Operation, what: &str, answer: &io::Result<T>) {
        let result = match answer {
            Ok(_) => "ok".to_owned(),
            Err(error) => error.raw_os_error().map_or_else(|| error.to_string(), errno_name),
        };
        self.add(&format!("{} {what}: {result}", verb.word()));
    }

    fn add(&self, event: &str) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let pid = std::process::id();
        let line = format!("{}.{:06} {pid} {event}\n", now.as_secs(), now.subsec_micros());
        // A full disk must not stop the program.
        let _ = (&*self.file).write_all(line.as_bytes());
    }
}

/// The name of the error number, or the reason.
fn error_word(error: &Error) -> String {
    match (&error.cause, error.errno()) {
        (ErrorCause::Io(_), Some(errno)) => errno_name(errno),
        _ => error.reason().replace('\n', " "),
    }
}

/// Writes an access to the log, if there is one, and returns its result.
pub(crate) fn log_result<T>(
    log: Option<&EventLog>,
    verb: Operation,
    path: &str,
    value: Option<&str>,
    answer: Result<T>,
) -> Result<T> {
    if let Some(log) = log {
        log.access(verb, path, value, &answer);
    }
    answer
}
