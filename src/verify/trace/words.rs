//! Words for the numbers of the kernel's interface: softirqs, signals, page faults, and what keeps
//! the tick. Pure.

/// Names of the softirqs, by number (include/linux/interrupt.h).
const SOFTIRQS: &[&str] =
    &["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// What keeps the tick, by bit (`enum tick_dep_bits`, include/linux/tick.h, 4.6 to 6.18; the last
/// since 6.1).
const TICK_NEEDS: &[&str] = &[
    "a POSIX CPU timer",
    "perf",
    "the scheduler: another runnable task or a bandwidth",
    "an unstable clock",
    "RCU",
    "an expedited RCU grace period",
];

/// Names of the signals of x86-64 and arm64, by number from 1 on (signal(7)).
const SIGNALS: &[&str] = &[
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// Signals by which the kernel tells a task of its own exception: ILL, TRAP, BUS, FPE and SEGV.
const OF_EXCEPTIONS: &[u8] = &[4, 5, 7, 8, 11];

/// Bits of a page fault's error code (`enum x86_pf_error_code`): the page was there, it was a
/// write, it was the fetch of an instruction.
const PRESENT: u8 = 1;
const WRITE: u8 = 2;
const FETCH: u8 = 16;

/// The name of a softirq.
#[must_use]
pub fn softirq(number: u8) -> String {
    let name = SOFTIRQS.get(usize::from(number));
    name.map_or_else(|| format!("softirq {number}"), |name| (*name).to_owned())
}

/// Why the tick was kept; empty when the kernel did not say.
#[must_use]
pub fn kept(needed: u8) -> String {
    let bits = TICK_NEEDS.iter().enumerate();
    let needs: Vec<&str> =
        bits.filter(|(bit, _)| needed & (1 << bit) != 0).map(|(_, words)| *words).collect();
    if needs.is_empty() { String::new() } else { format!(", kept for {}", needs.join(" and ")) }
}

/// The kind of a page fault.
#[must_use]
pub fn fault(bits: u8) -> &'static str {
    if !cfg!(target_arch = "x86_64") {
        return "";
    }
    match (bits & PRESENT != 0, bits & WRITE != 0, bits & FETCH != 0) {
        (_, _, true) => "instructions that were not there",
        (false, true, _) => "first write to a page",
        (false, false, _) => "first read of a page",
        (true, true, _) => "write to a page that was shared (copy on write)",
        (true, false, _) => "access that the page forbids",
    }
}

/// Whether a signal is the kernel's answer to an exception of the task: `si_code` is above 0
/// (sigaction(2)). Breakpoints and general protection come as `SI_KERNEL` (`do_trap()` and
/// `gp_user_force_sig_segv()`, arch/x86/kernel/traps.c, 6.12).
#[must_use]
pub fn is_exception(number: u8, code: i32) -> bool {
    OF_EXCEPTIONS.contains(&number) && code > 0
}

/// A signal and who sent it (`si_code`, include/uapi/asm-generic/siginfo.h).
#[must_use]
pub fn signal(number: u8, code: i8) -> String {
    let name = usize::from(number).checked_sub(1).and_then(|n| SIGNALS.get(n));
    let name = name.map_or_else(|| format!("signal {number}"), |name| format!("SIG{name}"));
    let by = match code {
        0 => " by kill(2)",
        i8::MIN => " by the kernel",
        -1 => " by sigqueue(3)",
        -2 => " by a timer",
        -3 => " by a message queue",
        -4 | -5 => " by finished input or output",
        -6 => " by tgkill(2)",
        _ => "",
    };
    name + by
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_kernel_have_words() {
        assert_eq!((softirq(3), softirq(77)), ("NET_RX".to_owned(), "softirq 77".to_owned()));
        assert_eq!(kept(0), "");
        assert_eq!(kept(2 | 16), ", kept for perf and RCU");
        assert_eq!(signal(14, -2), "SIGALRM by a timer");
        assert_eq!(
            (signal(31, 1), signal(34, 0)),
            ("SIGSYS".into(), "signal 34 by kill(2)".into())
        );
        assert!(is_exception(8, 1) && !is_exception(8, 0) && !is_exception(14, 1));
        assert!(
            is_exception(5, 0x80) && is_exception(11, 0x80),
            "a breakpoint, general protection"
        );
        assert!(!is_exception(31, 1) && !is_exception(14, 0x80), "seccomp, setitimer(2)");
    }
}
