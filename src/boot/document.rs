//! The documents about booting: what is wanted ([`BootPlan`]), what was there before
//! ([`BootJournal`]), what became of it ([`BootStatus`]). Plain data.

use super::early::Enabled;
use super::grub::generator::KernelRule;
use crate::survey::CommandLineFault;
use cpushield_linux::{CpuSet, FileAttributes};
use serde::{Deserialize, Serialize};

/// The version of the documents' form.
pub const SCHEMA: u32 = 1;

/// Kernel parameters wanted, and for which kernels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BootPlan {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The boot loader, `grub`; `None` when none is known here.
    pub loader: Option<String>,
    /// Whether a kernel that is installed later is covered too.
    pub covers_later: bool,
    /// CPUs that are, or may ever be, shielded.
    pub cpus: CpuSet,
    /// All others.
    pub housekeeping: CpuSet,
    /// CPUs that a trial shields and watches before it is made permanent.
    pub proves: CpuSet,
    /// Why these CPUs and these kernels, in sentences.
    pub why: Vec<String>,
    /// The parameters.
    pub parameters: Vec<WantedParameter>,
    /// Parameters that are not wanted, each with the reason.
    pub skipped: Vec<SkippedParameter>,
    /// Which kernels get them.
    pub rule: KernelRule,
    /// The kernels of the boot menu.
    pub kernels: Vec<BootKernel>,
    /// Which entry boots next as it is now, and why.
    pub next: Option<String>,
    /// What a person should know before.
    pub warnings: Vec<String>,
    /// What to do by hand, where nothing is written.
    pub instructions: Vec<String>,
}

/// One parameter that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WantedParameter {
    /// Its name for `explain`.
    pub name: String,
    /// The word for the command line.
    pub word: String,
    /// What it does.
    pub reason: String,
    /// What does the same on the running kernel, if anything does.
    pub substitute: Option<String>,
    /// Whether the running kernel was booted with it.
    pub booted: bool,
    /// What it was booted with in its place: the same parameter with another value.
    pub instead: Option<String>,
    /// Whether every chosen kernel is given it already, by the loader's own configuration.
    pub already: bool,
}

/// One parameter that is not wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedParameter {
    /// Its name for `explain`.
    pub name: String,
    /// Why.
    pub reason: String,
    /// Whether it is given to who asks for it by name (`--on NAME`).
    pub on_request: bool,
}

/// One kernel of the menu.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BootKernel {
    /// Its version.
    pub version: String,
    /// What the menu shows.
    pub title: String,
    /// Whether it is a PREEMPT_RT kernel; `None` when its configuration is not there.
    pub realtime: Option<bool>,
    /// Whether it gets the parameters.
    pub chosen: bool,
    /// Whether its line says what happens after a panic (`panic=`).
    pub panics: bool,
    /// Wanted parameters that it does not know, each with the reason.
    pub unknown: Vec<SkippedParameter>,
}

/// What was there before the first write; kept until it is put back, over boots too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootJournal {
    /// `cpushield-boot`.
    pub journal: String,
    /// [`SCHEMA`].
    pub schema: u32,
    /// The version of the program that wrote it.
    pub version: String,
    /// The boot in which it was written.
    pub boot_id: Option<String>,
    /// The boot loader.
    pub loader: String,
    /// Which kernels get the words.
    pub rule: KernelRule,
    /// The words.
    pub words: Vec<String>,
    /// Kernels that were chosen then.
    pub kernels: Vec<String>,
    /// CPUs that are, or may ever be, shielded.
    pub cpus: CpuSet,
    /// Whether everything was written.
    pub complete: bool,
    /// The trial that is under way.
    #[serde(default)]
    pub trial: Option<TrialBoot>,
    /// The boot in which `--kexec` loaded a kernel with the words; `None`: it did not, or that is
    /// over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded: Option<String>,
    /// The files, in the order they are written.
    pub files: Vec<SavedFile>,
}

/// One boot that is tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialBoot {
    /// The entry that boots once.
    pub entry: String,
    /// Whether a unit of systemd looks after the boot.
    pub unit: bool,
    /// Whether the entries are to stay behind all others when they are permanent.
    pub keep_default: bool,
    /// CPUs that are shielded and watched after the boot.
    #[serde(default)]
    pub proves: CpuSet,
    /// The argument of the reboot that begins it (`0 tryboot`); `None`: any reboot does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reboot: Option<String>,
    /// Units that had failed before: only others speak against the trial.
    #[serde(default)]
    pub failed: Vec<String>,
}

/// What became of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialEnd {
    /// The entry that was tried.
    pub entry: String,
    /// What became of it.
    pub end: SettledAs,
    /// Why.
    pub why: String,
    /// Files that were written or put back.
    pub files: Vec<String>,
}

/// What became of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettledAs {
    /// It holds; the parameters stay.
    Permanent,
    /// It did not hold; every file is as it was.
    TakenBack,
}

/// A file that is written, as it was before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedFile {
    /// The file, links followed.
    pub path: String,
    /// Its bytes; `None`: it was not there.
    pub original: Option<FileBytes>,
    /// Its permission bits.
    pub mode: u32,
    /// Its owner and group.
    pub owner: Option<(u32, u32)>,
    /// What was left there; `None` when it is not known yet.
    pub left: Option<FileBytes>,
}

/// Bytes in JSON: as text where they are text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileBytes {
    /// UTF-8.
    Text(String),
    /// Two digits for each byte.
    Hex(String),
}

impl FileBytes {
    /// The same bytes for JSON.
    #[must_use]
    pub fn of(bytes: &[u8]) -> FileBytes {
        match std::str::from_utf8(bytes) {
            Ok(text) => FileBytes::Text(text.to_owned()),
            Err(_) => FileBytes::Hex(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        }
    }

    /// The bytes; `None` for digits that are none.
    #[must_use]
    pub fn get(&self) -> Option<Vec<u8>> {
        match self {
            FileBytes::Text(text) => Some(text.clone().into_bytes()),
            FileBytes::Hex(digits) => {
                let pairs = digits.as_bytes().chunks(2);
                pairs
                    .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
                    .collect()
            }
        }
    }
}

impl SavedFile {
    /// Its permissions and owner.
    #[must_use]
    pub fn access(&self) -> FileAttributes {
        FileAttributes { mode: self.mode, owner: self.owner }
    }
}

/// What [`super::write::write`] did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WrittenParameters {
    /// The boot loader.
    pub loader: String,
    /// The words that were written.
    pub words: Vec<String>,
    /// The kernels that have them.
    pub kernels: Vec<String>,
    /// Files that were written; none when everything was so already.
    pub files: Vec<String>,
    /// Which entry boots next, and why.
    pub next: Option<String>,
    /// Whether that entry has the words.
    pub next_has: bool,
    /// The id of the first entry of ours that has them; `None`: they are in the entries that were
    /// there.
    pub entry: Option<String>,
    /// How to let that entry boot.
    pub choice: Option<String>,
    /// How to reach the menu.
    pub menu: String,
    /// Whether the entry boots once, as a trial, and who looks after it.
    pub trial: Option<TrialBoot>,
}

/// What [`super::write::undo`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RemovedParameters {
    /// Files, each with what became of it.
    pub files: Vec<(String, FileFate)>,
    /// What else there is to tell.
    pub notes: Vec<String>,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileFate {
    /// Its original bytes are there.
    Restored,
    /// It was as before already.
    AlreadySo,
    /// Others changed it since; it was made anew without our parameters.
    MadeAnew,
    /// Others changed it since, so it was left alone.
    Drifted,
}

/// Wanted, written, booted, in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BootStatus {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The boot loader of this machine.
    pub loader: Option<String>,
    /// The words of `boot apply`; empty when nothing was written.
    pub words: Vec<WordStatus>,
    /// Which kernels get them.
    pub rule: Option<KernelRule>,
    /// Whether a kernel that is installed later is covered too.
    pub covers_later: bool,
    /// Kernels whose entries have all words now.
    pub kernels: Vec<String>,
    /// The running kernel.
    pub running: Option<String>,
    /// Which entry boots next, and why.
    pub next: Option<String>,
    /// The trial that is under way.
    pub trial: Option<TrialBoot>,
    /// How far that trial is.
    pub trial_state: Option<TrialState>,
    /// What became of the last trial.
    pub last_trial: Option<TrialEnd>,
    /// The shield that is made at every boot (`cpushield enable`).
    pub enabled: Option<Enabled>,
    /// What differs from what was written, and what to do.
    pub differs: Vec<String>,
    /// Isolation parameters of the running kernel that it did not take as they are written.
    pub faults: Vec<CommandLineFault>,
}

/// How far a trial is, as the running boot shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum TrialState {
    /// The machine was not booted since the trial was armed.
    Armed,
    /// The machine was booted since, but the loader still has the trial's entry for one boot.
    NotTaken,
    /// This boot is the trial; nothing was concluded yet.
    Booted,
    /// The trial's boot began and was never concluded; the machine is back on another entry.
    FellBack {
        /// When this boot began, in seconds since 1970.
        since_s: Option<u64>,
    },
}

/// One word: is it written, was it booted, does the kernel show it?
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WordStatus {
    /// The word.
    pub word: String,
    /// Whether an entry of the menu has it.
    pub written: bool,
    /// Whether the running kernel was booted with it.
    pub booted: bool,
    /// What the kernel shows of it, where it shows anything: `nohz_full: 1-3`.
    pub shows: Option<String>,
    /// Whether that is what was wanted; `None` where the kernel shows nothing.
    pub in_force: Option<bool>,
    /// What the kernel said of it at boot when it did not take it as written, in its own words.
    pub refusals: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_go_through_json_as_they_are(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let text = serde_json::to_string(&FileBytes::of(&bytes)).unwrap();
            let back: FileBytes = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(back.get(), Some(bytes));
        }
    }
}
