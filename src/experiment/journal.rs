//! How far an experiment is, on the disk: replaced whole before each step, so that whatever happens
//! then (a kill, a crash, no power) the next call goes on. The measurements lie beside it, a file
//! each.

use super::{ExperimentSetup, Matrix, MatrixError};
use crate::latency::LatencyMeasurement;
use cpushield_linux::{CpuSet, Error, Store};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// The version of the journal's form.
pub const SCHEMA: u32 = 1;
/// The directory of an experiment, in the state directory.
pub const DIR: &str = "experiment";
const JOURNAL: &str = "journal.json";
const MARK: &str = "cpushield-experiment";

/// How far an experiment is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentJournal {
    /// `cpushield-experiment`.
    pub journal: String,
    /// [`SCHEMA`].
    pub schema: u32,
    /// The version of the program that began it.
    pub version: String,
    /// The matrix file, for errors.
    pub file: String,
    /// Its text.
    pub matrix: String,
    /// Whether the machine may be rebooted for rows with kernel parameters.
    pub reboot: bool,
    /// Where the document goes at the end; a whole path.
    pub output: Option<String>,
    /// CPUs that are measured.
    pub cpus: CpuSet,
    /// CPUs of the shield in rows that have one: siblings that stay idle too.
    pub shielded: CpuSet,
    /// When it began, in seconds since 1970.
    pub began_s: u64,
    /// When it ended.
    pub ended_s: Option<u64>,
    /// What is measured on.
    pub scene: ExperimentSetup,
    /// How far it is.
    pub phase: ExperimentPhase,
    /// Which kind of boot the machine is in.
    pub at: BootState,
    /// What became of each step, by its number.
    pub ends: BTreeMap<usize, StepEnd>,
    /// What each step has taken so far.
    pub tries: BTreeMap<usize, StepTries>,
    /// How often the machine was rebooted to get back at the end.
    pub returns: u32,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExperimentPhase {
    /// It goes on.
    Running,
    /// Every step has an end, and the machine is as it was.
    Finished,
    /// Somebody stopped it.
    Stopped,
}

/// Which kind of boot the machine is in. Numbers are those of
/// [`Schedule::boots`](super::Schedule::boots).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BootState {
    /// The one that it was in at the beginning.
    Home,
    /// One with parameters of ours.
    In {
        /// Which.
        boot: usize,
        /// The boot that this is true of.
        boot_id: String,
    },
    /// On the way from one to another.
    Going {
        /// Where it was.
        from: usize,
        /// Where it goes.
        to: usize,
        /// The boot in which that began.
        boot_id: String,
        /// Whether the next boot was prepared, so that it must come up.
        armed: bool,
    },
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepEnd {
    /// It was measured.
    Measured {
        /// The file with its document.
        file: String,
    },
    /// It came to nothing.
    Missing {
        /// Why.
        why: String,
    },
}

/// What a step has taken so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepTries {
    /// Reboots on the way to it.
    pub boots: u32,
    /// Measurements that were begun.
    pub measures: u32,
    /// The boot of the last of these.
    pub boot_id: Option<String>,
}

/// Why there is no journal to be had.
#[derive(Debug)]
pub enum ExperimentJournalError {
    /// It cannot be read.
    Access(Error),
    /// It is none.
    Damaged {
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
}

impl fmt::Display for ExperimentJournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExperimentJournalError::Access(error) => error.fmt(f),
            ExperimentJournalError::Damaged { path, why } => write!(f, "{path}: {why}"),
        }
    }
}

impl std::error::Error for ExperimentJournalError {}

impl From<Error> for ExperimentJournalError {
    fn from(error: Error) -> ExperimentJournalError {
        ExperimentJournalError::Access(error)
    }
}

impl ExperimentJournal {
    /// A journal of an experiment that begins.
    #[must_use]
    pub fn new(file: String, matrix: String, cpus: CpuSet, began_s: u64) -> ExperimentJournal {
        ExperimentJournal {
            journal: MARK.to_owned(),
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            file,
            matrix,
            reboot: false,
            output: None,
            shielded: cpus.clone(),
            cpus,
            began_s,
            ended_s: None,
            scene: ExperimentSetup::default(),
            phase: ExperimentPhase::Running,
            at: BootState::Home,
            ends: BTreeMap::new(),
            tries: BTreeMap::new(),
            returns: 0,
        }
    }

    /// Its matrix.
    ///
    /// # Errors
    /// The text is none.
    pub fn matrix(&self) -> Result<Matrix, MatrixError> {
        Matrix::parse(&self.matrix, &self.file)
    }
}

/// The directory of an experiment.
#[derive(Debug, Clone)]
pub struct ExperimentStore {
    store: Store,
}

impl ExperimentStore {
    /// That of this state directory.
    #[must_use]
    pub fn new(state: &Path) -> ExperimentStore {
        ExperimentStore { store: Store::new(&state.join(DIR)) }
    }

    /// The same on a disk that takes so many writes more; for tests.
    #[must_use]
    pub fn with_room_for(self, writes: usize) -> ExperimentStore {
        ExperimentStore { store: self.store.with_room_for(writes) }
    }

    /// The journal; `None` where there is none.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub fn load(&self) -> Result<Option<ExperimentJournal>, ExperimentJournalError> {
        let Some(bytes) = self.store.read(JOURNAL)? else { return Ok(None) };
        let damaged =
            |why: String| ExperimentJournalError::Damaged { path: self.store.path(JOURNAL), why };
        let journal: ExperimentJournal =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if journal.journal != MARK || journal.schema != SCHEMA {
            let (mark, schema) = (&journal.journal, journal.schema);
            return Err(damaged(format!("a journal of form {mark} {schema}")));
        }
        journal.matrix().map_err(|error| damaged(error.to_string()))?;
        Ok(Some(journal))
    }

    /// Puts it on the disk.
    ///
    /// # Errors
    /// The answer of the file system; the old one is still there then.
    pub fn save(&self, journal: &ExperimentJournal) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(journal).unwrap_or_default();
        self.store.replace(JOURNAL, (text + "\n").as_bytes())
    }

    /// Puts the journal away as it is and returns where.
    ///
    /// # Errors
    /// The answer of the file system.
    pub fn forget(&self) -> Result<String, Error> {
        let kept = self.store.archive(JOURNAL, "forgotten-journal", "json")?;
        self.store.sync()?;
        Ok(kept)
    }

    /// The name of a step's file.
    #[must_use]
    pub fn name(step: usize) -> String {
        format!("cell-{:04}.json", step + 1)
    }

    /// Where a file lies.
    #[must_use]
    pub fn path(&self, file: &str) -> String {
        self.store.path(file)
    }

    /// Keeps what a step has measured; returns its file.
    ///
    /// # Errors
    /// The answer of the file system.
    pub fn keep(&self, step: usize, latency: &LatencyMeasurement) -> Result<String, Error> {
        let file = ExperimentStore::name(step);
        let text = serde_json::to_string(latency).unwrap_or_default();
        self.store.replace(&file, (text + "\n").as_bytes())?;
        Ok(file)
    }

    /// What a step has measured, or why that cannot be had.
    ///
    /// # Errors
    /// A sentence with the file.
    pub fn measured(&self, file: &str) -> Result<LatencyMeasurement, String> {
        let wrong = |why: String| format!("{}: {why}", self.store.path(file));
        let bytes = self.store.read(file).map_err(|error| error.to_string())?;
        let bytes = bytes.ok_or_else(|| wrong("it is gone".to_owned()))?;
        serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))
    }

    /// Removes what another experiment has measured.
    ///
    /// # Errors
    /// The answer of the file system.
    pub fn clear(&self, steps: usize) -> Result<(), Error> {
        (0..steps).try_for_each(|step| self.store.remove(&ExperimentStore::name(step)))?;
        self.store.remove(JOURNAL)
    }
}
