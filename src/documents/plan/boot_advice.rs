//! [`BootAdvice`]: a boot parameter that removes what remains, and why. Pure.

use crate::causes::Cause;
use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A boot parameter that would remove what remains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BootAdvice {
    /// The tunable that advises it.
    pub tunable: String,
    /// The parameter, for example `nohz_full=3 rcu_nocbs=3`.
    pub parameter: String,
    /// Causes of interruptions that it removes.
    pub removes: Vec<Cause>,
    /// The reason.
    #[serde(with = "crate::with_text::WithText::<BootAdviceReason>")]
    pub reason: BootAdviceReason,
}

/// What a boot parameter does for the shield.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum BootAdviceReason {
    /// The tick stops.
    TickStops {
        /// Whether the kernel is known to have that function.
        known: bool,
        /// The CPUs of the shield whose tick continues until then.
        cpus: CpuSet,
    },
    /// RCU callbacks run in threads elsewhere.
    CallbacksElsewhere {
        /// Whether the kernel is known to have the parameter.
        known: bool,
    },
    /// Managed interrupts go to other CPUs.
    ManagedIrqsElsewhere,
}

impl fmt::Display for BootAdviceReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (known, name, text) = match self {
            BootAdviceReason::TickStops { known, .. } => (
                *known,
                "nohz-full",
                "the tick then stops while the scheduler does not need it; name every CPU that may \
                 ever be shielded, but not the boot CPU",
            ),
            BootAdviceReason::CallbacksElsewhere { known } => {
                (*known, "rcu-nocbs", "RCU callbacks then run in threads on the housekeeping CPUs")
            }
            BootAdviceReason::ManagedIrqsElsewhere => (
                true,
                "",
                "managed interrupts that also serve housekeeping CPUs then go only to those",
            ),
        };
        if !known {
            write!(
                f,
                "it is unknown whether the kernel supports this parameter (--on {name} writes it anyway); "
            )?;
        }
        f.write_str(text)
    }
}
