//! Which entry of the Boot Loader Specification boots next, and which boots once: what systemd-boot
//! keeps in variables of the firmware, and GRUB's `blscfg` in its environment block.
//!
//! Sources: the Boot Loader Interface (systemd.io/BOOT_LOADER_INTERFACE), `bootctl(1)`; 10_linux
//! and blscfg.c of Fedora's GRUB 2.06.

use super::grub::{self, GrubLoader};
use super::{BootLoader, LoaderEntry};
use crate::boot::error::BootError;
use crate::boot::grub::{env, generator};
use cpushield_linux::Host;

/// The vendor of the Boot Loader Interface.
const VENDOR: &str = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

/// A variable that systemd-boot and `bootctl` share; `None` where there is none.
fn variable(host: &Host, name: &str) -> Option<String> {
    let bytes = host.read_bytes(&format!("/sys/firmware/efi/efivars/{name}-{VENDOR}")).ok()?;
    // Four bytes of attributes, then UTF-16 with a zero at its end (efivarfs, Linux).
    let units = bytes.get(4..)?.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let units: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
    Some(String::from_utf16_lossy(&units)).filter(|text| !text.is_empty())
}

/// Whether systemd-boot started this machine: it says so itself, or the line of the running kernel
/// begins as GRUB's does (`BOOT_IMAGE=`, grub-core/loader/i386/linux.c) or has a file with the
/// firmware's strokes (`initrd=\`, src/boot/boot.c of systemd). `None` where nothing says it.
pub(super) fn is_started_by_systemd_boot(host: &Host) -> Option<bool> {
    if let Some(info) = variable(host, "LoaderInfo") {
        return Some(info.starts_with("systemd-boot"));
    }
    let line = host.read_line("/proc/cmdline").unwrap_or_default();
    let grub = line.starts_with("BOOT_IMAGE=");
    (grub || line.contains("initrd=\\")).then_some(!grub)
}

/// Whether systemd-boot started this machine. Where no variable says it, its program does.
fn is_systemd_boot(host: &Host) -> bool {
    match is_started_by_systemd_boot(host) {
        Some(is) => is,
        None => ["/boot", "/boot/efi", "/efi"].iter().any(|dir| {
            let names = host.list(&format!("{dir}/EFI/systemd")).unwrap_or_default();
            names.iter().any(|name| name.starts_with("systemd-boot"))
        }),
    }
}

/// Names in GRUB's environment block and in `grub.cfg` that entries refer to by `$name`.
pub(super) fn variables(host: &Host) -> Vec<(String, String)> {
    let Some((dir, _)) = grub::place(host) else { return Vec::new() };
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
        // `kernelopts` is set there only when the block has none; what tuned sets there counts.
        match known.iter_mut().find(|(there, _)| there == name) {
            Some((_, there)) if name == "tuned_params" => value.clone_into(there),
            Some(_) => {}
            None => known.push((name.to_owned(), value.to_owned())),
        }
    }
    known
}

/// A command line with `$name` and `${name}` in place; names that nobody sets stay as they are.
pub(super) fn expanded(args: &str, variables: &[(String, String)]) -> String {
    let word = |word: &str| -> String {
        let name =
            word.strip_prefix('$').map(|it| it.trim_start_matches('{').trim_end_matches('}'));
        let known = name.and_then(|name| variables.iter().find(|(known, _)| known == name));
        known.map_or(word, |(_, value)| value.trim()).to_owned()
    };
    let words: Vec<String> = args.split(' ').map(word).collect();
    words.join(" ")
}

/// Which entry boots next, and why.
pub(super) fn next(host: &Host, entries: &[LoaderEntry]) -> (Option<usize>, String) {
    let named = |id: &str| {
        let id = id.trim_end_matches(".conf");
        entries.iter().position(|it| it.id.as_deref() == Some(id) || it.title == id)
    };
    let block = variables(host);
    let wished: [(Option<String>, &str); 5] = [
        (variable(host, "LoaderEntryOneShot"), "LoaderEntryOneShot, for one boot"),
        (variable(host, "LoaderEntryDefault"), "LoaderEntryDefault of the firmware"),
        (of_loader_conf(host, entries), "default of loader.conf"),
        (
            env::value(&block, "next_entry").map(str::to_owned),
            "next_entry of grubenv, for one boot",
        ),
        (env::value(&block, "saved_entry").map(str::to_owned), "saved_entry of grubenv"),
    ];
    let systemd_boot = is_systemd_boot(host);
    for (index, (id, why)) in wished.into_iter().enumerate() {
        if systemd_boot != (index < 3) {
            continue;
        }
        let number = |id: &str| id.parse().ok().filter(|index| *index < entries.len());
        if let Some(found) = id.and_then(|id| named(&id).or_else(|| number(&id))) {
            return (Some(found), why.to_owned());
        }
    }
    let why = if entries.len() == 1 { "it is the only one" } else { "it is the first" };
    ((!entries.is_empty()).then_some(0), why.to_owned())
}

/// The first entry that the pattern of `loader.conf` means.
fn of_loader_conf(host: &Host, entries: &[LoaderEntry]) -> Option<String> {
    let dirs = ["/boot", "/boot/efi", "/efi"];
    let text = dirs.iter().find_map(|dir| host.read(&format!("{dir}/loader/loader.conf")).ok())?;
    let glob = text.lines().find_map(|line| line.trim().strip_prefix("default"))?.trim();
    let means = |id: &&str| generator::matches(glob, &format!("{id}.conf"));
    entries.iter().filter_map(|it| it.id.as_deref()).find(means).map(str::to_owned)
}

/// Lets an entry boot once.
pub(super) fn arm(host: &Host, entry: &str) -> Result<(), BootError> {
    if is_systemd_boot(host) {
        // A PREEMPT_RT kernel asks the firmware for nothing once it has booted, because that may
        // take long (EFI_DISABLE_RUNTIME in drivers/firmware/efi/Kconfig, 6.12).
        if variable(host, "LoaderInfo").is_none() {
            return Err(grub::cannot(
                "the running kernel shows no variables of the firmware (a PREEMPT_RT kernel does \
                 with efi=runtime alone)"
                    .to_owned(),
            ));
        }
        host.run_program(&["bootctl", "set-oneshot", &format!("{entry}.conf")])?;
        return Ok(());
    }
    grub::arm(host, entry)
}

/// How a person lets an entry boot.
pub(super) fn choice(host: &Host, entry: &str) -> String {
    if is_systemd_boot(host) {
        return format!(
            "once: bootctl set-oneshot {entry}.conf; always: bootctl set-default {entry}.conf"
        );
    }
    GrubLoader.choice(host, entry)
}

/// Takes that wish back, where it is still there.
pub(super) fn forget(host: &Host, entry: &str) -> Result<(), BootError> {
    let ours = |it: String| it.trim_end_matches(".conf") == entry;
    if variable(host, "LoaderEntryOneShot").is_some_and(ours) {
        host.run_program(&["bootctl", "set-oneshot", ""])?;
    }
    if is_systemd_boot(host) { Ok(()) } else { GrubLoader.forget_once(host, entry) }
}
