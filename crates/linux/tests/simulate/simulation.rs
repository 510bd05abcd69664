//! [`Simulation`]: what a test simulates on a recorded machine: a fault, and programs. Plain data.

use crate::processes::command_output::CommandOutput;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// What a test simulates on a recorded machine.
#[derive(Debug, Default)]
pub struct Simulation {
    pub(super) fault: Option<InjectedFault>,
    pub(super) programs: FakePrograms,
    /// The process of this program.
    pub(crate) own_pid: Option<i32>,
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

/// The simulation of programs by a test. Arguments: the root of the recorded machine, the command
/// and its input. Returns `None` if there is no such program.
type FakeAnswer = dyn Fn(&Path, &[&str], &[u8]) -> Option<CommandOutput> + Send + Sync;

/// The programs of a recorded machine.
#[derive(Clone, Default)]
pub struct FakePrograms(pub(super) Option<Arc<FakeAnswer>>);

impl fmt::Debug for FakePrograms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FakePrograms({})", if self.0.is_some() { "by a test" } else { "none" })
    }
}
