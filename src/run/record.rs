//! The [`RunRecord`] of what was changed for programs in the shield, next to the shield's journal:
//! raised kernel threads, the programs that need them, running processes that were added, and
//! raised limits on locked memory.
//!
//! It is a small file that is replaced as a whole, before each change. So the next `run`, `remove`
//! or `undo` restores everything that a killed `run` changed.

use super::{RunError, ShieldPlacement};
use crate::documents::shield_status::RaisedThread;
use cpushield_linux::{
    CpuSet, Host, RaisedLockLimit, SchedPolicy, Store, TaskId, processes::namespaces,
};
use serde::{Deserialize, Serialize};

/// The file in the state directory.
pub const FILE: &str = "programs.json";

/// The version of its schema.
const SCHEMA: u32 = 1;

/// What was changed for programs in the shield.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRecord {
    /// The version of the schema.
    schema: u32,
    /// The boot it belongs to; it does not apply to another boot.
    boot_id: Option<String>,
    /// Kernel threads that were raised.
    pub raised: Vec<RaisedThread>,
    /// The programs that need them raised.
    pub needs: Vec<PriorityNeed>,
    /// Threads of running processes that were added.
    pub added: Vec<AddedThread>,
    /// Threads that a change of their shield has made ordinary and that has not ended.
    pub demoted: Vec<DemotedThread>,
    /// Limits on locked memory that were raised for processes in a shield.
    pub lock_limits: Vec<RaisedLimit>,
}

/// A real-time thread that a change of its shield has made ordinary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DemotedThread {
    /// The thread.
    pub task: TaskId,
    /// The shield.
    pub shield: String,
    /// Its original policy.
    pub original: SchedPolicy,
}

/// A program that needs the kernel's threads above a priority on some CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriorityNeed {
    /// The `run` process that waits for it, or the program itself.
    pub task: TaskId,
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Its priority.
    pub priority: u32,
}

/// A thread of a running process that was added to the shield.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddedThread {
    /// The thread.
    pub task: TaskId,
    /// Its process.
    pub pid: i32,
    /// Its name.
    pub comm: String,
    /// The shield.
    pub shield: String,
    /// Directory of the cgroup it came from; `None` when the shield has no cgroup.
    pub group: Option<String>,
    /// Its original affinity.
    pub affinity: CpuSet,
    /// Its original policy, if that was lowered.
    pub lowered_from: Option<SchedPolicy>,
    /// The CPUs it was confined to.
    pub given: CpuSet,
    /// An operator got its real-time priority together with the place in the shield, so it loses
    /// that with the place.
    pub granted: bool,
}

/// A limit on locked memory that a process in a shield got. It loses it with its place there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RaisedLimit {
    /// The process.
    pub task: TaskId,
    /// The shield.
    pub shield: String,
    /// The limit before, and the one that it got.
    pub limit: RaisedLockLimit,
}

impl AddedThread {
    /// Whether it was added to this shield.
    #[must_use]
    pub fn is_in(&self, place: &ShieldPlacement) -> bool {
        self.shield == place.name
    }
}

/// The record, locked for changes.
#[derive(Debug)]
pub struct OpenRecord<'a> {
    store: &'a Store,
    _lock: cpushield_linux::StoreLock,
    /// The current content.
    pub record: RunRecord,
    /// The content of the file.
    saved: RunRecord,
}

/// Reads the record without a lock; it is empty when there is none.
///
/// # Errors
/// It cannot be read or parsed.
pub fn read(host: &Host, store: &Store) -> Result<RunRecord, RunError> {
    let boot_id = host.read_line("/proc/sys/kernel/random/boot_id").ok();
    let fresh = RunRecord { schema: SCHEMA, boot_id, ..RunRecord::default() };
    let Some(bytes) = store.read(FILE)? else { return Ok(fresh) };
    let record: RunRecord = serde_json::from_slice(&bytes)
        .map_err(|e| RunError::Record(format!("cannot parse {}: {e}", store.path(FILE))))?;
    if record.schema != SCHEMA {
        let (path, schema) = (store.path(FILE), record.schema);
        return Err(RunError::Record(format!("{path} has schema {schema}, not {SCHEMA}")));
    }
    // Task numbers of another boot belong to other tasks.
    if record.boot_id == fresh.boot_id { Ok(record) } else { Ok(fresh) }
}

/// Opens the record for changes; waits for other processes that have the lock.
///
/// # Errors
/// As [`read`], another process has the lock for too long, or `/proc` does not list all tasks.
pub fn open<'a>(host: &Host, store: &'a Store) -> Result<OpenRecord<'a>, RunError> {
    namespaces::check_sees_all_tasks(host)?;
    let lock = store.lock()?;
    let record = read(host, store)?;
    Ok(OpenRecord { store, _lock: lock, saved: record.clone(), record })
}

impl OpenRecord<'_> {
    /// The state directory.
    #[must_use]
    pub fn store(&self) -> &Store {
        self.store
    }

    /// Removes the entries of tasks that have ended: another task may have the number now.
    pub fn forget_ended(&mut self, host: &Host) {
        self.record.added.retain(|added| host.is_same_task(added.task));
        self.record.lock_limits.retain(|raised| host.is_same_task(raised.task));
    }

    /// Writes the record to the disk if it changed.
    ///
    /// # Errors
    /// The file cannot be written; then the recorded changes must not be made.
    pub fn save(&mut self) -> Result<(), RunError> {
        if self.record != self.saved {
            self.store.replace_json(FILE, &self.record)?;
            self.saved = self.record.clone();
        }
        Ok(())
    }
}
