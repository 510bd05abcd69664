//! Whether systemd-boot starts this machine, and the EFI variables that it shares with `bootctl`.
//!
//! Source: the Boot Loader Interface (systemd.io/BOOT_LOADER_INTERFACE).

use cpushield_linux::Host;

/// The vendor of the Boot Loader Interface.
const VENDOR: &str = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

/// Reads an EFI variable that systemd-boot and `bootctl` share; `None` when it is not set.
pub(super) fn read_efi_variable(host: &Host, name: &str) -> Option<String> {
    let bytes = host.read_bytes(&format!("/sys/firmware/efi/efivars/{name}-{VENDOR}")).ok()?;
    // Four bytes of attributes, then UTF-16 with a zero at its end (efivarfs, Linux).
    let units = bytes.get(4..)?.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let units: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
    Some(String::from_utf16_lossy(&units)).filter(|text| !text.is_empty())
}

/// Whether a loader with the Boot Loader Interface started this machine.
pub(super) fn has_loader_info(host: &Host) -> bool {
    read_efi_variable(host, "LoaderInfo").is_some()
}

/// Whether systemd-boot started this machine: by its own EFI variable, or by the running kernel's
/// command line. GRUB's begins with `BOOT_IMAGE=` (grub-core/loader/i386/linux.c); systemd-boot's
/// may have a file with backslashes (`initrd=\`, src/boot/boot.c of systemd). `None` when unknown.
pub(in crate::boot) fn is_started_by_systemd_boot(host: &Host) -> Option<bool> {
    if let Some(info) = read_efi_variable(host, "LoaderInfo") {
        return Some(info.starts_with("systemd-boot"));
    }
    let line = host.read_line("/proc/cmdline").unwrap_or_default();
    let grub = line.starts_with("BOOT_IMAGE=");
    (grub || line.contains("initrd=\\")).then_some(!grub)
}

/// Whether systemd-boot started this machine; when unknown, whether its program is installed.
pub(super) fn is_systemd_boot(host: &Host) -> bool {
    match is_started_by_systemd_boot(host) {
        Some(started) => started,
        None => ["/boot", "/boot/efi", "/efi"].iter().any(|dir| {
            let names = host.list(&format!("{dir}/EFI/systemd")).unwrap_or_default();
            names.iter().any(|name| name.starts_with("systemd-boot"))
        }),
    }
}
