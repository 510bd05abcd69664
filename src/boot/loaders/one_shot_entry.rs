//! Which entry of the Boot Loader Specification boots next, and which boots once. systemd-boot
//! keeps this in EFI variables, GRUB's `blscfg` in its environment block.
//!
//! Sources: the Boot Loader Interface (systemd.io/BOOT_LOADER_INTERFACE), `bootctl(1)`; 10_linux
//! and blscfg.c of Fedora's GRUB 2.06.

use super::grub::{self, GrubLoader};
use super::{BootLoader, LoaderEntry};
use crate::boot::document::NextReason;
use crate::boot::error::BootError;
use crate::boot::grub::env;
use crate::boot::kernel_glob;
use cpushield_linux::Host;

/// The vendor of the Boot Loader Interface.
const VENDOR: &str = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

/// Reads an EFI variable that systemd-boot and `bootctl` share; `None` when it is not set.
fn read_efi_variable(host: &Host, name: &str) -> Option<String> {
    let bytes = host.read_bytes(&format!("/sys/firmware/efi/efivars/{name}-{VENDOR}")).ok()?;
    // Four bytes of attributes, then UTF-16 with a zero at its end (efivarfs, Linux).
    let units = bytes.get(4..)?.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let units: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
    Some(String::from_utf16_lossy(&units)).filter(|text| !text.is_empty())
}

/// Whether systemd-boot started this machine: by its own EFI variable, or by the running kernel's
/// command line. GRUB's begins with `BOOT_IMAGE=` (grub-core/loader/i386/linux.c); systemd-boot's
/// may have a file with backslashes (`initrd=\`, src/boot/boot.c of systemd). `None` when unknown.
pub(super) fn is_started_by_systemd_boot(host: &Host) -> Option<bool> {
    if let Some(info) = read_efi_variable(host, "LoaderInfo") {
        return Some(info.starts_with("systemd-boot"));
    }
    let line = host.read_line("/proc/cmdline").unwrap_or_default();
    let grub = line.starts_with("BOOT_IMAGE=");
    (grub || line.contains("initrd=\\")).then_some(!grub)
}

/// Whether systemd-boot started this machine; when unknown, whether its program is installed.
fn is_systemd_boot(host: &Host) -> bool {
    match is_started_by_systemd_boot(host) {
        Some(started) => started,
        None => ["/boot", "/boot/efi", "/efi"].iter().any(|dir| {
            let names = host.list(&format!("{dir}/EFI/systemd")).unwrap_or_default();
            names.iter().any(|name| name.starts_with("systemd-boot"))
        }),
    }
}

/// The variables of GRUB's environment block and of `grub.cfg`, which entries use as `$name`.
pub(super) fn read_grub_variables(host: &Host) -> Vec<(String, String)> {
    let Some((dir, _)) = grub::locate(host) else { return Vec::new() };
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
        // `grub.cfg` sets `kernelopts` only when the block has none; its `tuned_params` wins.
        match known.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) if name == "tuned_params" => value.clone_into(known),
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
        if let Some(found) = id.and_then(|id| find_entry(entries, &id)) {
            return (Some(found), why);
        }
    }
    let is_only = entries.len() == 1;
    let why = if is_only { NextReason::OnlyEntry } else { NextReason::FirstEntry };
    ((!entries.is_empty()).then_some(0), why)
}

/// The first entry that matches the pattern `default` of `loader.conf`.
fn find_loader_conf_default(host: &Host, entries: &[LoaderEntry]) -> Option<String> {
    let dirs = ["/boot", "/boot/efi", "/efi"];
    let text = dirs.iter().find_map(|dir| host.read(&format!("{dir}/loader/loader.conf")).ok())?;
    let glob = text.lines().find_map(|line| line.trim().strip_prefix("default"))?.trim();
    let mut ids = entries.iter().filter_map(|it| it.id.as_deref());
    ids.find(|id| kernel_glob::matches(glob, &format!("{id}.conf"))).map(str::to_owned)
}

/// Makes an entry boot once.
pub(super) fn arm(host: &Host, entry: &str) -> Result<(), BootError> {
    if is_systemd_boot(host) {
        // A PREEMPT_RT kernel does not call the firmware after boot, because a call may take long
        // (EFI_DISABLE_RUNTIME in drivers/firmware/efi/Kconfig, 6.12).
        if read_efi_variable(host, "LoaderInfo").is_none() {
            return Err(grub::trial_error(
                "the running kernel shows no EFI variables (a PREEMPT_RT kernel needs efi=runtime)"
                    .to_owned(),
            ));
        }
        host.run_program(&["bootctl", "set-oneshot", &format!("{entry}.conf")])?;
        return Ok(());
    }
    grub::arm(host, entry)
}

/// How the user can boot an entry.
pub(super) fn boot_instructions(host: &Host, entry: &str) -> String {
    if is_systemd_boot(host) {
        return format!(
            "once: bootctl set-oneshot {entry}.conf; always: bootctl set-default {entry}.conf"
        );
    }
    GrubLoader.boot_instructions(host, entry)
}

/// Cancels [`arm`] if the entry has not booted yet.
pub(super) fn disarm(host: &Host, entry: &str) -> Result<(), BootError> {
    let once = read_efi_variable(host, "LoaderEntryOneShot");
    if once.is_some_and(|id| id.trim_end_matches(".conf") == entry) {
        host.run_program(&["bootctl", "set-oneshot", ""])?;
    }
    if is_systemd_boot(host) { Ok(()) } else { GrubLoader.cancel_boot_once(host, entry) }
}
