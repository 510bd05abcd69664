//! Network interfaces and block devices with hardware: their node, their local CPUs and their
//! interrupts. Virtual devices (loopback, dm, loop) are left out.

use super::reader::{CpuSetSpelling::List, CpuSetSpelling::Mask, SurveyReader};
use super::{Device, Machine};
use std::collections::BTreeSet;

pub(super) fn read_devices(r: &SurveyReader) -> Vec<Device> {
    let mut found = Vec::new();
    for (class, dir) in [("net", "/sys/class/net"), ("block", "/sys/block")] {
        let names = r.names(dir);
        let read = |name: &str| read_device(r, class, name, &format!("{dir}/{name}"));
        for name in &names {
            if head_of_path(name).is_some_and(|head| names.contains(&head)) {
                continue;
            }
            let paths = names.iter().filter(|path| head_of_path(path).as_ref() == Some(name));
            let device = read(name);
            found.extend(device.or_else(|| join(name, paths.filter_map(|path| read(path)))));
        }
    }
    found
}

/// The disk that programs use, of a path to it: `nvme0n1` for `nvme0c1n1`. With native multipath
/// the disk itself has no hardware (`nvme_mpath_set_disk_name()`, drivers/nvme/host/multipath.c,
/// 6.12).
fn head_of_path(path: &str) -> Option<String> {
    let (subsystem, rest) = path.strip_prefix("nvme")?.split_once('c')?;
    let (controller, namespace) = rest.split_once('n')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let numbers = [subsystem, controller, namespace].into_iter().all(is_number);
    numbers.then(|| format!("nvme{subsystem}n{namespace}"))
}

/// A disk with the hardware of all its paths; `None` if it has no path.
fn join(name: &str, mut paths: impl Iterator<Item = Device>) -> Option<Device> {
    let mut device = Device { name: name.to_owned(), ..paths.next()? };
    for path in paths {
        device.node = device.node.filter(|node| path.node == Some(*node));
        device.local = device.local.union(&path.local);
        device.irqs.extend(path.irqs);
    }
    device.irqs.sort_unstable();
    device.irqs.dedup();
    Some(device)
}

fn read_device(r: &SurveyReader, class: &str, name: &str, entry: &str) -> Option<Device> {
    // `/sys/block/vda` → `../devices/pci0000:00/0000:00:03.0/virtio1/block/vda`.
    let path = resolve(entry, &r.host.read_link(entry).ok()?);
    if !path.starts_with("/sys/devices/") || path.starts_with("/sys/devices/virtual/") {
        return None;
    }
    let mut device = Device { name: name.to_owned(), class: class.to_owned(), ..Device::default() };
    let mut irqs = BTreeSet::new();
    // The bus device is some levels up; the first directory that has a fact wins.
    for dir in parents(&path) {
        if device.driver.is_none() {
            let link = r.host.read_link(&format!("{dir}/driver")).ok();
            device.driver = link.and_then(|to| Some(to.rsplit_once('/')?.1.to_owned()));
        }
        if device.node.is_none() {
            let node = r.id(&format!("{dir}/numa_node"));
            device.node = node.and_then(|node| usize::try_from(node).ok());
        }
        if device.local.is_empty() {
            let (list, mask) = (format!("{dir}/local_cpulist"), format!("{dir}/local_cpus"));
            device.local = r.set(&[(&list, List), (&mask, Mask)]).unwrap_or_default();
        }
        if irqs.is_empty() {
            let names = r.names(&format!("{dir}/msi_irqs"));
            // Each is probed, because a recording has only the paths that were read.
            irqs.extend(
                names
                    .iter()
                    .filter(|name| r.host.exists(&format!("{dir}/msi_irqs/{name}")))
                    .filter_map(|name| name.parse::<u32>().ok()),
            );
        }
        if irqs.is_empty() {
            irqs.extend(r.number::<u32>(&format!("{dir}/irq")).filter(|irq| *irq > 0));
        }
        if !irqs.is_empty() && !device.local.is_empty() {
            break;
        }
    }
    device.irqs = irqs.into_iter().collect();
    Some(device)
}

impl Machine {
    /// The devices that raise an interrupt, each with its driver, as text: `vda, virtio_blk`.
    #[must_use]
    pub fn device_of(&self, irq: u32) -> Option<String> {
        let devices = self.devices.iter().filter(|device| device.irqs.contains(&irq));
        let names = devices.flat_map(|device| [Some(&device.name), device.driver.as_ref()]);
        let names: Vec<&str> = names.flatten().map(String::as_str).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

/// The directories from a device up to, not including, `/sys/devices`.
fn parents(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |dir: &&str| Some(dir.rsplit_once('/')?.0))
        .take_while(|dir| *dir != "/sys/devices" && !dir.is_empty())
}

/// Resolves the target of a link by its text, relative to the link's directory.
fn resolve(link: &str, target: &str) -> String {
    let mut parts: Vec<&str> =
        if target.starts_with('/') { Vec::new() } else { link.split('/').collect() };
    parts.pop();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "" | "." => {}
            name => parts.push(name),
        }
    }
    format!("/{}", parts.join("/").trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_resolved_by_their_text() {
        assert_eq!(resolve("/sys/block/vda", "../devices/pci/vda"), "/sys/devices/pci/vda");
        assert_eq!(resolve("/sys/class/net/lo", "../../devices/x"), "/sys/devices/x");
        assert_eq!(resolve("/sys/a", "/sys/b"), "/sys/b");
        assert_eq!(resolve("/sys/a", "../../../../b"), "/b");
    }

    #[test]
    fn an_interrupt_belongs_to_its_devices_and_their_drivers() {
        let device = |name: &str, driver: Option<&str>, irqs: &[u32]| Device {
            name: name.to_owned(),
            driver: driver.map(str::to_owned),
            irqs: irqs.to_vec(),
            ..Device::default()
        };
        let machine = Machine {
            devices: vec![device("vda", Some("virtio_blk"), &[35, 36]), device("eth0", None, &[9])],
            ..Machine::default()
        };
        assert_eq!(machine.device_of(36).as_deref(), Some("vda, virtio_blk"));
        assert_eq!(machine.device_of(9).as_deref(), Some("eth0"));
        assert_eq!(machine.device_of(1), None);
    }

    #[test]
    fn a_path_has_the_numbers_of_its_disk() {
        assert_eq!(head_of_path("nvme0c1n2").as_deref(), Some("nvme0n2"));
        for other in ["nvme0n1", "nvme0", "sdc", "nvmecn", "nvme0c1n"] {
            assert_eq!(head_of_path(other), None, "{other}");
        }
    }

    #[test]
    fn parents_end_below_the_root_of_devices() {
        let up: Vec<&str> = parents("/sys/devices/pci0/00:03.0/virtio1").collect();
        assert_eq!(
            up,
            ["/sys/devices/pci0/00:03.0/virtio1", "/sys/devices/pci0/00:03.0", "/sys/devices/pci0"]
        );
    }
}
