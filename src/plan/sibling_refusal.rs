//! [`SiblingRefusal`]: why the SMT siblings of a shield cannot be used as requested, with hints.

use super::alternatives::alternatives;
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::Serialize;

/// Why the SMT siblings of a shield cannot be used as requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Sentence)]
#[serde(tag = "tag", rename_all = "kebab-case")]
pub enum SiblingRefusal {
    /// CPU {cpus} shares its core with CPU {siblings}, which is not in the list; to run programs on
    /// all siblings, the shield needs whole cores.
    HalfCore {
        /// The requested CPUs whose core is cut.
        cpus: CpuSet,
        /// Their siblings outside the list.
        siblings: CpuSet,
        /// The request extended to whole cores; `None` if that would take every CPU.
        whole: Option<CpuSet>,
        /// Why the siblings cannot stay idle; `None` if they can.
        holder: Option<Box<SiblingHolder>>,
    },
    /// CPU {cpus} shares its core with CPU {siblings}, which {holder}.
    Taken {
        /// The requested CPUs whose core is cut.
        cpus: CpuSet,
        /// Their siblings outside the list.
        siblings: CpuSet,
        /// What needs one of them.
        holder: SiblingHolder,
    },
    /// --siblings offline takes CPU {cpus} offline, but the tunable offline-siblings is switched
    /// off.
    SwitchedOff {
        /// The siblings.
        cpus: CpuSet,
    },
    /// cannot take CPU {cpus} offline: sysfs has no `online` file for it.
    StayOnline {
        /// These siblings.
        cpus: CpuSet,
    },
    /// taking CPU {cpus} offline would stop all CPUs for a moment, including those of shield
    /// {shields}.
    #[with(shields = shields.join(", "))]
    StopsShields {
        /// The siblings.
        cpus: CpuSet,
        /// The active shields.
        shields: Vec<String>,
    },
}

/// Why an SMT sibling cannot stay idle in a shield.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Sentence)]
#[serde(tag = "holder", rename_all = "kebab-case")]
pub enum SiblingHolder {
    /// is the boot CPU and cannot stay idle.
    BootCpu,
    /// is in shield {name}.
    Shield {
        /// The name of that shield.
        name: String,
    },
}

impl SiblingRefusal {
    /// Whether the request is wrong, so that another request may succeed. Otherwise the machine
    /// lacks something.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            SiblingRefusal::HalfCore { .. }
            | SiblingRefusal::Taken { .. }
            | SiblingRefusal::SwitchedOff { .. } => true,
            SiblingRefusal::StayOnline { .. } | SiblingRefusal::StopsShields { .. } => false,
        }
    }

    /// What to do next.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        let leave_idle = "leave the siblings online and idle: --siblings idle".to_owned();
        match self {
            SiblingRefusal::HalfCore { whole, holder, .. } => {
                let is_taken = matches!(holder.as_deref(), Some(SiblingHolder::Shield { .. }));
                let whole = whole.as_ref().filter(|_| !is_taken);
                let whole =
                    whole.map(|cpus| format!("take the whole core: --siblings use --cpus {cpus}"));
                let idle = "keep the sibling idle: --siblings idle".to_owned();
                let idle = holder.is_none().then_some(idle);
                let share = "share the core with housekeeping CPUs: --siblings share".to_owned();
                alternatives(whole.into_iter().chain(idle).chain([share]))
            }
            SiblingRefusal::Taken { .. } => alternatives([
                "choose CPUs of another core".to_owned(),
                "share the core, which disturbs the shield a little: --siblings share".to_owned(),
            ]),
            SiblingRefusal::SwitchedOff { .. } | SiblingRefusal::StayOnline { .. } => {
                vec![leave_idle]
            }
            SiblingRefusal::StopsShields { shields, .. } => {
                let first = shields.first().cloned().unwrap_or_default();
                let undo =
                    format!("take the other shield down first: cpushield undo --shield {first}");
                alternatives([leave_idle, "accept the interruption: --disturb".to_owned(), undo])
            }
        }
    }
}
