//! The limits of latency measurements: a longest latency, and LinuxCNC's ranges. Pure.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A range of LinuxCNC's max jitter that a machine has to reach. LinuxCNC's manual
/// (docs/src/install/latency-test.adoc, 0786cc1d8452) has the first two: "less than about 15-20
/// microseconds" and "more like 30-50 microseconds". Its outer limits are 100 µs for software
/// stepping and 1 ms for any use. The third is not in the manual: users allow 500 µs at most where
/// hardware steps (wiki.printnc.info, controllers/linuxcnc/hardware-and-latency).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LinuxCncGrade {
    /// Very good for software stepping: at most 20000 ns
    VeryGood,
    /// Good for software stepping: at most 50000 ns
    Good,
    /// For hardware step generation: at most 500000 ns
    Hardware,
}

impl LinuxCncGrade {
    /// All grades, the strictest first.
    pub const ALL: [LinuxCncGrade; 3] =
        [LinuxCncGrade::VeryGood, LinuxCncGrade::Good, LinuxCncGrade::Hardware];

    /// The largest max jitter of the grade, in nanoseconds.
    #[must_use]
    pub const fn max_jitter_ns(self) -> u64 {
        match self {
            LinuxCncGrade::VeryGood => 20_000,
            LinuxCncGrade::Good => 50_000,
            LinuxCncGrade::Hardware => 500_000,
        }
    }

    /// The strictest grade that a max jitter reaches; `None` beyond all of them.
    #[must_use]
    pub fn of_jitter(jitter_ns: u64) -> Option<LinuxCncGrade> {
        LinuxCncGrade::ALL.into_iter().find(|grade| jitter_ns <= grade.max_jitter_ns())
    }
}

impl fmt::Display for LinuxCncGrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            LinuxCncGrade::VeryGood => "very-good",
            LinuxCncGrade::Good => "good",
            LinuxCncGrade::Hardware => "hardware",
        })
    }
}

/// The limits of a latency measurement. A limit that is not given is not checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LatencyLimits {
    /// The longest latency in nanoseconds (`--max`).
    pub max_ns: Option<u64>,
    /// The range of the max jitter (`--linuxcnc`).
    pub linuxcnc: Option<LinuxCncGrade>,
}

/// One limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatencyLimit {
    /// No latency is longer than this, in nanoseconds.
    Max(u64),
    /// The max jitter is in a range of LinuxCNC.
    LinuxCnc(LinuxCncGrade),
}

impl LatencyLimits {
    /// The limits that are given.
    pub fn list(self) -> impl Iterator<Item = LatencyLimit> {
        let max = self.max_ns.map(LatencyLimit::Max);
        max.into_iter().chain(self.linuxcnc.map(LatencyLimit::LinuxCnc))
    }

    /// These limits, completed by others.
    #[must_use]
    pub fn or(self, others: LatencyLimits) -> LatencyLimits {
        LatencyLimits {
            max_ns: self.max_ns.or(others.max_ns),
            linuxcnc: self.linuxcnc.or(others.linuxcnc),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranges_of_linuxcnc_reach_to_500_us_and_beyond() {
        for (jitter_ns, grade) in [
            (0, Some(LinuxCncGrade::VeryGood)),
            (20_000, Some(LinuxCncGrade::VeryGood)),
            (20_001, Some(LinuxCncGrade::Good)),
            (50_000, Some(LinuxCncGrade::Good)),
            (50_001, Some(LinuxCncGrade::Hardware)),
            (500_000, Some(LinuxCncGrade::Hardware)),
            (500_001, None),
        ] {
            assert_eq!(LinuxCncGrade::of_jitter(jitter_ns), grade, "{jitter_ns}");
        }
    }

    #[test]
    fn given_limits_come_before_those_of_a_policy() {
        let given = LatencyLimits { max_ns: Some(1), linuxcnc: None };
        let policy = LatencyLimits { max_ns: Some(2), linuxcnc: Some(LinuxCncGrade::Good) };
        let both: Vec<LatencyLimit> = given.or(policy).list().collect();
        assert_eq!(both, [LatencyLimit::Max(1), LatencyLimit::LinuxCnc(LinuxCncGrade::Good)]);
        assert_eq!(LatencyLimits::default().list().count(), 0);
    }
}
