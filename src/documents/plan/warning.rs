//! [`PlanWarning`]: what the user should know before a plan is applied. Pure.

use super::{ChoiceWarning, CpusetWarning, Disturbance, NamedShield, list_shields};
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::leftovers::Leftovers;
use crate::with_text;
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What the user should know before a plan is applied. All variants have different tags, those of
/// the two enums at the end included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "warning", rename_all = "kebab-case")]
pub enum PlanWarning {
    /// {tunable}: {disturbance}.
    InterruptsShields {
        /// The tunable.
        tunable: String,
        /// The cost.
        disturbance: Disturbance,
    },
    /// {tunable} was requested, but is left out: {disturbance}; --disturb accepts that.
    LeftOut {
        /// The tunable.
        tunable: String,
        /// The cost.
        disturbance: Disturbance,
    },
    /// the settings of {tunable} are restored: {disturbance}.
    ///
    /// That interrupts other active shields, which the user accepts.
    RestoringInterrupts {
        /// The tunable.
        tunable: String,
        /// The cost.
        disturbance: Disturbance,
    },
    /// {tunable} was requested, but does nothing: {reason}.
    RequestInapplicable {
        /// The tunable.
        tunable: String,
        /// Why.
        #[serde(with = "with_text::WithText::<InapplicableReason>")]
        reason: InapplicableReason,
    },
    /// The kernel moves the memory of the shield's programs.
    #[print(write_memory_moves(f, from, to, others))]
    MemoryMoves {
        /// The memory nodes now.
        from: CpuSet,
        /// The new memory nodes.
        to: CpuSet,
        /// The other active shields, which the move interrupts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        others: Vec<NamedShield>,
    },
    /// interrupts and work of the kernel may go to CPU {cpus} of nohz_full=: nothing else is left
    /// there.
    WorkOnTickless {
        /// Where.
        cpus: CpuSet,
    },
    /// kernel threads that are created later may run on CPU {cpus}: without a cpuset, only
    /// isolcpus={cpus} or (before Linux 7.0) nohz_full={cpus} at boot keeps them away; `cpushield
    /// status` shows them.
    NewKthreads {
        /// Where.
        cpus: CpuSet,
    },
    /// Timers that were armed on the shield before stay there.
    #[delegate]
    Leftovers(Leftovers),
    /// on cgroup v1, operators keep the priority and locked-memory limits of their login
    /// (limits.conf(5)); the policy does not set them.
    OperatorLimits,
    /// the tick of CPU {cpu} cannot be stopped, because it keeps the time for all others: shield
    /// other CPUs if the tick matters.
    TickOfBootCpu {
        /// The boot CPU.
        cpu: usize,
    },
    /// without root, cpushield cannot test whether interrupts can be moved: the kernel may refuse
    /// to move some of {count}; run as root to see which.
    IrqsUntried {
        /// Their number.
        count: usize,
    },
    /// About the choice of CPUs.
    #[serde(untagged)]
    #[delegate(from)]
    Choice(ChoiceWarning),
    /// About the cpuset.
    #[serde(untagged)]
    #[delegate(from)]
    Cpuset(CpusetWarning),
}

fn write_memory_moves(
    f: &mut fmt::Formatter<'_>,
    from: &CpuSet,
    to: &CpuSet,
    others: &[NamedShield],
) -> fmt::Result {
    write!(
        f,
        "the shield's memory nodes change from {from} to {to}: the kernel moves the \
                     pages of the shield's programs (since 5.15), which delays these programs; \
                     some pages may stay behind"
    )?;
    if !others.is_empty() {
        let others = list_shields(others);
        write!(f, ". This queues kernel work on every CPU and interrupts {others}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{BootLine, MachineWideEffect, NamedShield, RemoteMemoryReason};
    use super::*;
    use std::collections::BTreeMap;

    fn set(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    /// One warning of each kind.
    fn all() -> Vec<PlanWarning> {
        let tunable = "cpu-hotplug-cycle".to_owned();
        let shields = vec![NamedShield { name: "a".to_owned(), cpus: set("3") }];
        let disturbance = Disturbance { effect: MachineWideEffect::CyclesCpus, shields };
        let reason = InapplicableReason::CpusStayOnline { cpus: set("2") };
        let seen = Some(BTreeMap::from([("psi_timer".to_owned(), 2)]));
        let leftovers = Leftovers {
            cpus: set("3"),
            seen,
            obstacle: Some(InapplicableReason::CpusetLosesCpu),
            others: Vec::new(),
        };
        let (performance, efficiency) = (set("2"), set("3"));
        let source = Some("capacity".to_owned());
        let why = RemoteMemoryReason::NoMemory { nodes: set("1") };
        let choices = [
            ChoiceWarning::BootCpu { cpu: 0 },
            ChoiceWarning::CoreShared { cpus: set("3"), siblings: set("7") },
            ChoiceWarning::SiblingsBusy { core: set("3,7") },
            ChoiceWarning::CacheShared { cpus: set("3"), others: set("2"), cluster: set("2-3") },
            ChoiceWarning::CoreKindsMixed { performance, efficiency, source },
            ChoiceWarning::SeveralNodes,
            ChoiceWarning::NoneNear { device: "eth0".to_owned(), node: Some(2), local: set("4-7") },
            ChoiceWarning::RemoteMemory { mems: set("0"), why },
        ];
        let answer = Some("EINVAL".to_owned());
        let boot = BootLine { wants_nohz_full: true, linuxcnc: true };
        let path = "/sys/fs/cgroup/cpuset/docker".to_owned();
        let cpusets = [
            CpusetWarning::ShieldOpen { cpus: set("3"), scheduled: true },
            CpusetWarning::NoCpusets,
            CpusetWarning::ThreadsElsewhere { programs: vec!["a (1)".to_owned()], cpus: set("3") },
            CpusetWarning::PartitionRefused { cpus: set("3"), answer, boot },
            CpusetWarning::PartitionDoubtful { cpus: set("3"), boot },
            CpusetWarning::CpusetKeepsCpus { path, cpus: set("3") },
            CpusetWarning::Balanced { cpus: set("2-3") },
            CpusetWarning::BalanceWithoutCpuset,
            CpusetWarning::ThreadsPinned { count: 1, cpus: set("3") },
        ];
        let own = [
            PlanWarning::InterruptsShields {
                tunable: tunable.clone(),
                disturbance: disturbance.clone(),
            },
            PlanWarning::RestoringInterrupts {
                tunable: tunable.clone(),
                disturbance: disturbance.clone(),
            },
            PlanWarning::LeftOut { tunable: tunable.clone(), disturbance },
            PlanWarning::RequestInapplicable { tunable, reason },
            PlanWarning::MemoryMoves { from: set("1"), to: set("0"), others: Vec::new() },
            PlanWarning::WorkOnTickless { cpus: set("2") },
            PlanWarning::NewKthreads { cpus: set("3") },
            PlanWarning::Leftovers(leftovers),
            PlanWarning::OperatorLimits,
            PlanWarning::TickOfBootCpu { cpu: 0 },
            PlanWarning::IrqsUntried { count: 1 },
        ];
        let choices = choices.map(PlanWarning::from).into_iter();
        own.into_iter().chain(choices).chain(cpusets.map(PlanWarning::from)).collect()
    }

    #[test]
    fn each_warning_has_its_own_tag() {
        with_text::check_saved("warning", &all());
    }
}
