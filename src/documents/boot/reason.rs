//! Why a boot plan is as it is: its CPUs and kernels, the parameters that it leaves out, and the
//! entry that boots next. Pure.

use crate::documents::plan::{ChoiceReason, named};
use crate::with_text;
use cpushield_linux::CpuSet;
use cpushield_linux::text::kernel_version::KernelVersion;
use cpushield_sentence::Sentence;
use serde::Serialize;
use std::fmt;

/// Why these CPUs, or these kernels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum BootReason {
    /// {cpus} can be shielded at any time after a boot with these parameters; the core of the boot
    /// CPU and one core of each other memory node remain for housekeeping.
    #[with(cpus = named(cpus))]
    EveryShieldableCpu {
        /// These CPUs.
        cpus: CpuSet,
    },
    /// with isolcpus=, the scheduler places no other program on {cpus} until you boot without it; a
    /// program can still pin itself there; to choose other CPUs: --cpus LIST.
    #[with(cpus = named(cpus))]
    IsolatedCore {
        /// The CPUs of that core.
        cpus: CpuSet,
    },
    /// The running boot has a list with these CPUs, but they share a core with the boot CPU.
    #[print(write_boot_sibling(f, cpus, boot))]
    BootSibling {
        /// These CPUs.
        cpus: CpuSet,
        /// The boot CPU.
        boot: usize,
    },
    /// row {row:?} of {file} was measured with these parameters.
    MeasuredRow {
        /// The row's name.
        row: String,
        /// The file with the experiment.
        file: String,
    },
    /// real-time kernels get the parameters; other kernels stay as they are.
    RealtimeKernels,
    /// could not list the installed kernels.
    KernelsUnlisted,
    /// {realtime}, so the default kernel {version} gets the parameters; {first}, the first kernel
    /// in the menu, does not.
    DefaultKernel {
        /// What is known about real-time kernels.
        realtime: RealtimeAbsence,
        /// The version that boots by default.
        version: String,
        /// The version of the first entry.
        first: String,
    },
    /// {realtime}, so the first kernel in the menu gets the parameters.
    FirstKernel {
        /// What is known about real-time kernels.
        realtime: RealtimeAbsence,
    },
    /// Why the requested CPUs were chosen.
    #[serde(untagged)]
    #[delegate]
    Choice(ChoiceReason),
}

/// What is known where no real-time kernel was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RealtimeAbsence {
    /// there is no real-time kernel.
    None,
    /// no kernel is known to be a real-time kernel.
    Unknown,
}

fn write_boot_sibling(f: &mut fmt::Formatter<'_>, cpus: &CpuSet, boot: &usize) -> fmt::Result {
    let (is, its) = if cpus.len() == 1 { ("is", "its") } else { ("are", "their") };
    let cpus = named(cpus);
    write!(f, "{cpus} {is} left out: {its} sibling CPU {boot} is the boot CPU")
}

/// Why a parameter is not wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "skipped", rename_all = "kebab-case")]
pub enum ParameterSkipReason {
    /// switched off by --off or by the policy.
    SwitchedOff,
    /// {why}.
    Never {
        /// Why.
        why: &'static str,
    },
    /// only for CPUs that you name with --cpus LIST (--on {name} adds it anyway).
    ForNamedCpus {
        /// Its name for `--on`.
        name: &'static str,
    },
    /// {why} (--on {name}).
    OnRequest {
        /// Why.
        why: &'static str,
        /// Its name for `--on`.
        name: &'static str,
    },
    /// unknown: the kernel's configuration is not installed, and its version does not show it (--on
    /// {name} writes the parameter, --trial tests it).
    Undecided {
        /// Its name for `--on`.
        name: &'static str,
    },
    /// None of the chosen kernels knows it.
    #[delegate]
    UnknownToKernels {
        /// Why not.
        #[serde(with = "with_text::WithText::<UnknownReason>")]
        why: UnknownReason,
    },
    /// the running kernel does not support it: {why}.
    UnknownToRunning {
        /// Why not.
        #[serde(with = "with_text::WithText::<UnknownReason>")]
        why: UnknownReason,
    },
}

impl ParameterSkipReason {
    /// Whether it is not known if the kernels have the parameter.
    #[must_use]
    pub fn is_undecided(&self) -> bool {
        matches!(self, ParameterSkipReason::Undecided { .. })
    }

    /// Whether `--on NAME` adds the parameter.
    #[must_use]
    pub fn is_on_request(&self) -> bool {
        matches!(
            self,
            ParameterSkipReason::ForNamedCpus { .. } | ParameterSkipReason::OnRequest { .. }
        )
    }
}

/// Why a kernel does not know a parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "unknown", rename_all = "kebab-case")]
pub enum UnknownReason {
    /// {arch} has no such parameter.
    Arch {
        /// The architecture, as in `uname -m`.
        arch: String,
    },
    /// Linux {since} introduced it.
    TooOld {
        /// The first kernel that knows it.
        since: String,
    },
    /// built without {options}.
    #[with(options = options.join(" or "))]
    NotBuilt {
        /// The options of which one must be set.
        options: Vec<&'static str>,
    },
}

impl UnknownReason {
    /// The reason for a kernel older than this version.
    pub(crate) fn too_old(since: KernelVersion) -> UnknownReason {
        UnknownReason::TooOld { since: since.to_string() }
    }
}

/// The entry that boots next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NextBoot {
    /// Its title in the menu.
    pub title: String,
    /// Why that one.
    #[serde(with = "with_text::WithText::<NextReason>")]
    pub why: NextReason,
}

impl fmt::Display for NextBoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.title, self.why)
    }
}

/// Why an entry boots next.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum NextReason {
    /// it is the only entry.
    OnlyEntry,
    /// it is the first entry.
    #[default]
    FirstEntry,
    /// it is the first label.
    FirstLabel,
    /// GRUB_DEFAULT=saved, but no entry is saved.
    NothingSaved,
    /// {setting}.
    Configured {
        /// The setting.
        setting: String,
    },
    /// {setting}, for one boot.
    ForOneBoot {
        /// The setting.
        setting: &'static str,
    },
    /// {setting} is {entry:?}; no file has the command line of this entry, so it boots without the
    /// parameters.
    NotAmongFiles {
        /// The setting that names it.
        setting: String,
        /// The entry.
        entry: String,
    },
    /// {setting} names {entry:?}, which is not in the menu, so GRUB boots the first entry of that
    /// menu.
    NotInMenu {
        /// The setting that names it.
        setting: String,
        /// The entry.
        entry: String,
    },
}

impl NextReason {
    /// The reason for an entry that a setting names.
    pub(crate) fn configured(setting: &str) -> NextReason {
        NextReason::Configured { setting: setting.to_owned() }
    }
}
