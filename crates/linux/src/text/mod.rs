//! Parsers of kernel text and of files of other tools: text in, values out, no file access. A
//! parser never panics and never returns a wrong number: text that it does not know is an error
//! with its line.

pub mod cmdline;
pub mod cpuinfo;
pub mod dmi;
pub mod first_releases;
pub mod gzip;
pub mod interrupts;
pub mod kallsyms;
pub mod kconfig;
pub mod kernel_image;
pub mod kernel_version;
pub mod kmsg;
pub mod modinfo;
pub mod mounts;
pub mod partition;
pub mod routes;
pub mod schedstat;
pub mod size;
pub mod softirqs;
pub mod stat;
pub mod task_cgroup;
pub mod task_status;
pub mod timer_list;
pub mod trace_format;

use std::fmt;

/// Why a kernel text does not have the expected format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextError {
    /// The line in the text, from 1; 0 if the text as a whole is wrong.
    pub line: usize,
    /// What was expected.
    pub wanted: &'static str,
    /// What was found, shortened.
    pub found: String,
}

impl TextError {
    pub(crate) fn new(line: usize, wanted: &'static str, found: &str) -> TextError {
        TextError { line, wanted, found: found.chars().take(60).collect() }
    }

    /// Converts this to an error about a file.
    #[must_use]
    pub fn at(&self, path: &str) -> crate::Error {
        crate::Error::malformed(path, self.line, self.wanted, &self.found)
    }
}

/// The CPUs in the header `CPU0 CPU1 …` of a table, and the other lines with their numbers.
fn split_cpu_header(
    text: &str,
) -> Result<(Vec<usize>, impl Iterator<Item = (usize, &str)>), TextError> {
    let mut lines = (1..).zip(text.lines());
    let header = lines.next().map_or("", |(_, line)| line);
    let words = header.split_whitespace();
    let cpus: Option<Vec<usize>> = words.map(|it| it.strip_prefix("CPU")?.parse().ok()).collect();
    let cpus = cpus.filter(|cpus| !cpus.is_empty());
    let cpus = cpus.ok_or_else(|| TextError::new(1, "a header CPU0 CPU1 …", header))?;
    Ok((cpus, lines))
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
