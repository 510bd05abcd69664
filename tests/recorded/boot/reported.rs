//! Machines of public reports, read in place: what `boot plan` and `boot status` say of them.

use super::grub::Machine;
use super::{make_plan, request_cpus, words};
use crate::recordings;
use cpushield::boot::plan::BootRequest;
use cpushield::boot::write::{self, WriteMode};
use cpushield::boot::{BootDifference, loaders, status};

/// The kernels of the menu, each with its release, and whether it gets the words.
type Kernels<'a> = &'a [(&'a str, Option<&'a str>, bool)];

#[test]
fn a_kernel_is_its_release_whatever_its_file_is_called() {
    let Some(data) = recordings::data() else { return };
    let rows: &[(&str, &str, Kernels<'_>, &str)] = &[
        (
            "kernel-file-names-without-version",
            "1-7",
            &[
                ("linux-rt", Some("6.12.48-rt12-1-rt"), true),
                ("linux", Some("6.17.1-arch1-1"), false),
            ],
            "nohz_full=1-7 rcu_nocbs=1-7 irqaffinity=0",
        ),
        (
            "arch-grub-vmlinuz-linux-rt",
            "6-7",
            &[("linux-rt", Some("6.12.117+deb12-rt-amd64"), true)],
            "nohz_full=6-7 rcu_nocbs=6-7 irqaffinity=0-5,8-19",
        ),
        (
            "arch-sdboot-vmlinuz-linux-rt",
            "6-7",
            &[
                ("linux-rt", Some("6.12.117+deb12-rt-amd64"), true),
                ("linux", Some("6.12.117+deb12-amd64"), false),
            ],
            "nohz_full=6-7 rcu_nocbs=6-7 irqaffinity=0-5,8-19",
        ),
        (
            "arch-visionfive2-extlinux",
            "4-7",
            &[("linux-starfive-visionfive2", Some("5.15.0-starfive"), true)],
            "nohz_full=4-7 rcu_nocbs=4-7 irqaffinity=0-3",
        ),
        // The kernel of `kernel=`, which this copy lacks, and not the one that runs.
        ("boot-rpi-nonl", "1", &[("rt", None, true)], "irqaffinity=0,2-3"),
    ];
    for (name, cpus, kernels, wanted) in rows {
        let machine = Machine::copied(&recordings::reported(&data, name));
        let plan = make_plan(&machine.host(), &request_cpus(cpus)).unwrap();
        let found: Vec<_> = plan
            .kernels
            .iter()
            .map(|it| (it.version.as_str(), it.release.as_deref(), it.chosen))
            .collect();
        assert_eq!(
            (found.as_slice(), words(&plan).join(" ").as_str()),
            (*kernels, *wanted),
            "{name}"
        );
    }
}

/// The file of a kernel, the running command line, other files with their text, and the release.
type ReleaseRow<'a> = (&'a str, &'a str, &'a [(String, &'a str)], Option<&'a str>);

/// What shows the release of a kernel, where its file has none to read.
#[test]
fn the_release_comes_from_what_shows_it_and_is_unknown_without() {
    const RUNS: &str = "6.12.9-rt-amd64";
    let modules = |release: &str| format!("usr/lib/modules/{release}/modules.dep");
    let rows: &[ReleaseRow<'_>] = &[
        // Arch: the package of the name; two of them are not certain.
        (
            "vmlinuz-linux-lts",
            "",
            &[("usr/lib/modules/6.6.1-1-lts/pkgbase".to_owned(), "linux-lts\n")],
            Some("6.6.1-1-lts"),
        ),
        (
            "vmlinuz-linux",
            "BOOT_IMAGE=/vmlinuz-linux",
            &[
                ("usr/lib/modules/6.9.1-arch1-1/pkgbase".to_owned(), "linux\n"),
                ("usr/lib/modules/6.9.2-arch1-1/pkgbase".to_owned(), "linux\n"),
            ],
            Some(RUNS),
        ),
        // Alpine: a file of the package, or else the directory of the modules.
        (
            "vmlinuz-lts",
            "",
            &[("usr/share/kernel/lts/kernel.release".to_owned(), "6.6.31-0-lts\n")],
            Some("6.6.31-0-lts"),
        ),
        (
            "vmlinuz-virt",
            "",
            &[(modules("6.6.31-0-virt"), ""), (modules("6.6.31-0-lts"), "")],
            Some("6.6.31-0-virt"),
        ),
        (
            "kernel-genkernel-x86_64-6.1.12-gentoo",
            "",
            &[(modules("6.1.12-gentoo"), ""), (modules("6.1.11-gentoo"), "")],
            Some("6.1.12-gentoo"),
        ),
        // The running one, by what its loader wrote.
        ("vmlinuz-linux-zen", "BOOT_IMAGE=(hd0,gpt2)/vmlinuz-linux-zen quiet", &[], Some(RUNS)),
        ("vmlinuz-custom", "initrd=\\ucode.img initrd=\\EFI\\r.img quiet", &[], Some(RUNS)),
        ("vmlinuz-custom", "initrd=\\other.img", &[], None),
        ("vmlinuz-linux-zen", "BOOT_IMAGE=/vmlinuz-linux", &[(modules("6.9.1"), "")], None),
        ("vmlinuz-6.1.0-9-amd64", "", &[], Some("6.1.0-9-amd64")),
        // Manjaro names the series and the architecture.
        ("vmlinuz-6.6-x86_64", "BOOT_IMAGE=/boot/vmlinuz-6.6-x86_64", &[], Some(RUNS)),
    ];
    for (file, cmdline, facts, release) in rows {
        let machine = Machine::without_loader();
        machine.write("proc/cmdline", &format!("{cmdline}\n"));
        for (path, text) in *facts {
            machine.write(path, text);
        }
        let label = format!("label a\n  linux /{file}\n  initrd /r.img\n  append ro\n");
        machine.write("boot/extlinux/extlinux.conf", &label);
        let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
        let [entry] = &found.entries[..] else { panic!("{file}: {found:?}") };
        assert_eq!(entry.release.as_deref(), *release, "{file} {cmdline}");
    }
}

/// The running kernel is known by its release, and its entry by the name of its file.
#[test]
fn a_kernel_named_after_its_package_is_chosen_by_its_release_and_known_when_it_runs() {
    let machine = Machine::with(&[("linux", false), ("linux-rt", true)]);
    machine.write("proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz-linux-rt root=UUID=ab ro quiet\n");
    machine.update_grub();
    let before = machine.files();
    for kernels in ["6.12.9-rt-amd64", "6.12.9-*", "linux-rt", "linux-*"] {
        let request = BootRequest { kernels: Some(kernels.to_owned()), ..request_cpus("2-3") };
        let plan = make_plan(&machine.host(), &request).unwrap();
        let (host, store) = (machine.host(), machine.store());
        write::write(&host, &store, &plan, &WriteMode::default()).unwrap();
        let status = status::status(&machine.host(), &store).unwrap();
        assert_eq!(status.kernels, ["linux-rt"], "{kernels}");
        let [differs] = &status.differs[..] else { panic!("{:?}", status.differs) };
        assert!(matches!(differs, BootDifference::EntryNotBooted { .. }), "{differs}");
        // An update of the package keeps the name.
        machine.update_grub();
        let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
        let ours: Vec<_> = found.entries.iter().filter(|it| it.ours).collect();
        assert_eq!(ours.iter().map(|it| it.version.as_str()).collect::<Vec<_>>(), ["linux-rt"]);
        write::undo(&machine.host(), &store).unwrap();
        assert_eq!(machine.files(), before, "{kernels}");
    }
}

/// What `boot status` says of the words in files, and `boot plan` of the steps by hand.
fn words_and_steps() -> Vec<(&'static str, &'static str, String)> {
    let made = |file: &str, variable: &str, command: &str| {
        format!("in {file}, add to {variable}: nohz_full=1\n{command}\n")
    };
    vec![
        (
            "grub-dropin-replaces-the-variable",
            "/etc/default/grub:3: GRUB_CMDLINE_LINUX_DEFAULT has isolcpus=4-7 nohz_full=4-7; not \
             set: /etc/default/grub.d/hetzner.cfg:2 replaces GRUB_CMDLINE_LINUX_DEFAULT; to keep \
             it, append it to GRUB_CMDLINE_LINUX_DEFAULT there or in a later file",
            String::new(),
        ),
        (
            "grub-cfg-not-regenerated",
            "/etc/default/grub:2: GRUB_CMDLINE_LINUX_DEFAULT has isolcpus=2,3 nohz_full=2,3 \
             rcu_nocbs=2,3; not in the boot entries, so not in the next boot: run `grub-mkconfig \
             -o /boot/grub/grub.cfg`; if the entries stay without it, they are not made from this \
             file",
            String::new(),
        ),
        (
            "proxmox-parameters-in-the-wrong-file",
            "/etc/default/grub:1: GRUB_CMDLINE_LINUX_DEFAULT has isolcpus=8-15 nohz_full=8-15 \
             rcu_nocbs=8-15; not set: this machine has proxmox-boot-tool with systemd-boot, which \
             does not read that file",
            "add to the line in /etc/kernel/cmdline: nohz_full=1\nproxmox-boot-tool refresh\n"
                .to_owned(),
        ),
        (
            "uki-without-kernel-cmdline-file",
            "/etc/kernel/uki.conf:2: Cmdline has nohz_full=2-7 isolcpus=2-7; not set: this machine \
             has kernel-install with unified kernel images, which does not read that file",
            "there is no /etc/kernel/cmdline: write the whole line into it:\n    root=UUID=ab rw \
             nohz_full=1\nkernel-install add-all\n"
                .to_owned(),
        ),
        (
            "loader-file-is-generated",
            "/etc/sdboot-manage.conf:2: LINUX_OPTIONS has nowatchdog; in force; to remove it, edit \
             that file and run `sdboot-manage gen`",
            made("/etc/sdboot-manage.conf:2", "LINUX_OPTIONS", "sdboot-manage gen"),
        ),
        (
            "loader-without-a-name",
            "/etc/default/limine:1: KERNEL_CMDLINE[default] has nowatchdog; in force; to remove \
             it, edit that file and run `limine-mkinitcpio`",
            made("/etc/default/limine:1", "KERNEL_CMDLINE[default]", "limine-mkinitcpio"),
        ),
        (
            "boot-ext-uboot-menu",
            "",
            made("/etc/default/u-boot:2", "U_BOOT_PARAMETERS", "u-boot-update"),
        ),
        (
            "boot-uki-mkinitcpio",
            "",
            "add to the line in /etc/kernel/cmdline: nohz_full=1\nmkinitcpio -P\n".to_owned(),
        ),
        (
            "boot-armbian",
            "",
            "in /boot/armbianEnv.txt:8, add to extraargs: nohz_full=1\n".to_owned(),
        ),
    ]
}

#[test]
fn words_in_files_are_evaluated_and_generated_files_are_not_edited() {
    let Some(data) = recordings::data() else { return };
    for (name, words, steps) in words_and_steps() {
        let machine = Machine::copied(&recordings::reported(&data, name));
        let status = status::status(&machine.host(), &machine.store()).unwrap();
        let foreign: Vec<String> = status.foreign.iter().map(ToString::to_string).collect();
        assert_eq!(foreign.join("\n"), words, "{name}");
        let mut request = request_cpus("1");
        for name in ["rcu-nocbs", "irqaffinity"] {
            request.shield.tunables.set(name, false);
        }
        let plan = make_plan(&machine.host(), &request).unwrap();
        let said = plan.instructions.join("\n").replace("nohz_full=1,9", "nohz_full=1");
        let said = said.split_once(":\n").map_or("", |(_, said)| said);
        assert!(said.starts_with(steps.as_str()), "{name}: {said}");
    }
}

#[test]
fn the_next_boot_is_named_when_it_is_another_system() {
    let machine = Machine::debian();
    let windows = "menuentry 'Windows Boot Manager' --id win { chainloader /bootmgfw.efi; }";
    machine.program("etc/grub.d/40_custom");
    machine.write("etc/grub.d/40_custom", &format!("#!/bin/sh\ncat <<'E'\n{windows}\nE\n"));
    machine.update_grub();
    machine.save("saved_entry", "win");
    let status = status::status(&machine.host(), &machine.store()).unwrap();
    let next = status.next.unwrap();
    assert_eq!(
        (next.title.as_str(), next.why.to_string().as_str()),
        ("Windows Boot Manager", "saved_entry of grubenv")
    );
}

/// The loader joins several `options` lines, so a contradiction in the second one is one.
#[test]
fn all_options_of_an_entry_are_its_command_line() {
    let machine = Machine::without_loader();
    let entry = |more: &str| {
        format!("title A\nversion 6.12.9-rt-amd64\nlinux /vmlinuz\noptions ro\noptions {more}\n")
    };
    let path = "boot/loader/entries/a.conf";
    machine.write(path, &entry("nohz_full=1"));
    let error = make_plan(&machine.host(), &request_cpus("2-3")).unwrap_err().to_string();
    assert!(error.contains("nohz_full=1"), "{error}");
    machine.write(path, &entry("quiet"));
    let plan = make_plan(&machine.host(), &request_cpus("2-3")).unwrap();
    assert_eq!(plan.entries[0].kept, "ro quiet");
    write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    let added = format!("options {} ro\noptions quiet\n", words(&plan).join(" "));
    assert!(machine.read(path).ends_with(&added), "{}", machine.read(path));
    write::undo(&machine.host(), &machine.store()).unwrap();
    assert_eq!(machine.read(path), entry("quiet"));
}

/// Layouts that look like others: what makes the entries, by the first step.
#[test]
fn leftovers_and_programs_that_are_only_installed_make_no_entries() {
    let preset = "default_uki=\"/efi/EFI/Linux/arch.efi\"\n";
    let rows: &[(&[(&str, &str)], &str)] = &[
        // systemd brings kernel-install, and nothing reads its entries.
        (&[("usr/bin/kernel-install", "")], "add these words"),
        (
            &[("usr/bin/flash-kernel", ""), ("usr/bin/kernel-install", "")],
            "this machine has flash-",
        ),
        (
            &[("usr/bin/kernel-install", "kernel-install add"), ("efi/EFI/Linux/a.efi", "")],
            "this machine has kernel-install with",
        ),
        // An entry without a kernel.
        (
            &[
                ("etc/mkinitcpio.d/linux.preset", preset),
                ("efi/loader/entries/memtest.conf", "title M\nefi /memtest.efi\n"),
                ("usr/bin/kernel-install", ""),
            ],
            "this machine has mkinitcpio",
        ),
        (&[("etc/sdboot-manage.conf", "LINUX_OPTIONS=\"\"\n")], "add these words"),
    ];
    for (files, expected) in rows {
        let machine = Machine::without_loader();
        for (path, text) in *files {
            machine.program(path);
            machine.write(path, text);
        }
        let plan = make_plan(&machine.host(), &request_cpus("2-3")).unwrap();
        let first = &plan.instructions[0];
        assert!(first.starts_with(expected), "{files:?}: {first}");
        let all = plan.instructions.join("\n");
        assert!(!all.contains("add-all"), "{files:?}: {all}");
    }
}

/// What the presets of mkinitcpio and the packages of U-Boot read, and in which order.
#[test]
fn steps_name_the_file_that_is_read_last() {
    let preset = "default_uki=\"/efi/EFI/Linux/arch.efi\"\n";
    let extlinux = "# Do not edit this file manually, use: u-boot-update\nlabel l0\n\tlinux \
                    /vmlinuz-6.12.9-rt-amd64\n\tappend ro quiet nohz_full=1\n";
    let named = format!("{preset}default_options=\"--cmdline /etc/cmdline-rt\"\n");
    let rows: &[(&[(&str, &str)], &str)] = &[
        (&[("etc/mkinitcpio.d/l.preset", &named)], "add to the line in /etc/cmdline-rt: "),
        (
            &[("etc/mkinitcpio.d/l.preset", preset), ("etc/cmdline.d/root.conf", "root=/dev/a\n")],
            "write into /etc/cmdline.d/50-cpushield.conf: nohz_full=2-3",
        ),
        (
            &[
                ("boot/extlinux/extlinux.conf", extlinux),
                ("etc/default/u-boot", "U_BOOT_PARAMETERS=\"ro isolcpus=2\"\n"),
                ("usr/share/u-boot-menu/conf.d/board.conf", "U_BOOT_PARAMETERS=\"ro quiet\"\n"),
            ],
            "write into /etc/u-boot-menu/conf.d/50-cpushield.conf: \
             U_BOOT_PARAMETERS=\"$U_BOOT_PARAMETERS nohz_full=2-3",
        ),
    ];
    for (files, expected) in rows {
        let machine = Machine::without_loader();
        for (path, text) in *files {
            machine.write(path, text);
        }
        let plan = make_plan(&machine.host(), &request_cpus("2-3")).unwrap();
        assert!(plan.instructions[1].starts_with(expected), "{:?}", plan.instructions);
    }
}

/// GRUB's defaults where something else decides: an assignment that tuned added, a directory that
/// this distribution does not read, and entries of the other kind.
#[test]
fn the_entries_decide_what_only_running_a_line_would_show() {
    let state = |machine: &Machine| {
        let status = status::status(&machine.host(), &machine.store()).unwrap();
        status.foreign.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let machine = Machine::debian();
    let tuned = "GRUB_CMDLINE_LINUX_DEFAULT=\"${GRUB_CMDLINE_LINUX_DEFAULT:+\
                 $GRUB_CMDLINE_LINUX_DEFAULT }\\$tuned_params\"\n";
    let defaults = "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet nohz_full=2-3\"\n";
    machine.write("etc/default/grub", &format!("GRUB_CMDLINE_LINUX=\n{defaults}{tuned}"));
    machine.update_grub();
    machine.write("proc/cmdline", "BOOT_IMAGE=/vmlinuz-6.12.9-amd64 ro quiet nohz_full=2-3\n");
    let in_force = "/etc/default/grub:2: GRUB_CMDLINE_LINUX_DEFAULT has nohz_full=2-3; in force; \
                    to remove it, edit that file and run `grub-mkconfig -o /boot/grub/grub.cfg`";
    assert_eq!(state(&machine), [in_force]);
    // Arch's program does not read the directory.
    machine.write("usr/bin/grub-mkconfig", "#!/bin/sh\n. /etc/default/grub\n");
    machine.program("usr/bin/grub-mkconfig");
    machine.write("usr/bin/grub-mkconfig", "#!/bin/sh\n. /etc/default/grub\n");
    machine.write("etc/default/grub.d/a.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=isolcpus=2\n");
    let unread = "/etc/default/grub.d/a.cfg:1: GRUB_CMDLINE_LINUX_DEFAULT has isolcpus=2; not set: \
                  this machine has grub-mkconfig, which does not read that file";
    assert_eq!(state(&machine), [in_force, unread]);
}

/// Fedora's GRUB reads its entries from files, whatever a custom script adds; RHEL 8 has its files
/// on the EFI system partition.
#[test]
fn entries_in_files_are_found_next_to_a_custom_one_and_with_variables_on_the_esp() {
    let machine = Machine::without_loader();
    let custom = "blscfg\nmenuentry 'net' {\n linux /vmlinuz-netinst quiet\n}\n";
    machine.write("boot/grub2/grub.cfg", custom);
    machine.program("etc/grub.d/10_linux");
    let entry = |args: &str| format!("title A\nversion 6.1.0\nlinux /vmlinuz\noptions {args}\n");
    machine.write("boot/loader/entries/a.conf", &entry("ro"));
    let (loader, found) = loaders::find(&machine.host()).unwrap().unwrap();
    assert_eq!((loader.name(), found.entries[0].version.as_str()), ("bls", "6.1.0"));

    let machine = Machine::without_loader();
    machine.write("boot/efi/EFI/redhat/grub.cfg", "blscfg\n");
    let block = "# GRUB Environment Block\nkernelopts=root=/dev/a ro nohz_full=1\n";
    machine.write("boot/efi/EFI/redhat/grubenv", &format!("{block:#<1024}"));
    machine.write("boot/loader/entries/a.conf", &entry("$kernelopts $tuned_params"));
    let error = make_plan(&machine.host(), &request_cpus("2-3")).unwrap_err().to_string();
    assert!(error.contains("nohz_full=1"), "{error}");
}
