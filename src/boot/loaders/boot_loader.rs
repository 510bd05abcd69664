//! What a boot loader is: the traits that each of them implements, and the data that they take and
//! return. A loader reads, and writes no file itself.

use crate::boot::error::BootError;
use crate::boot::grub::later_kernels::LaterKernels;
use crate::boot::kernel_file::candidate_paths;
use crate::boot::line;
use crate::documents::boot::{
    BootWarning, EntryPurpose, KernelRule, KernelWords, NextBoot, NextReason, SavedFile,
};
use cpushield_linux::Host;

/// A kernel's entry in a menu.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoaderEntry {
    /// The kernel's name in this menu: its release, or the name of its file without `vmlinuz-`.
    pub version: String,
    /// The kernel's release, like `uname -r`; `None` when no file shows it.
    pub release: Option<String>,
    /// What the menu shows.
    pub title: String,
    /// The loader's name for it.
    pub id: Option<String>,
    /// The kernel command line.
    pub args: String,
    /// Whether this tool made it.
    pub ours: bool,
    /// The files that it loads; `None` when its file does not name them.
    pub files: Option<EntryFiles>,
    /// Its file and line, `/boot/grub/grub.cfg:87`.
    pub place: String,
    /// Words of an earlier apply, which a later one replaces. They are not in `args`.
    pub replaced: Vec<String>,
    /// What it is for; `None`: it starts the system for its normal work.
    pub purpose: Option<EntryPurpose>,
}

/// The files of an entry as the loader names them, relative to the root of their file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryFiles {
    /// The kernel.
    pub kernel: String,
    /// Initial RAM disks, in order; empty when there are none.
    pub ramdisks: Vec<String>,
}

/// A loader's menu on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundLoader {
    /// Entries with a kernel, in the order of the menu.
    pub entries: Vec<LoaderEntry>,
    /// Which of them boots next.
    pub next: Option<usize>,
    /// The title of what boots next instead: a chainloader, or an entry without a file.
    pub other_next: Option<String>,
    /// Why that one.
    pub why: NextReason,
    /// What the user should know.
    pub warnings: Vec<BootWarning>,
    /// How to reach the menu while the machine boots.
    pub menu: String,
    /// Whether a kernel that is installed later is covered too.
    pub covers_later: bool,
}

impl LoaderEntry {
    /// The kernel's release, or else its name.
    #[must_use]
    pub fn release(&self) -> &str {
        self.release.as_deref().unwrap_or(&self.version)
    }

    /// Where its kernel's image may be.
    pub(in crate::boot) fn image_paths(&self) -> Vec<String> {
        let named = self.files.iter().flat_map(|it| candidate_paths(&self.place, &it.kernel));
        let usual = ["/boot/vmlinuz-", "/boot/kernel-"].map(|it| it.to_owned() + &self.version);
        named.chain(usual).collect()
    }

    /// Whether the command line has all these words.
    fn has_all(&self, words: &[String]) -> bool {
        words.iter().all(|word| line::has(&self.args, word))
    }

    /// The words of its kernel, if it gets any. A kernel that is in no group may have been
    /// installed later: it has those of a group.
    #[must_use]
    pub fn own_words<'a>(&self, groups: &'a [KernelWords]) -> Option<&'a [String]> {
        let all = groups.iter().map(|group| group.words.as_slice());
        let own = KernelWords::of(groups, &self.version);
        let later = || all.filter(|words| self.has_all(words)).max_by_key(|words| words.len());
        own.or_else(later).filter(|words| !words.is_empty())
    }

    /// Whether the command line has all words of its kernel.
    #[must_use]
    pub fn has_words(&self, groups: &[KernelWords]) -> bool {
        self.own_words(groups).is_some_and(|words| self.has_all(words))
    }
}

impl FoundLoader {
    /// The entry that boots next.
    #[must_use]
    pub fn next_entry(&self) -> Option<&LoaderEntry> {
        self.entries.get(self.next?)
    }

    /// The title of the entry that boots next, and why that one.
    #[must_use]
    pub fn next_boot(&self) -> Option<NextBoot> {
        let title = self.next_entry().map(|entry| &entry.title).or(self.other_next.as_ref())?;
        Some(NextBoot { title: title.clone(), why: self.why.clone() })
    }

    /// Whether the entry of this id boots next.
    #[must_use]
    pub fn boots_next(&self, id: &str) -> bool {
        self.next_entry().is_some_and(|entry| entry.id.as_deref() == Some(id))
    }

    /// The titles of the entries that have all words, and of the others.
    #[must_use]
    pub fn titles_by_words(&self, groups: &[KernelWords]) -> (Vec<String>, Vec<String>) {
        let (with, without): (Vec<_>, Vec<_>) =
            self.entries.iter().partition(|entry| entry.has_words(groups));
        let titles = |entries: Vec<&LoaderEntry>| {
            entries.into_iter().map(|entry| entry.title.clone()).collect::<Vec<_>>()
        };
        (titles(with), titles(without))
    }

    /// Whether a kernel has an entry with all its words.
    #[must_use]
    pub fn boots_with(&self, version: &str, groups: &[KernelWords]) -> bool {
        self.entries.iter().any(|entry| entry.version == version && entry.has_words(groups))
    }
}

/// A file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEdit {
    /// The file.
    pub path: String,
    /// Its new bytes.
    pub bytes: Vec<u8>,
    /// Permission bits for a new file.
    pub mode: u32,
}

/// What to write, in order: edited files, then those that the loader's own program generates from
/// them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BootFilePlan {
    /// Files with their new bytes.
    pub edits: Vec<FileEdit>,
    /// Files of cpushield to remove, before others are generated.
    pub removed: Vec<String>,
    /// Files that the [`MenuGenerator`] generates.
    pub generated: Vec<String>,
}

impl BootFilePlan {
    /// The files that are written, generated or removed.
    pub fn paths(&self) -> impl Iterator<Item = &String> {
        let edits = self.edits.iter().map(|edit| &edit.path);
        edits.chain(&self.generated).chain(&self.removed)
    }
}

/// The boot loader of this machine, and its menu.
pub type InstalledLoader = (&'static dyn BootLoader, FoundLoader);

/// Which words to give to which kernels.
#[derive(Debug, Clone, Copy)]
pub struct ParameterAssignment<'a> {
    /// Which kernels, including those installed later.
    pub rule: &'a KernelRule,
    /// Those that the rule chooses now, with their words.
    pub groups: &'a [KernelWords],
    /// Where new entries come.
    pub position: EntryPosition,
    /// The files of an earlier apply: the words are added to the texts before it.
    pub earlier: &'a [SavedFile],
}

impl<'a> ParameterAssignment<'a> {
    /// The words of a kernel; `None`: it gets none.
    pub(super) fn words_of(&self, version: Option<&String>) -> Option<&'a [String]> {
        KernelWords::of(self.groups, version?).filter(|words| !words.is_empty())
    }

    /// The kernels that get the words when they are installed later.
    pub(super) fn later_kernels(&self) -> LaterKernels<'a> {
        LaterKernels { rule: self.rule, groups: self.groups }
    }
}

/// Where our entries come in a menu.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryPosition {
    /// Before all others, so that one of them boots by default. Loaders that cannot do that add the
    /// words to the existing entries.
    First,
    /// After all others, so that the default entry does not change.
    Last,
    /// After all others, under names of their own: a trial, over the words of an earlier apply if
    /// there is one.
    Trial,
}

/// A row of the table of loaders in `docs/boot.md`, in Markdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoaderPageRow {
    /// The loader, and the distributions that set it up.
    pub loader: &'static str,
    /// The files that get the words.
    pub files: &'static str,
    /// How `--trial` boots an entry once.
    pub trial: &'static str,
    /// Whether kernels that are installed later get the words.
    pub later: &'static str,
}

/// The program of a boot loader that generates its menu from other files. It would overwrite an
/// edit of an entry, so existing entries stay as they are, and copies of them get the words.
pub trait MenuGenerator {
    /// Whether it generates this file.
    fn generates(&self, path: &str) -> bool;

    /// Generates the menu, without writing it.
    ///
    /// # Errors
    /// There is no such program, or it fails.
    fn generate(&self, host: &Host) -> Result<Vec<u8>, BootError>;

    /// A generated file without our entries.
    fn without_ours(&self, generated: &[u8]) -> Vec<u8>;

    /// The file and line that give a kernel this parameter, for a user who wants to change it.
    fn source(&self, host: &Host, keyword: &str) -> Option<String>;
}

/// What generates this file; `None` when it is edited.
pub fn generator_of<'a>(loader: &'a dyn BootLoader, path: &str) -> Option<&'a dyn MenuGenerator> {
    loader.generator().filter(|generator| generator.generates(path))
}

/// Those of these files that exist and that cpushield wrote. A file that only has the name of one
/// of them is left alone.
pub(super) fn find_own(
    host: &Host,
    loader: &dyn BootLoader,
    paths: impl Iterator<Item = String>,
) -> Result<Vec<String>, BootError> {
    let mut own = Vec::new();
    for path in paths {
        let present = host.read_bytes_if_present(&path)?;
        if present.is_some_and(|bytes| loader.is_ours(&path, &bytes)) {
            own.push(path);
        }
    }
    Ok(own)
}

/// One boot loader: how its menu is read, which files get the words, how these are removed again,
/// and how it boots an entry once, for a trial.
pub trait BootLoader: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// What the documents say of it: a row for each loader that reads such files.
    fn page_rows(&self) -> &'static [LoaderPageRow];

    /// Reads its menu; `None` when this machine does not use it.
    ///
    /// # Errors
    /// Its files cannot be read or parsed.
    fn find(&self, host: &Host) -> Result<Option<FoundLoader>, BootError>;

    /// Plans what to write.
    ///
    /// # Errors
    /// Nothing can be written here.
    fn plan_files(
        &self,
        host: &Host,
        assignment: &ParameterAssignment,
    ) -> Result<BootFilePlan, BootError>;

    /// What generates its menu; `None` when the files of the menu are edited.
    fn generator(&self) -> Option<&dyn MenuGenerator> {
        None
    }

    /// Makes this entry boot once, and reads back that it will.
    ///
    /// # Errors
    /// The loader cannot boot an entry just once, or refuses to.
    fn boot_once(&self, host: &Host, entry: &str) -> Result<(), BootError>;

    /// Cancels [`BootLoader::boot_once`] if the entry has not booted yet.
    ///
    /// # Errors
    /// The loader refuses it.
    fn cancel_boot_once(&self, _host: &Host, _entry: &str) -> Result<(), BootError> {
        Ok(())
    }

    /// The argument of the reboot that starts the entry of [`BootLoader::boot_once`], for loaders
    /// that need one.
    fn reboot_argument(&self) -> Option<&'static str> {
        None
    }

    /// How the user can boot this entry.
    fn boot_instructions(&self, host: &Host, entry: &str) -> String;

    /// A file without our entries at [`EntryPosition::Trial`].
    fn without_trial(&self, text: &[u8]) -> Vec<u8> {
        text.to_vec()
    }

    /// Files with our words that are not in the journal (`known`), because they were created
    /// later; each with its bytes without the words.
    fn strip_later_files(
        &self,
        _host: &Host,
        _known: &[&str],
        _words: &[String],
    ) -> Vec<(String, Vec<u8>)> {
        Vec::new()
    }

    /// Whether an existing file is one that cpushield wrote.
    fn is_ours(&self, _path: &str, _bytes: &[u8]) -> bool {
        false
    }

    /// Whether an edit creates this file, so that it must not exist before.
    fn creates(&self, _path: &str) -> bool {
        false
    }
}
