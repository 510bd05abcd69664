//! `timer-migration`: new timers may be armed on another CPU. Pure.

use super::setting::{Setting, always, anywhere};
use crate::causes::Cause;
use crate::change::{Compare, Risk};

pub(super) const TIMER_MIGRATION: Setting = Setting {
    name: "timer-migration",
    summary: "let timers that need no certain CPU be armed on a housekeeping CPU",
    page: "\
Timers that are not pinned may be armed on another CPU than the one that asks. With
`kernel.timer_migration=1`, the default, a `nohz_full` CPU arms its unpinned timers on a
housekeeping CPU, and idle CPUs leave theirs to others. Some real-time guides switch it off;
then every timer that a program on the shield starts interrupts the shield.

Cost: none; it is the kernel's default.

Source: get_nohz_timer_target() in kernel/sched/core.c and kernel/time/timer_migration.c (6.12);
Documentation/admin-guide/sysctl/kernel.rst.",
    file: &["/proc/sys/kernel/timer_migration"],
    value: "1",
    compare: Compare::Text,
    reason: "timers armed from the shield then fire elsewhere",
    removes: &[Cause::Timer, Cause::Hrtimer],
    culprits: &[],
    risk: Risk::None,
    optional: always,
    applies: anywhere,
};
