//! GRUB's directory and the environment block in it, which has the entry that boots once. Used by
//! the loaders whose entries GRUB boots.

use crate::boot::error::BootError;
use crate::boot::grub::{env, menu};
use cpushield_linux::{Error, Host};

const DIRS: &[(&str, &str)] = &[
    ("/boot/grub", "grub-mkconfig"),
    ("/boot/grub2", "grub2-mkconfig"),
    // RHEL 8 and its rebuilds with UEFI; later ones have only a file there that reads the other.
    ("/boot/efi/EFI/redhat", "grub2-mkconfig"),
    ("/boot/efi/EFI/rocky", "grub2-mkconfig"),
    ("/boot/efi/EFI/almalinux", "grub2-mkconfig"),
    ("/boot/efi/EFI/centos", "grub2-mkconfig"),
];

/// The directory of `grub.cfg`, and the program that generates it.
pub(in crate::boot) fn locate(host: &Host) -> Option<(&'static str, &'static str)> {
    DIRS.iter().find(|(dir, _)| host.exists(&format!("{dir}/grub.cfg"))).copied()
}

/// Sets `next_entry` in GRUB's environment block.
pub(super) fn arm(host: &Host, entry: &str) -> Result<(), BootError> {
    let Some((dir, program)) = locate(host) else { return Err(BootError::NoTrial) };
    check_grub_can_write(host, dir, program)?;
    let (editor, block) = (program.replace("mkconfig", "editenv"), format!("{dir}/grubenv"));
    let text = host.read(&format!("{dir}/grub.cfg"))?;
    if !menu::parse(&text).is_ok_and(|menu| menu.honours_next) {
        return Err(BootError::cannot_boot_once(format!("{dir}/grub.cfg does not use next_entry")));
    }
    host.run_program(&[&editor, &block, "set", &format!("next_entry={entry}")])?;
    Ok(())
}

/// Clears `next_entry` if the entry has not booted yet.
pub(super) fn disarm(host: &Host, entry: &str) -> Result<(), BootError> {
    let Some((dir, program)) = locate(host) else { return Ok(()) };
    let block = format!("{dir}/grubenv");
    let Some(bytes) = host.read_bytes_if_present(&block)? else { return Ok(()) };
    let variables = env::parse(&bytes).unwrap_or_default();
    // GRUB empties the variable when it has used it, and keeps the line.
    let is_ours = variables
        .iter()
        .any(|(name, value)| name == "next_entry" && (value.is_empty() || value == entry));
    if is_ours {
        host.run_program(&[
            &program.replace("mkconfig", "editenv"),
            &block,
            "unset",
            "next_entry",
        ])?;
    }
    Ok(())
}

/// How the user can boot an entry.
pub(super) fn boot_instructions(host: &Host, entry: &str) -> String {
    let (_, program) = locate(host).unwrap_or(("", "grub-mkconfig"));
    let [once, always] = ["reboot", "set-default"].map(|it| program.replace("mkconfig", it));
    format!("once: {once} {entry}; always: {always} {entry}, with GRUB_DEFAULT=saved")
}

/// Checks that GRUB can empty `next_entry` while it boots, or the trial would boot forever. It
/// writes blocks of plain disks only (`check_writable` in util/grub.d/00_header.in of Debian,
/// 2.06; save_env in docs/grub.texi).
fn check_grub_can_write(host: &Host, dir: &str, program: &str) -> Result<(), BootError> {
    let program = program.replace("mkconfig", "probe");
    let layers = probe(host, &program, "abstraction", dir)?;
    let file_system = probe(host, &program, "fs", dir)?;
    if !layers.is_empty() {
        return Err(BootError::cannot_boot_once(format!(
            "GRUB cannot write to {dir}, which is on {layers}"
        )));
    }
    match file_system.as_str() {
        "ext2" | "fat" | "xfs" => Ok(()),
        other => Err(BootError::cannot_boot_once(format!(
            "it is unknown whether GRUB can write to {dir} ({other})"
        ))),
    }
}

/// Runs `grub-probe`.
fn probe(host: &Host, program: &str, target: &str, dir: &str) -> Result<String, Error> {
    let output = host.query_program(&[program, &format!("--target={target}"), dir], b"")?;
    Ok(String::from_utf8_lossy(&output.out).trim().to_owned())
}
