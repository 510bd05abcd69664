//! Loaders whose files have kernel command lines as text: the files are written, checked and
//! restored byte for byte. Also reads real files of other machines in place.

use super::{make_plan, words};
use crate::shared_data::shared_data;
use cpushield::boot::plan::BootRequest;
use cpushield::boot::write::{self, WriteMode};
use cpushield::boot::{BootError, BootWarning, FileFate, SettledAs, loaders, trial};
use cpushield::policy::ShieldRequest;
use cpushield_linux::{CommandOutput, Host};
use cpushield_simulator::Simulated;

use super::grub::Machine;

pub fn request_kernels(kernels: Option<&str>) -> BootRequest {
    // Some of these kernels have no configuration, so that their parameters are not known.
    let tunables = ["nohz-full", "rcu-nocbs"].map(|name| (name.to_owned(), true)).into();
    let cpus = Some("2-3".parse().unwrap());
    let wish = ShieldRequest { cpus, tunables, ..ShieldRequest::default() };
    BootRequest { shield: wish, kernels: kernels.map(str::to_owned), ..BootRequest::default() }
}

pub const ADDED: &str = "nohz_full=2-3 rcu_nocbs=2-3 irqaffinity=0-1 ";

/// The kernels whose command line a file has.
#[derive(PartialEq)]
enum FileCovers {
    /// Also those that are installed later.
    LaterKernels,
    /// Only those that are installed now.
    InstalledKernels,
}

/// Writes the words, compares every file with what it must contain, and undoes it.
fn round_trip(
    machine: &Machine,
    kernels: Option<&str>,
    (path, covers): (&str, FileCovers),
    wanted: &str,
) {
    let before = machine.files();
    let plan = make_plan(&machine.host(), &request_kernels(kernels)).unwrap();
    assert_eq!(plan.covers_later, covers == FileCovers::LaterKernels);
    assert!(words(&plan).join(" ") == ADDED.trim());
    write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    assert_eq!(machine.read(path), wanted);
    let changed = machine.files().iter().filter(|(path, it)| before.get(*path) != Some(it)).count();
    assert_eq!(changed, 1, "{path}");
    let undone = write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
    machine.assert_fates(&undone, &before);
    assert_eq!(before, machine.files());
    // Another program has added a word since: undo keeps it and removes ours.
    write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    machine.write(path, &wanted.replace("rcu_nocbs=2-3 ", "rcu_nocbs=2-3 theirs "));
    write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
    assert_eq!(machine.read(path), wanted.replace(ADDED, "theirs "));
}

#[test]
fn bls_entries_of_the_chosen_kernel_get_the_words() {
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
    round_trip(&machine, None, (&rt, FileCovers::InstalledKernels), &wanted);
    machine.write(&rt, "title x\noptions y\n");
    let error = make_plan(&machine.host(), &request_kernels(None)).unwrap_err();
    assert!(matches!(error, BootError::Unparsable { .. }), "{error}");
    assert!(error.to_string().contains("m-6.12.1-rt.conf") && error.to_string().contains("line 2"));
}

pub const EFI: &str = "sys/firmware/efi/efivars";
pub const VENDOR: &str = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

fn entry(version: &str, options: &str) -> String {
    format!(
        "title Debian ({version})\nsort-key debian\nversion {version}\nlinux /m/{version}/linux\noptions {options}\n"
    )
}

const CONFIG: &str = "CONFIG_PREEMPT_RT=y\nCONFIG_NO_HZ_FULL=y\nCONFIG_RCU_NOCB_CPU=y\n";

/// A machine with systemd-boot, `kernel-install`, an RT kernel and another kernel.
pub fn make_systemd_boot_machine() -> Machine {
    // GRUB is installed too, but did not start the machine.
    let machine = Machine::with(&[("6.9.1", false)]);
    machine.remove("boot/config-6.9.1");
    for (version, rt) in [("6.9.1", false), ("6.12.1-rt", true)] {
        let options = "root=UUID=ab ro";
        machine.write(&format!("boot/loader/entries/m-{version}.conf"), &entry(version, options));
        if rt {
            machine.write(&format!("boot/config-{version}"), CONFIG);
        }
    }
    machine.write("boot/loader/loader.conf", "timeout 1\ndefault m-6.9.*\n");
    machine.write(&format!("{EFI}/LoaderInfo-{VENDOR}"), &encode_efi_variable("systemd-boot 257"));
    machine.write("etc/kernel/install.d/README", "");
    machine.program("usr/bin/kernel-install");
    machine
}

/// An EFI variable: attributes, UTF-16, a zero.
pub fn encode_efi_variable(text: &str) -> String {
    let units = text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes);
    String::from_utf8([7, 0, 0, 0].into_iter().chain(units).collect()).unwrap()
}

pub fn simulate_bootctl(machine: &Machine) -> Host {
    machine.host().with_programs(|root, words, _| {
        let ["bootctl", "set-oneshot", id] = words else { return None };
        let path = root.join(EFI).join(format!("LoaderEntryOneShot-{VENDOR}"));
        match *id {
            "" => std::fs::remove_file(path).unwrap(),
            id => std::fs::write(path, encode_efi_variable(id)).unwrap(),
        }
        Some(CommandOutput { status: Some(0), ..CommandOutput::default() })
    })
}

#[test]
fn a_trial_with_systemd_boot_is_a_separate_entry_that_boots_once() {
    let machine = make_systemd_boot_machine();
    let before = machine.files();
    let plan = make_plan(&machine.host(), &request_kernels(None)).unwrap();
    assert_eq!(plan.next.clone().unwrap().to_string(), "Debian (6.9.1) (default of loader.conf)");
    assert_eq!(plan.loader.as_deref(), Some("bls"));
    let trial = WriteMode { term: write::ParameterTerm::Trial, ..WriteMode::default() };
    let (host, store) = (simulate_bootctl(&machine), machine.store());
    let written = write::write(&host, &store, &plan, &trial).unwrap();
    assert_eq!(
        written.next.unwrap().to_string(),
        "Debian (6.12.1-rt) (cpushield) (EFI variable LoaderEntryOneShot, for one boot)"
    );
    let own = machine.read("boot/loader/entries/a-cpushield-trial-6.12.1-rt.conf");
    assert!(
        own.contains(&format!("options {}", ADDED.trim())) && !own.contains("sort-key"),
        "{own}"
    );
    assert_eq!(
        machine.read("boot/loader/entries/m-6.12.1-rt.conf"),
        entry("6.12.1-rt", "root=UUID=ab ro")
    );
    // The trial hung: the loader has removed the variable, and the old entry booted.
    machine.remove(&format!("{EFI}/LoaderEntryOneShot-{VENDOR}"));
    machine.write("proc/sys/kernel/random/boot_id", "b2\n");
    let end = trial::conclude(&host, &store, &[]).unwrap();
    assert_eq!(end.end, SettledAs::TakenBack);
    machine.write("proc/sys/kernel/random/boot_id", "b1\n");
    assert_eq!(before, machine.files());
    // Another trial holds: the kernel's own entry gets the words.
    write::write(&host, &store, &plan, &trial).unwrap();
    machine.remove(&format!("{EFI}/LoaderEntryOneShot-{VENDOR}"));
    machine.write("proc/sys/kernel/random/boot_id", "b2\n");
    machine.write("proc/cmdline", &format!("{ADDED}root=UUID=ab ro panic=30\n"));
    machine.write("sys/devices/system/cpu/nohz_full", "2-3\n");
    assert_eq!(trial::conclude(&host, &store, &[]).unwrap().end, SettledAs::Permanent);
    let wanted = entry("6.12.1-rt", &format!("{ADDED}root=UUID=ab ro"));
    assert_eq!(machine.read("boot/loader/entries/m-6.12.1-rt.conf"), wanted);
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    assert!(found.entries.iter().all(|entry| !entry.ours));
    write::undo(&host, &store).unwrap().unwrap();
    let now = machine.files();
    let boot =
        |(path, _): &(&std::path::PathBuf, _)| path.to_string_lossy().contains("/root/boot/");
    assert!(before.iter().filter(boot).eq(now.iter().filter(boot)));
}

#[test]
fn without_efi_variables_no_trial_is_written() {
    let machine = make_systemd_boot_machine();
    machine.remove(&format!("{EFI}/LoaderInfo-{VENDOR}"));
    machine.write("boot/EFI/systemd/systemd-bootx64.efi", "");
    machine.write("proc/cmdline", "initrd=\\initrd.img-6.12.1-rt root=UUID=ab ro\n");
    let before = machine.files();
    let plan = make_plan(&machine.host(), &request_kernels(None)).unwrap();
    let trial = WriteMode { term: write::ParameterTerm::Trial, ..WriteMode::default() };
    let error =
        write::write(&simulate_bootctl(&machine), &machine.store(), &plan, &trial).unwrap_err();
    assert!(error.to_string().contains("efi=runtime"), "{error}");
    assert_eq!(before, machine.files());
}

#[test]
fn a_kernel_that_kernel_install_adds_later_has_the_words_until_undo() {
    let machine = make_systemd_boot_machine();
    let before = machine.files();
    let plan = make_plan(&machine.host(), &request_kernels(None)).unwrap();
    assert!(plan.covers_later);
    write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    let hook = "etc/kernel/install.d/95-cpushield.install";
    // As kernel-install does: an entry with the running kernel's command line, then the hooks.
    let install = |version: &str, image: &str| {
        let inherited = entry(version, &format!("{ADDED}root=UUID=ab ro"));
        machine.write(&format!("boot/loader/entries/m-{version}.conf"), &inherited);
        machine.write("tmp/image", image);
        let mut call = std::process::Command::new("sh");
        call.arg(machine.path(hook)).args(["add", version, "/x"]).arg(machine.path("tmp/image"));
        assert!(
            call.env("KERNEL_INSTALL_BOOT_ROOT", machine.path("boot")).status().unwrap().success()
        );
    };
    install("6.99.2-rt", "6.99.2-rt #1 SMP PREEMPT_RT x");
    install("6.99.3", "6.99.3 #1 SMP PREEMPT_DYNAMIC x");
    let bare = |version| entry(version, "root=UUID=ab ro");
    let read = |version| machine.read(&format!("boot/loader/entries/m-{version}.conf"));
    assert_eq!(read("6.99.2-rt"), entry("6.99.2-rt", &format!("{ADDED}root=UUID=ab ro")));
    assert_eq!(read("6.99.3"), bare("6.99.3"));
    let undone = write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
    assert_eq!(undone.files.last().unwrap().1, FileFate::WordsRemoved);
    assert_eq!(read("6.99.2-rt"), bare("6.99.2-rt"));
    for version in ["6.99.2-rt", "6.99.3"] {
        machine.remove(&format!("boot/loader/entries/m-{version}.conf"));
    }
    machine.remove("tmp/image");
    assert_eq!(before, machine.files());
}

#[test]
fn undo_keeps_the_journal_while_the_boot_file_system_is_not_mounted() {
    let machine = make_systemd_boot_machine();
    let before = machine.files();
    let plan = make_plan(&machine.host(), &request_kernels(None)).unwrap();
    write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    let (boot, elsewhere) = (machine.path("boot"), machine.path("elsewhere"));
    std::fs::rename(&boot, &elsewhere).unwrap();
    let error = write::undo(&machine.host(), &machine.store()).unwrap_err();
    assert!(error.to_string().contains("/boot/loader/entries does not exist"), "{error}");
    std::fs::rename(elsewhere, boot).unwrap();
    write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
    assert_eq!(before, machine.files());
}

/// On Arch the file names have no versions, and there are no configuration files.
#[test]
fn a_kernel_without_a_configuration_file_is_identified_by_its_image() {
    let machine = Machine::with(&[]);
    let image = |said: &str| {
        let mut bytes = vec![0; 0x4500];
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes[0x20e..0x210].copy_from_slice(&0x4300u16.to_le_bytes());
        bytes.extend(said.bytes().chain([0]));
        String::from_utf8(bytes).unwrap()
    };
    machine.write("boot/vmlinuz-linux", &image("6.17.4-arch1-1 (x) #1 SMP PREEMPT_DYNAMIC Wed"));
    machine.write("boot/vmlinuz-linux-rt", &image("6.12.5-rt5-1 (x) #1 SMP PREEMPT_RT Wed"));
    machine.update_grub();
    let before = machine.files();
    let plan = make_plan(&machine.host(), &request_kernels(None)).unwrap();
    let realtime: Vec<_> =
        plan.kernels.iter().map(|it| (it.version.as_str(), it.realtime)).collect();
    assert_eq!(realtime, [("linux-rt", Some(true)), ("linux", Some(false))]);
    write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    let ours: Vec<_> = found.entries.iter().filter(|it| it.ours).collect();
    assert_eq!((ours.len(), ours[0].version.as_str()), (1, "linux-rt"));
    assert!(ours[0].args.contains(ADDED.trim()), "{ours:?}");
    write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
    assert_eq!(before, machine.files());
}

/// RHEL 8 has the command line of all kernels in GRUB's environment block, and tuned adds to it.
#[test]
fn variables_of_grub_count_as_part_of_the_command_line() {
    let machine = Machine::without_loader();
    let version = "6.12.1-rt";
    let text = entry(version, "$kernelopts $tuned_params ${other}");
    machine.write(&format!("boot/loader/entries/m-{version}.conf"), &text);
    machine.write(&format!("boot/config-{version}"), CONFIG);
    machine.write(
        "boot/grub2/grub.cfg",
        "set tuned_params=\"isolcpus=nohz,1\"\nset kernelopts=\"x\"\nblscfg\n",
    );
    let block =
        format!("# GRUB Environment Block\nsaved_entry=m-{version}\nkernelopts=root=UUID=ab ro \n");
    machine.write("boot/grub2/grubenv", &format!("{block:#<1024}"));
    let (loader, found) = loaders::find(&machine.host()).unwrap().unwrap();
    assert_eq!((loader.name(), &*found.why.to_string()), ("bls", "saved_entry of grubenv"));
    assert_eq!(found.entries[0].args, "root=UUID=ab ro isolcpus=nohz,1 ${other}");
    let error = make_plan(&machine.host(), &request_kernels(None)).unwrap_err();
    assert!(matches!(error, BootError::Conflict { .. }), "{error}");
    // Words in the environment block count as already present.
    machine.write("boot/grub2/grub.cfg", "set tuned_params=\"\"\nblscfg\n");
    let block = block.replace("ro \n", &format!("ro {}\n", ADDED.trim()));
    machine.write("boot/grub2/grubenv", &format!("{block:#<1024}"));
    let plan = make_plan(&machine.host(), &request_kernels(None)).unwrap();
    assert!(plan.parameters.iter().all(|it| it.already), "{plan:#?}");
}

#[test]
fn extlinux_labels_and_the_raspberry_pi_line_get_the_words() {
    let machine = Machine::without_loader();
    let text = |args: &str| {
        format!(
            "default l0\nlabel l0\n\tlinux /vmlinuz-6.1.0-rt\n\tappend {args}ro quiet\nlabel l1\n\tlinux /vmlinuz-6.1.0\n\tappend ro\n"
        )
    };
    machine.write("boot/extlinux/extlinux.conf", &text(""));
    let file = ("boot/extlinux/extlinux.conf", FileCovers::InstalledKernels);
    round_trip(&machine, Some("*-rt"), file, &text(ADDED));
    let machine = Machine::without_loader();
    machine.write("boot/firmware/config.txt", "kernel=kernel8.img\n");
    machine.write("boot/firmware/cmdline.txt", "console=tty1 rootwait\n");
    let wanted = format!("{ADDED}console=tty1 rootwait\n");
    let file = ("boot/firmware/cmdline.txt", FileCovers::LaterKernels);
    round_trip(&machine, None, file, &wanted);
}

/// The default file of NVIDIA's Jetson Linux 36, shortened, with its commented label for a backup.
const JETSON: &str = "TIMEOUT 30
DEFAULT primary

MENU TITLE L4T boot options

LABEL primary
      MENU LABEL primary kernel
      LINUX /boot/Image
      INITRD /boot/initrd
      APPEND ${cbootargs} root=PARTUUID=ab rw rootwait

# LABEL backup
#    LINUX /boot/Image.backup
";

/// U-Boot loads any file with the name `Image`.
#[test]
fn a_kernel_without_a_version_in_its_name_is_identified_by_its_bytes() {
    let path = "boot/extlinux/extlinux.conf";
    let wanted = JETSON.replace("APPEND ", &format!("APPEND {ADDED}"));
    let said = "Linux version 5.15.148-rt-tegra (b@h) (gcc) #1 SMP PREEMPT_RT Tue Jan 7\n";
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1];
    let length = u16::try_from(said.len()).unwrap();
    packed.extend(length.to_le_bytes().into_iter().chain((!length).to_le_bytes()));
    packed.extend(said.bytes());
    for bytes in [said.as_bytes(), &packed] {
        let machine = Machine::without_loader();
        machine.write(path, JETSON);
        std::fs::write(machine.path("boot/Image"), bytes).unwrap();
        let plan = make_plan(&machine.host(), &request_kernels(None)).unwrap();
        let kernel = &plan.kernels[0];
        assert_eq!((kernel.version.as_str(), kernel.realtime), ("5.15.148-rt-tegra", Some(true)));
        round_trip(&machine, None, (path, FileCovers::InstalledKernels), &wanted);
    }
}

#[test]
fn a_kernel_of_unknown_version_is_the_only_installed_one_or_gets_manual_steps() {
    let path = "boot/extlinux/extlinux.conf";
    let machine = Machine::without_loader();
    machine.write(path, JETSON);
    machine.write("boot/Image", "MZ");
    machine.write("lib/modules/5.15.148-tegra/modules.dep", "");
    let plan = make_plan(&machine.host(), &request_kernels(None)).unwrap();
    assert_eq!(plan.kernels[0].version, "5.15.148-tegra");
    round_trip(
        &machine,
        None,
        (path, FileCovers::InstalledKernels),
        &JETSON.replace("APPEND ", &format!("APPEND {ADDED}")),
    );
    // With two installed kernels the version is unknown.
    machine.write(path, JETSON);
    machine.write("lib/modules/5.15.148-other/modules.dep", "");
    let plan = make_plan(&machine.host(), &request_kernels(None)).unwrap();
    let steps = plan.instructions.join("\n");
    let line = "line 10, for /boot/Image: append nohz_full=2-3 rcu_nocbs=2-3 irqaffinity=0-1 ${cbootargs} root=PARTUUID=ab rw rootwait";
    assert!(steps.contains(line), "{steps}");
    let error =
        write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap_err();
    assert!(matches!(error, BootError::ByHand { .. }), "{error}");
    // Next to a known kernel it is left alone, with a warning.
    let both = format!("{JETSON}LABEL mine\n  LINUX /boot/vmlinuz-6.1-rt\n  APPEND ro\n");
    machine.write(path, &both);
    let plan = make_plan(&machine.host(), &request_kernels(None)).unwrap();
    assert_eq!(plan.kernels.len(), 1);
    let left = BootWarning::VersionUnknown {
        place: "/boot/extlinux/extlinux.conf:10".to_owned(),
        kernel: "/boot/Image".to_owned(),
    };
    assert!(plan.warnings.contains(&left), "{:?}", plan.warnings);
    round_trip(
        &machine,
        None,
        (path, FileCovers::InstalledKernels),
        &both.replace("APPEND ro", &format!("APPEND {ADDED}ro")),
    );
}

#[test]
fn with_other_loaders_nothing_is_written_and_manual_steps_are_shown() {
    for (sign, wanted) in [
        ("usr/bin/bootc", "kargs = [\"nohz_full=2-3\", "),
        ("run/ostree-booted", "rpm-ostree kargs --append-if-missing=nohz_full=2-3"),
        ("etc/kernel/proxmox-boot-uuids", "proxmox-boot-tool refresh"),
        ("boot/efi/EFI/Linux/x.efi", "    root=UUID=ab ro quiet nohz_full=2-3 rcu_nocbs=2-3"),
        ("boot/grub/menu.lst", "menu.lst:3: kernel /vmlinuz-5.4-rtai nohz_full=2-3"),
        ("etc/nothing", "cpushield boot plan"),
    ] {
        let machine = Machine::without_loader();
        machine.write(
            sign,
            "title RT\nroot (hd0,0)\nkernel /vmlinuz-5.4-rtai ro\nkernel /vmlinuz-5.4 ro\n",
        );
        if sign.ends_with("bootc") {
            machine.write("run/ostree-booted", "");
        }
        let before = machine.files();
        let plan = make_plan(&machine.host(), &request_kernels(None)).unwrap();
        let said = plan.instructions.join("\n");
        assert!(said.contains(wanted), "{said}");
        assert!(!said.contains("kernel /vmlinuz-5.4 ro"), "{said}");
        let error = write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default())
            .unwrap_err();
        assert!(matches!(error, BootError::ByHand { .. }), "{error}");
        assert_eq!(before, machine.files());
    }
}

/// Finds the recorded loader files of other machines.
pub fn find_boot_data() -> Option<std::path::PathBuf> {
    shared_data("boot")
}

/// Files of real machines, and those of grubby's tests.
#[test]
fn real_boot_files_are_parsed_and_restored_byte_for_byte() {
    let Some(dir) = find_boot_data() else { return };
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    for name in ["extlinux.1", "extlinux.3", "extlinux.5"] {
        let machine = Machine::without_loader();
        let path = "boot/extlinux/extlinux.conf";
        machine.write(path, &read(&format!("grubby/{name}")));
        let before = machine.files();
        let plan = make_plan(&machine.host(), &request_kernels(Some("*"))).unwrap();
        let added = format!("{} ", words(&plan).join(" "));
        write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
        let (old, new) = (read(&format!("grubby/{name}")), machine.read(path));
        assert_eq!(new.replace(&added, ""), old, "{name}");
        assert_eq!(new.matches(&added).count(), plan.kernels.len(), "{name}");
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
