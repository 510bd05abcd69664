//! Boot loaders, one file each. A loader reads its own menu and says what is to be written; it
//! writes nothing itself: [`super::write`] does, for all of them, with the journal.

mod bls;
mod cmdline_files;
mod extlinux;
mod extlinux_adv;
mod grub;
mod kernel_install_hook;
mod manual;
mod one_shot_entry;
mod raspberry;

pub use manual::manual;

use super::error::BootError;
use super::grub::generator::KernelRule;
use cpushield_linux::Host;

/// A kernel's entry in a menu.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoaderEntry {
    /// The kernel's version.
    pub version: String,
    /// What the menu shows.
    pub title: String,
    /// What the loader calls it.
    pub id: Option<String>,
    /// What the kernel is given.
    pub args: String,
    /// Whether this tool made it.
    pub ours: bool,
    /// What it loads; `None` where its file does not say so.
    pub files: Option<EntryFiles>,
    /// Where it stands, `/boot/grub/grub.cfg:87`.
    pub place: String,
}

/// The files of an entry as the loader names them, from the root of their file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryFiles {
    /// The kernel.
    pub kernel: String,
    /// Initial RAM disks, in order; none where the kernel needs none.
    pub ramdisks: Vec<String>,
}

/// What a loader found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundLoader {
    /// Entries with a kernel, in the order of the menu.
    pub entries: Vec<LoaderEntry>,
    /// Which of them boots next.
    pub next: Option<usize>,
    /// Why that one.
    pub why: String,
    /// What a person should know.
    pub warnings: Vec<String>,
    /// How to reach the menu while the machine boots.
    pub menu: String,
}

/// A file that is put in place as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEdit {
    /// The file.
    pub path: String,
    /// Its new bytes.
    pub bytes: Vec<u8>,
    /// Permission bits of a file that was not there.
    pub mode: u32,
}

/// What is to be written, in order: files as they are, then those that the loader's own program
/// makes of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BootFilePlan {
    /// Files as they are.
    pub edits: Vec<FileEdit>,
    /// Files of ours that go, before others are made.
    pub gone: Vec<String>,
    /// Files that [`BootLoader::make`] makes.
    pub made: Vec<String>,
}

/// What is to be given to which kernels.
#[derive(Debug, Clone, Copy)]
pub struct ParameterAssignment<'a> {
    /// Which kernels, those installed later too.
    pub rule: &'a KernelRule,
    /// The versions that the rule chooses now.
    pub kernels: &'a [String],
    /// The words.
    pub words: &'a [String],
    /// Whether new entries stand behind all others.
    pub last: bool,
}

/// One boot loader.
pub trait BootLoader: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// What is there; `None` when this machine does not use it.
    ///
    /// # Errors
    /// Its files cannot be read, or are not understood.
    fn find(&self, host: &Host) -> Result<Option<FoundLoader>, BootError>;

    /// What is to be written.
    ///
    /// # Errors
    /// Nothing can be written here.
    fn recipe(&self, host: &Host, order: &ParameterAssignment) -> Result<BootFilePlan, BootError>;

    /// Where a word stands that a kernel is given already, for a person who wants to change it.
    fn source(&self, _host: &Host, _keyword: &str) -> Option<String> {
        None
    }

    /// Makes a file by the loader's own program, without writing it.
    ///
    /// # Errors
    /// There is no such program, or it fails.
    fn make(&self, _host: &Host, path: &str) -> Result<Vec<u8>, BootError> {
        Err(BootError::Wrong { why: format!("{path} is made by no program"), hint: None })
    }

    /// A made file without what is there because of us.
    fn without_ours(&self, made: &[u8]) -> Vec<u8> {
        made.to_vec()
    }

    /// A file that others changed since, without these words; `None` where the loader has no words
    /// of ours in files of others.
    fn stripped(&self, _now: &[u8], _words: &[String]) -> Option<Vec<u8>> {
        None
    }

    /// Files that came after the journal, `known` to nobody, with our words in them: each without.
    fn later(&self, _host: &Host, _known: &[&str], _words: &[String]) -> Vec<(String, Vec<u8>)> {
        Vec::new()
    }

    /// Whether a kernel that is installed later is covered too.
    fn covers_later(&self, _host: &Host) -> bool {
        true
    }

    /// Whether a file that is there is one of ours.
    fn is_ours(&self, _path: &str, _bytes: &[u8]) -> bool {
        false
    }

    /// Lets this entry boot once and reads back that it will.
    ///
    /// # Errors
    /// The loader cannot take a wish for one boot back by itself, or refuses it.
    fn once(&self, host: &Host, entry: &str) -> Result<(), BootError>;

    /// What [`BootLoader::once`] leaves to the reboot: an argument of it, where the loader is asked
    /// that way.
    fn reboots_with(&self) -> Option<&'static str> {
        None
    }

    /// How a person lets this entry boot.
    fn choice(&self, host: &Host, entry: &str) -> String;

    /// Takes that wish back, where it is still there.
    ///
    /// # Errors
    /// The loader refuses it.
    fn forget_once(&self, _host: &Host, _entry: &str) -> Result<(), BootError> {
        Ok(())
    }

    /// Whether an edit makes a file of ours, that cannot be there before.
    fn makes_anew(&self, _path: &str) -> bool {
        false
    }

    /// Whether [`BootLoader::make`] makes this file.
    fn is_made(&self, _path: &str) -> bool {
        false
    }
}

/// Reads bytes as a file of each loader that holds lines as they are, takes words in and out again,
/// and holds that nothing else has changed; for fuzzing.
///
/// # Panics
/// Something else has.
pub fn parsed(bytes: &[u8]) {
    let words = ["nohz_full=2-3".to_owned()];
    for lines in [&bls::LINES, &extlinux::LINES, &raspberry::LINES] {
        lines.round_trip(bytes, &words);
    }
}

/// Every loader, the surest sign first.
pub const LOADERS: &[&dyn BootLoader] =
    &[&grub::GrubLoader, &bls::BlsLoader, &extlinux::ExtlinuxLoader, &raspberry::RaspberryLoader];

/// The loader of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static dyn BootLoader> {
    LOADERS.iter().copied().find(|loader| loader.name() == name)
}

/// The loader of this machine with what it found; `None` where a person has to write its files,
/// because it is none of these or none of its kernels is known.
///
/// # Errors
/// The files of a loader cannot be read, or are not understood.
pub fn find(host: &Host) -> Result<Option<(&'static dyn BootLoader, FoundLoader)>, BootError> {
    if manual::owns(host) {
        return Ok(None);
    }
    for loader in LOADERS {
        if let Some(found) = loader.find(host)? {
            return Ok((!found.entries.is_empty()).then_some((*loader, found)));
        }
    }
    Ok(None)
}
