//! Takes a CPU offline and online again. The side effects of that are read before and restored
//! after (`hotplug_side_effects`). What cannot be restored is reported, and undo tries again.

use super::super::cpu_power::{bring_online, online_file, write_until_online};
use super::super::hotplug_kthreads::KthreadAffinities;
use super::super::hotplug_side_effects::{
    cpuset_to_be_emptied, fate_of, note_unrestored, read_side_effects, restore_side_effects,
};
use super::super::kind::{ChangeKind, NOTHING, PerformedChange, RevertedChange, ShieldChanges};
use super::super::original::OriginalState;
use crate::change::{Change, Outcome, RefusalKind};
use crate::documents::applied::{ChangeFate, StepDone, StepNote};
use cpushield_linux::{CpuSet, Host, Result};
use std::borrow::Cow;

/// The text of the file `online` when the CPU is online.
const ONLINE: &str = "1";

/// A CPU to take offline and online.
pub struct CpuCycle {
    pub cpu: usize,
}

impl ChangeKind for CpuCycle {
    fn read_original(&self, host: &Host) -> Result<OriginalState> {
        Ok(OriginalState::from_reading(
            host.read_line(&online_file(self.cpu))
                .map(|_| OriginalState::Files { files: read_side_effects(host, self.cpu) }),
        ))
    }

    fn perform(&self, host: &Host, _: &OriginalState) -> Result<PerformedChange> {
        let CpuCycle { cpu } = *self;
        let path = online_file(cpu);
        let now = host.read_line(&path)?;
        if now != ONLINE {
            return Ok(PerformedChange::refused(format!("it is offline: {path} reads {now:?}")));
        }
        let files = read_side_effects(host, cpu);
        if let Some(group) = cpuset_to_be_emptied(cpu, &files) {
            return Ok(PerformedChange::refused(format!(
                "{group} has no other CPU: the kernel would permanently move its programs out of it"
            )));
        }
        let kthreads = KthreadAffinities::read(host)?;
        host.write(&path, "0")?;
        // The CPU may be offline from here on: an error is no refusal, and undo must try again.
        let answer = match write_until_online(host, &path) {
            Err(error) if error.is_stop() => return Err(error),
            Err(error) => Some(error.reason()),
            Ok(answer) => answer,
        };
        if let Some(answer) = answer {
            let note = StepNote::CpuStaysOffline { cpu, answer };
            return Ok(PerformedChange {
                broken: Some(note.to_string()),
                note: Some(note),
                ..PerformedChange::changed("0".to_owned())
            });
        }
        let note = kthreads.restore(host)?;
        let failed = restore_side_effects(host, cpu, &files)?;
        Ok(PerformedChange {
            note: note_unrestored(&failed).or(note),
            unrestored: failed.into_iter().map(|file| file.path).collect(),
            ..PerformedChange::changed(ONLINE.to_owned())
        })
    }

    fn revert(
        &self,
        host: &Host,
        shield: &ShieldChanges<'_>,
        was: &OriginalState,
        done: Option<&StepDone>,
    ) -> Result<RevertedChange> {
        let CpuCycle { cpu } = *self;
        let OriginalState::Files { files } = was else { return Ok(NOTHING) };
        if !self.is_to_be_completed(shield, done) {
            return Ok(NOTHING);
        }
        if let Some(reason) = bring_online(host, cpu)? {
            return Ok(ChangeFate::Failed { reason }.into());
        }
        // Without a record of what was restored, all files may have to be.
        let recorded = done.map(|done| &done.unrestored).filter(|paths| !paths.is_empty());
        let unrestored = recorded.map(|paths| {
            let ours = files.iter().filter(|(path, _)| paths.contains(path));
            ours.map(|(path, text)| (path.clone(), text.clone())).collect()
        });
        let mut failed = restore_side_effects(host, cpu, unrestored.as_ref().unwrap_or(files))?;
        // A file that is gone cannot be restored.
        failed.retain(|file| host.exists(&file.path));
        Ok(fate_of(&failed).into())
    }

    /// Brings a CPU online that was left offline: until then, masks with only such a CPU are
    /// refused.
    fn prepare_revert(
        &self,
        host: &Host,
        shield: &ShieldChanges<'_>,
        done: Option<&StepDone>,
    ) -> Result<()> {
        if self.is_to_be_completed(shield, done) {
            bring_online(host, self.cpu)?;
        }
        Ok(())
    }

    /// The CPU's own `cpuhp/N`, and a kworker on another one (cpu_down_maps_locked() in
    /// kernel/cpu.c, 6.6).
    fn waits_for(&self, host: &Host) -> Option<CpuSet> {
        host.online_cpus().ok()
    }

    /// Only the journal has the contents of the CPU's files.
    fn needs_undo_when_interrupted(&self) -> bool {
        true
    }

    fn hint(&self, _: RefusalKind) -> Option<Cow<'static, str>> {
        Some("`dmesg` shows why; `cpushield undo` tries again".into())
    }
}

impl CpuCycle {
    /// Whether the CPU may be offline because of this step, or files of it may not be restored.
    fn is_to_be_completed(&self, shield: &ShieldChanges<'_>, done: Option<&StepDone>) -> bool {
        let CpuCycle { cpu } = *self;
        // The CPU may have been taken offline if its step is the first without an outcome.
        let may_have_begun = || shield.first_unfinished == Some(&Change::CycleCpu { cpu });
        !is_finished(done) && (done.is_some() || may_have_begun())
    }
}

/// Whether the CPU came online again with all its files; if it is offline now, another process took
/// it offline.
fn is_finished(done: Option<&StepDone>) -> bool {
    done.is_some_and(|done| {
        let is_restored = done.left.as_deref() == Some(ONLINE) && done.unrestored.is_empty();
        done.outcome != Outcome::Changed || is_restored
    })
}
