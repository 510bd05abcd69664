//! How an interruption can be removed, or why it cannot. Pure data.

use super::inapplicable::InapplicableReason;
use super::plan::RefusedIrq;
use crate::change::EffectTime;
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};

/// How to remove an interruption.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Remedy {
    /// The tunable.
    pub tunable: String,
    /// Now or at the next boot.
    pub when: EffectTime,
    /// The command or the parameter.
    pub how: String,
}

/// Why an interruption cannot be removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "obstacle", rename_all = "kebab-case")]
pub enum RemedyObstacle {
    /// {reason}.
    Inapplicable {
        /// The tunable.
        tunable: String,
        /// Why it does nothing.
        #[serde(with = "crate::with_text::WithText::<InapplicableReason>")]
        reason: InapplicableReason,
    },
    /// {tunable} was applied, but the interruption is still there.
    Applied {
        /// The tunable.
        tunable: String,
    },
    /// no mask of unbound work has this CPU in it now; one had it when the work began.
    WorkMaskedSince,
    /// the kernel refuses to move it ({answer}); {arrives}.
    IrqRefused {
        /// The kernel's error.
        answer: String,
        /// When the interrupt arrives on the shield.
        #[serde(with = "crate::with_text::WithText::<RefusedIrq>")]
        arrives: RefusedIrq,
    },
    /// the kernel refuses to move it ({answer}), and isolcpus=managed_irq already includes the
    /// shield.
    IrqRefusedAtBoot {
        /// The kernel's error.
        answer: String,
    },
    /// its affinity mask is already CPU {mask}; the interrupt moves when it next fires.
    IrqNotMovedYet {
        /// Its mask.
        mask: CpuSet,
    },
    /// its affinity mask is now CPU {mask}; this interrupt came before the mask took effect.
    IrqMovedSince {
        /// Its mask.
        mask: CpuSet,
    },
}
