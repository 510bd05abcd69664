//! The new parameters without the firmware and the loader: the running kernel loads the chosen one
//! with the line of its entry.

use super::document::Written;
use super::error::BootError;
use super::line;
use super::loaders::{self, Entry};
use cpushield_linux::Host;

/// A kernel that can be loaded.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Image {
    /// The kernel's file.
    pub kernel: String,
    /// Its initial RAM disk; `None` where there is none.
    pub initrd: Option<String>,
    /// Its command line.
    pub line: String,
}

/// The newest kernel that was given the words, as its entry boots it.
///
/// # Errors
/// It has no such entry, its files are not where distributions keep them, or its line is made by
/// the loader.
pub fn image(host: &Host, written: &Written) -> Result<Image, BootError> {
    let wrong = |why: String| BootError::Wrong { why, hint: Some("reboot instead".to_owned()) };
    let found = loaders::find(host)?.map(|(_, found)| found).unwrap_or_default();
    let words = |it: &Entry| written.words.iter().all(|word| line::has(&it.args, word));
    let has = |it: &&Entry| written.kernels.contains(&it.version) && words(it);
    let Some(entry) = found.entries.iter().find(has) else {
        return Err(wrong("no entry of the menu has the parameters".to_owned()));
    };
    if entry.args.contains('$') {
        let why = format!("{}: the loader makes the line as it boots: {}", entry.place, entry.args);
        return Err(wrong(why));
    }
    let version = &entry.version;
    let first = |places: &[String]| places.iter().find(|path| host.exists(path)).cloned();
    let kernels = [
        format!("/boot/vmlinuz-{version}"),
        format!("/boot/kernel-{version}"),
        format!("/usr/lib/modules/{version}/vmlinuz"),
    ];
    let Some(kernel) = first(&kernels) else {
        return Err(wrong(format!(
            "the file of kernel {version} is not at {}",
            kernels.join(", ")
        )));
    };
    let initrd = first(&[
        format!("/boot/initrd.img-{version}"),
        format!("/boot/initramfs-{version}.img"),
        format!("/boot/initrd-{version}"),
    ]);
    // Without one most kernels do not find their root; whose entry says none has an own reason.
    let names_one = entry.args.contains("root=UUID=") || entry.args.contains("root=/dev/mapper/");
    if initrd.is_none() && names_one {
        return Err(wrong(format!("the initial RAM disk of kernel {version} is not in /boot")));
    }
    Ok(Image { line: format!("BOOT_IMAGE={kernel} {}", entry.args), kernel, initrd })
}

/// Loads it. The running kernel goes on until it is told to start it.
///
/// # Errors
/// The kernel refuses; the parameters stay written.
pub fn load(host: &Host, image: &Image) -> Result<(), BootError> {
    host.kexec_load(&image.kernel, image.initrd.as_deref(), &image.line).map_err(|error| {
        BootError::Wrong {
            why: error.to_string(),
            hint: Some("the parameters are written: reboot instead".to_owned()),
        }
    })
}
