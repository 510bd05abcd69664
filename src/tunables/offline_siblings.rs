//! `offline-siblings`: takes the idle SMT siblings of a shield offline. Pure.

use super::want::setting;
use super::{Tunable, WantedChange, WantedChanges};
use crate::change::{Change, Risk};
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::machine::Machine;
use crate::documents::plan::{MachineWideEffect, Shield};

/// The name of the tunable.
pub const NAME: &str = "offline-siblings";

const PAGE: &str = "\
The SMT siblings of a core share its execution units, caches and buffers. An idle sibling still
wakes up for its timers, its bound kernel threads and IPIs. While it runs, a program on another
sibling is slower. No trace shows that as an interruption. An offline sibling runs no tasks, timers
or interrupt handlers until it is online again.

`--siblings offline` requests this. It is the last step of apply and the first step of undo: all
other steps happen while the CPU is online. The CPU stays in the shield, so no other program can use
it if another process brings it online; `status` then shows the difference.

Taking a CPU offline has side effects; they are the same as with `cpu-hotplug-cycle`. apply reads
the affected settings right before. It restores the masks of interrupts, and of queues that a driver
redistributes, at once. Undo restores the settings that only an online CPU has when the CPU is
online again. These are its resctrl group, its membership in v1 cpusets, and its settings for
frequency, idle states and machine-check thresholds. Undo restores affinities last. On cgroup v1 the
cpuset of the shield does not contain the CPU, because the kernel would remove an offline CPU from
it.

Cost: all CPUs stop for a moment when the CPU goes offline. So apply refuses it while another shield
is active, unless you pass `--disturb`. On x86 all CPUs stop again when undo brings the CPU back
online. `perf` counters that count only on that CPU stop. apply also refuses the request if a
sibling has no `online` file, such as CPU 0 of an x86 machine.

Source: takedown_cpu() in kernel/cpu.c, cache_ap_online() in arch/x86/kernel/cpu/cacheinfo.c,
cpuset_hotplug_update_tasks() in kernel/cgroup/cpuset.c, resctrl_offline_cpu() in
arch/x86/kernel/cpu/resctrl/ (6.12); Documentation/core-api/cpu_hotplug.rst; cpu(1) of RedHawk
Linux, which does the same.";

/// Whether a CPU has no switch to take it offline.
#[must_use]
pub fn lacks_switch(machine: &Machine, cpu: usize) -> bool {
    setting(machine, &online_file(cpu)).is_none()
}

fn online_file(cpu: usize) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}/online")
}

pub(super) const OFFLINE_SIBLINGS: Tunable = Tunable {
    name: NAME,
    summary: "take the idle SMT siblings of the shield offline (`--siblings offline`)",
    page: PAGE,
    reads: &["/sys/devices/system/cpu/cpu*/online"],
    risk: Risk::Medium,
    disturbs_others: Some(MachineWideEffect::TakesCpusOffline),
    disturbs_when_undone: Some(MachineWideEffect::BringsCpusOnline),
    wants,
    ..Tunable::PLAIN
};

fn wants(machine: &Machine, shield: &Shield) -> WantedChanges {
    if machine.topology.threads_per_core() < 2 {
        return WantedChanges::Nothing(InapplicableReason::NoSiblings);
    }
    if shield.offline_siblings.is_empty() {
        return WantedChanges::Nothing(InapplicableReason::SiblingsStayOnline);
    }
    let working = shield.cpus.difference(&shield.idle_siblings);
    let wanted = shield.offline_siblings.iter().filter_map(|cpu| {
        // A CPU that is offline already has no siblings.
        let siblings = &machine.topology.cpu(cpu)?.siblings;
        let sibling = siblings.intersection(&working).first()?;
        let change = Change::OfflineSibling { cpu, sibling };
        let reason = "the other sibling then has the core to itself";
        let now = setting(machine, &online_file(cpu)).map(str::to_owned);
        let is_offline = now.as_deref() == Some("0");
        let wanted = WantedChange { now, ..WantedChange::new(change, reason) };
        Some(wanted.already_if(is_offline).required())
    });
    WantedChanges::Changes(wanted.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::machine::TunableReading;
    use crate::documents::plan::{ActiveShields, Plan};
    use crate::plan::fake::{machine, set};
    use crate::plan::{PlanRefusal, SiblingRefusal, plan, plan_with_others};
    use crate::policy::{ShieldRequest, Siblings};

    fn smt() -> Machine {
        let cores = ["0,4", "1,5", "2,6", "3,7"];
        let mut machine = machine(&cores, &cores, &["0-7"]);
        for cpu in 1..8 {
            machine.settings.insert(online_file(cpu), TunableReading::Value("1".to_owned()));
        }
        machine
    }

    fn request(name: &str, cpus: &str) -> ShieldRequest {
        ShieldRequest {
            name: name.to_owned(),
            cpus: Some(set(cpus)),
            siblings: Some(Siblings::Offline),
            ..ShieldRequest::default()
        }
    }

    fn offline(plan: &Plan) -> Vec<&Change> {
        let changes = plan.steps.iter().map(|step| &step.change);
        changes.filter(|change| matches!(change, Change::OfflineSibling { .. })).collect()
    }

    #[test]
    fn the_idle_siblings_go_offline_last_and_only_on_request() {
        let planned = plan(&smt(), &request("a", "2-3")).unwrap();
        let six = Change::OfflineSibling { cpu: 6, sibling: 2 };
        let seven = Change::OfflineSibling { cpu: 7, sibling: 3 };
        assert_eq!(offline(&planned), [&six, &seven]);
        assert_eq!(planned.steps.last().map(|step| &step.change), Some(&seven));
        assert!(planned.steps.iter().filter(|step| step.tunable == NAME).all(|it| it.required));
        let idle = ShieldRequest { siblings: None, ..request("a", "2-3") };
        assert_eq!(offline(&plan(&smt(), &idle).unwrap()), Vec::<&Change>::new());
    }

    #[test]
    fn what_cannot_go_offline_is_refused() {
        let mut fixed = smt();
        fixed.settings.remove(&online_file(7));
        let refused = plan(&fixed, &request("a", "3")).unwrap_err();
        assert_eq!(refused, PlanRefusal::Siblings(SiblingRefusal::StayOnline { cpus: set("7") }));
        let mut off = request("a", "3");
        off.tunables.set(NAME, false);
        let refused = plan(&smt(), &off).unwrap_err();
        assert_eq!(refused, PlanRefusal::Siblings(SiblingRefusal::SwitchedOff { cpus: set("7") }));
        assert!(refused.is_usage());
    }

    #[test]
    fn all_cpus_stop_so_it_is_refused_while_another_shield_is_active() {
        let old = plan(&smt(), &request("a", "3")).unwrap();
        let idle = ShieldRequest { siblings: None, ..request("b", "2") };
        let other = ActiveShields::new(&[plan(&smt(), &idle).unwrap()]);
        let refused = plan_with_others(&smt(), &request("a", "3"), &other).unwrap_err();
        let shields = vec!["b".to_owned()];
        assert_eq!(
            refused,
            PlanRefusal::Siblings(SiblingRefusal::StopsShields { cpus: set("7"), shields })
        );
        // What is offline already stays so.
        let other = other.replacing(Some(&old));
        let again = plan_with_others(&smt(), &request("a", "3"), &other).unwrap();
        assert_eq!(again.shield.offline_siblings, set("7"));
        let more = plan_with_others(&smt(), &request("a", "1,3"), &other).unwrap_err();
        let shields = vec!["b".to_owned()];
        assert_eq!(
            more,
            PlanRefusal::Siblings(SiblingRefusal::StopsShields { cpus: set("5"), shields })
        );
    }
}
