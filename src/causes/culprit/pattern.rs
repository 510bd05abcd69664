//! [`CulpritPattern`]: matches culprits of one kind. Pure.

use super::{Culprit, KernelEvent, RaisedBy, TickDependency};

/// A pattern for culprits, used by tunables and by pages of `explain`. Names are the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CulpritPattern {
    /// A function whose name contains this, or what such a function raised.
    Function(&'static str),
    /// A kernel thread whose name starts with this.
    Kthread(&'static str),
    /// A softirq of this name.
    Softirq(&'static str),
    /// A device interrupt, or what it raised.
    AnyIrq,
    /// A work item of an unbound kworker.
    UnboundWork,
    /// What the kernel reports without a name.
    Event(KernelEvent),
    /// The tick, kept for this.
    TickKeptBy(TickDependency),
}

impl CulpritPattern {
    /// Whether a culprit matches.
    #[must_use]
    pub fn matches(self, culprit: &Culprit) -> bool {
        match (self, culprit) {
            (CulpritPattern::Kthread(begin), Culprit::Kthread { comm }) => comm.starts_with(begin),
            (CulpritPattern::Softirq(wanted), Culprit::Softirq { name, .. }) => name == wanted,
            (CulpritPattern::AnyIrq, Culprit::Irq { .. }) => true,
            (CulpritPattern::Event(wanted), Culprit::Event { event }) => *event == wanted,
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
