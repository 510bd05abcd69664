//! Whether guests can run in a shield: VT-x or AMD-V by the processor's flags, VT-d or AMD-Vi by
//! the firmware's tables and the kernel's IOMMUs.

use super::{AdviceSource, SubjectReading, SurveyFinding};

/// The directory of the firmware's tables (drivers/acpi/sysfs.c, 6.12).
const TABLES: &str = "/sys/firmware/acpi/tables";
/// The tables that describe IOMMUs: Intel's and AMD's.
const IOMMU_TABLES: [&str; 2] = ["DMAR", "IVRS"];

/// Only guests need them, so a guest or another architecture gets no advice.
pub(super) fn read(source: &AdviceSource<'_>) -> SubjectReading {
    let AdviceSource { r, machine, cpuinfo } = source;
    let x86 = machine.kernel.arch.as_deref().is_none_or(|arch| arch == "x86_64");
    if !x86 || machine.virt.guest == Some(true) {
        return Some(Vec::new());
    }
    let flags = cpuinfo.and_then(|text| text.lines().find(|line| line.starts_with("flags")));
    let (Some(flags), true) = (flags, r.host.exists(TABLES)) else {
        return None;
    };
    let virtualizes = flags.split_whitespace().any(|flag| flag == "vmx" || flag == "svm");
    let has_table = IOMMU_TABLES.iter().any(|name| r.host.exists(&format!("{TABLES}/{name}")));
    let in_use = !r.names("/sys/class/iommu").is_empty();
    let iommu = match (in_use, has_table) {
        (true, _) => IommuState::InUse,
        (false, true) => IommuState::Offered,
        (false, false) => IommuState::Absent,
    };
    let findings = [check_processor(virtualizes), check_iommu(iommu, virtualizes)];
    Some(findings.into_iter().flatten().collect())
}

/// The kernel clears the flag when the firmware has disabled and locked VT-x
/// (arch/x86/kernel/cpu/feat_ctl.c, 6.12).
fn check_processor(virtualizes: bool) -> Option<SurveyFinding> {
    (!virtualizes).then(|| {
        SurveyFinding::new(
            "no-virtualization",
            "the processor shows neither VT-x nor AMD-V",
            "only guests need virtualization; enable it in the firmware's setup before guests run \
             in a shield",
        )
    })
}

/// What the machine has of an IOMMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IommuState {
    /// The kernel uses it.
    InUse,
    /// The firmware offers it, and the kernel does not use it.
    Offered,
    /// The firmware offers none.
    Absent,
}

fn check_iommu(iommu: IommuState, virtualizes: bool) -> Option<SurveyFinding> {
    let (seen, advice) = match iommu {
        IommuState::InUse => return None,
        IommuState::Offered => (
            "the firmware offers an IOMMU (VT-d or AMD-Vi), but the kernel does not use it",
            "only guests with passed-through devices need it; for these guests, boot an Intel \
             machine with intel_iommu=on, or an AMD machine without amd_iommu=off and iommu=off",
        ),
        IommuState::Absent if virtualizes => (
            "the firmware offers no IOMMU (VT-d or AMD-Vi)",
            "only guests with passed-through devices need it; for these guests, enable it in the \
             firmware's setup",
        ),
        IommuState::Absent => return None,
    };
    Some(SurveyFinding::new("iommu", seen, advice))
}
