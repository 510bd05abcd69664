//! [`missing`]: the steps that an active shield lacks, because another process changed a setting,
//! because something new appeared, or because a leak needs more. Pure.

use super::{Plan, SkipReason, Step, step};
use crate::change::{Change, EffectTime, Outcome, Risk};
use crate::documents::machine::Machine;
use crate::tunables::{TUNABLES, Tunable, WantedChanges};
use std::collections::BTreeSet;

/// The steps that an active shield needs to match its plan and its tunables on the current machine.
/// Tunables in `requested` are included even if the shield was made without them, unless they are
/// optional and risky, or the user disabled them. Steps that the kernel refused (`outcomes`) are
/// repeated only for requested tunables.
#[must_use]
pub fn missing(
    machine: &Machine,
    plan: &Plan,
    outcomes: &[(Step, Outcome)],
    requested: &BTreeSet<String>,
) -> Vec<Step> {
    let mut steps = Vec::new();
    for tunable in TUNABLES.iter().copied().filter(|tunable| tunable.when == EffectTime::Runtime) {
        let asked = requested.contains(tunable.name);
        let fits = if asked { !plan.is_risky_addition(tunable) } else { plan.includes(tunable) };
        if !fits || plan.is_off(tunable) {
            continue;
        }
        let wants = match (tunable.wants)(machine, &plan.shield) {
            WantedChanges::Nothing(_) if asked || plan.has(tunable.name) => {
                tunable.wants_on_request(machine, &plan.shield)
            }
            wants => wants,
        };
        let WantedChanges::Changes(wanted) = wants else { continue };
        let lacking = wanted.into_iter().filter(|wanted| {
            let lacks = match wanted.change {
                Change::CycleCpu { .. } => asked,
                // A program that came later is none that the shield was made for.
                Change::MoveProcess { .. } => false,
                Change::BanFromIrqbalance { .. } => true,
                _ => wanted.shows(),
            };
            lacks && !wanted.already && (asked || !was_refused(&wanted.change, outcomes))
        });
        steps.extend(lacking.map(|wanted| step(tunable, wanted)));
    }
    // Whether irqbalance still avoids the shield is not visible. If interrupts were moved, it may
    // have moved them.
    if !steps.iter().any(|step| step.tunable == "irq-affinity") {
        steps.retain(|step| !matches!(step.change, Change::BanFromIrqbalance { .. }));
    }
    steps
}

/// The steps of one tunable that an active shield needs on the current machine, whether it has made
/// them before or not. Empty when the tunable is disabled or not part of the shield.
#[must_use]
pub fn wanted_now(machine: &Machine, plan: &Plan, name: &str) -> Vec<Step> {
    let tunables = TUNABLES.iter().copied().filter(|tunable| tunable.name == name);
    let included = tunables.filter(|tunable| plan.includes(tunable) && !plan.is_off(tunable));
    let wanted = included.flat_map(|tunable| {
        let wanted = (tunable.wants)(machine, &plan.shield).into_changes().into_iter();
        wanted.map(move |wanted| step(tunable, wanted))
    });
    wanted.collect()
}

fn was_refused(change: &Change, outcomes: &[(Step, Outcome)]) -> bool {
    let about = outcomes.iter().rev().find(|(step, _)| step.change.is_about_same(change));
    about.is_some_and(|(_, outcome)| matches!(outcome, Outcome::Refused { .. }))
}

impl Plan {
    /// Whether the user disabled a tunable.
    fn is_off(&self, tunable: &Tunable) -> bool {
        self.skipped.iter().any(|skipped| {
            skipped.tunable == tunable.name && skipped.reason == SkipReason::SwitchedOff
        })
    }

    /// Whether a tunable changed something, or found it already done.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.already.contains_key(name) || self.steps.iter().any(|step| step.tunable == name)
    }

    /// Whether a tunable is only used when the user names it, because it is risky.
    fn is_risky_addition(&self, tunable: &Tunable) -> bool {
        !self.has(tunable.name)
            && (tunable.optional)(self.shield.workload).is_some()
            && tunable.risk == Risk::Medium
    }

    /// Whether the shield includes a tunable: it changed something, or it had nothing to do.
    fn includes(&self, tunable: &Tunable) -> bool {
        self.has(tunable.name) || (tunable.optional)(self.shield.workload).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{irq, plain, set, thread};
    use super::*;
    use crate::change::RefusalKind;
    use crate::documents::machine::{CgroupMode, IrqMovability, TunableReading};
    use crate::plan::plan;
    use crate::policy::ShieldRequest;

    const STAT: &str = "/proc/sys/vm/stat_interval";
    const TIMERS: &str = "/proc/sys/kernel/timer_migration";
    const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    const DIRTY: &str = "/proc/sys/vm/dirty_writeback_centisecs";
    const RPS: &str = "/sys/class/net/eth0/queues/rx-0/rps_cpus";

    /// A machine with an active shield, as far as these tunables see it.
    fn shielded(settings: &[(&str, &str)]) -> Machine {
        let mut machine = plain(4);
        machine.cgroup.mode = CgroupMode::None;
        machine.isolation.nohz_full = Some(set("2-3"));
        machine.irqs.push(irq(24, "virtio0-input", "0-2", IrqMovability::Yes));
        let online = ("/sys/devices/system/cpu/cpu3/online", "1");
        for (path, text) in settings.iter().chain([&online]) {
            machine.settings.insert((*path).to_owned(), TunableReading::Value((*text).to_owned()));
        }
        machine
    }

    fn planned(machine: &Machine, tunables: &[(&str, bool)]) -> Plan {
        let tunables = tunables.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect();
        plan(machine, &ShieldRequest { cpus: Some(set("3")), tunables, ..ShieldRequest::default() })
            .unwrap()
    }

    fn missing_subjects(machine: &Machine, plan: &Plan, requested: &[&str]) -> Vec<String> {
        let requested = requested.iter().map(|name| (*name).to_owned()).collect();
        let steps = missing(machine, plan, &[], &requested);
        steps.iter().map(|step| step.change.subject()).collect()
    }

    #[test]
    fn changed_settings_and_new_tasks_and_interrupts_are_missing_and_nothing_else() {
        let before = shielded(&[(STAT, "1"), (TIMERS, "1"), (THP, "[always] never"), (RPS, "0")]);
        let plan = planned(&before, &[]);
        let up = shielded(&[(STAT, "3600"), (TIMERS, "1"), (THP, "[always] never"), (RPS, "0")]);
        assert_eq!(missing_subjects(&up, &plan, &[]), [""; 0]);
        let mut meddled = shielded(&[(STAT, "1"), (TIMERS, "0"), (THP, "[always] never")]);
        meddled.settings.insert(RPS.to_owned(), TunableReading::Value("8".to_owned()));
        meddled.irqs.push(irq(25, "nvme0q1", "3", IrqMovability::Unknown("not tried".to_owned())));
        meddled.tasks.push(thread(90, "newcomer", true, false, "0-3"));
        assert_eq!(
            missing_subjects(&meddled, &plan, &[]),
            ["affinity of newcomer (90)", "/proc/irq/25/smp_affinity_list", RPS, TIMERS, STAT]
        );
    }

    #[test]
    fn a_leak_may_add_tunables_but_not_risky_or_disabled_ones() {
        let machine = shielded(&[(STAT, "1"), (THP, "[always] never"), (DIRTY, "500")]);
        let plan = planned(&machine, &[("vm-stat-interval", false)]);
        assert_eq!(missing_subjects(&machine, &plan, &[]), [""; 0]);
        let asked = ["thp", "vm-stat-interval", "writeback-interval"];
        assert_eq!(missing_subjects(&machine, &plan, &asked), [THP]);
        let by_name = planned(&machine, &[("writeback-interval", true)]);
        assert_eq!(missing_subjects(&machine, &by_name, &[]), [STAT, DIRTY]);
    }

    #[test]
    fn an_irqbalance_that_starts_later_is_banned_unless_that_is_disabled() {
        let before = shielded(&[]);
        let mut after = shielded(&[]);
        after.tasks.push(thread(812, "irqbalance", false, false, "0-3"));
        let subjects = |machine: &Machine, tunables: &[(&str, bool)]| -> Vec<String> {
            let plan = planned(&before, tunables);
            let steps = wanted_now(machine, &plan, "irqbalance");
            steps.iter().map(|step| step.change.subject()).collect()
        };
        assert_eq!(subjects(&after, &[]).len(), 1, "{:?}", subjects(&after, &[]));
        assert_eq!(subjects(&after, &[("irqbalance", false)]), [""; 0]);
        assert_eq!(subjects(&before, &[]), [""; 0]);
    }

    #[test]
    fn a_cpu_is_cycled_only_on_request() {
        let mut machine = shielded(&[]);
        machine.cgroup.mode = CgroupMode::V2;
        let plan = planned(&machine, &[]);
        assert_eq!(
            missing_subjects(&machine, &plan, &["cpu-hotplug-cycle"]),
            ["hotplug cycle of CPU 3"]
        );
        assert_eq!(missing_subjects(&machine, &plan, &[]), [""; 0]);
    }

    #[test]
    fn a_refused_step_is_repeated_only_on_request() {
        let machine = shielded(&[(STAT, "1")]);
        let plan = planned(&machine, &[]);
        let refused = Outcome::Refused { kind: RefusalKind::Other, reason: "EPERM".to_owned() };
        let of = |step: &Step| (step.clone(), refused.clone());
        let outcomes: Vec<_> = plan.steps.iter().map(of).collect();
        let asked = BTreeSet::from(["vm-stat-interval".to_owned()]);
        assert_eq!(missing(&machine, &plan, &outcomes, &BTreeSet::new()), []);
        assert_eq!(missing(&machine, &plan, &outcomes, &asked).len(), 1);
    }
}
