//! What the user should know before boot files are changed. Pure.

use super::lint_finding::LintFinding;
use super::reason::{NextReason, ParameterSkipReason, UnknownReason};
use crate::with_text;
use cpushield_linux::CpuSet;
use cpushield_linux::text::first_releases::{LIST_PER_ISOLATION, ONE_ISOLATION_LIST};
use cpushield_sentence::Sentence;
use serde::Serialize;

/// What the user should know before boot files are changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "warning", rename_all = "kebab-case")]
pub enum BootWarning {
    /// kernels that are installed later do not get the parameters; after installing one, run
    /// `cpushield boot undo`, then `cpushield boot apply`.
    LaterKernelsLeftOut,
    /// {place}: the version of {kernel} is unknown, so the entry stays as it is.
    VersionUnknown {
        /// The file and line of the entry.
        place: String,
        /// The kernel's file.
        kernel: String,
    },
    /// {next}.
    DefaultGone {
        /// What the loader does then.
        #[serde(with = "with_text::WithText::<NextReason>")]
        next: NextReason,
    },
    /// {setting} is {label:?}, but no label of this name loads a kernel.
    NoSuchLabel {
        /// The setting that names it.
        setting: String,
        /// The label.
        label: String,
    },
    /// kernel {version} does not support {parameter}: {why}.
    ParameterUnknown {
        /// The kernel's version.
        version: String,
        /// The parameter's name.
        parameter: String,
        /// Why not.
        #[serde(with = "with_text::WithText::<UnknownReason>")]
        why: UnknownReason,
    },
    /// {parameter} was requested, but does nothing: {reason}.
    RequestInapplicable {
        /// The parameter's name.
        parameter: String,
        /// Why not.
        #[serde(with = "with_text::WithText::<ParameterSkipReason>")]
        reason: ParameterSkipReason,
    },
    /// it is unknown whether kernel {version} supports {parameter}{later}; find out with a trial
    /// boot: --trial.
    #[with(later = if *backported { ": only later stable releases of its series do" } else { "" })]
    ParameterUndecided {
        /// The kernel's version.
        version: String,
        /// The parameter's name.
        parameter: String,
        /// Whether later stable releases of this kernel's series have it.
        backported: bool,
    },
    /// {what}.
    #[with(what = match release {
        Some(release) => format!("the configuration of kernel {version} is unknown: there is no /boot/config-{release}"),
        None => format!("no file shows the release of kernel {version}"),
    })]
    OptionsUnknown {
        /// The kernel's version.
        version: String,
        /// Its release; `None` when no file shows it.
        release: Option<String>,
    },
    /// with isolcpus=, the scheduler places no other program on CPU {cpus} until you boot without
    /// it; a program can still pin itself there{refusal}.
    #[with(refusal = refusing.as_ref().map_or_else(String::new, |it| format!("; kernel {it}: kernels from 6.7 to 6.17.2 cannot make these CPUs a cpuset partition")))]
    DomainPlanned {
        /// These CPUs.
        cpus: CpuSet,
        /// The first chosen kernel that refuses a partition with these CPUs or may do so.
        refusing: Option<String>,
    },
    /// kernel {version}: {lists}.
    ListsDiffer {
        /// The kernel's version.
        version: String,
        /// The lists, and what the kernel does with them.
        #[serde(with = "with_text::WithText::<DifferentLists>")]
        lists: DifferentLists,
    },
    /// row {row:?} was not measured completely: {why}.
    RowIncomplete {
        /// The row's name.
        row: String,
        /// Why.
        why: String,
    },
    /// kernel {version}: {finding}; {advice}.
    #[with(advice = finding.advice())]
    Finding {
        /// The kernel's version.
        version: String,
        /// What is wrong.
        finding: LintFinding,
    },
}

/// {nohz_full} and {isolcpus} have different lists: {taken}.
///
/// `nohz_full=` and `isolcpus=` with different lists: the kernel's version decides whether it takes
/// both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[with(taken = Self::taken(*both_taken, isolcpus))]
pub struct DifferentLists {
    /// `isolcpus=…`, which is on the line.
    pub isolcpus: String,
    /// `nohz_full=…`, the word to add.
    pub nohz_full: String,
    /// Whether this kernel is known to take both.
    pub both_taken: bool,
}

impl DifferentLists {
    /// What the kernel does with the lists.
    fn taken(both: bool, isolcpus: &str) -> String {
        match both {
            true => "this kernel accepts both".to_owned(),
            false => format!(
                "mainline kernels from {ONE_ISOLATION_LIST} on and before {LIST_PER_ISOLATION} \
                 ignore {isolcpus}, and all others accept both; what this kernel does is unknown"
            ),
        }
    }
}
