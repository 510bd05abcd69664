//! Where the kernel command lines of a machine come from: the program that makes its boot entries
//! or images, its configuration files, and the steps for a user who adds words there. Programs that
//! make the loader's files own them: edits there would be lost. Only reads.

use super::extlinux;
use super::grub_environment::locate;
use super::image_makers::{
    KERNEL_LINE, LINE_DIR, has_entries, mkinitcpio_makes_images, mkinitcpio_step,
    run_kernel_install, uses_kernel_install,
};
use super::source_file::{
    SourceFile, SourceFormat, edit_step, file, line_steps, variable, whole_line,
};
use super::systemd_boot::{has_loader_info, is_started_by_systemd_boot};
use cpushield_linux::Host;

/// Makes the steps for a user who adds these words.
type StepsByHand = fn(&Host, &[String]) -> Vec<String>;

/// A program that makes boot entries or images, or a loader that reads its own configuration.
#[derive(Clone, Copy)]
pub struct CmdlineSource {
    /// Its name.
    pub name: &'static str,
    is_here: fn(&Host) -> bool,
    /// Whether it makes the files of the loader, so that changes there are lost.
    owns_files: bool,
    /// The files with its words.
    pub(in crate::boot) files: &'static [SourceFile],
    /// The command that makes the entries from these files; empty when the loader reads them.
    command: &'static str,
    /// The command where it depends on the machine.
    command_here: Option<fn(&Host) -> String>,
    /// Other steps than to edit these files.
    steps: Option<StepsByHand>,
}

/// `grub-mkconfig` reads it (util/grub-mkconfig.in of GRUB, 2.12), and on Debian and Ubuntu
/// `/etc/default/grub.d/*.cfg` after it.
pub(super) const GRUB: SourceFile = file(
    &["/etc/default/grub", "/etc/default/grub.d/*.cfg"],
    SourceFormat::Variables {
        prefix: "GRUB_CMDLINE_LINUX",
        variable: "GRUB_CMDLINE_LINUX_DEFAULT",
        default: "",
    },
);

/// Parts of it: clr-boot-manager of Clear Linux and Solus (Clear Linux documentation, Modify kernel
/// boot parameters), and scripts that make unified kernel images.
const LINE_PARTS: SourceFile = file(&["/etc/kernel/cmdline.d/*.conf"], SourceFormat::Line);

const UUIDS: &str = "/etc/kernel/proxmox-boot-uuids";

/// A program that owns the files of the loader, and reads none of these.
const OWNER: CmdlineSource = CmdlineSource {
    name: "",
    is_here: |_| false,
    owns_files: true,
    files: &[],
    command: "",
    command_here: None,
    steps: None,
};

/// What owns no files of a loader that this tool writes.
const READER: CmdlineSource = CmdlineSource { owns_files: false, ..OWNER };

/// All sources. The first one that is here makes the entries.
pub(in crate::boot) const SOURCES: &[CmdlineSource] = &[
    CmdlineSource {
        name: "bootc",
        // Only bootc updates this image: the kernels' command lines are part of it.
        is_here: |host| {
            let only_bootc = host.exists("/usr/bin/bootc") && !host.exists("/usr/bin/rpm-ostree");
            host.exists("/run/ostree-booted") && only_bootc
        },
        steps: Some(|_, words| {
            vec![
                "in the source of the image, in /usr/lib/bootc/kargs.d/10-cpushield.toml:".into(),
                format!("    kargs = [{}]", quoted_words(words).join(", ")),
                "build and push the image, then: bootc upgrade && systemctl reboot".to_owned(),
                "to undo: bootc rollback, or build the image without that file".to_owned(),
            ]
        }),
        ..OWNER
    },
    CmdlineSource {
        name: "rpm-ostree",
        is_here: |host| host.exists("/run/ostree-booted"),
        steps: Some(|_, words| {
            vec![
                format!("rpm-ostree kargs{}", kargs_options("append-if-missing", words)),
                "systemctl reboot".to_owned(),
                format!("to undo: rpm-ostree kargs{}", kargs_options("delete-if-present", words)),
                "the previous deployment stays in the boot menu, without the parameters".to_owned(),
            ]
        }),
        ..OWNER
    },
    CmdlineSource {
        name: "proxmox-boot-tool with systemd-boot",
        is_here: |host| host.exists(UUIDS) && is_started_by_systemd_boot(host) == Some(true),
        files: &[KERNEL_LINE],
        command: "proxmox-boot-tool refresh",
        ..OWNER
    },
    CmdlineSource {
        name: "proxmox-boot-tool with GRUB",
        is_here: |host| host.exists(UUIDS) && is_started_by_systemd_boot(host) == Some(false),
        files: &[GRUB],
        command: "proxmox-boot-tool refresh",
        ..OWNER
    },
    CmdlineSource {
        name: "proxmox-boot-tool",
        is_here: |host| host.exists(UUIDS),
        files: &[KERNEL_LINE, GRUB],
        command: "proxmox-boot-tool refresh",
        steps: Some(|host, words| {
            let mut steps = vec!["with systemd-boot:".to_owned()];
            steps.extend(edit_step(host, &KERNEL_LINE, words));
            steps.push("with GRUB:".to_owned());
            steps.extend(edit_step(host, &GRUB, words));
            steps.extend(["proxmox-boot-tool refresh".to_owned(), EVERY_KERNEL.to_owned()]);
            steps
        }),
        ..OWNER
    },
    // It writes its entries at every change of the system (systemd-boot-builder.py of nixpkgs).
    CmdlineSource {
        name: "NixOS",
        is_here: |host| host.exists("/etc/NIXOS"),
        steps: Some(|_, words| {
            let list = quoted_words(words).join(" ");
            vec![
                format!("add to the NixOS configuration: boot.kernelParams = [ {list} ];"),
                "nixos-rebuild boot".to_owned(),
                "the previous generations stay in the boot menu, without the parameters".to_owned(),
            ]
        }),
        ..OWNER
    },
    // It writes this entry from its own configuration at every kernel update
    // (/etc/kernel/postinst.d/zz-kernelstub of Pop!_OS).
    CmdlineSource {
        name: "kernelstub",
        is_here: |host| {
            let dirs = ["/boot/efi/loader/entries", "/boot/loader/entries"];
            dirs.iter().any(|dir| host.exists(&format!("{dir}/Pop_OS-current.conf")))
        },
        steps: Some(|_, words| {
            let words = words.join(" ");
            vec![
                format!("kernelstub --add-options \"{words}\""),
                format!("to undo: kernelstub --delete-options \"{words}\""),
                EVERY_KERNEL.to_owned(),
            ]
        }),
        ..OWNER
    },
    // It writes the options of all entries from that file (sdbootutil of openSUSE).
    CmdlineSource {
        name: "sdbootutil",
        is_here: |host| host.exists("/usr/bin/sdbootutil") && has_entries(host),
        files: &[KERNEL_LINE],
        command: "sdbootutil update-all-entries",
        ..OWNER
    },
    CmdlineSource {
        name: "clr-boot-manager",
        is_here: |host| host.program("clr-boot-manager").is_some(),
        files: &[KERNEL_LINE, LINE_PARTS],
        command: "clr-boot-manager update",
        steps: Some(|_, words| {
            vec![
                format!("write into /etc/kernel/cmdline.d/50-cpushield.conf: {}", words.join(" ")),
                "clr-boot-manager update".to_owned(),
                EVERY_KERNEL.to_owned(),
            ]
        }),
        ..OWNER
    },
    // A hook of pacman runs it at each update of a kernel (sdboot-manage of CachyOS).
    CmdlineSource {
        name: "sdboot-manage",
        is_here: |host| host.exists("/etc/sdboot-manage.conf") && has_entries(host),
        files: &[file(&["/etc/sdboot-manage.conf"], variable("LINUX_OPTIONS", ""))],
        command: "sdboot-manage gen",
        ..OWNER
    },
    // /etc/kernel/postinst.d/zz-u-boot-menu runs it for each kernel (u-boot-menu of Debian 12).
    CmdlineSource {
        name: "u-boot-update",
        is_here: |host| says_generated(host, "u-boot-update"),
        files: &[file(
            &[
                "/etc/default/u-boot",
                "/usr/share/u-boot-menu/conf.d/*.conf",
                "/etc/u-boot-menu/conf.d/*.conf",
            ],
            variable("U_BOOT_PARAMETERS", "ro quiet"),
        )],
        command: "u-boot-update",
        ..OWNER
    },
    // The trigger of the package syslinux runs it for each kernel (Alpine).
    CmdlineSource {
        name: "update-extlinux",
        is_here: |host| {
            let has_menu = extlinux::FILES.iter().any(|path| host.exists(path));
            has_menu && host.exists("/etc/update-extlinux.conf")
        },
        files: &[file(&["/etc/update-extlinux.conf"], variable("default_kernel_opts", ""))],
        command: "update-extlinux",
        ..OWNER
    },
    CmdlineSource {
        name: "another program, which makes extlinux.conf",
        is_here: |host| says_generated(host, "do not edit"),
        steps: Some(|host, _| {
            let place = generated_head(host, "do not edit").unwrap_or_default();
            vec![format!("{place}; add the words where that program reads them, and run it")]
        }),
        ..OWNER
    },
    // The tools of Limine make the entries of limine.conf (limine-mkinitcpio-hook, CachyOS).
    CmdlineSource {
        name: "Limine with limine-entry-tool",
        is_here: |host| {
            let is_made = host.exists("/etc/default/limine");
            is_made && LIMINE.iter().any(|path| host.exists(path))
        },
        files: &[file(
            &["/etc/limine-entry-tool.d/*.conf", "/etc/default/limine"],
            SourceFormat::Variables {
                prefix: "KERNEL_CMDLINE",
                variable: "KERNEL_CMDLINE[default]",
                default: "",
            },
        )],
        command_here: Some(|host| {
            let tools = ["limine-mkinitcpio", "limine-update"];
            let found = tools.iter().find(|it| host.program(it).is_some()).unwrap_or(&tools[0]);
            (*found).to_owned()
        }),
        ..OWNER
    },
    CmdlineSource {
        name: "grub-mkconfig",
        is_here: |host| {
            is_started_by_systemd_boot(host) != Some(true)
                && locate(host)
                    .is_some_and(|(_, program)| program == "grub-mkconfig" || !has_entries(host))
        },
        files: &[GRUB],
        command_here: Some(|host| {
            let (dir, program) = locate(host).unwrap_or(("/boot/grub", "grub-mkconfig"));
            format!("{program} -o {dir}/grub.cfg")
        }),
        ..READER
    },
    CmdlineSource {
        name: "grubby",
        is_here: |host| is_started_by_systemd_boot(host) != Some(true) && locate(host).is_some(),
        files: &[GRUB, KERNEL_LINE],
        ..READER
    },
    CmdlineSource {
        name: "mkinitcpio with unified kernel images",
        is_here: |host| mkinitcpio_makes_images(host) && !has_entries(host),
        files: &[KERNEL_LINE, LINE_DIR],
        command: "mkinitcpio -P",
        steps: Some(|host, words| {
            let mut steps = mkinitcpio_step(host, words);
            steps.extend(["mkinitcpio -P".to_owned(), EVERY_KERNEL.to_owned()]);
            steps
        }),
        ..READER
    },
    CmdlineSource {
        name: "kernel-install with unified kernel images",
        is_here: |host| {
            let dirs = ["/efi/EFI/Linux", "/boot/EFI/Linux", "/boot/efi/EFI/Linux"];
            dirs.iter().any(|dir| host.exists(dir)) && !has_entries(host)
        },
        files: &[KERNEL_LINE],
        command_here: Some(run_kernel_install),
        ..READER
    },
    CmdlineSource {
        name: MENU_LST_NAME,
        is_here: |host| MENU_LST.iter().any(|path| host.exists(path)),
        // Each kernel gets its own words: `menu_lst.rs`.
        steps: Some(|_, _| Vec::new()),
        ..READER
    },
    CmdlineSource {
        name: "an extlinux.conf with kernels of unknown version",
        is_here: |host| extlinux::FILES.iter().any(|path| host.exists(path)),
        steps: Some(extlinux::manual_steps),
        ..READER
    },
    CmdlineSource {
        name: "Limine",
        is_here: |host| LIMINE.iter().any(|path| host.exists(path)),
        steps: Some(|host, words| line_steps(host, LIMINE, &["cmdline:", "CMDLINE="], words)),
        ..READER
    },
    // boot.scr of Armbian reads it (config/bootscripts of armbian/build).
    CmdlineSource {
        name: "Armbian",
        is_here: |host| host.exists("/boot/armbianEnv.txt"),
        files: &[file(&["/boot/armbianEnv.txt"], SourceFormat::Key("extraargs"))],
        ..READER
    },
    CmdlineSource {
        name: "flash-kernel",
        is_here: |host| host.program("flash-kernel").is_some(),
        files: &[file(&["/etc/default/flash-kernel"], variable("LINUX_KERNEL_CMDLINE", "quiet"))],
        command: "flash-kernel",
        ..READER
    },
    // The environment of BeagleBoard's U-Boot reads it (elinux.org, Beagleboard:U-boot).
    CmdlineSource {
        name: "U-Boot with uEnv.txt",
        is_here: |host| host.exists("/boot/uEnv.txt"),
        files: &[file(&["/boot/uEnv.txt"], SourceFormat::Key("cmdline"))],
        ..READER
    },
    // Each line is a title and a command line in double quotes (rEFInd's documentation, Methods of
    // Booting Linux).
    CmdlineSource {
        name: "rEFInd",
        is_here: |host| host.exists(REFIND[0]),
        steps: Some(|host, words| line_steps(host, REFIND, &["\""], words)),
        ..READER
    },
    CmdlineSource {
        name: "ZFSBootMenu",
        is_here: |host| {
            let signs = ["/etc/zfsbootmenu", "/boot/efi/EFI/zbm", "/boot/efi/EFI/ZBM"];
            signs.iter().any(|path| host.exists(path))
        },
        steps: Some(|_, words| {
            let key = "org.zfsbootmenu:commandline";
            vec![
                "with the dataset of the root file system (findmnt -no SOURCE /) as ROOT:".into(),
                format!("zfs get -H -o value {key} ROOT"),
                format!("zfs set {key}=\"THAT VALUE {}\" ROOT", words.join(" ")),
            ]
        }),
        ..READER
    },
    CmdlineSource {
        name: "kernel-install",
        is_here: uses_kernel_install,
        files: &[KERNEL_LINE],
        command_here: Some(run_kernel_install),
        ..READER
    },
    // Nothing else names itself, and the firmware has an entry for the kernel (efibootmgr(8)).
    CmdlineSource {
        name: "the firmware, which starts the kernel",
        is_here: |host| {
            let efi = host.exists("/sys/firmware/efi/efivars");
            efi && !has_loader_info(host) && host.program("efibootmgr").is_some()
        },
        steps: Some(|host, words| {
            vec![
                "see the entry: efibootmgr --unicode".to_owned(),
                "make one more, with its disk, partition and loader, and the whole line:".into(),
                format!(
                    "efibootmgr --create --disk DISK --part N --label cpushield --loader LOADER \
                     --unicode '{}'",
                    whole_line(host, words)
                ),
            ]
        }),
        ..READER
    },
    // It makes images only for `ukify build`: kernel-install passes its own command line
    // (systemd/systemd issue 31840).
    CmdlineSource {
        name: "ukify",
        files: &[file(&["/etc/kernel/uki.conf"], SourceFormat::Key("Cmdline"))],
        ..READER
    },
];

const EVERY_KERNEL: &str = "every kernel gets the parameters";
const LIMINE: &[&str] =
    &["/boot/limine.conf", "/boot/limine/limine.conf", "/boot/EFI/limine/limine.conf"];
const REFIND: &[&str] = &["/boot/refind_linux.conf"];

/// The lines in front of the labels of an `extlinux.conf`, with the place of one that has a text.
fn generated_head(host: &Host, says: &str) -> Option<String> {
    let path = extlinux::FILES.iter().find(|path| host.exists(path))?;
    let text = host.read(path).ok()?;
    let head = text.lines().zip(1..).take_while(|(line, _)| {
        let line = line.trim_start();
        line.is_empty() || line.starts_with('#')
    });
    let mut head = head.filter(|(line, _)| line.to_lowercase().contains(says));
    let (line, number) = head.next()?;
    Some(format!("{path}:{number} says \"{}\"", line.trim_start_matches(['#', ' '])))
}

fn says_generated(host: &Host, says: &str) -> bool {
    generated_head(host, says).is_some()
}

/// The words in double quotes, as lists of TOML and Nix have them.
fn quoted_words(words: &[String]) -> Vec<String> {
    words.iter().map(|word| format!("{word:?}")).collect()
}

/// The options ` --VERB=WORD` of `rpm-ostree kargs`.
fn kargs_options(verb: &str, words: &[String]) -> String {
    words.iter().map(|word| format!(" --{verb}={word}")).collect()
}

impl CmdlineSource {
    /// The source of the boot entries of this machine; `None` when none is known.
    #[must_use]
    pub(in crate::boot) fn find(host: &Host) -> Option<&'static CmdlineSource> {
        SOURCES.iter().find(|source| (source.is_here)(host))
    }

    /// The command that makes the entries from the files; empty when the loader reads them.
    pub(in crate::boot) fn command(&self, host: &Host) -> String {
        self.command_here.map_or_else(|| self.command.to_owned(), |command| command(host))
    }

    fn steps(&self, host: &Host, words: &[String]) -> Vec<String> {
        if let Some(steps) = self.steps {
            return steps(host, words);
        }
        let mut steps = Vec::new();
        steps.extend(self.files.first().into_iter().flat_map(|it| edit_step(host, it, words)));
        let command = self.command(host);
        steps.extend(Some(command).filter(|it| !it.is_empty()));
        steps.push(EVERY_KERNEL.to_owned());
        steps
    }
}

pub(super) const MENU_LST_NAME: &str = "GRUB 0.97 (menu.lst)";
pub(super) const MENU_LST: &[&str] = &["/boot/grub/menu.lst", "/boot/grub/grub.conf"];

/// What the user must configure, and the steps; `None` when nothing is known.
#[must_use]
pub fn manual_steps(host: &Host, words: &[String]) -> Option<(&'static str, Vec<String>)> {
    let source = CmdlineSource::find(host)?;
    Some((source.name, source.steps(host, words)))
}

/// Whether another program, such as rpm-ostree, writes the files of the boot loader.
pub(super) fn has_owner(host: &Host) -> bool {
    CmdlineSource::find(host).is_some_and(|source| source.owns_files)
}
