//! `rcu-normal`: avoids expedited grace periods, which interrupt every busy CPU. Pure.

use super::Tunable;
use super::setting::set_file;
use crate::causes::Cause;
use crate::causes::culprit::CulpritPattern;
use crate::change::{Risk, ValueComparison};

const FILE: &str = "/sys/kernel/rcu_normal";

pub(super) const RCU_NORMAL: Tunable = Tunable {
    name: "rcu-normal",
    summary: "turn expedited RCU grace periods, which interrupt all busy CPUs, into normal ones",
    page: "\
An RCU grace period lasts until every CPU has passed a quiescent state: a point where it holds no
old pointer. Code that cannot wait that long requests an expedited one: mounts, network namespaces,
device removal. The kernel then sends an IPI to every CPU that is neither idle nor known to be in
user mode. The kernel knows that a CPU is in user mode only if the CPU is in `nohz_full=`. With
`/sys/kernel/rcu_normal` set, the kernel waits for a normal grace period instead. The IPIs of
membarrier(2) do not come from RCU, so this setting does not remove them.

PREEMPT_RT kernels do this by default after boot.

Cost: code that requests an expedited grace period waits for a normal one, which lasts several
milliseconds to tens of milliseconds.

Source: kernel/rcu/update.c and kernel/rcu/tree_exp.h, membarrier_private_expedited() in
kernel/sched/membarrier.c (6.12); Documentation/RCU/Design/Expedited-Grace-Periods.",
    reads: &[FILE],
    removes: &[Cause::IpiCall],
    culprits: &[
        CulpritPattern::Function("rcu_exp"),
        CulpritPattern::Function("synchronize_rcu_expedited"),
        CulpritPattern::Kthread("rcu_exp"),
    ],
    risk: Risk::Low,
    wants: |machine, _| {
        set_file(
            machine,
            FILE,
            "1",
            ValueComparison::Text,
            "expedited RCU grace periods otherwise send an IPI to every busy CPU",
        )
    },
    ..Tunable::PLAIN
};
