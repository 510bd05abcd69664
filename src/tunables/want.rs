//! [`WantedChange`]: a change with its current value and its reason, and its constructors. Pure.

use crate::change::{Change, ValueComparison, WrittenFile};
use crate::documents::machine::{Machine, PlacedThread, TunableReading};
use crate::documents::plan::{Shield, StepReason};
use crate::glob;
use cpushield_linux::CpuSet;

/// A change with its current value and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedChange {
    /// The change.
    pub change: Change,
    /// The current value; `None` when it is unknown.
    pub now: Option<String>,
    /// Why.
    pub reason: StepReason,
    /// Whether the shield fails without it.
    pub required: bool,
    /// Whether the machine already has it.
    pub already: bool,
}

impl WantedChange {
    /// A change whose current value is unknown.
    pub(super) fn new(change: Change, reason: impl Into<StepReason>) -> WantedChange {
        WantedChange { change, now: None, reason: reason.into(), required: false, already: false }
    }

    /// A write to a file; `now` is its current text, if known.
    pub(super) fn write(
        now: Option<String>,
        path: &str,
        value: &str,
        compare: ValueComparison,
        reason: impl Into<StepReason>,
    ) -> WantedChange {
        let already = now.as_deref().is_some_and(|now| compare.already(now, value));
        let (path, value, what) = (path.to_owned(), value.to_owned(), WrittenFile::Setting);
        let change = Change::Write { path, value, compare, what };
        WantedChange { now, already, ..WantedChange::new(change, reason) }
    }

    /// A write to a file that the survey read for a tunable.
    pub(super) fn write_setting(
        machine: &Machine,
        path: &str,
        value: &str,
        compare: ValueComparison,
        reason: &str,
    ) -> WantedChange {
        let now = setting(machine, path).map(str::to_owned);
        WantedChange::write(now, path, value, compare, reason)
    }

    /// A change of a task's affinity.
    pub(super) fn affinity(placed: &PlacedThread, cpus: CpuSet, reason: &str) -> WantedChange {
        let already = placed.affinity == cpus;
        let now = Some(placed.affinity.to_string());
        let task = placed.task.id;
        let change = Change::Affinity { task, comm: placed.task.comm.clone(), cpus };
        WantedChange { now, already, ..WantedChange::new(change, reason) }
    }

    /// Says what the file of a cpuset decides.
    pub(super) fn of_cpuset(mut self, file: WrittenFile) -> WantedChange {
        if let Change::Write { what, .. } = &mut self.change {
            *what = file;
        }
        self
    }

    /// Marks the change as required: the shield fails without it.
    pub(super) fn required(self) -> WantedChange {
        WantedChange { required: true, ..self }
    }

    /// Whether a survey can show that it was done.
    #[must_use]
    pub fn shows(&self) -> bool {
        !matches!(
            self.change,
            Change::KeepAffinities | Change::BanFromIrqbalance { .. } | Change::CycleCpu { .. }
        )
    }

    /// Marks the change as one that the machine already has, if the condition is true.
    pub(super) fn already_if(self, already: bool) -> WantedChange {
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
    let read = machine.settings.iter().filter(move |(path, _)| glob::matches_path(pattern, path));
    read.filter_map(|(path, reading)| Some((path.as_str(), reading.value()?)))
}

/// Where a program goes that may run on these CPUs: to the isolated ones among them if it has no
/// others and may stay there, or to those of them that are housekeeping CPUs, or else to all
/// housekeeping CPUs.
pub(super) fn keep_program_off(cpus: &CpuSet, machine: &Machine, shield: &Shield) -> CpuSet {
    let kept = cpus.intersection(&shield.kept());
    let rest = housekeeping_part(cpus, machine, shield);
    match (rest.intersects(&shield.housekeeping), kept.is_empty()) {
        (true, _) => rest,
        (false, false) => kept,
        (false, true) => shield.housekeeping.clone(),
    }
}

/// Where interrupts and work of the kernel go. CPUs of `nohz_full=` get them only where nothing
/// else is left in the node, or in the machine.
pub(super) fn keep_work_off(cpus: &CpuSet, machine: &Machine, shield: &Shield) -> CpuSet {
    if !cpus.intersects(&shield.cpus) && !is_evicted(cpus, machine, shield) {
        return cpus.clone();
    }
    let nodes = machine.topology.nodes.iter().map(|node| &node.cpus);
    let near: CpuSet = nodes.filter(|node| node.intersects(cpus)).collect();
    let rest = housekeeping_part(cpus, machine, shield);
    let near = near.intersection(&shield.housekeeping);
    let open = shield.housekeeping.difference(&shield.tickless);
    let quiet = &shield.tickless;
    let choices = [rest.difference(quiet), near.difference(quiet), rest, near, open];
    let found = choices.into_iter().find(|cpus| cpus.intersects(&shield.housekeeping));
    found.unwrap_or_else(|| shield.housekeeping.clone())
}

/// Without the online CPUs that are no housekeeping CPUs. Possible CPUs that are not online stay in
/// a mask.
fn housekeeping_part(cpus: &CpuSet, machine: &Machine, shield: &Shield) -> CpuSet {
    let others = machine.topology.online.difference(&shield.housekeeping);
    cpus.difference(&others).difference(&shield.cpus)
}

/// Whether what has these CPUs was put on isolated ones, and the request moves it away.
pub(super) fn is_evicted(cpus: &CpuSet, machine: &Machine, shield: &Shield) -> bool {
    let closed = shield.closed.intersection(&machine.isolation.isolcpus_domain);
    shield.evict && !cpus.is_empty() && cpus.is_subset(&closed)
}
