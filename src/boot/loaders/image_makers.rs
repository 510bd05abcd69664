//! Programs that make boot entries and unified kernel images from a command line in a file:
//! `kernel-install` and mkinitcpio. Only reads.

use super::bls;
use super::source_file::{SourceFile, SourceFormat, edit_step, file};
use cpushield_linux::Host;

/// The command line of new boot entries and images: `kernel-install` (90-loaderentry.install of
/// systemd 257), `proxmox-boot-tool` (pve.proxmox.com, Host Bootloader) and mkinitcpio read it.
pub(super) const KERNEL_LINE: SourceFile = file(&["/etc/kernel/cmdline"], SourceFormat::Line);

/// Parts of the command line of mkinitcpio.
pub(super) const LINE_DIR: SourceFile = file(&["/etc/cmdline.d/*.conf"], SourceFormat::Line);

/// Whether there are entries of the Boot Loader Specification that load a kernel.
pub(super) fn has_entries(host: &Host) -> bool {
    let found = bls::LINES.find(host).ok().flatten();
    found.is_some_and(|found| !found.entries.is_empty())
}

/// `kernel-install add-all` came with systemd 256.
pub(super) fn run_kernel_install(host: &Host) -> String {
    let program = host.program("kernel-install").and_then(|path| host.read_bytes(&path).ok());
    let has = |text: &str| {
        let bytes = program.as_deref().unwrap_or_default();
        bytes.windows(text.len()).any(|it| it == text.as_bytes())
    };
    let knows_all = has("add-all") || !has("kernel-install");
    if knows_all { "kernel-install add-all" } else { "kernel-install add RELEASE IMAGE" }.to_owned()
}

/// Whether `kernel-install` makes entries: it comes with systemd, also where nothing reads them.
pub(super) fn uses_kernel_install(host: &Host) -> bool {
    let signs = ["/etc/kernel/install.conf", "/boot/loader", "/efi/loader", "/boot/efi/loader"];
    host.program("kernel-install").is_some() && signs.iter().any(|path| host.exists(path))
}

/// The step for the command line of mkinitcpio, which a preset may name, and which may be in parts
/// (mkinitcpio(8), `--cmdline`).
pub(super) fn mkinitcpio_step(host: &Host, words: &[String]) -> Vec<String> {
    let new = words.join(" ");
    let texts = read_presets(host);
    let named = texts.iter().flat_map(|text| text.lines()).find_map(|line| {
        let (key, value) = line.split_once('=').filter(|(key, _)| !key.starts_with('#'))?;
        let option = value.split_once("--cmdline").map(|(_, file)| file);
        let file = option.or(Some(value).filter(|_| key.ends_with("_cmdline")))?;
        file.trim_matches([' ', '=', '"', '\'']).split_whitespace().next()
    });
    match named {
        Some(file) => vec![format!("add to the line in {file}: {new}")],
        None if KERNEL_LINE.read(host).is_empty() && !LINE_DIR.read(host).is_empty() => {
            vec![format!("write into /etc/cmdline.d/50-cpushield.conf: {new}")]
        }
        None => edit_step(host, &KERNEL_LINE, words),
    }
}

/// The presets of mkinitcpio.
fn read_presets(host: &Host) -> Vec<String> {
    let names = host.list("/etc/mkinitcpio.d").unwrap_or_default();
    let texts = names.iter().map(|it| host.read(&format!("/etc/mkinitcpio.d/{it}")));
    texts.flatten().collect()
}

/// Whether a preset of mkinitcpio makes unified kernel images (mkinitcpio(8), `default_uki`).
pub(super) fn mkinitcpio_makes_images(host: &Host) -> bool {
    let texts = read_presets(host);
    let makes = |line: &str| {
        let (key, _) = line.split_once('=').unwrap_or_default();
        ["_uki", "_efi_image"].iter().any(|it| key.ends_with(it)) && !key.starts_with('#')
    };
    texts.into_iter().any(|text| text.lines().any(makes))
}
