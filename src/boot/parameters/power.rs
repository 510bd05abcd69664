//! Parameters for power and SMT siblings, and others that tuning guides recommend.

use super::kernel_parameter::{
    COMMON, EVERY_KERNEL, KernelParameter, ParameterKernels, ParameterOffer, X86_KERNELS,
};
use crate::causes::Cause;
use crate::change::Risk;
use cpushield_linux::text::first_releases;

pub(super) const NOSMT: KernelParameter = KernelParameter {
    name: "nosmt",
    keyword: "nosmt",
    summary: "switch SMT off: one thread per core",
    page: "\
SMT siblings share a core: a task on one slows the other down, even when both are isolated. A shield
takes whole cores and leaves the extra siblings idle, which needs no parameter. `nosmt` switches the
siblings of every core off.

Cost: each core keeps one hardware thread. Where every core has two, that is half of all CPUs.

It came with Linux 4.19. Series that were maintained in August 2018, such as 4.14, have it in their
later stable releases.

Source: smt_cmdline_disable() in kernel/cpu.c (6.12); commit 05736e4ac13c (4.19).",
    offer: ParameterOffer::OnRequest("a shield leaves the siblings of its CPUs idle"),
    // s390 has its own `nosmt`: `early_nosmt()`, arch/s390/kernel/smp.c.
    kernels: ParameterKernels {
        needs: &["CONFIG_HOTPLUG_SMT", "CONFIG_S390"],
        since: Some(first_releases::NOSMT),
        backports: first_releases::NOSMT_BACKPORTS,
        ..EVERY_KERNEL
    },
    substitute: Some("echo off > /sys/devices/system/cpu/smt/control"),
    ..COMMON
};

pub(super) const IDLE: KernelParameter = KernelParameter {
    name: "idle-poll",
    keyword: "idle",
    summary: "make all idle CPUs spin instead of sleeping",
    page: "\
A sleeping CPU takes time to wake. With `idle=poll` no CPU ever sleeps. The tunable `cpu-idle` keeps
only the shielded CPUs from sleeping, at runtime. A workload that polls never idles and needs
neither.

Cost: heat, which slows the other CPUs down; idle SMT siblings run a busy loop on a shared core.
Idle CPUs keep their tick, because the kernel does not stop it before polling.

Source: idle_setup() in arch/x86/kernel/process.c, do_idle() in kernel/sched/idle.c (6.12).",
    risk: Risk::Medium,
    offer: ParameterOffer::OnRequest("cpu-idle does this for the shield only"),
    kernels: X86_KERNELS,
    substitute: Some("cpu-idle"),
    value: |_| Some("poll".to_owned()),
    ..COMMON
};

pub(super) const MAX_CSTATE: KernelParameter = KernelParameter {
    name: "processor-max-cstate",
    keyword: "processor.max_cstate",
    summary: "allow only shallow sleep states on all CPUs (ACPI driver)",
    page: "\
Limits the sleep states that the ACPI driver uses; `cpu-idle` limits those of the shielded CPUs at
runtime. The driver intel_idle ignores the parameter; use `intel-idle-max-cstate` there.
/sys/devices/system/cpu/cpuidle/current_driver names the driver.

Cost: power, which limits the frequency that the other CPUs can reach.

Source: max_cstate in drivers/acpi/processor_idle.c (6.12).",
    offer: ParameterOffer::OnRequest("cpu-idle does this for the shield only"),
    kernels: X86_KERNELS,
    substitute: Some("cpu-idle"),
    value: |_| Some("1".to_owned()),
    ..COMMON
};

pub(super) const INTEL_IDLE: KernelParameter = KernelParameter {
    name: "intel-idle-max-cstate",
    keyword: "intel_idle.max_cstate",
    summary: "allow only shallow sleep states on all CPUs (Intel's driver)",
    page: "\
Like `processor-max-cstate`, for the driver intel_idle. The value 0 would switch the driver off and
use the ACPI driver; 1 keeps it, with polling and its shallowest sleep state.

Source: max_cstate in drivers/idle/intel_idle.c (6.12);
Documentation/admin-guide/pm/intel_idle.rst.",
    offer: ParameterOffer::OnRequest("cpu-idle does this for the shield only"),
    kernels: X86_KERNELS,
    substitute: Some("cpu-idle"),
    value: |_| Some("1".to_owned()),
    ..COMMON
};

pub(super) const INTEL_PSTATE: KernelParameter = KernelParameter {
    name: "intel-pstate-disable",
    keyword: "intel_pstate",
    summary: "set frequencies with acpi-cpufreq instead of Intel's driver",
    page: "\
If the hardware chooses the frequencies (HWP), its choice is unpredictable. `cpu-governor` requests
the highest frequency at runtime, which is enough for most workloads. With the parameter,
acpi-cpufreq chooses among the frequencies that the firmware lists (ACPI _PSS). A kernel such as
6.12 ignores the parameter if the firmware has already enabled HWP.

Cost: the firmware's list has one entry for all turbo frequencies. A governor that follows the load
chooses it only under the highest load. Without a list, acpi-cpufreq does not load.

Source: intel_pstate_init() and intel_pstate_setup() in drivers/cpufreq/intel_pstate.c,
Documentation/admin-guide/pm/intel_pstate.rst (6.12); commit 93f0822dff5d (3.9).",
    offer: ParameterOffer::OnRequest("cpu-governor requests the highest frequency at runtime"),
    kernels: ParameterKernels { since: Some(first_releases::INTEL_PSTATE), ..X86_KERNELS },
    substitute: Some("cpu-governor"),
    value: |_| Some("disable".to_owned()),
    ..COMMON
};

pub(super) const IOMMU: KernelParameter = KernelParameter {
    name: "iommu-pt",
    keyword: "iommu",
    summary: "let devices of the host access memory without translation",
    page: "\
Translating the addresses of device accesses costs time. In strict mode, unmapping makes CPUs wait
for the IOMMU; in lazy mode, a timer flushes the IOMMU later. With `iommu=pt` the host's own devices
bypass the translation. Devices assigned to guests still use it, and so do external devices that the
kernel does not trust (Thunderbolt). Some guides recommend `intel_iommu=off`, which removes the
translation for guests too; cpushield does not offer it.

Cost: a faulty device can access all memory.

Source: iommu_setup() in arch/x86/kernel/pci-dma.c, iommu_get_default_domain_type() in
drivers/iommu/iommu.c, fq_flush_timeout() in drivers/iommu/dma-iommu.c (6.12).",
    removes: &[Cause::Timer],
    risk: Risk::Medium,
    offer: ParameterOffer::OnRequest("a faulty device could then access all memory"),
    kernels: X86_KERNELS,
    value: |_| Some("pt".to_owned()),
    ..COMMON
};

pub(super) const MITIGATIONS: KernelParameter = KernelParameter {
    name: "mitigations",
    keyword: "mitigations",
    summary: "never written: it exposes the machine to attacks by programs that run on it",
    page: "\
Some guides switch off the mitigations of processor flaws to make kernel entries faster. A program
that makes few system calls on a shielded CPU gains little. On a processor with such a flaw, any
program on the machine could then read data that it must not. cpushield does not write it; add it by
hand if you want it.

It came with Linux 5.2. Series that were maintained in May 2019, such as 4.19, have it in their
later stable releases.

Source: mitigations_parse_cmdline() in kernel/cpu.c (6.12);
Documentation/admin-guide/hw-vuln/index.rst.",
    risk: Risk::Medium,
    offer: ParameterOffer::Never(
        "it exposes the machine to attacks and gains little on a shielded CPU",
    ),
    kernels: ParameterKernels {
        since: Some(first_releases::MITIGATIONS),
        backports: first_releases::MITIGATIONS_BACKPORTS,
        ..EVERY_KERNEL
    },
    value: |_| Some("off".to_owned()),
    ..COMMON
};
