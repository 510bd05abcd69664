//! [`BootAdvice`]: a boot parameter that removes what remains, and why. Pure.

use crate::causes::Cause;
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum BootAdviceReason {
    /// {unknown}the tick then stops while the scheduler does not need it; name every CPU that may
    /// ever be shielded, but not the boot CPU.
    #[with(unknown = if_unknown(*known, "nohz-full"))]
    TickStops {
        /// Whether the kernel is known to have that function.
        known: bool,
        /// The CPUs of the shield whose tick continues until then.
        cpus: CpuSet,
    },
    /// {unknown}RCU callbacks then run in threads on the housekeeping CPUs.
    #[with(unknown = if_unknown(*known, "rcu-nocbs"))]
    CallbacksElsewhere {
        /// Whether the kernel is known to have the parameter.
        known: bool,
    },
    /// managed interrupts that also serve housekeeping CPUs then go only to those.
    ManagedIrqsElsewhere,
}

/// What to know of a parameter before its advice; nothing where the kernel is known to have it.
fn if_unknown(known: bool, name: &str) -> String {
    match known {
        true => String::new(),
        false => format!(
            "it is unknown whether the kernel supports this parameter (--on {name} writes it \
             anyway); "
        ),
    }
}
