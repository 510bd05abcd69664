//! `ipi-call`: its name, its page and other words for it. Pure.

use super::CauseEntry;
use crate::causes::purpose::INTERRUPT_ON_CPU;

pub(super) const ENTRY: CauseEntry = CauseEntry {
    name: "ipi-call",
    summary: "another CPU made this one run a function: TLB flush, text patching",
    words: &[],
    beginnings: &[INTERRUPT_ON_CPU],
    page: PAGE,
};

const PAGE: &str = "\
Another CPU made this one run a function, and often waits until it returns. Such functions flush the
TLB for programs that ran on this CPU, or patch kernel text (static keys, module load, ftrace, BPF).
Others serve membarrier, perf, CPU frequency or cache control. Since 6.5 the trace names the sender
and the function.

CPU masks prevent only packet steering (`rps`) and wake-ups of other programs (`cpuset`). No mask
prevents the other calls. Do not run threads of the same program on both shielded and housekeeping
CPUs. Load modules and enable tracepoints before the shield is needed. Do not let untrusted users
cause module loads by creating network namespaces or sockets of rare families.

Source: smp_call_function_many_cond() and generic_exec_single() in kernel/smp.c (6.12). The events
csd_queue_cpu and csd_function_entry were added in 6.5 (include/trace/events/csd.h), ipi_send_cpu in
6.4 (ipi.h).";
