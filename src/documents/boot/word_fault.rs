//! What is wrong with a kernel parameter that the user wrote. Pure.

use super::entry_change::EntryPurpose;
use super::reason::UnknownReason;
use cpushield_linux::CpuSet;
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "fault", rename_all = "kebab-case")]
pub enum WordFault {
    /// It has characters that are special to a boot loader, or it is not one word.
    NotPlain,
    /// It makes an entry one for repairs or for a crash dump, which gets no parameters.
    MarksEntry {
        /// What the entry would be for.
        purpose: EntryPurpose,
    },
    /// It names a module, but no parameter of it.
    NoParameterName,
    /// The value is not a CPU list.
    NotCpuList {
        /// What is wrong with it.
        why: String,
    },
    /// It has no value, and the kernel knows it only with one.
    NoValue,
    /// The request has the same parameter with another value.
    GivenTwice {
        /// The other word.
        other: String,
        /// Where the other word is.
        place: String,
    },
    /// The plan has the same parameter with another value.
    Planned {
        /// The planned word.
        planned: String,
        /// The name of the planned parameter, for `--off`.
        name: String,
    },
    /// The kernel's document does not have the name.
    UnknownName,
    /// No kernel is known to take the value.
    UnknownValue {
        /// What the parameter takes.
        takes: &'static str,
    },
    /// `isolcpus=` has a flag that no kernel is known to have.
    UnknownFlag {
        /// The flag.
        flag: String,
    },
    /// Only a patch series has it; no released kernel does.
    Unreleased {
        /// The page of `explain` about it.
        page: &'static str,
    },
    /// No chosen kernel has the parameter.
    NotInKernels {
        /// Why not.
        why: UnknownReason,
    },
    /// No chosen kernel has the module.
    NoModule {
        /// The module.
        module: String,
        /// The first of these kernels.
        version: String,
    },
    /// The module does not have the parameter.
    NoModuleParameter {
        /// The module.
        module: String,
        /// The parameter.
        parameter: String,
        /// The kernel.
        version: String,
    },
    /// The parameters of the module cannot be read, so the name cannot be checked.
    ModuleUnreadable {
        /// The module.
        module: String,
        /// The kernel.
        version: String,
        /// Why.
        why: UnreadableModule,
    },
    /// The modules of the kernel are not installed, so the name cannot be checked.
    ModulesUnknown {
        /// The kernel.
        version: String,
    },
    /// With the word, the kernel starts without CPUs that are measured.
    CpusNotStarted {
        /// The CPUs that start.
        started: CpuSet,
        /// The measured CPUs that do not.
        cpus: CpuSet,
    },
}

/// Why the parameters of a module cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum UnreadableModule {
    /// Its file is compressed, and there is no program `modinfo` to read it.
    WithoutModinfo {
        /// The file.
        path: String,
    },
    /// `modinfo` cannot read its file.
    ModinfoFailed {
        /// The file.
        path: String,
        /// The error.
        why: String,
    },
    /// It is part of a kernel that does not list the parameters of such modules.
    BuiltIn,
}

impl fmt::Display for UnreadableModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnreadableModule::WithoutModinfo { path } => {
                write!(f, "only modinfo can read {path}, but it is not installed")
            }
            UnreadableModule::ModinfoFailed { path, why } => write!(f, "{path}: {why}"),
            UnreadableModule::BuiltIn => {
                f.write_str("the module is built in, and there is no modules.builtin.modinfo")
            }
        }
    }
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

impl fmt::Display for WordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WordFault::NotPlain => f.write_str(
                "is not a single word, or has characters that are special to a boot loader",
            ),
            WordFault::MarksEntry { purpose } => write!(
                f,
                "makes an entry one for {purpose}, and cpushield adds no parameters to such entries"
            ),
            WordFault::NoParameterName => f.write_str("has no name of a parameter after the dot"),
            WordFault::NotCpuList { why } => write!(f, "does not name CPUs: {why}"),
            WordFault::NoValue => {
                f.write_str("has no value; the kernel does not accept it without one")
            }
            WordFault::GivenTwice { other, place } => write!(f, "contradicts {other} ({place})"),
            WordFault::Planned { planned, .. } => {
                write!(f, "contradicts {planned}, which is planned for these CPUs")
            }
            WordFault::UnknownName => f.write_str(
                "is not in kernel-parameters.txt of Linux 6.12, the list that cpushield contains",
            ),
            WordFault::UnknownValue { takes } => {
                write!(
                    f,
                    "has a value that no known kernel recognizes; the parameter takes {takes}"
                )
            }
            WordFault::UnknownFlag { flag } => write!(f, "has the unknown flag {flag}"),
            WordFault::Unreleased { .. } => {
                f.write_str("comes from a patch series that no released kernel contains")
            }
            WordFault::NotInKernels { why } => {
                write!(f, "is not a parameter of the chosen kernels: {why}")
            }
            WordFault::NoModule { module, version } => {
                write!(f, "is for module {module}, which kernel {version} does not have")
            }
            WordFault::NoModuleParameter { module, parameter, version } => {
                write!(
                    f,
                    "names {parameter}, which module {module} of kernel {version} does not have"
                )
            }
            WordFault::ModuleUnreadable { module, version, why } => write!(
                f,
                "cannot be checked: the parameters of {module} in kernel {version} cannot be read: \
                 {why}"
            ),
            WordFault::CpusNotStarted { started, cpus } => write!(
                f,
                "makes the kernel start only CPU {started}, but the row measures CPU {cpus}"
            ),
            WordFault::ModulesUnknown { version } => {
                write!(f, "cannot be checked: there is no /lib/modules/{version}/modules.dep")
            }
        }
    }
}
