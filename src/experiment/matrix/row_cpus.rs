//! The CPUs of the rows of a matrix, and where the file names them.

use super::CPUS;
use crate::boot::UnknownWords;
use crate::experiment::ExperimentRow;
use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};

/// The CPUs of a row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowCpus {
    /// CPUs of its shield, with the siblings that stay idle.
    pub shielded: CpuSet,
    /// CPUs that are measured.
    pub measured: CpuSet,
}

/// Where the file describes a row, and what it says about its words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowPlace {
    /// The line of its table, from 1.
    pub line: usize,
    /// Its own list of CPUs; `None` without one.
    pub cpus: Option<WrittenList>,
    /// Whether kernel parameters are accepted that no check knows.
    pub unknown_words: UnknownWords,
}

/// A CPU list as the file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenList {
    /// Its text (`N` is the last CPU).
    pub list: String,
    /// Its line, from 1.
    pub line: usize,
}

impl ExperimentRow {
    /// Gives the row its CPUs, and fills them into its kernel parameters.
    pub fn assign_cpus(&mut self, cpus: &RowCpus) {
        self.cpus = cpus.measured.clone();
        let list = cpus.shielded.to_string();
        for parameter in &mut self.boot {
            *parameter = parameter.replace(CPUS, &list);
        }
    }
}
