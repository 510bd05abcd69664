//! [`EvidenceLimit`]: what `verify` cannot prove about a planned shield, because of the kernel or
//! its command line. Pure.

use crate::documents::evidence::{AbsenceReason, EntryClass, list_classes};
use crate::with_text;
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};

/// What `verify` cannot prove on this machine. Timers that were armed before are a warning of the
/// plan, see [`Leftovers`](crate::documents::leftovers::Leftovers).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "limit", rename_all = "kebab-case")]
pub enum EvidenceLimit {
    /// there is no trace: {reason}. While a program runs, only the kernel's counters see:
    /// {one_witness}. No witness sees: {unwatched}.
    #[with(one_witness = list_classes(one_witness), unwatched = list_classes(unwatched))]
    NoTrace {
        /// Why.
        #[serde(with = "with_text::WithText::<AbsenceReason>")]
        reason: AbsenceReason,
        /// The classes of entries that the counters watch, as the only witness.
        one_witness: Vec<EntryClass>,
        /// The classes that no witness watches.
        unwatched: Vec<EntryClass>,
    },
    /// without nohz_full= on CPU {cpus}, no witness sees these entries of a program: {unwatched}.
    /// `verify --syscalls` watches system calls.
    #[with(unwatched = list_classes(unwatched))]
    EntriesNotTracked {
        /// The CPUs.
        cpus: CpuSet,
        /// The classes that no witness watches there while a program runs.
        unwatched: Vec<EntryClass>,
    },
}

impl EvidenceLimit {
    /// The limit of a kernel that cannot be traced.
    #[must_use]
    pub fn no_trace(reason: AbsenceReason) -> EvidenceLimit {
        let classes = EntryClass::all().filter(|class| *class != EntryClass::UserModeExit);
        let (one_witness, unwatched) =
            classes.partition(|class| !class.witnesses().rows.is_empty());
        EvidenceLimit::NoTrace { reason, one_witness, unwatched }
    }

    /// The limit of CPUs without `nohz_full=`.
    #[must_use]
    pub fn not_tracked(cpus: CpuSet) -> EvidenceLimit {
        let unwatched = vec![EntryClass::OtherException, EntryClass::SystemCall];
        EvidenceLimit::EntriesNotTracked { cpus, unwatched }
    }
}
