//! Writing many values to one kernel file, one write each, while it is opened only once.

use super::Host;
use crate::error::{Error, Operation, Result};
use crate::files::fast_read::open;
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, Write};

/// A kernel file that is opened once for many writes; see [`Host::writer`].
#[derive(Debug)]
pub struct FileWriter<'a> {
    pub(super) host: &'a Host,
    pub(super) path: &'a str,
    pub(super) file: Option<File>,
}

impl FileWriter<'_> {
    /// Writes a value, as [`Host::write`] does.
    ///
    /// # Errors
    /// The kernel's error, with the value.
    pub fn write(&mut self, value: &str) -> Result<()> {
        if !self.host.live {
            return self.host.write(self.path, value);
        }
        let path = self.path;
        let failed = |e| Error::io(Operation::Write, path, e).with_value(value);
        self.host.before_write(Operation::Write, self.path).map_err(|e| e.with_value(value))?;
        let answer = self.write_value(value).map_err(failed);
        self.host.log_result(Operation::Write, self.path, Some(value), answer)
    }

    fn write_value(&mut self, value: &str) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(open(&self.host.local_path(self.path), OFlags::WRONLY)?),
        };
        file.write_all(value.as_bytes())
    }
}
