//! Loaders that hold a kernel's command line as it is: written, looked at, taken back to the byte.
//! And the real files of others, read in place.

use super::{planned, words};
use cpushield::boot::plan::Asked;
use cpushield::boot::write::{self, How};
use cpushield::boot::{BootError, Fate, loaders};
use cpushield::policy::Wish;
use std::path::Path;

use super::grub::Machine;

fn asked(kernels: Option<&str>) -> Asked {
    let wish = Wish { cpus: Some("2-3".parse().unwrap()), ..Wish::default() };
    Asked { wish, kernels: kernels.map(str::to_owned) }
}

const ADDED: &str = "nohz_full=2-3 rcu_nocbs=2-3 irqaffinity=0-1 ";

/// Writes, compares every file with what it must be, and takes it back.
fn round_trip(machine: &Machine, kernels: Option<&str>, path: &str, wanted: &str) {
    let before = machine.files();
    let plan = planned(&machine.host(), &asked(kernels)).unwrap();
    assert!(!plan.covers_later && words(&plan).join(" ") == ADDED.trim());
    write::write(&machine.host(), &machine.store(), &plan, &How::default()).unwrap();
    assert_eq!(machine.read(path), wanted);
    let changed = machine.files().iter().filter(|(path, it)| before.get(*path) != Some(it)).count();
    assert_eq!(changed, 1, "{path}");
    let undone = write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
    assert!(undone.files.iter().all(|(_, fate)| *fate == Fate::Restored), "{undone:#?}");
    assert_eq!(before, machine.files());
    // Another hand has added a word since: it stays, ours go.
    write::write(&machine.host(), &machine.store(), &plan, &How::default()).unwrap();
    machine.write(path, &wanted.replace("rcu_nocbs=2-3 ", "rcu_nocbs=2-3 theirs "));
    write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
    assert_eq!(machine.read(path), wanted.replace(ADDED, "theirs "));
}

#[test]
fn entries_of_the_boot_loader_specification_get_them_for_the_chosen_kernel() {
    let machine = Machine::without_loader();
    let entry = |version: &str, options: &str| {
        format!(
            "title Fedora ({version})\nversion {version}\nlinux /vmlinuz-{version}\noptions {options}\n"
        )
    };
    let dir = "boot/loader/entries";
    machine.write(&format!("{dir}/m-6.9.1.conf"), &entry("6.9.1", "root=UUID=ab ro"));
    let rt = format!("{dir}/m-6.12.1-rt.conf");
    machine.write(&rt, &entry("6.12.1-rt", "root=UUID=ab $kernelopts"));
    machine.write(
        "boot/config-6.12.1-rt",
        "CONFIG_PREEMPT_RT=y\nCONFIG_NO_HZ_FULL=y\nCONFIG_RCU_NOCB_CPU=y\n",
    );
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    assert_eq!(found.entries[0].version, "6.12.1-rt");
    let wanted = entry("6.12.1-rt", &format!("{ADDED}root=UUID=ab $kernelopts"));
    round_trip(&machine, None, &rt, &wanted);
    machine.write(&rt, "title x\nlinux /vmlinuz-1\n");
    let error = planned(&machine.host(), &asked(None)).unwrap_err();
    assert!(matches!(error, BootError::Unparsable { .. }), "{error}");
    assert!(error.to_string().contains("m-6.12.1-rt.conf") && error.to_string().contains("line 2"));
}

#[test]
fn labels_of_extlinux_and_the_line_of_a_raspberry_pi_get_them() {
    let machine = Machine::without_loader();
    let text = |args: &str| {
        format!(
            "default l0\nlabel l0\n\tlinux /vmlinuz-6.1.0-rt\n\tappend {args}ro quiet\nlabel l1\n\tlinux /vmlinuz-6.1.0\n\tappend ro\n"
        )
    };
    machine.write("boot/extlinux/extlinux.conf", &text(""));
    round_trip(&machine, Some("*-rt"), "boot/extlinux/extlinux.conf", &text(ADDED));
    let machine = Machine::without_loader();
    machine.write("boot/firmware/config.txt", "kernel=kernel8.img\n");
    machine.write("boot/firmware/cmdline.txt", "console=tty1 rootwait\n");
    let wanted = format!("{ADDED}console=tty1 rootwait\n");
    round_trip(&machine, None, "boot/firmware/cmdline.txt", &wanted);
}

#[test]
fn elsewhere_nothing_is_written_and_what_to_do_is_said() {
    for (sign, wanted) in [
        ("run/ostree-booted", "rpm-ostree kargs --append-if-missing=nohz_full=2-3"),
        ("etc/kernel/proxmox-boot-uuids", "proxmox-boot-tool refresh"),
        ("boot/efi/EFI/Linux/x.efi", "/etc/kernel/cmdline: nohz_full=2-3"),
        ("boot/grub/menu.lst", "line 3: kernel /vmlinuz-2.6-rtai ro nohz_full=2-3"),
        ("etc/nothing", "cpushield status --boot"),
    ] {
        let machine = Machine::without_loader();
        machine.write(
            sign,
            "title RT\nroot (hd0,0)\nkernel /vmlinuz-2.6-rtai ro\nkernel /vmlinuz-2.6 ro\n",
        );
        let before = machine.files();
        let plan = planned(&machine.host(), &asked(None)).unwrap();
        let said = plan.instructions.join("\n");
        assert!(said.contains(wanted), "{said}");
        assert!(!said.contains("kernel /vmlinuz-2.6 ro"), "{said}");
        let error =
            write::write(&machine.host(), &machine.store(), &plan, &How::default()).unwrap_err();
        assert!(matches!(error, BootError::ByHand { .. }), "{error}");
        assert_eq!(before, machine.files());
    }
}

/// Files of real machines, and those of grubby's own tests.
#[test]
fn real_files_of_others_are_understood_or_refused_and_come_back_to_the_byte() {
    let dir = std::env::var_os("CPUSHIELD_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
        std::path::PathBuf::from,
    );
    let dir = dir.join("boot");
    if !dir.is_dir() {
        eprintln!("NOT RUN: no boot files of others at {}", dir.display());
        return;
    }
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    for name in ["extlinux.1", "extlinux.3", "extlinux.5"] {
        let machine = Machine::without_loader();
        let path = "boot/extlinux/extlinux.conf";
        machine.write(path, &read(&format!("grubby/{name}")));
        let before = machine.files();
        let plan = planned(&machine.host(), &asked(Some("*"))).unwrap();
        write::write(&machine.host(), &machine.store(), &plan, &How::default()).unwrap();
        let (old, new) = (read(&format!("grubby/{name}")), machine.read(path));
        assert_eq!(new.replace(ADDED, ""), old, "{name}");
        assert_eq!(new.matches(ADDED).count(), plan.kernels.len(), "{name}");
        write::undo(&machine.host(), &machine.store()).unwrap();
        assert_eq!(before, machine.files(), "{name}");
    }
    let mut seen = 0;
    for name in ["1", "3", "5", "7", "8", "9", "11", "13", "15", "19"] {
        let text = read(&format!("grubby/grub2.{name}"));
        let menu =
            cpushield::boot::grub::menu::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let kernels = text.lines().filter(|line| line.trim_start().starts_with("linux")).count();
        let found = menu.entries.iter().filter(|entry| entry.kernel.is_some()).count();
        assert_eq!(found, kernels, "grub2.{name}");
        seen += found;
    }
    assert!(seen > 20, "{seen}");
}
