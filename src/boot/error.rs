//! The errors of planning, writing and removing boot parameters.

use super::parameters::{names_kernel_parameter, offered_names};
use crate::documents::boot::{FaultyWord, LintFinding, SkippedParameter};
use crate::documents::command_line_fault::CommandLineFault;
use crate::plan::PlanRefusal;
use crate::refusal::suggest;
use cpushield_linux::{CpuSet, Error};
use cpushield_sentence::Sentence;
use std::fmt;

/// Why boot parameters cannot be planned, written or removed.
#[derive(Debug, Sentence)]
#[kind(Machine)]
pub enum BootError {
    /// A file or a program of the machine failed.
    #[delegate(from)]
    Access(Error),
    /// The CPUs cannot be shielded.
    #[delegate(from)]
    Refused(PlanRefusal),
    /// CPU {cpus} cannot be prepared at boot: CPU 0 starts the others and keeps time for them.
    #[kind(Usage)]
    #[hint("omit CPU 0")]
    BootCpu {
        /// The requested CPUs.
        cpus: CpuSet,
    },
    /// cannot parse {path}; nothing was written.
    #[line("cause: {why}")]
    Unparsable {
        /// The file.
        path: String,
        /// Where and what, `line 3: …`.
        why: String,
    },
    /// {what} {text:?} is empty or has characters that are special to a boot loader.
    #[kind(Usage)]
    #[hint("use a pattern such as *-rt-* or 6.12.*")]
    NotPlain {
        /// What it is, `--kernels`.
        what: String,
        /// The text.
        text: String,
    },
    /// A kernel parameter that the user wrote cannot be written.
    #[delegate]
    #[kind(Usage)]
    #[hint(suggest(&_0.near).chain([_0.advice()]))]
    FaultyWord(Box<FaultyWord>),
    /// there is no boot parameter {name:?}.
    #[kind(Usage)]
    #[hint(other_names(name, near))]
    NoSuchParameter {
        /// The name.
        name: String,
        /// Similar names.
        near: Vec<String>,
    },
    /// cpushield never writes {name}: {why}.
    #[kind(Usage)]
    #[hint("cpushield explain {name}")]
    Never {
        /// The name.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// no kernel in the boot menu matches {asked}; the menu has {known}.
    #[with(known = if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
    #[kind(Usage)]
    #[hint("choose other kernels: --kernels GLOB")]
    NoKernel {
        /// The requested kernels.
        asked: String,
        /// The versions in the menu.
        known: Vec<String>,
    },
    /// {asked} does not match {running}: without a boot menu that cpushield can read, the
    /// parameters are for the running kernel.
    #[kind(Usage)]
    #[hint("omit --kernels")]
    NotRunning {
        /// The requested kernels.
        asked: String,
        /// The version of the running kernel.
        running: String,
    },
    /// kernel {version}: {why}.
    #[line("file:  {place}")]
    #[hint("nothing was written; change that file (with GRUB, then run update-grub) and retry")]
    Conflict {
        /// The kernel.
        version: String,
        /// The file, and the line if known, that has the contradicting parameter.
        place: String,
        /// What contradicts.
        why: String,
    },
    /// kernel {version}: {fault}.
    #[line("file:  {place}")]
    #[hint("remove isolcpus= where it is set")]
    #[hint((!isolcpus.is_empty()).then(|| format!("or use the same list for both: --cpus {isolcpus}")))]
    ListsDiffer {
        /// The kernel.
        version: String,
        /// The file, and the line if known, that has the contradicting parameter.
        place: String,
        /// What the kernel would do.
        fault: Box<CommandLineFault>,
        /// CPUs that are outside the scheduling domains now.
        isolcpus: CpuSet,
    },
    /// kernel {version}: {finding}.
    #[line(word in words, "word:  {word}")]
    #[line(place in place, "file:  {place}")]
    #[kind(Usage)]
    #[hint([finding.advice()])]
    Defeated {
        /// The kernel.
        version: String,
        /// The planned words that it is about, each with the reason why it is planned.
        words: Vec<String>,
        /// The file, and the line if known, with the other word, or of the kernel's entry; `None`
        /// without a menu.
        place: Option<String>,
        /// What is wrong with the line that the kernel would get.
        finding: Box<LintFinding>,
    },
    /// no kernel parameter applies to the chosen kernels: nothing was written.
    #[line(it in skipped, "{}: {}", it.name, it.reason)]
    #[hint(try_undecided(skipped))]
    NothingApplies {
        /// Parameters that are always proposed, each with the reason why it does not apply.
        skipped: Vec<SkippedParameter>,
    },
    /// {why}; nothing was written. By hand:
    #[line(step in instructions, "{step}")]
    ByHand {
        /// Why.
        why: String,
        /// The steps for the user.
        instructions: Vec<String>,
    },
    /// other boot parameters are already written: {words}.
    #[with(words = words.join(" "))]
    #[hint("remove them first: cpushield boot undo")]
    Active {
        /// The words.
        words: Vec<String>,
    },
    /// a trial of boot parameters has not been concluded yet: {words}.
    #[with(words = words.join(" "))]
    #[hint("`cpushield boot status` reports its state; to remove the trial: cpushield boot undo")]
    TrialPending {
        /// The words of the trial.
        words: Vec<String>,
    },
    /// cannot try {words}: {written} is already written, so nothing would distinguish the trial
    /// boot from any other boot.
    #[with(words = words.join(" "), written = written.join(" "))]
    #[hint(
        "omit --trial: cpushield boot apply; or remove the written parameters first: cpushield boot undo"
    )]
    TrialOfPart {
        /// The words of the trial.
        words: Vec<String>,
        /// The words that are written.
        written: Vec<String>,
    },
    /// an earlier `boot apply` or `boot undo` was interrupted.
    #[hint("undo the existing changes first: cpushield boot undo")]
    Unfinished,
    /// {path}: {why}.
    #[hint(path.ends_with(EVERY_BOOT_JOURNAL).then_some(WITHOUT_JOURNAL))]
    Journal {
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// {path} exists and was not made by cpushield; nothing was written.
    #[hint("inspect it, then move it away")]
    Foreign {
        /// The file.
        path: String,
    },
    /// cannot write to {path}: {why}.
    NoRoom {
        /// The directory.
        path: String,
        /// Why.
        why: String,
    },
    /// {why}.
    #[hint(hint)]
    Wrong {
        /// Why.
        why: String,
        /// The steps for the user.
        hint: Option<String>,
    },
    /// no trial boot is pending.
    #[hint("start a trial: cpushield boot apply --trial")]
    NoTrial,
    /// cannot conclude the trial of {entry}: the machine was not rebooted yet.
    #[hint("reboot")]
    #[hint("or abandon it: cpushield boot undo")]
    NotBooted {
        /// The entry that boots once.
        entry: String,
    },
    /// {why}.
    #[with(rest = rollback(undone))]
    #[line("{rest}")]
    #[kind(if undone.is_none() { Undone } else { NotUndone })]
    #[hint(hint)]
    #[hint(undone.is_some().then(|| written.undo_hint()))]
    Failed {
        /// Why.
        why: String,
        /// What was being written.
        written: WrittenFiles,
        /// The error while the files were restored; `None`: every file is as it was.
        undone: Option<String>,
        /// The steps for the user.
        hint: Option<String>,
    },
}

fn rollback(error: &Option<String>) -> String {
    let failed = error.as_ref().map(|error| format!("not undone: {error}"));
    failed.unwrap_or_else(|| "undone: every file is as it was".to_owned())
}

/// The journal of `enable` in the state directory.
pub(super) const EVERY_BOOT_JOURNAL: &str = "at-boot.json";
/// Without it, only the files themselves show what it has written.
const WITHOUT_JOURNAL: &str = "remove the files that contain `Made by cpushield` from \
                               /etc/systemd/system and /etc/init.d, then this file";

/// What to do about a name that `--on` and `--off` do not have: a kernel parameter of the user's
/// own, or a typo.
fn other_names(name: &str, near: &[String]) -> Vec<String> {
    let names = offered_names(name).into_iter();
    let calls = |name| format!("cpushield calls it {name}: cpushield explain {name}");
    let offered: Vec<String> = names.map(calls).collect();
    if !offered.is_empty() {
        return offered;
    }
    if names_kernel_parameter(name) {
        return vec![
            format!("for a kernel parameter of your own: --parameter {name}"),
            format!("or in a policy: boot.parameters = [{name:?}]"),
        ];
    }
    suggest(near).chain(["list the parameters: cpushield boot plan".to_owned()]).collect()
}

/// How to try the parameters of which it is unknown whether they apply.
fn try_undecided(skipped: &[SkippedParameter]) -> Option<String> {
    let undecided = skipped.iter().filter(|it| it.reason.is_undecided());
    let on: String = undecided.map(|it| format!(" --on {}", it.name)).collect();
    let hint = format!("try these parameters for one boot: cpushield boot apply --trial{on}");
    (!on.is_empty()).then_some(hint)
}

impl BootError {
    /// The loader's files or its menu are not as expected.
    pub(super) fn wrong(why: String, hint: Option<&str>) -> BootError {
        BootError::Wrong { why, hint: hint.map(str::to_owned) }
    }

    /// The loader cannot boot an entry just once.
    pub(super) fn cannot_boot_once(why: impl fmt::Display) -> BootError {
        BootError::Wrong {
            why: format!("this machine cannot boot a trial: {why}"),
            hint: Some(
                "bypass the loader: --trial --kexec; or omit the trial and keep the current \
                 default entry: cpushield boot apply --keep-default"
                    .to_owned(),
            ),
        }
    }
}

/// The files that were being written when a step failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenFiles {
    /// Those of the boot loader.
    Loader,
    /// Those that `enable` writes for the init system.
    AtEveryBoot,
}

impl WrittenFiles {
    /// How to restore them when that failed.
    #[must_use]
    pub const fn undo_hint(self) -> &'static str {
        match self {
            WrittenFiles::Loader => "to restore the boot files: cpushield boot undo",
            WrittenFiles::AtEveryBoot => "to remove what is left: cpushield disable",
        }
    }
}

impl std::error::Error for BootError {}
