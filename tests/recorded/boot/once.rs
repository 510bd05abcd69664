//! Trials and separate entries with EXTLINUX, U-Boot and a Raspberry Pi. Where the loader can boot
//! an entry once, it does. Where it cannot, the trial is refused and nothing is left behind.

use super::grub::Machine;
use super::{make_plan, request_cpus};
use crate::not_run::not_run;
use cpushield::boot::plan::BootRequest;
use cpushield::boot::write::{self, WriteMode};
use cpushield::boot::{BootError, SettledAs, WrittenParameters, loaders, status, trial};
use cpushield::report::blocks::{terminal_blocks, unpainted};
use cpushield::report::boot_written_blocks;
use cpushield_linux::{CommandOutput, Host};
use cpushield_simulator::{InjectedFault, Simulated};
use std::process::Command;

const FILE: &str = "boot/extlinux/extlinux.conf";
const ADDED: &str = "nohz_full=2-3 rcu_nocbs=2-3 irqaffinity=0-1";
const LABELS: &str = "\
default l1
timeout 50
label l0
\tmenu label Debian 6.1.0-rt
\tlinux /vmlinuz-6.1.0-rt
\tinitrd /initrd.img-6.1.0-rt
\tfdtdir /dtb-6.1.0-rt/
\tmenu default
\tappend root=/dev/sda1 ro quiet
label l1
\tlinux /vmlinuz-6.1.0
\tappend root=/dev/sda1 ro
label l1r
\tlinux /vmlinuz-6.1.0
\tappend root=/dev/sda1 ro single";

fn make_trial_mode() -> WriteMode {
    WriteMode { term: write::ParameterTerm::Trial, ..WriteMode::default() }
}

fn request_rt_kernels() -> BootRequest {
    BootRequest { kernels: Some("*-rt".to_owned()), ..request_cpus("2-3") }
}

fn make_u_boot_machine() -> Machine {
    let machine = Machine::without_loader();
    machine.write(FILE, LABELS);
    machine
}

pub fn make_extlinux_machine() -> Machine {
    let machine = make_u_boot_machine();
    machine.program("usr/bin/extlinux");
    std::fs::write(machine.path("boot/extlinux/ldlinux.sys"), make_vector("")).unwrap();
    machine
}

/// Simulates EXTLINUX's program, which saves the label that boots once.
pub fn simulate_extlinux(machine: &Machine) -> Host {
    machine.host().with_programs(|root, words, _| {
        let path = root.join("boot/extlinux/ldlinux.sys");
        match words {
            ["extlinux", "--clear-once", "/boot/extlinux"] => {
                std::fs::write(path, make_vector("")).unwrap();
            }
            ["extlinux", once, "/boot/extlinux"] => {
                std::fs::write(path, make_vector(once.strip_prefix("--once=").unwrap())).unwrap();
            }
            _ => return None,
        }
        Some(CommandOutput { status: Some(0), ..CommandOutput::default() })
    })
}

fn make_extlinux_pair() -> (Machine, Host) {
    let machine = make_extlinux_machine();
    let host = simulate_extlinux(&machine);
    (machine, host)
}

/// `ldlinux.sys`, of which only the two copies of the vector at the end matter.
fn make_vector(once: &str) -> Vec<u8> {
    let mut data = vec![0_u8; 500];
    if !once.is_empty() {
        data[0] = 1;
        data[1] = u8::try_from(once.len()).unwrap();
        data[2..2 + once.len()].copy_from_slice(once.as_bytes());
    }
    let word = |word: &[u8]| u32::from_le_bytes(word.try_into().unwrap());
    let sum = data.chunks(4).fold(0_u32, |sum, it| sum.wrapping_add(word(it)));
    let sum = 0xa304_1767_u32.wrapping_sub(sum).to_le_bytes();
    let copy =
        [&0x5a2d_2fa5_u32.to_le_bytes()[..], &sum, &data, &0xdd28_bf64_u32.to_le_bytes()].concat();
    [vec![9; 77], copy.clone(), copy].concat()
}

fn find_our_entries(machine: &Machine) -> Vec<loaders::LoaderEntry> {
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    found.entries.into_iter().filter(|entry| entry.ours).collect()
}

fn arm_trial(machine: &Machine, host: &Host, asked: &BootRequest) -> WrittenParameters {
    let plan = make_plan(&machine.host(), asked).unwrap();
    write::write(host, &machine.store(), &plan, &make_trial_mode()).unwrap()
}

#[test]
fn the_label_that_boots_next_is_reported_and_gets_the_words() {
    let machine = make_u_boot_machine();
    machine.write("boot/config-6.1.0-rt", "CONFIG_PREEMPT=y\n");
    let plan = make_plan(&machine.host(), &request_cpus("2-3")).unwrap();
    assert_eq!(plan.next.unwrap().to_string(), "l1 (default of extlinux.conf)");
    let chosen: Vec<_> = plan.kernels.iter().filter(|it| it.chosen).map(|it| &it.version).collect();
    assert_eq!(chosen, ["6.1.0"]);
    let next = |text: &str| {
        machine.write(FILE, text);
        let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
        (found.next, found.why.to_string(), found.warnings.len())
    };
    let menu = LABELS.replace("default l1", "DEFAULT menu.c32");
    assert_eq!(next(&menu), (Some(0), "menu default of extlinux.conf".to_owned(), 1));
    let none = LABELS.replace("default l1", "").replace("\tmenu default", "");
    assert_eq!(next(&none), (Some(0), "it is the first label".to_owned(), 1));
    let lost = LABELS.replace("default l1", "default gone");
    assert_eq!(next(&lost), (None, "default of extlinux.conf".to_owned(), 2));
}

#[test]
fn our_labels_keep_the_default_and_are_removed_byte_for_byte() {
    let machine = make_u_boot_machine();
    let before = machine.files();
    let plan = make_plan(&machine.host(), &request_rt_kernels()).unwrap();
    let how = WriteMode { default_entry: write::DefaultEntry::Kept, ..WriteMode::default() };
    let written = write::write(&machine.host(), &machine.store(), &plan, &how).unwrap();
    assert!(!written.next_has && written.next.as_ref().unwrap().title == "l1");
    let text = machine.read(FILE);
    assert!(text.starts_with(LABELS));
    let own = "label cpushield-l0\n\tmenu label l0 (cpushield)\n\tlinux /vmlinuz-6.1.0-rt\n\tinitrd \
               /initrd.img-6.1.0-rt\n\tfdtdir /dtb-6.1.0-rt/\n\tappend nohz_full=2-3 rcu_nocbs=2-3 \
               irqaffinity=0-1 root=/dev/sda1 ro quiet\n";
    assert!(text.contains(own), "{text}");
    let said = terminal_blocks(&boot_written_blocks(&written), usize::MAX, &unpainted);
    assert!(said.contains("always: `default cpushield-l0` in /boot/extlinux/"), "{said}");
    assert!(said.contains("The entries without the parameters stay"), "{said}");
    let status = status::status(&machine.host(), &machine.store()).unwrap();
    assert_eq!(status.kernels, ["6.1.0-rt"]);
    write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
    assert_eq!(before, machine.files());
    // Another program has written since: undo keeps its text and removes our labels.
    write::write(&machine.host(), &machine.store(), &plan, &how).unwrap();
    machine.write(FILE, &machine.read(FILE).replace("timeout 50", "timeout 9"));
    write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
    assert_eq!(machine.read(FILE), LABELS.replace("timeout 50", "timeout 9") + "\n");
}

#[test]
fn extlinux_boots_a_label_once_and_a_trial_that_holds_becomes_permanent() {
    let (machine, host) = make_extlinux_pair();
    let before = machine.files();
    let written = arm_trial(&machine, &host, &request_rt_kernels());
    let next = written.next.unwrap().to_string();
    assert_eq!(next, "cpushield-trial-l0 (boot-once of ldlinux.sys, for one boot)");
    assert!(written.next_has && find_our_entries(&machine)[0].args.contains("panic=30"));
    write::undo(&host, &machine.store()).unwrap().unwrap();
    assert_eq!(before, machine.files());
    // The trial hung: the loader had cleared the label before it booted, so the default booted.
    arm_trial(&machine, &host, &request_rt_kernels());
    std::fs::write(machine.path("boot/extlinux/ldlinux.sys"), make_vector("")).unwrap();
    machine.write("proc/sys/kernel/random/boot_id", "b2\n");
    let end = trial::conclude(&host, &machine.store(), &[]).unwrap();
    assert_eq!(end.end, SettledAs::TakenBack);
    machine.write("proc/sys/kernel/random/boot_id", "b1\n");
    assert_eq!(before, machine.files());
    // Another trial holds.
    arm_trial(&machine, &host, &request_rt_kernels());
    std::fs::write(machine.path("boot/extlinux/ldlinux.sys"), make_vector("")).unwrap();
    boot(&machine);
    assert_eq!(trial::conclude(&host, &machine.store(), &[]).unwrap().end, SettledAs::Permanent);
    assert_eq!(machine.read(FILE), LABELS.replacen("append ", &format!("append {ADDED} "), 1));
    write::undo(&host, &machine.store()).unwrap().unwrap();
    assert_eq!(machine.read(FILE), LABELS);
}

/// The trial's entry boots, and all its parameters are in force.
fn boot(machine: &Machine) {
    machine.write("proc/sys/kernel/random/boot_id", "b2\n");
    machine.write("proc/cmdline", &format!("{ADDED} panic=30 ro\n"));
    machine.write("sys/devices/system/cpu/nohz_full", "2-3\n");
}

#[test]
fn the_label_that_the_real_extlinux_boots_once_is_read() {
    let dir = std::env::temp_dir().join(format!("cpushield-adv-{}", std::process::id()));
    std::fs::create_dir_all(dir.join("mnt")).unwrap();
    // extlinux writes only to a directory of a file system that is mounted from a device.
    let script = "set -e; cd \"$1\"; truncate -s 8M disk; mke2fs -q -F -t ext2 disk
        mount -o loop disk mnt; trap 'umount mnt' EXIT
        extlinux --install mnt >/dev/null 2>&1; extlinux --once=cpushield-l0 mnt 2>/dev/null
        cat mnt/ldlinux.sys >set; extlinux --clear-once mnt 2>/dev/null; cat mnt/ldlinux.sys >clear";
    let done =
        Command::new("unshare").args(["--mount", "sh", "-c", script, "sh"]).arg(&dir).output();
    let done = done.unwrap();
    if done.status.success() {
        for (file, wanted) in [("set", Some("cpushield-l0")), ("clear", Some("l1"))] {
            let (machine, _) = make_extlinux_pair();
            std::fs::copy(dir.join(file), machine.path("boot/extlinux/ldlinux.sys")).unwrap();
            machine.write(
                FILE,
                &format!("{LABELS}\nlabel cpushield-l0\nlinux /vmlinuz-1\nappend x\n"),
            );
            let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
            let next = found.next.and_then(|index| found.entries[index].id.as_deref());
            assert_eq!(next, wanted, "{file}");
        }
    } else {
        let why = String::from_utf8_lossy(&done.stderr).into_owned();
        not_run(&format!("the real extlinux (package extlinux, as root): {why}"));
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn with_u_boot_only_kexec_can_start_a_trial() {
    let machine = make_u_boot_machine();
    let before = machine.files();
    let plan = make_plan(&machine.host(), &request_rt_kernels()).unwrap();
    let (host, store) = (machine.host(), machine.store());
    let error = write::write(&host, &store, &plan, &make_trial_mode()).unwrap_err();
    assert!(matches!(error, BootError::Failed { undone: None, .. }), "{error}");
    assert!(error.to_string().contains("U-Boot always boots the label of `default`"), "{error}");
    assert_eq!(before, machine.files());
    // The running kernel starts the label, and a reset boots the default.
    let how = WriteMode { start: write::EntryStart::Kexec, ..make_trial_mode() };
    let written = write::write(&host, &store, &plan, &how).unwrap();
    assert_eq!(written.trial.unwrap().entry, "cpushield-trial-l0");
    boot(&machine);
    assert_eq!(trial::conclude(&host, &store, &[]).unwrap().end, SettledAs::Permanent);
    assert!(find_our_entries(&machine).is_empty());
}

const CONFIG: &str = "arm_64bit=1\n[pi4]\ndtoverlay=x\n[all]\nkernel=kernel8.img";
const LINE: &str = "console=tty1 root=PARTUUID=1 rootwait\n";

/// A Raspberry Pi whose firmware and kernel support tryboot.
pub fn make_raspberry_pi() -> Machine {
    let machine = Machine::without_loader();
    machine.write("boot/firmware/config.txt", CONFIG);
    machine.write("boot/firmware/cmdline.txt", LINE);
    machine.write("proc/device-tree/chosen/bootloader/tryboot", "\0\0\0\0");
    machine.write("proc/kallsyms", "0000000000000000 t rpi_firmware_notify_reboot\n");
    machine.write("run/systemd/system/.keep", "");
    machine
}

#[test]
fn a_raspberry_pi_boots_a_trial_only_when_the_reboot_requests_it() {
    let machine = make_raspberry_pi();
    let before = machine.files();
    let (host, store) = (machine.host(), machine.store());
    let written = arm_trial(&machine, &host, &request_cpus("2-3"));
    assert!(!written.next_has);
    let said = terminal_blocks(&boot_written_blocks(&written), usize::MAX, &unpainted);
    assert!(said.contains("Next: reboot '0 tryboot', then"), "{said}");
    assert_eq!(
        machine.read("boot/firmware/tryboot.txt"),
        format!(
            "# Made by cpushield; `cpushield boot undo` removes it.\n{CONFIG}\n\n[all]\n\
             cmdline=cpushield-cmdline.txt\n"
        )
    );
    let wanted = format!("{ADDED} panic=30 {LINE}");
    assert_eq!(machine.read("boot/firmware/cpushield-cmdline.txt"), wanted);
    assert_eq!(machine.read("boot/firmware/cmdline.txt"), LINE);
    // The reboot did not request the trial.
    machine.write("proc/sys/kernel/random/boot_id", "b2\n");
    assert_eq!(trial::conclude(&host, &store, &[]).unwrap().end, SettledAs::TakenBack);
    machine.write("proc/sys/kernel/random/boot_id", "b1\n");
    assert_eq!(before, machine.files());
    arm_trial(&machine, &host, &request_cpus("2-3"));
    boot(&machine);
    assert_eq!(trial::conclude(&host, &store, &[]).unwrap().end, SettledAs::Permanent);
    assert_eq!(machine.read("boot/firmware/cmdline.txt"), format!("{ADDED} {LINE}"));
    assert!(
        find_our_entries(&machine).is_empty()
            && !machine.path("boot/firmware/tryboot.txt").exists()
    );
    write::undo(&host, &store).unwrap().unwrap();
    assert_eq!(machine.read("boot/firmware/cmdline.txt"), LINE);
    // A permanent entry that is not the default.
    machine.write("proc/sys/kernel/random/boot_id", "b1\n");
    let plan = make_plan(&host, &request_cpus("3")).unwrap();
    let how = WriteMode { default_entry: write::DefaultEntry::Kept, ..WriteMode::default() };
    let said = boot_written_blocks(&write::write(&host, &store, &plan, &how).unwrap());
    let said = terminal_blocks(&said, usize::MAX, &unpainted);
    assert!(said.contains("  once: reboot '0 tryboot'\n"), "{said}");
    write::undo(&host, &store).unwrap().unwrap();
}

/// A machine, the simulation of its programs, and a request.
type Kind = (fn() -> Machine, fn(&Machine) -> Host, fn() -> BootRequest);

#[test]
fn a_trial_killed_at_any_write_is_undone_or_concluded_by_the_next_call() {
    let kinds: [Kind; 2] = [
        (make_extlinux_machine, simulate_extlinux, request_rt_kernels),
        (make_raspberry_pi, Machine::host, || request_cpus("2-3")),
    ];
    for (make, host, asked) in kinds {
        let machine = make();
        let whole = host(&machine);
        arm_trial(&machine, &whole, &asked());
        let arming = whole.writes();
        boot(&machine);
        assert_eq!(
            trial::conclude(&whole, &machine.store(), &[]).unwrap().end,
            SettledAs::Permanent
        );
        let settling = whole.writes() - arming;
        assert!(arming >= 2 && settling >= 1, "{arming} {settling}");
        for at in 0..arming {
            let machine = make();
            let before = machine.files();
            let plan = make_plan(&machine.host(), &asked()).unwrap();
            let killed = host(&machine).failing(InjectedFault::Stop { at });
            write::write(&killed, &machine.store(), &plan, &make_trial_mode()).unwrap_err();
            write::undo(&host(&machine), &machine.store()).unwrap().unwrap();
            assert_eq!(before, machine.files(), "killed at write {at}");
        }
        for at in 0..settling {
            let machine = make();
            arm_trial(&machine, &host(&machine), &asked());
            boot(&machine);
            let killed = host(&machine).failing(InjectedFault::Stop { at });
            trial::conclude(&killed, &machine.store(), &[]).unwrap_err();
            match trial::conclude(&host(&machine), &machine.store(), &[]) {
                Ok(end) => assert_eq!(end.end, SettledAs::Permanent, "killed at write {at}"),
                Err(BootError::NoTrial) => {}
                Err(error) => panic!("killed at write {at}: {error}"),
            }
            assert!(find_our_entries(&machine).is_empty(), "killed at write {at}");
            write::undo(&host(&machine), &machine.store()).unwrap().unwrap();
            assert_eq!(read_boot_files(&make()), read_boot_files(&machine), "killed at write {at}");
        }
    }
}

/// The files below `/boot` with their bytes.
fn read_boot_files(machine: &Machine) -> Vec<(String, Vec<u8>)> {
    let base = machine.path("boot");
    let files = machine.files().into_iter().filter_map(|(path, (_, bytes))| {
        Some((path.strip_prefix(&base).ok()?.display().to_string(), bytes))
    });
    files.collect()
}

/// Raspberry Pi's own kernels have no configuration file except `/proc/config.gz`.
#[test]
fn the_configuration_in_the_running_kernel_counts() {
    let machine = make_raspberry_pi();
    machine.write("proc/config.gz", "# CONFIG_NO_HZ_FULL is not set\nCONFIG_RCU_NOCB_CPU=y\n");
    let plan = make_plan(&machine.host(), &request_cpus("2-3")).unwrap();
    let skipped = plan.skipped.iter().find(|it| it.name == "nohz-full").unwrap();
    assert_eq!(skipped.reason.to_string(), "built without CONFIG_NO_HZ_FULL");
    assert_eq!(plan.kernels[0].realtime, Some(false));
}

#[test]
fn a_raspberry_pi_without_tryboot_support_writes_no_trial() {
    let refuse_without = |breaks: &dyn Fn(&Machine)| {
        let machine = make_raspberry_pi();
        breaks(&machine);
        let before = machine.files();
        let plan = make_plan(&machine.host(), &request_cpus("2-3")).unwrap();
        let error =
            write::write(&machine.host(), &machine.store(), &plan, &make_trial_mode()).unwrap_err();
        assert_eq!(before, machine.files(), "{error}");
        error.to_string()
    };
    let config = |text: &'static str| {
        move |machine: &Machine| machine.write("boot/firmware/config.txt", text)
    };
    assert!(
        refuse_without(&config("[tryboot]\nkernel=b\n")).contains("section [tryboot] on line 1")
    );
    let autoboot = |machine: &Machine| {
        machine.write("boot/firmware/autoboot.txt", "[all]\ntryboot_a_b = 1\nboot_partition=2\n");
    };
    assert!(refuse_without(&autoboot).contains("tryboot_a_b=1 in /boot/firmware/autoboot.txt"));
    assert!(
        refuse_without(&|it| it.remove("proc/device-tree/chosen/bootloader/tryboot"))
            .contains("firmware")
    );
    assert!(
        refuse_without(&|it| it.write("proc/kallsyms", "0 t x\n"))
            .contains("running kernel does not pass the reboot argument")
    );
    let theirs = |machine: &Machine| machine.write("boot/firmware/tryboot.txt", "kernel=b\n");
    assert!(refuse_without(&theirs).contains("tryboot.txt exists and was not made by cpushield"));
}

#[test]
fn the_command_line_file_that_the_firmware_reads_is_written() {
    let machine = make_raspberry_pi();
    machine.write("boot/firmware/config.txt", "os_prefix=current/\ncmdline=line.txt\n");
    machine.write("boot/firmware/current/line.txt", LINE);
    let plan = make_plan(&machine.host(), &request_cpus("2-3")).unwrap();
    write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    assert_eq!(machine.read("boot/firmware/cmdline.txt"), LINE);
    assert_eq!(machine.read("boot/firmware/current/line.txt"), format!("{ADDED} {LINE}"));
    machine.write("boot/firmware/config.txt", "kernel=a\n[pi4]\ncmdline=line.txt\n");
    let error = make_plan(&machine.host(), &request_cpus("2-3")).unwrap_err().to_string();
    assert!(error.contains("/boot/firmware/config.txt") && error.contains("line 3: "), "{error}");
}
