//! Entries for repairs, memory tests and crash dumps never get the words, whichever loader has
//! them, and whichever kernel is chosen. The files are made by hand after the programs that write
//! them: 10_linux and 20_memtest86+ of GRUB, dracut, u-boot-menu, kdump-tools.

use super::grub::Machine;
use super::{make_plan, request_cpus};
use cpushield::boot::plan::BootRequest;
use cpushield::boot::write::{self, DefaultEntry, WriteMode};
use cpushield::boot::{BootError, EntryPurpose, loaders};
use cpushield::report::blocks::{terminal_blocks, unpainted};
use cpushield::report::boot_plan_blocks;

const WORDS: &str = "nohz_full=2-3 rcu_nocbs=2-3 irqaffinity=0-1";

fn request_all_kernels() -> BootRequest {
    BootRequest { kernels: Some("*".to_owned()), ..request_cpus("2-3") }
}

/// Writes for every kernel in both positions. Each entry that contains one of the signs stays as
/// it is, and one entry of each of these kernels has the words.
fn check(machine: &Machine, signs: &[&str], kernels: &[&str]) {
    let before = machine.files();
    for default_entry in [DefaultEntry::Ours, DefaultEntry::Kept] {
        let plan = make_plan(&machine.host(), &request_all_kernels()).unwrap();
        let versions: Vec<&str> = plan.kernels.iter().map(|it| it.version.as_str()).collect();
        assert_eq!(versions, kernels);
        let mode = WriteMode { default_entry, ..WriteMode::default() };
        write::write(&machine.host(), &machine.store(), &plan, &mode).unwrap();
        let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
        let mut spared = 0;
        for entry in &found.entries {
            let id = entry.id.as_deref().unwrap_or_default();
            let shown = format!("{} {id} {} {}", entry.title, entry.version, entry.args);
            if signs.iter().any(|sign| shown.contains(sign)) {
                assert!(!entry.ours && !entry.args.contains("nohz_full"), "{entry:#?}");
                spared += 1;
            }
        }
        assert!(spared >= plan.spared.len() && !plan.spared.is_empty(), "{:#?}", plan.spared);
        for version in kernels {
            let with: Vec<_> = found
                .entries
                .iter()
                .filter(|it| it.version == *version && it.args.contains(WORDS))
                .collect();
            assert_eq!(with.len(), 1, "{version}: {:#?}", found.entries);
        }
        write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
        assert_eq!(before, machine.files());
    }
}

#[test]
fn recovery_and_rescue_entries_of_grub_stay_as_they_are() {
    let machine = Machine::debian();
    machine.install("0-rescue-5a94251776a14678", true);
    machine.write(
        "etc/grub.d/20_memtest86+",
        "#!/bin/sh\ncat <<'E'\nmenuentry 'Memory test (memtest86+x64.bin)' {\n\tlinux\t/boot/memtest86+x64.bin\n}\nE\n",
    );
    machine.program("etc/grub.d/20_memtest86+");
    machine.update_grub();
    check(&machine, &["recovery", "0-rescue"], &["6.12.9-rt-amd64", "6.12.9-amd64"]);
    let plan = make_plan(&machine.host(), &request_all_kernels()).unwrap();
    assert!(plan.spared.iter().all(|it| it.purpose == EntryPurpose::Recovery), "{plan:#?}");
    let text = terminal_blocks(&boot_plan_blocks(&plan), 200, &unpainted);
    assert!(text.contains("(recovery mode) (/boot/grub/grub.cfg:"), "{text}");
    // A rescue image is made of the newest kernel, and never chosen as a real-time kernel.
    let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
    let chosen: Vec<&str> =
        plan.kernels.iter().filter(|it| it.chosen).map(|it| it.version.as_str()).collect();
    assert_eq!(chosen, ["6.12.9-rt-amd64"]);
}

#[test]
fn the_first_kernel_is_not_the_rescue_image() {
    let machine = Machine::with(&[("0-rescue-5a94", false), ("6.1.4-amd64", false)]);
    machine.save("saved_entry", "gnulinux-advanced-ab>gnulinux-0-rescue-5a94-advanced-ab");
    let plan = make_plan(&machine.host(), &request_cpus("2-3")).unwrap();
    let written =
        write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    assert_eq!(written.kernels, ["6.1.4-amd64"]);
}

fn bls_entry(title: &str, kernel: &str, options: &str) -> String {
    format!("title {title}\nlinux /{kernel}\noptions {options}\n")
}

#[test]
fn rescue_and_dump_entries_of_the_boot_loader_specification_stay_as_they_are() {
    let machine = Machine::without_loader();
    let dir = "boot/loader/entries";
    for (name, text) in [
        ("m-6.12.1-rt", bls_entry("Fedora (6.12.1-rt)", "vmlinuz-6.12.1-rt", "root=UUID=ab ro")),
        ("m-0-rescue", bls_entry("Fedora (0-rescue-m)", "vmlinuz-0-rescue-m", "root=UUID=ab ro")),
        ("m-6.12.1-rt-single", bls_entry("x", "vmlinuz-6.12.1-rt", "root=UUID=ab ro single")),
        (
            "m-6.12.1-rt-kdump",
            bls_entry("x", "vmlinuz-6.12.1-rt", "root=UUID=ab reset_devices nr_cpus=1"),
        ),
    ] {
        machine.write(&format!("{dir}/{name}.conf"), &text);
    }
    machine.write(
        "boot/config-6.12.1-rt",
        "CONFIG_PREEMPT_RT=y\nCONFIG_NO_HZ_FULL=y\nCONFIG_RCU_NOCB_CPU=y\n",
    );
    check(&machine, &["rescue", "single", "reset_devices"], &["6.12.1-rt"]);
}

#[test]
fn a_rescue_entry_that_dracut_makes_later_does_not_inherit_the_words() {
    let machine = Machine::without_loader();
    let dir = "boot/loader/entries";
    let options = "root=UUID=ab ro";
    machine.write(&format!("{dir}/m-6.9.1.conf"), &bls_entry("F", "vmlinuz-6.9.1", options));
    machine.write("etc/kernel/install.d/README", "");
    machine.program("usr/bin/kernel-install");
    let plan = make_plan(&machine.host(), &request_all_kernels()).unwrap();
    write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    // 51-dracut-rescue.install writes the running kernel's command line.
    let inherited = format!("{WORDS} {options}");
    let rescue = bls_entry("F (0-rescue-m)", "vmlinuz-0-rescue-m", &inherited);
    machine.write(&format!("{dir}/m-0-rescue.conf"), &rescue);
    machine.write(&format!("{dir}/m-6.9.2.conf"), &bls_entry("F", "vmlinuz-6.9.2", &inherited));
    let hook = machine.path("etc/kernel/install.d/95-cpushield.install");
    let mut call = std::process::Command::new("sh");
    call.arg(hook).args(["add", "6.9.2", "/x", "/boot/vmlinuz-6.9.2"]);
    assert!(call.env("KERNEL_INSTALL_BOOT_ROOT", machine.path("boot")).status().unwrap().success());
    let bare = bls_entry("F (0-rescue-m)", "vmlinuz-0-rescue-m", options);
    assert_eq!(machine.read(&format!("{dir}/m-0-rescue.conf")), bare);
    assert!(machine.read(&format!("{dir}/m-6.9.2.conf")).contains(&inherited));
}

#[test]
fn rescue_labels_of_extlinux_stay_as_they_are() {
    let machine = Machine::without_loader();
    // As u-boot-menu of Debian writes it.
    machine.write(
        "boot/extlinux/extlinux.conf",
        "default l0\nprompt 1\nlabel l0\n\tmenu label Debian 6.1.0\n\tlinux /vmlinuz-6.1.0\n\
         \tappend root=/dev/sda1 ro quiet\n\nlabel l0r\n\tmenu label Debian 6.1.0 (rescue target)\n\
         \tlinux /vmlinuz-6.1.0\n\tappend root=/dev/sda1 ro single\n\n\
         label memtest\n\tkernel /memtest86+.bin\n\tappend x\n",
    );
    check(&machine, &["single"], &["6.1.0"]);
}

#[test]
fn the_instructions_for_menu_lst_leave_out_recovery_entries() {
    let machine = Machine::without_loader();
    machine.write(
        "boot/grub/menu.lst",
        "title Debian\nkernel /vmlinuz-2.6.32 ro quiet\ntitle Debian (single-user mode)\n\
         kernel /vmlinuz-2.6.32 ro single\ntitle Memory test\nkernel /memtest86+.bin\n",
    );
    let plan = make_plan(&machine.host(), &request_cpus("2-3")).unwrap();
    let steps = plan.instructions.join("\n");
    assert!(steps.contains("menu.lst:2: kernel /vmlinuz-2.6.32 isolcpus=2-3 ro quiet"), "{steps}");
    assert!(!steps.contains("lst:4") && !steps.contains("lst:6"), "{steps}");
}

#[test]
fn a_menu_with_nothing_but_a_rescue_entry_is_refused() {
    let machine = Machine::without_loader();
    let text = bls_entry("F (0-rescue-m)", "vmlinuz-0-rescue-m", "ro");
    machine.write("boot/loader/entries/m-0-rescue.conf", &text);
    let error = make_plan(&machine.host(), &request_all_kernels()).unwrap_err();
    assert!(matches!(error, BootError::NoKernel { .. }), "{error}");
}
