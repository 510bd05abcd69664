//! [`Leftovers`]: what was armed on CPUs before they are shielded, and what would move it. Pure.

use crate::plan::Shield;
use crate::survey::Machine;
use cpushield_linux::CpuSet;
use std::collections::BTreeMap;
use std::fmt;

/// Timers of the tick, and those of tasks that sleep, which go where the task goes.
const OWN: &[&str] = &["tick_nohz_handler", "tick_sched_timer", "hrtimer_wakeup", "hrtick"];
/// Functions in one sentence; more are counted.
const NAMES_MAX: usize = 6;

/// What was armed on the CPUs of a shield whose tick stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftovers {
    /// The CPUs.
    pub cpus: CpuSet,
    /// Functions of high-resolution timers seen there, with their number; `None` when
    /// `/proc/timer_list` was not read.
    pub seen: Option<BTreeMap<String, usize>>,
    /// Whether the CPUs can go offline and online, else why not.
    pub cycle: Result<(), String>,
}

impl Leftovers {
    /// What the survey saw on the CPUs of a shield.
    pub(super) fn new(machine: &Machine, shield: &Shield, cycle: Result<(), String>) -> Leftovers {
        let seen = machine.timers.as_ref().map(|timers| {
            let mut seen = BTreeMap::new();
            let here = timers.iter().filter(|(cpu, _)| shield.cpus.contains(**cpu));
            for (name, count) in here.flat_map(|(_, functions)| functions) {
                if !OWN.contains(&name.as_str()) {
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
        write!(f, "timers and delayed works armed on CPU {cpus} before re-arm themselves there. ")?;
        match &self.seen {
            None => write!(f, "Which ones is not known: /proc/timer_list was not read. ")?,
            Some(seen) if seen.is_empty() => write!(f, "No high-resolution timer was seen. ")?,
            Some(seen) => {
                let name = |(name, count): (&String, &usize)| match count {
                    1 => name.clone(),
                    n => format!("{name} ({n})"),
                };
                let names: Vec<String> = seen.iter().take(NAMES_MAX).map(name).collect();
                write!(f, "Seen: {}", names.join(", "))?;
                match seen.len().saturating_sub(NAMES_MAX) {
                    0 => write!(f, ". ")?,
                    more => write!(f, " and {more} more. ")?,
                }
            }
        }
        write!(f, "Delayed works and timers of the wheel are shown by no kernel file. ")?;
        match &self.cycle {
            Ok(()) => write!(
                f,
                "`--on cpu-hotplug-cycle` moves all of them: it takes the CPU offline and online. Price: all \
                 CPUs stop meanwhile (stop_machine), for an unknown time"
            ),
            Err(why) => write!(f, "Nothing moves them here: {why}"),
        }
    }
}
