//! Names for the numbers of the kernel's interface: what keeps the tick, page faults, signals,
//! softirqs, and events without a name of their own. Pure.

use super::Culprit;

named! {
    /// What keeps the tick (`enum tick_dep_bits`, include/linux/tick.h, 4.6 to 6.18).
    TickDependency {
        /// A POSIX CPU timer.
        PosixTimer => "a POSIX CPU timer",
        /// Perf.
        PerfEvents => "perf",
        /// Another runnable task, a SCHED_DEADLINE task or a CPU quota (`sched_can_stop_tick()`).
        Scheduler => "the scheduler: another runnable task, a SCHED_DEADLINE task or a CPU quota",
        /// The clock is not stable.
        ClockUnstable => "an unstable clock",
        /// RCU.
        Rcu => "RCU",
        /// An expedited RCU grace period (since 6.1).
        RcuExpedited => "an expedited RCU grace period",
    }
}

impl TickDependency {
    /// The dependencies whose bits are set; ignores unknown bits.
    #[must_use]
    pub fn from_bits(bits: u8) -> Vec<TickDependency> {
        let by_bit = TickDependency::ALL.iter().enumerate();
        by_bit.filter(|(bit, _)| bits & (1 << bit) != 0).map(|(_, needs)| *needs).collect()
    }
}

named! {
    /// The memory access that caused a page fault.
    PageAccess {
        /// Unknown: only x86 reports it.
        Unknown => "",
        /// An instruction fetch.
        Fetch => "instruction fetch from a page that was not mapped",
        /// A write to a page that was not mapped.
        UnmappedWrite => "write to a page that was not mapped",
        /// A read of a page that was not mapped.
        UnmappedRead => "read of a page that was not mapped",
        /// A write to a page that was mapped: copy on write, or the first write to a file's page.
        ProtectedWrite => "write to a write-protected page",
        /// An access that the page does not allow.
        Forbidden => "access that the page does not allow",
    }
}

impl PageAccess {
    /// From the error code of x86 (`enum x86_pf_error_code`, arch/x86/include/asm/trap_pf.h).
    #[must_use]
    pub fn from_error_code(bits: u8) -> PageAccess {
        /// The page was mapped.
        const PRESENT: u8 = 1;
        /// It was a write.
        const WRITE: u8 = 2;
        /// It was an instruction fetch.
        const FETCH: u8 = 16;
        if !cfg!(target_arch = "x86_64") {
            return PageAccess::Unknown;
        }
        match (bits & PRESENT != 0, bits & WRITE != 0, bits & FETCH != 0) {
            (_, _, true) => PageAccess::Fetch,
            (false, true, _) => PageAccess::UnmappedWrite,
            (false, false, _) => PageAccess::UnmappedRead,
            (true, true, _) => PageAccess::ProtectedWrite,
            (true, false, _) => PageAccess::Forbidden,
        }
    }
}

named! {
    /// The sender of a signal (`si_code`, include/uapi/asm-generic/siginfo.h).
    SignalSender {
        /// Unknown.
        Unknown => "",
        /// A process, with kill(2).
        Kill => "kill(2)",
        /// The kernel.
        Kernel => "the kernel",
        /// A process, with sigqueue(3).
        Queue => "sigqueue(3)",
        /// A timer.
        Timer => "a timer",
        /// A message queue.
        MessageQueue => "a message queue",
        /// Completed I/O.
        Io => "completed I/O",
        /// A thread, with tgkill(2).
        Tgkill => "tgkill(2)",
    }
}

impl SignalSender {
    /// From `si_code`, truncated to 8 bits, so that `SI_KERNEL` is the smallest number.
    #[must_use]
    pub fn from_code(code: i8) -> SignalSender {
        match code {
            0 => SignalSender::Kill,
            i8::MIN => SignalSender::Kernel,
            -1 => SignalSender::Queue,
            -2 => SignalSender::Timer,
            -3 => SignalSender::MessageQueue,
            -4 | -5 => SignalSender::Io,
            -6 => SignalSender::Tgkill,
            _ => SignalSender::Unknown,
        }
    }

    pub(super) fn by(self) -> Option<&'static str> {
        (self != SignalSender::Unknown).then(|| self.text())
    }
}

named! {
    /// Something that the kernel reports without naming it.
    KernelEvent by cause {
        /// The local timer of a CPU.
        LocalTimer: Tick => "local timer",
        /// The timer of another CPU, on behalf of a CPU whose timer is off.
        TimerBroadcast: Tick => "timer broadcast",
        /// The timer of Hyper-V.
        HyperVTimer: Tick => "Hyper-V timer",
        /// The hypervisor's interrupt.
        HypervisorCallback: Irq => "hypervisor callback",
        /// A local timer interrupt in which no hrtimer expired.
        NoHrtimerExpired: Hrtimer => "no hrtimer expired",
        /// Soft hrtimers, which expire in a softirq.
        HrtimersInSoftirq: Hrtimer => "timers that expire in a softirq",
        /// A function call that flushes the TLB.
        TlbShootdown: IpiCall => "TLB shootdown",
        /// An IPI of the platform.
        PlatformIpi: Unattributed => "platform IPI",
        /// A spurious interrupt.
        SpuriousInterrupt: Unattributed => "spurious interrupt",
        /// The error interrupt of the APIC.
        ApicError: MachineCheck => "APIC error interrupt",
        /// A thermal interrupt.
        Thermal: MachineCheck => "thermal interrupt",
        /// Machine checks passed a threshold.
        MachineCheckThreshold: MachineCheck => "machine check threshold",
        /// A deferred machine check.
        DeferredMachineCheck: MachineCheck => "deferred machine check",
        /// A frequency was set from this CPU.
        FrequencySet: Frequency => "set from this CPU",
        /// The workload went to sleep in a system call that was not traced.
        Slept: Syscall => "went to sleep (in a system call that was not traced)",
        /// The scheduler let the CPU idle although the workload could run.
        RuntimeExhausted: Throttling => "CPU time limit reached",
        /// Only context tracking reports the entry.
        WithoutEvent: Unattributed => "an entry into the kernel without an event",
        /// An entry without an event while system calls were traced: an exception that x86 reports
        /// with no event (arch/x86/kernel/traps.c, 6.12).
        ExceptionWithoutSignal: Exception =>
            "no event: an emulated instruction, a debug exception, or a system call that a filter \
             refused",
        /// An entry without an event while system calls were not traced.
        SyscallOrException: Unattributed =>
            "a system call or an exception (--syscalls distinguishes them)",
    }
}

impl From<KernelEvent> for Culprit {
    fn from(event: KernelEvent) -> Culprit {
        Culprit::Event { event }
    }
}

/// Names of the softirqs, by number (include/linux/interrupt.h).
pub const SOFTIRQS: &[&str] =
    &["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// The name of a softirq.
#[must_use]
pub fn softirq_name(number: u8) -> String {
    let name = SOFTIRQS.get(usize::from(number));
    name.map_or_else(|| format!("softirq {number}"), |name| (*name).to_owned())
}

/// Names of the signals of x86-64 and arm64, by number from 1 on (signal(7)).
const SIGNALS: &str = concat!(
    "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP ",
    "TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS"
);

/// The name of a signal.
#[must_use]
pub fn signal_name(number: u8) -> String {
    let name = usize::from(number).checked_sub(1).and_then(|n| SIGNALS.split(' ').nth(n));
    name.map_or_else(|| format!("signal {number}"), |name| format!("SIG{name}"))
}

/// Whether this is the name of a signal, as [`signal_name`] returns it.
pub(super) fn is_signal_name(name: &str) -> bool {
    let number = name.strip_prefix("signal ").and_then(|number| number.parse::<u8>().ok());
    number.is_some()
        || name.strip_prefix("SIG").is_some_and(|name| SIGNALS.split(' ').any(|it| it == name))
}

/// Whether the kernel sent the signal for an exception of the task: `si_code` is above 0
/// (sigaction(2)). Breakpoints and general protection arrive as `SI_KERNEL` (`do_trap()` and
/// `gp_user_force_sig_segv()`, arch/x86/kernel/traps.c, 6.12).
#[must_use]
pub fn is_exception_signal(number: u8, code: i32) -> bool {
    /// ILL, TRAP, BUS, FPE and SEGV.
    const OF_EXCEPTIONS: &[u8] = &[4, 5, 7, 8, 11];
    OF_EXCEPTIONS.contains(&number) && code > 0
}
