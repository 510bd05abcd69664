//! Logging of what a host accesses.

use super::Host;
use crate::error::{Operation, Result};
use crate::files::event_log::{EventLog, log_result};
use std::io;
use std::path::Path;

impl Host {
    /// The same host, which writes every access to this log from now on.
    #[must_use]
    pub fn logging(mut self, log: Option<EventLog>) -> Host {
        self.log = log;
        self
    }

    /// The absolute path of the log, for another process of this program.
    #[must_use]
    pub fn log_path(&self) -> Option<&Path> {
        self.log.as_ref().map(EventLog::path)
    }

    pub(crate) fn log_result<T>(
        &self,
        verb: Operation,
        path: &str,
        value: Option<&str>,
        answer: Result<T>,
    ) -> Result<T> {
        log_result(self.log.as_ref(), verb, path, value, answer)
    }

    /// Writes an access that does not go through this host to the log, and returns its answer.
    pub(crate) fn log_io<T>(
        &self,
        verb: Operation,
        what: &str,
        answer: io::Result<T>,
    ) -> io::Result<T> {
        if let Some(log) = &self.log {
            log.io(verb, what, &answer);
        }
        answer
    }
}
