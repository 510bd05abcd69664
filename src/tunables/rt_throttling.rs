//! `rt-throttling`: stops the throttling of real-time tasks. Pure.

use super::setting::set_file;
use super::{Tunable, WantedChanges};
use crate::causes::Cause;
use crate::causes::culprit::{CulpritPattern, KernelEvent};
use crate::change::{Risk, ValueComparison};
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::machine::Machine;
use crate::documents::plan::{OffReason, Shield};
use crate::policy::Workload;
use cpushield_linux::text::first_releases::RT_THROTTLING_UNTIL;

const FILE: &str = "/proc/sys/kernel/sched_rt_runtime_us";

pub(super) const RT_THROTTLING: Tunable = Tunable {
    name: "rt-throttling",
    summary: "do not throttle real-time tasks that use more than 95 % of a second",
    page: "\
Before 6.12 the kernel throttles real-time tasks (SCHED_FIFO, SCHED_RR) that ran for 0.95 s of a
second on a CPU: they do not run for the rest of that second. Before 5.10 (commit 2586af1ac187), a
CPU first borrows time that other CPUs of its scheduling domain do not use. While such tasks run,
one timer checks this for all CPUs every second (with CONFIG_RT_GROUP_SCHED, one for each group). It
fires on the CPU whose real-time task started it. The value -1 switches off both. Since 6.12 this
throttling exists only in kernels with CONFIG_RT_GROUP_SCHED (commit 5f6bd380c7bd); the fair server
replaced it (`fair-server`).

The throttling affects only real-time tasks. So this tunable is on for the workload `cyclic`, and
for others only on request (`--on rt-throttling`).

Cost: a real-time task that never sleeps keeps everything with a lower priority off its CPU,
including that CPU's kernel threads. On PREEMPT_RT that can stop the whole machine. `cpushield run`
raises the kernel threads without which the kernel stalls above the priority of the task. On a
kernel that throttles, a task with a priority above 1 can delay an RCU reader that was boosted to
priority 1 (CONFIG_RCU_BOOST). On 6.1 PREEMPT_RT, `verify` then waits for RCU without a limit; the
priority 1 avoids that. With -1 the kernel also accepts SCHED_DEADLINE tasks without a check of
their bandwidth.

Source: sched_rt_period_timer() in kernel/sched/rt.c, __dl_overflow() in kernel/sched/deadline.c
(6.1); Documentation/scheduler/sched-rt-group.rst.",
    reads: &[FILE],
    removes: &[Cause::Hrtimer, Cause::Throttling],
    culprits: &[
        CulpritPattern::Function("sched_rt_period_timer"),
        CulpritPattern::Event(KernelEvent::RuntimeExhausted),
    ],
    risk: Risk::Medium,
    optional: for_cyclic,
    wants,
    ..Tunable::PLAIN
};

fn for_cyclic(workload: Workload) -> Option<OffReason> {
    match workload {
        Workload::Cyclic => None,
        Workload::Polling | Workload::Vm => Some(OffReason::OnlyRealtime),
    }
}

fn wants(machine: &Machine, _: &Shield) -> WantedChanges {
    let reason = "a real-time task is otherwise throttled when it runs for 0.95 s of a second";
    let group = machine.kernel.config.get("CONFIG_RT_GROUP_SCHED").is_some_and(|v| v == "y");
    match machine.kernel.version {
        Some(version) if version >= RT_THROTTLING_UNTIL && !group => {
            WantedChanges::Nothing(InapplicableReason::NoThrottling)
        }
        _ => set_file(machine, FILE, "-1", ValueComparison::Text, reason),
    }
}
