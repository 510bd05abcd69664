//! Which kernels get which words: all chosen ones the same, or each kind its own.

use super::{BootJournal, BootKernel, BootPlan, WantedParameter, WrittenParameters};
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
    /// The words of each kernel; those of a kernel that was installed later are not known.
    #[must_use]
    pub fn of<'a>(groups: &'a [KernelWords], version: &str) -> Option<&'a [String]> {
        let own = groups.iter().find(|group| group.kernels.iter().any(|it| it == version));
        own.map(|group| group.words.as_slice())
    }

    /// One group, where all kernels get the same words.
    fn or_one(groups: &[KernelWords], kernels: &[String], words: &[String]) -> Vec<KernelWords> {
        let one = || KernelWords { kernels: kernels.to_vec(), words: words.to_vec() };
        if groups.is_empty() { vec![one()] } else { groups.to_vec() }
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
    /// The chosen kernels that get words, with those that are still to be written.
    #[must_use]
    pub fn word_groups(&self) -> Vec<KernelWords> {
        let mut groups: Vec<KernelWords> = Vec::new();
        let parameters = self.parameters.iter().filter(|it| !it.already);
        for BootKernel { version, .. } in self.kernels.iter().filter(|it| it.chosen) {
            let own = parameters.clone().filter(|it| it.is_for(version));
            let words: Vec<String> = own.map(|it| it.word.clone()).collect();
            match groups.iter_mut().find(|it| it.words == words) {
                _ if words.is_empty() => {}
                Some(group) => group.kernels.push(version.clone()),
                None => groups.push(KernelWords { kernels: vec![version.clone()], words }),
            }
        }
        groups
    }
}

impl BootJournal {
    /// The chosen kernels with their words.
    #[must_use]
    pub fn word_groups(&self) -> Vec<KernelWords> {
        KernelWords::or_one(&self.groups, &self.kernels, &self.words)
    }
}

impl WrittenParameters {
    /// The kernels with their words.
    #[must_use]
    pub fn word_groups(&self) -> Vec<KernelWords> {
        KernelWords::or_one(&self.groups, &self.kernels, &self.words)
    }
}
