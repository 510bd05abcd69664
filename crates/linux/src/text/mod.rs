//! Parsers of kernel text: text in, value out, nothing read. A parser never panics and never
//! returns a wrong number: what it does not understand is an error with the line.

pub mod cmdline;
pub mod cpuinfo;
pub mod gzip;
pub mod interrupts;
pub mod kallsyms;
pub mod kconfig;
pub mod kernel_image;
pub mod kernel_version;
pub mod kmsg;
pub mod mounts;
pub mod schedstat;
pub mod size;
pub mod softirqs;
pub mod stat;
pub mod timer_list;
pub mod trace_format;

use std::fmt;

/// Why a kernel text is not what its format says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextError {
    /// Line in the text, from 1; 0 when the text as a whole is wrong.
    pub line: usize,
    /// What was expected there.
    pub wanted: &'static str,
    /// What was there instead, shortened.
    pub found: String,
}

impl TextError {
    pub(crate) fn new(line: usize, wanted: &'static str, found: &str) -> TextError {
        TextError { line, wanted, found: found.chars().take(60).collect() }
    }

    /// The same as an error about a file.
    #[must_use]
    pub fn at(&self, path: &str) -> crate::Error {
        crate::Error::malformed(path, self.line, self.wanted, &self.found)
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        write!(f, "expected {}, found {:?}", self.wanted, self.found)
    }
}

impl std::error::Error for TextError {}
