//! Devices that a guest or a user program drives by VFIO, and their IOMMU groups.

use super::{AdviceSource, SubjectReading, SurveyFinding};
use std::collections::BTreeMap;

const PCI: &str = "/sys/bus/pci";

/// Whether the kernel made a group for a device without an IOMMU (`vfio_noiommu_group_alloc()`,
/// drivers/vfio/group.c, 6.12).
fn is_without_iommu(source: &AdviceSource<'_>, group: &str) -> bool {
    let name = source.r.line(&format!("/sys/kernel/iommu_groups/{group}/name"));
    name.is_some_and(|name| name == "vfio-noiommu")
}

pub(super) fn read(source: &AdviceSource<'_>) -> SubjectReading {
    let r = source.r;
    if !r.host.exists(&format!("{PCI}/devices")) {
        return None;
    }
    // Each bound device has a link with its address: 0000:03:00.0. The other names are files.
    let names = r.names(&format!("{PCI}/drivers/vfio-pci"));
    let devices = names.into_iter().filter(|name| name.matches(':').count() == 2);
    let mut groups: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
    for device in devices {
        let link = r.host.read_link(&format!("{PCI}/drivers/vfio-pci/{device}/iommu_group")).ok();
        let group = link.and_then(|target| Some(target.rsplit_once('/')?.1.to_owned()));
        let group = group.filter(|group| !is_without_iommu(source, group));
        groups.entry(group).or_default().push(device);
    }
    let findings = groups.into_iter().map(|(group, devices)| match group {
        Some(group) => SurveyFinding::new(
            "vfio",
            format!("VFIO drives devices of IOMMU group {group}"),
            "one guest or program owns all devices of a group. Their interrupts (vfio-*) wake one \
             of its threads, unless the IOMMU posts them to the guest. The shield moves these \
             interrupts to housekeeping CPUs, from where they still interrupt that thread",
        )
        .of_devices(devices),
        None => SurveyFinding::new(
            "vfio-no-iommu",
            "VFIO drives devices without an IOMMU",
            "the program that uses such a device can write to all memory. Enable the IOMMU in \
             the firmware's setup; on an Intel machine, also boot with intel_iommu=on",
        )
        .of_devices(devices),
    });
    Some(findings.collect())
}
