//! [`Leftovers`]: timers that were armed on CPUs before they are shielded. Pure.

use crate::documents::inapplicable::InapplicableReason;
use crate::documents::plan::Shield;
use crate::survey::Machine;
use cpushield_linux::CpuSet;
use std::collections::BTreeMap;
use std::fmt;

/// Timers that are not counted: those of the tick, and of sleeping tasks, which follow the task.
const IGNORED: &[&str] = &["tick_nohz_handler", "tick_sched_timer", "hrtimer_wakeup", "hrtick"];
/// Functions in one sentence; more are counted.
const NAMES_MAX: usize = 6;

/// Timers that were armed on the CPUs of a shield whose tick continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftovers {
    /// The CPUs.
    pub cpus: CpuSet,
    /// Functions of high-resolution timers found there, with their number; `None` when
    /// `/proc/timer_list` was not read.
    pub seen: Option<BTreeMap<String, usize>>,
    /// Whether the CPUs can go offline and online, or else why not.
    pub cycle: Result<(), InapplicableReason>,
}

impl Leftovers {
    /// Collects what the survey found on the CPUs of a shield.
    pub(super) fn new(
        machine: &Machine,
        shield: &Shield,
        cycle: Result<(), InapplicableReason>,
    ) -> Leftovers {
        let seen = machine.timers.as_ref().map(|timers| {
            let mut seen = BTreeMap::new();
            let on_shield = timers.iter().filter(|(cpu, _)| shield.cpus.contains(**cpu));
            for (name, count) in on_shield.flat_map(|(_, functions)| functions) {
                if !IGNORED.contains(&name.as_str()) {
                    *seen.entry(name.clone()).or_default() += count;
                }
            }
            seen
        });
        Leftovers { cpus: shield.cpus.clone(), seen, cycle }
    }
}

impl fmt::Display for Leftovers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus = &self.cpus;
        write!(f, "timers and delayed work items that were armed on CPU {cpus} re-arm there. ")?;
        match &self.seen {
            None => write!(f, "Which ones is unknown: /proc/timer_list was not read. ")?,
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
        write!(f, "No kernel file shows delayed work items and timers of the timer wheel. ")?;
        match &self.cycle {
            Ok(()) => write!(
                f,
                "`--on cpu-hotplug-cycle` moves all of them: it takes the CPU offline and online. \
                 Cost: all CPUs stop during that (stop_machine), for an unknown time"
            ),
            Err(why) => write!(f, "Nothing can move them on this machine: {why}"),
        }
    }
}
