//! [`IsolationCheck`]: what three independent witnesses show of the isolation of CPUs. Plain data.

use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What three witnesses show of the isolation of the measured CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IsolationCheck {
    /// The checked CPUs.
    pub cpus: CpuSet,
    /// `/sys/devices/system/cpu/isolated`, the partitions, and the cpuset of the shield.
    pub kernel: IsolationWitness,
    /// `Cpus_allowed_list` of `/proc/1/status`: CPUs on which PID 1 may not run.
    pub init: IsolationWitness,
    /// More busy threads than CPUs, without affinity: CPUs on which none of them ran.
    pub probe: IsolationWitness,
    /// What the three say together.
    pub answer: IsolationAnswer,
}

/// What one witness shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "witness", rename_all = "kebab-case")]
pub enum IsolationWitness {
    /// It was there.
    Present {
        /// The checked CPUs that it shows as isolated.
        isolated: CpuSet,
    },
    /// It is missing.
    Absent {
        /// Why.
        why: String,
    },
}

/// What the witnesses say together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum IsolationAnswer {
    /// All three show all CPUs as isolated.
    Isolated,
    /// All three show no CPU as isolated.
    NotIsolated,
    /// They disagree.
    Contradicted,
    /// A witness is missing, and the others agree.
    Unknown,
}

impl IsolationCheck {
    /// Makes the check from what its witnesses show.
    #[must_use]
    pub fn new(cpus: CpuSet, [kernel, init, probe]: [IsolationWitness; 3]) -> IsolationCheck {
        let answer = find_answer(&cpus, [&kernel, &init, &probe]);
        IsolationCheck { cpus, kernel, init, probe, answer }
    }
}

impl IsolationWitness {
    fn isolated(&self) -> Option<&CpuSet> {
        match self {
            IsolationWitness::Present { isolated } => Some(isolated),
            IsolationWitness::Absent { .. } => None,
        }
    }
}

fn find_answer(cpus: &CpuSet, witnesses: [&IsolationWitness; 3]) -> IsolationAnswer {
    let shown: Vec<&CpuSet> = witnesses.iter().filter_map(|witness| witness.isolated()).collect();
    let all = shown.iter().all(|isolated| *isolated == cpus);
    let none = shown.iter().all(|isolated| isolated.is_empty());
    match (shown.len(), all, none) {
        (3, true, _) => IsolationAnswer::Isolated,
        (3, _, true) => IsolationAnswer::NotIsolated,
        (_, false, false) => IsolationAnswer::Contradicted,
        _ => IsolationAnswer::Unknown,
    }
}

impl fmt::Display for IsolationCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kernel {
            IsolationWitness::Absent { why } => {
                write!(f, "it is unknown which CPUs the kernel lists as isolated: {why}")
            }
            IsolationWitness::Present { isolated } if isolated.is_empty() => {
                write!(f, "the kernel does not list CPU {} as isolated", self.cpus)
            }
            IsolationWitness::Present { isolated } => {
                write!(f, "the kernel lists CPU {isolated} as isolated")
            }
        }?;
        self.describe_use(f, "PID 1", ["may run on", "may not run on"], &self.init)?;
        let ran = ["ran on", "never ran on"];
        self.describe_use(f, "a probe with busy unpinned threads", ran, &self.probe)
    }
}

impl IsolationCheck {
    /// Writes on which of the checked CPUs something was seen.
    fn describe_use(
        &self,
        f: &mut fmt::Formatter<'_>,
        subject: &str,
        [uses, avoids]: [&str; 2],
        witness: &IsolationWitness,
    ) -> fmt::Result {
        match witness {
            IsolationWitness::Absent { why } => write!(f, "; no evidence from {subject}: {why}"),
            IsolationWitness::Present { isolated } => match self.cpus.difference(isolated) {
                used if used.is_empty() => write!(f, "; {subject} {avoids} CPU {}", self.cpus),
                used => write!(f, "; {subject} {uses} CPU {used}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the witnesses of CPU 2-3 show: a list of isolated CPUs, or `?` when one is missing.
    fn check(shown: [&str; 3]) -> IsolationCheck {
        let witnesses = shown.map(|list| match list {
            "?" => IsolationWitness::Absent { why: "EPERM".to_owned() },
            list => IsolationWitness::Present { isolated: list.parse().unwrap() },
        });
        IsolationCheck::new("2-3".parse().unwrap(), witnesses)
    }

    #[test]
    fn cpus_count_as_isolated_only_when_three_witnesses_agree() {
        use IsolationAnswer::{Contradicted, Isolated, NotIsolated, Unknown};
        for (shown, answer) in [
            (["2-3", "2-3", "2-3"], Isolated),
            (["", "", ""], NotIsolated),
            // isolcpus= was on the command line and not in force.
            (["2-3", "2-3", ""], Contradicted),
            (["2-3", "", ""], Contradicted),
            (["", "2-3", "2-3"], Contradicted),
            (["2-3", "2-3", "2"], Contradicted),
            (["2", "2", "2"], Contradicted),
            (["2-3", "2-3", "?"], Unknown),
            (["", "?", ""], Unknown),
            (["2-3", "?", ""], Contradicted),
            (["?", "?", "?"], Unknown),
        ] {
            assert_eq!(check(shown).answer, answer, "{shown:?}");
        }
    }

    #[test]
    fn a_check_says_what_each_witness_shows() {
        let broken = "the kernel lists CPU 2-3 as isolated; PID 1 may not run on CPU 2-3; a probe \
                      with busy unpinned threads ran on CPU 3";
        assert_eq!(check(["2-3", "2-3", "2"]).to_string(), broken);
        let missing = "it is unknown which CPUs the kernel lists as isolated: EPERM; PID 1 may run \
                       on CPU 2-3; no evidence from a probe with busy unpinned threads: EPERM";
        assert_eq!(check(["?", "", "?"]).to_string(), missing);
    }
}
