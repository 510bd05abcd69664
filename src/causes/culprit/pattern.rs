//! [`CulpritPattern`]: culprits of one kind. Pure.

use super::{Culprit, RaisedBy, TickDependency};

/// Culprits of one kind, as a tunable or a page of `explain` names them. Names are the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CulpritPattern {
    /// A function whose name contains this, or what such a function raised.
    Function(&'static str),
    /// A kernel thread whose name begins with this.
    Kthread(&'static str),
    /// A softirq of this name.
    Softirq(&'static str),
    /// A device interrupt, or what it raised.
    AnyIrq,
    /// A work item of a kworker that belongs to no CPU.
    UnboundWork,
    /// The tick, kept for this.
    TickKeptBy(TickDependency),
}

impl CulpritPattern {
    /// Whether a culprit is of this kind.
    #[must_use]
    pub fn matches(self, culprit: &Culprit) -> bool {
        match (self, culprit) {
            (CulpritPattern::Kthread(begin), Culprit::Kthread { comm }) => comm.starts_with(begin),
            (CulpritPattern::Softirq(wanted), Culprit::Softirq { name, .. }) => name == wanted,
            (CulpritPattern::AnyIrq, Culprit::Irq { .. }) => true,
            (CulpritPattern::AnyIrq, _) => {
                matches!(culprit.raised_by(), Some(RaisedBy::Irq { .. }))
            }
            (CulpritPattern::UnboundWork, Culprit::Work { unbound, .. }) => *unbound,
            (CulpritPattern::TickKeptBy(wanted), Culprit::Tick { kept_by, .. }) => {
                kept_by.contains(&wanted)
            }
            (CulpritPattern::Function(part), _) => {
                let raiser = match culprit.raised_by() {
                    Some(RaisedBy::Function { name }) => Some(name.as_str()),
                    _ => None,
                };
                culprit.kernel_function().or(raiser).is_some_and(|name| name.contains(part))
            }
            _ => false,
        }
    }
}
