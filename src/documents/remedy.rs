//! How an interruption can be removed, or why it cannot. Pure data.

use super::inapplicable::InapplicableReason;
use super::plan::RefusedIrq;
use crate::change::EffectTime;
use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};
use std::fmt;

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "obstacle", rename_all = "kebab-case")]
pub enum RemedyObstacle {
    /// The tunable that removes it does nothing on this machine.
    Inapplicable {
        /// The tunable.
        tunable: String,
        /// Why it does nothing.
        #[serde(with = "crate::with_text::WithText::<InapplicableReason>")]
        reason: InapplicableReason,
    },
    /// The tunable that removes it was just applied, and it is still there.
    Applied {
        /// The tunable.
        tunable: String,
    },
    /// The masks of unbound work no longer have the shield in them.
    WorkMaskedSince,
    /// The kernel refuses to move the interrupt.
    IrqRefused {
        /// The kernel's error.
        answer: String,
        /// When the interrupt arrives on the shield.
        #[serde(with = "crate::with_text::WithText::<RefusedIrq>")]
        arrives: RefusedIrq,
    },
    /// The kernel refuses to move the interrupt, although the boot parameter is set.
    IrqRefusedAtBoot {
        /// The kernel's error.
        answer: String,
    },
    /// The mask of the interrupt is right, but the interrupt moves only when it next arrives.
    IrqNotMovedYet {
        /// Its mask.
        mask: CpuSet,
    },
    /// The interrupt came before its mask took effect.
    IrqMovedSince {
        /// Its mask.
        mask: CpuSet,
    },
}

impl fmt::Display for RemedyObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RemedyObstacle::Inapplicable { reason, .. } => reason.fmt(f),
            RemedyObstacle::Applied { tunable } => {
                write!(f, "{tunable} was applied, but the interruption is still there")
            }
            RemedyObstacle::WorkMaskedSince => f.write_str(
                "no mask of unbound work has this CPU in it now; one had it when the work began",
            ),
            RemedyObstacle::IrqRefused { answer, arrives } => {
                write!(f, "the kernel refuses to move it ({answer}); {arrives}")
            }
            RemedyObstacle::IrqRefusedAtBoot { answer } => write!(
                f,
                "the kernel refuses to move it ({answer}), and isolcpus=managed_irq already \
                 includes the shield"
            ),
            RemedyObstacle::IrqNotMovedYet { mask } => {
                write!(
                    f,
                    "its affinity mask is already CPU {mask}; the interrupt moves when it next \
                     fires"
                )
            }
            RemedyObstacle::IrqMovedSince { mask } => {
                write!(
                    f,
                    "its affinity mask is now CPU {mask}; this interrupt came before the mask took \
                     effect"
                )
            }
        }
    }
}
