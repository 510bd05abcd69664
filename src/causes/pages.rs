//! The pages of `explain` for causes: what it is, who sends it, how it is seen. Kernel facts name
//! their file and version.

use super::Cause;

impl Cause {
    /// The cause of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Cause> {
        Cause::ALL.iter().copied().find(|cause| cause.name() == name)
    }

    /// One line for lists.
    #[must_use]
    pub fn summary(self) -> &'static str {
        match self {
            Cause::Tick => "the scheduler's periodic tick",
            Cause::Hrtimer => "a high-resolution timer other than the tick",
            Cause::Timer => "a timer of the timer wheel",
            Cause::Irq => "a device interrupt",
            Cause::Softirq => "a soft interrupt",
            Cause::IpiReschedule => "another CPU asks this one to reschedule",
            Cause::IpiCall => "another CPU has a function called here: TLB flush, text patching",
            Cause::IpiIrqWork => "irq_work: a function queued to run in interrupt context",
            Cause::Workqueue => "a work item, run by a kworker",
            Cause::Kthread => "a kernel thread other than a kworker",
            Cause::UserTask => "another program",
            Cause::PageFault => "the workload touched memory that was not mapped yet",
            Cause::Syscall => "the workload called the kernel",
            Cause::Exception => "another exception of the workload",
            Cause::Signal => "a signal for the workload",
            Cause::Nmi => "a non-maskable interrupt: watchdog, profiler, backtrace",
            Cause::MachineCheck => "a machine check or thermal interrupt",
            Cause::Frequency => "the frequency of a CPU was changed from this one",
            Cause::Smi => "firmware took the CPU (system management mode)",
            Cause::Steal => "the hypervisor ran something else",
            Cause::Unattributed => "seen, but of no known kind",
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
The kernel interrupts every busy CPU HZ times a second (100, 250 or 1000) to keep time, account
CPU use and share the CPU among programs.

At runtime nothing stops it on a busy CPU: it needs `nohz_full=` at boot and then one runnable
task on the CPU. Since 4.17 nothing of it remains there; a tick once a second runs elsewhere on
its behalf (kernel/sched/core.c, sched_tick_remote). Things that bring it back on a `nohz_full`
CPU: a second runnable task, a POSIX CPU timer, perf events, an unstable clock source, an RCU
grace period that waits for the CPU, and the fair server (see `fair-server`). The kernel says which
of them it was (`timer:tick_stop`, `enum tick_dep_bits` in include/linux/tick.h), and the tick's
culprit repeats it: `kept for perf`.

Seen as `Local timer interrupts` in /proc/interrupts and as `hrtimer_expire_entry` with
`tick_nohz_handler` in the trace (`tick_nohz_highres_handler` in 6.7 and 6.8, `tick_sched_timer`
before).

Source: kernel/time/tick-sched.c and sched_tick_remote() in kernel/sched/core.c (6.12),
Documentation/timers/no_hz.rst.";

const HRTIMER: &str = "\
Timers of nanosleep, timerfd, POSIX timers, SCHED_DEADLINE budgets, the fair server and the
hardlockup watchdog. They fire on the CPU that armed them, unless they were moved to another one
when that CPU was idle (`timer-migration`).

A periodic workload sees its own wake-ups here: those are wanted.

Source: hrtimer_interrupt() and get_target_base() in kernel/time/hrtimer.c, get_nohz_timer_target()
in kernel/sched/core.c (6.12).";

const TIMER: &str = "\
Timers of the timer wheel (kernel/time/timer.c): network retransmission, delayed work, device
polling. Those armed on the shield before it was one stay there: a timer that re-arms itself
comes back forever. Since 6.9 a global timer is expired by another CPU, but armed again on its
old base, which kicks a `nohz_full` CPU each time. Taking the CPU offline and online once moves
them all away (`cpu-hotplug-cycle`).

Source: __mod_timer(), trigger_dyntick_cpu() and timers_dead_cpu() in kernel/time/timer.c,
kernel/time/timer_migration.c (6.12).";

const IRQ: &str = "\
A device wants attention. It goes to a CPU of its mask, /proc/irq/N/smp_affinity_list; which one
shows effective_affinity_list. Per-CPU and managed interrupts cannot be moved by the user. Managed
ones that serve other CPUs too are sent to those by the boot parameter `isolcpus=managed_irq,…`.

The name after the number is the one under which the driver asked for the interrupt
(/proc/interrupts): most drivers give the device's and the queue's.

Source: irq_do_set_affinity() in kernel/irq/manage.c (6.12),
Documentation/core-api/irq/irq-affinity.rst, Documentation/admin-guide/kernel-parameters.txt.";

const SOFTIRQ: &str = "\
The second half of an interrupt: network receive, block completion, timers, RCU callbacks. It
runs on the CPU that raised it, after the interrupt or in ksoftirqd; its name is shown with what
raised it. Move the interrupts and
switch packet steering (`rps`) away, and it goes with them; RCU callbacks go with
`rcu_nocbs=`.

Source: raise_softirq_irqoff() and handle_softirqs() in kernel/softirq.c (6.12).";

const IPI_RESCHEDULE: &str = "\
Another CPU woke a task that shall run here, or wants this CPU to look at its run queue. On a
closed shield only the workload itself is woken here. A timer that is armed for a busy `nohz_full`
CPU from elsewhere does not use it, but a function call (`nohz_full_kick_func`).

Source: resched_curr() and wake_up_nohz_cpu() in kernel/sched/core.c, tick_nohz_full_kick_cpu() in
kernel/time/tick-sched.c (6.12).";

const IPI_CALL: &str = "\
Another CPU has a function run here and often waits for it: TLB flushes of programs that ran
here, text patching (static keys, module load, ftrace, BPF), membarrier, perf, CPU frequency,
cache control. The trace names the sender and the function.

There is no mask against it. Keep programs with threads on both sides apart, load modules and
toggle tracepoints before the shield is needed, and do not let untrusted users load modules by
creating network namespaces or sockets of rare families.

Source: smp_call_function_many_cond() and generic_exec_single() in kernel/smp.c; the events that
name function and sender, csd and ipi_send_cpu, are there since 6.5 (include/trace/events/csd.h,
ipi.h).";

const IPI_IRQ_WORK: &str = "\
A function queued to run in interrupt context soon (kernel/irq_work.c): printk from a busy
context, perf and BPF wake-ups, RCU, and the kick of a `nohz_full` CPU (nohz_full_kick_func)
when a timer was armed on it or a task needs the tick. Of what a CPU sends to itself no event names
the function: what ran when it was raised, or just before, is reported.

Source: irq_work_queue() and irq_work_run() in kernel/irq_work.c, nohz_full_kick_func() in
kernel/time/tick-sched.c, the events irq_work_entry and irq_work_exit in
arch/x86/include/asm/trace/irq_vectors.h (6.12).";

const WORKQUEUE: &str = "\
Kernel work run by a kworker. Work of unbound queues runs where their mask allows
(`workqueues`). Work of per-CPU queues runs on the CPU that queued it: vmstat_update
(`vm-stat-interval`), lru_add_drain_per_cpu, drain of network or slab caches after something ran
there.

Source: __queue_work() and wq_select_unbound_cpu() in kernel/workqueue.c (6.12),
Documentation/core-api/workqueue.rst.";

const KTHREAD: &str = "\
A kernel thread ran here: one that may run anywhere and was not moved (`kthreads`), or one that
belongs to this CPU (ksoftirqd, migration, rcuc, ktimers on PREEMPT_RT) and had work.

Source: Documentation/admin-guide/kernel-per-CPU-kthreads.rst, which says of each how to keep it
quiet.";

const USER_TASK: &str = "\
Another program ran here. On a cpuset partition the scheduler places no other task here and
refuses those that ask (`cpuset`). Tasks already in the partition's cgroup still run here; without a
cpuset, so does any task that pins itself here.

Source: cpuset_cpus_allowed() in kernel/cgroup/cpuset.c and __sched_setaffinity() in
kernel/sched/syscalls.c (6.12; core.c before 6.11), `cpuset.cpus.partition` in
Documentation/admin-guide/cgroup-v2.rst.";

const PAGE_FAULT: &str = "\
The workload touched memory that was not there yet: first use, copy-on-write after fork, a file
page that was evicted, NUMA balancing's hinting faults (`numa-balancing`). Lock the memory
(mlockall) and touch it before the work begins.

Source: handle_pte_fault() in mm/memory.c, exceptions:page_fault_user of arch/x86/mm/fault.c (6.12),
mlockall(2).";

const SYSCALL: &str = "\
The workload called the kernel itself. For a periodic program that is how it sleeps; a polling
one should not call at all while it works. They are named with `verify --syscalls` only, as every
process of the machine pays for that.

Source: raw_syscalls:sys_enter in include/trace/events/syscalls.h, syscall_trace_enter() in
kernel/entry/common.c (6.12).";

const EXCEPTION: &str = "\
The workload raised an exception: a breakpoint, a division by zero, a misaligned access, a debug
register, general protection. The kernel has events for page faults only; others show as the
signal that follows, or, on a `nohz_full` CPU, as an entry that has no event. Such an entry is an
exception without a signal (an instruction that the kernel emulates, as `sgdt`) when system
calls are traced too (`verify --syscalls`), because nothing else is left; without that it may be
either.

Source: arch/x86/kernel/traps.c, fixup_umip_exception() in arch/x86/kernel/umip.c (6.12).";

const SIGNAL: &str = "\
A signal reached the workload: from a timer of its own (setitimer, timer_create), another program
(kill, tgkill) or the kernel. The IPI that brings it to a busy CPU is counted with it. Timers by
CPU time (ITIMER_PROF, CLOCK_PROCESS_CPUTIME_ID) also keep the tick. Block signals in the thread
that must not be disturbed and take them in another (sigwait, signalfd).

Source: signal_wake_up_state() and get_signal() in kernel/signal.c, arm_timer() in
kernel/time/posix-cpu-timers.c (6.12).";

const FREQUENCY: &str = "\
The kernel set a CPU's frequency from this CPU (`power:cpu_frequency`); the change itself may stop
the clock of the core for some microseconds. A governor that does not change it (`cpu-governor`)
ends this. Processors that choose by themselves (HWP) change it unseen.

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
to the flash. The kernel cannot see it begin, only that time is missing. Only firmware settings
remove it.

Processors count SMIs. Intel's do it in a register (MSR 0x34, read through /dev/cpu/N/msr:
`modprobe msr`). AMD's have no such register; from Zen 2 on they have an event for it, which
`verify` has counted from just before the span to just after it (perf event `ls_smi_rx`, PMCx02B:
tools/perf/pmu-events/arch/x86/amdzen2/memory.json to amdzen5/load-store.json, 6.12; it has not
been seen on such a machine yet). Neither says how long firmware took, and other processors, guests
and AMD's of before Zen 2 say nothing at all. The witness there is `cpushield latency hardware`: a
thread of the kernel that looks at the clock with interrupts off (hwlat), so that what is missing
was taken below the kernel. It disturbs the CPU too much to run together with a workload.

`verify` compares the gaps of its sampler with the kernel's trace. A gap is explained when the trace
shows what ran in it, up to 10 µs for the way in and out; what is left of the others was taken
below the kernel. As many of these as the processor counted SMIs are firmware's. Where nothing was
counted and a gap of 10 µs or more is left, the verdict is `unknown`: something took the CPU, and
no witness can say what. In a guest such gaps are shown, and count against `--max-gap` only, because
the hypervisor may take the CPU at any time. With a program of your own there is no sampler:
`--max-gap` then holds only where no SMI was counted and there is no hypervisor.

Source: MSR_SMI_COUNT in arch/x86/include/asm/msr-index.h and its use in
tools/power/x86/turbostat/turbostat.c, Documentation/trace/hwlat_detector.rst (6.12).";

const STEAL: &str = "\
This machine is a guest: the host ran something else on the physical CPU, or handled an exit.
Seen as `steal` in /proc/stat where the hypervisor says so, else as missing time. The remedy is
in the host: give the guest's CPUs shielded CPUs there.

Source: `steal` in Documentation/filesystems/proc.rst, kvm_steal_clock() in arch/x86/kernel/kvm.c
(6.12).";

const UNATTRIBUTED: &str = "\
Something was seen that this catalogue has no kind for: an entry into the kernel without an event,
an interrupt vector or a row of /proc/interrupts that has no meaning here, a record that was not
asked for. `others` stands for all culprits beyond the first 4096 of a CPU. Save the evidence
(`--json`) and report it.

Source: vectors in arch/x86/include/asm/irq_vectors.h, rows in arch_show_interrupts() of
arch/x86/kernel/irq.c, entries on `nohz_full` CPUs by context_tracking:user_exit in
include/trace/events/context_tracking.h (6.12).";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_names_where_the_kernel_or_a_manual_says_so() {
        for cause in Cause::ALL {
            let page = cause.page();
            let files = [".c", ".h", ".rst", ".json"].iter().any(|end| page.contains(end));
            assert!(files && page.contains('/'), "{cause}: {page}");
            assert!(page.lines().all(|line| line.chars().count() <= 100), "{cause}");
        }
    }
}
