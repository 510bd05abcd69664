//! The [`RunRecord`] of what was changed for programs in the shield, beside the journal of the
//! shield itself: kernel threads that were raised, for whom, and running processes that were taken
//! in.
//!
//! It is a small file that is replaced whole, on the disk before what it tells is done, so that a
//! killed `run` leaves nothing behind that the next `run`, `remove` or `undo` does not put back.

use super::RunError;
use cpushield_linux::{CpuSet, Host, SchedPolicy, Store, TaskId};
use serde::{Deserialize, Serialize};

/// The file in the state directory.
pub const FILE: &str = "programs.json";

/// The version of its form.
const SCHEMA: u32 = 1;

/// What was changed for programs in the shield.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRecord {
    /// The version of the form.
    schema: u32,
    /// The boot it is about; in another boot nothing of it is in force.
    boot_id: Option<String>,
    /// Kernel threads that were raised.
    pub raised: Vec<RaisedThread>,
    /// Who needs them raised.
    pub needs: Vec<PriorityNeed>,
    /// Threads of running processes that were taken in.
    pub added: Vec<AddedThread>,
}

/// A kernel thread that was raised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RaisedThread {
    /// Which.
    pub task: TaskId,
    /// Its name.
    pub comm: String,
    /// The CPUs it was raised for.
    pub cpus: CpuSet,
    /// What it had before the first time.
    pub original: SchedPolicy,
    /// What it was given last.
    pub given: SchedPolicy,
}

/// A program that needs the kernel's threads above a priority on some CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriorityNeed {
    /// The `run` that waits for it, or the program itself.
    pub task: TaskId,
    /// Where it runs.
    pub cpus: CpuSet,
    /// Its priority.
    pub priority: u32,
}

/// A thread of a running process that was taken into the shield.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddedThread {
    /// Which.
    pub task: TaskId,
    /// Its process.
    pub pid: i32,
    /// Its name.
    pub comm: String,
    /// Directory of the cgroup it came from; `None` when the shield has no cgroup.
    pub group: Option<String>,
    /// Where it might run before.
    pub affinity: CpuSet,
    /// Its policy before, when it was lowered.
    pub lowered_from: Option<SchedPolicy>,
    /// What it was confined to.
    pub given: CpuSet,
}

/// The record, with the right to change it.
#[derive(Debug)]
pub struct OpenRecord<'a> {
    store: &'a Store,
    _lock: cpushield_linux::StoreLock,
    /// What it says.
    pub record: RunRecord,
    /// As it is in the file.
    kept: RunRecord,
}

/// What the record says now, without the right to change it; empty when there is none.
///
/// # Errors
/// It cannot be read or is none of ours.
pub fn read(host: &Host, store: &Store) -> Result<RunRecord, RunError> {
    let boot_id = host.read_line("/proc/sys/kernel/random/boot_id").ok();
    let fresh = RunRecord { schema: SCHEMA, boot_id, ..RunRecord::default() };
    let Some(bytes) = store.read(FILE)? else { return Ok(fresh) };
    let record: RunRecord = serde_json::from_slice(&bytes)
        .map_err(|e| RunError::Record(format!("{} is not understood: {e}", store.path(FILE))))?;
    if record.schema != SCHEMA {
        let (path, schema) = (store.path(FILE), record.schema);
        return Err(RunError::Record(format!("{path} has form {schema}, known is {SCHEMA}")));
    }
    // Tasks of another boot are not those of this one, whatever their numbers.
    if record.boot_id == fresh.boot_id { Ok(record) } else { Ok(fresh) }
}

/// Opens it for changes; waits for others that have it.
///
/// # Errors
/// As [`read`], or another process is at work on the state directory for too long.
pub fn open<'a>(host: &Host, store: &'a Store) -> Result<OpenRecord<'a>, RunError> {
    let lock = store.lock()?;
    let record = read(host, store)?;
    Ok(OpenRecord { store, _lock: lock, kept: record.clone(), record })
}

impl OpenRecord<'_> {
    /// Where it is kept, beside the shield's journal.
    #[must_use]
    pub fn store(&self) -> &Store {
        self.store
    }

    /// Puts it on the disk, when it differs from what is there.
    ///
    /// # Errors
    /// The answer of the file system; then nothing that it tells may be done.
    pub fn keep(&mut self) -> Result<(), RunError> {
        if self.record != self.kept {
            let bytes = serde_json::to_vec_pretty(&self.record)
                .map_err(|e| RunError::Record(format!("cannot make the record: {e}")))?;
            self.store.replace(FILE, &bytes)?;
            self.kept = self.record.clone();
        }
        Ok(())
    }
}
