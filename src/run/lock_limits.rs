//! Limits on locked memory that were raised for processes in a shield. They belong to whole
//! processes, also to those that were started in the shield and have no entry of an added thread.

use super::RunError;
use super::record::{OpenRecord, RaisedLimit, RunRecord};
use crate::documents::process_note::ProcessNote;
use cpushield_linux::error::present;
use cpushield_linux::{Host, RaisedLockLimit, TaskId};

/// The raised limit of a process.
pub(super) fn find(record: &RunRecord, process: TaskId) -> Option<RaisedLockLimit> {
    record.lock_limits.iter().find(|raised| raised.task == process).map(|raised| raised.limit)
}

/// Writes the raised limit of a process in a shield into the record, or removes it.
///
/// # Errors
/// The record cannot be written; then the limit must not be raised.
pub(super) fn put_on_record(
    open: &mut OpenRecord<'_>,
    process: TaskId,
    shield: &str,
    limit: Option<RaisedLockLimit>,
) -> Result<(), RunError> {
    open.record.lock_limits.retain(|raised| raised.task != process);
    let shield = shield.to_owned();
    open.record.lock_limits.extend(limit.map(|limit| RaisedLimit { task: process, shield, limit }));
    open.save()
}

/// Restores the limit of the process with this number, and removes it from the record. The caller
/// saves the record: a second attempt changes nothing.
///
/// # Errors
/// The kernel refuses; then the limit stays on record.
pub(super) fn restore(host: &Host, open: &mut OpenRecord<'_>, pid: i32) -> Result<(), RunError> {
    let raised = open.record.lock_limits.iter();
    for RaisedLimit { task, limit, .. } in raised.filter(|raised| raised.task.tid == pid) {
        if host.is_same_task(*task) {
            present(host.restore_lock_limit(pid, *limit))?;
        }
    }
    open.record.lock_limits.retain(|raised| raised.task.tid != pid);
    Ok(())
}

/// Restores the limits of all processes in a shield. Returns those that stay on record, because the
/// kernel refused. The caller saves the record.
pub(super) fn restore_all(
    host: &Host,
    open: &mut OpenRecord<'_>,
    shield: &str,
) -> Vec<ProcessNote> {
    let raised = open.record.lock_limits.iter().filter(|raised| raised.shield == shield);
    let pids: Vec<i32> = raised.map(|raised| raised.task.tid).collect();
    let mut notes = Vec::new();
    for pid in pids {
        if let Err(error) = restore(host, open, pid) {
            let comm = host.task(pid, pid).map_or_else(|_| String::new(), |task| task.comm);
            let error = error.to_string();
            notes.push(ProcessNote::KeepsLockLimit { comm, tid: pid, error });
        }
    }
    notes
}
