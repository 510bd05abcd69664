//! [`SkipReason`]: why a tunable makes no change. Pure.

use super::Disturbance;
use crate::documents::inapplicable::InapplicableReason;
use crate::with_text;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a tunable makes no change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "skipped", rename_all = "kebab-case")]
pub enum SkipReason {
    /// The user switched it off.
    SwitchedOff,
    /// It is only used when the user names it.
    OnRequest {
        /// The tunable.
        tunable: String,
        /// Why.
        #[serde(with = "with_text::WithText::<OffReason>")]
        why: OffReason,
    },
    /// It does not apply to this machine unless the user names it.
    InapplicableByDefault {
        /// The tunable.
        tunable: String,
        /// Why it does not apply.
        #[serde(with = "with_text::WithText::<InapplicableReason>")]
        why: InapplicableReason,
    },
    /// It does not apply to this machine.
    Inapplicable {
        /// Why.
        #[serde(with = "with_text::WithText::<InapplicableReason>")]
        why: InapplicableReason,
    },
    /// It would interrupt other active shields.
    SparesShields {
        /// The cost.
        disturbance: Disturbance,
    },
}

impl SkipReason {
    /// Whether `--on NAME` uses the tunable.
    #[must_use]
    pub fn is_off_by_default(&self) -> bool {
        matches!(self, SkipReason::OnRequest { .. } | SkipReason::InapplicableByDefault { .. })
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SkipReason::SwitchedOff => f.write_str("switched off by the request"),
            SkipReason::OnRequest { tunable, why } => write!(f, "{why} (--on {tunable})"),
            SkipReason::InapplicableByDefault { tunable, why } => {
                write!(f, "{why} (--on {tunable})")
            }
            SkipReason::Inapplicable { why } => why.fmt(f),
            SkipReason::SparesShields { disturbance } => {
                write!(f, "{disturbance}; --disturb accepts that")
            }
        }
    }
}

/// Why a tunable is off unless the user names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "off", rename_all = "kebab-case")]
pub enum OffReason {
    /// It costs power.
    CostsPower,
    /// It costs power, and no interruption is removed.
    OnlyCostsPower,
    /// It makes every CPU slower, and no interruption is removed.
    CostsSpeed,
    /// The setting sends no work to other CPUs.
    SendsNoWork,
    /// Most programs are faster with huge pages.
    HugePagesHelp,
    /// Housekeeping CPUs do the writeback.
    WritebackElsewhere,
    /// It concerns mergeable memory only.
    OnlyMergeable,
    /// It concerns real-time tasks only.
    OnlyRealtime,
    /// It would delay timers of a cyclic workload.
    CyclicTimers,
}

impl fmt::Display for OffReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OffReason::CostsPower => "it costs power",
            OffReason::OnlyCostsPower => "it costs power and removes no interruption",
            OffReason::CostsSpeed => "it makes all CPUs slower and removes no interruption",
            OffReason::SendsNoWork => "it sends no work to other CPUs",
            OffReason::HugePagesHelp => "huge pages make most programs faster",
            OffReason::WritebackElsewhere => "writeback runs on the housekeeping CPUs anyway",
            OffReason::OnlyMergeable => "it affects only memory that a program marked as mergeable",
            OffReason::OnlyRealtime => "it affects only real-time tasks",
            OffReason::CyclicTimers => {
                "the timers that wake a cyclic workload on a nohz_full CPU would expire on another \
                 CPU"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::MachineWideEffect;
    use super::*;

    #[test]
    fn each_reason_has_its_own_tag() {
        let tunable = "thp".to_owned();
        let effect = MachineWideEffect::PatchesKernel;
        let why = InapplicableReason::NoRcuOffload;
        let reasons = [
            SkipReason::SwitchedOff,
            SkipReason::OnRequest { tunable: tunable.clone(), why: OffReason::HugePagesHelp },
            SkipReason::InapplicableByDefault { tunable, why: why.clone() },
            SkipReason::Inapplicable { why },
            SkipReason::SparesShields { disturbance: Disturbance::new(effect, &[]) },
        ];
        with_text::check_saved("skipped", &reasons);
    }
}
