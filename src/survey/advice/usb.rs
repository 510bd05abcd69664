//! USB controllers that nothing uses: their interrupts, and what the firmware does for them, can be
//! switched off (`Documentation/ABI/testing/sysfs-bus-usb`, drivers/usb/core/usb.c, 6.12).

use super::{AdviceSource, SubjectReading, SurveyFinding};
use cpushield_linux::Host;
use std::collections::BTreeMap;

/// Links to the buses (`usb1`), the devices (`1-4.2`) and their interfaces (`1-4.2:1.0`).
const DEVICES: &str = "/sys/bus/usb/devices";

pub(super) fn read(source: &AdviceSource<'_>) -> SubjectReading {
    let host = source.r.host;
    if !host.exists(DEVICES) {
        return None;
    }
    let unused = unused_controllers(host, &source.r.names(DEVICES));
    let finding = SurveyFinding::new(
        "unused-usb",
        "USB controllers without a device",
        "if they are not needed, disable them and legacy USB support in the firmware's setup: to \
         emulate a PS/2 keyboard, the firmware can use system management interrupts, which stop \
         all CPUs",
    );
    Some(Vec::from_iter((!unused.is_empty()).then(|| finding.of_devices(unused))))
}

/// The controllers to whose buses only root hubs belong: `0000:00:14.0`. A controller for USB 3 has
/// two buses.
fn unused_controllers(host: &Host, names: &[String]) -> Vec<String> {
    let mut has_device: BTreeMap<String, bool> = BTreeMap::new();
    for name in names {
        let Some(bus) = name.strip_prefix("usb") else { continue };
        // `../../../devices/pci0000:00/0000:00:14.0/usb1`
        let Ok(path) = host.read_link(&format!("{DEVICES}/{name}")) else { continue };
        let Some(controller) = path.rsplit('/').nth(1) else { continue };
        // The link is read because a recording has only the paths that were read.
        let attached = names.iter().any(|name| {
            is_device_of(name, bus) && host.read_link(&format!("{DEVICES}/{name}")).is_ok()
        });
        *has_device.entry(controller.to_owned()).or_default() |= attached;
    }
    has_device.into_iter().filter(|(_, attached)| !attached).map(|(name, _)| name).collect()
}

/// Whether `1-4.2` is a device on the bus `1`. The interface of a root hub is `1-0:1.0`.
fn is_device_of(name: &str, bus: &str) -> bool {
    name.split_once('-').is_some_and(|(number, port)| number == bus && !port.contains(':'))
}
