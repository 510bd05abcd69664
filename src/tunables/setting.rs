//! [`RuntimeTunable`]: a tunable whose facts are data, and what many of them share. Pure.

use super::want::{WantedChange, setting};
use super::{Tunable, WantedChanges};
use crate::causes::Cause;
use crate::causes::culprit::CulpritPattern;
use crate::change::{Risk, ValueComparison};
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::machine::{Machine, TunableReading};
use crate::documents::plan::{MachineWideEffect, OffReason, Shield};
use crate::policy::Workload;

/// What a tunable is, and the functions that decide what it does.
#[derive(Debug)]
pub(super) struct RuntimeTunable {
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    pub(super) page: &'static str,
    pub(super) reads: &'static [&'static str],
    pub(super) removes: &'static [Cause],
    pub(super) culprits: &'static [CulpritPattern],
    pub(super) risk: Risk,
    /// Why it is off unless requested; `None` when it is on.
    pub(super) optional: fn(Workload) -> Option<OffReason>,
    /// See [`Tunable::disturbs_others`].
    pub(super) disturbs: Option<MachineWideEffect>,
    /// See [`Tunable::wants`].
    pub(super) wants: fn(&Machine, &Shield) -> WantedChanges,
}

/// For settings that are a static key: changing one patches the kernel's code, which interrupts
/// every CPU (`text_poke_sync()`, arch/x86/kernel/alternative.c, 6.12).
pub(super) const PATCHES: Option<MachineWideEffect> = Some(MachineWideEffect::PatchesKernel);

/// For settings that are on for every workload.
pub(super) fn on_by_default(_workload: Workload) -> Option<OffReason> {
    None
}

/// Makes an interval longer, but never shorter.
pub(super) fn set_interval(
    machine: &Machine,
    file: &str,
    value: u64,
    reason: &str,
) -> WantedChanges {
    let now = setting(machine, file).map(str::trim);
    match now.filter(|now| now.parse::<u64>().is_ok_and(|number| number > value)) {
        Some(now) => {
            let (file, now) = (file.to_owned(), now.to_owned());
            WantedChanges::Nothing(InapplicableReason::IntervalLonger { file, now })
        }
        None => set_file(machine, file, &value.to_string(), ValueComparison::Text, reason),
    }
}

/// Sets one kernel file to one value.
pub(super) fn set_file(
    machine: &Machine,
    path: &str,
    value: &str,
    compare: ValueComparison,
    reason: &str,
) -> WantedChanges {
    let file = path.to_owned();
    match machine.settings.get(path) {
        None | Some(TunableReading::Absent)
            if path.starts_with("/proc") && !machine.shows_proc() =>
        {
            WantedChanges::Nothing(InapplicableReason::SettingUnknown { file })
        }
        None | Some(TunableReading::Absent) => {
            WantedChanges::Nothing(InapplicableReason::SettingAbsent { file })
        }
        Some(TunableReading::Unreadable(answer)) => {
            let answer = answer.clone();
            WantedChanges::Nothing(InapplicableReason::SettingUnreadable { file, answer })
        }
        Some(TunableReading::Value(_)) => {
            let write = WantedChange::write_setting(machine, path, value, compare, reason);
            WantedChanges::Changes(vec![write])
        }
    }
}

impl Tunable for RuntimeTunable {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn page(&self) -> &'static str {
        self.page
    }

    fn reads(&self) -> &'static [&'static str] {
        self.reads
    }

    fn removes(&self) -> &'static [Cause] {
        self.removes
    }

    fn culprits(&self) -> &'static [CulpritPattern] {
        self.culprits
    }

    fn risk(&self) -> Risk {
        self.risk
    }

    fn optional(&self, workload: Workload) -> Option<OffReason> {
        (self.optional)(workload)
    }

    fn disturbs_others(&self) -> Option<MachineWideEffect> {
        self.disturbs
    }

    fn wants(&self, machine: &Machine, shield: &Shield) -> WantedChanges {
        (self.wants)(machine, shield)
    }
}
