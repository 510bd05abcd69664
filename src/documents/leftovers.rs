//! [`Leftovers`]: timers that were armed on CPUs before they are shielded. Pure data.

use super::inapplicable::InapplicableReason;
use super::plan::{NamedShield, list_shields};
use crate::with_text;
use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Functions in one sentence; more are counted.
const NAMES_MAX: usize = 6;

/// Timers that were armed on the CPUs of a shield whose tick continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Leftovers {
    /// The CPUs.
    pub cpus: CpuSet,
    /// Functions of high-resolution timers found there, with their number; `None` when
    /// `/proc/timer_list` was not read.
    pub seen: Option<BTreeMap<String, usize>>,
    /// Why the CPUs cannot go offline and online; `None` if they can.
    #[serde(with = "with_text::option")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::with_text::WithText<InapplicableReason>>")
    )]
    pub obstacle: Option<InapplicableReason>,
    /// The other active shields, which the move would interrupt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<NamedShield>,
}

impl fmt::Display for Leftovers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus = &self.cpus;
        write!(f, "timers and delayed work items that were armed on CPU {cpus} re-arm there. ")?;
        match &self.seen {
            None => write!(f, "It is unknown which: /proc/timer_list was not read. ")?,
            Some(seen) if seen.is_empty() => write!(f, "No high-resolution timer was seen. ")?,
            Some(seen) => {
                let mut names = Vec::new();
                for (name, count) in seen.iter().take(NAMES_MAX) {
                    names.push(match count {
                        1 => name.clone(),
                        count => format!("{name} ({count})"),
                    });
                }
                write!(f, "Seen: {}", names.join(", "))?;
                match seen.len().saturating_sub(NAMES_MAX) {
                    0 => write!(f, ". ")?,
                    more => write!(f, " and {more} more. ")?,
                }
            }
        }
        write!(f, "No kernel file shows delayed work items or timers of the timer wheel. ")?;
        match &self.obstacle {
            None if self.others.is_empty() => write!(
                f,
                "`--on cpu-hotplug-cycle` moves all of them: it takes the CPU offline and online. \
                 Cost: this stops all CPUs (stop_machine) for an unknown time"
            ),
            None => write!(
                f,
                "`--on cpu-hotplug-cycle --disturb` moves all of them: it takes the CPU offline \
                 and online. Cost: this stops all CPUs (stop_machine) for an unknown time, those \
                 of {} too",
                list_shields(&self.others)
            ),
            Some(why) => {
                write!(f, "Taking the CPU offline and online would move them, but {why}")
            }
        }
    }
}
