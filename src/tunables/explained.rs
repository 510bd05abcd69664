//! The pages of `explain` about tunables, and about what they remove: causes, culprits, senders and
//! topics.

use super::{TUNABLES, Tunable, removers};
use crate::causes::Cause;
use crate::causes::known::KnownCulprit;
use crate::causes::purpose::FunctionGroup;
use crate::causes::topics::Topic;
use crate::glob;
use crate::registry::{ExplainPage, ExplainedEntry, RegistryEntry};

impl RegistryEntry for &'static Tunable {
    fn key(self) -> &'static str {
        self.name
    }
}

impl ExplainedEntry for &'static Tunable {
    fn explain(self) -> ExplainPage {
        ExplainPage {
            removes: Some(self.removes.iter().map(|cause| cause.name()).collect()),
            risk: Some(self.risk),
            when: Some(self.when),
            ..ExplainPage::new("tunable", self.name, self.summary, self.page)
        }
    }
}

/// The tunable that reads or writes a file, by the path of the file, the end of its path, or its
/// name as a sysctl with dots. Single words without `_` are too general: many files have them.
#[must_use]
pub fn of_file(name: &str) -> Option<&'static Tunable> {
    let name = name.trim();
    if !name.contains(['_', '.', '/']) {
        return None;
    }
    let as_path = name.replace('.', "/");
    let is_it = |file: &&str| ends_with_path(file, name) || ends_with_path(file, &as_path);
    TUNABLES.iter().copied().find(|tunable| tunable.reads.iter().any(is_it))
}

/// Whether the last names in a pattern of paths match those of a path.
fn ends_with_path(pattern: &str, path: &str) -> bool {
    let count = path.split('/').count();
    let mut last: Vec<&str> = pattern.rsplit('/').take(count).collect();
    last.reverse();
    glob::matches_path(&last.join("/"), path)
}

impl ExplainedEntry for Cause {
    fn explain(self) -> ExplainPage {
        let mut removed_by = removers(self);
        if self == Cause::Irq {
            removed_by.push("isolcpus=managed_irq (at boot)");
        }
        ExplainPage {
            removed_by: Some(removed_by),
            ..ExplainPage::new("cause", self.name(), self.summary(), self.page())
        }
    }
}

impl ExplainedEntry for &'static KnownCulprit {
    /// One line, its cause, and the tunables that remove this cause and name the culprit.
    fn explain(self) -> ExplainPage {
        let culprit = self.culprit();
        let removers: Vec<_> = TUNABLES
            .iter()
            .filter(|tunable| tunable.removes.contains(&self.cause))
            .filter(|tunable| tunable.culprits.iter().any(|named| named.matches(&culprit)))
            .map(|tunable| tunable.name)
            .collect();
        let KnownCulprit { name, what, source, cause } = self;
        let text = format!(
            "cpushield counts it as `{cause}` ({}). `cpushield explain {cause}` describes this \
             cause and what removes it.\n\nSource: {source}.",
            cause.summary()
        );
        ExplainPage {
            removed_by: (!removers.is_empty()).then_some(removers),
            ..ExplainPage::new("culprit", *name, what, text)
        }
    }
}

impl ExplainedEntry for &'static FunctionGroup {
    /// A kernel function that interrupts other CPUs, and what avoids it.
    fn explain(self) -> ExplainPage {
        let remedy = match self.remedy {
            "" => "The only way to avoid these interrupts is to avoid the operation.".to_owned(),
            remedy => format!("Remedy: {remedy}."),
        };
        let text = format!(
            "While this function runs, the kernel interrupts other CPUs: they call a function \
             (`cpushield explain ipi-call`) or reschedule (`cpushield explain ipi-reschedule`).\n\n\
             {remedy}\n\nSource: {}.",
            self.source
        );
        ExplainPage::new("sender", self.function, self.operation.text(), text)
    }
}

impl ExplainedEntry for &'static Topic {
    fn explain(self) -> ExplainPage {
        ExplainPage::new("cause", self.name, self.summary, self.text)
    }
}
