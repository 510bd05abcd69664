//! Other programs that are tracing this machine. They can disable the events that a watch records,
//! and enabling events interrupts every CPU. A watch warns about them before it begins.

use cpushield_linux::Host;
use cpushield_linux::trace::tracefs::instance_owners;
use std::fmt;

/// Programs that use the kernel's tracers, by command name.
const TRACERS: &[&str] = &["trace-cmd", "perf", "rtla", "bpftrace", "kernelshark"];

/// A program that is tracing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherTracer {
    /// Its command name.
    pub comm: String,
    /// Its process number.
    pub pid: i32,
}

impl fmt::Display for OtherTracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.comm, self.pid)
    }
}

/// The tracing programs that run now, without this process.
#[must_use]
pub fn other_tracers(host: &Host) -> Vec<OtherTracer> {
    let own_pid = host.own_pid();
    let owners = instance_owners(host);
    let mut found = Vec::new();
    for task in host.tasks().unwrap_or_default() {
        let traces = TRACERS.contains(&task.comm.as_str()) || owners.contains(&task.pid);
        if traces && task.id.tid == task.pid && Some(task.pid) != own_pid {
            found.push(OtherTracer { comm: task.comm, pid: task.pid });
        }
    }
    found
}
