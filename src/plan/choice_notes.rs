//! What the user should know about the choice of CPUs: its reasons and its warnings. Pure.

use super::groups::{CpuGroup, groups, touched_groups};
use super::sites::exhausted_nodes;
use crate::documents::machine::{CoreKind, Machine};
use crate::documents::plan::{ChoiceReason, ChoiceWarning};
use crate::policy::Siblings;
use cpushield_linux::CpuSet;

/// Reasons and warnings of a choice.
#[derive(Debug, Default)]
pub(super) struct ChoiceNotes {
    pub(super) why: Vec<ChoiceReason>,
    pub(super) warnings: Vec<ChoiceWarning>,
}

impl ChoiceNotes {
    pub(super) fn add_reason(&mut self, reason: ChoiceReason) {
        self.why.push(reason);
    }

    pub(super) fn warn_of_half_core(&mut self, cpus: &CpuSet, siblings: &CpuSet) {
        let (cpus, siblings) = (cpus.clone(), siblings.clone());
        self.warnings.push(ChoiceWarning::CoreShared { cpus, siblings });
    }

    pub(super) fn warn_of_busy_siblings(&mut self, core: &CpuSet) {
        self.warnings.push(ChoiceWarning::SiblingsBusy { core: core.clone() });
    }

    /// Says which siblings programs run on, and what the others do.
    pub(super) fn explain_idle_siblings(
        &mut self,
        work: &CpuSet,
        idle: &CpuSet,
        siblings: Option<Siblings>,
    ) {
        if idle.is_empty() {
            return;
        }
        let (work, idle) = (work.clone(), idle.clone());
        let offline = siblings == Some(Siblings::Offline);
        self.why.push(ChoiceReason::WholeCores { work, idle, offline });
    }

    /// Names the CPUs that share the level-2 cache of the shield.
    pub(super) fn explain_caches(&mut self, machine: &Machine, cpus: &CpuSet) {
        let cluster = touched_groups(&groups(&machine.topology, CpuGroup::L2), cpus);
        let cores = touched_groups(&groups(&machine.topology, CpuGroup::Core), cpus);
        let others = cluster.difference(cpus).difference(&cores);
        if others.is_empty() {
            return;
        }
        let clusters = groups(&machine.topology, CpuGroup::L2);
        if clusters.len() == 1 {
            self.why.push(ChoiceReason::OneCache);
        } else if cluster == machine.topology.online {
            self.why.push(ChoiceReason::EveryCache { caches: clusters.len() });
        } else {
            self.warnings.push(ChoiceWarning::CacheShared { cpus: cpus.clone(), others, cluster });
        }
    }

    /// Says which nodes keep no housekeeping CPU, and what that means.
    pub(super) fn explain_whole_nodes(
        &mut self,
        machine: &Machine,
        cpus: &CpuSet,
        others: &CpuSet,
    ) {
        for (node, all) in exhausted_nodes(machine, cpus, others) {
            if all.is_subset(cpus) {
                self.why.push(ChoiceReason::WholeNode { node, cpus: all });
            }
            self.warnings.push(ChoiceWarning::WholeNode { node });
        }
    }

    /// Warns about performance and efficiency cores in one shield.
    pub(super) fn warn_of_core_kinds(&mut self, machine: &Machine, cpus: &CpuSet) {
        let performance = cpus_of_kind(machine, CoreKind::Performance).intersection(cpus);
        let efficiency = cpus_of_kind(machine, CoreKind::Efficiency).intersection(cpus);
        if performance.is_empty() || efficiency.is_empty() {
            return;
        }
        let source = machine.topology.kind_source.map(|source| source.to_string());
        self.warnings.push(ChoiceWarning::CoreKindsMixed { performance, efficiency, source });
    }
}

fn cpus_of_kind(machine: &Machine, kind: CoreKind) -> CpuSet {
    let cpus = machine.topology.cpus.iter();
    cpus.filter(|cpu| cpu.kind == Some(kind)).map(|cpu| cpu.cpu).collect()
}
