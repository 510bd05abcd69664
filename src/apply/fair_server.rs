//! A fair server that the kernel cannot stop. Its share of a CPU is part of the bandwidth of
//! the CPU's root domain. Where domains are rebuilt and one stays as it is, kernels without the
//! commit "sched/deadline: Restore dl_server bandwidth on non-destructive root domain changes"
//! count that domain again without its servers; a share can then not be given back, and the write
//! is answered with EBUSY (`dl_server_apply_params()` and `__dl_overflow()` in
//! kernel/sched/deadline.c, `partition_sched_domains_locked()` in kernel/sched/topology.c,
//! `dl_rebuild_rd_accounting()` in kernel/cgroup/cpuset.c, 6.12). An earlier shield is enough for
//! that. Nothing is done about it: a share that was taken back in a partition that is `root` for a
//! moment could not be given again by undo (seen on 6.12-rt).

use crate::change::RefusalKind;

/// The directories of the servers, up to the number of the CPU.
pub(super) const FAIR_SERVER: &str = "/sys/kernel/debug/sched/fair_server/cpu";

/// Explains a refusal; `None` where it has another cause.
pub(super) fn explain_refusal(path: &str, kind: RefusalKind, reason: &str) -> Option<String> {
    let of_server = path.starts_with(FAIR_SERVER);
    (of_server && kind == RefusalKind::Busy).then(|| {
        format!(
            "{reason}: when scheduling domains were rebuilt, this kernel forgot the share of this \
             CPU's server, and now cannot take the share back; reboot, or take the CPU offline \
             and online again (--on cpu-hotplug-cycle)"
        )
    })
}
