//! What a verdict records about the machine.

use super::firmware::cpuinfo_field;
use crate::documents::evidence::WatchedMachine;
use cpushield_linux::{CpuSet, Host};

/// Reads the facts about this machine. What cannot be read is `None`.
#[must_use]
pub fn read_machine(host: &Host, online: &CpuSet) -> WatchedMachine {
    let cpuinfo = host.read("/proc/cpuinfo").unwrap_or_default();
    WatchedMachine {
        kernel: host.read_line("/proc/sys/kernel/osrelease").ok(),
        cmdline: host.read_line("/proc/cmdline").ok(),
        processor: cpuinfo_field(&cpuinfo, "model name").map(str::to_owned),
        online: online.clone(),
    }
}
