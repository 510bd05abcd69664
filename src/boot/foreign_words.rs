//! Finds kernel parameters that other programs, or an administrator, have set: in GRUB's defaults,
//! in the command line for new entries and images, and in the file of tuned. This program writes
//! none of them. Only reads.

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

/// The words of [`PARAMETERS`] in these files, in the order of the files.
pub(super) fn find(host: &Host) -> Vec<ForeignWord> {
    let mut found = Vec::new();
    if let Some((dir, program)) = locate_grub(host) {
        let mut names = host.list(GRUB_DIR).unwrap_or_default();
        names.retain(|name| name.ends_with(".cfg"));
        names.sort();
        let parts = names.into_iter().map(|name| format!("{GRUB_DIR}/{name}"));
        let has_entries = program == "grub2-mkconfig" && host.exists(ENTRIES);
        for path in [GRUB.to_owned()].into_iter().chain(parts) {
            let text = host.read(&path).unwrap_or_default();
            found.extend(words(&path, &text, "GRUB_CMDLINE_LINUX", |word| match has_entries {
                true => WordRemoval::Entries {
                    command: format!("grubby --update-kernel=ALL --remove-args={word}"),
                },
                false => WordRemoval::Generator { command: format!("{program} -o {dir}/grub.cfg") },
            }));
        }
    }
    let mut parts = host.list(CMDLINE_DIR).unwrap_or_default();
    parts.retain(|name| name.ends_with(".conf"));
    parts.sort();
    let parts = parts.into_iter().map(|name| format!("{CMDLINE_DIR}/{name}"));
    for path in [CMDLINE.to_owned()].into_iter().chain(parts) {
        let text = host.read(&path).unwrap_or_default();
        for (index, line) in text.lines().enumerate().filter(|(_, it)| !it.starts_with('#')) {
            found.extend(known(line).map(|word| ForeignWord {
                word,
                path: path.clone(),
                line: index + 1,
                variable: None,
                removal: new_entries(host),
            }));
        }
    }
    let text = host.read(TUNED).unwrap_or_default();
    found.extend(words(TUNED, &text, "TUNED_BOOT_CMDLINE", |_| WordRemoval::TunedProfile));
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

/// The words of [`PARAMETERS`] on a command line.
fn known(line: &str) -> impl Iterator<Item = String> {
    let params = cmdline::parse(line).into_iter();
    let known = params
        .filter(|param| PARAMETERS.iter().any(|it| cmdline::same_name(it.keyword, &param.name)));
    known.map(|param| line::to_word(&param))
}

/// The words that assignments to variables with this prefix have.
fn words(
    path: &str,
    text: &str,
    prefix: &str,
    removal: impl Fn(&str) -> WordRemoval,
) -> Vec<ForeignWord> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let assigned = line.strip_prefix("export ").unwrap_or(line).split_once('=');
        let Some((variable, value)) = assigned.filter(|(name, _)| name.starts_with(prefix)) else {
            continue;
        };
        for word in known(unquoted(value)) {
            let removal = removal(&word);
            let (path, variable) = (path.to_owned(), variable.trim_end_matches('+').to_owned());
            let variable = Some(variable);
            found.push(ForeignWord { word, path, line: index + 1, variable, removal });
        }
    }
    found
}

/// The text in the quotes of a shell assignment, or all of it without quotes.
fn unquoted(value: &str) -> &str {
    let value = value.trim();
    let quote = value.chars().next().filter(|quote| ['"', '\''].contains(quote));
    match quote.and_then(|quote| value[1..].split_once(quote)) {
        Some((inner, _)) => inner,
        None => value,
    }
}
