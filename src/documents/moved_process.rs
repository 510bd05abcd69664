//! [`MovedProcesses`]: what `add` and `remove` did to processes. Plain data.

use crate::documents::process_note::ProcessNote;
use crate::with_text;
use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};

/// The version of the format of [`MovedProcesses`].
const SCHEMA: u32 = 1;

/// What `add --json` and `remove --json` print.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MovedProcesses {
    /// The version of this format.
    pub schema: u32,
    /// The processes, in the order of the command line.
    pub processes: Vec<MovedProcess>,
}

impl MovedProcesses {
    /// The document of these processes.
    #[must_use]
    pub fn new(processes: Vec<MovedProcess>) -> MovedProcesses {
        MovedProcesses { schema: SCHEMA, processes }
    }
}

/// A process or thread that was moved into or out of the shield.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MovedProcess {
    /// The number of the process or thread.
    pub tid: i32,
    /// Its name.
    pub comm: String,
    /// The number of moved threads.
    pub threads: usize,
    /// The CPUs they may run on now.
    pub cpus: CpuSet,
    /// Notes.
    #[serde(with = "with_text::TextList::<ProcessNote>")]
    pub notes: Vec<ProcessNote>,
}
