//! Tunables: one file for each thing the kernel or the machine can be told, one slice that lists
//! them. A tunable is pure: it sees the [`Machine`] and the [`Shield`] and returns changes; it has
//! no write and no undo code.

mod boot;
mod cpu_hotplug_cycle;
mod cpuset;
mod fair_server;
mod irq_affinity;
mod irqbalance;
mod keep_affinities;
mod ksm;
mod kthreads;
mod leftovers;
mod mce_check_interval;
mod numa_balancing;
mod packet_steering;
mod power;
mod rcu_normal;
mod remedy;
mod rt_throttling;
mod setting;
mod thp;
mod timer_migration;
mod tracing_buffer;
mod vm_stat_interval;
mod want;
mod watchdog;
mod workqueues;
mod writeback_interval;

pub use boot::{CLOCKSOURCE_PAGE, NOCBS_PAGE, NOHZ_PAGE};
pub use leftovers::Leftovers;
pub use remedy::{Remedy, RemedyAnswer, remedy};
pub use want::WantedChange;

use crate::causes::culprit::CulpritPattern;
use crate::causes::{Cause, Culprit};
use crate::change::{EffectTime, Outcome, Risk};
use crate::plan::{BootAdvice, Immovable, Plan, Shield, Step};
use crate::policy::Workload;
use crate::survey::Machine;

/// One thing the kernel or the machine can be told.
pub trait Tunable: Sync {
    /// The stable name: `irq-affinity`.
    fn name(&self) -> &'static str;
    /// One line for lists.
    fn summary(&self) -> &'static str;
    /// The page of `explain` (Markdown): why, when it applies, what it costs, sources.
    fn page(&self) -> &'static str;
    /// Files the survey must read for it; `*` stands for any one name in a path.
    fn reads(&self) -> &'static [&'static str];
    /// Causes it removes.
    fn removes(&self) -> &'static [Cause];
    /// Whose interruptions it removes (`vmstat_update`), where it is not for all of its causes.
    /// Empty: for all.
    fn culprits(&self) -> &'static [CulpritPattern] {
        &[]
    }
    /// What it can harm.
    fn risk(&self) -> Risk;
    /// When it takes effect.
    fn when(&self) -> EffectTime {
        EffectTime::Runtime
    }
    /// Why it is done only when the user asks for it by name, if so.
    fn optional(&self, _workload: Workload) -> Option<&'static str> {
        None
    }
    /// What it wants on this machine for this shield.
    fn wants(&self, machine: &Machine, shield: &Shield) -> WantedChanges;
    /// What it wants when the user asked for it by name, where it is more careful unasked.
    fn wants_when_asked(&self, machine: &Machine, shield: &Shield) -> WantedChanges {
        self.wants(machine, shield)
    }
    /// What stays although it did its part.
    fn remains(&self, _machine: &Machine, _shield: &Shield) -> UnresolvedCause {
        UnresolvedCause::default()
    }
    /// Whether it leaves this very culprit alone, though it removes others of its kind.
    fn spares(&self, _machine: &Machine, _culprit: &Culprit) -> bool {
        false
    }
    /// What removes this very culprit, or why nothing does, where it can be told from all others.
    fn settles(
        &self,
        _machine: &Machine,
        _shield: &Shield,
        _culprit: &Culprit,
    ) -> Option<RemedyAnswer> {
        None
    }
    /// The boot parameter that removes a cause which is still there.
    fn at_boot(&self, machine: &Machine, shield: &Shield, cause: Cause) -> Option<String> {
        let advice = self.remains(machine, shield).boot;
        advice.into_iter().find(|a| a.removes.contains(&cause)).map(|a| a.parameter)
    }
}

/// What a tunable wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WantedChanges {
    /// These changes, in order; those that the machine already shows are marked.
    Changes(Vec<WantedChange>),
    /// Nothing: it does not apply here, or this machine cannot, and why.
    Nothing(String),
}

/// What stays although a tunable did its part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnresolvedCause {
    /// Things that cannot be moved.
    pub immovable: Vec<Immovable>,
    /// Boot parameters that would remove them.
    pub boot: Vec<BootAdvice>,
    /// Warnings with advice.
    pub warnings: Vec<String>,
}

/// Whether a tunable is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InForce {
    /// Everything it wants is so.
    InForce,
    /// These changes are missing.
    NotInForce(Vec<WantedChange>),
    /// It does nothing here, and why.
    NotApplicable(String),
    /// The machine does not show it; the journal knows what was done.
    CannotTell,
}

/// Every tunable, in the order their changes are made.
pub const TUNABLES: &[&dyn Tunable] = &[
    &keep_affinities::KeepAffinities,
    &tracing_buffer::TracingBuffer,
    &cpu_hotplug_cycle::CpuHotplugCycle,
    &rt_throttling::RT_THROTTLING,
    &fair_server::FairServer,
    &cpuset::Cpuset,
    &kthreads::Kthreads,
    &irqbalance::Irqbalance,
    &irq_affinity::IrqAffinity,
    &workqueues::Workqueues,
    &packet_steering::Rps,
    &packet_steering::Xps,
    &timer_migration::TIMER_MIGRATION,
    &watchdog::Watchdog,
    &vm_stat_interval::VM_STAT_INTERVAL,
    &numa_balancing::NUMA_BALANCING,
    &mce_check_interval::MCE_CHECK_INTERVAL,
    &rcu_normal::RCU_NORMAL,
    &ksm::KSM,
    &thp::THP,
    &writeback_interval::WRITEBACK_INTERVAL,
    &power::CpuIdle,
    &power::CpuGovernor,
    &boot::NohzFull,
    &boot::RcuNocbs,
    &boot::ClocksourceWatchdog,
];

/// The files that the tunables want the survey to read.
#[must_use]
pub fn reads() -> Vec<&'static str> {
    TUNABLES.iter().flat_map(|tunable| tunable.reads()).copied().collect()
}

/// The tunable of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static dyn Tunable> {
    TUNABLES.iter().copied().find(|tunable| tunable.name() == name)
}

/// What was armed on the CPUs of a shield whose tick stays; nothing where the tick stops, for there
/// the plan has the CPU cycle.
#[must_use]
pub fn leftovers(machine: &Machine, shield: &Shield) -> Option<Leftovers> {
    cpu_hotplug_cycle::leftovers(machine, shield)
}

/// Whether a tunable is in force on a machine for a shield.
#[must_use]
pub fn in_force(machine: &Machine, shield: &Shield, tunable: &dyn Tunable) -> InForce {
    match tunable.wants(machine, shield) {
        WantedChanges::Nothing(why) => InForce::NotApplicable(why),
        WantedChanges::Changes(wanted) => {
            let missing: Vec<WantedChange> = wanted.into_iter().filter(|w| !w.already).collect();
            match missing.as_slice() {
                [] => InForce::InForce,
                some if some.iter().all(|w| !w.shows()) => InForce::CannotTell,
                _ => InForce::NotInForce(missing),
            }
        }
    }
}

/// Tells a machine that was surveyed beside a shield what the shield's plan and the outcomes of its
/// steps know: which interrupts can be moved, and that the kernel refused a partition.
pub fn recall(machine: &mut Machine, plan: &Plan, outcomes: &[(Step, Outcome)]) {
    irq_affinity::recall(machine, plan, outcomes);
    cpuset::recall(machine, plan);
}

/// The tunables that remove a cause, in order.
#[must_use]
pub fn removers(cause: Cause) -> Vec<&'static str> {
    let removes = |tunable: &&&dyn Tunable| tunable.removes().contains(&cause);
    TUNABLES.iter().filter(removes).map(|tunable| tunable.name()).collect()
}

/// The names nearest to a word, best first; empty when none is near.
#[must_use]
pub fn nearest(word: &str, names: &[&str]) -> Vec<String> {
    if word.is_empty() {
        return Vec::new();
    }
    let mut near: Vec<(usize, &str)> = names
        .iter()
        .map(|name| (strsim::levenshtein(word, name), *name))
        .filter(|(d, name)| *d <= 1 + name.len() / 3 || name.contains(word))
        .collect();
    near.sort();
    near.into_iter().take(3).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests;
