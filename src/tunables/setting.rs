//! [`FileSetting`]: a tunable that sets one kernel file to one value. Pure.

use super::want::{WantedChange, setting};
use super::{Tunable, WantedChanges};
use crate::causes::Cause;
use crate::causes::culprit::CulpritPattern;
use crate::change::{Risk, ValueComparison};
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::machine::{Machine, TunableReading};
use crate::documents::plan::{MachineWideEffect, OffReason, Shield};
use crate::policy::Workload;

/// One kernel file and its value while a shield is active.
#[derive(Debug)]
pub(super) struct FileSetting {
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    pub(super) page: &'static str,
    /// The only file that is read and written.
    pub(super) file: &'static [&'static str; 1],
    pub(super) value: &'static str,
    pub(super) compare: ValueComparison,
    /// Why, in one sentence.
    pub(super) reason: &'static str,
    pub(super) removes: &'static [Cause],
    pub(super) culprits: &'static [CulpritPattern],
    pub(super) risk: Risk,
    /// Why it is off unless requested; `None` when it is on.
    pub(super) optional: fn(Workload) -> Option<OffReason>,
    /// See [`Tunable::disturbs_others`].
    pub(super) disturbs: Option<MachineWideEffect>,
    /// Whether it applies to this machine, or else why not.
    pub(super) applies: fn(&Machine) -> Result<(), InapplicableReason>,
}

/// For settings that are a static key: changing one patches the kernel's code, which interrupts
/// every CPU (`text_poke_sync()`, arch/x86/kernel/alternative.c, 6.12).
pub(super) const PATCHES: Option<MachineWideEffect> = Some(MachineWideEffect::PatchesKernel);

/// For settings that are on for every workload.
pub(super) fn on_by_default(_workload: Workload) -> Option<OffReason> {
    None
}

/// For settings that apply to every machine with the file.
pub(super) fn anywhere(_machine: &Machine) -> Result<(), InapplicableReason> {
    Ok(())
}

/// For intervals, which are made longer and never shorter.
///
/// # Errors
/// The interval is already longer.
pub(super) fn check_shorter(
    machine: &Machine,
    file: &str,
    value: u64,
) -> Result<(), InapplicableReason> {
    let now = setting(machine, file).map(str::trim);
    match now.filter(|now| now.parse::<u64>().is_ok_and(|number| number > value)) {
        Some(now) => {
            let (file, now) = (file.to_owned(), now.to_owned());
            Err(InapplicableReason::IntervalLonger { file, now })
        }
        None => Ok(()),
    }
}

impl Tunable for FileSetting {
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
        self.file
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

    fn wants(&self, machine: &Machine, _shield: &Shield) -> WantedChanges {
        let [file] = self.file;
        if let Err(why) = (self.applies)(machine) {
            return WantedChanges::Nothing(why);
        }
        match machine.settings.get(*file) {
            None | Some(TunableReading::Absent)
                if file.starts_with("/proc") && !machine.shows_proc() =>
            {
                WantedChanges::Nothing(InapplicableReason::SettingUnknown {
                    file: (*file).to_owned(),
                })
            }
            None | Some(TunableReading::Absent) => {
                WantedChanges::Nothing(InapplicableReason::SettingAbsent {
                    file: (*file).to_owned(),
                })
            }
            Some(TunableReading::Unreadable(answer)) => {
                let (file, answer) = ((*file).to_owned(), answer.clone());
                WantedChanges::Nothing(InapplicableReason::SettingUnreadable { file, answer })
            }
            Some(TunableReading::Value(now)) => WantedChanges::Changes(vec![WantedChange::write(
                Some(now.clone()),
                file,
                self.value,
                self.compare,
                self.reason,
            )]),
        }
    }
}
