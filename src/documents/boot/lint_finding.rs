//! What is wrong with the command line of the running kernel, and what to do about it. Pure.

use super::lint_effect::{BadListEffect, EffectSource, OverrideEffect};
use super::reason::UnknownReason;
use crate::documents::command_line_fault::CommandLineFault;
use crate::documents::plan::BootLine;
use crate::with_text;
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::Serialize;

/// Something that is wrong with the command line of the running kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "finding", rename_all = "kebab-case")]
pub enum LintFinding {
    /// {fault}{reported}.
    #[with(reported = reported(self.messages()))]
    NotAccepted {
        /// What is wrong.
        #[serde(flatten)]
        fault: CommandLineFault,
        /// The kernel's own messages about the words; empty when there are none or the log cannot
        /// be read.
        messages: Vec<String>,
    },
    /// {word} names CPU {cpus}, but the last CPU is {last}: {effect}{skips}{reported}.
    #[with(skips = if *certain { "" } else { ", or it skips these CPUs (without CONFIG_CPUMASK_OFFSTACK)" }, reported = reported(self.messages()))]
    BeyondLast {
        /// The word.
        word: String,
        /// The CPUs.
        cpus: CpuSet,
        /// The last possible CPU of this machine.
        last: usize,
        /// What the kernel does with the list.
        effect: BadListEffect,
        /// Whether the kernel does that for certain; if not, it may skip these CPUs only.
        certain: bool,
        /// The kernel's own messages about the words; empty when there are none or the log cannot
        /// be read.
        messages: Vec<String>,
    },
    /// the kernel cannot parse the CPU list of {word}: {effect}{reported}.
    #[with(reported = reported(self.messages()))]
    NotAList {
        /// The word.
        word: String,
        /// What the kernel does with it.
        effect: BadListEffect,
        /// The kernel's own messages about the words; empty when there are none or the log cannot
        /// be read.
        messages: Vec<String>,
    },
    /// {word} names no CPU.
    EmptyList {
        /// The word.
        word: String,
    },
    /// {word} could not be checked: the CPUs of this machine are unknown.
    Unchecked {
        /// The word.
        word: String,
    },
    /// {irqaffinity} sends interrupts only to CPU {cpus} and the boot CPU, but {nohz_full} is meant
    /// to stop the tick on CPU {cpus}.
    InterruptsWithoutTick {
        /// `irqaffinity=…`.
        irqaffinity: String,
        /// The word that requests CPUs without tick.
        nohz_full: String,
        /// The CPUs of `irqaffinity=`.
        cpus: CpuSet,
    },
    /// with {limit}, the kernel starts only CPU {started}: it does not start CPU {cpus} in {words}.
    #[with(words = words.join(" and "))]
    CpusNotStarted {
        /// `nr_cpus=…`, `maxcpus=…` or `nosmp`.
        limit: String,
        /// The CPUs that start.
        started: CpuSet,
        /// The words that name others.
        words: Vec<String>,
        /// These other CPUs.
        cpus: CpuSet,
    },
    /// {word} has a value that the kernel does not recognize; {takes}.
    #[with(takes = match near {
        Some(near) => format!("similar: {near}"),
        None => format!("the parameter takes {takes}"),
    })]
    UnknownValue {
        /// The word.
        word: String,
        /// The most similar value, if one is similar.
        near: Option<String>,
        /// What the parameter takes.
        takes: &'static str,
    },
    /// {word} comes from a patch series that no released kernel contains.
    Unreleased {
        /// The word.
        word: String,
        /// The page of `explain` about it.
        page: &'static str,
    },
    /// {word} has no value; the kernel does not accept the word without one.
    NoValue {
        /// The word.
        word: String,
    },
    /// {word} has the flag {flag}, which mainline kernels do not support{similar}.
    #[with(similar = near.as_ref().map_or_else(String::new, |near| format!("; similar: {near}")))]
    UnknownFlag {
        /// The word.
        word: String,
        /// The flag.
        flag: String,
        /// The most similar known flag, if one is similar.
        near: Option<String>,
    },
    /// {words} leaves no online CPU for housekeeping{reported}.
    #[with(words = words.join(" together with "), reported = reported(self.messages()))]
    NoHousekeeping {
        /// The words.
        words: Vec<String>,
        /// The kernel's own messages about the words; empty when there are none or the log cannot
        /// be read.
        messages: Vec<String>,
    },
    /// {nohz} keeps the tick on every CPU, so {words} cannot stop it.
    #[with(words = words.join(" and "))]
    NohzOff {
        /// `nohz=off`.
        nohz: String,
        /// The words that request CPUs without tick.
        words: Vec<String>,
    },
    /// {word} is on the command line more than once.
    Repeated {
        /// The word.
        word: String,
    },
    /// {lost} has no effect: {by} comes later and replaces it.
    Overridden {
        /// The word that has no effect.
        lost: String,
        /// The word that stays in force.
        by: String,
    },
    /// {words} takes CPU {cpus} out of scheduling, and kernels from 6.7 to 6.17.2 cannot make a
    /// cgroup v2 partition of such CPUs: any program can move itself there.
    #[with(words = words.join(" "))]
    NoPartition {
        /// The words.
        words: Vec<String>,
        /// The CPUs.
        cpus: CpuSet,
        /// What to boot with instead.
        boot: BootLine,
    },
    /// {word} switches cpusets off: only task affinity keeps other programs off shielded CPUs.
    NoCpusets {
        /// The word.
        word: String,
    },
    /// {word} has no effect: {why}.
    #[with(why = match effect {
        OverrideEffect::WatchdogsOff => format!("{by} switches every lockup watchdog off"),
        OverrideEffect::DriverNotStarted { driver } => format!("with {by}, the driver {driver} does not start"),
        OverrideEffect::MitigationsOff => format!("{by} overrides it"),
    })]
    Ineffective {
        /// The word that has no effect.
        word: String,
        /// The word that is the reason.
        by: String,
        /// What that word does.
        effect: OverrideEffect,
    },
    /// {word} is not in force: {path} has {shows}.
    OtherValue {
        /// The word.
        word: String,
        /// The file that shows the value.
        path: &'static str,
        /// The value that it shows.
        shows: String,
    },
    /// {word} looks like a misspelled {near}{reported}.
    #[with(reported = reported(self.messages()))]
    Misspelled {
        /// The word.
        word: String,
        /// The parameter that it resembles.
        near: String,
        /// The kernel's own messages about the word; empty when there are none or the log cannot
        /// be read.
        messages: Vec<String>,
    },
    /// this kernel ignores {word}: {why}.
    UnknownToKernel {
        /// The word.
        word: String,
        /// Why not.
        #[serde(with = "with_text::WithText::<UnknownReason>")]
        why: UnknownReason,
    },
    /// {word}: {why}.
    NotMainline {
        /// The word.
        word: String,
        /// What to know about it.
        why: &'static str,
    },
    /// {source} has CPU {shows}, which no word of the command line requests.
    NotRequested {
        /// Where the kernel shows what is in force.
        source: EffectSource,
        /// The CPUs that it shows.
        shows: CpuSet,
    },
    /// {words} requests CPU {wanted}, but {source} has {shows}{reported}.
    #[with(words = words.join(" "), shows = if shows.is_empty() { "no CPU".to_owned() } else { format!("CPU {shows}") }, reported = reported(self.messages()))]
    NotInForce {
        /// The words.
        words: Vec<String>,
        /// CPUs that the words request.
        wanted: CpuSet,
        /// Where the kernel shows what is in force.
        source: EffectSource,
        /// The CPUs that it shows.
        shows: CpuSet,
        /// The kernel's own messages about the words; empty when there are none or the log cannot
        /// be read.
        messages: Vec<String>,
    },
}

impl LintFinding {
    /// The words of the command line that it is about.
    #[must_use]
    pub fn words(&self) -> Vec<&str> {
        match self {
            LintFinding::NotAccepted { fault, .. } => fault.words(),
            LintFinding::BeyondLast { word, .. }
            | LintFinding::NotAList { word, .. }
            | LintFinding::EmptyList { word }
            | LintFinding::Unchecked { word }
            | LintFinding::NoValue { word }
            | LintFinding::UnknownFlag { word, .. }
            | LintFinding::UnknownValue { word, .. }
            | LintFinding::Unreleased { word, .. }
            | LintFinding::Repeated { word }
            | LintFinding::OtherValue { word, .. }
            | LintFinding::NoCpusets { word }
            | LintFinding::Misspelled { word, .. }
            | LintFinding::UnknownToKernel { word, .. }
            | LintFinding::NotMainline { word, .. } => vec![word],
            LintFinding::InterruptsWithoutTick { irqaffinity: one, nohz_full: other, .. }
            | LintFinding::Overridden { lost: one, by: other }
            | LintFinding::Ineffective { word: one, by: other, .. } => vec![one, other],
            LintFinding::CpusNotStarted { limit: one, words, .. }
            | LintFinding::NohzOff { nohz: one, words } => {
                words.iter().chain([one]).map(String::as_str).collect()
            }
            LintFinding::NoHousekeeping { words, .. }
            | LintFinding::NoPartition { words, .. }
            | LintFinding::NotInForce { words, .. } => words.iter().map(String::as_str).collect(),
            LintFinding::NotRequested { .. } => Vec::new(),
        }
    }

    /// What the kernel reported about the words; `None` where its messages are not looked for.
    #[must_use]
    pub fn messages(&self) -> Option<&[String]> {
        match self {
            LintFinding::NotAccepted {
                fault: CommandLineFault::InterruptsOnIsolated { .. },
                ..
            } => None,
            LintFinding::NotAccepted { messages, .. }
            | LintFinding::BeyondLast { messages, .. }
            | LintFinding::NotAList { messages, .. }
            | LintFinding::NoHousekeeping { messages, .. }
            | LintFinding::Misspelled { messages, .. }
            | LintFinding::NotInForce { messages, .. } => Some(messages),
            _ => None,
        }
    }

    /// The same finding with what the kernel reported about its words.
    pub(crate) fn with_messages(mut self, reported: Vec<String>) -> LintFinding {
        match &mut self {
            LintFinding::NotAccepted { messages, .. }
            | LintFinding::BeyondLast { messages, .. }
            | LintFinding::NotAList { messages, .. }
            | LintFinding::NoHousekeeping { messages, .. }
            | LintFinding::Misspelled { messages, .. }
            | LintFinding::NotInForce { messages, .. } => *messages = reported,
            _ => {}
        }
        self
    }

    /// What to do.
    #[must_use]
    pub fn advice(&self) -> String {
        match self {
            LintFinding::NoPartition { cpus, boot, .. } => boot.advice(cpus),
            _ => self.fixed_advice().to_owned(),
        }
    }

    fn fixed_advice(&self) -> &'static str {
        match self {
            LintFinding::NotAccepted { fault, .. } => fault.advice(),
            LintFinding::BeyondLast { .. } => {
                "name only CPUs that are listed in /sys/devices/system/cpu/possible"
            }
            LintFinding::NotAList { .. } => "write a CPU list: 2-3,8",
            LintFinding::EmptyList { .. } => "name CPUs after the equals sign, or remove the word",
            LintFinding::Unchecked { .. } => {
                "make /sys/devices/system/cpu/possible readable; a recording needs that file too"
            }
            LintFinding::InterruptsWithoutTick { .. } => {
                "name housekeeping CPUs in irqaffinity=, or remove it"
            }
            LintFinding::CpusNotStarted { .. } => {
                "remove the limit, or name only CPUs that the kernel starts"
            }
            LintFinding::UnknownValue { .. } => "correct the value, or remove the word",
            LintFinding::Unreleased { page: "isolcpus-io-queue", .. } => {
                "cpushield explain isolcpus-io-queue"
            }
            LintFinding::Unreleased { .. } => "cpushield explain nohz-full-without-list",
            LintFinding::NoValue { .. } => "add an equals sign and a CPU list",
            LintFinding::UnknownFlag { .. } => {
                "use only the flags domain, nohz and managed_irq, separated by commas"
            }
            LintFinding::NoHousekeeping { .. } => "leave at least one CPU out of these lists",
            LintFinding::NohzOff { .. } => "remove nohz=off",
            LintFinding::Repeated { .. } => "keep one of them",
            LintFinding::Overridden { .. } => "keep only the word that you want",
            LintFinding::Ineffective { .. } => "remove one of the two",
            LintFinding::NoPartition { .. } | LintFinding::NoCpusets { .. } => {
                "remove cpuset from this list"
            }
            LintFinding::OtherValue { .. } => {
                "look for the reason in the kernel's log, or find the program that changed the file"
            }
            LintFinding::Misspelled { .. } => "correct the word, or remove it",
            LintFinding::UnknownToKernel { .. } | LintFinding::NotMainline { .. } => {
                "remove the word, or boot a kernel that supports it"
            }
            LintFinding::NotRequested { .. } => {
                "if a cpuset partition is active, it may be the reason; otherwise look in the \
                 kernel's log: dmesg"
            }
            LintFinding::NotInForce { source: EffectSource::DefaultAffinity, .. } => {
                "find the program that changed the file, or correct the list"
            }
            LintFinding::NotInForce { .. } => "look for the reason in the kernel's log: dmesg",
        }
    }
}

/// What the kernel reported, for the end of a sentence.
fn reported(messages: Option<&[String]>) -> String {
    match messages {
        Some([]) | None => String::new(),
        Some(messages) => format!("; the kernel reported: {}", messages.join("; ")),
    }
}
