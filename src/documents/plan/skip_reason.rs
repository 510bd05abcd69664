//! [`SkipReason`]: why a tunable makes no change. Pure.

use super::Disturbance;
use crate::documents::inapplicable::InapplicableReason;
use crate::with_text;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};

/// Why a tunable makes no change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "skipped", rename_all = "kebab-case")]
pub enum SkipReason {
    /// switched off by the request.
    SwitchedOff,
    /// {why} (--on {tunable}).
    OnRequest {
        /// The tunable.
        tunable: String,
        /// Why.
        #[serde(with = "with_text::WithText::<OffReason>")]
        why: OffReason,
    },
    /// {why} (--on {tunable}).
    InapplicableByDefault {
        /// The tunable.
        tunable: String,
        /// Why it does not apply.
        #[serde(with = "with_text::WithText::<InapplicableReason>")]
        why: InapplicableReason,
    },
    /// It does not apply to this machine.
    #[delegate]
    Inapplicable {
        /// Why.
        #[serde(with = "with_text::WithText::<InapplicableReason>")]
        why: InapplicableReason,
    },
    /// {disturbance}; --disturb accepts that.
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

/// Why a tunable is off unless the user names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "off", rename_all = "kebab-case")]
pub enum OffReason {
    /// it costs power.
    CostsPower,
    /// it costs power and removes no interruption.
    OnlyCostsPower,
    /// it makes all CPUs slower and removes no interruption.
    CostsSpeed,
    /// it sends no work to other CPUs.
    SendsNoWork,
    /// huge pages make most programs faster.
    HugePagesHelp,
    /// writeback runs on the housekeeping CPUs anyway.
    WritebackElsewhere,
    /// it affects only memory that a program marked as mergeable.
    OnlyMergeable,
    /// it affects only real-time tasks.
    OnlyRealtime,
    /// the timers that wake a cyclic workload on a nohz_full CPU would expire on another CPU.
    CyclicTimers,
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
