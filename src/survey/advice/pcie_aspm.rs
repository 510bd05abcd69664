//! PCIe links that save power (ASPM): the kernel's policy, and each device's link
//! (`Documentation/ABI/testing/sysfs-bus-pci`, 6.12; since 5.5).

use super::{AdviceSource, SubjectReading, SurveyFinding};
use crate::survey::reader::SurveyReader;

const POLICY: &str = "/sys/module/pcie_aspm/parameters/policy";
const DEVICES: &str = "/sys/bus/pci/devices";
/// The files of a link, with the state that each enables. Clock power management is none.
const STATES: &[(&str, &str)] = &[
    ("l0s_aspm", "L0s"),
    ("l1_aspm", "L1"),
    ("l1_1_aspm", "L1.1"),
    ("l1_2_aspm", "L1.2"),
    ("l1_1_pcipm", "L1.1"),
    ("l1_2_pcipm", "L1.2"),
];

pub(super) fn read_policy(source: &AdviceSource<'_>) -> SubjectReading {
    let policy = source.r.line(POLICY)?;
    Some(Vec::from_iter(check_policy(&policy)))
}

/// The files of a link exist only if the kernel controls ASPM, and so has a policy.
pub(super) fn read_links(source: &AdviceSource<'_>) -> SubjectReading {
    let host = source.r.host;
    if !host.exists(POLICY) || !host.exists(DEVICES) {
        return None;
    }
    Some(Vec::from_iter(check_links(source.r)))
}

/// `[default] performance powersave powersupersave`.
fn check_policy(text: &str) -> Option<SurveyFinding> {
    let policy = text.split_once('[')?.1.split_once(']')?.0;
    policy.starts_with("power").then(|| {
        SurveyFinding::new(
            "pcie-aspm",
            format!("PCIe links save power (ASPM policy {policy})"),
            "a device responds later when its link sleeps; pcie_aspm.policy=performance keeps the \
             links awake",
        )
    })
}

/// The devices whose links may sleep, whatever the policy.
fn check_links(r: &SurveyReader<'_>) -> Option<SurveyFinding> {
    let devices = r.names(DEVICES).into_iter().filter_map(|name| {
        let dir = format!("{DEVICES}/{name}/link");
        let enabled = |file: &str| r.line(&format!("{dir}/{file}")).is_some_and(|text| text == "1");
        let mut states: Vec<&str> =
            STATES.iter().filter(|(file, _)| enabled(file)).map(|(_, state)| *state).collect();
        states.dedup();
        states.sort_unstable();
        states.dedup();
        (!states.is_empty()).then(|| format!("{name} ({})", states.join(", ")))
    });
    let devices: Vec<String> = devices.collect();
    let finding = SurveyFinding::new(
        "pcie-link-sleep",
        "the PCIe links of these devices may sleep",
        "such a device responds later after an idle time; to keep its link awake, write 0 to the \
         files in /sys/bus/pci/devices/DEVICE/link and measure again",
    );
    (!devices.is_empty()).then(|| finding.of_devices(devices))
}
