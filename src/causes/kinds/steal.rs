//! `steal`: its name, its page and other words for it. Pure.

use super::CauseEntry;

pub(super) const ENTRY: CauseEntry = CauseEntry {
    name: "steal",
    summary: "the hypervisor ran something else",
    words: &[],
    beginnings: &[],
    page: PAGE,
};

const PAGE: &str = "\
This machine is a guest, and the host ran something else on the physical CPU or handled a VM exit.
If the hypervisor reports it, the time for which the vCPU waited for a physical CPU appears as
`steal` in /proc/stat. KVM does not count VM exits as `steal`. All other lost time appears only as
missing time. The remedy is on the host: run the guest's vCPUs on shielded CPUs.

Source: `steal` in Documentation/filesystems/proc.rst, kvm_steal_clock() in arch/x86/kernel/kvm.c,
record_steal_time() in arch/x86/kvm/x86.c (6.12).";
