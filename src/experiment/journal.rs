//! The progress of an experiment on disk. The journal is replaced as a whole before each step, so
//! the experiment can be resumed after a kill, a crash or a power failure. Each measurement has a
//! file next to it.

use super::search::SearchRequest;
use super::{
    ExperimentSetup, ExperimentState, Matrix, MatrixError, RebootPermission, RowCpus,
    UnmeasuredReason,
};
use cpushield_linux::{Error, Store};
use cpushield_sentence::Sentence;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The version of the journal's format.
pub const SCHEMA: u32 = 1;
/// The directory of an experiment, in the state directory.
pub const DIR: &str = "experiment";
const JOURNAL: &str = "journal.json";
const MARK: &str = "cpushield-experiment";

/// The progress of an experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentJournal {
    /// `cpushield-experiment`.
    pub journal: String,
    /// [`SCHEMA`].
    pub schema: u32,
    /// The version of the program that started it.
    pub version: String,
    /// The matrix file, for errors.
    pub file: String,
    /// Its text.
    pub matrix: String,
    /// Whether the machine may be rebooted for rows with kernel parameters.
    pub reboot: RebootPermission,
    /// The file for the results, as an absolute path; `None` when none was requested.
    pub output: Option<String>,
    /// What is searched for, instead of measuring the rows of the matrix; `None` for a matrix.
    pub search: Option<SearchRequest>,
    /// The CPUs of each row. A search has the same CPUs in every configuration.
    pub row_cpus: Vec<RowCpus>,
    /// When it started, in seconds since 1970.
    pub began_s: u64,
    /// When it ended; `None` until then.
    pub ended_s: Option<u64>,
    /// The machine and its software.
    pub setup: ExperimentSetup,
    /// Whether it runs.
    pub phase: ExperimentPhase,
    /// The kind of boot that the machine is in.
    pub boot_state: BootState,
    /// The end of each step that has one, by its number.
    pub ends: BTreeMap<usize, StepEnd>,
    /// The tries of each step, by its number.
    pub tries: BTreeMap<usize, StepTries>,
    /// How often the machine was rebooted at the end, to return to the original boot.
    pub return_reboots: u32,
}

/// Whether an experiment runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExperimentPhase {
    /// It runs, or can be resumed.
    Running,
    /// Every step has an end, and the machine is in its original state.
    Finished,
    /// It was stopped.
    Stopped,
}

impl ExperimentPhase {
    /// The state that the results show.
    #[must_use]
    pub fn state(self) -> ExperimentState {
        match self {
            ExperimentPhase::Running => ExperimentState::Unfinished,
            ExperimentPhase::Finished => ExperimentState::Finished,
            ExperimentPhase::Stopped => ExperimentState::Stopped,
        }
    }
}

/// The kind of boot that a machine is in. Numbers are those of
/// [`Schedule::boots`](super::Schedule::boots).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BootState {
    /// The one in which the experiment started.
    Original,
    /// One with parameters of the experiment.
    Booted {
        /// Which.
        boot: usize,
        /// The kernel's identifier of this boot.
        boot_id: String,
    },
    /// Between two of them.
    Rebooting {
        /// The one before the reboot.
        from: usize,
        /// The one after the reboot.
        to: usize,
        /// The kernel's identifier of the boot before the reboot.
        boot_id: String,
        /// Whether the boot loader is set up for the next boot, so that it must come up.
        prepared: bool,
    },
}

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepEnd {
    /// It was measured.
    Measured {
        /// The file with its document.
        file: String,
    },
    /// It could not be measured.
    Missing {
        /// The reason.
        why: UnmeasuredReason,
    },
}

/// How often a step was tried.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepTries {
    /// Reboots into its parameters.
    pub boots: u32,
    /// Measurements that started.
    pub measures: u32,
    /// The boot of the last of these; `None` before the first one.
    pub boot_id: Option<String>,
}

/// Why the journal cannot be used.
#[derive(Debug, Sentence)]
#[kind(Machine)]
pub enum ExperimentJournalError {
    /// It cannot be read.
    #[delegate(from)]
    Access(Error),
    /// {path}: {why}.
    #[hint("move the file away and undo the rest: cpushield experiment --stop")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
}

impl std::error::Error for ExperimentJournalError {}

impl ExperimentJournal {
    /// The journal of an experiment that starts.
    #[must_use]
    pub fn new(
        file: String,
        matrix: String,
        row_cpus: Vec<RowCpus>,
        began_s: u64,
    ) -> ExperimentJournal {
        ExperimentJournal {
            journal: MARK.to_owned(),
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            file,
            matrix,
            reboot: RebootPermission::Denied,
            output: None,
            search: None,
            row_cpus,
            began_s,
            ended_s: None,
            setup: ExperimentSetup::default(),
            phase: ExperimentPhase::Running,
            boot_state: BootState::Original,
            ends: BTreeMap::new(),
            tries: BTreeMap::new(),
            return_reboots: 0,
        }
    }

    /// Parses its matrix, and gives each row its CPUs.
    ///
    /// # Errors
    /// The text is not a matrix.
    pub fn parse_matrix(&self) -> Result<Matrix, MatrixError> {
        let mut matrix = Matrix::parse(&self.matrix, &self.file)?;
        matrix.assign_cpus(&self.row_cpus);
        matrix.set_original_kernel(self.setup.kernel.as_deref());
        Ok(matrix)
    }
}

/// The directory of an experiment.
#[derive(Debug, Clone)]
pub struct ExperimentStore {
    store: Store,
}

impl ExperimentStore {
    /// The one in this state directory.
    #[must_use]
    pub fn new(state: &Path) -> ExperimentStore {
        ExperimentStore { store: Store::new(&state.join(DIR)) }
    }

    /// The same directory on a disk that is full after this many writes; for tests.
    #[must_use]
    pub fn with_room_for(self, writes: usize) -> ExperimentStore {
        ExperimentStore { store: self.store.with_room_for(writes) }
    }

    /// Reads the journal; `None` if there is none.
    ///
    /// # Errors
    /// It cannot be read, or it is damaged.
    pub fn load(&self) -> Result<Option<ExperimentJournal>, ExperimentJournalError> {
        let Some(bytes) = self.store.read(JOURNAL)? else { return Ok(None) };
        match parse_journal(&bytes) {
            Ok(journal) => Ok(Some(journal)),
            Err(why) => {
                Err(ExperimentJournalError::Damaged { path: self.store.path(JOURNAL), why })
            }
        }
    }

    /// Writes the journal to disk.
    ///
    /// # Errors
    /// The answer of the file system; the old journal remains then.
    pub fn save(&self, journal: &ExperimentJournal) -> Result<(), Error> {
        self.store.replace_json(JOURNAL, journal)
    }

    /// Moves the journal away unchanged and returns its new path.
    ///
    /// # Errors
    /// The answer of the file system.
    pub fn archive_journal(&self) -> Result<String, Error> {
        let kept = self.store.archive(JOURNAL, "forgotten-journal", "json")?;
        self.store.sync()?;
        Ok(kept)
    }

    /// The name of the file with the measurement of a step.
    #[must_use]
    pub fn measurement_file(step: usize) -> String {
        format!("cell-{:04}.json", step + 1)
    }

    /// The path of a file in this directory.
    #[must_use]
    pub fn path(&self, file: &str) -> String {
        self.store.path(file)
    }

    /// Saves the measurement of a step; returns its file.
    ///
    /// # Errors
    /// The answer of the file system.
    pub fn save_measurement<T: Serialize>(
        &self,
        step: usize,
        measured: &T,
    ) -> Result<String, Error> {
        let file = ExperimentStore::measurement_file(step);
        self.store.replace_json(&file, measured)?;
        Ok(file)
    }

    /// Reads a measurement.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub fn load_measurement<T: DeserializeOwned>(&self, file: &str) -> Result<T, String> {
        let path = self.store.path(file);
        let bytes = self.store.read(file).map_err(|error| error.to_string())?;
        let bytes = bytes.ok_or_else(|| format!("{path}: it is gone"))?;
        serde_json::from_slice(&bytes).map_err(|error| format!("{path}: {error}"))
    }

    /// Removes the journal and the measurements of an earlier experiment.
    ///
    /// # Errors
    /// The answer of the file system.
    pub fn clear(&self, steps: usize) -> Result<(), Error> {
        (0..steps)
            .try_for_each(|step| self.store.remove(&ExperimentStore::measurement_file(step)))?;
        self.store.remove(JOURNAL)
    }
}

/// Parses a journal, or says what is wrong in it.
fn parse_journal(bytes: &[u8]) -> Result<ExperimentJournal, String> {
    let journal: ExperimentJournal =
        serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if journal.journal != MARK || journal.schema != SCHEMA {
        return Err(format!("a journal of unknown format: {} {}", journal.journal, journal.schema));
    }
    journal.parse_matrix().map_err(|error| error.to_string())?;
    Ok(journal)
}
