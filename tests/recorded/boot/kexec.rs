//! `--kexec` loads the kernel of the written entry. After a refusal or an undo no kernel stays
//! loaded.

use super::grub::{LOADED, Machine};
use super::make_plan;
use cpushield::boot::kexec::{self, KexecImage};
use cpushield::boot::plan::BootRequest;
use cpushield::boot::write::{self, ParameterTerm, WriteMode};
use cpushield::boot::{
    BootError, KernelWords, NextReason, SCHEMA, WrittenParameters, loaders, read_journal,
};
use cpushield::refusal::UserError;
use cpushield_simulator::{InjectedFault, Simulated};

const RT: &str = "6.12.9-rt-amd64";

fn split_error(error: &BootError) -> (String, String) {
    match error {
        BootError::Wrong { why, hint } => (why.clone(), hint.clone().unwrap_or_default()),
        error => panic!("{error:?}"),
    }
}

/// A machine whose kernel supports kexec.
fn make_kexec_machine() -> Machine {
    let machine = Machine::debian();
    machine.write(&format!("boot/initrd.img-{RT}"), "");
    machine.write(LOADED, "0\n");
    machine
}

fn write_parameters(machine: &Machine, term: ParameterTerm) -> WrittenParameters {
    let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
    kexec::possible(&machine.host(), &plan).unwrap();
    let how = WriteMode { term, start: write::EntryStart::Kexec, ..WriteMode::default() };
    let written = write::write(&machine.host(), &machine.store(), &plan, &how).unwrap();
    assert!(!machine.path("boot/grub/grubenv").exists());
    written
}

#[test]
fn the_files_of_an_entry_are_loaded_and_a_missing_ram_disk_is_refused() {
    let machine = make_kexec_machine();
    machine.remove(&format!("boot/initrd.img-{RT}"));
    let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
    let (why, hint) = split_error(&kexec::possible(&machine.host(), &plan).unwrap_err());
    assert!(
        why.contains(&format!("/boot/initrd.img-{RT}, but none of these files exists: ")),
        "{why}"
    );
    assert!(hint.starts_with("nothing was written"), "{hint}");
    machine.write(&format!("boot/initrd.img-{RT}"), "");
    let line = format!("BOOT_IMAGE=/boot/vmlinuz-{RT} root=UUID=ab ro nohz_full=1-3 rcu_nocbs=1-3");
    let image =
        kexec::image(&machine.host(), &write_parameters(&machine, ParameterTerm::Permanent))
            .unwrap();
    let words = |line: &str| {
        let mut words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        words.sort();
        words
    };
    assert_eq!(words(&image.line), words(&line));
    assert_eq!(image.kernel, format!("/boot/vmlinuz-{RT}"));
    assert_eq!(image.initrd, Some(format!("/boot/initrd.img-{RT}")));
}

#[test]
fn files_of_a_systemd_boot_entry_are_relative_to_its_file_system() {
    let load = |rest: &str, there: &[&str]| {
        let machine = Machine::without_loader();
        let text = format!("title x\nlinux /m/{RT}/linux\noptions root=LABEL=x ro\n{rest}");
        machine.write(&format!("boot/efi/loader/entries/m-{RT}.conf"), &text);
        machine.write(&format!("boot/config-{RT}"), "CONFIG_PREEMPT_RT=y\n");
        there.iter().for_each(|path| machine.write(path, ""));
        let kernels = vec![RT.to_owned()];
        let (loader, _) = loaders::find(&machine.host()).unwrap().unwrap();
        let written = WrittenParameters {
            schema: SCHEMA,
            loader: loader.name().to_owned(),
            replaced: Vec::new(),
            words: vec!["ro".to_owned()],
            kernels,
            groups: Vec::new(),
            files: Vec::new(),
            next: None,
            next_has: true,
            entry: None,
            choice: None,
            menu: String::new(),
            entries_without: Vec::new(),
            trial: None,
        };
        // The version comes from the file of the entry.
        let written = match loaders::find(&machine.host()).unwrap().unwrap().1.entries.pop() {
            Some(entry) => {
                let kernels = vec![entry.version];
                let groups =
                    vec![KernelWords { kernels: kernels.clone(), words: written.words.clone() }];
                WrittenParameters { kernels, groups, ..written }
            }
            None => written,
        };
        kexec::image(&machine.host(), &written)
    };
    let (kernel, disk) = (format!("boot/efi/m/{RT}/linux"), format!("boot/efi/m/{RT}/initrd"));
    let one = format!("initrd /m/{RT}/initrd\nversion {RT}\n");
    let image = |initrd: Option<String>| KexecImage {
        kernel: format!("/{kernel}"),
        initrd,
        line: format!("BOOT_IMAGE=/{kernel} root=LABEL=x ro"),
    };
    assert_eq!(load(&one, &[&kernel, &disk]).unwrap(), image(Some(format!("/{disk}"))));
    // An entry without a RAM disk needs none.
    let none = format!("version {RT}\n");
    assert_eq!(load(&none, &[&kernel]).unwrap(), image(None));
    for (rest, there, wanted) in [
        (one.clone(), vec![kernel.as_str()], "none of these files exists: "),
        (one.clone(), vec![disk.as_str()], "none of these files exists: "),
        (format!("initrd /ucode.img\n{one}"), vec![&kernel, &disk], "several initial RAM disks"),
    ] {
        let (why, _) = split_error(&load(&rest, &there).unwrap_err());
        assert!(why.contains(wanted), "{why}");
    }
}

/// kernel-install of tuned adds `$tuned_initrd` to every entry, and most profiles leave it empty.
#[test]
fn a_variable_of_grub_names_a_ram_disk_only_if_it_has_a_value() {
    let load = |name: &str, cfg: &str| {
        let machine = Machine::without_loader();
        let text = format!(
            "title x\nversion {RT}\nlinux /vmlinuz-{RT}\ninitrd /initramfs.img {name}\n\
             options root=LABEL=x ro\n"
        );
        machine.write(&format!("boot/loader/entries/m-{RT}.conf"), &text);
        machine.write("boot/grub2/grub.cfg", cfg);
        machine.write(&format!("boot/vmlinuz-{RT}"), "");
        machine.write("boot/initramfs.img", "");
        machine.write(&format!("boot/config-{RT}"), "CONFIG_PREEMPT_RT=y\nCONFIG_NO_HZ_FULL=y\n");
        let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
        kexec::possible(&machine.host(), &plan).map_err(|error| split_error(&error).0)
    };
    for cfg in ["", "set tuned_initrd=\"\"\n"] {
        assert_eq!(load("$tuned_initrd", cfg), Ok(()), "{cfg}");
    }
    let why = load("${tuned_initrd}", "set tuned_initrd=\"/tuned.img\"\n").unwrap_err();
    assert!(why.contains("several initial RAM disks (/initramfs.img, /tuned.img)"), "{why}");
    // The rest of such a name is not known to be empty.
    let why = load("$prefix/x.img", "").unwrap_err();
    assert!(why.contains("several initial RAM disks"), "{why}");
}

#[test]
fn undo_unloads_only_the_kernel_that_this_boot_loaded() {
    let machine = make_kexec_machine();
    let it = write_parameters(&machine, ParameterTerm::Permanent);
    let started = kexec::start(&machine.host(), &machine.store(), &it).unwrap();
    assert!(!started.now);
    assert_eq!(machine.read(LOADED), "1\n");
    write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
    assert_eq!(machine.read(LOADED), "0\n");
    // A kernel that is loaded in a later boot is not ours.
    let it = write_parameters(&machine, ParameterTerm::Permanent);
    kexec::start(&machine.host(), &machine.store(), &it).unwrap();
    machine.write("proc/sys/kernel/random/boot_id", "b2\n");
    write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
    assert_eq!(machine.read(LOADED), "1\n");
}

#[test]
fn after_a_kill_between_loading_and_starting_undo_unloads_the_kernel() {
    let count = {
        let machine = make_kexec_machine();
        let (host, it) = (machine.host(), write_parameters(&machine, ParameterTerm::Trial));
        kexec::start(&host, &machine.store(), &it).unwrap();
        host.writes() + 1
    };
    for at in 0..count {
        let machine = make_kexec_machine();
        machine.write("run/systemd/system/README", "");
        let it = write_parameters(&machine, ParameterTerm::Trial);
        let killed = machine.host().failing(InjectedFault::Stop { at });
        let error = kexec::start(&killed, &machine.store(), &it).unwrap_err();
        assert!(error.is_stop(), "{at}: {error}");
        write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
        assert_eq!(machine.read(LOADED), "0\n", "killed at write {at}");
    }
}

#[test]
fn after_a_refusal_no_kernel_stays_loaded_and_the_loader_boots_the_trial_once() {
    // The init system refuses to start the kernel, or the kernel refuses to load it.
    for init in [true, false] {
        for term in [ParameterTerm::Trial, ParameterTerm::Permanent] {
            let machine = make_kexec_machine();
            if init {
                machine.write("run/systemd/system/README", "");
            }
            let it = write_parameters(&machine, term);
            if !init {
                machine.remove(LOADED);
            }
            let error = kexec::start(&machine.host(), &machine.store(), &it).unwrap_err();
            let (_, hint) = split_error(&error);
            assert!(hint.starts_with("reboot instead"), "{hint}");
            assert!(!init || machine.read(LOADED) == "0\n");
            assert_eq!(read_journal(&machine.store()).unwrap().unwrap().loaded, None);
            let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
            assert!(found.entries[found.next.unwrap()].ours, "{}", found.why);
            let is_once = matches!(found.why, NextReason::ForOneBoot { .. });
            assert_eq!(is_once, term == ParameterTerm::Trial, "{}", found.why);
        }
    }
    // If the loader cannot boot the trial once either, the hint is to undo it.
    let machine = make_kexec_machine();
    let it = write_parameters(&machine, ParameterTerm::Trial);
    machine.remove(LOADED);
    let host = machine.probing("abstraction", "lvm");
    let (_, hint) = split_error(&kexec::start(&host, &machine.store(), &it).unwrap_err());
    assert!(hint.contains("cpushield boot undo") && hint.contains("lvm"), "{hint}");
}
