//! Writes a value to a kernel file that exists.

use super::super::blocking_writes::{cpus_to_wait_for, value_to_replace, waits_for_threads};
use super::super::groups::group_using_cpusets;
use super::super::kind::{
    ChangeKind, NOTHING, OlderVersion, PerformedChange, RemainingShields, RestoringUndo,
    RevertedChange, ShieldChanges,
};
use super::super::memory_moves::{cpus_of_change, cpus_of_disabling};
use super::super::original::OriginalState;
use super::super::thread_servers;
use super::super::unbound::shown_by;
use crate::change::{Change, Outcome, Refusal, RefusalKind, ValueComparison, WrittenFile};
use crate::documents::applied::{ChangeFate, DriftedValue, StepDone, StepNote};
use cpushield_linux::{CpuSet, Host, Result};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// A file, the value to write, and how the value read back is compared with it.
#[derive(Clone, Copy)]
pub struct FileWrite<'a> {
    pub path: &'a str,
    pub value: &'a str,
    pub compare: ValueComparison,
    pub what: WrittenFile,
}

impl ChangeKind for FileWrite<'_> {
    fn read_original(&self, host: &Host) -> Result<OriginalState> {
        let text = host.read_line(shown_by(host, self.path));
        Ok(OriginalState::from_reading(text.map(|text| OriginalState::Text { text })))
    }

    fn perform(&self, host: &Host, _: &OriginalState) -> Result<PerformedChange> {
        let made = PerformedChange::from_answer(self.write(host))?;
        let Outcome::Refused { kind, reason } = &made.outcome else { return Ok(made) };
        Ok(match thread_servers::explain_refusal(self.path, *kind, reason) {
            Some(reason) => PerformedChange::refused_by(Refusal { kind: *kind, reason }),
            None => made,
        })
    }

    fn revert(
        &self,
        host: &Host,
        shield: &ShieldChanges<'_>,
        was: &OriginalState,
        done: Option<&StepDone>,
    ) -> Result<RevertedChange> {
        match self.with_original(was, done) {
            Some(file) => file.restore(host, shield, done),
            None => Ok(NOTHING),
        }
    }

    fn restore_again(
        &self,
        host: &Host,
        was: &OriginalState,
        done: Option<&StepDone>,
        by: RestoringUndo,
    ) -> Result<Option<String>> {
        let Some(file) = self.with_original(was, done) else { return Ok(None) };
        let wrong = file.write_again(host, by)?;
        Ok(wrong.map(|now| format!("the kernel set {now:?} instead of {:?}", file.original)))
    }

    fn for_remaining(
        &self,
        was: &OriginalState,
        remaining: &RemainingShields<'_>,
    ) -> Option<Change> {
        let Some(Change::Write { value: now, .. }) = remaining.last else { return None };
        let now = self.parse_cpus(now)?;
        let before = match was {
            OriginalState::Text { text } => self.compare.parse_set(text),
            _ => None,
        };
        Some(self.with_cpus(&match before.filter(|before| !before.is_empty()) {
            // The file is in a directory that the shields made: it gets the CPUs that become free.
            None => now.union(&remaining.freed.difference(&remaining.closed)),
            Some(before) if now.is_empty() => before.difference(&remaining.cpus),
            // Programs may run on all other CPUs that the cpuset had.
            Some(before) if self.sets_cpuset() => {
                let rest = before.difference(&remaining.cpus);
                if rest.is_empty() { remaining.free.clone() } else { rest }
            }
            Some(before) => remaining.keep_off(&before, &now),
        }))
    }

    fn state_for_others(&self) -> Option<OriginalState> {
        Some(OriginalState::Text { text: self.value.to_owned() })
    }

    fn with_older_version(&self, older: &OlderVersion<'_>) -> Option<Change> {
        Some(self.with_cpus(&older.keep_off(&self.parse_cpus(self.value)?)))
    }

    fn waits_for(&self, host: &Host) -> Option<CpuSet> {
        let replaced = || value_to_replace(host, self.path, self.value, self.compare);
        if let Some(cpus) = cpus_of_change(host, self.path) {
            return replaced().map(|_| cpus);
        }
        if !waits_for_threads(self.path) {
            return None;
        }
        replaced().and_then(|now| cpus_to_wait_for(host, self.path, &now, self.value))
    }

    fn waits_for_revert(&self, host: &Host, was: &OriginalState) -> Option<CpuSet> {
        let OriginalState::Text { text } = was else { return None };
        if let Some(cpus) = cpus_of_disabling(host, self.path) {
            let now = host.read_line(self.path).ok()?;
            return (!self.compare.is_original(&now, text)).then_some(cpus);
        }
        if !waits_for_threads(self.path) {
            return None;
        }
        let now = host.read_line(self.path).ok()?;
        if self.compare.is_original(&now, text) {
            return None;
        }
        cpus_to_wait_for(host, self.path, &now, text)
    }

    fn sets_cpuset(&self) -> bool {
        self.what.is_of_cpuset()
    }

    fn sets_partition(&self) -> bool {
        self.is_partition()
    }

    fn moves_tasks(&self) -> bool {
        self.sets_cpuset()
    }

    fn hint(&self, kind: RefusalKind) -> Option<Cow<'static, str>> {
        let hint = match kind {
            RefusalKind::IsolatedAtBoot if self.is_partition() => Some(
                "these CPUs are isolated by isolcpus= at boot; boot without it, or shield other \
                 CPUs; `cpushield apply` without a saved plan shields them without a partition",
            ),
            RefusalKind::NotExclusive if self.is_partition() => {
                Some("another cgroup has these CPUs; `cpushield survey` names it")
            }
            _ if self.is_partition() => {
                Some("`cpushield plan --off cpuset` plans a shield that other programs can enter")
            }
            RefusalKind::Busy if self.sets_cpuset() => {
                Some("another cgroup has these CPUs; `cpushield survey` names it")
            }
            _ => None,
        };
        hint.map(Cow::Borrowed)
    }

    fn find_drift(&self, host: &Host, left: Option<&str>) -> Option<DriftedValue> {
        let left = left?;
        let now = match host.read_line(self.path) {
            Ok(text) => Some(text),
            Err(error) if error.is_absent() => None,
            Err(_) => return None,
        };
        let same = now
            .as_deref()
            .is_some_and(|now| now.trim() == left.trim() || self.compare.same(now, left));
        (!same).then(|| DriftedValue { left: left.to_owned(), now })
    }
}

impl<'a> FileWrite<'a> {
    /// The CPUs of a value; `None` for a file of another kind, such as memory nodes.
    fn parse_cpus(&self, value: &str) -> Option<CpuSet> {
        if self.what == WrittenFile::CpusetMems { None } else { self.compare.parse_set(value) }
    }

    fn with_cpus(&self, cpus: &CpuSet) -> Change {
        let value = self.compare.spell_set(cpus);
        let (path, compare, what) = (self.path.to_owned(), self.compare, self.what);
        Change::Write { path, value, compare, what }
    }

    fn is_partition(&self) -> bool {
        self.what == WrittenFile::CpusetPartition
    }

    /// The file with its original; `None` if that is not known.
    fn with_original(
        &self,
        was: &'a OriginalState,
        done: Option<&'a StepDone>,
    ) -> Option<RestoredFile<'a>> {
        let OriginalState::Text { text: original } = was else { return None };
        let left = done.and_then(|done| done.left.as_deref());
        Some(RestoredFile { file: *self, original, left })
    }

    fn write(&self, host: &Host) -> Result<PerformedChange> {
        let FileWrite { path, value, compare, .. } = *self;
        let before = host.read_line(path)?;
        if compare.already(&before, value) {
            return Ok(PerformedChange { left: Some(before), ..PerformedChange::already_so() });
        }
        match host.write(path, value) {
            // Before 6.1 the kernel knows `root` and `member` only (`sched_partition_write()`,
            // kernel/cgroup/cpuset.c, 5.10 and 5.15) and answers EINVAL to `isolated`.
            Err(error) if self.is_partition() && error.is_invalid() => {
                return self.fall_back_to_root(host, &before, &Refusal::from(&error));
            }
            answer => answer?,
        }
        let left = match host.read_line(path) {
            Err(error) => return PerformedChange::unknown_result(error, value),
            Ok(left) => left,
        };
        if compare.same(&left, value) || compare.is_narrowed(&left, value) {
            return Ok(PerformedChange::changed(left));
        }
        if self.is_partition() {
            let kind = RefusalKind::from_partition(&left);
            return self.fall_back_to_root(host, &before, &Refusal { kind, reason: left });
        }
        let verb = if compare.same(&left, &before) { "kept" } else { "set it to" };
        let reason = format!("the kernel {verb} {left:?}");
        self.refuse_and_restore(host, &before, Refusal { kind: RefusalKind::Other, reason })
    }

    /// Restores the value right before the write. Where that fails the file stays ours, so that
    /// undo tries again.
    fn refuse_and_restore(
        &self,
        host: &Host,
        before: &str,
        refusal: Refusal,
    ) -> Result<PerformedChange> {
        match self.restore_value(host, before) {
            Ok(()) => Ok(PerformedChange::refused_by(refusal)),
            Err(error) if error.is_stop() || error.is_absent() => Err(error),
            Err(error) => {
                let left = host.read_line(self.path).ok();
                Ok(PerformedChange::original_lost(refusal, before.to_owned(), &error, left))
            }
        }
    }

    /// Tries `root` where the kernel refuses `isolated` or makes it invalid. `root` keeps other
    /// tasks out, too, but the scheduler still balances between its CPUs.
    fn fall_back_to_root(
        &self,
        host: &Host,
        before: &str,
        refusal: &Refusal,
    ) -> Result<PerformedChange> {
        let left = &refusal.reason;
        if self.value == "isolated" {
            let note = Some(StepNote::RootPartition { answer: left.clone() });
            if before == "root" && host.read_line(self.path)? == "root" {
                // A shield that changes is such a partition already, and stays one.
                let already = PerformedChange::already_so();
                return Ok(PerformedChange { note, left: Some(before.to_owned()), ..already });
            }
            match host.write(self.path, "root").and_then(|()| host.read_line(self.path)) {
                Ok(fallback) if fallback == "root" => {
                    return Ok(PerformedChange { note, ..PerformedChange::changed(fallback) });
                }
                Err(error) if error.is_stop() => return Err(error),
                // The file may have the invalid `isolated`, so its value is restored as well.
                Ok(_) | Err(_) => {}
            }
        }
        let reason = format!("the kernel reports {left:?}");
        self.refuse_and_restore(host, before, Refusal { kind: refusal.kind, reason })
    }

    fn restore_value(&self, host: &Host, before: &str) -> Result<()> {
        let now = host.read_line(self.path)?;
        for value in self.compare.values_to_restore(before, &now) {
            host.write(self.path, &value)?;
        }
        Ok(())
    }
}

/// A file that was written.
struct RestoredFile<'a> {
    file: FileWrite<'a>,
    original: &'a str,
    left: Option<&'a str>,
}

impl RestoredFile<'_> {
    fn restore(
        &self,
        host: &Host,
        shield: &ShieldChanges<'_>,
        done: Option<&StepDone>,
    ) -> Result<RevertedChange> {
        let now = host.read_line(shown_by(host, self.file.path))?;
        if self.file.compare.is_original(&now, self.original) {
            return Ok(RevertedChange::already_original(done));
        }
        if done.is_none() && self.was_set_by_other_step(shield, &now) {
            return Ok(NOTHING);
        }
        if !self.is_ours(&now) {
            let drifted = ChangeFate::Drifted {
                now,
                ours: self.left.unwrap_or(self.file.value).to_owned(),
                original: self.original.to_owned(),
            };
            return Ok(drifted.into());
        }
        let values = self.values_to_write(&now);
        if let Some(by) = group_using_cpusets(host, self.file.path, &values) {
            if shield.made_directory_of(&format!("{by}/cpuset.cpus")) {
                let reason = format!(
                    "the cgroup {by} could not be removed and still uses the cpuset controller"
                );
                return Ok(ChangeFate::Failed { reason }.into());
            }
            let drifted = ChangeFate::Drifted {
                now,
                ours: self.file.value.to_owned(),
                original: self.original.to_owned(),
            };
            let note = StepNote::CpusetsStayEnabled { group: by };
            return Ok(RevertedChange { fate: Some(drifted), note: Some(note) });
        }
        for value in values {
            host.write(self.file.path, &value)?;
        }
        Ok(ChangeFate::Restored.into())
    }

    /// Writes the original again where the value differs. Returns the value that remains wrong.
    fn write_again(&self, host: &Host, by: RestoringUndo) -> Result<Option<String>> {
        let Some(now) = self.wrong_value(host)? else { return Ok(None) };
        if by == RestoringUndo::Earlier && !self.is_ours(&now) {
            return Ok(None);
        }
        for value in self.values_to_write(&now) {
            host.write(self.file.path, &value)?;
        }
        self.wrong_value(host)
    }

    /// The current value, if it is not the original.
    fn wrong_value(&self, host: &Host) -> Result<Option<String>> {
        let now = host.read_line(shown_by(host, self.file.path))?;
        Ok((!self.values_to_write(&now).is_empty()).then_some(now))
    }

    fn is_ours(&self, now: &str) -> bool {
        self.file.compare.same(now, self.file.value)
            || self.left.is_some_and(|left| self.file.compare.is_original(now, left))
    }

    /// Whether another step set the current value; then this step was not reached.
    fn was_set_by_other_step(&self, shield: &ShieldChanges<'_>, now: &str) -> bool {
        let mut values = shield.changes.iter().filter_map(|change| match change {
            Change::Write { path, value, .. } if path == self.file.path => Some(value),
            _ => None,
        });
        !self.file.compare.same(now, self.file.value)
            && values.any(|value| self.file.compare.same(now, value))
    }

    /// Returns the values to write. Words that other processes added stay; all other files get the
    /// original.
    fn values_to_write(&self, now: &str) -> Vec<String> {
        let words = self.file.compare.values_to_restore(self.original, now);
        if self.file.compare != ValueComparison::Member {
            return words;
        }
        let ours: BTreeSet<&str> = self.file.value.split_whitespace().map(without_sign).collect();
        words.into_iter().filter(|word| ours.contains(without_sign(word))).collect()
    }
}

/// A word of a list without the sign that adds or removes it.
fn without_sign(word: &str) -> &str {
    word.trim_start_matches(['+', '-'])
}
