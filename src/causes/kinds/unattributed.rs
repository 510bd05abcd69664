//! `unattributed`: its name, its page and other words for it. Pure.

use super::CauseEntry;

pub(super) const ENTRY: CauseEntry = CauseEntry {
    name: "unattributed",
    summary: "an interruption of an unknown kind",
    words: &[],
    beginnings: &[],
    page: PAGE,
};

const PAGE: &str = "\
An interruption that fits no category: an entry into the kernel without an event, or a record of an
event that was not enabled. It can also be an interrupt vector or a row of /proc/interrupts that
cpushield does not know. `others` stands for all culprits of a CPU beyond the first 4096. Save the
evidence (`--json`) and report it as a bug.

Source: vectors in arch/x86/include/asm/irq_vectors.h, rows in arch_show_interrupts() of
arch/x86/kernel/irq.c, entries on `nohz_full` CPUs by context_tracking:user_exit in
include/trace/events/context_tracking.h (6.12).";
