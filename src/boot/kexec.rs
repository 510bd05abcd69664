//! The new parameters without the firmware and the loader: the running kernel loads the chosen one
//! with the line and the files of its entry. What it loaded is in the journal, because the next
//! reboot by systemd would start it (`reboot` in systemctl(1), SYSTEMCTL_SKIP_AUTO_KEXEC).

use super::document::{BootJournal, BootPlan, WrittenParameters};
use super::error::BootError;
use super::loaders::{self, LoaderEntry};
use super::{kernel_file, line, write};
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
    /// Whether the init system was told to start it now.
    pub now: bool,
}

/// Whether the first of the chosen kernels can be loaded, before anything is written.
///
/// # Errors
/// Its files are not found, or its line is made by the loader.
pub fn possible(host: &Host, plan: &BootPlan) -> Result<(), BootError> {
    let found = loaders::find(host)?.map(|(_, found)| found).unwrap_or_default();
    let chosen =
        |it: &&LoaderEntry| plan.kernels.iter().any(|k| k.chosen && k.version == it.version);
    // Where there is none nothing can be written either, and that is told with its reason.
    let Some(entry) = found.entries.iter().find(chosen) else { return Ok(()) };
    let hint = "nothing was written; without --kexec the parameters come with the next reboot";
    of_entry(host, entry)
        .map(drop)
        .map_err(|why| BootError::Wrong { why, hint: Some(hint.to_owned()) })
}

/// The first kernel that was given the words, as its entry boots it.
///
/// # Errors
/// It has no such entry, its files are not found, or its line is made by the loader.
pub fn image(host: &Host, written: &WrittenParameters) -> Result<KexecImage, BootError> {
    let wrong = |why: String| BootError::Wrong { why, hint: None };
    let found = loaders::find(host)?.map(|(_, found)| found).unwrap_or_default();
    let words = |it: &LoaderEntry| written.words.iter().all(|word| line::has(&it.args, word));
    let has = |it: &&LoaderEntry| written.kernels.contains(&it.version) && words(it);
    let Some(entry) = found.entries.iter().find(has) else {
        return Err(wrong("no entry of the menu has the parameters".to_owned()));
    };
    of_entry(host, entry).map_err(wrong)
}

/// What an entry loads, or why that is not known. A kernel without the RAM disk of its entry does
/// not find its root, so nothing is left out.
fn of_entry(host: &Host, entry: &LoaderEntry) -> Result<KexecImage, String> {
    let (place, version) = (&entry.place, &entry.version);
    if entry.args.contains('$') {
        return Err(format!("{place}: the loader makes the line as it boots: {}", entry.args));
    }
    let (kernel, initrd) = match &entry.files {
        Some(files) => {
            let initrd = match files.ramdisks.as_slice() {
                [] => None,
                [one] => Some(file(host, entry, one)?),
                more => {
                    let more = more.join(", ");
                    return Err(format!(
                        "{place} has several initial RAM disks, {more}: one alone can be loaded"
                    ));
                }
            };
            (file(host, entry, &files.kernel)?, initrd)
        }
        None => {
            let named = |what: &str, places: &[String]| {
                first(host, places).ok_or_else(|| {
                    let places = places.join(", ");
                    format!(
                        "{place} does not name the {what} of kernel {version}, and it is at none \
                         of {places}"
                    )
                })
            };
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
            (named("file", &kernels)?, Some(named("initial RAM disk", &ramdisks)?))
        }
    };
    Ok(KexecImage { line: format!("BOOT_IMAGE={kernel} {}", entry.args), kernel, initrd })
}

fn first(host: &Host, places: &[String]) -> Option<String> {
    places.iter().find(|path| host.exists(path)).cloned()
}

/// Where a file is that an entry names. A name that ends in the version is known in `/boot` too,
/// where that is a subvolume or a dataset.
fn file(host: &Host, entry: &LoaderEntry, name: &str) -> Result<String, String> {
    let mut places = kernel_file::places(&entry.place, name);
    let last = name.rsplit('/').next().unwrap_or(name);
    let there = format!("/boot/{last}");
    if last.contains(&entry.version) && !places.contains(&there) {
        places.push(there);
    }
    let none = || format!("{}: {name} is at none of {}", entry.place, places.join(", "));
    first(host, &places).ok_or_else(none)
}

/// Loads the kernel of what was written and tells the init system to start it. After an error
/// nothing is loaded, and a trial is left to the boot loader.
///
/// # Errors
/// Its files are not found, or the kernel or the init system refuses; the parameters stay written.
pub fn start(
    host: &Host,
    store: &Store,
    written: &WrittenParameters,
) -> Result<LoadedKernel, BootError> {
    let started = load(host, store, written);
    started.map_err(|error| instead(host, store, written, error))
}

fn load(
    host: &Host,
    store: &Store,
    written: &WrittenParameters,
) -> Result<LoadedKernel, BootError> {
    let _lock = store.lock()?;
    let image = image(host, written)?;
    // First: undo has to know of it, also after a kill between the two.
    note(host, store, true)?;
    let now = host.exists("/run/systemd/system");
    let loaded = host.kexec_load(&image.kernel, image.initrd.as_deref(), &image.line);
    let mut stays = false;
    let begun = loaded.and_then(|()| match now {
        true => host.systemctl(&["kexec"]).inspect_err(|_| stays = host.kexec_unload().is_err()),
        false => Ok(()),
    });
    match begun {
        Ok(()) => Ok(LoadedKernel { image, now }),
        Err(error) if error.is_stop() => Err(BootError::Killed),
        Err(error) => {
            // What stays loaded stays known to undo; what was loaded before is not ours.
            if !stays {
                note(host, store, false)?;
            }
            Err(error.into())
        }
    }
}

/// What is left to do after an error. A trial that was to start at once is not armed yet.
fn instead(host: &Host, store: &Store, written: &WrittenParameters, error: BootError) -> BootError {
    if matches!(error, BootError::Killed) {
        return error;
    }
    let hint = match (&written.trial, &written.entry) {
        (Some(trial), _) => {
            let once = loaders::named(&written.loader).ok_or(BootError::NoTrial).and_then(|it| {
                let _lock = store.lock()?;
                it.once(host, &trial.entry)
            });
            match once {
                Ok(()) => "the trial is written, and boots once: reboot instead".to_owned(),
                Err(BootError::Killed) => return BootError::Killed,
                Err(why) => {
                    format!("take the trial back: cpushield boot undo ({why})")
                }
            }
        }
        (None, Some(entry)) if !written.next_has => {
            format!("the parameters are written: reboot instead, and choose {entry} in the menu")
        }
        (None, _) => "the parameters are written: reboot instead".to_owned(),
    };
    BootError::Wrong { why: error.to_string(), hint: Some(hint) }
}

/// Whether the next reboot by kexec would start something.
fn is_loaded(host: &Host) -> bool {
    host.read_line("/sys/kernel/kexec_loaded").is_ok_and(|loaded| loaded.trim() == "1")
}

fn this_boot(host: &Host) -> Option<String> {
    host.read_line("/proc/sys/kernel/random/boot_id").ok()
}

/// Says in the journal whether a kernel with the words lies in memory.
fn note(host: &Host, store: &Store, loaded: bool) -> Result<(), BootError> {
    let Some(mut journal) = super::journal(store)? else { return Ok(()) };
    journal.loaded = this_boot(host).filter(|_| loaded);
    write::keep(store, &journal)
}

/// Unloads what this boot loaded. Returns what a person has to know when that is refused.
pub(super) fn forget(host: &Host, journal: &BootJournal) -> Result<Option<String>, BootError> {
    if journal.loaded.is_none() || journal.loaded != this_boot(host) || !is_loaded(host) {
        return Ok(None);
    }
    match host.kexec_unload() {
        Ok(()) => Ok(None),
        Err(error) if error.is_stop() => Err(BootError::Killed),
        Err(error) => Ok(Some(format!(
            "the kernel that --kexec loaded stays in memory ({error}), and a reboot by systemd \
             would start it with the parameters: SYSTEMCTL_SKIP_AUTO_KEXEC=1 systemctl reboot"
        ))),
    }
}
