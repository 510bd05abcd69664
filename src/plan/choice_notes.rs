//! What the user should know about the choice of CPUs: its reasons and its warnings. Pure.

use super::groups::{CpuGroup, groups, named, touched_groups};
use crate::policy::Siblings;
use crate::survey::{CoreKind, Machine};
use cpushield_linux::CpuSet;

/// Sentences about the choice, for the user.
#[derive(Debug, Default)]
pub(super) struct ChoiceNotes {
    pub(super) why: Vec<String>,
    pub(super) warnings: Vec<String>,
}

impl ChoiceNotes {
    pub(super) fn add_reason(&mut self, sentence: String) {
        self.why.push(sentence);
    }

    pub(super) fn warn_of_half_core(&mut self, cpus: &CpuSet, siblings: &CpuSet) {
        self.warnings.push(format!(
            "{} shares a core with {}, a housekeeping CPU whose work slows it down \
             (accepted by --siblings share)",
            named(cpus),
            named(siblings)
        ));
    }

    pub(super) fn warn_of_busy_siblings(&mut self, core: &CpuSet) {
        self.warnings.push(format!(
            "{} are SMT siblings of one core: two programs there slow each other down; to keep one \
             idle: --siblings idle",
            named(core)
        ));
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
        let what = match (siblings, idle.len()) {
            (Some(Siblings::Offline), 1) => "its SMT sibling is taken offline",
            (Some(Siblings::Offline), _) => "SMT siblings are taken offline",
            (_, 1) => "its SMT sibling stays idle",
            (_, _) => "SMT siblings stay idle",
        };
        let (work, idle) = (named(work), named(idle));
        self.why.push(format!("Whole cores: work runs on {work}; {what}: {idle}."));
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
            self.why.push(
                "All CPUs share one L2 cache, so the shield cannot have its own: memory \
                 accesses of housekeeping CPUs can slow it down."
                    .to_owned(),
            );
        } else if cluster == machine.topology.online {
            self.why.push(format!(
                "The shield has a CPU of every L2 cache ({} of them), so each cache is shared with \
                 other CPUs, whose memory accesses can slow the shield down.",
                clusters.len()
            ));
        } else {
            self.warnings.push(format!(
                "{} shares an L2 cache with {}, which is not shielded; for the lowest latency, take \
                 the whole cluster: --cpus {cluster}",
                named(cpus),
                named(&others)
            ));
        }
    }

    /// Warns about performance and efficiency cores in one shield.
    pub(super) fn warn_of_core_kinds(&mut self, machine: &Machine, cpus: &CpuSet) {
        let performance = cpus_of_kind(machine, CoreKind::Performance).intersection(cpus);
        let efficiency = cpus_of_kind(machine, CoreKind::Efficiency).intersection(cpus);
        if performance.is_empty() || efficiency.is_empty() {
            return;
        }
        let source = machine.topology.kind_source;
        let source = source.map(|source| format!(" (known by {source})")).unwrap_or_default();
        self.warnings.push(format!(
            "performance cores ({}) and efficiency cores ({}) in one shield{source}: the same \
             work takes longer on the latter",
            named(&performance),
            named(&efficiency)
        ));
    }
}

fn cpus_of_kind(machine: &Machine, kind: CoreKind) -> CpuSet {
    let cpus = machine.topology.cpus.iter();
    cpus.filter(|cpu| cpu.kind == Some(kind)).map(|cpu| cpu.cpu).collect()
}
