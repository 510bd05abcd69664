//! Finds the release of each kernel of a menu: distributions also name kernels after packages
//! (`vmlinuz-linux-rt`), and boards name each one `Image`. Only reads: the image, the files of its
//! package, the directories of modules, and the command line of the running kernel.

use super::boot_loader::{EntryFiles, LoaderEntry};
use crate::boot::kernel_file::{only_installed, packaged_release, read_release};
use cpushield_linux::Host;
use cpushield_linux::text::cmdline;
use cpushield_linux::text::kernel_version::KernelVersion;

/// Adds the release to each entry. A name that begins with a version is one where nothing else
/// shows it (`6.6-x86_64` of Manjaro is none).
pub(super) fn add_releases(host: &Host, entries: &mut [LoaderEntry]) {
    let running = find_running(host, entries);
    for entry in entries {
        let name = &entry.version;
        let is_installed = only_installed(host, |release| release == name);
        let found = is_installed.or_else(|| find_release(host, entry, running.as_ref()));
        let named = KernelVersion::from_release(name).map(|_| name.clone());
        entry.release = found.or(named);
    }
}

fn find_release(host: &Host, entry: &LoaderEntry, running: Option<&RunningFile>) -> Option<String> {
    let name = entry.version.as_str();
    let kernel = entry.files.as_ref().map(|files| files.kernel.as_str());
    let is_running = |it: &&RunningFile| kernel.map(base_name) == Some(&it.kernel);
    read_release(host, &entry.image_paths())
        .or_else(|| packaged_release(host, name))
        .or_else(|| Some(running.filter(is_running)?.release.clone()))
        .or_else(|| only_installed(host, |release| has_part(name, release)))
        .filter(|_| !name.starts_with("0-rescue"))
}

/// Whether a release is the last part of a name (`genkernel-x86_64-6.1.12-gentoo`), or the name is
/// the last part of the release (`lts` of `6.6.31-0-lts`).
fn has_part(name: &str, release: &str) -> bool {
    let ends = |text: &str, end: &str| text.strip_suffix(end).is_some_and(|it| it.ends_with('-'));
    ends(name, release) || ends(release, name)
}

/// The file of the running kernel.
struct RunningFile {
    /// Its name without directories.
    kernel: String,
    /// The kernel's release.
    release: String,
}

/// The file of the running kernel, as its loader named it on the command line: `BOOT_IMAGE=`, or
/// the kernel of the entry with the last `initrd=`.
fn find_running(host: &Host, entries: &[LoaderEntry]) -> Option<RunningFile> {
    let params = cmdline::parse(&host.read_line("/proc/cmdline").ok()?);
    let release = host.read_line("/proc/sys/kernel/osrelease").ok()?;
    let value = |name| cmdline::values(&params, name).last().map(base_name);
    let loads =
        |files: &&EntryFiles, ramdisk| files.ramdisks.last().map(|it| base_name(it)) == ramdisk;
    let kernel = value("BOOT_IMAGE").or_else(|| {
        let ramdisk = Some(value("initrd")?);
        let mut files = entries.iter().filter_map(|entry| entry.files.as_ref());
        files.find(|files| loads(files, ramdisk)).map(|files| base_name(&files.kernel))
    });
    Some(RunningFile { kernel: kernel?.to_owned(), release })
}

/// The name of a file in a path of GRUB, Linux or UEFI.
fn base_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}
