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
The lost time appears as `steal` in /proc/stat if the hypervisor reports it, otherwise as missing
time. The remedy is on the host: run the guest's vCPUs on shielded CPUs.

Source: `steal` in Documentation/filesystems/proc.rst, kvm_steal_clock() in arch/x86/kernel/kvm.c
(6.12).";
