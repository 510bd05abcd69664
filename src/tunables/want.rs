//! [`WantedChange`]: one change with its now and its reason, and the ways tunables make one. Pure.

use crate::change::{Change, ValueComparison};
use crate::plan::StepReason;
use crate::survey::{Machine, PlacedThread, TunableReading};
use cpushield_linux::CpuSet;

/// One change with its now and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedChange {
    /// What to do.
    pub change: Change,
    /// What is there now.
    pub now: Option<String>,
    /// Why.
    pub reason: StepReason,
    /// The shield is worthless without it.
    pub required: bool,
    /// The machine is like that: nothing needs to be done.
    pub already: bool,
}

impl WantedChange {
    /// A change of which nothing is known about now.
    pub(super) fn new(change: Change, reason: impl Into<StepReason>) -> WantedChange {
        WantedChange { change, now: None, reason: reason.into(), required: false, already: false }
    }

    /// A value for a file of which `now` may be known.
    pub(super) fn over(
        now: Option<String>,
        path: &str,
        value: &str,
        compare: ValueComparison,
        reason: impl Into<StepReason>,
    ) -> WantedChange {
        let already = now.as_deref().is_some_and(|now| compare.already(now, value));
        let change = Change::Write { path: path.to_owned(), value: value.to_owned(), compare };
        WantedChange { now, already, ..WantedChange::new(change, reason) }
    }

    /// A task's affinity.
    pub(super) fn affinity(placed: &PlacedThread, cpus: CpuSet, reason: &str) -> WantedChange {
        let already = placed.affinity == cpus;
        let now = Some(placed.affinity.to_string());
        let task = placed.task.id;
        let change = Change::Affinity { task, comm: placed.task.comm.clone(), cpus };
        WantedChange { now, already, ..WantedChange::new(change, reason) }
    }

    /// The shield is worthless without it.
    pub(super) fn required(self) -> WantedChange {
        WantedChange { required: true, ..self }
    }

    /// Whether a survey can see that it was done.
    #[must_use]
    pub fn shows(&self) -> bool {
        !matches!(
            self.change,
            Change::KeepAffinities | Change::BanFromIrqbalance { .. } | Change::CycleCpu { .. }
        )
    }

    /// The machine is like that.
    pub(super) fn already(self, already: bool) -> WantedChange {
        WantedChange { already, ..self }
    }
}

/// The text of a file that the survey read for a tunable.
pub(super) fn setting<'a>(machine: &'a Machine, path: &str) -> Option<&'a str> {
    machine.settings.get(path).and_then(TunableReading::value)
}

/// Every file that the survey read for a pattern with `*`, with its text.
pub(super) fn settings<'a>(
    machine: &'a Machine,
    pattern: &'a str,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let read = machine.settings.iter().filter(move |(path, _)| matches(pattern, path));
    read.filter_map(|(path, reading)| Some((path.as_str(), reading.value()?)))
}

/// Whether a path is one that the pattern stands for: `*` is any text without a slash.
fn matches(pattern: &str, path: &str) -> bool {
    let (mut words, mut names) = (pattern.split('/'), path.split('/'));
    loop {
        match (words.next(), names.next()) {
            (None, None) => return true,
            (Some(word), Some(name)) => {
                let fits = match word.split_once('*') {
                    None => word == name,
                    Some((head, tail)) => {
                        name.len() >= head.len() + tail.len()
                            && name.starts_with(head)
                            && name.ends_with(tail)
                    }
                };
                if !fits {
                    return false;
                }
            }
            _ => return false,
        }
    }
}

/// `cpus` without the shield; housekeeping when nothing would be left.
pub(super) fn away(cpus: &CpuSet, shield: &crate::plan::Shield) -> CpuSet {
    let rest = cpus.minus(&shield.cpus);
    if rest.is_empty() { shield.housekeeping.clone() } else { rest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_one_name() {
        assert!(matches("/sys/a*/cpumask", "/sys/ab/cpumask"));
        assert!(matches("/proc/irq/*/smp", "/proc/irq/12/smp"));
        assert!(!matches("/proc/irq/*/smp", "/proc/irq/1/2/smp"));
        assert!(!matches("/proc/irq/*", "/proc/irq/1/2"));
        assert!(!matches("/a/rx-*/b", "/a/tx-1/b"));
    }
}
