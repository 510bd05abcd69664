//! Which kernels get which words: all chosen ones the same, or each kind its own.

use super::{BootKernel, BootPlan, WantedParameter};
use serde::{Deserialize, Serialize};

/// Kernels that get the same words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct KernelWords {
    /// The kernels.
    pub kernels: Vec<String>,
    /// Their words, without those that they already have.
    pub words: Vec<String>,
}

impl KernelWords {
    /// The words of a kernel; `None`: it is in no group. It may have been installed later.
    #[must_use]
    pub fn of<'a>(groups: &'a [KernelWords], version: &str) -> Option<&'a [String]> {
        let own = groups.iter().find(|group| group.kernels.iter().any(|it| it == version));
        own.map(|group| group.words.as_slice())
    }
}

impl WantedParameter {
    /// Whether this kernel gets it, if it is one of the chosen ones.
    #[must_use]
    pub fn is_for(&self, version: &str) -> bool {
        self.kernels.is_empty() || self.kernels.iter().any(|it| it == version)
    }
}

impl BootPlan {
    /// The chosen kernels with the words that are still to be written; some may get none.
    #[must_use]
    pub fn word_groups(&self) -> Vec<KernelWords> {
        let mut groups: Vec<KernelWords> = Vec::new();
        let parameters = self.parameters.iter().filter(|it| !it.already);
        for BootKernel { version, .. } in self.kernels.iter().filter(|it| it.chosen) {
            let own = parameters.clone().filter(|it| it.is_for(version));
            let words: Vec<String> = own.map(|it| it.word.clone()).collect();
            match groups.iter_mut().find(|it| it.words == words) {
                Some(group) => group.kernels.push(version.clone()),
                None => groups.push(KernelWords { kernels: vec![version.clone()], words }),
            }
        }
        groups
    }

    /// The kernel that a trial boots, with its words: the first one whose entry gets a word that is
    /// not there yet. Only such a word tells the boot of a trial from another one.
    #[must_use]
    pub fn trial_kernel(&self) -> Option<KernelWords> {
        let version = &self.entries.iter().find(|entry| !entry.added.is_empty())?.version;
        let words = KernelWords::of(&self.word_groups(), version)?.to_vec();
        Some(KernelWords { kernels: vec![version.clone()], words })
    }
}
