//! Starts the new parameters with kexec, without firmware and boot loader: the running kernel loads
//! the chosen one with the command line and the files of its entry. The journal records this,
//! because the next reboot by systemd starts a loaded kernel (`reboot` in systemctl(1),
//! SYSTEMCTL_SKIP_AUTO_KEXEC).

use super::error::BootError;
use super::journal::{read_journal, save_journal};
use super::kernel_file;
use super::loaders::{self, LoaderEntry, is_started_by_systemd_boot};
use super::running_kernel::boot_id;
use crate::documents::boot::{BootJournal, BootPlan, KernelWords, UndoNote, WrittenParameters};
use crate::refusal::UserError;
use cpushield_linux::{Host, Store};

/// A kernel that can be loaded.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct KexecImage {
    /// The kernel's file.
    pub kernel: String,
    /// Its initial RAM disk; `None` where its entry has none.
    pub initrd: Option<String>,
    /// Its command line.
    pub line: String,
}

/// A kernel that is loaded.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct LoadedKernel {
    /// What was loaded.
    pub image: KexecImage,
    /// Whether systemd was asked to start it now.
    pub now: bool,
}

/// Checks, before anything is written, that the first of the chosen kernels can be loaded.
///
/// # Errors
/// Its files are not found, or the loader computes its command line.
pub fn possible(host: &Host, plan: &BootPlan) -> Result<(), BootError> {
    let found = loaders::find(host)?.map(|(_, found)| found).unwrap_or_default();
    let groups = plan.word_groups();
    for entry in found.entries.iter().filter(|entry| entry.purpose.is_none()) {
        if KernelWords::of(&groups, &entry.version).is_some_and(|words| !words.is_empty()) {
            let hint = "nothing was written; omit --kexec to reboot instead";
            return find_image(host, entry)
                .map(drop)
                .map_err(|why| BootError::Wrong { why, hint: Some(hint.to_owned()) });
        }
    }
    // Without such an entry nothing can be written either, and the write reports why.
    Ok(())
}

/// The first kernel that has the words, as its entry boots it.
///
/// # Errors
/// It has no such entry, its files are not found, or the loader computes its command line.
pub fn image(host: &Host, written: &WrittenParameters) -> Result<KexecImage, BootError> {
    let found = loaders::find(host)?.map(|(_, found)| found).unwrap_or_default();
    let mut entries = found.entries.iter();
    let is_written = |it: &&LoaderEntry| match &written.entry {
        Some(id) => it.id.as_ref() == Some(id),
        None => written.kernels.contains(&it.version) && it.has_words(&written.groups),
    };
    let entry = entries.find(is_written);
    let image = match entry {
        Some(entry) => find_image(host, entry),
        None => Err("no menu entry has the parameters".to_owned()),
    };
    image.map_err(|why| BootError::Wrong { why, hint: None })
}

/// Finds the files of an entry, or says why they are unknown. Without its RAM disk a kernel does
/// not find its root, so no file is left out.
fn find_image(host: &Host, entry: &LoaderEntry) -> Result<KexecImage, String> {
    let (place, version) = (&entry.place, &entry.version);
    if entry.args.contains('$') {
        let args = &entry.args;
        return Err(format!("{place}: the loader computes the command line at boot: {args}"));
    }
    let (kernel, initrd) = match &entry.files {
        Some(files) => {
            let initrd = match files.ramdisks.as_slice() {
                [] => None,
                [ramdisk] => Some(find_entry_file(host, entry, ramdisk)?),
                more => {
                    let more = more.join(", ");
                    return Err(format!(
                        "{place} has several initial RAM disks ({more}); kexec can load only one"
                    ));
                }
            };
            (find_entry_file(host, entry, &files.kernel)?, initrd)
        }
        None => {
            let kernels = [
                format!("/boot/vmlinuz-{version}"),
                format!("/boot/kernel-{version}"),
                format!("/usr/lib/modules/{version}/vmlinuz"),
            ];
            let ramdisks = [
                format!("/boot/initrd.img-{version}"),
                format!("/boot/initramfs-{version}.img"),
                format!("/boot/initrd-{version}"),
            ];
            let kernel = find_unnamed_file(host, entry, "file", &kernels)?;
            (kernel, Some(find_unnamed_file(host, entry, "initial RAM disk", &ramdisks)?))
        }
    };
    // As the boot loader does it: the next kernel's command line shows who started it.
    let first = match (is_started_by_systemd_boot(host), &initrd) {
        (Some(true), Some(initrd)) => format!("initrd={} ", initrd.replace('/', "\\")),
        (Some(true), None) => String::new(),
        _ => format!("BOOT_IMAGE={kernel} "),
    };
    Ok(KexecImage { line: format!("{first}{}", entry.args), kernel, initrd })
}

fn first_existing(host: &Host, paths: &[String]) -> Option<String> {
    paths.iter().find(|path| host.exists(path)).cloned()
}

/// Finds a file that the entry does not name.
fn find_unnamed_file(
    host: &Host,
    entry: &LoaderEntry,
    what: &str,
    paths: &[String],
) -> Result<String, String> {
    first_existing(host, paths).ok_or_else(|| {
        format!(
            "{} does not name the {what} of kernel {}, and none of these files exists: {}",
            entry.place,
            entry.version,
            paths.join(", ")
        )
    })
}

/// Finds a file that the entry names. A file with the version in its name is also looked for in
/// `/boot`, which may be a subvolume or a dataset.
fn find_entry_file(host: &Host, entry: &LoaderEntry, name: &str) -> Result<String, String> {
    let mut paths = kernel_file::candidate_paths(&entry.place, name);
    let base = name.rsplit('/').next().unwrap_or(name);
    let in_boot = format!("/boot/{base}");
    if base.contains(&entry.version) && !paths.contains(&in_boot) {
        paths.push(in_boot);
    }
    first_existing(host, &paths).ok_or_else(|| {
        let paths = paths.join(", ");
        format!("{} names {name}, but none of these files exists: {paths}", entry.place)
    })
}

/// Loads the kernel with the written parameters and asks systemd to start it. After an error no
/// kernel is loaded, and a trial is left to the boot loader.
///
/// # Errors
/// Its files are not found, or the kernel or the init system refuses; the parameters stay written.
pub fn start(
    host: &Host,
    store: &Store,
    written: &WrittenParameters,
) -> Result<LoadedKernel, BootError> {
    let started = load(host, store, written);
    started.map_err(|error| fall_back(host, store, written, error))
}

fn load(
    host: &Host,
    store: &Store,
    written: &WrittenParameters,
) -> Result<LoadedKernel, BootError> {
    let _lock = store.lock()?;
    let image = image(host, written)?;
    // The journal first: after a kill between the two, undo must know of it.
    record_loaded_kernel(store, boot_id(host))?;
    let now = host.has_systemd();
    let loaded = host.kexec_load(&image.kernel, image.initrd.as_deref(), &image.line);
    let mut still_loaded = false;
    let started = loaded.and_then(|()| match now {
        true => {
            host.systemctl(&["kexec"]).inspect_err(|_| still_loaded = host.kexec_unload().is_err())
        }
        false => Ok(()),
    });
    match started {
        Ok(()) => Ok(LoadedKernel { image, now }),
        Err(error) if error.is_stop() => Err(error.into()),
        Err(error) => {
            // Undo must know of a kernel that stays loaded; one loaded before is not ours.
            if !still_loaded {
                record_loaded_kernel(store, None)?;
            }
            Err(error.into())
        }
    }
}

/// Adds to an error how to boot without kexec. Arms the trial, which was left unarmed for kexec.
fn fall_back(
    host: &Host,
    store: &Store,
    written: &WrittenParameters,
    error: BootError,
) -> BootError {
    if error.is_stop() {
        return error;
    }
    let hint = match (&written.trial, &written.entry) {
        (Some(trial), _) => {
            let loader = loaders::named(&written.loader).ok_or(BootError::NoTrial);
            let armed = loader.and_then(|loader| {
                let _lock = store.lock()?;
                loader.boot_once(host, &trial.entry)
            });
            match armed {
                Ok(()) => "reboot instead: the trial is written and boots once".to_owned(),
                Err(why) if why.is_stop() => return why,
                Err(why) => {
                    format!("remove the trial: cpushield boot undo (it cannot boot once: {why})")
                }
            }
        }
        (None, Some(entry)) if !written.next_has => {
            format!("reboot instead, and choose {entry} in the menu: the parameters are written")
        }
        (None, _) => "reboot instead: the parameters are written".to_owned(),
    };
    BootError::Wrong { why: error.to_string(), hint: Some(hint) }
}

/// Whether a kernel is loaded for kexec.
fn is_loaded(host: &Host) -> bool {
    host.read_line("/sys/kernel/kexec_loaded").is_ok_and(|loaded| loaded.trim() == "1")
}

/// Records in the journal which boot has loaded a kernel with the words; `None`: none has.
fn record_loaded_kernel(store: &Store, boot_id: Option<String>) -> Result<(), BootError> {
    let Some(mut journal) = read_journal(store)? else { return Ok(()) };
    journal.loaded = boot_id;
    save_journal(store, &journal)
}

/// Unloads the kernel that this boot loaded. Returns a note for the user when that is refused.
pub(super) fn unload(host: &Host, journal: &BootJournal) -> Result<Option<UndoNote>, BootError> {
    if journal.loaded.is_none() || journal.loaded != boot_id(host) || !is_loaded(host) {
        return Ok(None);
    }
    match host.kexec_unload() {
        Ok(()) => Ok(None),
        Err(error) if error.is_stop() => Err(error.into()),
        Err(error) => Ok(Some(UndoNote::StillLoaded { answer: error.to_string() })),
    }
}
