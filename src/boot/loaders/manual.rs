//! Loaders that are not written: what to type, exactly, with the words of this plan.

use super::extlinux;
use crate::boot::grub::menu::version_of;
use crate::boot::parameters::known_words;
use cpushield_linux::Host;
use cpushield_linux::text::kernel_version::KernelVersion;

/// A sign of a loader, and what to do there.
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
            // An image that bootc alone updates: its kernels' lines come with it.
            if host.exists("/usr/bin/bootc") && !host.exists("/usr/bin/rpm-ostree") {
                let list: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
                return vec![
                    "in the source of the image: /usr/lib/bootc/kargs.d/10-cpushield.toml:"
                        .to_owned(),
                    format!("    kargs = [{}]", list.join(", ")),
                    "build and push it, then: bootc upgrade && systemctl reboot".to_owned(),
                    "back: bootc rollback, or the image without that file".to_owned(),
                ];
            }
            let each = |verb: &str| {
                words.iter().map(|word| format!(" --{verb}={word}")).collect::<String>()
            };
            vec![
                format!("rpm-ostree kargs{}", each("append-if-missing")),
                "systemctl reboot".to_owned(),
                format!("back: rpm-ostree kargs{}", each("delete-if-present")),
                "the earlier deployment, without them, stays in the boot menu".to_owned(),
            ]
        },
    },
    ManualLoader {
        name: "proxmox-boot-tool",
        signs: &["/etc/kernel/proxmox-boot-uuids"],
        steps: |_, words| {
            let words = words.join(" ");
            vec![
                format!("with systemd-boot: add to the line of /etc/kernel/cmdline: {words}"),
                format!(
                    "with GRUB: add to GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub: {words}"
                ),
                "proxmox-boot-tool refresh".to_owned(),
                "they are for every kernel there".to_owned(),
            ]
        },
    },
    ManualLoader {
        name: "unified kernel images",
        signs: &["/efi/EFI/Linux", "/boot/EFI/Linux", "/boot/efi/EFI/Linux"],
        steps: |_, words| {
            let words = words.join(" ");
            vec![
                format!("add to the line of /etc/kernel/cmdline: {words}"),
                "make the images again: kernel-install add-all".to_owned(),
            ]
        },
    },
    ManualLoader {
        name: "GRUB 0.97 (menu.lst)",
        signs: &["/boot/grub/menu.lst", "/boot/grub/grub.conf"],
        steps: |host, words| menu_lst(host, words),
    },
    ManualLoader {
        name: "an extlinux.conf whose kernels do not say which they are",
        signs: extlinux::FILES,
        steps: extlinux::by_hand,
    },
];

/// Copies of every line that loads an RT kernel, or else any kernel, with the words.
fn menu_lst(host: &Host, words: &[String]) -> Vec<String> {
    let files = ["/boot/grub/menu.lst", "/boot/grub/grub.conf"];
    let Some((path, text)) = files.iter().find_map(|path| Some((path, host.read(path).ok()?)))
    else {
        return Vec::new();
    };
    let kernels = || {
        let numbered = text.lines().enumerate();
        numbered.filter(|(_, line)| line.trim_start().starts_with("kernel"))
    };
    let any_rt = kernels().any(|(_, line)| line.contains("-rt"));
    let wanted = kernels().filter(|(_, line)| !any_rt || line.contains("-rt"));
    let mut steps = vec![format!("in {path}, for the kernels that are to have them:")];
    for (index, line) in wanted {
        let kernel = line.split_whitespace().nth(1).and_then(version_of);
        let known = known_words(words, kernel.and_then(KernelVersion::of_release));
        steps.push(match known.is_empty() {
            true => format!("line {}: leave it, this kernel knows none of them", index + 1),
            false => format!("line {}: {} {}", index + 1, line.trim(), known.join(" ")),
        });
    }
    steps
}

/// Why nothing is written on this machine and what to do by hand; `None` when no such loader is
/// there.
#[must_use]
pub fn manual(host: &Host, words: &[String]) -> Option<(&'static str, Vec<String>)> {
    let there = |it: &&ManualLoader| it.signs.iter().any(|sign| host.exists(sign));
    let found = MANUALS.iter().find(there)?;
    Some((found.name, (found.steps)(host, words)))
}

/// Whether what looks like another loader's files is in truth kept by one of these.
pub(super) fn owns(host: &Host) -> bool {
    ["/run/ostree-booted", "/etc/kernel/proxmox-boot-uuids"].iter().any(|sign| host.exists(sign))
}
