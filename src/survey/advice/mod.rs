//! Advice about firmware, devices and system services: one file per subject. A subject gives
//! findings only about what it observed. What it could not observe is reported by its name, so an
//! absent finding is never mistaken for a good one.

mod access_control;
mod console;
mod efi_runtime;
mod firmware_updates;
mod kernel_options;
mod memory_speed;
mod pcie_aspm;
mod usb;
mod vfio;
mod virtualization;

use super::reader::SurveyReader;
use super::{Machine, SurveyFinding};

/// What the subjects read.
pub(super) struct AdviceSource<'a> {
    pub(super) r: &'a SurveyReader<'a>,
    pub(super) machine: &'a Machine,
    /// `/proc/cpuinfo`; `None` when it was not read.
    pub(super) cpuinfo: Option<&'a str>,
}

/// What a subject advises; `None` if the files are missing, or this user may not read them.
type SubjectReading = Option<Vec<SurveyFinding>>;

type SubjectReader = fn(&AdviceSource<'_>) -> SubjectReading;

/// The subjects, by the name that is reported when they could not be observed.
const SUBJECTS: &[(&str, SubjectReader)] = &[
    ("VT-x and VT-d", virtualization::read),
    ("memory speed", memory_speed::read),
    ("PCIe ASPM policy", pcie_aspm::read_policy),
    ("PCIe ASPM of devices", pcie_aspm::read_links),
    ("USB controllers", usb::read),
    ("EFI runtime services", efi_runtime::read),
    ("fwupd-refresh.timer", firmware_updates::read),
    ("console", console::read),
    ("SELinux and AppArmor", access_control::read),
    ("VFIO devices", vfio::read),
    ("kernel build options", kernel_options::read),
];

/// The findings of all subjects, and the names of those that could not be observed.
pub(super) fn read_advice(source: &AdviceSource<'_>) -> (Vec<SurveyFinding>, Vec<String>) {
    let (mut findings, mut unobserved) = (Vec::new(), Vec::new());
    for (name, read) in SUBJECTS {
        match read(source) {
            Some(found) => findings.extend(found),
            None => unobserved.push((*name).to_owned()),
        }
    }
    (findings, unobserved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::survey;
    use cpushield_linux::Host;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};

    /// A recorded machine with these files, and links where a text begins with `->`.
    fn recorded(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root =
            std::env::temp_dir().join(format!("cpushield-advice-{name}-{}", std::process::id()));
        let all = [("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vmx\n")];
        for (path, text) in all.iter().chain(files) {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match text.strip_prefix("->") {
                Some(target) => symlink(target, path).unwrap(),
                None => fs::write(path, text).unwrap(),
            }
        }
        root
    }

    /// The names of the findings that these subjects give, and the subjects that were unobserved.
    fn advised(root: &Path) -> (Vec<String>, Vec<String>) {
        let machine = survey(&Host::recorded(root).unwrap(), &[]);
        let found = machine.firmware.into_iter().map(|finding| finding.name);
        (found.collect(), machine.unobserved)
    }

    /// Everything is observed, and everything deserves advice.
    const BAD: &[(&str, &str)] = &[
        ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vmx\n"),
        ("sys/firmware/acpi/tables/DMAR", ""),
        ("sys/firmware/efi/fw_platform_size", "64\n"),
        ("sys/bus/platform/devices/efivars.0/uevent", ""),
        ("sys/module/pcie_aspm/parameters/policy", "default [powersave]\n"),
        ("sys/bus/pci/devices/0000:03:00.0/link/l1_aspm", "1\n"),
        ("sys/bus/pci/devices/0000:03:00.0/link/clkpm", "1\n"),
        ("sys/bus/pci/devices/0000:04:00.0/link/l1_aspm", "0\n"),
        ("sys/bus/pci/devices/0000:04:00.0/iommu_group", "->../../../../kernel/iommu_groups/7"),
        ("sys/bus/pci/drivers/vfio-pci/0000:04:00.0", "->../../devices/0000:04:00.0"),
        ("sys/bus/pci/drivers/vfio-pci/bind", ""),
        ("sys/kernel/iommu_groups/7/type", "DMA\n"),
        ("sys/bus/pci/devices/0000:05:00.0/iommu_group", "->../../../../kernel/iommu_groups/8"),
        ("sys/bus/pci/drivers/vfio-pci/0000:05:00.0", "->../../devices/0000:05:00.0"),
        ("sys/kernel/iommu_groups/8/name", "vfio-noiommu\n"),
        ("sys/bus/usb/devices/usb1", "->../../../devices/pci0000:00/0000:00:14.0/usb1"),
        ("sys/bus/usb/devices/usb2", "->../../../devices/pci0000:00/0000:00:14.0/usb2"),
        ("sys/bus/usb/devices/1-0:1.0", "->../../../devices/pci0000:00/0000:00:14.0/usb1/1-0:1.0"),
        ("sys/bus/usb/devices/usb3", "->../../../devices/pci0000:00/0000:00:1a.0/usb3"),
        ("sys/bus/usb/devices/3-1", "->../../../devices/pci0000:00/0000:00:1a.0/usb3/3-1"),
        ("etc/systemd/system/timers.target.wants/fwupd-refresh.timer", ""),
        ("sys/module/kernel/parameters/consoleblank", "600\n"),
        ("sys/class/graphics/fbcon/cursor_blink", "1\n"),
        ("sys/kernel/security/lsm", "lockdown,capability,selinux,apparmor"),
        ("sys/fs/selinux/enforce", "1"),
        ("proc/config.gz", "CONFIG_HZ=250\nCONFIG_PROVE_LOCKING=y\nCONFIG_LOCKUP_DETECTOR=y\n"),
        ("proc/sys/kernel/watchdog", "1\n"),
    ];

    /// Everything is observed, and nothing deserves advice.
    const GOOD: &[(&str, &str)] = &[
        ("sys/firmware/acpi/tables/DMAR", ""),
        ("sys/class/iommu/dmar0/uevent", ""),
        ("sys/bus/usb/devices/usb1", "->../../../devices/pci0000:00/0000:00:14.0/usb1"),
        ("sys/bus/usb/devices/usb2", "->../../../devices/pci0000:00/0000:00:14.0/usb2"),
        ("sys/bus/usb/devices/2-4.1", "->../../../devices/pci0000:00/0000:00:14.0/usb2/2-4/2-4.1"),
        ("sys/module/pcie_aspm/parameters/policy", "[default] powersave\n"),
        ("sys/bus/pci/devices/0000:03:00.0/link/l1_aspm", "0\n"),
        ("etc/systemd/system/timers.target.wants/logrotate.timer", ""),
        ("sys/module/kernel/parameters/consoleblank", "0\n"),
        ("sys/class/graphics/fbcon/cursor_blink", "0\n"),
        ("sys/kernel/security/lsm", "lockdown,capability,yama"),
        ("proc/config.gz", "CONFIG_HZ=250\nCONFIG_LOCKUP_DETECTOR=y\n"),
        ("proc/sys/kernel/watchdog", "0\n"),
    ];

    /// A table with one memory module of these speeds.
    fn dmi(rated: u16, configured: u16) -> Vec<u8> {
        let mut fields = [0; 0x28];
        (fields[0], fields[1], fields[0x0c]) = (17, 0x28, 8);
        fields[0x15..0x17].copy_from_slice(&rated.to_le_bytes());
        fields[0x20..0x22].copy_from_slice(&configured.to_le_bytes());
        [&fields[..], b"SERIAL\0\0", &[127, 4, 0, 0, 0, 0]].concat()
    }

    fn write_dmi(root: &Path, bytes: &[u8]) {
        let dir = root.join("sys/firmware/dmi/tables");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("DMI"), bytes).unwrap();
    }

    #[test]
    fn each_subject_advises_only_what_it_observed() {
        let bad = recorded("bad", BAD);
        write_dmi(&bad, &dmi(3200, 2666));
        let names = [
            "iommu",
            "memory-speed",
            "pcie-aspm",
            "pcie-link-sleep",
            "unused-usb",
            "efi-runtime",
            "fwupd-refresh",
            "console-blank",
            "cursor-blink",
            "selinux",
            "apparmor",
            "vfio-no-iommu",
            "vfio",
            "prove-locking",
            "lockup-detector",
        ];
        assert_eq!(advised(&bad), (names.map(str::to_owned).to_vec(), Vec::new()));
        let good = recorded("good", GOOD);
        write_dmi(&good, &dmi(3200, 3200));
        assert_eq!(advised(&good), (Vec::new(), Vec::new()));
        let empty = recorded("empty", &[]);
        let unobserved: Vec<String> = SUBJECTS.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(advised(&empty), (Vec::new(), unobserved));
        for root in [bad, good, empty] {
            fs::remove_dir_all(root).unwrap();
        }
    }

    #[test]
    fn a_finding_has_all_devices() {
        let buses: Vec<String> = (1..=9).map(|n| format!("sys/bus/usb/devices/usb{n}")).collect();
        let targets = (1..=9).map(|n| format!("->../../../devices/pci0000:00/0000:00:0{n}.0/usb"));
        let targets: Vec<String> = targets.collect();
        let links = buses.iter().zip(&targets).map(|(bus, to)| (bus.as_str(), to.as_str()));
        let root = recorded("devices", &links.collect::<Vec<_>>());
        let machine = survey(&Host::recorded(&root).unwrap(), &[]);
        fs::remove_dir_all(root).unwrap();
        let finding = machine.firmware.iter().find(|finding| finding.name == "unused-usb");
        let all: Vec<String> = (1..=9).map(|n| format!("0000:00:0{n}.0")).collect();
        assert_eq!(finding.unwrap().devices, all);
    }

    #[test]
    fn a_recording_gives_the_same_advice_without_serial_numbers() {
        let machine = recorded("original", BAD);
        write_dmi(&machine, &dmi(3200, 2666));
        let copy = machine.with_extension("copy");
        let host = Host::recorded(&machine).unwrap().recording(&copy).unwrap();
        let _ = survey(&host, &[]);
        assert_eq!(advised(&copy), advised(&machine));
        let table = fs::read(copy.join("sys/firmware/dmi/tables/DMI")).unwrap();
        assert!(!String::from_utf8_lossy(&table).contains("SERIAL"));
        fs::remove_dir_all(machine).unwrap();
        fs::remove_dir_all(copy).unwrap();
    }

    #[test]
    fn a_masked_timer_and_a_guest_get_no_advice() {
        let mask = ("etc/systemd/system/fwupd-refresh.timer", "->/dev/null");
        let timer = ("etc/systemd/system/timers.target.wants/fwupd-refresh.timer", "");
        let cpuinfo = ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor\n");
        let root = recorded("masked", &[mask, timer, cpuinfo]);
        let (found, unobserved) = advised(&root);
        assert_eq!(found, ["guest"]);
        assert!(!unobserved.contains(&"VT-x and VT-d".to_owned()), "{unobserved:?}");
        fs::remove_dir_all(root).unwrap();
    }
}
