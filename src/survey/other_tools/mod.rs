//! What another tool has set up on this machine: the CPUs that it isolates and the settings that it
//! makes, each with the file that says so. `Host` and [`Machine`] → [`ToolSetup`]. Writes nothing,
//! and starts no program: what only the tool itself can compute is [`SetupError::UnknownCpus`].

mod cpusets;
mod kernel_line;
mod tuned;

use super::Machine;
use cpushield_linux::{CpuSet, Error, Host};
use serde::Serialize;
use std::fmt;

/// A tool that isolates CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OtherTool {
    /// The active profile of tuned.
    Tuned,
    /// The cpusets of cset.
    Cset,
    /// The cpusets of partrt.
    Partrt,
    /// The command line of the running kernel.
    Cmdline,
}

impl fmt::Display for OtherTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            OtherTool::Tuned => "tuned",
            OtherTool::Cset => "cset",
            OtherTool::Partrt => "partrt",
            OtherTool::Cmdline => "cmdline",
        })
    }
}

/// What a tool has set up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolSetup {
    /// The tool.
    pub tool: OtherTool,
    /// What it calls the setup: a profile of tuned. `None` where it has no name.
    pub name: Option<String>,
    /// Its groups of isolated CPUs, at least one.
    pub shields: Vec<ToolShield>,
    /// The settings that it makes, in its order.
    pub settings: Vec<ToolSetting>,
    /// Facts about the setup, as sentences.
    pub remarks: Vec<String>,
}

/// A group of CPUs that a tool isolates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolShield {
    /// The tool's name for it: that of its cpuset; otherwise the tool's own.
    pub name: String,
    /// The CPUs.
    pub cpus: CpuSet,
    /// What names the CPUs: `isolated_cores`, `isolcpus=2-3`.
    pub what: String,
    /// Where.
    pub place: SettingPlace,
}

/// A setting that a tool makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolSetting {
    /// Its name as the tool writes it: `kernel.nmi_watchdog`, `[cpu] governor`.
    pub name: String,
    /// What it sets.
    pub target: SettingTarget,
    /// The value.
    pub value: String,
    /// Where it is written.
    pub place: SettingPlace,
}

/// What a setting of a tool sets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum SettingTarget {
    /// A kernel file. A `*` matches any name within one directory.
    KernelFile {
        /// The file.
        path: String,
    },
    /// A word of the kernel command line, which is the value.
    BootParameter,
}

/// A file, and the line in it if one line says it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettingPlace {
    /// The file.
    pub file: String,
    /// The line, from 1; `None` for a file of one value.
    pub line: Option<usize>,
}

impl SettingPlace {
    fn file(file: &str) -> SettingPlace {
        SettingPlace { file: file.to_owned(), line: None }
    }

    fn line(file: &str, line: usize) -> SettingPlace {
        SettingPlace { file: file.to_owned(), line: Some(line) }
    }
}

impl fmt::Display for SettingPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file),
            None => f.write_str(&self.file),
        }
    }
}

/// Why a setup cannot be read.
#[derive(Debug)]
pub enum SetupError {
    /// The tool has isolated no CPU here, or is not installed.
    NothingFound {
        /// The tool.
        tool: OtherTool,
        /// What is missing.
        why: String,
        /// Where it was looked for.
        looked_in: Vec<String>,
    },
    /// A file cannot be read, or does not have the expected format.
    Access(Error),
    /// The CPUs are named in a way that only the tool can compute.
    UnknownCpus {
        /// What names them.
        what: String,
        /// Where.
        place: SettingPlace,
    },
}

impl From<Error> for SetupError {
    fn from(error: Error) -> SetupError {
        SetupError::Access(error)
    }
}

/// Reads what a tool has set up. `machine` is the survey of the same machine.
///
/// # Errors
/// The tool has set up nothing, a file is malformed, or the CPUs cannot be computed.
pub fn read_setup(
    host: &Host,
    machine: &Machine,
    tool: OtherTool,
) -> Result<ToolSetup, SetupError> {
    match tool {
        OtherTool::Tuned => tuned::read_tuned(host, machine),
        OtherTool::Cset => cpusets::read_cset(machine),
        OtherTool::Partrt => cpusets::read_partrt(host, machine),
        OtherTool::Cmdline => kernel_line::read_command_line(machine),
    }
}

/// The settings of these kernel files that have the value that a tool writes; any value where it is
/// not fixed.
fn settings_in_force<'a>(
    host: &'a Host,
    files: &'a [(&'a str, Option<&'a str>)],
) -> impl Iterator<Item = ToolSetting> + 'a {
    files.iter().filter_map(|(path, expected)| {
        let value = host.read_line(path).ok()?;
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        expected.is_none_or(|expected| value == expected).then(|| ToolSetting {
            name,
            target: SettingTarget::KernelFile { path: (*path).to_owned() },
            value,
            place: SettingPlace::file(path),
        })
    })
}
