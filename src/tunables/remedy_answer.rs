//! [`RemedyAnswer`]: whether and how an interruption can be removed. Plain data.

use crate::documents::remedy::{Remedy, RemedyObstacle};

/// Whether and how an interruption can be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemedyAnswer {
    /// This removes it.
    Remedy(Remedy),
    /// A tunable would remove it, but does nothing on this machine.
    Impossible(RemedyObstacle),
    /// No known tunable removes it.
    Unknown,
}

impl RemedyAnswer {
    /// The remedy, if there is one.
    #[must_use]
    pub fn remedy(self) -> Option<Remedy> {
        match self {
            RemedyAnswer::Remedy(remedy) => Some(remedy),
            RemedyAnswer::Impossible(_) | RemedyAnswer::Unknown => None,
        }
    }
}
