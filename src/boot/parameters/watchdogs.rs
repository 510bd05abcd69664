//! Parameters that switch off the periodic checks on every CPU.

use super::kernel_parameter::{
    COMMON, EVERY_KERNEL, KernelParameter, ParameterKernels, ParameterOffer,
};
use crate::causes::Cause;
use crate::change::Risk;

pub(super) const NOWATCHDOG: KernelParameter = KernelParameter {
    name: "nowatchdog",
    keyword: "nowatchdog",
    summary: "switch the lockup watchdogs off on all CPUs",
    page: "\
The kernel's lockup watchdogs run a timer and a stopper thread on every watched CPU, by default
every four seconds. Many machines also raise a non-maskable interrupt for hard lockups. The tunable
`watchdog` removes the shielded CPUs from their mask at runtime. By default the mask excludes the
CPUs of `nohz_full=`. The parameter switches the watchdogs off on every CPU.

Cost: soft and hard lockups of a CPU are not reported.

Source: nowatchdog_setup() and lockup_detector_init() in kernel/watchdog.c (6.12);
Documentation/admin-guide/lockup-watchdogs.rst.",
    removes: &[Cause::Hrtimer, Cause::Nmi, Cause::Kthread],
    risk: Risk::Medium,
    offer: ParameterOffer::OnRequest("by default the watchdogs skip CPUs of nohz_full="),
    kernels: ParameterKernels {
        needs: &["CONFIG_SOFTLOCKUP_DETECTOR", "CONFIG_HARDLOCKUP_DETECTOR"],
        ..EVERY_KERNEL
    },
    substitute: Some("watchdog"),
    ..COMMON
};

pub(super) const NOSOFTLOCKUP: KernelParameter = KernelParameter {
    name: "nosoftlockup",
    keyword: "nosoftlockup",
    summary: "switch the soft lockup detector off on all CPUs",
    page: "\
Like `nowatchdog`, but only for the soft lockup detector. It reports a CPU that stays in the kernel
for more than 20 seconds and lets no other task run. While the hard lockup detector is enabled, the
timer and the stopper thread still run. `nmi_watchdog=0` disables that detector too.

Cost: a soft lockup of a CPU is not reported.

Source: nosoftlockup_setup(), __lockup_detector_reconfigure() and watchdog_timer_fn() in
kernel/watchdog.c (6.12); Documentation/admin-guide/lockup-watchdogs.rst.",
    removes: &[Cause::Hrtimer, Cause::Kthread],
    risk: Risk::Medium,
    offer: ParameterOffer::OnRequest("by default the watchdogs skip CPUs of nohz_full="),
    kernels: ParameterKernels { needs: &["CONFIG_SOFTLOCKUP_DETECTOR"], ..EVERY_KERNEL },
    substitute: Some("watchdog"),
    ..COMMON
};

pub(super) const MCE: KernelParameter = KernelParameter {
    name: "mce-ignore-ce",
    keyword: "mce",
    summary: "do not check for corrected hardware errors",
    page: "\
A timer on every CPU checks for corrected hardware errors, and processors of Intel and Zhaoxin raise
an interrupt for them (CMCI). `mce=ignore_ce` stops both, but not the threshold interrupt of AMD
processors. The tunable `mce-check-interval` stops the timer at runtime.

Cost: the kernel does not read corrected errors, except those that AMD's threshold interrupt
signals. Failing memory can then go
unnoticed until an error cannot be corrected.

Source: mcheck_enable() and should_enable_timer() in arch/x86/kernel/cpu/mce/core.c,
cmci_supported() in arch/x86/kernel/cpu/mce/intel.c, arch/x86/kernel/cpu/mce/amd.c (6.12);
Documentation/arch/x86/x86_64/boot-options.rst.",
    removes: &[Cause::Timer, Cause::Irq],
    risk: Risk::Medium,
    offer: ParameterOffer::OnRequest("corrected hardware errors are no longer reported"),
    kernels: ParameterKernels { arches: &["x86_64", "i686", "i386"], ..EVERY_KERNEL },
    substitute: Some("mce-check-interval"),
    value: |_| Some("ignore_ce".to_owned()),
};
