//! The documents about booting: the wanted parameters ([`BootPlan`]), the original files
//! ([`BootJournal`]) and the present state ([`BootStatus`]). Plain data.

mod answers;
mod at_every_boot;
mod change;
mod difference;
mod doubt;
mod earlier_journal;
mod entry_change;
mod foreign_word;
mod kernel_rule;
mod kernel_words;
mod lint_effect;
mod lint_finding;
mod reason;
mod saved_file;
mod warning;
mod word_fault;

pub use answers::{ConcludedTrial, FileFate, RemovedParameters, UndoneParameters};
pub use at_every_boot::AtEveryBoot;
pub use change::ParameterChange;
pub use difference::{BootDifference, UndoNote};
pub use doubt::{TrialDoubt, TrialReason};
pub use earlier_journal::EarlierJournal;
pub use entry_change::{EntryChange, EntryPurpose, SparedEntry};
pub use foreign_word::{ForeignWord, WordRemoval, WordState};
pub use kernel_rule::KernelRule;
pub use kernel_words::KernelWords;
pub use lint_effect::{BadListEffect, EffectSource, OverrideEffect};
pub use lint_finding::LintFinding;
pub use reason::{
    BootReason, NextBoot, NextReason, ParameterSkipReason, RealtimeAbsence, UnknownReason,
};
pub use saved_file::{FileBytes, SavedFile};
pub use warning::{BootWarning, DifferentLists};
pub use word_fault::{FaultyWord, UnreadableModule, WordFault};

use crate::documents::machine::RealtimeKind;
use crate::with_text;
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};

/// The version of these documents' format.
pub const SCHEMA: u32 = 1;

/// Kernel parameters wanted, and for which kernels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BootPlan {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The boot loader, `grub`; `None` when it is unknown.
    pub loader: Option<String>,
    /// Whether a kernel that is installed later is covered too.
    pub covers_later: bool,
    /// CPUs that are shielded or may be later.
    pub cpus: CpuSet,
    /// All others.
    pub housekeeping: CpuSet,
    /// CPUs that a trial shields and watches before the parameters become permanent.
    pub proves: CpuSet,
    /// Why these CPUs and these kernels.
    #[serde(with = "with_text::TextList::<BootReason>")]
    pub why: Vec<BootReason>,
    /// The parameters.
    pub parameters: Vec<WantedParameter>,
    /// Parameters that are not wanted, each with the reason.
    pub skipped: Vec<SkippedParameter>,
    /// Which kernels get them.
    pub rule: KernelRule,
    /// The kernels of the boot menu.
    pub kernels: Vec<BootKernel>,
    /// The change of the command line of each entry.
    pub entries: Vec<EntryChange>,
    /// Entries that never get parameters, because they are for repairs.
    pub spared: Vec<SparedEntry>,
    /// Which entry boots next before any change, and why.
    pub next: Option<NextBoot>,
    /// What the user should know first.
    #[serde(with = "with_text::TextList::<BootWarning>")]
    pub warnings: Vec<BootWarning>,
    /// Parameters that other programs have set.
    #[serde(with = "with_text::TextList::<ForeignWord>")]
    pub foreign: Vec<ForeignWord>,
    /// The steps for the user where nothing is written.
    pub instructions: Vec<String>,
}

/// One parameter that is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WantedParameter {
    /// Its name for `explain`.
    pub name: String,
    /// The word for the command line.
    pub word: String,
    /// The kernels that get it, where other chosen ones do not; else empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<String>,
    /// What it does.
    pub reason: String,
    /// What has the same effect on the running kernel; `None` when nothing does.
    pub substitute: Option<String>,
    /// Whether the running kernel was booted with it.
    pub booted: bool,
    /// Whether it is in force there; `None` when the kernel was not booted with it, or does not
    /// show it.
    pub in_force: Option<bool>,
    /// The same parameter with another value, which it was booted with.
    pub instead: Option<String>,
    /// Whether every chosen kernel already gets it, from the loader's own configuration.
    pub already: bool,
}

/// One parameter that is not wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SkippedParameter {
    /// Its name for `explain`.
    pub name: String,
    /// Why.
    #[serde(with = "with_text::WithText::<ParameterSkipReason>")]
    pub reason: ParameterSkipReason,
}

/// One kernel of the menu.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BootKernel {
    /// Its name in the menu: its release, or the name of its file without `vmlinuz-`.
    pub version: String,
    /// Its release, like `uname -r`; `None` when no file shows it.
    pub release: Option<String>,
    /// What the menu shows.
    pub title: String,
    /// Whether it is a real-time kernel; `None` when unknown.
    pub realtime: Option<bool>,
    /// What makes it a real-time kernel; `None` when it is none, or when that is unknown.
    pub realtime_kind: Option<RealtimeKind>,
    /// Whether it gets the parameters.
    pub chosen: bool,
    /// Whether its command line has `panic=`.
    pub panics: bool,
}

/// The files as they were before the first write. Kept until they are restored, across reboots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootJournal {
    /// `cpushield-boot`.
    pub journal: String,
    /// [`SCHEMA`].
    pub schema: u32,
    /// The version of the program that wrote it.
    pub version: String,
    /// The boot in which it was written.
    pub boot_id: Option<String>,
    /// The boot loader.
    pub loader: String,
    /// Which kernels get the words.
    pub rule: KernelRule,
    /// The words.
    pub words: Vec<String>,
    /// Kernels that were chosen.
    pub kernels: Vec<String>,
    /// The same by kernel; some may get none.
    pub groups: Vec<KernelWords>,
    /// CPUs that are shielded or may be later.
    pub cpus: CpuSet,
    /// Whether all files were written.
    pub complete: bool,
    /// Whether the entries were to follow all others; `None` in an old journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_default: Option<bool>,
    /// The trial that is under way.
    pub trial: Option<TrialBoot>,
    /// The boot in which `--kexec` loaded a kernel with the words; `None` when no such kernel is
    /// loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded: Option<String>,
    /// Each change of the words since the files had their original text, the first one first.
    pub history: Vec<ParameterChange>,
    /// What is written over; `None`: no earlier apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<EarlierJournal>,
    /// The files, in the order in which they are written.
    pub files: Vec<SavedFile>,
}

/// A trial boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TrialBoot {
    /// The entry that boots once.
    pub entry: String,
    /// Its words.
    pub words: Vec<String>,
    /// Whether a systemd unit concludes the trial after the boot.
    pub unit: bool,
    /// Whether the entries follow all others even when they are permanent.
    pub keep_default: bool,
    /// CPUs that are shielded and watched after the boot.
    pub proves: CpuSet,
    /// The argument of the reboot that starts it (`0 tryboot`); `None`: any reboot does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reboot: Option<String>,
    /// What must come up in the trial's boot, or else the machine falls back; `None`: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<TrialDeadline>,
    /// Units that had already failed; only the failure of others counts against the trial.
    pub failed: Vec<String>,
}

/// What a user needs to reach the machine. Without it, no one could revert the trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TrialGoal {
    /// a login.
    Login,
    /// a login and a network.
    Network,
}

/// What must come up in a trial's boot, and by when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TrialDeadline {
    /// What must come up.
    pub goal: TrialGoal,
    /// Seconds after the start of the kernel.
    pub within_s: u64,
}

/// The result of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrialEnd {
    /// The entry that was tried.
    pub entry: String,
    /// How it ended.
    pub end: SettledAs,
    /// Why.
    #[serde(with = "with_text::WithText::<TrialReason>")]
    pub why: TrialReason,
    /// Files that were written or restored.
    pub files: Vec<String>,
}

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SettledAs {
    /// It passed; the parameters are permanent.
    Permanent,
    /// It failed; every file is as it was.
    TakenBack,
}

/// What a write of kernel parameters did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WrittenParameters {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The boot loader.
    pub loader: String,
    /// The words that were written.
    pub words: Vec<String>,
    /// The words of an earlier apply that these replace; a trial does so only when it has passed.
    /// Empty when there was none.
    pub replaced: Vec<String>,
    /// The kernels that have them.
    pub kernels: Vec<String>,
    /// The same by kernel; some may have none.
    pub groups: Vec<KernelWords>,
    /// Files that were written; empty when nothing had to change.
    pub files: Vec<String>,
    /// Which entry boots next, and why.
    pub next: Option<NextBoot>,
    /// Whether that entry has the words.
    pub next_has: bool,
    /// The id of cpushield's first entry that has them; `None` when they were added to existing
    /// entries.
    pub entry: Option<String>,
    /// How to boot that entry.
    pub choice: Option<String>,
    /// The titles of the menu's entries without the words.
    pub entries_without: Vec<String>,
    /// How to reach the menu.
    pub menu: String,
    /// The trial, when the entry boots once.
    pub trial: Option<TrialBoot>,
}

/// The init system that applies the shield at boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum InitSystem {
    /// systemd.
    Systemd,
    /// OpenRC.
    Openrc,
    /// Scripts with LSB headers, as Debian's and Devuan's sysvinit runs them.
    Sysv,
}

/// The shield that is applied at every boot: what `cpushield enable` wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Enabled {
    /// The init system.
    pub init: InitSystem,
    /// The file that applies the shield.
    pub path: String,
    /// The file that bans the shielded CPUs when irqbalance starts; `None` in an old journal.
    pub ban_path: Option<String>,
    /// The arguments of `cpushield`.
    pub words: Vec<String>,
    /// The name of the shield; `None` with a policy file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shield: Option<String>,
    /// The policy file whose shields are all applied; `None` for one shield.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The units of the helper for operators; empty without operators, or without systemd.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operator_paths: Vec<String>,
}

/// Which parameters are written, booted and in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BootStatus {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The boot loader of this machine.
    pub loader: Option<String>,
    /// The words that `boot apply` wrote for the running kernel, or all that it wrote if this
    /// kernel is not one of the chosen ones. Empty when it wrote nothing.
    pub words: Vec<WordStatus>,
    /// The words of each chosen kernel; empty when `boot apply` wrote nothing.
    pub groups: Vec<KernelWords>,
    /// Each change of the words since the files had their original text, the first one first.
    pub history: Vec<ParameterChange>,
    /// Which kernels get them.
    pub rule: Option<KernelRule>,
    /// Whether a kernel that is installed later is covered too.
    pub covers_later: bool,
    /// Kernels with an entry that has all words.
    pub kernels: Vec<String>,
    /// The titles of the menu's entries with all words; empty when `boot apply` wrote nothing.
    pub entries_with: Vec<String>,
    /// The titles of the entries without them; empty when `boot apply` wrote nothing.
    pub entries_without: Vec<String>,
    /// The running kernel.
    pub running: Option<String>,
    /// Which entry boots next, and why.
    pub next: Option<NextBoot>,
    /// The trial that is under way.
    pub trial: Option<TrialBoot>,
    /// The state of that trial.
    pub trial_state: Option<TrialState>,
    /// The result of the last trial.
    pub last_trial: Option<TrialEnd>,
    /// The shield that is applied at every boot (`cpushield enable`).
    pub enabled: Option<Enabled>,
    /// What differs from what was written, and what to do.
    #[serde(with = "with_text::TextList::<BootDifference>")]
    pub differs: Vec<BootDifference>,
    /// Parameters that other programs have set for the next boot.
    #[serde(with = "with_text::TextList::<ForeignWord>")]
    pub foreign: Vec<ForeignWord>,
    /// What else is wrong with the command line of the running kernel.
    #[serde(with = "with_text::TextList::<LintFinding>")]
    pub findings: Vec<LintFinding>,
}

/// What is wrong with the command line of the running kernel: `survey --lint`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommandLineLint {
    /// [`SCHEMA`].
    pub schema: u32,
    /// `/proc/cmdline`.
    pub cmdline: String,
    /// What is wrong; empty when nothing is.
    #[serde(with = "with_text::TextList::<LintFinding>")]
    pub findings: Vec<LintFinding>,
}

/// The state of a trial, as far as the running boot shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum TrialState {
    /// The machine was not rebooted since the trial was armed.
    Armed,
    /// The machine was rebooted, but the loader is still set to boot the trial's entry once.
    NotTaken,
    /// This boot is the trial; it was not concluded yet.
    Booted,
    /// The trial booted and was never concluded; the machine is back on another entry.
    FellBack {
        /// When this boot began, in seconds since 1970.
        since_s: Option<u64>,
    },
}

/// The status of one word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WordStatus {
    /// The word.
    pub word: String,
    /// Whether a menu entry has it.
    pub written: bool,
    /// Whether the running kernel was booted with it.
    pub booted: bool,
    /// What the kernel shows for it, `nohz_full: 1-3`; `None` when it shows nothing.
    pub shows: Option<String>,
    /// Whether that is what the word requests; `None` when the kernel shows nothing.
    pub in_force: Option<bool>,
    /// The kernel's boot messages when it did not accept the word as written.
    pub refusals: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_survive_json(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let text = serde_json::to_string(&FileBytes::new(&bytes)).unwrap();
            let back: FileBytes = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(back.get(), Some(bytes));
        }
    }
}
