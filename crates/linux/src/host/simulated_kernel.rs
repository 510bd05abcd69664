//! [`SimulatedKernel`]: what answers the changes of a recorded machine in tests. A recording has no
//! kernel and is read-only.

use super::Host;
use crate::cpuset::CpuSet;
use crate::error::{Operation, Result};
use crate::processes::command_output::CommandOutput;
use crate::sys::sched_policy::SchedPolicy;
use std::any::Any;
use std::fmt::Debug;

/// A kernel that answers by changing the files of the machine. Errors are those of the real one.
pub trait SimulatedKernel: Any + Debug + Send + Sync {
    /// Permits the n-th write, counted from 0.
    fn permit(&self, host: &Host, n: usize, verb: Operation, path: &str) -> Result<()>;
    /// The process of this program.
    fn own_pid(&self) -> Option<i32>;
    /// Writes a value to a kernel file.
    fn write(&self, host: &Host, path: &str, value: &str) -> Result<()>;
    /// Creates the interface files of a new directory.
    fn fill_dir(&self, host: &Host, path: &str) -> Result<()>;
    /// Removes the interface files of a directory, which is removed next.
    fn empty_dir(&self, host: &Host, path: &str) -> Result<()>;
    /// `sched_setaffinity(2)`.
    fn set_affinity(&self, host: &Host, tid: i32, cpus: &CpuSet) -> Result<()>;
    /// `sched_setattr(2)`.
    fn set_policy(&self, host: &Host, tid: i32, policy: SchedPolicy) -> Result<()>;
    /// `prlimit(2)` with the file of the limits: the soft and the hard one.
    fn set_lock_limit(&self, host: &Host, path: &str, limit: [Option<u64>; 2]) -> Result<()>;
    /// `systemctl`, whose whole line is `name`.
    fn systemctl(&self, host: &Host, name: &str, words: &[&str]) -> Result<()>;
    /// The output of a program; `None` if there is no such program.
    fn run(&self, host: &Host, words: &[&str], input: &[u8]) -> Option<CommandOutput>;
    /// Tells irqbalance which CPUs to leave alone.
    fn ban(&self, host: &Host, socket: &str, cpus: Option<&CpuSet>) -> Result<()>;
    /// Makes irqbalance scan.
    fn scan(&self, host: &Host) -> Result<()>;
}
