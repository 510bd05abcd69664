//! Parameters about power, siblings, and what other guides give beside them.

use super::{KernelParameter, ParameterOffer};
use crate::causes::Cause;
use crate::change::Risk;

const X86: &[&str] = &["x86_64", "i686", "i386"];

pub(super) const NOSMT: KernelParameter = KernelParameter {
    name: "nosmt",
    keyword: "nosmt",
    summary: "one thread on each core",
    page: "\
Siblings share the core: what runs on one slows the other down, whatever is isolated. A shield takes
whole cores and leaves the extra siblings idle, which needs no parameter. `nosmt` switches siblings
off everywhere.

Cost: half of the threads of the machine.

Source: smt_cmdline_disable() in kernel/cpu.c (6.12).",
    removes: &[],
    risk: Risk::Low,
    offer: ParameterOffer::Asked("a shield leaves its siblings idle"),
    needs: &["CONFIG_SCHED_SMT"],
    since: None,
    arches: &[],
    substitute: Some("echo off > /sys/devices/system/cpu/smt/control"),
    value: |_| None,
};

pub(super) const IDLE: KernelParameter = KernelParameter {
    name: "idle-poll",
    keyword: "idle",
    summary: "idle CPUs spin instead of sleeping, all of them",
    page: "\
A CPU that sleeps takes time to wake. With `idle=poll` none ever sleeps. The tunable `cpu-idle` does
so for the shielded CPUs alone, at runtime. A workload that polls never idles and needs neither.

Cost: heat; the other CPUs run slower for it, and siblings share their core with a loop.

Source: idle_setup() in arch/x86/kernel/process.c (6.12).",
    removes: &[],
    risk: Risk::Medium,
    offer: ParameterOffer::Asked("cpu-idle does so for the shield alone"),
    needs: &[],
    since: None,
    arches: X86,
    substitute: Some("cpu-idle"),
    value: |_| Some("poll".to_owned()),
};

pub(super) const MAX_CSTATE: KernelParameter = KernelParameter {
    name: "processor-max-cstate",
    keyword: "processor.max_cstate",
    summary: "only shallow sleep, all CPUs, ACPI driver",
    page: "\
Limits the sleep states that the ACPI driver uses; `cpu-idle` limits those of the shielded CPUs at
runtime. Where the driver is intel_idle, give `intel-idle-max-cstate` too.

Cost: power, and with it the speed that the other CPUs can have.

Source: max_cstate in drivers/acpi/processor_idle.c (6.12).",
    removes: &[],
    risk: Risk::Low,
    offer: ParameterOffer::Asked("cpu-idle does so for the shield alone"),
    needs: &[],
    since: None,
    arches: X86,
    substitute: Some("cpu-idle"),
    value: |_| Some("1".to_owned()),
};

pub(super) const INTEL_IDLE: KernelParameter = KernelParameter {
    name: "intel-idle-max-cstate",
    keyword: "intel_idle.max_cstate",
    summary: "only shallow sleep, all CPUs, Intel's driver",
    page: "\
As `processor-max-cstate`, for the driver intel_idle. The value 0 would switch the driver off and
leave the choice to ACPI; 1 keeps it, with its shallowest state.

Source: max_cstate in drivers/idle/intel_idle.c (6.12); Documentation/admin-guide/pm/intel_idle.rst.",
    removes: &[],
    risk: Risk::Low,
    offer: ParameterOffer::Asked("cpu-idle does so for the shield alone"),
    needs: &[],
    since: None,
    arches: X86,
    substitute: Some("cpu-idle"),
    value: |_| Some("1".to_owned()),
};

pub(super) const INTEL_PSTATE: KernelParameter = KernelParameter {
    name: "intel-pstate-disable",
    keyword: "intel_pstate",
    summary: "frequencies by acpi-cpufreq instead of Intel's driver",
    page: "\
Where the hardware chooses frequencies itself, its choice cannot be predicted. `cpu-governor` asks
for the highest one at runtime, which is what most need; the parameter hands over to acpi-cpufreq.

Cost: turbo frequencies may be lost.

Source: intel_pstate_setup() in drivers/cpufreq/intel_pstate.c (6.12).",
    removes: &[],
    risk: Risk::Low,
    offer: ParameterOffer::Asked("cpu-governor asks for the highest frequency at runtime"),
    needs: &[],
    since: None,
    arches: X86,
    substitute: Some("cpu-governor"),
    value: |_| Some("disable".to_owned()),
};

pub(super) const IOMMU: KernelParameter = KernelParameter {
    name: "iommu-pt",
    keyword: "iommu",
    summary: "devices of the host reach memory without translation",
    page: "\
Translating what devices write costs time, and unmapping makes CPUs wait for the unit. With
`iommu=pt` the host's own devices pass through; guests with devices of their own keep them.
`intel_iommu=off`, which guides give, takes that away as well and is not offered.

Cost: a device that misbehaves reaches all memory.

Source: iommu_setup() in arch/x86/kernel/pci-dma.c (6.12).",
    removes: &[Cause::Irq],
    risk: Risk::Medium,
    offer: ParameterOffer::Asked("a device that misbehaves then reaches all memory"),
    needs: &[],
    since: None,
    arches: X86,
    substitute: None,
    value: |_| Some("pt".to_owned()),
};

pub(super) const MITIGATIONS: KernelParameter = KernelParameter {
    name: "mitigations",
    keyword: "mitigations",
    summary: "never written: it opens the machine to attacks from its own programs",
    page: "\
Guides switch off the mitigations of processor flaws to make kernel entries quicker. A shielded CPU
hardly enters the kernel, so there is little to win, and every program of the machine could then
read what it must not. cpushield does not write it; who wants it must do so by hand.

Source: mitigations_parse_cmdline() in kernel/cpu.c (6.12);
Documentation/admin-guide/hw-vuln/index.rst.",
    removes: &[],
    risk: Risk::Medium,
    offer: ParameterOffer::Never(
        "it opens the machine to attacks and wins little on a shielded CPU",
    ),
    needs: &[],
    since: None,
    arches: &[],
    substitute: None,
    value: |_| Some("off".to_owned()),
};
