//! [`Kernel`]: what a test simulates on a machine: a fault, programs and a process number.

use crate::SimulatedMachine;
use cpushield_linux::error::{Error, ErrorCause, Operation, Result};
use cpushield_linux::{CommandOutput, CpuSet, Host, SchedPolicy, SimulatedKernel};
use std::any::Any;
use std::fmt;
use std::path::Path;

/// The simulation of programs by a test. Arguments: the root of the machine, the command and its
/// input. Returns `None` if there is no such program.
type Programs = dyn Fn(&Path, &[&str], &[u8]) -> Option<CommandOutput> + Send + Sync;

/// The simulated kernel of one host.
#[derive(Default)]
struct Kernel {
    fault: Option<InjectedFault>,
    programs: Option<Box<Programs>>,
    own_pid: Option<i32>,
}

/// What a test makes happen at the n-th write (counted from 0).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InjectedFault {
    /// That write fails with this error number; later ones do not.
    Refuse {
        /// The number of the write.
        at: usize,
        /// The error number.
        errno: i32,
    },
    /// The process is killed before that write: it and all later ones fail with
    /// [`ErrorCause::Stopped`].
    Stop {
        /// The number of the write.
        at: usize,
    },
}

/// A machine that a test can change.
pub trait Simulated {
    /// The same machine with a kernel.
    #[must_use]
    fn simulated(self) -> Self;
    /// The same machine with an injected fault, for tests of failure and roll-back.
    #[must_use]
    fn failing(self, fault: InjectedFault) -> Self;
    /// The same machine with simulated programs. Without this it has none: nothing from a recording
    /// is ever run.
    #[must_use]
    fn with_programs(
        self,
        programs: impl Fn(&Path, &[&str], &[u8]) -> Option<CommandOutput> + Send + Sync + 'static,
    ) -> Self;
    /// The same machine, on which this program is the process with this number.
    #[must_use]
    fn with_own_pid(self, pid: i32) -> Self;
    /// Makes irqbalance scan, and apply the last request.
    ///
    /// # Errors
    /// There is no irqbalance.
    fn simulate_scan(&self) -> Result<()>;
}

impl Simulated for Host {
    fn simulated(mut self) -> Host {
        kernel(&mut self);
        self
    }

    fn failing(mut self, fault: InjectedFault) -> Host {
        kernel(&mut self).fault = Some(fault);
        self
    }

    fn with_programs(
        mut self,
        programs: impl Fn(&Path, &[&str], &[u8]) -> Option<CommandOutput> + Send + Sync + 'static,
    ) -> Host {
        kernel(&mut self).programs = Some(Box::new(programs));
        self
    }

    fn with_own_pid(mut self, pid: i32) -> Host {
        kernel(&mut self).own_pid = Some(pid);
        self
    }

    fn simulate_scan(&self) -> Result<()> {
        SimulatedMachine(self).scan()
    }
}

/// The kernel of a machine, which gets one if it has none.
fn kernel(host: &mut Host) -> &mut Kernel {
    let kernel = host.kernel.get_or_insert_with(|| Box::<Kernel>::default());
    let kernel: &mut dyn Any = kernel.as_mut();
    kernel.downcast_mut().expect("the machine has another kernel")
}

impl SimulatedKernel for Kernel {
    fn permit(&self, host: &Host, n: usize, verb: Operation, path: &str) -> Result<()> {
        match self.fault {
            Some(InjectedFault::Refuse { at, errno }) if n == at => {
                Err(Error::os(verb, path, errno))
            }
            Some(InjectedFault::Stop { at }) if n >= at => {
                Err(Error { verb, path: path.to_owned(), value: None, cause: ErrorCause::Stopped })
            }
            _ => host.recorded_error(verb, path),
        }
    }

    fn own_pid(&self) -> Option<i32> {
        self.own_pid
    }

    fn write(&self, host: &Host, path: &str, value: &str) -> Result<()> {
        SimulatedMachine(host).write(path, value)
    }

    fn fill_dir(&self, host: &Host, path: &str) -> Result<()> {
        SimulatedMachine(host).fill_dir(path)
    }

    fn empty_dir(&self, host: &Host, path: &str) -> Result<()> {
        SimulatedMachine(host).empty_dir(path)
    }

    fn set_affinity(&self, host: &Host, tid: i32, cpus: &CpuSet) -> Result<()> {
        SimulatedMachine(host).set_affinity(tid, cpus)
    }

    fn set_policy(&self, host: &Host, tid: i32, policy: SchedPolicy) -> Result<()> {
        SimulatedMachine(host).set_policy(tid, policy)
    }

    fn set_lock_limit(&self, host: &Host, path: &str, limit: [Option<u64>; 2]) -> Result<()> {
        SimulatedMachine(host).set_lock_limit(path, limit)
    }

    fn systemctl(&self, host: &Host, name: &str, words: &[&str]) -> Result<()> {
        SimulatedMachine(host).systemctl(name, words)
    }

    fn run(&self, host: &Host, words: &[&str], input: &[u8]) -> Option<CommandOutput> {
        self.programs.as_ref()?(&host.local_path("/"), words, input)
    }

    fn ban(&self, host: &Host, socket: &str, cpus: Option<&CpuSet>) -> Result<()> {
        SimulatedMachine(host).ban(socket, cpus)
    }

    fn scan(&self, host: &Host) -> Result<()> {
        SimulatedMachine(host).scan()
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel(fault: {:?})", self.fault)
    }
}
