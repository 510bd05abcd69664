//! `cpu-hotplug-cycle`: what was left on the CPUs before they were shielded is swept away. Pure.

use super::leftovers::Leftovers;
use super::want::setting;
use super::{Remedy, RemedyAnswer, Tunable, WantedChange, WantedChanges};
use crate::causes::{Cause, Culprit};
use crate::change::{Change, EffectTime, Risk};
use crate::plan::Shield;
use crate::survey::{CgroupMode, Machine};

#[derive(Debug)]
pub(super) struct CpuHotplugCycle;

/// What a CPU of `nohz_full=` is told to run when a timer is armed on it from elsewhere
/// (`wake_up_full_nohz_cpu()` in kernel/sched/core.c, 6.12).
const KICK: &str = "nohz_full_kick_func";

const PAGE: &str = "\
Before a CPU was shielded it armed timers, queued work and ran other programs. A timer that arms
itself again stays on its CPU forever. Since 6.9 another CPU runs it, but arms it on the old
base again, and each time sends an IPI to a `nohz_full` CPU. Taking the CPU offline moves all of
that to other CPUs; online again it is clean. In the guests of the benchmark the left-over was
one IPI every 0.1 s (`nohz_full_kick_func`), and none after this step. `verify` names who sends
it and the timer; `verify --fix` does this step on a shield that is up.

It is done before everything else, because interrupts, threads and cpusets are disturbed by it.
Unasked it is done only on CPUs prepared with `nohz_full=`. Elsewhere the tick interrupts hundreds
of times more often. There the plan names the high-resolution timers that the survey saw armed
(`/proc/timer_list`, as root) and offers `--on cpu-hotplug-cycle`. Delayed works and the timers
of the wheel are shown by no kernel file; seen on 6.12-rt were `neigh_periodic_work` and
`psi_avgs_work`, 18 times in 20 s, and none after the cycle. Cpusets must be v2 (a v1 cpuset loses
the CPU for good), and the CPU one that can be taken offline.

Going offline changes other things by the way: masks of interrupts and of network queues that a
driver spreads again, the CPU's group of resctrl, partitions that have it, settings of its
frequency, idle states and machine-check thresholds. All of these are read before and put back at
once; failures are reported, and undo tries again.

Cost: all CPUs stop for a moment. Programs pinned to that CPU alone are moved; undo puts their
affinity back. Counters that `perf` keeps on that CPU alone end.

Source: timers_dead_cpu() in kernel/time/timer.c, cpuset_hotplug_update_tasks() in
kernel/cgroup/cpuset.c, migrate_one_irq() in kernel/irq/cpuhotplug.c, virtnet_cpu_online() in
drivers/net/virtio_net.c, resctrl_offline_cpu() in arch/x86/kernel/cpu/resctrl/,
perf_event_exit_cpu() in kernel/events/core.c (6.12).";

pub(super) fn leftovers(machine: &Machine, shield: &Shield) -> Option<Leftovers> {
    if is_tickless(machine, shield) {
        return None;
    }
    let cycle = match CpuHotplugCycle.wants_when_asked(machine, shield) {
        WantedChanges::Changes(_) => Ok(()),
        WantedChanges::Nothing(why) => Err(why),
    };
    Some(Leftovers::new(machine, shield, cycle))
}

/// Whether the tick can stop on every CPU of the shield.
fn is_tickless(machine: &Machine, shield: &Shield) -> bool {
    machine.isolation.nohz_full.as_ref().is_some_and(|cpus| shield.cpus.is_subset(cpus))
}

impl Tunable for CpuHotplugCycle {
    fn name(&self) -> &'static str {
        "cpu-hotplug-cycle"
    }

    fn summary(&self) -> &'static str {
        "take the CPUs offline and online once: timers and work left there go elsewhere"
    }

    fn page(&self) -> &'static str {
        PAGE
    }

    fn reads(&self) -> &'static [&'static str] {
        &["/sys/devices/system/cpu/cpu*/online"]
    }

    fn removes(&self) -> &'static [Cause] {
        &[Cause::Timer, Cause::Workqueue, Cause::IpiCall, Cause::IpiIrqWork]
    }

    fn risk(&self) -> Risk {
        Risk::Medium
    }

    fn wants(&self, machine: &Machine, shield: &Shield) -> WantedChanges {
        if !is_tickless(machine, shield) {
            return WantedChanges::Nothing(
                "the tick stays on the shield; what else was armed there is named below".to_owned(),
            );
        }
        self.wants_when_asked(machine, shield)
    }

    fn wants_when_asked(&self, machine: &Machine, shield: &Shield) -> WantedChanges {
        if machine.cgroup.mode != CgroupMode::V2 {
            let why = "a v1 cpuset would lose the CPU, and without cpusets nothing keeps it clean";
            return WantedChanges::Nothing(why.to_owned());
        }
        let path = |cpu: usize| format!("/sys/devices/system/cpu/cpu{cpu}/online");
        let online = |cpu: &usize| setting(machine, &path(*cpu)) == Some("1");
        let can: Vec<usize> = shield.cpus.iter().filter(online).collect();
        if can.is_empty() {
            return WantedChanges::Nothing(format!("CPU {} cannot be taken offline", shield.cpus));
        }
        let reason = "timers and work that were left on it go to other CPUs";
        let cycle = |cpu: usize| WantedChange::new(Change::CycleCpu { cpu }, reason);
        WantedChanges::Changes(can.into_iter().map(cycle).collect())
    }

    fn settles(
        &self,
        machine: &Machine,
        shield: &Shield,
        culprit: &Culprit,
    ) -> Option<RemedyAnswer> {
        if !culprit.kernel_function().is_some_and(|name| name.starts_with(KICK)) {
            return None;
        }
        Some(match self.wants_when_asked(machine, shield) {
            WantedChanges::Nothing(why) => RemedyAnswer::Impossible { why },
            WantedChanges::Changes(_) => RemedyAnswer::Remedy(Remedy {
                tunable: self.name().to_owned(),
                when: EffectTime::Runtime,
                how: format!("cpushield verify --fix (CPU {} offline and online)", shield.cpus),
            }),
        })
    }
}
