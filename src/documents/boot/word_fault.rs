//! What is wrong with a kernel parameter that the user wrote. Pure.

use super::entry_change::EntryPurpose;
use super::reason::UnknownReason;
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::Serialize;
use std::fmt;

/// A kernel parameter that the user wrote and that is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FaultyWord {
    /// The flag, or the file and the line.
    pub place: String,
    /// The word.
    pub word: String,
    /// What is wrong with it.
    pub fault: WordFault,
    /// Similar names.
    pub near: Vec<String>,
}

impl FaultyWord {
    /// What to do: with an option, or with a key of the policy that has the word.
    #[must_use]
    pub fn advice(&self) -> String {
        match &self.fault {
            WordFault::Planned { name, .. } if !self.place.starts_with("--") => format!(
                "change cpus in the policy, or keep only your word: {name} = false in \
                 [shield.NAME.tunables]"
            ),
            fault => fault.advice(&self.word),
        }
    }
}

impl fmt::Display for FaultyWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?} {}", self.place, self.word, self.fault)
    }
}

/// What is wrong with a kernel parameter that the user wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Sentence)]
#[serde(tag = "fault", rename_all = "kebab-case")]
pub enum WordFault {
    /// is not a single word, or has characters that are special to a boot loader.
    NotPlain,
    /// makes an entry one for {purpose}, and cpushield adds no parameters to such entries.
    MarksEntry {
        /// What the entry would be for.
        purpose: EntryPurpose,
    },
    /// has no name of a parameter after the dot.
    NoParameterName,
    /// does not name CPUs: {why}.
    NotCpuList {
        /// What is wrong with it.
        why: String,
    },
    /// has no value; the kernel does not accept it without one.
    NoValue,
    /// contradicts {other} ({place}).
    GivenTwice {
        /// The other word.
        other: String,
        /// Where the other word is.
        place: String,
    },
    /// contradicts {planned}, which is planned for these CPUs.
    Planned {
        /// The planned word.
        planned: String,
        /// The name of the planned parameter, for `--off`.
        name: String,
    },
    /// is not in kernel-parameters.txt of Linux 6.12, the list that cpushield contains.
    UnknownName,
    /// has a value that no known kernel recognizes; the parameter takes {takes}.
    UnknownValue {
        /// What the parameter takes.
        takes: &'static str,
    },
    /// has the unknown flag {flag}.
    UnknownFlag {
        /// The flag.
        flag: String,
    },
    /// comes from a patch series that no released kernel contains.
    Unreleased {
        /// The page of `explain` about it.
        page: &'static str,
    },
    /// is not a parameter of the chosen kernels: {why}.
    NotInKernels {
        /// Why not.
        why: UnknownReason,
    },
    /// is for module {module}, which kernel {version} does not have.
    NoModule {
        /// The module.
        module: String,
        /// The first of these kernels.
        version: String,
    },
    /// names {parameter}, which module {module} of kernel {version} does not have.
    NoModuleParameter {
        /// The module.
        module: String,
        /// The parameter.
        parameter: String,
        /// The kernel.
        version: String,
    },
    /// cannot be checked: the parameters of {module} in kernel {version} cannot be read: {why}.
    ModuleUnreadable {
        /// The module.
        module: String,
        /// The kernel.
        version: String,
        /// Why.
        why: UnreadableModule,
    },
    /// cannot be checked: there is no /lib/modules/{version}/modules.dep.
    ModulesUnknown {
        /// The kernel.
        version: String,
    },
    /// makes the kernel start only CPU {started}, but the row measures CPU {cpus}.
    CpusNotStarted {
        /// The CPUs that start.
        started: CpuSet,
        /// The measured CPUs that do not.
        cpus: CpuSet,
    },
}

/// Why the parameters of a module cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Sentence)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum UnreadableModule {
    /// only modinfo can read {path}, but it is not installed.
    WithoutModinfo {
        /// The file.
        path: String,
    },
    /// {path}: {why}.
    ModinfoFailed {
        /// The file.
        path: String,
        /// The error.
        why: String,
    },
    /// the module is built in, and there is no modules.builtin.modinfo.
    BuiltIn,
}

impl WordFault {
    /// Whether `--allow-unknown` accepts the word.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        match self {
            WordFault::NotPlain
            | WordFault::MarksEntry { .. }
            | WordFault::NoParameterName
            | WordFault::NotCpuList { .. }
            | WordFault::NoValue
            | WordFault::GivenTwice { .. }
            | WordFault::Planned { .. }
            | WordFault::CpusNotStarted { .. } => false,
            WordFault::UnknownName
            | WordFault::UnknownValue { .. }
            | WordFault::UnknownFlag { .. }
            | WordFault::Unreleased { .. }
            | WordFault::NotInKernels { .. }
            | WordFault::NoModule { .. }
            | WordFault::NoModuleParameter { .. }
            | WordFault::ModuleUnreadable { .. }
            | WordFault::ModulesUnknown { .. } => true,
        }
    }

    /// What to do, where that is known; `word` is the faulty one.
    #[must_use]
    pub fn advice(&self, word: &str) -> String {
        match self {
            WordFault::NotPlain => {
                "write one word of letters, digits and _.,:=/+- such as nohlt or radeon.modeset=0"
                    .to_owned()
            }
            WordFault::MarksEntry { .. } => {
                "omit it; to boot with it once, edit the entry in the menu of the boot loader"
                    .to_owned()
            }
            WordFault::NoParameterName => {
                "write MODULE.PARAMETER=VALUE, such as radeon.modeset=0".to_owned()
            }
            WordFault::NotCpuList { .. } => "a list looks like 3, 2-3 or 2-N".to_owned(),
            WordFault::NoValue => format!("add a CPU list: {word}=2-3"),
            WordFault::GivenTwice { .. } => "omit one of them".to_owned(),
            WordFault::Planned { name, .. } => {
                format!("name the CPUs with --cpus, or keep only your word: --off {name}")
            }
            WordFault::Unreleased { page } => {
                format!(
                    "if your kernel has that patch series: --allow-unknown; about the word: \
                     cpushield explain {page}"
                )
            }
            WordFault::CpusNotStarted { .. } => {
                "raise the limit, or measure only CPUs that the kernel starts".to_owned()
            }
            _ => format!("if the kernel supports {word}: --allow-unknown"),
        }
    }
}
