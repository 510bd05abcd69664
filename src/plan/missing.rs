//! [`missing`]: what a shield that is up lacks, because somebody changed it, because something came
//! since, or because a leak asks for more. Pure.

use super::{Plan, SkipKind, Step, step};
use crate::change::{Change, EffectTime, Outcome, Risk};
use crate::survey::Machine;
use crate::tunables::{TUNABLES, Tunable, WantedChanges};
use std::collections::BTreeSet;

/// The steps that would make a shield that is up what its plan and its tunables want, on the
/// machine as it is now. Tunables in `asked` do their part though the shield was made without them,
/// but not what may do harm and is optional, and never what the user had switched off. What the
/// kernel refused already (`outcomes`) is tried again only where it is asked for.
#[must_use]
pub fn missing(
    machine: &Machine,
    plan: &Plan,
    outcomes: &[(Step, Outcome)],
    asked: &BTreeSet<String>,
) -> Vec<Step> {
    let mut steps = Vec::new();
    for tunable in TUNABLES.iter().copied().filter(|tunable| tunable.when() == EffectTime::Runtime)
    {
        let asked = asked.contains(tunable.name());
        let fits = if asked { !plan.is_too_much(tunable) } else { plan.is_for(tunable) };
        if !fits || plan.is_off(tunable) {
            continue;
        }
        let wants = match tunable.wants(machine, &plan.shield) {
            WantedChanges::Nothing(_) if asked || plan.has(tunable) => {
                tunable.wants_on_request(machine, &plan.shield)
            }
            wants => wants,
        };
        let WantedChanges::Changes(wanted) = wants else { continue };
        let lacking = wanted.into_iter().filter(|wanted| {
            let lacks = match wanted.change {
                Change::CycleCpu { .. } => asked,
                Change::BanFromIrqbalance { .. } => true,
                _ => wanted.shows(),
            };
            lacks && !wanted.already && (asked || !was_refused(&wanted.change, outcomes))
        });
        steps.extend(lacking.map(|wanted| step(tunable, wanted)));
    }
    // Nobody sees whether irqbalance still knows of the shield; it may be who moved interrupts.
    if !steps.iter().any(|step| step.tunable == "irq-affinity") {
        steps.retain(|step| !matches!(step.change, Change::BanFromIrqbalance { .. }));
    }
    steps
}

fn was_refused(change: &Change, outcomes: &[(Step, Outcome)]) -> bool {
    let about = outcomes.iter().rev().find(|(step, _)| step.change.is_about_same(change));
    about.is_some_and(|(_, outcome)| matches!(outcome, Outcome::Refused { .. }))
}

impl Plan {
    /// Whether the user does not want what a tunable does.
    fn is_off(&self, tunable: &dyn Tunable) -> bool {
        self.skipped
            .iter()
            .any(|it| it.tunable == tunable.name() && it.kind == SkipKind::SwitchedOff)
    }

    /// Whether a tunable did something, or found it done.
    fn has(&self, tunable: &dyn Tunable) -> bool {
        let name = tunable.name();
        self.already.contains_key(name) || self.steps.iter().any(|step| step.tunable == name)
    }

    /// Whether a tunable is only for those who ask for it by name, for it may do harm.
    fn is_too_much(&self, tunable: &dyn Tunable) -> bool {
        !self.has(tunable)
            && tunable.optional(self.shield.workload).is_some()
            && tunable.risk() == Risk::Medium
    }

    /// Whether a tunable belongs to the shield: it has its part in it, or it had nothing to do.
    fn is_for(&self, tunable: &dyn Tunable) -> bool {
        self.has(tunable) || tunable.optional(self.shield.workload).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{irq, plain, set, thread};
    use super::*;
    use crate::change::RefusalKind;
    use crate::plan::plan;
    use crate::policy::ShieldRequest;
    use crate::survey::{CgroupMode, IrqMovability, TunableReading};

    const STAT: &str = "/proc/sys/vm/stat_interval";
    const TIMERS: &str = "/proc/sys/kernel/timer_migration";
    const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    const DIRTY: &str = "/proc/sys/vm/dirty_writeback_centisecs";
    const RPS: &str = "/sys/class/net/eth0/queues/rx-0/rps_cpus";

    /// A machine whose shield is up, as far as these tunables see it.
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

    fn told(machine: &Machine, plan: &Plan, asked: &[&str]) -> Vec<String> {
        let asked = asked.iter().map(|name| (*name).to_owned()).collect();
        let steps = missing(machine, plan, &[], &asked);
        steps.iter().map(|step| step.change.subject()).collect()
    }

    #[test]
    fn what_somebody_changed_and_what_came_since_is_missing_and_nothing_else() {
        let before = shielded(&[(STAT, "1"), (TIMERS, "1"), (THP, "[always] never"), (RPS, "0")]);
        let plan = planned(&before, &[]);
        let up = shielded(&[(STAT, "3600"), (TIMERS, "1"), (THP, "[always] never"), (RPS, "0")]);
        assert_eq!(told(&up, &plan, &[]), [""; 0]);
        let mut meddled = shielded(&[(STAT, "1"), (TIMERS, "0"), (THP, "[always] never")]);
        meddled.settings.insert(RPS.to_owned(), TunableReading::Value("8".to_owned()));
        meddled.irqs.push(irq(25, "nvme0q1", "3", IrqMovability::Unknown("not tried".to_owned())));
        meddled.tasks.push(thread(90, "newcomer", true, false, "0-3"));
        assert_eq!(
            told(&meddled, &plan, &[]),
            ["affinity of newcomer (90)", "/proc/irq/25/smp_affinity_list", RPS, TIMERS, STAT]
        );
    }

    #[test]
    fn a_leak_may_ask_for_more_but_not_for_what_may_do_harm_or_is_switched_off() {
        let machine = shielded(&[(STAT, "1"), (THP, "[always] never"), (DIRTY, "500")]);
        let plan = planned(&machine, &[("vm-stat-interval", false)]);
        assert_eq!(told(&machine, &plan, &[]), [""; 0]);
        let asked = ["thp", "vm-stat-interval", "writeback-interval"];
        assert_eq!(told(&machine, &plan, &asked), [THP]);
        let by_name = planned(&machine, &[("writeback-interval", true)]);
        assert_eq!(told(&machine, &by_name, &[]), [STAT, DIRTY]);
    }

    #[test]
    fn a_cpu_is_cycled_only_when_that_is_asked_for() {
        let mut machine = shielded(&[]);
        machine.cgroup.mode = CgroupMode::V2;
        let plan = planned(&machine, &[]);
        assert_eq!(told(&machine, &plan, &["cpu-hotplug-cycle"]), ["CPU 3 offline and online"]);
        assert_eq!(told(&machine, &plan, &[]), [""; 0]);
    }

    #[test]
    fn what_the_kernel_refused_is_tried_again_only_when_that_is_asked_for() {
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
