//! The warnings of a boot plan: what the user should know before boot files are changed. Pure.

use super::document::{BootKernel, WantedParameter};
use super::line::{self, DifferentLists};
use super::loaders::{FoundLoader, LoaderEntry};
use super::reason::{NextReason, UnknownReason};
use crate::plan::Shield;
use crate::survey::Machine;
use crate::{tunables, with_text};
use cpushield_linux::CpuSet;
use cpushield_linux::text::kernel_version::KernelVersion;
use serde::Serialize;
use std::fmt;

/// The parameter for machines with managed interrupts.
const MANAGED_IRQ: &str = "isolcpus-managed-irq";

/// What the user should know before boot files are changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "warning", rename_all = "kebab-case")]
pub enum BootWarning {
    /// A kernel that is installed later does not get the parameters.
    LaterKernelsLeftOut,
    /// The version of an entry's kernel is unknown.
    VersionUnknown {
        /// The file and line of the entry.
        place: String,
        /// The kernel's file.
        kernel: String,
    },
    /// The configured entry is not in the menu.
    DefaultGone {
        /// What the loader does then.
        #[serde(with = "with_text")]
        next: NextReason,
    },
    /// The configured label loads no kernel, or does not exist.
    NoSuchLabel {
        /// The setting that names it.
        setting: String,
        /// The label.
        label: String,
    },
    /// A chosen kernel does not know a parameter.
    ParameterUnknown {
        /// The kernel's version.
        version: String,
        /// The parameter's name.
        parameter: String,
        /// Why not.
        #[serde(with = "with_text")]
        why: UnknownReason,
    },
    /// The options of a chosen kernel are unknown.
    OptionsUnknown {
        /// The kernel's version.
        version: String,
    },
    /// The running kernel was booted with `isolcpus=`.
    IsolcpusBooted {
        /// Its CPUs.
        cpus: CpuSet,
    },
    /// A chosen kernel would have two different lists.
    ListsDiffer {
        /// The kernel's version.
        version: String,
        /// The lists, and what the kernel does with them.
        #[serde(with = "with_text")]
        lists: DifferentLists,
    },
    /// Only a parameter that was not requested keeps some interrupts off these CPUs.
    ManagedIrqs {
        /// The parameter.
        parameter: String,
    },
}

impl BootWarning {
    /// What to do, where that is known.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            BootWarning::LaterKernelsLeftOut => {
                Some("after installing one, run `cpushield boot undo` and apply again")
            }
            BootWarning::IsolcpusBooted { .. } => Some("remove it from the loader's configuration"),
            BootWarning::ManagedIrqs { .. } => Some("--on isolcpus-managed-irq adds it"),
            _ => None,
        }
    }
}

impl fmt::Display for BootWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BootWarning::LaterKernelsLeftOut => {
                f.write_str("a kernel that is installed later does not get the parameters")?;
            }
            BootWarning::VersionUnknown { place, kernel } => write!(
                f,
                "{place}: the version of {kernel} is unknown, so the entry stays as it is"
            )?,
            BootWarning::DefaultGone { next } => next.fmt(f)?,
            BootWarning::NoSuchLabel { setting, label } => {
                write!(f, "{setting} is {label:?}, which is not a label with a kernel")?;
            }
            BootWarning::ParameterUnknown { version, parameter, why } => {
                write!(f, "kernel {version} does not know {parameter}: {why}")?;
            }
            BootWarning::OptionsUnknown { version } => write!(
                f,
                "the options of kernel {version} are unknown: there is no /boot/config-{version}"
            )?,
            BootWarning::IsolcpusBooted { cpus } => write!(
                f,
                "the running kernel has isolcpus={cpus}: a shield does not need it, and kernels \
                 from 6.7 to 6.17.2 cannot make those CPUs a cpuset partition"
            )?,
            BootWarning::ListsDiffer { version, lists } => write!(f, "kernel {version}: {lists}")?,
            BootWarning::ManagedIrqs { parameter } => {
                write!(
                    f,
                    "this machine has interrupts that only {parameter} keeps off these CPUs"
                )?;
            }
        }
        self.advice().map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}

/// The loader's warnings, parameters that kernels do not know, and `isolcpus=` of the running one.
pub(super) fn collect(
    found: &FoundLoader,
    machine: &Machine,
    kernels: &[BootKernel],
    different_lists: Vec<BootWarning>,
) -> Vec<BootWarning> {
    let mut warnings = found.warnings.clone();
    warnings.extend(different_lists);
    for kernel in kernels.iter().filter(|kernel| kernel.chosen) {
        for unknown in &kernel.unknown {
            warnings.push(BootWarning::ParameterUnknown {
                version: kernel.version.clone(),
                parameter: unknown.name.clone(),
                why: unknown.why.clone(),
            });
        }
        if kernel.realtime.is_none() {
            warnings.push(BootWarning::OptionsUnknown { version: kernel.version.clone() });
        }
    }
    if !machine.isolation.isolcpus_domain.is_empty() {
        let cpus = machine.isolation.isolcpus_domain.clone();
        warnings.push(BootWarning::IsolcpusBooted { cpus });
    }
    warnings
}

/// Chosen kernels whose `nohz_full=` and `isolcpus=` would have different lists, and what they do
/// then.
pub(super) fn different_lists(
    targets: &[&LoaderEntry],
    parameters: &[WantedParameter],
) -> Vec<BootWarning> {
    let words: Vec<String> = parameters.iter().map(|wanted| wanted.word.clone()).collect();
    let mut warnings = Vec::new();
    for entry in targets {
        let version = KernelVersion::from_release(&entry.version);
        if let Some(lists) = line::different_lists(&entry.args, &words, version) {
            let version = entry.version.clone();
            warnings.push(BootWarning::ListsDiffer { version, lists });
        }
    }
    warnings
}

/// Recommends `--on isolcpus-managed-irq` on a machine that has such interrupts.
pub(super) fn managed_irqs(
    machine: &Machine,
    shield: &Shield,
    parameters: &[WantedParameter],
) -> Option<BootWarning> {
    if parameters.iter().any(|it| it.name == MANAGED_IRQ) {
        return None;
    }
    let tunable = tunables::named("irq-affinity")?;
    let remains = tunable.remains(machine, shield);
    let advice = remains.boot.first()?;
    Some(BootWarning::ManagedIrqs { parameter: advice.parameter.to_string() })
}
