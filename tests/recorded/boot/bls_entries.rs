//! Entries of systemd-boot that are special: without options, without a version, made by another
//! program, and the one that boots by default.

use super::grub::Machine;
use super::make_plan;
use super::others::{EFI, VENDOR, encode_efi_variable, make_systemd_boot_machine, request_kernels};
use cpushield::boot::write::{self, WriteMode};
use cpushield::boot::{BootError, loaders};

fn set_variable(machine: &Machine, name: &str, text: &str) {
    machine.write(&format!("{EFI}/{name}-{VENDOR}"), &encode_efi_variable(text));
}

#[test]
fn an_entry_without_options_is_left_out_and_hides_no_other() {
    let machine = make_systemd_boot_machine();
    machine.write("boot/loader/entries/memtest.conf", "title MemTest86+\nefi /memtest.efi\n");
    let plan = make_plan(&machine.host(), &request_kernels(None)).unwrap();
    assert_eq!(plan.kernels.len(), 2);
}

/// The user's fallback must not get the words of the running kernel.
#[test]
fn an_entry_whose_kernel_cannot_be_identified_stays_as_it_is() {
    let machine = make_systemd_boot_machine();
    let old = "title Old\nlinux /vmlinuz.old\noptions root=UUID=ab ro\n";
    machine.write("boot/loader/entries/old.conf", old);
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    assert!(found.entries.iter().all(|entry| !entry.place.contains("old.conf")));
    let warnings: Vec<String> = found.warnings.iter().map(ToString::to_string).collect();
    assert!(warnings.iter().any(|it| it.contains("/vmlinuz.old is unknown")), "{warnings:?}");
    std::fs::write(
        machine.path("boot/vmlinuz.old"),
        "Linux version 6.1.9 (b@h) (gcc) #1 SMP PREEMPT_DYNAMIC Tue Jan 7\n",
    )
    .unwrap();
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    assert!(found.entries.iter().any(|entry| entry.version == "6.1.9"));
}

#[test]
fn the_entry_that_was_booted_last_and_one_without_a_file_are_known_as_the_default() {
    let machine = make_systemd_boot_machine();
    let next = || {
        let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
        (found.next.map(|at| found.entries[at].version.clone()), found.why.to_string())
    };
    machine.write("boot/loader/loader.conf", "default @saved\n");
    set_variable(&machine, "LoaderEntryLastBooted", "m-6.12.1-rt.conf");
    assert_eq!(next(), (Some("6.12.1-rt".to_owned()), "default of loader.conf".to_owned()));
    set_variable(&machine, "LoaderEntryDefault", "arch-linux.efi");
    let why = "EFI variable LoaderEntryDefault is \"arch-linux.efi\"; no file has the command \
               line of this entry, so it boots without the parameters";
    assert_eq!(next(), (None, why.to_owned()));
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    assert!(found.warnings.iter().any(|warning| warning.to_string() == why));
    // An entry that is gone is ignored.
    set_variable(&machine, "LoaderEntryDefault", "m-5.4.conf");
    assert_eq!(next().0.as_deref(), Some("6.12.1-rt"));
}

#[test]
fn entries_that_another_program_rewrites_get_its_instructions() {
    for (sign, step) in [
        ("etc/NIXOS", "boot.kernelParams = [ \"nohz_full=2-3\""),
        ("boot/efi/loader/entries/Pop_OS-current.conf", "kernelstub --add-options \"nohz_full=2-3"),
        ("usr/bin/sdbootutil", "sdbootutil update-all-entries"),
    ] {
        let machine = make_systemd_boot_machine();
        machine.write(sign, "");
        let before = machine.files();
        let plan = make_plan(&machine.host(), &request_kernels(None)).unwrap();
        assert_eq!(plan.loader, None, "{sign}");
        let instructions = plan.instructions.join("\n");
        assert!(instructions.contains(step), "{sign}: {instructions}");
        let written = write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default());
        assert!(matches!(written, Err(BootError::ByHand { .. })), "{sign}: {written:?}");
        assert_eq!(before, machine.files(), "{sign}");
    }
}
