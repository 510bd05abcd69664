//! The result of the positive control, as the documents have it. Pure.

use crate::documents::evidence::{AbsenceReason, WitnessKind};
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The positive control.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "control", rename_all = "kebab-case")]
pub enum PositiveControl {
    /// every witness saw the positive control: {provoked}.
    #[with(provoked = join_texts(provoked))]
    Seen {
        /// What was provoked: before the span and after it.
        provoked: Vec<ProvokedIpis>,
    },
    /// the positive control was not seen: {missed}.
    #[with(missed = join_texts(missed))]
    Missed {
        /// What was provoked, and where it was not seen.
        missed: Vec<MissedControl>,
    },
    /// the positive control could not be run: {reason}.
    NotDone {
        /// Why.
        reason: ProvokeFailure,
    },
}

impl PositiveControl {
    /// Combines the controls at both ends of the span: the worse one counts.
    #[must_use]
    pub fn combine(self, other: PositiveControl) -> PositiveControl {
        match (self, other) {
            (
                PositiveControl::Missed { missed: mut all },
                PositiveControl::Missed { missed: more },
            ) => {
                all.extend(more);
                PositiveControl::Missed { missed: all }
            }
            (missed @ PositiveControl::Missed { .. }, _)
            | (_, missed @ PositiveControl::Missed { .. }) => missed,
            (PositiveControl::NotDone { reason }, PositiveControl::NotDone { reason: other }) => {
                PositiveControl::NotDone { reason: reason.combine(other) }
            }
            (not_done @ PositiveControl::NotDone { .. }, _)
            | (_, not_done @ PositiveControl::NotDone { .. }) => not_done,
            (
                PositiveControl::Seen { provoked: mut all },
                PositiveControl::Seen { provoked: more },
            ) => {
                all.extend(more);
                PositiveControl::Seen { provoked: all }
            }
        }
    }
}

/// The items of a control on one line.
pub fn join_texts<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The IPIs that were provoked at one end of the span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProvokedIpis {
    /// How many on each CPU.
    pub count: usize,
    /// How.
    pub by: ProvokeMethod,
    /// The end of the span.
    pub at: ControlAt,
}

impl fmt::Display for ProvokedIpis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProvokedIpis { count, by, at } = self;
        write!(f, "{count} function-call IPIs to each CPU with {by} {at}")
    }
}

/// The system call that provokes function-call IPIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ProvokeMethod {
    /// `membarrier(2)`, called by the sampler.
    Membarrier,
    /// A read of a perf event of the CPU, opened with `perf_event_open(2)`.
    PerfEvent,
}

impl fmt::Display for ProvokeMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProvokeMethod::Membarrier => "membarrier(2)",
            ProvokeMethod::PerfEvent => "perf_event_open(2)",
        })
    }
}

/// The end of the span at which the control runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ControlAt {
    /// before the span.
    BeforeSpan,
    /// after the span.
    AfterSpan,
}

/// Provoked IPIs that a witness did not see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MissedControl {
    /// What was provoked.
    pub provoked: ProvokedIpis,
    /// Which witnesses saw too few of them, and on which CPUs.
    pub witnesses: Vec<BlindWitness>,
}

impl fmt::Display for MissedControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let witnesses: Vec<_> = self.witnesses.iter().map(ToString::to_string).collect();
        write!(f, "{}, but {}", self.provoked, witnesses.join(", "))
    }
}

/// A witness that saw too few of the provoked IPIs on one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlindWitness {
    /// The witness.
    pub witness: WitnessKind,
    /// The CPU.
    pub cpu: usize,
    /// How many it saw.
    pub saw: u64,
}

impl fmt::Display for BlindWitness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BlindWitness { witness, cpu, saw } = self;
        match witness {
            WitnessKind::Sampler => write!(f, "the sampler on CPU {cpu} saw {saw}"),
            WitnessKind::Counters => write!(f, "the counters of CPU {cpu} saw {saw}"),
            WitnessKind::EventCounters => write!(f, "the perf events of CPU {cpu} counted {saw}"),
            WitnessKind::Trace => write!(f, "the trace of CPU {cpu} saw {saw}"),
            WitnessKind::Firmware => write!(f, "the SMI counter of CPU {cpu} counted {saw}"),
        }
    }
}

/// Why no interruption could be provoked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "failure", rename_all = "kebab-case")]
pub enum ProvokeFailure {
    /// perf_event_open(2): {answer}.
    PerfEventRefused {
        /// The kernel's error.
        answer: String,
    },
    /// {sampler}; perf_event_open(2): {answer}.
    NeitherMethod {
        /// Why the sampler could not.
        sampler: AbsenceReason,
        /// The kernel's error about the perf event.
        answer: String,
    },
    /// CPU {cpus} was idle {at}, and an idle CPU gets no function-call IPI; watch the CPU that the
    /// program runs on: --cpus N.
    Idle {
        /// These CPUs.
        cpus: CpuSet,
        /// The end of the span.
        at: ControlAt,
    },
}

impl ProvokeFailure {
    /// Whether it concerns this CPU.
    #[must_use]
    pub fn concerns(&self, cpu: usize) -> bool {
        match self {
            ProvokeFailure::PerfEventRefused { .. } | ProvokeFailure::NeitherMethod { .. } => true,
            ProvokeFailure::Idle { cpus, .. } => cpus.contains(cpu),
        }
    }

    /// Both failures: the one that concerns every CPU, or otherwise the CPUs of both.
    fn combine(self, other: ProvokeFailure) -> ProvokeFailure {
        match (self, other) {
            (ProvokeFailure::Idle { cpus, at }, ProvokeFailure::Idle { cpus: more, .. }) => {
                ProvokeFailure::Idle { cpus: cpus.union(&more), at }
            }
            (ProvokeFailure::Idle { .. }, all) | (all, _) => all,
        }
    }

    /// The same failure, after the sampler had failed too.
    #[must_use]
    pub fn after_sampler(self, sampler: AbsenceReason) -> ProvokeFailure {
        match self {
            ProvokeFailure::PerfEventRefused { answer }
            | ProvokeFailure::NeitherMethod { answer, .. } => {
                ProvokeFailure::NeitherMethod { sampler, answer }
            }
            idle @ ProvokeFailure::Idle { .. } => idle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worse_end_of_the_span_decides() {
        let ipis =
            ProvokedIpis { count: 10, by: ProvokeMethod::Membarrier, at: ControlAt::BeforeSpan };
        let seen = || PositiveControl::Seen { provoked: vec![ipis] };
        let miss = MissedControl { provoked: ipis, witnesses: Vec::new() };
        let missed = || PositiveControl::Missed { missed: vec![miss.clone()] };
        let reason = ProvokeFailure::PerfEventRefused { answer: "ENOSYS".to_owned() };
        let not_done = || PositiveControl::NotDone { reason: reason.clone() };
        assert_eq!(seen().combine(missed()), missed());
        assert_eq!(missed().combine(not_done()), missed());
        assert_eq!(not_done().combine(seen()), not_done());
        let idle = |cpus: &str| PositiveControl::NotDone {
            reason: ProvokeFailure::Idle { cpus: cpus.parse().unwrap(), at: ControlAt::BeforeSpan },
        };
        assert_eq!(idle("2").combine(idle("2-3")), idle("2-3"));
        assert_eq!(idle("2").combine(not_done()), not_done());
        assert_eq!(seen().combine(seen()), PositiveControl::Seen { provoked: vec![ipis, ipis] });
    }
}
