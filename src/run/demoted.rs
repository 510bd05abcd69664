//! Real-time programs that a change of their shield makes ordinary, because its new version has no
//! group for them. Their policies are on record before, so that a change that is killed or refused
//! loses none.

use super::raise::DemotedPrograms;
use super::record::{self, DemotedThread, OpenRecord};
use super::{RunError, ShieldPlacement};
use crate::documents::applied::ShieldNote;
use cpushield_linux::{Host, SchedPolicy, Store, Task};

/// Makes the real-time threads among these ordinary ones.
///
/// # Errors
/// The record cannot be written; then nothing has changed.
pub(super) fn demote<'a>(
    host: &Host,
    store: &Store,
    place: &ShieldPlacement,
    threads: impl Iterator<Item = &'a Task>,
) -> Result<Vec<ShieldNote>, RunError> {
    let own = threads.filter(|task| !place.residents.contains(&task.pid));
    let real_time = own.filter_map(|task| {
        let policy = host.scheduling(task.id.tid).ok()?;
        (policy.rt_priority() > 0).then_some((task, policy))
    });
    let real_time: Vec<(&Task, SchedPolicy)> = real_time.collect();
    let mut open = record::open(host, store)?;
    open.record.demoted.extend(real_time.iter().map(|(task, original)| DemotedThread {
        task: task.id,
        shield: place.name.clone(),
        original: *original,
    }));
    open.save()?;
    let mut demoted = DemotedPrograms::default();
    for (task, policy) in real_time {
        demoted.demote(host, task.id.tid, task.comm.clone(), policy);
    }
    let done = demoted.done.into_iter();
    let notes = done.map(|program| ShieldNote::ProgramMadeOrdinary { program });
    Ok(notes.chain(demoted.failed.into_iter().map(ShieldNote::from)).collect())
}

/// Restores the policies of the threads that are still in the group of their shield. One that has
/// left it would be a real-time thread on ordinary CPUs. What cannot be restored stays on record.
///
/// # Errors
/// The record cannot be written.
pub(super) fn restore(
    host: &Host,
    open: &mut OpenRecord<'_>,
    place: &ShieldPlacement,
) -> Result<(), RunError> {
    if open.record.demoted.is_empty() {
        return Ok(());
    }
    let members = place.members(host).unwrap_or_default();
    open.record.demoted.retain(|DemotedThread { task, shield, original }| {
        let is_ours = *shield == place.name;
        let is_member = members.contains(&task.tid) && host.is_same_task(*task);
        let is_ordinary = || host.scheduling(task.tid).is_ok_and(|now| now.rt_priority() == 0);
        let restores = is_ours && is_member && is_ordinary();
        !is_ours || (restores && host.set_scheduling(task.tid, *original).is_err())
    });
    open.save()
}

/// Forgets the policies: the change is complete, or the shield has no group.
///
/// # Errors
/// The record cannot be read or written.
pub(super) fn forget(host: &Host, store: &Store, shield: &str) -> Result<(), RunError> {
    let mut open = record::open(host, store)?;
    open.record.demoted.retain(|demoted| demoted.shield != shield);
    open.save()
}

/// Restores or forgets what a killed change left, also one that was killed before its first step.
///
/// # Errors
/// The record or the journal cannot be read, or the record cannot be written.
pub(super) fn end_killed_change(host: &Host, store: &Store) -> Result<(), RunError> {
    let demoted = record::read(host, store)?.demoted;
    let mut shields: Vec<&str> = demoted.iter().map(|demoted| demoted.shield.as_str()).collect();
    shields.sort_unstable();
    shields.dedup();
    for shield in shields {
        match super::active(host, store, Some(shield))? {
            Some(plan) => {
                let place = ShieldPlacement::new(host, &plan);
                restore(host, &mut record::open(host, store)?, &place)?;
            }
            None => forget(host, store, shield)?,
        }
    }
    Ok(())
}
