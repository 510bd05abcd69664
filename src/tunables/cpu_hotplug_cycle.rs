//! `cpu-hotplug-cycle`: moves timers and work that were left on the CPUs elsewhere. Pure.

use super::leftovers;
use super::want::setting;
use super::{RemedyAnswer, Tunable, WantedChange, WantedChanges};
use crate::causes::purpose::KernelOperation;
use crate::causes::{Cause, Culprit};
use crate::change::{Change, EffectTime, Risk};
use crate::documents::evidence::{DeferredBy, InterruptSender, IpiOrigin, SentIpi};
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::leftovers::Leftovers;
use crate::documents::machine::{CgroupMode, Machine};
use crate::documents::plan::{MachineWideEffect, Shield};
use crate::documents::remedy::{Remedy, RemedyObstacle};

/// The function that a CPU of `nohz_full=` runs when another CPU arms a timer on it
/// (`wake_up_full_nohz_cpu()` in kernel/sched/core.c, 6.12).
const KICK: &str = "nohz_full_kick_func";

/// Other programs that ran on the CPU before: their flushes reach it until its next cycle.
const FLUSH: &str = "flush_tlb_func";

/// Timers and work that were not left on the CPU. `clocksource_watchdog` visits all CPUs in turn
/// (add_timer_on() in kernel/time/clocksource.c, 6.12). A thread that sleeps arms `process_timeout`
/// each time, and from 6.9 on a CPU that ticks expires those of idle CPUs (tmigr_handle_remote() in
/// kernel/time/timer_migration.c). Another CPU queues the others on all CPUs, again each time
/// (__lru_add_drain_all() in mm/swap.c, flush_all_cpus_locked() in mm/slub.c, refresh_vm_stats()
/// in mm/vmstat.c, ring_buffer_resize() in kernel/trace/ring_buffer.c, 6.12; mm/slub.c, 7.0, has
/// `flush_cpu_sheaves` instead of `flush_cpu_slab`). rcu_core() in kernel/rcu/tree.c queues
/// `strict_work_handler` on its own CPU each time it runs (CONFIG_RCU_STRICT_GRACE_PERIOD).
const NOT_LEFT: &[&str] = &[
    "process_timeout",
    "clocksource_watchdog",
    "lru_add_drain_per_cpu",
    "drain_local_pages",
    "flush_cpu_slab",
    "flush_cpu_sheaves",
    "flush_rcu_sheaf",
    "refresh_vm_stats",
    "update_pages_handler",
    "strict_work_handler",
];

const PAGE: &str = "\
Before a CPU was shielded, it armed timers, queued work and ran other programs. A timer that its own
function re-arms stays on its CPU forever. Since 6.9 another CPU may run such a timer, but re-arms
it on the timer base of its old CPU. If the old CPU is in `nohz_full=`, the other CPU also sends it
an IPI each time. Taking a CPU offline moves its timers and work to other CPUs. When it is back
online, only the per-CPU timers of the kernel itself start on it again. In the benchmark guests, one
IPI every 0.1 s (`nohz_full_kick_func`) remained before this step, and none after it. `verify` names
the sender and the timer; `verify --fix` performs this step on an active shield.

Kernels with commit 7dec062cfcf2 (November 2025) treat two kinds of CPUs differently. CPUs in
`nohz_full=` stay in the timer-migration hierarchy, so the paragraph above applies to them. CPUs
that are isolated only by a partition or by `isolcpus=` are not in that hierarchy. No other CPU
expires their timers: a timer that is armed on such a CPU fires on that CPU. This step moves the
timers of both kinds of CPUs.

apply takes this step before it changes interrupts, threads and cpusets, because the step disturbs
them. By default, apply takes it only if all CPUs of the shield are in `nohz_full=`. On other CPUs
the tick continues and interrupts 100 to 1000 times a second. For such CPUs, the plan names the
armed high-resolution timers that the survey found (`/proc/timer_list`, as root) and offers
`--on cpu-hotplug-cycle`. No kernel file shows delayed work items or the timers of the timer wheel.
On 6.12-rt, `neigh_periodic_work` and `psi_avgs_work` ran 18 times in 20 s before the cycle, and
never after it. The step requires cgroup v2 cpusets, because a v1 cpuset loses the CPU permanently.
It also requires a CPU that can go offline.

Taking a CPU offline has side effects. It changes the masks of interrupts, and of network queues
that a driver redistributes. It changes the CPU's resctrl group, the partitions that contain the
CPU, and its settings for frequency, idle states and machine-check thresholds. cpushield reads all
of these beforehand and restores them immediately afterwards. It reports what it cannot restore, and
undo tries again.

Cost: all CPUs stop for a moment, including those of other shields (stop_machine). So apply skips
this step while another shield is active, unless you pass `--disturb`. A change of an active shield
takes this step only for the CPUs that it adds. The kernel moves programs that are pinned to that
CPU alone; undo restores their affinity. `perf` counters that count only on that CPU stop.

Source: takedown_cpu() and stop_machine_cpuslocked() in kernel/cpu.c, timers_dead_cpu() in
kernel/time/timer.c, tmigr_is_isolated() in
kernel/time/timer_migration.c (7dec062cfcf2), cpuset_hotplug_update_tasks() in
kernel/cgroup/cpuset.c, migrate_one_irq() in kernel/irq/cpuhotplug.c, virtnet_cpu_online() in
drivers/net/virtio_net.c, resctrl_offline_cpu() in arch/x86/kernel/cpu/resctrl/,
perf_event_exit_cpu() in kernel/events/core.c (6.12).";

pub(super) const CPU_HOTPLUG_CYCLE: Tunable = Tunable {
    name: "cpu-hotplug-cycle",
    summary: "take the CPUs offline and back online once to move their timers and work elsewhere",
    page: PAGE,
    reads: &["/sys/devices/system/cpu/cpu*/online"],
    removes: &[Cause::Timer, Cause::Workqueue, Cause::IpiCall, Cause::IpiIrqWork],
    spares,
    risk: Risk::Medium,
    disturbs_others: Some(MachineWideEffect::CyclesCpus),
    wants,
    wants_on_request: Some(wants_on_request),
    remedy_for,
    ..Tunable::PLAIN
};

pub(super) fn find_leftovers(machine: &Machine, shield: &Shield) -> Option<Leftovers> {
    if is_tickless(machine, shield) {
        return None;
    }
    let obstacle = match wants_on_request(machine, shield) {
        WantedChanges::Changes(_) => None,
        WantedChanges::Nothing(why) => Some(why),
    };
    Some(leftovers::collect(machine, shield, obstacle))
}

/// Whether the tick can stop on every CPU of the shield.
fn is_tickless(machine: &Machine, shield: &Shield) -> bool {
    machine.isolation.nohz_full.as_ref().is_some_and(|cpus| shield.cpus.is_subset(cpus))
}

fn is_not_left(function: &str) -> bool {
    NOT_LEFT.iter().any(|begin| function.starts_with(begin))
}

/// Whether a timer of the wheel sent it by arming itself again. Only a timer that runs keeps its
/// CPU: any other moves to the CPU that arms it (__mod_timer() in kernel/time/timer.c, 6.12).
fn re_arms(sender: &InterruptSender) -> bool {
    let timer = sender.within.as_ref().filter(|within| within.by == DeferredBy::Timer);
    let arms = sender.purpose == Some(KernelOperation::TimerStart.into());
    arms && timer.is_some_and(|timer| !is_not_left(&timer.function))
}

/// Whether the sender is a program whose threads no longer run on the shield. Otherwise its flushes
/// reach the shield again. Those of a kernel thread are for the pages of any program.
fn has_left(machine: &Machine, shield: &Shield, sender: &InterruptSender) -> bool {
    let IpiOrigin::Task { pid: tid, .. } = sender.by else { return false };
    let sender = machine.tasks.iter().find(|it| it.task.id.tid == tid && !it.task.kthread);
    sender.is_some_and(|sender| {
        let mut own = machine.tasks.iter().filter(|it| it.task.pid == sender.task.pid);
        !own.any(|it| it.affinity.intersects(&shield.cpus))
    })
}

fn spares(
    machine: &Machine,
    shield: &Shield,
    cause: Cause,
    culprit: &Culprit,
    senders: &[InterruptSender],
) -> bool {
    let Some(name) = culprit.kernel_function() else { return false };
    let call = SentIpi::Call { function: name.to_owned() };
    let mut senders = senders.iter().filter(|sender| sender.what == call);
    match cause {
        Cause::IpiCall if name.starts_with(KICK) => !senders.any(re_arms),
        Cause::IpiCall if name.starts_with(FLUSH) => {
            !senders.any(|sender| has_left(machine, shield, sender))
        }
        Cause::IpiCall => true,
        _ => is_not_left(name),
    }
}

fn wants(machine: &Machine, shield: &Shield) -> WantedChanges {
    if !is_tickless(machine, shield) {
        return WantedChanges::Nothing(InapplicableReason::TickContinues);
    }
    wants_on_request(machine, shield)
}

fn wants_on_request(machine: &Machine, shield: &Shield) -> WantedChanges {
    let obstacle = match machine.cgroup.mode {
        CgroupMode::V2 => None,
        CgroupMode::V1 | CgroupMode::Hybrid if machine.cgroup.mount.is_some() => {
            Some(InapplicableReason::CpusetLosesCpu)
        }
        CgroupMode::V1 | CgroupMode::Hybrid | CgroupMode::None => {
            Some(InapplicableReason::TasksReturn)
        }
    };
    if let Some(why) = obstacle {
        return WantedChanges::Nothing(why);
    }
    let mut wanted = Vec::new();
    for cpu in shield.online_cpus().iter() {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/online");
        if setting(machine, &path) == Some("1") {
            let reason = "timers and work left on this CPU move to other CPUs";
            wanted.push(WantedChange::new(Change::CycleCpu { cpu }, reason));
        }
    }
    if wanted.is_empty() {
        return WantedChanges::Nothing(InapplicableReason::CpusStayOnline {
            cpus: shield.cpus.clone(),
        });
    }
    WantedChanges::Changes(wanted)
}

fn remedy_for(machine: &Machine, shield: &Shield, culprit: &Culprit) -> Option<RemedyAnswer> {
    if !culprit.kernel_function().is_some_and(|name| name.starts_with(KICK)) {
        return None;
    }
    Some(match wants_on_request(machine, shield) {
        WantedChanges::Nothing(reason) => {
            let tunable = CPU_HOTPLUG_CYCLE.name.to_owned();
            RemedyAnswer::Impossible(RemedyObstacle::Inapplicable { tunable, reason })
        }
        WantedChanges::Changes(_) => RemedyAnswer::Remedy(Remedy {
            tunable: CPU_HOTPLUG_CYCLE.name.to_owned(),
            when: EffectTime::Runtime,
            how: format!(
                "cpushield verify --fix (takes CPU {} offline and back online)",
                shield.cpus
            ),
        }),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::documents::evidence::DeferredFunction;
    use crate::plan::fake::{plain, thread};

    /// An interrupt that a timer of the wheel sent.
    pub fn sent(function: &str, timer: &str, purpose: Option<KernelOperation>) -> InterruptSender {
        let by = DeferredBy::Timer;
        InterruptSender {
            what: SentIpi::Call { function: function.to_owned() },
            by: IpiOrigin::Task { pid: 30, comm: "ktimers/0".to_owned() },
            site: String::new(),
            within: Some(DeferredFunction { by, function: timer.to_owned() }),
            purpose: purpose.map(Into::into),
            remedy: String::new(),
            count: 1,
            stack: Vec::new(),
        }
    }

    #[test]
    fn the_sender_decides_whether_a_cycle_ends_a_kick_or_a_flush() {
        let mut machine = plain(4);
        machine.tasks.push(thread(30, "servo", false, false, "3"));
        machine.tasks.push(thread(31, "gui", false, false, "0-2"));
        machine.tasks.push(thread(32, "kswapd0", true, false, "0-2"));
        let shield = crate::tunables::tests::shield(&machine);
        let arms = Some(KernelOperation::TimerStart);
        let kick = |timer: &str| sent(KICK, timer, arms);
        let rude = InterruptSender { within: None, ..kick("") };
        let queues = sent(KICK, "delayed_work_timer_fn", None);
        let flush = sent(FLUSH, "", None);
        let by = |pid| {
            let by = IpiOrigin::Task { pid, comm: String::new() };
            InterruptSender { by, ..flush.clone() }
        };
        let [others_flush, by_kernel, ended] = [31, 32, 33].map(by);
        for (function, senders, is_left) in [
            (KICK, vec![kick("tcp_keepalive_timer")], true),
            (KICK, vec![rude.clone(), kick("tcp_keepalive_timer")], true),
            (KICK, vec![rude], false),
            (KICK, vec![queues], false),
            (KICK, vec![kick("process_timeout")], false),
            (KICK, vec![], false),
            (KICK, vec![kick("clocksource_watchdog")], false),
            (FLUSH, vec![], false),
            (FLUSH, vec![flush.clone(), others_flush], true),
            (FLUSH, vec![flush], false),
            (FLUSH, vec![by_kernel], false),
            (FLUSH, vec![ended], false),
        ] {
            let culprit = Culprit::function(function);
            let cause = Cause::IpiCall;
            let is_spared = spares(&machine, &shield, cause, &culprit, &senders);
            assert_eq!(is_spared, !is_left, "{function} {senders:?}");
        }
    }

    #[test]
    fn a_cycle_removes_only_what_was_left_on_the_cpu() {
        for (cause, culprit, was_left) in [
            (Cause::Workqueue, "psi_avgs_work", true),
            (Cause::Workqueue, "lru_add_drain_per_cpu", false),
            (Cause::IpiCall, "tlb_remove_table_smp_sync", false),
            (Cause::IpiCall, "a_function_that_no_table_has", false),
            (Cause::Workqueue, "flush_cpu_sheaves", false),
            (Cause::Timer, "neigh_timer_handler", true),
            (Cause::Timer, "process_timeout", false),
        ] {
            let culprit = Culprit::shown(cause, culprit);
            let machine = plain(4);
            let shield = crate::tunables::tests::shield(&machine);
            let is_spared = spares(&machine, &shield, cause, &culprit, &[]);
            assert_eq!(is_spared, !was_left, "{cause} {culprit}");
        }
    }
}
