//! What many tunables share: one file with one value. Pure.

use super::WantedChanges;
use super::want::{WantedChange, setting};
use crate::change::ValueComparison;
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::machine::{Machine, TunableReading};
use crate::documents::plan::MachineWideEffect;

/// For settings that are a static key: changing one patches the kernel's code, which interrupts
/// every CPU (`text_poke_sync()`, arch/x86/kernel/alternative.c, 6.12).
pub(super) const PATCHES: Option<MachineWideEffect> = Some(MachineWideEffect::PatchesKernel);

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

/// The changes, or that no shielded CPU has this file.
pub(super) fn changes_of(wanted: Vec<WantedChange>, file: &str) -> WantedChanges {
    if wanted.is_empty() {
        return WantedChanges::Nothing(InapplicableReason::CpuFileAbsent { file: file.to_owned() });
    }
    WantedChanges::Changes(wanted)
}
