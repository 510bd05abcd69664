//! Parameters that name CPUs: the tick, RCU callbacks, interrupts, work queues.

use super::{KernelParameter, ParameterOffer, ParameterTarget};
use crate::causes::Cause;
use crate::change::Risk;
use crate::tunables::{NOCBS_PAGE, NOHZ_PAGE};
use cpushield_linux::text::kernel_version::KernelVersion;

fn cpus(site: &ParameterTarget) -> Option<String> {
    Some(site.cpus.to_string())
}

fn rest(site: &ParameterTarget) -> Option<String> {
    Some(site.rest.to_string())
}

pub(super) const NOHZ_FULL: KernelParameter = KernelParameter {
    name: "nohz-full",
    keyword: "nohz_full",
    summary: "stop the tick on these CPUs while one task alone runs there",
    page: NOHZ_PAGE,
    removes: &[Cause::Tick, Cause::Softirq, Cause::Kthread],
    risk: Risk::Low,
    offer: ParameterOffer::Always,
    needs: &["CONFIG_NO_HZ_FULL"],
    since: Some(KernelVersion::new(3, 10)),
    arches: &[],
    substitute: None,
    value: cpus,
};

pub(super) const RCU_NOCBS: KernelParameter = KernelParameter {
    name: "rcu-nocbs",
    keyword: "rcu_nocbs",
    summary: "run RCU callbacks of these CPUs elsewhere",
    page: NOCBS_PAGE,
    removes: &[Cause::Softirq, Cause::Kthread],
    risk: Risk::None,
    offer: ParameterOffer::Always,
    needs: &["CONFIG_RCU_NOCB_CPU"],
    since: Some(KernelVersion::new(3, 8)),
    arches: &[],
    substitute: None,
    value: cpus,
};

pub(super) const RCU_NOCB_POLL: KernelParameter = KernelParameter {
    name: "rcu-nocb-poll",
    keyword: "rcu_nocb_poll",
    summary: "RCU threads look for callbacks by themselves",
    page: "\
A CPU of `rcu_nocbs=` wakes the thread that runs its callbacks. With `rcu_nocb_poll` that thread
looks every few milliseconds instead, so the shielded CPU need not wake anybody.

Cost: the housekeeping CPUs are never idle for long.

Source: rcu_nocb_poll in kernel/rcu/tree_nocb.h (6.12); Documentation/admin-guide/kernel-parameters.txt.",
    removes: &[Cause::Kthread],
    risk: Risk::Low,
    offer: ParameterOffer::Asked("housekeeping CPUs are woken all the time"),
    needs: &["CONFIG_RCU_NOCB_CPU"],
    since: Some(KernelVersion::new(3, 8)),
    arches: &[],
    substitute: None,
    value: |_| None,
};

pub(super) const IRQAFFINITY: KernelParameter = KernelParameter {
    name: "irqaffinity",
    keyword: "irqaffinity",
    summary: "deliver interrupts to the other CPUs from the start",
    page: "\
The mask that interrupts get when a driver asks for one. At runtime the tunable `irq-affinity`
moves those that are there and sets the same mask for later ones; the parameter does so before the
first driver is loaded.

It is proposed for CPUs that are named, not for the prepared boot: there, all interrupts would stay
on few CPUs although nothing is shielded.

Cost: managed interrupts (queues of NVMe and network cards) do not follow it.

Source: irq_affinity_setup() in kernel/irq/irqdesc.c (6.12).",
    removes: &[Cause::Irq],
    risk: Risk::Low,
    offer: ParameterOffer::ForNamedCpus,
    needs: &[],
    since: None,
    arches: &[],
    substitute: Some("irq-affinity"),
    value: rest,
};

pub(super) const MANAGED_IRQ: KernelParameter = KernelParameter {
    name: "isolcpus-managed-irq",
    keyword: "isolcpus",
    summary: "keep managed interrupts (queues of NVMe, network cards) away where it can be",
    page: "\
The kernel places managed interrupts itself and refuses to move them. With `isolcpus=managed_irq,`
it prefers housekeeping CPUs for each queue that has one among its CPUs. A queue all of whose CPUs
are shielded still interrupts them, when a program there does input and output.

The flag `domain` is left out on purpose: kernels from 6.7 to 6.17.2 make no cpuset partition of its
CPUs (commit 216217ebee16 corrects that), which leaves them open to programs that pin themselves.
Without it shields come and go at runtime.

Source: housekeeping_isolcpus_setup() in kernel/sched/isolation.c, irq_do_set_affinity() in
kernel/irq/manage.c (6.12).",
    removes: &[Cause::Irq],
    risk: Risk::Low,
    offer: ParameterOffer::Asked("only where managed interrupts are on the shield"),
    needs: &["CONFIG_CPU_ISOLATION"],
    since: None,
    arches: &[],
    substitute: None,
    value: |site| Some(format!("managed_irq,{}", site.cpus)),
};

pub(super) const UNBOUND_CPUS: KernelParameter = KernelParameter {
    name: "workqueue-unbound-cpus",
    keyword: "workqueue.unbound_cpus",
    summary: "run unbound work on the other CPUs from the start",
    page: "\
Where kernel work runs that is not bound to a CPU. At runtime the tunable `workqueues` sets the same
mask; the parameter does so from the start, and it is known from 6.6 on (commit ace3c5499e61).
`nohz_full=` takes its CPUs out of that mask too.

Source: workqueue_unbound_cpus_setup() and wq_unbound_cpumask in kernel/workqueue.c (6.12).",
    removes: &[Cause::Kthread],
    risk: Risk::None,
    offer: ParameterOffer::Asked("nohz_full= does the same; for kernels without it"),
    needs: &[],
    since: None,
    arches: &[],
    substitute: Some("workqueues"),
    value: rest,
};

pub(super) const KTHREAD_CPUS: KernelParameter = KernelParameter {
    name: "kthread-cpus",
    keyword: "kthread_cpus",
    summary: "not a parameter of mainline kernels",
    page: "\
Guides for some vendors' kernels give it. It was proposed for mainline and not taken; kernels there
hand the word to init. What it is meant to do `nohz_full=` does: kernel threads that are born later
get the other CPUs. The tunable `kthreads` moves those that are there.

Source: kthread() and housekeeping_cpumask(HK_TYPE_KTHREAD) in kernel/kthread.c (6.12).",
    removes: &[],
    risk: Risk::None,
    offer: ParameterOffer::Never("mainline kernels do not know it; nohz_full= does the same"),
    needs: &[],
    since: None,
    arches: &[],
    substitute: Some("kthreads"),
    value: rest,
};
