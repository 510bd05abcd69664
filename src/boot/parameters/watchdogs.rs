//! Parameters that switch off what looks after the machine on every CPU.

use super::{KernelParameter, ParameterOffer};
use crate::causes::Cause;
use crate::change::Risk;

pub(super) const NOWATCHDOG: KernelParameter = KernelParameter {
    name: "nowatchdog",
    keyword: "nowatchdog",
    summary: "no watchdog of locked-up CPUs, on none of them",
    page: "\
The kernel's watchdogs run a timer and a stopper thread on every CPU every few seconds. The tunable
`watchdog` takes the shielded CPUs out of their mask at runtime, and CPUs of `nohz_full=` are left
out from the start. The parameter switches them off everywhere.

Cost: a hung CPU is not reported.

Source: nowatchdog_setup() and lockup_detector_init() in kernel/watchdog.c (6.12).",
    removes: &[Cause::Timer, Cause::Kthread],
    risk: Risk::Medium,
    offer: ParameterOffer::Asked("CPUs of nohz_full= are left out anyway"),
    needs: &["CONFIG_SOFTLOCKUP_DETECTOR", "CONFIG_HARDLOCKUP_DETECTOR"],
    since: None,
    arches: &[],
    substitute: Some("watchdog"),
    value: |_| None,
};

pub(super) const NOSOFTLOCKUP: KernelParameter = KernelParameter {
    name: "nosoftlockup",
    keyword: "nosoftlockup",
    summary: "no watchdog of CPUs that do not schedule, on none of them",
    page: "\
As `nowatchdog`, for the soft lockup detector alone: the one that tells of a real-time task that
does not let go of its CPU.

Cost: a CPU that no longer schedules tasks is not reported.

Source: nosoftlockup_setup() in kernel/watchdog.c (6.12).",
    removes: &[Cause::Timer, Cause::Kthread],
    risk: Risk::Medium,
    offer: ParameterOffer::Asked("CPUs of nohz_full= are left out anyway"),
    needs: &["CONFIG_SOFTLOCKUP_DETECTOR"],
    since: None,
    arches: &[],
    substitute: Some("watchdog"),
    value: |_| None,
};

pub(super) const MCE: KernelParameter = KernelParameter {
    name: "mce-ignore-ce",
    keyword: "mce",
    summary: "do not look for corrected memory errors",
    page: "\
A timer on every CPU looks for corrected hardware errors, and some processors interrupt for them.
`mce=ignore_ce` ends both. The tunable `mce-check-interval` ends the timer at runtime.

Cost: memory that is about to fail is noticed when it has failed.

Source: mcheck_enable() in arch/x86/kernel/cpu/mce/core.c (6.12);
Documentation/arch/x86/x86_64/boot-options.rst.",
    removes: &[Cause::Timer, Cause::Irq],
    risk: Risk::Medium,
    offer: ParameterOffer::Asked("memory errors are no longer reported"),
    needs: &[],
    since: None,
    arches: &["x86_64", "i686", "i386"],
    substitute: Some("mce-check-interval"),
    value: |_| Some("ignore_ce".to_owned()),
};
