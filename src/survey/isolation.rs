//! CPUs that are already isolated: by the command line, by the kernel's files, by partitions.

use super::command_line::{IsolationKind, isolation_setup, running_list_rules};
use super::reader::{CpuSetSpelling, SurveyReader};
use super::{Isolation, Kernel, Topology};
use cpushield_linux::CpuSet;
use cpushield_linux::text::cmdline;

const CPU: &str = "/sys/devices/system/cpu";

pub(super) fn read_isolation(r: &SurveyReader, kernel: &Kernel, topology: &Topology) -> Isolation {
    let last = topology.possible.last();
    let params = kernel.cmdline.as_deref().map(cmdline::parse).unwrap_or_default();
    let mut found = Isolation {
        isolated: r.list(&format!("{CPU}/isolated")),
        nohz_full: read_nohz_full(r),
        unbound_work: r.set(&[("/sys/devices/virtual/workqueue/cpumask", CpuSetSpelling::Mask)]),
        ..Isolation::default()
    };
    found.isolcpus = cmdline::values(&params, "isolcpus").next().map(str::to_owned);
    for value in cmdline::values(&params, "isolcpus") {
        if let Err(error) = cmdline::isolcpus(value, last) {
            r.note("isolcpus= of the command line", format!("refused: {error}"));
        }
    }
    if let Some(line) = &kernel.cmdline {
        let rules = running_list_rules(kernel, &found);
        let setup = isolation_setup(line, &topology.possible, rules);
        found.isolcpus_domain = setup.cpus(IsolationKind::Domain);
        // The kernel says which CPUs it has taken.
        if let Some(isolated) = &found.isolated {
            found.isolcpus_domain = found.isolcpus_domain.intersection(isolated);
        }
        found.managed_irq = setup.cpus(IsolationKind::ManagedIrq);
        // The files came with Linux 4.2 (commits 59f30abe94bf, 6570a9a1ce3a), after `nohz_full=`.
        let no_files = found.nohz_full.is_none() && found.isolated.is_none();
        if no_files && kernel.is_built_to_stop_tick() == Some(true) {
            found.nohz_full = Some(setup.cpus(IsolationKind::Tick));
        }
    }
    // The last one counts: rcu_nocb_setup() (kernel/rcu/tree_nocb.h, 00a611229bfa) starts again.
    if let Some(value) = cmdline::values(&params, "rcu_nocbs").last() {
        let cpus = CpuSet::parse_list(value, last).unwrap_or_else(|error| {
            // rcu_nocb_setup() (kernel/rcu/tree_nocb.h, 6.12) then uses all CPUs.
            r.note("rcu_nocbs= of the command line", format!("{error}; the kernel uses all CPUs"));
            topology.possible.clone()
        });
        found.rcu_nocbs = cpus.intersection(&topology.possible);
    }
    // The kernel offloads the callbacks of nohz_full CPUs too (rcu_organize_nocb_kthreads()).
    if let Some(nohz_full) = &found.nohz_full {
        found.rcu_nocbs = found.rcu_nocbs.union(nohz_full);
    }
    if let Some(value) = cmdline::values(&params, "irqaffinity").last() {
        match CpuSet::parse_list(value, last) {
            Ok(cpus) => found.irqaffinity = Some(cpus.intersection(&topology.possible)),
            Err(error) => r.note("irqaffinity= of the command line", error.to_string()),
        }
    }
    found
}

/// Kernels with `CONFIG_NO_HZ_FULL` but no `nohz_full=` print a null bitmap: `  (null)`, padded.
pub(super) fn read_nohz_full(r: &SurveyReader) -> Option<CpuSet> {
    let path = format!("{CPU}/nohz_full");
    if r.line(&path)?.trim() == "(null)" {
        return Some(CpuSet::new());
    }
    r.list(&path)
}
