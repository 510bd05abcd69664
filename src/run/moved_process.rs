//! [`MovedProcess`]: what `add` and `remove` did to a process. Plain data.

use crate::documents::process_note::ProcessNote;
use crate::with_text;
use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};

/// A process or thread that was moved into or out of the shield.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    #[serde(with = "with_text::list")]
    pub notes: Vec<ProcessNote>,
}
