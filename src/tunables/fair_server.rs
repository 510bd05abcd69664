//! `fair-server`: switches off the deadline servers for ordinary tasks on the shield. Pure.

use super::want::setting;
use super::{Tunable, WantedChange, WantedChanges};
use crate::causes::Cause;
use crate::causes::culprit::{CulpritPattern, TickDependency};
use crate::change::{Risk, ValueComparison};
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::machine::Machine;
use crate::documents::plan::Shield;
use cpushield_linux::text::first_releases;

const FILES: &[&str] = &[
    "/sys/kernel/debug/sched/fair_server/cpu*/runtime",
    "/sys/kernel/debug/sched/ext_server/cpu*/runtime",
];

/// The servers, with the reason to switch each off.
const SERVERS: [(&str, &str); 2] = [
    ("fair_server", "its timer fires at least once a second on a busy CPU"),
    ("ext_server", "with a sched_ext scheduler, its timer fires as often as the fair server's"),
];

pub(super) const FAIR_SERVER: Tunable = Tunable {
    name: "fair-server",
    summary: "switch off the deadline servers for ordinary tasks on the shield",
    page: "\
Since 6.12 each CPU has a deadline server that gives ordinary tasks 50 ms of each second when
real-time tasks leave them no time. Its timer also fires on CPUs that run only ordinary tasks, and
on some kernels it restarts the tick of a `nohz_full` CPU. A runtime of 0 switches it off for one
CPU. Since 7.0 a second deadline server, the ext server, does the same for the tasks of a sched_ext
scheduler. cpushield switches off both, because a sched_ext scheduler can be loaded at any time.

cpushield does this before the CPUs become a partition, because the kernel checks the write against
the deadline bandwidth of the CPU's scheduling domain. A CPU outside all domains has no bandwidth to
return, so the write would fail. Some kernels lose track of that bandwidth when an earlier shield or
another program rebuilds the domains. They then refuse the write with EBUSY. A retry cannot help,
because the root domain no longer has the bandwidth that the write would return. A reboot or a CPU
hotplug cycle (`--on cpu-hotplug-cycle`) fixes that.

Cost: on the shield, a real-time task that never sleeps then starves the ordinary tasks of its CPU,
such as kworkers. A task that waits for such a kworker waits forever. The kernel logs a warning when
a server is switched off.

Source: kernel/sched/deadline.c (dl_server, dl_server_apply_params()) and sched_fair_server_write()
in kernel/sched/debug.c (6.12); sched_init_dl_servers() and debugfs_ext_server_init() there (7.0,
commits cd959a356205 and 76d12132ba45); the commit \"sched/deadline: Restore dl_server bandwidth on
non-destructive root domain changes\" fixes the lost bandwidth. The files are in debugfs.",
    reads: FILES,
    removes: &[Cause::Hrtimer, Cause::Tick],
    culprits: &[
        CulpritPattern::Function("dl_task_timer"),
        CulpritPattern::Function("dl_server"),
        CulpritPattern::Function("inactive_task_timer"),
        CulpritPattern::TickKeptBy(TickDependency::Scheduler),
    ],
    risk: Risk::Medium,
    wants,
    ..Tunable::PLAIN
};

fn wants(machine: &Machine, shield: &Shield) -> WantedChanges {
    let cpus = shield.online_cpus();
    let wanted = SERVERS.iter().flat_map(|(server, reason)| {
        cpus.iter().filter_map(move |cpu| {
            let path = format!("/sys/kernel/debug/sched/{server}/cpu{cpu}/runtime");
            let now = setting(machine, &path)?.to_owned();
            Some(WantedChange::write(Some(now), &path, "0", ValueComparison::Text, *reason))
        })
    });
    let wanted: Vec<WantedChange> = wanted.collect();
    match (wanted.is_empty(), machine.kernel.version) {
        (false, _) => WantedChanges::Changes(wanted),
        (true, Some(version)) if version < first_releases::FAIR_SERVER => {
            WantedChanges::Nothing(InapplicableReason::NoFairServer)
        }
        (true, _) => WantedChanges::Nothing(InapplicableReason::FairServerUnseen),
    }
}
