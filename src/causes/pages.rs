//! The pages of `explain` for causes: what each is, where it comes from, how it is seen. Kernel
//! facts name their file and version.

use super::Cause;
use crate::registry::{self, RegistryEntry};

impl RegistryEntry for Cause {
    fn key(self) -> &'static str {
        self.name()
    }
}

impl Cause {
    /// The cause with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Cause> {
        registry::find(Cause::ALL, name)
    }

    /// A summary of one line, for lists.
    #[must_use]
    pub fn summary(self) -> &'static str {
        match self {
            Cause::Tick => "the scheduler's periodic tick",
            Cause::Hrtimer => "a high-resolution timer other than the tick",
            Cause::Timer => "a timer of the timer wheel",
            Cause::Irq => "a device interrupt",
            Cause::Softirq => "a softirq",
            Cause::IpiReschedule => "another CPU requests a reschedule of this one",
            Cause::IpiCall => "another CPU runs a function on this one: TLB flush, text patching",
            Cause::IpiIrqWork => "irq_work: a function queued to run in interrupt context",
            Cause::Workqueue => "a work item, run by a kworker",
            Cause::Kthread => "a kernel thread other than a kworker",
            Cause::UserTask => "another program",
            Cause::PageFault => "the workload accessed memory that was not mapped yet",
            Cause::Syscall => "the workload made a system call",
            Cause::Exception => "the workload raised an exception other than a page fault",
            Cause::Signal => "the workload received a signal",
            Cause::Nmi => "a non-maskable interrupt: watchdog, profiler, backtrace",
            Cause::MachineCheck => "a machine check or thermal interrupt",
            Cause::Frequency => "the frequency of a CPU was changed from this one",
            Cause::Smi => "firmware took the CPU (system management mode)",
            Cause::Steal => "the hypervisor ran something else",
            Cause::Unattributed => "an interruption of an unknown kind",
        }
    }

    /// The page of `explain` (Markdown).
    #[must_use]
    pub fn page(self) -> &'static str {
        match self {
            Cause::Tick => TICK,
            Cause::Hrtimer => HRTIMER,
            Cause::Timer => TIMER,
            Cause::Irq => IRQ,
            Cause::Softirq => SOFTIRQ,
            Cause::IpiReschedule => IPI_RESCHEDULE,
            Cause::IpiCall => IPI_CALL,
            Cause::IpiIrqWork => IPI_IRQ_WORK,
            Cause::Workqueue => WORKQUEUE,
            Cause::Kthread => KTHREAD,
            Cause::UserTask => USER_TASK,
            Cause::PageFault => PAGE_FAULT,
            Cause::Syscall => SYSCALL,
            Cause::Exception => EXCEPTION,
            Cause::Signal => SIGNAL,
            Cause::Nmi => NMI,
            Cause::MachineCheck => MACHINE_CHECK,
            Cause::Frequency => FREQUENCY,
            Cause::Smi => SMI,
            Cause::Steal => STEAL,
            Cause::Unattributed => UNATTRIBUTED,
        }
    }
}

const TICK: &str = "\
The kernel interrupts every busy CPU HZ times a second (100, 250 or 1000). This tick keeps time,
accounts CPU use and shares the CPU among programs.

At runtime nothing stops it on a busy CPU. To stop it, boot with `nohz_full=` and run only one task
on the CPU. Since 4.17 no part of it then remains there: once a second, another CPU runs a tick on
its behalf (sched_tick_remote() in kernel/sched/core.c). On a `nohz_full` CPU these bring the tick
back: a second runnable task, a POSIX CPU timer, perf events, an unstable clock source, the fair
server (`fair-server`). So does an RCU grace period that waits for the CPU. The kernel reports which
of them it was (`timer:tick_stop`, `enum tick_dep_bits` in include/linux/tick.h), and the culprit of
the tick includes it: `kept for perf`.

It appears as `Local timer interrupts` in /proc/interrupts and as `hrtimer_expire_entry` with
`tick_nohz_handler` in the trace (`tick_nohz_highres_handler` in 6.7 and 6.8, `tick_sched_timer`
before).

Source: kernel/time/tick-sched.c and sched_tick_remote() in kernel/sched/core.c (6.12),
Documentation/timers/no_hz.rst.";

const HRTIMER: &str = "\
Timers of nanosleep, timerfd, POSIX timers, SCHED_DEADLINE budgets, the fair server and the
hardlockup watchdog. They fire on the CPU that armed them, unless they were moved to another one
when that CPU was idle (`timer-migration`).

A periodic workload sees its own wake-ups here; those are intended.

Source: hrtimer_interrupt() and get_target_base() in kernel/time/hrtimer.c, get_nohz_timer_target()
in kernel/sched/core.c (6.12).";

const TIMER: &str = "\
Timers of the timer wheel (kernel/time/timer.c): network retransmission, delayed work, device
polling. A timer that was armed on a CPU before it was shielded stays there. One that re-arms itself
keeps returning. Since 6.9 another CPU expires a global timer but re-arms it on its old base, which
kicks a `nohz_full` CPU each time. To move all of them away, take the CPU offline and online once
(`cpu-hotplug-cycle`).

With commit 7dec062cfcf2 (November 2025) that holds only for CPUs of `nohz_full=`. Other CPUs of an
isolated partition, or of `isolcpus=`, leave the hierarchy of timer migration. The global timers
that are armed there then fire there.

From 6.9 on, a CPU that ticks also expires the global timers of idle CPUs. In a guest with 6.12, 22
timers that were armed on CPU 2 expired on the shielded CPU 3 in 12 s, after the CPU cycle too. A
CPU whose tick is stopped does not do that (`nohz_full=`). Nor does an isolated CPU with commit
7dec062cfcf2.

Source: __mod_timer(), trigger_dyntick_cpu() and timers_dead_cpu() in kernel/time/timer.c,
tmigr_handle_remote() and tmigr_cpu_deactivate() in kernel/time/timer_migration.c (6.12);
tmigr_is_isolated() in the latter (7dec062cfcf2).";

const IRQ: &str = "\
A device raised an interrupt. It goes to a CPU in its mask, /proc/irq/N/smp_affinity_list;
effective_affinity_list shows which one. Users cannot move per-CPU and managed interrupts. Many
managed interrupts also serve housekeeping CPUs: the boot parameter `isolcpus=managed_irq,…` sends
them there.

The name after the number is the one under which the driver requested the interrupt
(/proc/interrupts). Most drivers use the name of the device and the queue.

Source: irq_do_set_affinity() in kernel/irq/manage.c (6.12),
Documentation/core-api/irq/irq-affinity.rst, Documentation/admin-guide/kernel-parameters.txt.";

const SOFTIRQ: &str = "\
The second half of an interrupt: network receive, block completion, timers, RCU callbacks. It
runs on the CPU that raised it, after the interrupt or in ksoftirqd; its name is shown with what
raised it. Move the interrupts and packet steering (`rps`) to other CPUs, and their softirqs move
too. `rcu_nocbs=` moves RCU callbacks.

Source: raise_softirq_irqoff() and handle_softirqs() in kernel/softirq.c (6.12).";

const IPI_RESCHEDULE: &str = "\
Another CPU woke a task that is to run on this CPU, or requests a check of its run queue. In a
cpuset partition, only the workload itself is woken. When another CPU arms a timer for a busy
`nohz_full` CPU, it sends a function call (`nohz_full_kick_func`) instead of this IPI.

Source: resched_curr() and wake_up_nohz_cpu() in kernel/sched/core.c, tick_nohz_full_kick_cpu() in
kernel/time/tick-sched.c (6.12).";

const IPI_CALL: &str = "\
Another CPU runs a function on this one and often waits for it: TLB flushes of programs that ran
on this CPU, text patching (static keys, module load, ftrace, BPF), membarrier, perf, CPU frequency,
cache control. The trace names the sender and the function.

No mask prevents it. Do not run a program with threads both on shielded and on housekeeping CPUs.
Load modules and toggle tracepoints before the shield is needed. Do not let untrusted users load
modules by creating network namespaces or sockets of rare families.

Source: smp_call_function_many_cond() and generic_exec_single() in kernel/smp.c; the events that
name function and sender, csd and ipi_send_cpu, exist since 6.5 (include/trace/events/csd.h,
ipi.h).";

const IPI_IRQ_WORK: &str = "\
A function queued to run in interrupt context soon (kernel/irq_work.c): printk from a busy context,
perf and BPF wake-ups, RCU. A `nohz_full` CPU is kicked this way (nohz_full_kick_func) when a timer
was armed on it or a task needs the tick. No event names the function that a CPU sends to itself;
the report shows what ran when it was raised, or just before.

Source: irq_work_queue() and irq_work_run() in kernel/irq_work.c, nohz_full_kick_func() in
kernel/time/tick-sched.c, the events irq_work_entry and irq_work_exit in
arch/x86/include/asm/trace/irq_vectors.h (6.12).";

const WORKQUEUE: &str = "\
A work item of the kernel, run by a kworker. Work on unbound queues runs where their mask allows
(`workqueues`). Work on per-CPU queues runs on the CPU that queued it: vmstat_update
(`vm-stat-interval`), lru_add_drain_per_cpu, and the draining of network and slab caches after
something ran there.

Source: __queue_work() and wq_select_unbound_cpu() in kernel/workqueue.c (6.12),
Documentation/core-api/workqueue.rst.";

const KTHREAD: &str = "\
A kernel thread ran on this CPU. Either it may run anywhere and was not moved (`kthreads`), or it
belongs to this CPU and had work (ksoftirqd, migration, rcuc, ktimers on PREEMPT_RT).

Source: Documentation/admin-guide/kernel-per-CPU-kthreads.rst, which describes how to keep each of
them quiet.";

const USER_TASK: &str = "\
Another program ran on this CPU. In a cpuset partition, the scheduler places no other task here and
refuses tasks that set their affinity to this CPU (`cpuset`). Tasks already in the partition's
cgroup still run here. Without a cpuset, so does any task that pins itself to this CPU.

Source: cpuset_cpus_allowed() in kernel/cgroup/cpuset.c and __sched_setaffinity() in
kernel/sched/syscalls.c (6.12; core.c before 6.11), `cpuset.cpus.partition` in
Documentation/admin-guide/cgroup-v2.rst.";

const PAGE_FAULT: &str = "\
The workload accessed memory that was not mapped yet: first use, copy-on-write after fork, a file
page that was evicted, NUMA balancing's hinting faults (`numa-balancing`). Lock the memory
(mlockall) and touch it before the work begins.

Source: handle_pte_fault() in mm/memory.c, exceptions:page_fault_user of arch/x86/mm/fault.c (6.12),
mlockall(2).";

const SYSCALL: &str = "\
The workload made a system call. A periodic program sleeps this way; a polling program should make
none while it works. Only `verify --syscalls` names system calls, because naming them slows every
process on the machine.

Source: raw_syscalls:sys_enter in include/trace/events/syscalls.h, syscall_trace_enter() in
kernel/entry/common.c (6.12).";

const EXCEPTION: &str = "\
The workload raised an exception: a breakpoint, a division by zero, a misaligned access, a debug
register, general protection. The kernel has events only for page faults. Other exceptions show as
the signal that follows or, on a `nohz_full` CPU, as an entry without an event. When system calls
are traced too (`verify --syscalls`), nothing else is left. Such an entry is then an exception
without a signal: an instruction that the kernel emulates, such as `sgdt`. Otherwise it may be
either.

Source: arch/x86/kernel/traps.c, fixup_umip_exception() in arch/x86/kernel/umip.c (6.12).";

const SIGNAL: &str = "\
A signal reached the workload: from its own timer (setitimer, timer_create), from another program
(kill, tgkill) or from the kernel. The IPI that delivers it to a busy CPU is counted with it. Timers
of CPU time (ITIMER_PROF, CLOCK_PROCESS_CPUTIME_ID) also keep the tick. Block signals in the thread
that must not be disturbed, and accept them in another thread (sigwait, signalfd).

Source: signal_wake_up_state() and get_signal() in kernel/signal.c, arm_timer() in
kernel/time/posix-cpu-timers.c (6.12).";

const FREQUENCY: &str = "\
The kernel set a CPU's frequency from this CPU (`power:cpu_frequency`). The change itself may stop
the clock of the core for some microseconds. A governor with a fixed frequency (`cpu-governor`)
prevents this. Processors that choose their own frequency (HWP) change it without an event.

Source: cpufreq_notify_transition() and cpufreq_driver_fast_switch() in drivers/cpufreq/cpufreq.c
(6.12), Documentation/admin-guide/pm/intel_pstate.rst.";

const NMI: &str = "\
A non-maskable interrupt. Sources: the hardlockup watchdog (a perf event that overflows about
every ten seconds: `watchdog`), perf, `echo l > /proc/sysrq-trigger`, platform errors.

Source: nmi_handle() in arch/x86/kernel/nmi.c, kernel/watchdog_perf.c (6.12; watchdog_hld.c before
6.5), Documentation/admin-guide/lockup-watchdogs.rst.";

const MACHINE_CHECK: &str = "\
Corrected hardware errors and thermal or power-limit events (`Thermal event interrupts`,
`Machine check polls` in /proc/interrupts). The poll comes from a timer on each CPU every five
minutes (`mce-check-interval`).

Source: mce_timer_fn() in arch/x86/kernel/cpu/mce/core.c, drivers/thermal/intel/therm_throt.c
(6.12).";

const SMI: &str = "\
Firmware stops the CPU for its own work: legacy USB, memory errors, fans, power capping, writes
to the flash. The kernel cannot see it; it only sees that time is missing. Only firmware settings
remove it.

Processors count SMIs. Intel processors have a register (MSR 0x34, read through /dev/cpu/N/msr:
`modprobe msr`). AMD processors have no such register. From Zen 2 on they have an event, which
`verify` counts from just before the span to just after it (perf event `ls_smi_rx`, PMCx02B:
tools/perf/pmu-events/arch/x86/amdzen2/memory.json to amdzen5/load-store.json, 6.12; it has not been
tested on such a machine yet). Neither shows how long the firmware ran. Other processors, guests and
AMD processors before Zen 2 show nothing. The witness there is `cpushield latency hardware`: a
kernel thread that reads the clock with interrupts off (hwlat), so that any missing time was taken
below the kernel. It disturbs the CPU too much to run together with a workload.

`verify` compares the gaps of its sampler with the kernel's trace. The trace explains a gap if it
shows what ran in it; up to 10 µs more are allowed for kernel entry and exit. The unexplained part
of any other gap was lost below the kernel. As many of these gaps as the processor counted SMIs are
attributed to firmware. If no SMI was counted and a gap of 10 µs or more remains, the verdict is
`unknown`: something took the CPU, and no witness can tell what. In a guest, such gaps are shown and
count only against `--max-gap`, because the hypervisor may take the CPU at any time. There is no
sampler if you watch your own program: `--max-gap` then holds only where no SMI was counted and
there is no hypervisor.

Source: MSR_SMI_COUNT in arch/x86/include/asm/msr-index.h and its use in
tools/power/x86/turbostat/turbostat.c, Documentation/trace/hwlat_detector.rst (6.12).";

const STEAL: &str = "\
This machine is a guest: the host ran something else on the physical CPU, or handled an exit. It
appears as `steal` in /proc/stat if the hypervisor reports it, otherwise as missing time. The remedy
is on the host: run the guest's vCPUs on shielded CPUs.

Source: `steal` in Documentation/filesystems/proc.rst, kvm_steal_clock() in arch/x86/kernel/kvm.c
(6.12).";

const UNATTRIBUTED: &str = "\
An interruption that fits no category: an entry into the kernel without an event, or a record of an
event that was not enabled. It can also be an unknown interrupt vector or row of /proc/interrupts.
`others` stands for all culprits beyond the first 4096 of a CPU. Save the evidence (`--json`) and
report it as a bug.

Source: vectors in arch/x86/include/asm/irq_vectors.h, rows in arch_show_interrupts() of
arch/x86/kernel/irq.c, entries on `nohz_full` CPUs by context_tracking:user_exit in
include/trace/events/context_tracking.h (6.12).";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_names_its_source() {
        for cause in Cause::ALL {
            let page = cause.page();
            let files = [".c", ".h", ".rst", ".json"].iter().any(|end| page.contains(end));
            assert!(files && page.contains('/'), "{cause}: {page}");
            assert!(page.contains("\n\nSource: "), "{cause}: {page}");
            assert!(page.lines().all(|line| line.chars().count() <= 100), "{cause}");
        }
    }
}
