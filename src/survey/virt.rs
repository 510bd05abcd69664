//! Whether this is bare metal, a guest or a container. Uses files only, so that a recording gives
//! the same result.

use super::Virtualization;
use super::reader::SurveyReader;

/// DMI vendor or product names of hypervisors, as in `systemd-detect-virt`.
const DMI: &[(&str, &str)] = &[
    ("KVM", "KVM"),
    ("QEMU", "QEMU"),
    ("VMware", "VMware"),
    ("VirtualBox", "VirtualBox"),
    ("innotek", "VirtualBox"),
    ("Xen", "Xen"),
    ("Microsoft Corporation", "Hyper-V"),
    ("Bochs", "Bochs"),
    ("Parallels", "Parallels"),
    ("Firecracker", "Firecracker"),
];
/// DMI vendor or product names of clouds, which rent out physical machines too. Those have an x86
/// CPU without the `hypervisor` flag.
const CLOUDS: &[(&str, &str)] =
    &[("OpenStack", "KVM"), ("Amazon EC2", "KVM"), ("Google Compute Engine", "KVM")];

pub(super) fn read_virt(
    r: &SurveyReader,
    cpuinfo: Option<&str>,
    clocksources: &[String],
) -> Virtualization {
    let flag = cpuinfo.and_then(hypervisor_flag);
    let name = r
        .line("/sys/hypervisor/type")
        .map(|text| if text == "xen" { "Xen".to_owned() } else { text })
        .or_else(|| r.line("/proc/device-tree/hypervisor/compatible"))
        .or_else(|| by_clocksource(clocksources))
        .or_else(|| by_dmi(r, flag));
    Virtualization {
        guest: if name.is_some() { Some(true) } else { flag },
        hypervisor: name,
        container: detect_container(r),
    }
}

/// The `hypervisor` flag of x86; `None` when there are no flags.
fn hypervisor_flag(cpuinfo: &str) -> Option<bool> {
    let line = cpuinfo.lines().find(|line| line.starts_with("flags"))?;
    Some(line.split_whitespace().any(|word| word == "hypervisor"))
}

/// Paravirtual clocks name the hypervisor that offers them.
fn by_clocksource(clocksources: &[String]) -> Option<String> {
    let known = [("kvm-clock", "KVM"), ("hyperv_clocksource_tsc_page", "Hyper-V"), ("xen", "Xen")];
    let found = known.iter().find(|(clock, _)| clocksources.iter().any(|source| source == clock));
    found.map(|(_, name)| (*name).to_owned())
}

/// The hypervisor by vendor and product name; serial numbers are never read.
fn by_dmi(r: &SurveyReader, flag: Option<bool>) -> Option<String> {
    let texts = ["product_name", "sys_vendor"].map(|n| r.line(&format!("/sys/class/dmi/id/{n}")));
    let names = texts.into_iter().flatten().collect::<Vec<String>>().join("\n");
    // Microsoft sells physical machines too.
    let clouds = CLOUDS.iter().filter(|_| flag != Some(false));
    let hypervisor = DMI.iter().chain(clouds).find(|(word, _)| {
        names.contains(word)
            && (!word.starts_with("Microsoft") || names.contains("Virtual Machine"))
    });
    hypervisor.map(|(_, name)| (*name).to_owned())
}

/// The container's name and the source of that fact; `None` outside a container.
fn detect_container(r: &SurveyReader) -> Option<String> {
    if let Some(name) = r.line("/run/systemd/container") {
        return Some(format!("{name} (/run/systemd/container)"));
    }
    let marks = [("/.dockerenv", "docker"), ("/run/.containerenv", "podman")];
    let mark = marks.iter().find(|(path, _)| r.host.exists(path));
    mark.map(|(path, name)| format!("{name} ({path})"))
}
