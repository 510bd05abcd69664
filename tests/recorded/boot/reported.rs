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

/// What shows the release of a kernel, where its file has none to read.
#[test]
fn the_release_comes_from_what_shows_it_and_is_unknown_without() {
    const RUNS: &str = "6.12.9-rt-amd64";
    let modules = |release: &str| format!("usr/lib/modules/{release}/modules.dep");
    let rows: &[(&str, &str, &[(String, &str)], Option<&str>)] = &[
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
