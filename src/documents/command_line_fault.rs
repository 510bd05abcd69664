//! [`CommandLineFault`]: a word of a command line that the kernel ignores, replaces or accepts in
//! part. Pure data.

use cpushield_linux::CpuSet;
use cpushield_linux::text::first_releases::LIST_PER_ISOLATION;
use cpushield_linux::text::kernel_version::KernelVersion;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A parameter that the kernel does not accept as written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "fault", rename_all = "kebab-case")]
pub enum CommandLineFault {
    /// Another parameter came first with another list; the kernel ignores this one.
    #[print(write_list_differs(f, refused, kept, one_list))]
    ListDiffers {
        /// The parameter that is ignored.
        refused: String,
        /// The parameter that stays in force.
        kept: String,
        /// Whether the kernel has one list for both parameters.
        one_list: bool,
    },
    /// {lost} has no effect: {by} comes later and replaces it.
    Replaced {
        /// The parameter that has no effect.
        lost: String,
        /// The parameter that stays in force.
        by: String,
    },
    /// The list names CPUs beyond the last one; the kernel ignores the whole list.
    #[print(write_beyond_last(f, parameter, cpus, last, certain))]
    BeyondLast {
        /// The parameter.
        parameter: String,
        /// The CPUs.
        cpus: CpuSet,
        /// The last possible CPU of this machine.
        last: usize,
        /// Whether the kernel ignores the whole list for certain.
        certain: bool,
    },
    /// the kernel ignores {parameter}: kernels before {since} do not accept {part:?}.
    PartUnknown {
        /// The parameter.
        parameter: String,
        /// The flag or the part of the list.
        part: String,
        /// The first release that accepts it.
        since: KernelVersion,
    },
    /// {parameter} names CPU {cpus}, which does not exist on this machine; the kernel skips it.
    NoSuchCpus {
        /// The parameter.
        parameter: String,
        /// The CPUs.
        cpus: CpuSet,
    },
    /// {irqaffinity} sends interrupts to CPU {cpus}, which {isolcpus} isolates; the kernel does not
    /// compare the two.
    InterruptsOnIsolated {
        /// `irqaffinity=…`.
        irqaffinity: String,
        /// `isolcpus=…`.
        isolcpus: String,
        /// CPUs that both name.
        cpus: CpuSet,
    },
}

impl CommandLineFault {
    /// A short stable name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            CommandLineFault::ListDiffers { .. } => "isolation-lists-differ",
            CommandLineFault::Replaced { .. } => "isolcpus-replaced",
            CommandLineFault::BeyondLast { .. } => "cpus-beyond-last",
            CommandLineFault::PartUnknown { .. } => "part-unknown",
            CommandLineFault::NoSuchCpus { .. } => "no-such-cpus",
            CommandLineFault::InterruptsOnIsolated { .. } => "irqaffinity-on-isolated",
        }
    }

    /// The words of the command line that it is about.
    #[must_use]
    pub fn words(&self) -> Vec<&str> {
        match self {
            CommandLineFault::ListDiffers { refused: one, kept: other, .. }
            | CommandLineFault::Replaced { lost: one, by: other }
            | CommandLineFault::InterruptsOnIsolated {
                irqaffinity: one, isolcpus: other, ..
            } => {
                vec![one, other]
            }
            CommandLineFault::BeyondLast { parameter, .. }
            | CommandLineFault::PartUnknown { parameter, .. }
            | CommandLineFault::NoSuchCpus { parameter, .. } => vec![parameter],
        }
    }

    /// The word that the kernel does not take at all; `None` if it takes a part of it.
    #[must_use]
    pub fn refused_word(&self) -> Option<&str> {
        match self {
            CommandLineFault::ListDiffers { refused: word, .. }
            | CommandLineFault::Replaced { lost: word, .. }
            | CommandLineFault::PartUnknown { parameter: word, .. }
            | CommandLineFault::BeyondLast { parameter: word, certain: true, .. } => Some(word),
            _ => None,
        }
    }

    /// What to do.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self {
            CommandLineFault::ListDiffers { .. } => {
                "give both parameters the same list, or keep only one of them"
            }
            CommandLineFault::Replaced { .. } => "keep one of them",
            CommandLineFault::BeyondLast { .. } | CommandLineFault::NoSuchCpus { .. } => {
                "name only CPUs that are listed in /sys/devices/system/cpu/possible"
            }
            CommandLineFault::PartUnknown { .. } => {
                "omit flags that this kernel does not know, and write CPU numbers instead of words"
            }
            CommandLineFault::InterruptsOnIsolated { .. } => {
                "remove the isolated CPUs from irqaffinity="
            }
        }
    }
}

fn write_list_differs(
    f: &mut fmt::Formatter<'_>,
    refused: &str,
    kept: &str,
    one_list: &bool,
) -> fmt::Result {
    match one_list {
        true => write!(
            f,
            "the kernel ignores {refused}: {kept} comes first, and kernels since 4.15 and \
                 before {LIST_PER_ISOLATION} have one list for nohz_full= and isolcpus="
        ),
        false => {
            write!(f, "the kernel ignores {refused}: {kept} comes first and names other CPUs")
        }
    }
}

fn write_beyond_last(
    f: &mut fmt::Formatter<'_>,
    parameter: &str,
    cpus: &CpuSet,
    last: &usize,
    certain: &bool,
) -> fmt::Result {
    write!(f, "{parameter} names CPU {cpus}, but the last CPU is {last}: ")?;
    f.write_str(match certain {
        true => "the kernel ignores the whole list",
        false => {
            "a kernel with CONFIG_CPUMASK_OFFSTACK ignores the whole list, but any \
                         other kernel only skips these CPUs"
        }
    })
}
