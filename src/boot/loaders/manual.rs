//! Loaders whose files are not written: the exact steps for the user, with the words of this plan.

use super::boot_loader::{EntryFiles, LoaderEntry};
use super::entry_purpose::find_purpose;
use super::extlinux;
use super::kernel_release::add_releases;
use crate::boot::grub::menu::version_of;
use cpushield_linux::Host;

/// A loader: the files that indicate it, and the steps for the user.
struct ManualLoader {
    name: &'static str,
    signs: &'static [&'static str],
    /// Whether it rewrites the files of the boot loader, so that changes there are lost.
    owns_files: bool,
    steps: fn(&Host, &[String]) -> Vec<String>,
}

const MANUALS: &[ManualLoader] = &[
    ManualLoader {
        name: "rpm-ostree",
        signs: &["/run/ostree-booted"],
        owns_files: true,
        steps: |host, words| {
            // Only bootc updates this image: the kernels' command lines are part of it.
            if host.exists("/usr/bin/bootc") && !host.exists("/usr/bin/rpm-ostree") {
                return vec![
                    "in the source of the image, in /usr/lib/bootc/kargs.d/10-cpushield.toml:"
                        .to_owned(),
                    format!("    kargs = [{}]", quoted_words(words).join(", ")),
                    "build and push the image, then: bootc upgrade && systemctl reboot".to_owned(),
                    "to undo: bootc rollback, or build the image without that file".to_owned(),
                ];
            }
            vec![
                format!("rpm-ostree kargs{}", kargs_options("append-if-missing", words)),
                "systemctl reboot".to_owned(),
                format!("to undo: rpm-ostree kargs{}", kargs_options("delete-if-present", words)),
                "the previous deployment stays in the boot menu, without the parameters".to_owned(),
            ]
        },
    },
    ManualLoader {
        name: "proxmox-boot-tool",
        signs: &["/etc/kernel/proxmox-boot-uuids"],
        owns_files: true,
        steps: |_, words| {
            let words = words.join(" ");
            vec![
                format!("with systemd-boot: add to the line in /etc/kernel/cmdline: {words}"),
                format!(
                    "with GRUB: add to GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub: {words}"
                ),
                "proxmox-boot-tool refresh".to_owned(),
                "every kernel gets the parameters".to_owned(),
            ]
        },
    },
    // It writes its entries at every change of the system (systemd-boot-builder.py of nixpkgs).
    ManualLoader {
        name: "NixOS",
        signs: &["/etc/NIXOS"],
        owns_files: true,
        steps: |_, words| {
            let list = quoted_words(words).join(" ");
            vec![
                format!("add to the NixOS configuration: boot.kernelParams = [ {list} ];"),
                "nixos-rebuild boot".to_owned(),
                "the previous generations stay in the boot menu, without the parameters".to_owned(),
            ]
        },
    },
    // It writes this entry from its own configuration at every kernel update
    // (/etc/kernel/postinst.d/zz-kernelstub of Pop!_OS).
    ManualLoader {
        name: "kernelstub",
        signs: &[
            "/boot/efi/loader/entries/Pop_OS-current.conf",
            "/boot/loader/entries/Pop_OS-current.conf",
        ],
        owns_files: true,
        steps: |_, words| {
            let words = words.join(" ");
            vec![
                format!("kernelstub --add-options \"{words}\""),
                format!("to undo: kernelstub --delete-options \"{words}\""),
                "every kernel gets the parameters".to_owned(),
            ]
        },
    },
    // It writes the options of all entries from that file (sdbootutil of openSUSE).
    ManualLoader {
        name: "sdbootutil",
        signs: &["/usr/bin/sdbootutil"],
        owns_files: true,
        steps: |_, words| {
            vec![
                format!("add to the line in /etc/kernel/cmdline: {}", words.join(" ")),
                "sdbootutil update-all-entries".to_owned(),
                "every kernel gets the parameters".to_owned(),
            ]
        },
    },
    ManualLoader {
        name: "unified kernel images",
        signs: &["/efi/EFI/Linux", "/boot/EFI/Linux", "/boot/efi/EFI/Linux"],
        owns_files: false,
        steps: |_, words| {
            let words = words.join(" ");
            vec![
                format!("add to the line in /etc/kernel/cmdline: {words}"),
                "rebuild the images: kernel-install add-all".to_owned(),
            ]
        },
    },
    ManualLoader {
        name: "GRUB 0.97 (menu.lst)",
        signs: MENU_LST,
        owns_files: false,
        // Each kernel gets its own words: `listed_kernels`.
        steps: |_, _| Vec::new(),
    },
    ManualLoader {
        name: "an extlinux.conf with kernels of unknown version",
        signs: extlinux::FILES,
        owns_files: false,
        steps: extlinux::manual_steps,
    },
];

/// The words in double quotes, as lists of TOML and Nix have them.
fn quoted_words(words: &[String]) -> Vec<String> {
    words.iter().map(|word| format!("{word:?}")).collect()
}

/// The options ` --VERB=WORD` of `rpm-ostree kargs`.
fn kargs_options(verb: &str, words: &[String]) -> String {
    words.iter().map(|word| format!(" --{verb}={word}")).collect()
}

const MENU_LST: &[&str] = &["/boot/grub/menu.lst", "/boot/grub/grub.conf"];

/// A line of a menu that the user edits by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedKernel {
    /// Its number, from 1.
    pub line: usize,
    /// Its text, without white space around it.
    pub text: String,
    /// The kernel that it loads, with its command line.
    pub entry: LoaderEntry,
}

/// The kernels for normal work in the `menu.lst` of this machine, and its path; `None` when the
/// user has to configure another loader, or none is found.
#[must_use]
pub fn listed_kernels(host: &Host) -> Option<(&'static str, Vec<ListedKernel>)> {
    if find_manual(host)?.signs != MENU_LST {
        return None;
    }
    let (path, text) = MENU_LST.iter().find_map(|path| Some((*path, host.read(path).ok()?)))?;
    let mut title = "";
    let mut kernels = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        let (key, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let (kernel, args) = rest.trim_start().split_once(' ').unwrap_or((rest, ""));
        match key {
            "title" => title = text,
            "kernel" if find_purpose(&[title, kernel], args).is_none() => {
                let entry = LoaderEntry {
                    version: version_of(kernel).unwrap_or_default().to_owned(),
                    title: rest.to_owned(),
                    args: args.to_owned(),
                    files: Some(EntryFiles { kernel: kernel.to_owned(), ramdisks: Vec::new() }),
                    place: format!("{path}:{line}"),
                    ..LoaderEntry::default()
                };
                kernels.push(ListedKernel { line, text: text.to_owned(), entry });
            }
            _ => {}
        }
    }
    for kernel in &mut kernels {
        add_releases(host, std::slice::from_mut(&mut kernel.entry));
    }
    Some((path, kernels))
}

fn find_manual(host: &Host) -> Option<&'static ManualLoader> {
    MANUALS.iter().find(|it| it.signs.iter().any(|sign| host.exists(sign)))
}

/// The loader that the user must configure, and the steps; `None` when no such loader is found.
#[must_use]
pub fn manual_steps(host: &Host, words: &[String]) -> Option<(&'static str, Vec<String>)> {
    let loader = find_manual(host)?;
    Some((loader.name, (loader.steps)(host, words)))
}

/// Whether another program, such as rpm-ostree, writes the files of the boot loader.
pub(super) fn has_owner(host: &Host) -> bool {
    let mut signs = MANUALS.iter().filter(|it| it.owns_files).flat_map(|it| it.signs);
    signs.any(|sign| host.exists(sign))
}
