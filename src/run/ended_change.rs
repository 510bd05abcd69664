//! The programs of a shield whose change was interrupted and then ended: they get the CPUs that the
//! change itself would have given them. The record of programs has the CPUs of both versions then
//! ([`super::VersionChange::prepare`]); those of the version that stays are taken.

use super::demoted;
use super::raise;
use super::record;
use super::version_change::{place_threads, threads_in};
use super::{RunError, ShieldPlacement};
use crate::apply::{self, ApplyError, EndedChange};
use crate::documents::applied::ShieldNote;
use cpushield_linux::{CpuSet, Host, Store, TaskId};

/// Ends a change of an active shield that was interrupted, and places its programs. Returns the
/// shield, if there was one, with notes about what stays and programs that were not placed.
///
/// # Errors
/// The journal cannot be used, or not everything could be restored.
pub fn end_change(
    host: &Host,
    store: &Store,
) -> Result<Option<(String, Vec<ShieldNote>)>, ApplyError> {
    let ended = apply::end_change(host, store)?;
    let failed = |error: RunError| ShieldNote::ProgramsNotRecorded { error: error.to_string() };
    let demoted = demoted::end_killed_change(host, store).map_err(failed);
    let Some(mut ended) = ended else { return Ok(None) };
    let mut notes = std::mem::take(&mut ended.notes);
    notes.extend(place_programs(host, store, &ended).unwrap_or_else(|error| vec![failed(error)]));
    notes.extend(demoted.err());
    Ok(Some((ended.shield, notes)))
}

fn place_programs(
    host: &Host,
    store: &Store,
    ended: &EndedChange,
) -> Result<Vec<ShieldNote>, RunError> {
    let shield = super::shield(host, store, Some(&ended.shield))?;
    let place = ShieldPlacement::new(host, &shield);
    let shield = shield.shield;
    let usable = shield.cpus.difference(&shield.idle_siblings);
    let members = threads_in(host, &place, &shield.cpus)?;
    let mut open = record::open(host, store)?;
    let mut wanted = Vec::new();
    for added in open.record.added.iter_mut().filter(|added| added.is_in(&place)) {
        let given = added.given.intersection(&usable);
        if given.is_empty() {
            continue;
        }
        added.given.clone_from(&given);
        let member = members.iter().find(|(task, _)| task.id == added.task);
        wanted.extend(member.filter(|(_, now)| *now != given).map(|(task, _)| (task, given)));
    }
    let notes = place_threads(host, wanted.iter().map(|(task, cpus)| (*task, cpus)));
    let cpus_of = |id: TaskId| {
        let pid = members.iter().find(|(task, _)| task.id == id).map(|(task, _)| task.pid);
        let threads = members.iter().filter(|(task, _)| Some(task.pid) == pid);
        let cpus = threads.filter_map(|(task, _)| host.affinity(task.id.tid).ok());
        cpus.fold(CpuSet::new(), |all, cpus| all.union(&cpus.intersection(&usable)))
    };
    for need in &mut open.record.needs {
        if !need.cpus.is_empty() && need.cpus.is_subset(&ended.cpus) {
            let own = cpus_of(need.task);
            let left = need.cpus.intersection(&usable);
            let cpus = if own.is_empty() { left } else { own };
            need.cpus = if cpus.is_empty() { usable.clone() } else { cpus };
        }
    }
    let mut needs = Vec::new();
    for need in std::mem::take(&mut open.record.needs) {
        if !needs.contains(&need) {
            needs.push(need);
        }
    }
    open.record.needs = needs;
    let gone = ended.cpus.difference(&shield.cpus);
    for raised in &mut open.record.raised {
        raised.cpus = raised.cpus.difference(&gone);
    }
    open.save()?;
    raise::lower_unneeded(host, &mut open, None)?;
    Ok(notes.into_iter().map(ShieldNote::from).collect())
}
