//! Tunables: one file for each setting of the kernel or the machine, one slice that lists them. A
//! tunable is pure: it takes the [`Machine`] and the [`Shield`] and returns changes; it has no
//! write and no undo code.
//!
//! It returns changes, or the reason why it does not apply. `ksm.rs` is an example with one file
//! and one value, `irq_affinity.rs` one with many files. `remedy.rs` asks all of them what removes
//! an interruption.

mod boot;
mod console_cursor_blink;
mod cpu_hotplug_cycle;
mod cpu_idle;
mod cpuset;
mod explained;
mod fair_server;
mod irq_affinity;
mod irqbalance;
mod keep_affinities;
mod ksm;
mod kthreads;
mod leftovers;
mod mce_check_interval;
mod no_turbo;
mod numa_balancing;
mod offline_siblings;
mod packet_steering;
mod power;
mod rcu_normal;
mod remedy;
mod remedy_answer;
mod rt_throttling;
mod setting;
mod thp;
mod timer_migration;
mod tracing_buffer;
mod value;
mod vm_stat_interval;
mod want;
mod watchdog;
mod workqueues;
mod writeback_interval;

pub use boot::{CLOCKSOURCE_WATCHDOG, NOHZ_FULL, RCU_NOCBS};
pub use cpuset::HOUSEKEEPING as HOUSEKEEPING_GROUP;
pub use cpuset::foreign_partition;
pub use explained::of_file;
pub use irq_affinity::reaches_managed;
pub use offline_siblings::{NAME as OFFLINE_SIBLINGS, lacks_switch};
pub use remedy::remedy;
pub use remedy_answer::RemedyAnswer;
pub use value::{TunableValue, ValueRefusal, spell_setting};
pub use want::WantedChange;

use crate::causes::culprit::CulpritPattern;
use crate::causes::{Cause, Culprit};
use crate::change::{EffectTime, Outcome, Risk};
use crate::documents::evidence::InterruptSender;
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::leftovers::Leftovers;
use crate::documents::machine::Machine;
use crate::documents::plan::{
    BootAdvice, Immovable, MachineWideEffect, OffReason, Plan, PlanWarning, Shield, Step,
};
use crate::policy::Workload;
use crate::registry;
use cpushield_linux::CpuSet;
use std::collections::BTreeSet;

/// One setting of the kernel or the machine.
#[derive(Debug)]
pub struct Tunable {
    /// The stable name: `irq-affinity`.
    pub name: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    /// The page of `explain` (Markdown): why it helps, when it applies, its cost, its sources.
    pub page: &'static str,
    /// Files that the survey must read for it; `*` matches any one name in a path.
    pub reads: &'static [&'static str],
    /// The causes of interruptions that it removes.
    pub removes: &'static [Cause],
    /// The culprits whose interruptions it removes (`vmstat_update`); empty: all culprits of its
    /// causes.
    pub culprits: &'static [CulpritPattern],
    /// What it can harm.
    pub risk: Risk,
    /// When it takes effect.
    pub when: EffectTime,
    /// Why it is applied only when the user requests it by name; `None` when it always is.
    pub optional: fn(Workload) -> Option<OffReason>,
    /// The values that it takes; `None` if it is only on or off.
    pub value: Option<TunableValue>,
    /// What it does once to all CPUs, those of other shields included; `None` if nothing that stops
    /// or interrupts them all.
    pub disturbs_others: Option<MachineWideEffect>,
    /// The same for the restoration of what it changed.
    pub disturbs_when_undone: Option<MachineWideEffect>,
    /// The CPUs that it disturbs when it replaces this value of a setting; `None` if all. Then it
    /// disturbs no shield that has the tunable.
    pub disturbed_cpus: fn(&str) -> Option<CpuSet>,
    /// The changes that it wants on this machine for this shield.
    pub wants: fn(&Machine, &Shield) -> WantedChanges,
    /// The changes that it wants when the user requests it by name; `None` if the same.
    pub wants_on_request: Option<fn(&Machine, &Shield) -> WantedChanges>,
    /// What it cannot remove, with advice.
    pub remains: fn(&Machine, &Shield) -> UnresolvedCause,
    /// Whether it cannot remove this interruption, although it removes others of the same cause.
    pub spares: fn(&Machine, &Shield, Cause, &Culprit, &[InterruptSender]) -> bool,
    /// What removes this particular culprit, or why nothing does; `None` when it does not know the
    /// culprit.
    pub remedy_for: fn(&Machine, &Shield, &Culprit) -> Option<RemedyAnswer>,
    /// The boot parameter that removes what it removes, on every machine; `None` where
    /// [`Tunable::remains`] knows it.
    pub boot_parameter: Option<&'static str>,
}

impl Tunable {
    /// What most tunables are like.
    const PLAIN: Tunable = Tunable {
        name: "",
        summary: "",
        page: "",
        reads: &[],
        removes: &[],
        culprits: &[],
        risk: Risk::None,
        when: EffectTime::Runtime,
        optional: |_| None,
        value: None,
        disturbs_others: None,
        disturbs_when_undone: None,
        disturbed_cpus: |_| None,
        wants: |_, _| WantedChanges::Changes(Vec::new()),
        wants_on_request: None,
        remains: |_, _| UnresolvedCause::default(),
        spares: |_, _, _, _, _| false,
        remedy_for: |_, _, _| None,
        boot_parameter: None,
    };

    /// The changes that it wants when the user requests it by name.
    #[must_use]
    pub fn wants_on_request(&self, machine: &Machine, shield: &Shield) -> WantedChanges {
        self.wants_on_request.unwrap_or(self.wants)(machine, shield)
    }

    /// The boot parameter that removes a cause that remains.
    #[must_use]
    pub fn at_boot(&self, machine: &Machine, shield: &Shield, cause: Cause) -> Option<String> {
        let remains = || (self.remains)(machine, shield).boot.into_iter();
        let advised = || remains().find(|it| it.removes.contains(&cause)).map(|it| it.parameter);
        self.boot_parameter.map(str::to_owned).or_else(advised)
    }
}

/// The changes that a tunable wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WantedChanges {
    /// These changes, in order; those that the machine already has are marked.
    Changes(Vec<WantedChange>),
    /// Nothing, and why: it does not apply, or this machine does not support it.
    Nothing(InapplicableReason),
}

impl WantedChanges {
    /// The changes; none if it does not apply.
    #[must_use]
    pub fn into_changes(self) -> Vec<WantedChange> {
        match self {
            WantedChanges::Changes(wanted) => wanted,
            WantedChanges::Nothing(_) => Vec::new(),
        }
    }
}

/// What a tunable cannot remove.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnresolvedCause {
    /// Things that cannot be moved.
    pub immovable: Vec<Immovable>,
    /// Boot parameters that would remove them.
    pub boot: Vec<BootAdvice>,
    /// Warnings with advice.
    pub warnings: Vec<PlanWarning>,
}

/// Whether a tunable is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InForce {
    /// The machine has everything that it wants.
    InForce,
    /// These changes are missing.
    NotInForce(Vec<WantedChange>),
    /// It does nothing on this machine, and why.
    NotApplicable(InapplicableReason),
    /// The machine does not show it; only the journal knows.
    CannotTell,
}

/// Every tunable, in the order in which their changes are made.
pub const TUNABLES: &[&Tunable] = &[
    &keep_affinities::KEEP_AFFINITIES,
    &tracing_buffer::TRACING_BUFFER,
    &cpu_hotplug_cycle::CPU_HOTPLUG_CYCLE,
    &rt_throttling::RT_THROTTLING,
    &fair_server::FAIR_SERVER,
    &cpuset::CPUSET,
    &kthreads::KTHREADS,
    &irqbalance::IRQBALANCE,
    &irq_affinity::IRQ_AFFINITY,
    &workqueues::WORKQUEUES,
    &packet_steering::RPS,
    &packet_steering::XPS,
    &timer_migration::TIMER_MIGRATION,
    &watchdog::WATCHDOG,
    &vm_stat_interval::VM_STAT_INTERVAL,
    &numa_balancing::NUMA_BALANCING,
    &mce_check_interval::MCE_CHECK_INTERVAL,
    &rcu_normal::RCU_NORMAL,
    &ksm::KSM,
    &thp::THP,
    &writeback_interval::WRITEBACK_INTERVAL,
    &console_cursor_blink::CONSOLE_CURSOR_BLINK,
    &cpu_idle::CPU_IDLE,
    &power::CPU_GOVERNOR,
    &no_turbo::NO_TURBO,
    &offline_siblings::OFFLINE_SIBLINGS,
    &boot::NOHZ_FULL,
    &boot::RCU_NOCBS,
    &boot::CLOCKSOURCE_WATCHDOG,
];

/// The files that the survey must read for the tunables, each of them once.
#[must_use]
pub fn reads() -> Vec<&'static str> {
    let files: BTreeSet<_> = TUNABLES.iter().flat_map(|tunable| tunable.reads).copied().collect();
    files.into_iter().collect()
}

/// The tunable of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Tunable> {
    registry::find(TUNABLES, name)
}

/// The timers on the CPUs of a shield whose tick continues; `None` where the tick stops, because
/// the plan cycles those CPUs.
#[must_use]
pub fn leftovers(machine: &Machine, shield: &Shield) -> Option<Leftovers> {
    cpu_hotplug_cycle::find_leftovers(machine, shield)
}

/// Whether a tunable is in force on a machine for a shield.
#[must_use]
pub fn in_force(machine: &Machine, shield: &Shield, tunable: &Tunable) -> InForce {
    match (tunable.wants)(machine, shield) {
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

/// Completes a survey that was made with an active shield by facts from the shield's plan and
/// outcomes: which interrupts can be moved, and whether the kernel refused a partition.
pub fn complete_survey(machine: &mut Machine, plan: &Plan, outcomes: &[(Step, Outcome)]) {
    irq_affinity::complete_survey(machine, plan, outcomes);
    cpuset::complete_survey(machine, plan);
}

/// The tunables that remove a cause, in order.
#[must_use]
pub fn removers(cause: Cause) -> Vec<&'static str> {
    let removers = TUNABLES.iter().filter(|tunable| tunable.removes.contains(&cause));
    removers.map(|tunable| tunable.name).collect()
}

#[cfg(test)]
mod tests;
