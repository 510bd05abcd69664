//! Parameters that switch off the periodic checks on every CPU.

use super::kernel_parameter::{KernelParameter, ParameterOffer};
use crate::causes::Cause;
use crate::change::Risk;

pub(super) const NOWATCHDOG: KernelParameter = KernelParameter {
    name: "nowatchdog",
    keyword: "nowatchdog",
    summary: "switch the lockup watchdogs off on all CPUs",
    page: "\
The kernel's watchdogs run a timer and a stopper thread on every CPU every few seconds. The tunable
`watchdog` removes the shielded CPUs from their mask at runtime, and CPUs of `nohz_full=` are never
in it. The parameter switches the watchdogs off on every CPU.

Cost: a hung CPU is not reported.

Source: nowatchdog_setup() and lockup_detector_init() in kernel/watchdog.c (6.12).",
    removes: &[Cause::Timer, Cause::Kthread],
    risk: Risk::Medium,
    offer: ParameterOffer::OnRequest("the watchdogs skip CPUs of nohz_full= anyway"),
    needs: &["CONFIG_SOFTLOCKUP_DETECTOR", "CONFIG_HARDLOCKUP_DETECTOR"],
    since: None,
    backports: &[],
    flag_since: None,
    arches: &[],
    substitute: Some("watchdog"),
    value: |_| None,
};

pub(super) const NOSOFTLOCKUP: KernelParameter = KernelParameter {
    name: "nosoftlockup",
    keyword: "nosoftlockup",
    summary: "switch the soft lockup detector off on all CPUs",
    page: "\
Like `nowatchdog`, but only for the soft lockup detector, which reports a real-time task that does
not yield its CPU.

Cost: a CPU that no longer schedules tasks is not reported.

Source: nosoftlockup_setup() in kernel/watchdog.c (6.12).",
    removes: &[Cause::Timer, Cause::Kthread],
    risk: Risk::Medium,
    offer: ParameterOffer::OnRequest("the watchdogs skip CPUs of nohz_full= anyway"),
    needs: &["CONFIG_SOFTLOCKUP_DETECTOR"],
    since: None,
    backports: &[],
    flag_since: None,
    arches: &[],
    substitute: Some("watchdog"),
    value: |_| None,
};

pub(super) const MCE: KernelParameter = KernelParameter {
    name: "mce-ignore-ce",
    keyword: "mce",
    summary: "do not check for corrected hardware errors",
    page: "\
A timer on every CPU checks for corrected hardware errors, and some processors raise an interrupt
for them. `mce=ignore_ce` stops both. The tunable `mce-check-interval` stops the timer at runtime.

Cost: failing memory is noticed only after it has failed.

Source: mcheck_enable() in arch/x86/kernel/cpu/mce/core.c (6.12);
Documentation/arch/x86/x86_64/boot-options.rst.",
    removes: &[Cause::Timer, Cause::Irq],
    risk: Risk::Medium,
    offer: ParameterOffer::OnRequest("corrected hardware errors are no longer reported"),
    needs: &[],
    since: None,
    backports: &[],
    flag_since: None,
    arches: &["x86_64", "i686", "i386"],
    substitute: Some("mce-check-interval"),
    value: |_| Some("ignore_ce".to_owned()),
};
