//! `ipi-call`: its name, its page and other words for it. Pure.

use super::CauseEntry;
use crate::causes::purpose::INTERRUPT_ON_CPU;

pub(super) const ENTRY: CauseEntry = CauseEntry {
    name: "ipi-call",
    summary: "another CPU runs a function on this one: TLB flush, text patching",
    words: &[],
    beginnings: &[INTERRUPT_ON_CPU],
    page: PAGE,
};

const PAGE: &str = "\
Another CPU runs a function on this one and often waits for it: TLB flushes for programs that ran on
this CPU, text patching (static keys, module load, ftrace, BPF), membarrier, perf, CPU frequency,
cache control. The trace names the sender and the function.

No mask prevents it. Do not run a program with threads both on shielded and on housekeeping CPUs.
Load modules and toggle tracepoints before the shield is needed. Do not let untrusted users load
modules by creating network namespaces or sockets of rare families.

Source: smp_call_function_many_cond() and generic_exec_single() in kernel/smp.c; the events that
name the function and the sender, csd and ipi_send_cpu, came with 6.5 (include/trace/events/csd.h,
ipi.h).";
