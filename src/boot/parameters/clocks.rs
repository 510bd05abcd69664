//! Parameters for the tick's phase and the clock source.

use super::kernel_parameter::{COMMON, KernelParameter, ParameterOffer, X86_KERNELS};
use crate::causes::Cause;
use crate::change::Risk;
use crate::tunables;

pub(super) const SKEW_TICK: KernelParameter = KernelParameter {
    name: "skew-tick",
    keyword: "skew_tick",
    summary: "let CPUs tick at different times",
    page: "\
CPUs that all tick at the same moment contend for the locks that the tick takes. With `skew_tick=1`
each CPU ticks a little later than the previous one. This shortens the longest ticks of housekeeping
CPUs, and of shielded CPUs that still tick; it removes none.

Cost: idle CPUs wake one after the other instead of together, so processor packages sleep less.

Source: tick_setup_sched_timer() in kernel/time/tick-sched.c (6.12);
Documentation/admin-guide/kernel-parameters.txt.",
    risk: Risk::None,
    offer: ParameterOffer::OnRequest("it shortens ticks but removes none"),
    value: |_| Some("1".to_owned()),
    ..COMMON
};

pub(super) const TSC: KernelParameter = KernelParameter {
    name: tunables::CLOCKSOURCE_WATCHDOG.name,
    keyword: "tsc",
    summary: "trust the time stamp counter, and stop the timer that checks it on each CPU in turn",
    page: tunables::CLOCKSOURCE_WATCHDOG.page,
    removes: tunables::CLOCKSOURCE_WATCHDOG.removes,
    risk: tunables::CLOCKSOURCE_WATCHDOG.risk,
    offer: ParameterOffer::OnRequest(
        "only where the trace shows clocksource_watchdog or watchdog_check_skew_remote",
    ),
    kernels: X86_KERNELS,
    value: |_| Some("reliable".to_owned()),
    ..COMMON
};

pub(super) const CLOCKSOURCE: KernelParameter = KernelParameter {
    name: "clocksource",
    keyword: "clocksource",
    summary: "use the time stamp counter as the clock source",
    page: "\
A clock outside the CPU (HPET, ACPI) is slow to read: each clock_gettime() is then a system call
that waits for the device. The kernel chooses the time stamp counter itself, unless it has found the
counter unstable or a hypervisor offers a clock with a higher rating. `clocksource=tsc` overrides
the rating. With high-resolution timers or NO_HZ it does not select an unstable counter.

Cost: if the counters of the CPUs differ and the kernel does not notice it, the time jumps.

Source: boot_override_clocksource() and __clocksource_select() in kernel/time/clocksource.c
(6.12).",
    removes: &[Cause::Syscall],
    risk: Risk::Medium,
    offer: ParameterOffer::OnRequest(
        "the kernel chooses the time stamp counter itself where it is reliable",
    ),
    kernels: X86_KERNELS,
    substitute: Some("echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource"),
    value: |_| Some("tsc".to_owned()),
};
