//! Parameters that name CPUs: the tick, RCU callbacks, interrupts, work queues.

use super::kernel_parameter::{
    COMMON, EVERY_KERNEL, KernelParameter, ParameterKernels, ParameterOffer, ParameterTarget,
};
use crate::causes::Cause;
use crate::change::Risk;
use crate::tunables;
use cpushield_linux::text::first_releases;

fn target_cpus(target: &ParameterTarget) -> Option<String> {
    Some(target.cpus.to_string())
}

fn other_cpus(target: &ParameterTarget) -> Option<String> {
    Some(target.rest.to_string())
}

pub(super) const NOHZ_FULL: KernelParameter = KernelParameter {
    name: tunables::NOHZ_FULL.name,
    keyword: "nohz_full",
    summary: "stop the tick on these CPUs while the scheduler does not need it",
    page: tunables::NOHZ_FULL.page,
    removes: tunables::NOHZ_FULL.removes,
    risk: tunables::NOHZ_FULL.risk,
    offer: ParameterOffer::Always,
    kernels: ParameterKernels {
        needs: &["CONFIG_NO_HZ_FULL"],
        since: Some(first_releases::NOHZ_FULL),
        ..EVERY_KERNEL
    },
    value: target_cpus,
    ..COMMON
};

pub(super) const RCU_NOCBS: KernelParameter = KernelParameter {
    name: tunables::RCU_NOCBS.name,
    keyword: "rcu_nocbs",
    summary: "run the RCU callbacks of these CPUs on other CPUs",
    page: tunables::RCU_NOCBS.page,
    removes: tunables::RCU_NOCBS.removes,
    risk: tunables::RCU_NOCBS.risk,
    offer: ParameterOffer::Always,
    kernels: ParameterKernels {
        needs: &["CONFIG_RCU_NOCB_CPU"],
        since: Some(first_releases::RCU_NOCBS),
        ..EVERY_KERNEL
    },
    value: target_cpus,
    ..COMMON
};

pub(super) const RCU_NOCB_POLL: KernelParameter = KernelParameter {
    name: "rcu-nocb-poll",
    keyword: "rcu_nocb_poll",
    summary: "let RCU threads poll for callbacks",
    page: "\
A CPU of `rcu_nocbs=` that queues a callback wakes a kernel thread (rcuog) if none is awake for it.
With `rcu_nocb_poll` that thread looks for callbacks in every jiffy (1 to 10 ms, by CONFIG_HZ). So
the shielded CPU need not wake it. One such thread serves a group of CPUs.

Cost: each of these threads wakes the CPU that it runs on in every jiffy, even if that CPU is idle.

Source: __call_rcu_nocb_wake() and nocb_gp_wait() in kernel/rcu/tree_nocb.h (6.12);
Documentation/admin-guide/kernel-parameters.txt.",
    removes: &[Cause::Kthread],
    offer: ParameterOffer::OnRequest("its threads wake idle CPUs in every jiffy"),
    kernels: ParameterKernels {
        needs: &["CONFIG_RCU_NOCB_CPU"],
        since: Some(first_releases::RCU_NOCBS),
        ..EVERY_KERNEL
    },
    ..COMMON
};

pub(super) const IRQAFFINITY: KernelParameter = KernelParameter {
    name: "irqaffinity",
    keyword: "irqaffinity",
    summary: "deliver interrupts to the other CPUs from the start",
    page: "\
Sets the default affinity of interrupts before the first driver is loaded. The kernel adds the boot
CPU to the list. At runtime the tunable `irq-affinity` sets the same mask for later interrupts, and
moves existing interrupts unless the kernel refuses to move them.

cpushield proposes it only if you name CPUs. If it prepares all CPUs instead, the parameter would
keep these interrupts on a few CPUs even while no shield is active.

The mask has no effect on managed interrupts (queues of NVMe drives, virtio disks and other storage)
and on per-CPU interrupts. A driver can also set another affinity.

Cost: the other CPUs handle these interrupts.

Source: irq_affinity_setup() in kernel/irq/irqdesc.c (6.12).",
    removes: &[Cause::Irq],
    offer: ParameterOffer::ForNamedCpus,
    kernels: ParameterKernels { since: Some(first_releases::IRQAFFINITY), ..EVERY_KERNEL },
    substitute: Some("irq-affinity"),
    value: other_cpus,
    ..COMMON
};

pub(super) const DOMAIN: KernelParameter = KernelParameter {
    name: "isolcpus-domain",
    keyword: "isolcpus",
    summary: "let the scheduler place no other program on these CPUs until you boot without it",
    page: "\
Takes the CPUs out of the scheduling domains: the kernel places no task there and moves none there.
Only a program that requests such a CPU runs on it. This is the method of the LinuxCNC wiki.
cpushield proposes it for kernels without CONFIG_NO_HZ_FULL, such as most RTAI kernels (for one core
unless you name CPUs). But it does not propose it where the kernel would refuse the shield's
partition. It also proposes it for kernels with RTAI or Xenomai whose configuration is not
installed. cpushield writes no `nohz_full=` for these kernels unless you request it.

It is written without a flag, which every kernel reads as `domain`; flags came with 4.15.

The wiki says that RTAI for Linux 3.10 and later has a scheduler that needs no `isolcpus=`. So
measure with and without it: `cpushield experiment`.

Cost: other programs can use the CPUs only on request, or after another boot. The kernel does not
balance tasks between these CPUs: the threads of a program stay where they are. Kernels from 6.7 to
6.17.2 cannot make them a cpuset partition (commit 216217ebee16 fixes that), so any program can
still pin itself to them. The tick, RCU callbacks, interrupts and the kernel threads of these CPUs
remain.

Source: housekeeping_isolcpus_setup() in kernel/sched/isolation.c (6.12); isolated_cpu_setup() in
kernel/sched.c (2.6.32); wiki.linuxcnc.org, The Isolcpus Boot Parameter And GRUB2, for RTAI its
section \"Latency Testing with RTAI >3.10\".",
    removes: &[Cause::UserTask],
    offer: ParameterOffer::WithoutNohzFull("a shield does this at runtime"),
    kernels: ParameterKernels { needs: &["CONFIG_CPU_ISOLATION"], ..EVERY_KERNEL },
    value: target_cpus,
    ..COMMON
};

pub(super) const NOHZ: KernelParameter = KernelParameter {
    name: "isolcpus-nohz",
    keyword: "isolcpus",
    summary: "stop the tick as nohz_full= does; up to 6.13 with fewer other effects",
    page: "\
The flag `nohz` stops the tick of a CPU that runs one task, as `nohz_full=` does, and offloads its
RCU callbacks. Up to 6.13, unbound work, timers and new kernel threads stay on the CPUs, whereas
`nohz_full=` of 6.12 moves them away. Since 6.14 (commit 1174b9344bc7) both are alike. So
`nohz_full=` is at least as good.

Cost: the same as for `nohz-full`: each entry into the kernel takes longer on these CPUs. If a
`nohz_full=` names different CPUs, the kernel ignores the later of the two words.

Source: housekeeping_isolcpus_setup() and housekeeping_nohz_full_setup() in
kernel/sched/isolation.c, rcu_init_nohz() in kernel/rcu/tree_nocb.h (6.12); the flags came with
commit 150dfee95f8a (4.15).",
    removes: &[Cause::Tick],
    offer: ParameterOffer::OnRequest("nohz_full= does this and more"),
    kernels: ParameterKernels {
        needs: &["CONFIG_NO_HZ_FULL"],
        flag_since: Some(first_releases::ISOLCPUS_FLAGS),
        ..EVERY_KERNEL
    },
    value: |target| Some(format!("nohz,{}", target.cpus)),
    ..COMMON
};

pub(super) const IO_QUEUE: KernelParameter = KernelParameter {
    name: "isolcpus-io-queue",
    keyword: "isolcpus",
    summary: "never written: no released kernel has the flag io_queue",
    page: "\
A patch series for isolcpus=io_queue,LIST keeps the queues of block devices, and their managed
interrupts, on the other CPUs. That includes interrupts that `managed_irq` leaves in place because
their queue has no other CPU. Version 13 was posted in May 2026, and no released kernel has it.
Kernels since 5.8 skip an unknown flag. The list is then read as `domain` unless it has
another flag. Kernels before 5.8 ignore the whole parameter.

Until a kernel has it, use `isolcpus-managed-irq`.

Source: lkml.iu.edu/hypermail/linux/kernel/2605.1/09246.html; commit 3662daf02350 (5.8).",
    offer: ParameterOffer::Never(
        "no released kernel has this flag; kernels since 5.8 would read the list as domain",
    ),
    value: |target| Some(format!("io_queue,{}", target.cpus)),
    ..COMMON
};

pub(super) const BARE_NOHZ_FULL: KernelParameter = KernelParameter {
    name: "nohz-full-without-list",
    keyword: "nohz_full",
    summary: "never written: no released kernel accepts nohz_full without CPUs",
    page: "\
A patch series of April 2026 lets `nohz_full` without a list prepare all CPUs: isolated cpuset
partitions then stop the tick of their CPUs at runtime. No released kernel up to 7.2 has this: each
accepts the parameter only with a list and passes the bare word to init. `rcu_nocbs` without a list
came with 5.17 (commit d2cf0854d728).

The maintainers want to keep the boot parameter. Thomas Gleixner wrote about a series that changed
`nohz_full` without it: \"If it's not enabled on the command line then it's disabled, end of
story.\" Paul McKenney suggests offloading the RCU callbacks of all CPUs: their `nohz_full` state
can then change without changes to RCU, and callbacks are offloaded only at boot. Both suggest one
boot with prepared CPUs, and changes at runtime.

Until a kernel has this, list every CPU that may ever be shielded (`nohz-full`).

Source: the cover letter of the series, \"cgroup/cpuset: Enable runtime update of nohz_full CPUs\"
(20260421030351.281436-1-longman@redhat.com); 87ik7fep2j.ffs@fw13 (2026-06-18); the quotation in
dcd36af9-0418-4997-815e-9e03ae52bde0@paulmck-laptop (2026-07-03);
__setup(\"nohz_full=\", …) in kernel/sched/isolation.c (6.12).",
    risk: Risk::None,
    offer: ParameterOffer::Never("no released kernel accepts nohz_full without a CPU list"),
    ..COMMON
};

pub(super) const MANAGED_IRQ: KernelParameter = KernelParameter {
    name: "isolcpus-managed-irq",
    keyword: "isolcpus",
    summary: "keep managed interrupts (of NVMe and other storage) away where possible",
    page: "\
The kernel places managed interrupts itself and refuses to move them on request. Storage drivers
have them (NVMe, virtio disks, many SAS and RAID controllers), but few network drivers do. With
`isolcpus=managed_irq,` the kernel prefers an online housekeeping CPU for each queue whose CPUs
include one. A queue whose CPUs are all shielded still interrupts them when a program there does
I/O.

The flag `domain` is omitted on purpose. Kernels from 6.7 to 6.17.2 cannot make the CPUs of
`isolcpus=domain` a cpuset partition (commit 216217ebee16 fixes that). Then any program can still
pin itself to them. Without the flag, shields can be applied and removed at runtime. If
`isolcpus-domain` is planned too, the plan has one word with both flags.

Cost: the other CPUs handle the interrupts of these queues.

Source: housekeeping_isolcpus_setup() in kernel/sched/isolation.c, irq_do_set_affinity() in
kernel/irq/manage.c, the drivers that pass PCI_IRQ_AFFINITY (6.12).",
    removes: &[Cause::Irq],
    offer: ParameterOffer::ForManagedIrqs(
        "where managed interrupts reach shielded CPUs, unless a boot entry has another isolcpus=",
    ),
    kernels: ParameterKernels {
        needs: &["CONFIG_CPU_ISOLATION"],
        flag_since: Some(first_releases::MANAGED_IRQ_FLAG),
        ..EVERY_KERNEL
    },
    value: |target| Some(format!("managed_irq,{}", target.cpus)),
    ..COMMON
};

pub(super) const UNBOUND_CPUS: KernelParameter = KernelParameter {
    name: "workqueue-unbound-cpus",
    keyword: "workqueue.unbound_cpus",
    summary: "run unbound work on the other CPUs from the start",
    page: "\
Sets the CPUs for kernel work that is not bound to a CPU. At runtime the tunable `workqueues` sets
the same mask. The parameter sets it from the start; it came with 6.6 (commit ace3c5499e61). Up to
6.12 `nohz_full=` also removes its CPUs from that mask; in 7.2 it does not.

Source: workqueue_unbound_cpus_setup() and wq_unbound_cpumask in kernel/workqueue.c (6.12);
tested on 6.1, 6.12 and 7.2 (docs/isolcpus.md).",
    removes: &[Cause::Kthread],
    risk: Risk::None,
    offer: ParameterOffer::OnRequest("the tunable workqueues does the same at runtime"),
    kernels: ParameterKernels {
        since: Some(first_releases::WORKQUEUE_UNBOUND_CPUS),
        ..EVERY_KERNEL
    },
    substitute: Some("workqueues"),
    value: other_cpus,
};

pub(super) const KTHREAD_CPUS: KernelParameter = KernelParameter {
    name: "kthread-cpus",
    keyword: "kthread_cpus",
    summary: "never written: mainline kernels do not have this parameter",
    page: "\
Guides for some vendors' kernels recommend it. It was proposed for mainline but not accepted;
mainline kernels pass the word to init. From 5.9 (commit 9cc5b8656892) to 6.19, `nohz_full=` has the
intended effect: new kernel threads run on the other CPUs. Since 7.0 `isolcpus=` and isolated
partitions have this effect (commit 041ee6f3727a). On cgroup v2 the CPUs of a shield are such a
partition. The tunable `kthreads` moves the existing threads that are not bound to a CPU.

Source: kthread() and housekeeping_cpumask(HK_TYPE_KTHREAD) in kernel/kthread.c (6.12); commit
041ee6f3727a (7.0).",
    risk: Risk::None,
    offer: ParameterOffer::Never("mainline kernels do not support it; use the tunable kthreads"),
    substitute: Some("kthreads"),
    value: other_cpus,
    ..COMMON
};
