//! What the user should know before boot files are changed. Pure.

use super::lint_finding::LintFinding;
use super::reason::{NextReason, ParameterSkipReason, UnknownReason};
use crate::with_text;
use cpushield_linux::CpuSet;
use cpushield_linux::text::first_releases::{LIST_PER_ISOLATION, ONE_ISOLATION_LIST};
use serde::Serialize;
use std::fmt;

/// What the user should know before boot files are changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
        #[serde(with = "with_text::WithText::<NextReason>")]
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
        #[serde(with = "with_text::WithText::<UnknownReason>")]
        why: UnknownReason,
    },
    /// A parameter was requested by its name, but no chosen kernel gets it.
    RequestInapplicable {
        /// The parameter's name.
        parameter: String,
        /// Why not.
        #[serde(with = "with_text::WithText::<ParameterSkipReason>")]
        reason: ParameterSkipReason,
    },
    /// It is unknown whether a chosen kernel has a parameter.
    ParameterUndecided {
        /// The kernel's version.
        version: String,
        /// The parameter's name.
        parameter: String,
        /// Whether later stable releases of this kernel's series have it.
        backported: bool,
    },
    /// The options of a chosen kernel are unknown.
    OptionsUnknown {
        /// The kernel's version.
        version: String,
        /// Its release; `None` when no file shows it.
        release: Option<String>,
    },
    /// A parameter of the plan takes CPUs out of the scheduling domains.
    DomainPlanned {
        /// These CPUs.
        cpus: CpuSet,
        /// The first chosen kernel that refuses a partition with these CPUs or may do so.
        refusing: Option<String>,
    },
    /// A chosen kernel would have two different lists.
    ListsDiffer {
        /// The kernel's version.
        version: String,
        /// The lists, and what the kernel does with them.
        #[serde(with = "with_text::WithText::<DifferentLists>")]
        lists: DifferentLists,
    },
    /// The experiment did not measure the row completely.
    RowIncomplete {
        /// The row's name.
        row: String,
        /// Why.
        why: String,
    },
    /// Something is wrong with the line that a kernel would get, and was not with the present one;
    /// or a word of the present one keeps a shield open.
    Finding {
        /// The kernel's version.
        version: String,
        /// What is wrong.
        finding: LintFinding,
    },
}

impl BootWarning {
    /// What to do, where that is known.
    #[must_use]
    pub fn advice(&self) -> Option<String> {
        match self {
            BootWarning::LaterKernelsLeftOut => {
                let advice =
                    "after installing one, run `cpushield boot undo`, then `cpushield boot apply`";
                Some(advice.into())
            }
            BootWarning::ParameterUndecided { .. } => {
                Some("find out with a trial boot: --trial".into())
            }
            BootWarning::Finding { finding, .. } => Some(finding.advice()),
            _ => None,
        }
    }
}

impl fmt::Display for BootWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BootWarning::LaterKernelsLeftOut => {
                f.write_str("kernels that are installed later do not get the parameters")?;
            }
            BootWarning::VersionUnknown { place, kernel } => write!(
                f,
                "{place}: the version of {kernel} is unknown, so the entry stays as it is"
            )?,
            BootWarning::DefaultGone { next } => next.fmt(f)?,
            BootWarning::NoSuchLabel { setting, label } => {
                write!(f, "{setting} is {label:?}, but no label of this name loads a kernel")?;
            }
            BootWarning::ParameterUnknown { version, parameter, why } => {
                write!(f, "kernel {version} does not support {parameter}: {why}")?;
            }
            BootWarning::RequestInapplicable { parameter, reason } => {
                write!(f, "{parameter} was requested, but does nothing: {reason}")?;
            }
            BootWarning::ParameterUndecided { version, parameter, backported } => {
                write!(f, "it is unknown whether kernel {version} supports {parameter}")?;
                if *backported {
                    f.write_str(": only later stable releases of its series do")?;
                }
            }
            BootWarning::OptionsUnknown { version, release } => match release {
                Some(release) => write!(
                    f,
                    "the configuration of kernel {version} is unknown: there is no \
                     /boot/config-{release}"
                )?,
                None => write!(f, "no file shows the release of kernel {version}")?,
            },
            BootWarning::DomainPlanned { cpus, refusing } => {
                write!(
                    f,
                    "with isolcpus=, the scheduler places no other program on CPU {cpus} until you \
                     boot without it; a program can still pin itself there"
                )?;
                if let Some(version) = refusing {
                    write!(
                        f,
                        "; kernel {version}: kernels from 6.7 to 6.17.2 cannot make these CPUs a \
                         cpuset partition"
                    )?;
                }
            }
            BootWarning::ListsDiffer { version, lists } => write!(f, "kernel {version}: {lists}")?,
            BootWarning::RowIncomplete { row, why } => {
                write!(f, "row {row:?} was not measured completely: {why}")?;
            }
            BootWarning::Finding { version, finding } => write!(f, "kernel {version}: {finding}")?,
        }
        self.advice().map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}

/// `nohz_full=` and `isolcpus=` with different lists: the kernel's version decides whether it takes
/// both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DifferentLists {
    /// `isolcpus=…`, which is on the line.
    pub isolcpus: String,
    /// `nohz_full=…`, the word to add.
    pub nohz_full: String,
    /// Whether this kernel is known to take both.
    pub both_taken: bool,
}

impl fmt::Display for DifferentLists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DifferentLists { isolcpus, nohz_full, both_taken } = self;
        write!(f, "{nohz_full} and {isolcpus} have different lists: ")?;
        match both_taken {
            true => f.write_str("this kernel accepts both"),
            false => write!(
                f,
                "mainline kernels from {ONE_ISOLATION_LIST} on and before {LIST_PER_ISOLATION} \
                 ignore {isolcpus}, and all others accept both; what this kernel does is unknown"
            ),
        }
    }
}
