//! Finds kernel parameters that other programs, or an administrator, have set: in GRUB's defaults,
//! in the command line for new entries and images, and in the file of tuned. This program writes
//! none of them. Only reads.

use super::assigned_words::{self, AssignedWord};
use super::line;
use super::loaders::locate_grub;
use super::parameters::PARAMETERS;
use crate::documents::boot::{ForeignWord, WordRemoval};
use cpushield_linux::Host;
use cpushield_linux::text::cmdline;

/// `grub-mkconfig` reads it (util/grub-mkconfig.in of GRUB, 2.12), and on Debian and Ubuntu
/// `/etc/default/grub.d/*.cfg` after it.
const GRUB: &str = "/etc/default/grub";
const GRUB_DIR: &str = "/etc/default/grub.d";
/// The command line of new boot entries and images: `kernel-install` (90-loaderentry.install of
/// systemd 257), `proxmox-boot-tool` (pve.proxmox.com, Host Bootloader) and mkinitcpio read it.
const CMDLINE: &str = "/etc/kernel/cmdline";
/// Parts of it, `*.conf`: clr-boot-manager of Clear Linux and Solus (Clear Linux documentation,
/// Modify kernel boot parameters), and scripts that make unified kernel images.
const CMDLINE_DIR: &str = "/etc/kernel/cmdline.d";
/// Programs that make the entries or images again, each with a sign of it, or else the name of the
/// program itself.
const GENERATORS: &[(&str, &str)] = &[
    ("/etc/kernel/proxmox-boot-uuids", "proxmox-boot-tool refresh"),
    ("clr-boot-manager", "clr-boot-manager update"),
    ("/etc/mkinitcpio.d", "mkinitcpio -P"),
    ("kernel-install", "kernel-install add-all"),
];
/// Written by the plugin `bootloader` of tuned (tuned/plugins/plugin_bootloader.py, 2.x).
const TUNED: &str = "/etc/tuned/bootcmdline";
/// Entries of the Boot Loader Specification, which have their own command line.
const ENTRIES: &str = "/boot/loader/entries";

/// The words of [`PARAMETERS`] in these files, and others with one of the names, in the order of
/// the files.
pub(super) fn find(host: &Host, named: &[&str]) -> Vec<ForeignWord> {
    let mut found = Vec::new();
    if let Some((dir, program)) = locate_grub(host) {
        let mut names = host.list(GRUB_DIR).unwrap_or_default();
        names.retain(|name| name.ends_with(".cfg"));
        names.sort();
        let parts = names.into_iter().map(|name| format!("{GRUB_DIR}/{name}"));
        let has_entries = program == "grub2-mkconfig" && host.exists(ENTRIES);
        for path in [GRUB.to_owned()].into_iter().chain(parts) {
            let text = host.read(&path).unwrap_or_default();
            found.extend(words(
                &path,
                &text,
                "GRUB_CMDLINE_LINUX",
                named,
                |word| match has_entries {
                    true => WordRemoval::Entries {
                        command: format!("grubby --update-kernel=ALL --remove-args={word}"),
                    },
                    false => {
                        WordRemoval::Generator { command: format!("{program} -o {dir}/grub.cfg") }
                    }
                },
            ));
        }
    }
    let mut parts = host.list(CMDLINE_DIR).unwrap_or_default();
    parts.retain(|name| name.ends_with(".conf"));
    parts.sort();
    let parts = parts.into_iter().map(|name| format!("{CMDLINE_DIR}/{name}"));
    for path in [CMDLINE.to_owned()].into_iter().chain(parts) {
        let text = host.read(&path).unwrap_or_default();
        for (index, line) in text.lines().enumerate().filter(|(_, it)| !it.starts_with('#')) {
            found.extend(known(line, named).map(|word| ForeignWord {
                word,
                path: path.clone(),
                line: index + 1,
                variable: None,
                removal: new_entries(host),
            }));
        }
    }
    let text = host.read(TUNED).unwrap_or_default();
    found.extend(words(TUNED, &text, "TUNED_BOOT_CMDLINE", named, |_| WordRemoval::TunedProfile));
    found
}

/// How the entries and images are made again on this machine.
fn new_entries(host: &Host) -> WordRemoval {
    let found = GENERATORS.iter().find(|(sign, _)| match sign.starts_with('/') {
        true => host.exists(sign),
        false => host.program(sign).is_some(),
    });
    match found {
        Some((_, command)) => WordRemoval::Generator { command: (*command).to_owned() },
        None => WordRemoval::NewEntries,
    }
}

/// The words of [`PARAMETERS`] on a command line, and others with one of the names.
fn known(line: &str, named: &[&str]) -> impl Iterator<Item = String> {
    let params = cmdline::parse(line).into_iter();
    let known = params.filter(|param| {
        let is_same = |name: &str| cmdline::same_name(name, &param.name);
        PARAMETERS.iter().any(|it| is_same(it.keyword)) || named.iter().any(|name| is_same(name))
    });
    known.map(|param| line::to_word(&param))
}

/// The words that assignments to variables with this prefix have.
fn words(
    path: &str,
    text: &str,
    prefix: &str,
    named: &[&str],
    removal: impl Fn(&str) -> WordRemoval,
) -> Vec<ForeignWord> {
    let mut found = Vec::new();
    for AssignedWord { variable, word, line } in assigned_words::find(text, prefix) {
        found.extend(known(&word, named).map(|word| ForeignWord {
            removal: removal(&word),
            word,
            path: path.to_owned(),
            line,
            variable: Some(variable.clone()),
        }));
    }
    found
}
