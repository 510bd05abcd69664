//! Whether the CPUs of a row were isolated, by the witnesses of every run. Pure.

use crate::documents::latency::IsolationCheck;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Whether the CPUs of a row were isolated. They were only when three witnesses agreed in every
/// run: the kernel's files, the affinity of PID 1, and busy threads that nothing pins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "isolation", rename_all = "kebab-case")]
pub enum RowIsolation {
    /// No run was checked.
    #[default]
    Unchecked,
    /// The witnesses agree: they were isolated, as the row requests.
    Isolated,
    /// The witnesses agree: they were not isolated, and the row does not request that.
    Ordinary,
    /// The witnesses agree: they were not isolated, although the row requests it.
    NotInForce {
        /// The first such check.
        check: IsolationCheck,
    },
    /// The witnesses agree: they were isolated, although the row does not request it.
    Unrequested {
        /// The first such check.
        check: IsolationCheck,
    },
    /// The witnesses disagree.
    Contradicted {
        /// Whether the row requests isolation.
        requested: bool,
        /// The first such check.
        check: IsolationCheck,
    },
    /// A witness is missing.
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

impl fmt::Display for RowIsolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RowIsolation::Unchecked => f.write_str("the isolation was not checked"),
            RowIsolation::Isolated => {
                f.write_str("isolated, according to three witnesses in every run")
            }
            RowIsolation::Ordinary => f.write_str("not isolated, as requested"),
            RowIsolation::NotInForce { check } => {
                write!(f, "the requested isolation was not in force: {check}")
            }
            RowIsolation::Unrequested { check } => {
                write!(f, "isolated, although the row does not request it: {check}")
            }
            RowIsolation::Contradicted { check, .. } => {
                write!(f, "not counted as isolated, because the witnesses disagree: {check}")
            }
            RowIsolation::Unknown { check } => {
                write!(f, "it is unknown whether the CPUs were isolated: {check}")
            }
        }
    }
}
