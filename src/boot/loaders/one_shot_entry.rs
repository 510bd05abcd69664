//! Which entry of the Boot Loader Specification boots next, and which boots once. systemd-boot
//! keeps this in EFI variables, GRUB's `blscfg` in its environment block.
//!
//! Sources: the Boot Loader Interface (systemd.io/BOOT_LOADER_INTERFACE), `bootctl(1)`; 10_linux
//! and blscfg.c of Fedora's GRUB 2.06.

use super::boot_loader::LoaderEntry;
use super::grub_environment;
use super::systemd_boot::{is_systemd_boot, read_efi_variable};
use crate::boot::error::BootError;
use crate::boot::grub::env;
use crate::documents::boot::NextReason;
use crate::glob;
use cpushield_linux::Host;

/// The variables of GRUB's environment block and of `grub.cfg`, which entries use as `$name`.
pub(super) fn read_grub_variables(host: &Host) -> Vec<(String, String)> {
    let Some((dir, _)) = grub_environment::locate(host) else { return Vec::new() };
    let block = host.read_bytes(&format!("{dir}/grubenv")).unwrap_or_default();
    let mut known = env::parse(&block).unwrap_or_default();
    let text = host.read(&format!("{dir}/grub.cfg")).unwrap_or_default();
    for line in text.lines() {
        let Some((name, value)) =
            line.trim().strip_prefix("set ").and_then(|it| it.split_once('='))
        else {
            continue;
        };
        let value = value.trim_matches(['"', '\'']);
        // `grub.cfg` sets `kernelopts` only when the block has none; what it sets for tuned
        // wins (`tuned_params` and `tuned_initrd` in grub2/00_tuned of tuned).
        match known.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) if name.starts_with("tuned_") => value.clone_into(known),
            Some(_) => {}
            None => known.push((name.to_owned(), value.to_owned())),
        }
    }
    known
}

/// Expands `$name` and `${name}` in a command line; unset names stay as they are.
pub(super) fn expand_variables(args: &str, variables: &[(String, String)]) -> String {
    let words: Vec<&str> = args.split(' ').map(|word| expand_word(word, variables)).collect();
    words.join(" ")
}

/// Expands `$name` and `${name}` in the names of files. GRUB runs them as words of a command, where
/// an unset or empty name leaves no word (create_entry() in blscfg.c of Fedora's GRUB 2.06).
pub(super) fn expand_files(names: &[String], variables: &[(String, String)]) -> Vec<String> {
    let words = names.iter().map(|name| (name, expand_word(name, variables)));
    let words = words.filter(|(name, word)| word != name || !is_variable(name));
    words.flat_map(|(_, word)| word.split_whitespace()).map(str::to_owned).collect()
}

/// Whether a word is a variable alone.
fn is_variable(word: &str) -> bool {
    let name = word.strip_prefix('$').unwrap_or_default();
    let name = name.strip_prefix('{').and_then(|it| it.strip_suffix('}')).unwrap_or(name);
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn expand_word<'a>(word: &'a str, variables: &'a [(String, String)]) -> &'a str {
    let name = word.strip_prefix('$').map(|it| it.trim_start_matches('{').trim_end_matches('}'));
    let known = name.and_then(|name| variables.iter().find(|(known, _)| known == name));
    known.map_or(word, |(_, value)| value.trim())
}

/// Finds an entry by id, title or number.
fn find_entry(entries: &[LoaderEntry], id: &str) -> Option<usize> {
    let name = id.trim_end_matches(".conf");
    let named = entries.iter().position(|it| it.id.as_deref() == Some(name) || it.title == name);
    named.or_else(|| id.parse().ok().filter(|index| *index < entries.len()))
}

/// Which entry boots next, and why.
pub(super) fn find_next(host: &Host, entries: &[LoaderEntry]) -> (Option<usize>, NextReason) {
    let block = read_grub_variables(host);
    let settings: [(Option<String>, NextReason); 5] = [
        (
            read_efi_variable(host, "LoaderEntryOneShot"),
            NextReason::ForOneBoot { setting: "EFI variable LoaderEntryOneShot" },
        ),
        (
            read_efi_variable(host, "LoaderEntryDefault"),
            NextReason::configured("EFI variable LoaderEntryDefault"),
        ),
        (find_loader_conf_default(host, entries), NextReason::configured("default of loader.conf")),
        (
            env::value(&block, "next_entry").map(str::to_owned),
            NextReason::ForOneBoot { setting: "next_entry of grubenv" },
        ),
        (
            env::value(&block, "saved_entry").map(str::to_owned),
            NextReason::configured("saved_entry of grubenv"),
        ),
    ];
    let systemd_boot = is_systemd_boot(host);
    for (index, (id, why)) in settings.into_iter().enumerate() {
        if systemd_boot != (index < 3) {
            continue;
        }
        let id = match id {
            Some(id) if id == SAVED => read_efi_variable(host, "LoaderEntryLastBooted"),
            id => id,
        };
        let Some(id) = id else { continue };
        if let Some(found) = find_entry(entries, &id) {
            return (Some(found), why);
        }
        if systemd_boot && is_without_file(&id) {
            return (None, NextReason::NotAmongFiles { setting: why.to_string(), entry: id });
        }
    }
    let is_only = entries.len() == 1;
    let why = if is_only { NextReason::OnlyEntry } else { NextReason::FirstEntry };
    ((!entries.is_empty()).then_some(0), why)
}

/// The name for the entry that was booted last (`config_select_default_entry()`, src/boot/boot.c of
/// systemd 257).
const SAVED: &str = "@saved";

/// Whether systemd-boot knows an entry of this name without a file of options: a unified kernel
/// image, or one that it finds by itself (loader.conf(5)).
fn is_without_file(id: &str) -> bool {
    id.ends_with(".efi") || id.starts_with("auto-")
}

/// The first entry that matches the pattern `default` of `loader.conf`; the pattern itself where it
/// names an entry that has no file.
fn find_loader_conf_default(host: &Host, entries: &[LoaderEntry]) -> Option<String> {
    let dirs = ["/boot", "/boot/efi", "/efi"];
    let text = dirs.iter().find_map(|dir| host.read(&format!("{dir}/loader/loader.conf")).ok())?;
    let pattern = text.lines().find_map(|line| line.trim().strip_prefix("default"))?.trim();
    if pattern == SAVED || is_without_file(pattern) {
        return Some(pattern.to_owned());
    }
    let mut ids = entries.iter().filter_map(|it| it.id.as_deref());
    ids.find(|id| glob::matches(pattern, &format!("{id}.conf"))).map(str::to_owned)
}

/// Makes an entry boot once.
pub(super) fn arm(host: &Host, entry: &str) -> Result<(), BootError> {
    if is_systemd_boot(host) {
        // A PREEMPT_RT kernel does not call the firmware after boot, because a call may take long
        // (EFI_DISABLE_RUNTIME in drivers/firmware/efi/Kconfig, 6.12).
        if read_efi_variable(host, "LoaderInfo").is_none() {
            return Err(BootError::cannot_boot_once(
                "the running kernel shows no EFI variables (a PREEMPT_RT kernel needs efi=runtime)",
            ));
        }
        host.run_program(&["bootctl", "set-oneshot", &format!("{entry}.conf")])?;
        return Ok(());
    }
    grub_environment::arm(host, entry)
}

/// How the user can boot an entry.
pub(super) fn boot_instructions(host: &Host, entry: &str) -> String {
    if is_systemd_boot(host) {
        return format!(
            "once: bootctl set-oneshot {entry}.conf; always: bootctl set-default {entry}.conf"
        );
    }
    grub_environment::boot_instructions(host, entry)
}

/// Cancels [`arm`] if the entry has not booted yet.
pub(super) fn disarm(host: &Host, entry: &str) -> Result<(), BootError> {
    let once = read_efi_variable(host, "LoaderEntryOneShot");
    if once.is_some_and(|id| id.trim_end_matches(".conf") == entry) {
        host.run_program(&["bootctl", "set-oneshot", ""])?;
    }
    if is_systemd_boot(host) { Ok(()) } else { grub_environment::disarm(host, entry) }
}
