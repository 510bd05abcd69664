//! Whether the CPUs of a row were isolated, by the witnesses of every run. Pure.

use crate::documents::latency::IsolationCheck;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};

/// Whether the CPUs of a row were isolated. They were only when three witnesses agreed in every
/// run: the kernel's files, the affinity of PID 1, and busy threads that nothing pins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "isolation", rename_all = "kebab-case")]
pub enum RowIsolation {
    /// the isolation was not checked.
    Unchecked,
    /// isolated, according to three witnesses in every run.
    Isolated,
    /// not isolated, as requested.
    Ordinary,
    /// the requested isolation was not in force: {check}.
    NotInForce {
        /// The first such check.
        check: IsolationCheck,
    },
    /// isolated, although the row does not request it: {check}.
    Unrequested {
        /// The first such check.
        check: IsolationCheck,
    },
    /// not counted as isolated, because the witnesses disagree: {check}.
    Contradicted {
        /// Whether the row requests isolation.
        requested: bool,
        /// The first such check.
        check: IsolationCheck,
    },
    /// it is unknown whether the CPUs were isolated: {check}.
    Unknown {
        /// The first such check.
        check: IsolationCheck,
    },
}

impl RowIsolation {
    /// A higher rank in one run decides about the row.
    #[must_use]
    pub fn rank(&self) -> u8 {
        match self {
            RowIsolation::Unchecked => 0,
            RowIsolation::Isolated | RowIsolation::Ordinary => 1,
            RowIsolation::Unknown { .. } => 2,
            RowIsolation::Unrequested { .. } => 3,
            RowIsolation::Contradicted { .. } => 4,
            RowIsolation::NotInForce { .. } => 5,
        }
    }

    /// Whether the figures of the row are marked: the row is not what it says.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        self.rank() > 1
    }

    /// Whether the figures do not belong to the requested configuration, so that no conclusion is
    /// drawn from them.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        matches!(
            self,
            RowIsolation::NotInForce { .. } | RowIsolation::Contradicted { requested: true, .. }
        )
    }
}
