//! Machines that no recording has, made by hand from the documentation of their loaders. Each one
//! names its source.

use super::grub::Machine;
use super::others::{ADDED, request_kernels};
use super::{make_plan, words};
use cpushield::boot::write::{self, WriteMode};
use cpushield::boot::{BootError, loaders, status};

/// Checks that nothing is written, and returns the instructions.
fn instructions(machine: &Machine) -> String {
    let before = machine.files();
    assert!(loaders::find(&machine.host()).unwrap().is_none());
    let plan = make_plan(&machine.host(), &request_kernels(None)).unwrap();
    assert_eq!(words(&plan).join(" "), ADDED.trim());
    let error =
        write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap_err();
    assert!(matches!(error, BootError::ByHand { .. }), "{error}");
    assert_eq!(before, machine.files());
    plan.instructions.join("\n")
}

/// Proxmox VE with ZFS on EFI. Made by hand from pve.proxmox.com, Host Bootloader (2024-03-06), and
/// zz-proxmox-boot of proxmox-kernel-helper. The EFI system partition is mounted here, as during
/// `proxmox-boot-tool refresh`, which would overwrite its entries.
#[test]
fn proxmox_with_systemd_boot_gets_steps_for_its_own_command_line() {
    let machine = Machine::without_loader();
    let line = "root=ZFS=rpool/ROOT/pve-1 boot=zfs nohz_full=3\n";
    machine.write("etc/kernel/cmdline", line);
    machine.write("proc/cmdline", &format!("initrd=\\EFI\\proxmox\\initrd.img {line}"));
    machine.write("etc/kernel/proxmox-boot-uuids", "1C2D-3E4F\n5A6B-7C8D\n");
    machine.write("boot/efi/loader/loader.conf", "timeout 3\ndefault proxmox-*\n");
    machine.write(
        "boot/efi/loader/entries/proxmox-6.8.12-4-pve.conf",
        "title    Proxmox Virtual Environment\n\
         version  6.8.12-4-pve\n\
         options  root=ZFS=rpool/ROOT/pve-1 boot=zfs nohz_full=3\n\
         linux    /EFI/proxmox/6.8.12-4-pve/vmlinuz-6.8.12-4-pve\n\
         initrd   /EFI/proxmox/6.8.12-4-pve/initrd.img-6.8.12-4-pve\n",
    );
    let steps = instructions(&machine);
    let line = format!("add to the line in /etc/kernel/cmdline: {}", ADDED.trim());
    assert!(steps.contains(&line) && steps.contains("proxmox-boot-tool refresh"), "{steps}");
    let status = status::status(&machine.host(), &machine.store()).unwrap();
    let foreign: Vec<String> = status.foreign.iter().map(ToString::to_string).collect();
    assert_eq!(
        foreign,
        ["/etc/kernel/cmdline:1 has nohz_full=3; in force; to remove it, edit that file and run \
          `proxmox-boot-tool refresh`"]
    );
}

/// Fedora CoreOS with two deployments. Made by hand from the entries that ostree writes
/// (`ostree-N-STATEROOT.conf` with `ostree=`; Fedora CoreOS 43, as parsers of such entries test
/// them) and from rpm-ostree(1), `kargs`.
#[test]
fn ostree_entries_are_left_to_rpm_ostree() {
    let machine = Machine::without_loader();
    machine.write("run/ostree-booted", "");
    machine.program("usr/bin/rpm-ostree");
    machine.write("boot/grub2/grub.cfg", "blscfg\n");
    for (number, version) in [(1, "6.15.4-200.fc42.x86_64"), (2, "6.17.12-300.fc43.x86_64")] {
        let checksum = "190375fcbb517f7a97c80256eb5ca74122718150b97c5482e15acba1abd77ab2";
        let dir = format!("/boot/ostree/fedora-coreos-{checksum}");
        machine.write(
            &format!("boot/loader/entries/ostree-{number}-fedora-coreos.conf"),
            &format!(
                "title Fedora CoreOS (ostree:{number})\n\
                 version {number}\n\
                 options rw mitigations=auto,nosmt \
                 ostree=/ostree/boot.1/fedora-coreos/{checksum}/0 ignition.platform.id=qemu\n\
                 linux {dir}/vmlinuz-{version}\n\
                 initrd {dir}/initramfs-{version}.img\n"
            ),
        );
    }
    let steps = instructions(&machine);
    let append = "rpm-ostree kargs --append-if-missing=nohz_full=2-3 --append-if-missing=rcu_nocbs";
    assert!(steps.contains(append), "{steps}");
    assert!(steps.contains("--delete-if-present=nohz_full=2-3"), "{steps}");
}

/// NVIDIA Jetson Linux 36 with an RT kernel, its backup, and the label that jetson-io.py writes.
/// Made by hand from the default file of Jetson Linux, whose comments describe the backup label,
/// and from the labels `JetsonIO` of users' reports.
const JETSON: &str = "TIMEOUT 30
DEFAULT JetsonIO

MENU TITLE L4T boot options

LABEL primary
      MENU LABEL primary kernel
      LINUX /boot/Image
      FDT /boot/dtb/kernel_tegra234-p3768-0000+p3767-0005-nv.dtb
      INITRD /boot/initrd
      APPEND ${cbootargs} root=PARTUUID=ab rw rootwait

# When testing a custom kernel, it is recommended that you create a backup of
# the original kernel and add a new entry to this file so that the device can
# fallback to the original kernel.

LABEL backup
      MENU LABEL backup kernel
      LINUX /boot/Image.backup
      FDT /boot/dtb/kernel_tegra234-p3768-0000+p3767-0005-nv.dtb
      INITRD /boot/initrd.backup
      APPEND ${cbootargs}

LABEL JetsonIO
\tMENU LABEL Custom Header Config: <CSI Camera IMX219-A>
\tLINUX /boot/Image
\tFDT /boot/dtb/kernel_tegra234-p3768-0000+p3767-0005-nv-super.dtb
\tINITRD /boot/initrd
\tAPPEND ${cbootargs} root=PARTUUID=ab rw rootwait
\tOVERLAYS /boot/tegra234-p3767-camera-p3768-imx219-A.dtbo
";

fn jetson() -> Machine {
    let machine = Machine::without_loader();
    machine.write("boot/extlinux/extlinux.conf", JETSON);
    let rt = "Linux version 5.15.148-rt-tegra (b@h) (gcc) #1 SMP PREEMPT_RT Tue Jan 7\n";
    let stock = "Linux version 5.15.148-tegra (b@h) (gcc) #1 SMP PREEMPT Tue Jan 7\n";
    machine.write("boot/Image", rt);
    machine.write("boot/Image.backup", stock);
    machine
}

#[test]
fn the_rt_labels_of_a_jetson_get_the_words_and_its_backup_stays() {
    let machine = jetson();
    let before = machine.files();
    let plan = make_plan(&machine.host(), &request_kernels(None)).unwrap();
    let chosen = plan.kernels.iter().filter(|it| it.chosen).map(|it| it.version.as_str());
    assert_eq!(chosen.collect::<Vec<_>>(), ["5.15.148-rt-tegra"]);
    write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    let root = "APPEND ${cbootargs} root=";
    let wanted = JETSON.replace(root, &format!("APPEND {ADDED}${{cbootargs}} root="));
    assert_eq!(machine.read("boot/extlinux/extlinux.conf"), wanted);
    write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
    assert_eq!(before, machine.files());
}

/// Without its device tree or its overlays the board would start without its camera, or not at all.
#[test]
fn a_separate_label_of_a_jetson_has_the_device_tree_and_the_overlays() {
    let machine = jetson();
    let before = machine.files();
    let plan = make_plan(&machine.host(), &request_kernels(None)).unwrap();
    let mode = WriteMode { default_entry: write::DefaultEntry::Kept, ..WriteMode::default() };
    write::write(&machine.host(), &machine.store(), &plan, &mode).unwrap();
    let text = machine.read("boot/extlinux/extlinux.conf");
    let ours = text.split_once("# Made by cpushield").unwrap().1;
    for line in [
        "FDT /boot/dtb/kernel_tegra234-p3768-0000+p3767-0005-nv-super.dtb",
        "OVERLAYS /boot/tegra234-p3767-camera-p3768-imx219-A.dtbo",
        "INITRD /boot/initrd",
    ] {
        assert!(ours.lines().any(|it| it.trim().eq_ignore_ascii_case(line)), "{line}: {text}");
    }
    assert!(text.starts_with(JETSON), "{text}");
    write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
    assert_eq!(before, machine.files());
}
