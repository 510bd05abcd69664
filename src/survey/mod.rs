//! Survey: `Host` → [`Machine`]. Reads everything, decides nothing; what cannot be read is a note
//! with the reason, never a failure and never a zero. Its only writes are those of [`irqs`], which
//! put back what they read.

mod caches;
mod cgroup;
mod command_line;
mod compare;
mod conflicts;
mod devices;
mod firmware;
mod irqs;
mod isolation;
mod kernel;
mod kinds;
mod machine;
mod power;
mod reader;
mod settings;
mod tasks;
mod timers;
mod topology;
mod tracing;
mod virt;

pub use command_line::{
    CommandLineFault, IsolationKind, IsolationSetup, LIST_PER_KIND_SINCE, isolation_setup,
};
pub use compare::{MachineDifference, differences};
pub use machine::*;

use cpushield_linux::{CpuSet, Host};
use reader::SurveyReader;

/// The CPUs alone: which there are, and what they share. Writes nothing.
#[must_use]
pub fn topology(host: &Host) -> Topology {
    topology::topology(&SurveyReader::new(host), None)
}

/// Surveys the machine. `wanted` are the files that tunables ask for; a `*` stands for any name
/// within one directory.
#[must_use]
pub fn survey(host: &Host, wanted: &[&str]) -> Machine {
    survey_beside(host, wanted, &CpuSet::new())
}

/// The same while CPUs are shielded: what would interrupt them is not read or tried, and a note
/// says so.
#[must_use]
pub fn survey_beside(host: &Host, wanted: &[&str], shielded: &CpuSet) -> Machine {
    let r = SurveyReader::new(host);
    let kernel = kernel::kernel(&r);
    let nohz_full = isolation::nohz_full(&r).unwrap_or_default();
    let cpuinfo = if kernel::cpuinfo_asks(&kernel) && !shielded.is_subset(&nohz_full) {
        r.note(
            "/proc/cpuinfo",
            "not read: this kernel would ask each shielded CPU by an interrupt",
        );
        None
    } else {
        r.wanted(r.host.read("/proc/cpuinfo"))
    };
    let topology = topology::topology(&r, cpuinfo.as_deref());
    let mut isolation = isolation::isolation(&r, &kernel, &topology);
    let mounts = cgroup::mounts(&r);
    let (cgroup, partitions) = cgroup::cgroup(&r, &mounts);
    // The file names CPUs of isolcpus= too (seen on 6.12), which are no partition's.
    isolation.partitions = partitions.map(|cpus| cpus.minus(&isolation.isolcpus_domain));
    let (irqs, irq_default) = irqs::irqs(&r, shielded);
    let mut machine = Machine {
        schema: SCHEMA,
        boot_id: r.line("/proc/sys/kernel/random/boot_id"),
        virt: virt::virt(&r, cpuinfo.as_deref(), &kernel.clocksources),
        power: power::power(&r, &topology),
        tracing: tracing::tracing(&r, &mounts),
        devices: devices::devices(&r),
        settings: settings::settings(&r, wanted),
        tasks: tasks::tasks(&r),
        timers: timers::timers(&r, shielded),
        kernel,
        topology,
        isolation,
        cgroup,
        irqs,
        irq_default,
        ..Machine::default()
    };
    machine.conflicts = conflicts::conflicts(&r, &machine);
    machine.firmware = firmware::firmware(&r, &machine);
    machine.notes = r.into_notes();
    machine
}
