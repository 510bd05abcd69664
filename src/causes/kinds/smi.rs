//! `smi`: its name, its page and other words for it. Pure.

use super::CauseEntry;

pub(super) const ENTRY: CauseEntry = CauseEntry {
    name: "smi",
    summary: "firmware took the CPU (system management mode)",
    words: &["gap", "gaps"],
    beginnings: &[],
    page: PAGE,
};

const PAGE: &str = "\
Firmware stops the CPU for its own work: legacy USB, memory errors, fans, power capping, writes to
flash memory. The kernel cannot see this; it sees only that time is missing. Only firmware settings
can prevent it.

Some processors count SMIs. Intel processors since Nehalem have a counter register (MSR 0x34, read
through /dev/cpu/N/msr: `modprobe msr`). AMD processors have no such register. From Zen 2 on they
have an event, which `verify` counts from just before the measured span to just after it (perf event
`ls_smi_rx`, PMCx02B: tools/perf/pmu-events/arch/x86/amdzen2/memory.json to amdzen5/load-store.json,
6.12; this has not been tested on such a machine yet). Neither counter shows how long the firmware
ran. No count is available in guests, on AMD processors before Zen 2 or on other processors. There,
the witness is `cpushield latency hardware` (hwlat): a kernel thread that reads the clock with
interrupts disabled. Only an NMI or a machine check can run between two of its readings; any other
gap was caused below the kernel. The thread disturbs the CPU too much to run together with a
workload.

`verify` compares the gaps of its sampler with the kernel's trace. The trace explains a gap if it
shows what ran during the gap. For kernel entry and exit, `verify` allows 10 µs more, or as much
again as the trace shows. In any other gap, the unexplained time was lost below the kernel, or to
something that the trace does not see. For each SMI that the processor counted, `verify` attributes
one of these gaps to firmware. If no SMI was counted and a gap of 10 µs or more remains, the verdict
is `unknown`: something took the CPU, and no witness can tell what. In a guest, `verify` shows such
gaps but counts them only against `--max-gap`, because the hypervisor may take the CPU at any time.
If `verify` observes your own program, there is no sampler. `--max-gap` then holds only if no SMI
was counted and there is no hypervisor.

Source: MSR_SMI_COUNT in arch/x86/include/asm/msr-index.h and its use in
tools/power/x86/turbostat/turbostat.c, Documentation/trace/hwlat_detector.rst (6.12).";
