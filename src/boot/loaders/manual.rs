//! Loaders whose files are not written: the exact steps for the user, with the words of this plan.

use super::entry_purpose::find_purpose;
use super::extlinux;
use crate::boot::grub::menu::version_of;
use crate::boot::kernel_file::read_config;
use crate::boot::parameters::{KernelFacts, known_words};
use cpushield_linux::Host;

/// A loader: the files that indicate it, and the steps for the user.
struct ManualLoader {
    name: &'static str,
    signs: &'static [&'static str],
    steps: fn(&Host, &[String]) -> Vec<String>,
}

const MANUALS: &[ManualLoader] = &[
    ManualLoader {
        name: "rpm-ostree",
        signs: &["/run/ostree-booted"],
        steps: |host, words| {
            // Only bootc updates this image: the kernels' command lines are part of it.
            if host.exists("/usr/bin/bootc") && !host.exists("/usr/bin/rpm-ostree") {
                let list: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
                return vec![
                    "in the source of the image: /usr/lib/bootc/kargs.d/10-cpushield.toml:"
                        .to_owned(),
                    format!("    kargs = [{}]", list.join(", ")),
                    "build and push it, then: bootc upgrade && systemctl reboot".to_owned(),
                    "to undo: bootc rollback, or the image without that file".to_owned(),
                ];
            }
            vec![
                format!("rpm-ostree kargs{}", kargs_options("append-if-missing", words)),
                "systemctl reboot".to_owned(),
                format!("to undo: rpm-ostree kargs{}", kargs_options("delete-if-present", words)),
                "the previous deployment, without them, stays in the boot menu".to_owned(),
            ]
        },
    },
    ManualLoader {
        name: "proxmox-boot-tool",
        signs: &["/etc/kernel/proxmox-boot-uuids"],
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
    ManualLoader {
        name: "unified kernel images",
        signs: &["/efi/EFI/Linux", "/boot/EFI/Linux", "/boot/efi/EFI/Linux"],
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
        signs: &["/boot/grub/menu.lst", "/boot/grub/grub.conf"],
        steps: menu_lst_steps,
    },
    ManualLoader {
        name: "an extlinux.conf with kernels of unknown version",
        signs: extlinux::FILES,
        steps: extlinux::manual_steps,
    },
];

/// The options ` --VERB=WORD` of `rpm-ostree kargs`.
fn kargs_options(verb: &str, words: &[String]) -> String {
    words.iter().map(|word| format!(" --{verb}={word}")).collect()
}

/// The lines that load an RT kernel, or else any kernel, with the words added.
fn menu_lst_steps(host: &Host, words: &[String]) -> Vec<String> {
    let files = ["/boot/grub/menu.lst", "/boot/grub/grub.conf"];
    let Some((path, text)) = files.iter().find_map(|path| Some((path, host.read(path).ok()?)))
    else {
        return Vec::new();
    };
    let mut title = "";
    let mut kernels: Vec<(usize, &str)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        match line.split_whitespace().next() {
            Some("title") => title = line,
            Some("kernel") => {
                let args = line.trim_start().split_once(char::is_whitespace).map(|(_, it)| it);
                let (kernel, args) =
                    args.and_then(|it| it.trim_start().split_once(' ')).unwrap_or((line, ""));
                if find_purpose(&[title, kernel], args).is_none() {
                    kernels.push((index, line));
                }
            }
            _ => {}
        }
    }
    if kernels.iter().any(|(_, line)| line.contains("-rt")) {
        kernels.retain(|(_, line)| line.contains("-rt"));
    }
    let mut steps = vec![format!("in {path}, for the kernels that should get them:")];
    for (index, line) in kernels {
        let kernel = line.split_whitespace().nth(1).and_then(version_of);
        let options = kernel.map(|it| read_config(host, it)).unwrap_or_default();
        let facts = KernelFacts { options: &options, arch: None, release: kernel };
        let known = known_words(words, &facts);
        steps.push(match known.is_empty() {
            true => {
                format!(
                    "line {}: unchanged: this kernel supports none of the parameters",
                    index + 1
                )
            }
            false => format!("line {}: {} {}", index + 1, line.trim(), known.join(" ")),
        });
    }
    steps
}

/// The loader that the user must configure, and the steps; `None` when no such loader is found.
#[must_use]
pub fn manual_steps(host: &Host, words: &[String]) -> Option<(&'static str, Vec<String>)> {
    let loader = MANUALS.iter().find(|it| it.signs.iter().any(|sign| host.exists(sign)))?;
    Some((loader.name, (loader.steps)(host, words)))
}

/// Whether rpm-ostree or proxmox-boot-tool owns the files of the boot loader.
pub(super) fn has_owner(host: &Host) -> bool {
    ["/run/ostree-booted", "/etc/kernel/proxmox-boot-uuids"].iter().any(|sign| host.exists(sign))
}
