//! Findings about words that keep a kernel from making the cpuset of a shield. Pure.

use super::to_line;
use crate::boot::line::to_word;
use crate::documents::boot::LintFinding;
use crate::documents::machine::Machine;
use crate::documents::plan::BootLine;
use crate::survey::{IsolationKind, isolation_setup};
use cpushield_linux::text::cmdline::KernelParam;
use cpushield_linux::text::kernel_version::KernelVersion;

/// What a kernel of this version does with the words on this machine; `list_rules` is the version
/// by whose rules it applies isolation lists. `cgroup_disable=` has a list of controllers
/// (`cgroup_disable()`, kernel/cgroup/cgroup.c, 6.12).
pub(in crate::boot) fn find(
    machine: &Machine,
    params: &[KernelParam],
    version: Option<KernelVersion>,
    list_rules: Option<KernelVersion>,
) -> Vec<LintFinding> {
    let setup = isolation_setup(&to_line(params), &machine.topology.possible, list_rules);
    let cpus = setup.cpus(IsolationKind::Domain);
    let words = setup.taken.iter().filter(|it| it.kinds.contains(&IsolationKind::Domain));
    let words = words.map(|it| it.word.clone()).collect();
    let is_open = !cpus.is_empty() && machine.may_refuse_partition(version);
    let boot = BootLine::new(machine, &cpus);
    let open = is_open.then_some(LintFinding::NoPartition { words, cpus, boot });
    let off = params.iter().filter(|param| {
        let value = param.value.as_deref().filter(|_| param.name == "cgroup_disable");
        value.is_some_and(|value| value.split(',').any(|name| name == "cpuset"))
    });
    open.into_iter().chain(off.map(|it| LintFinding::NoCpusets { word: to_word(it) })).collect()
}
