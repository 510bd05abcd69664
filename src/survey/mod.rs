//! Survey: `Host` and the file patterns of the tunables → [`Machine`]. Reads everything and decides
//! nothing. A file that cannot be read becomes a note with the reason, never an error and never a
//! zero. Its only writes are those of [`irqs`], which write back what they read. The order of the
//! subjects is in `survey_with_shield`.
//!
//! A fact that CPUs share is read from one of them. What remains grows with the machine
//! (`tests/recorded/survey_cost.rs` has the limits):
//! - per core three files: its threads, the sharers of its level-2 cache and its highest frequency.
//!   No file lists these for all cores. Cores of one model can have different frequencies, so no
//!   other fact replaces them. They are not read where PMUs show the core types, or where no driver
//!   sets frequencies.
//! - per CPU three files: `online`, `power/pm_qos_resume_latency_us` and the governor; on 6.12 and
//!   later also the runtime of the fair server. The kernel has them per CPU only, and each can
//!   differ between CPUs. CPUs of one frequency policy share the governor.
//! - per interrupt two files: its affinity, and the CPUs that it is delivered to.

mod advice;
mod assumed;
mod caches;
mod cgroup;
mod command_line;
mod compare;
mod conflicts;
mod devices;
mod exclusive_cpusets;
mod firmware;
mod irqs;
mod isolation;
mod kernel;
mod kinds;
pub mod other_tools;
mod power;
mod reader;
mod realtime_kernel;
mod settings;
mod tasks;
mod timers;
mod topology;
mod tracing;
mod virt;

pub use crate::documents::command_line_fault::CommandLineFault;
pub use crate::documents::machine::*;
pub use crate::documents::machine_difference::MachineDifference;
pub use command_line::{
    IsolationKind, IsolationSetup, isolation_setup, list_rules, running_list_rules,
};
pub use compare::differences;
pub use exclusive_cpusets::{exclusive_cpusets, is_of_cset};
pub use realtime_kernel::{COKERNEL_NAMES, REALTIME_OPTIONS, named_cokernel, realtime_option};

use advice::{AdviceSource, read_advice};
use cpushield_linux::{CpuSet, Host};
use reader::SurveyReader;

/// Reads only the CPU topology. Writes nothing.
#[must_use]
pub fn topology(host: &Host) -> Topology {
    topology::read_topology(&SurveyReader::new(host), None)
}

/// Surveys only the kernel, its CPUs, and what is isolated. Writes nothing, and interrupts no CPU.
#[must_use]
pub fn survey_isolation(host: &Host) -> Machine {
    let r = SurveyReader::new(host);
    read_boot(&r)
}

/// Surveys what the command line of the running kernel is about: as [`survey_isolation`], and the
/// default IRQ affinity, the tasks and the cgroups.
#[must_use]
pub fn survey_boot(host: &Host) -> Machine {
    let r = SurveyReader::new(host);
    let (cgroup, _) = cgroup::read_cgroup(&r, &cgroup::read_mounts(&r));
    let tasks = tasks::read_tasks(&r, &cgroup);
    let (irq_default, linuxcnc) = (irqs::read_default(&r), r.host.exists(RTAPI_APP));
    Machine { irq_default, tasks, cgroup, linuxcnc, ..read_boot(&r) }
}

/// The program of LinuxCNC's real-time threads.
const RTAPI_APP: &str = "/usr/bin/rtapi_app";

/// What the kernel was booted with.
fn read_boot(r: &SurveyReader) -> Machine {
    let kernel = kernel::read_kernel(r);
    let topology = topology::read_topology(r, None);
    let isolation = isolation::read_isolation(r, &kernel, &topology);
    Machine { schema: SCHEMA, kernel, topology, isolation, ..Machine::default() }
}

/// Surveys the machine. `wanted` are the files that tunables need; a `*` matches any name within
/// one directory.
#[must_use]
pub fn survey(host: &Host, wanted: &[&str]) -> Machine {
    survey_with_shield(host, wanted, &CpuSet::new())
}

/// Surveys the machine while CPUs are shielded: anything that would interrupt them is not read or
/// tried, and a note says so.
#[must_use]
pub fn survey_with_shield(host: &Host, wanted: &[&str], shielded: &CpuSet) -> Machine {
    let r = SurveyReader::new(host);
    let kernel = kernel::read_kernel(&r);
    let nohz_full = isolation::read_nohz_full(&r).unwrap_or_default();
    let cpuinfo = if kernel::cpuinfo_interrupts(&kernel) && !shielded.is_subset(&nohz_full) {
        r.note(
            "/proc/cpuinfo",
            "not read, because this kernel would then interrupt each shielded CPU",
        );
        None
    } else {
        r.required(r.host.read("/proc/cpuinfo"))
    };
    let topology = topology::read_topology(&r, cpuinfo.as_deref());
    let mut isolation = isolation::read_isolation(&r, &kernel, &topology);
    let mounts = cgroup::read_mounts(&r);
    let (cgroup, partitions) = cgroup::read_cgroup(&r, &mounts);
    // The file includes CPUs of isolcpus= (seen on 6.12), which belong to no partition.
    isolation.partitions = partitions.map(|cpus| cpus.difference(&isolation.isolcpus_domain));
    let (irqs, irq_default) = irqs::read_irqs(&r, shielded, &isolation.isolcpus_domain);
    let mut machine = Machine {
        schema: SCHEMA,
        boot_id: r.line("/proc/sys/kernel/random/boot_id"),
        virt: virt::read_virt(&r, cpuinfo.as_deref(), &kernel.clocksources),
        power: power::read_power(&r, &topology),
        tracing: tracing::read_tracing(&r, &mounts, kernel.version),
        devices: devices::read_devices(&r),
        settings: settings::read_settings(&r, wanted),
        tasks: tasks::read_tasks(&r, &cgroup),
        timers: timers::read_timers(&r, shielded),
        own_processes: tasks::own_processes(r.host),
        linuxcnc: r.host.exists(RTAPI_APP),
        kernel,
        topology,
        isolation,
        cgroup,
        irqs,
        irq_default,
        ..Machine::default()
    };
    machine.conflicts = conflicts::find_conflicts(&r, &machine);
    machine.firmware = firmware::check_firmware(&r, &machine);
    let source = AdviceSource { r: &r, machine: &machine, cpuinfo: cpuinfo.as_deref() };
    let (advice, unobserved) = read_advice(&source);
    machine.firmware.extend(advice);
    machine.unobserved = unobserved;
    machine.notes = r.into_notes();
    machine
}
