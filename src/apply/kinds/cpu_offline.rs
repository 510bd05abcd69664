//! Takes an SMT sibling of the shield offline until undo. The side effects are read right before
//! (`hotplug_side_effects`). Those that do not need the CPU are restored at once, the others when
//! it is online again.

use super::super::cpu_power::{bring_online, online_file};
use super::super::hotplug_kthreads::KthreadAffinities;
use super::super::hotplug_side_effects::{
    UnrestoredFile, cpuset_to_be_emptied, fate_of, files_to_restore, note_unrestored,
    read_side_effects, restore_side_effects, waits_for_other_cpu, without_cpu_files,
};
use super::super::kind::{ChangeKind, NOTHING, PerformedChange, RevertedChange, ShieldChanges};
use super::super::original::OriginalState;
use crate::change::{Change, RefusalKind};
use crate::documents::applied::{ChangeFate, DriftedValue, StepDone};
use cpushield_linux::{CpuSet, Host, Result};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The content of the file of a CPU that is offline.
const OFFLINE: &str = "0";

/// A CPU to take offline, and the sibling that keeps running.
pub struct SiblingOffline {
    pub cpu: usize,
    pub sibling: usize,
}

impl ChangeKind for SiblingOffline {
    fn read_original(&self, host: &Host) -> Result<OriginalState> {
        Ok(OriginalState::from_reading(host.read_line(&online_file(self.cpu)).map(|now| {
            match now == OFFLINE {
                true => OriginalState::Text { text: now },
                false => OriginalState::Files { files: read_side_effects(host, self.cpu) },
            }
        })))
    }

    /// The other steps of the shield have changed some of the files. If an earlier version of the
    /// shield has taken the CPU offline, the files that need it still have their first originals.
    fn read_original_again(
        &self,
        host: &Host,
        was: &OriginalState,
    ) -> Result<Option<OriginalState>> {
        let files = match (host.read_line(&online_file(self.cpu))?, was) {
            (now, OriginalState::Files { files }) if now == OFFLINE => {
                files_to_restore(host, self.cpu, files)
            }
            (now, OriginalState::Files { .. }) if now != OFFLINE => {
                read_side_effects(host, self.cpu)
            }
            _ => return Ok(None),
        };
        Ok(Some(OriginalState::Files { files }))
    }

    fn perform(&self, host: &Host, was: &OriginalState) -> Result<PerformedChange> {
        let SiblingOffline { cpu, .. } = *self;
        let path = online_file(cpu);
        if host.read_line(&path)? == OFFLINE {
            let left = Some(OFFLINE.to_owned());
            return Ok(PerformedChange { left, ..PerformedChange::already_so() });
        }
        let OriginalState::Files { files } = was else {
            return Ok(PerformedChange::refused(
                "the side effects of taking it offline are not known",
            ));
        };
        if let Some(group) = cpuset_to_be_emptied(cpu, files) {
            return Ok(PerformedChange::refused(format!(
                "{group} has no other CPU: the kernel would permanently move its programs out of it"
            )));
        }
        let kthreads = KthreadAffinities::read(host)?;
        host.write(&path, OFFLINE)?;
        let thread_note = kthreads.restore(host)?;
        let failed = restore_side_effects(host, cpu, &without_cpu_files(cpu, files))?;
        let note = note_unrestored(&failed);
        Ok(PerformedChange {
            note: note.or(thread_note),
            ..PerformedChange::changed(OFFLINE.to_owned())
        })
    }

    fn revert(
        &self,
        host: &Host,
        shield: &ShieldChanges<'_>,
        was: &OriginalState,
        done: Option<&StepDone>,
    ) -> Result<RevertedChange> {
        let SiblingOffline { cpu, sibling } = *self;
        let OriginalState::Files { files } = was else { return Ok(NOTHING) };
        let may_have_begun =
            shield.first_unfinished == Some(&Change::OfflineSibling { cpu, sibling });
        if done.is_none() && !may_have_begun {
            return Ok(NOTHING);
        }
        let is_offline = host.read_line(&online_file(cpu))? == OFFLINE;
        // Files that another process has changed while the CPU was offline keep that change. That
        // is unknown after a kill.
        let files = match done {
            Some(_) if is_offline => files_to_restore(host, cpu, files),
            Some(_) if !shield.undone_before => without_own_steps(shield, files),
            _ => files.clone(),
        };
        let kthreads = KthreadAffinities::read(host)?;
        if let Some(reason) = bring_online(host, cpu)? {
            return Ok(ChangeFate::Failed { reason }.into());
        }
        // Undo restores affinities at its end. A shield that only changes keeps its own.
        kthreads.restore(host)?;
        let mut failed = restore_side_effects(host, cpu, &files)?;
        // A file that is gone cannot be restored.
        failed.retain(|UnrestoredFile { path, .. }| {
            let text = files.get(path).map(String::as_str).unwrap_or_default();
            host.exists(path) && !waits_for_other_cpu(host, path, text)
        });
        Ok(fate_of(&failed).into())
    }

    /// The CPU's own `cpuhp/N`, and a kworker on another one (cpu_down_maps_locked() in
    /// kernel/cpu.c, 6.6).
    fn waits_for(&self, host: &Host) -> Option<CpuSet> {
        match host.read_line(&online_file(self.cpu)) {
            Ok(now) if now == OFFLINE => None,
            _ => host.online_cpus().ok(),
        }
    }

    /// Only the journal has the contents of the CPU's files.
    fn needs_undo_when_interrupted(&self) -> bool {
        true
    }

    fn hint(&self, _: RefusalKind) -> Option<Cow<'static, str>> {
        Some("`dmesg` shows why; to leave the sibling online: --siblings idle".into())
    }

    fn find_drift(&self, host: &Host, left: Option<&str>) -> Option<DriftedValue> {
        let now = host.read_line(&online_file(self.cpu)).ok()?;
        let left = left?.to_owned();
        (now != left).then_some(DriftedValue { left, now: Some(now) })
    }
}

/// The files that no step of the shield writes. Another process has brought the CPU online: what
/// the kernel changed then is restored, and each other file belongs to its own step.
fn without_own_steps(
    shield: &ShieldChanges<'_>,
    files: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let dir = |path: &str| path.rsplit_once('/').map(|(dir, _)| dir.to_owned());
    let own = shield.changes.iter().filter_map(|change| match change {
        Change::Write { path, .. } => dir(path),
        _ => None,
    });
    let own: BTreeSet<String> = own.collect();
    let rest = files.iter().filter(|(path, _)| dir(path).is_none_or(|dir| !own.contains(&dir)));
    rest.map(|(path, text)| (path.clone(), text.clone())).collect()
}
