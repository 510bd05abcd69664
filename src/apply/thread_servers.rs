//! The deadline servers, which give ordinary threads of a CPU some time despite real-time tasks:
//! the fair server (6.12), and since 7.0 the ext server for the threads of a sched_ext scheduler
//! (sched_init_dl_servers() in kernel/sched/deadline.c, debugfs_ext_server_init() in
//! kernel/sched/debug.c, 7.0; commits cd959a356205 and 76d12132ba45).
//!
//! A server may be one that the kernel cannot stop. Its share of a CPU is part of the bandwidth of
//! the CPU's root domain. Where domains are rebuilt and one stays as it is, kernels without the
//! commit "sched/deadline: Restore dl_server bandwidth on non-destructive root domain changes"
//! count that domain again without its servers; a share can then not be given back, and the write
//! is answered with EBUSY (`dl_server_apply_params()` and `__dl_overflow()` in
//! kernel/sched/deadline.c, `partition_sched_domains_locked()` in kernel/sched/topology.c,
//! `dl_rebuild_rd_accounting()` in kernel/cgroup/cpuset.c, 6.12). An earlier shield is enough for
//! that. Nothing is done about it: a share that was taken back in a partition that is `root` for a
//! moment could not be given again by undo (seen on 6.12-rt).

use crate::change::RefusalKind;
use cpushield_linux::Host;

/// Whether a sched_ext scheduler has all ordinary threads, those of the kernel too (`1`), or only
/// those of SCHED_EXT (scx_attr_switch_all_show() in kernel/sched/ext.c, 6.12).
const SWITCH_ALL: &str = "/sys/kernel/sched_ext/switch_all";

/// A deadline server of ordinary threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadServer {
    /// The fair server.
    Fair,
    /// The ext server.
    Ext,
}

impl ThreadServer {
    const ALL: [ThreadServer; 2] = [ThreadServer::Fair, ThreadServer::Ext];

    /// The server for the ordinary threads of the kernel.
    #[must_use]
    pub fn of_kernel_threads(host: &Host) -> ThreadServer {
        match host.read_line(SWITCH_ALL).as_deref() {
            Ok("1") => ThreadServer::Ext,
            _ => ThreadServer::Fair,
        }
    }

    /// Its name in texts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ThreadServer::Fair => "fair server",
            ThreadServer::Ext => "ext server",
        }
    }

    /// The time that it gives ordinary threads of a CPU in each period; `None` where the kernel
    /// shows no deadline servers. Kernels before 7.0 have no ext server, so nothing serves the
    /// threads of a sched_ext scheduler there.
    #[must_use]
    pub fn runtime_ns(self, host: &Host, cpu: usize) -> Option<u64> {
        let read =
            |server: ThreadServer| -> Option<u64> { host.read_value(&server.runtime_file(cpu)) };
        let fair = read(ThreadServer::Fair)?;
        Some(match self {
            ThreadServer::Fair => fair,
            ThreadServer::Ext => read(ThreadServer::Ext).unwrap_or(0),
        })
    }

    /// The server and the CPU of a file with a runtime.
    pub(super) fn of_runtime_file(path: &str) -> Option<(ThreadServer, usize)> {
        ThreadServer::ALL.into_iter().find_map(|server| {
            let cpu = path.strip_prefix(server.directory())?.strip_suffix("/runtime")?;
            Some((server, cpu.parse().ok()?))
        })
    }

    fn runtime_file(self, cpu: usize) -> String {
        format!("{}{cpu}/runtime", self.directory())
    }

    /// Its directories, up to the number of the CPU.
    fn directory(self) -> &'static str {
        match self {
            ThreadServer::Fair => "/sys/kernel/debug/sched/fair_server/cpu",
            ThreadServer::Ext => "/sys/kernel/debug/sched/ext_server/cpu",
        }
    }
}

/// Explains a refusal; `None` where it has another cause.
pub(super) fn explain_refusal(path: &str, kind: RefusalKind, reason: &str) -> Option<String> {
    let of_server = ThreadServer::of_runtime_file(path).is_some();
    (of_server && kind == RefusalKind::Busy).then(|| {
        format!(
            "{reason}: this kernel lost track of the bandwidth of this CPU's deadline server when \
             it rebuilt scheduling domains, and cannot release it now; reboot, or take the CPU \
             offline and online again (--on cpu-hotplug-cycle)"
        )
    })
}
