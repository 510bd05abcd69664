//! The kinds of changes: one file for each [`Change`], and [`kind_of`], the only place that selects
//! one. A file reads the original, makes the change and reverts it ([`ChangeKind`]).

mod affinity;
mod cpu_cycle;
mod cpu_offline;
mod give_to_group;
mod irqbalance_ban;
mod keep_affinities;
mod make_dir;
mod move_process;
mod move_tasks;
mod slice;
mod write;

pub use slice::dir as slice_dir;

use super::kind::ChangeKind;
use crate::change::Change;

/// The kind of a change.
#[must_use]
pub fn kind_of(change: &Change) -> Box<dyn ChangeKind + '_> {
    match change {
        Change::Write { path, value, compare, what } => {
            Box::new(write::FileWrite { path, value, compare: *compare, what: *what })
        }
        Change::MakeDir { path } => Box::new(make_dir::NewDirectory { path }),
        Change::Affinity { task, comm, cpus } => {
            Box::new(affinity::TaskAffinity { task: *task, comm, cpus })
        }
        Change::MoveTasks { from, to, keep } => Box::new(move_tasks::TaskMove { from, to, keep }),
        Change::MoveProcess { task, to, .. } => {
            Box::new(move_process::ProcessMove { task: *task, to })
        }
        Change::KeepAffinities => Box::new(keep_affinities::KeptAffinities),
        Change::BanFromIrqbalance { cpus } => Box::new(irqbalance_ban::IrqbalanceBan { cpus }),
        Change::Slice { unit, cpus, mems } => Box::new(slice::ShieldSlice { unit, cpus, mems }),
        Change::GiveToGroup { path, gid } => {
            Box::new(give_to_group::GroupAccess { path, gid: *gid })
        }
        Change::CycleCpu { cpu } => Box::new(cpu_cycle::CpuCycle { cpu: *cpu }),
        Change::OfflineSibling { cpu, sibling } => {
            Box::new(cpu_offline::SiblingOffline { cpu: *cpu, sibling: *sibling })
        }
    }
}
