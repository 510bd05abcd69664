//! Faults that a test injects: the n-th write is refused, or the process is killed before it.

use crate::error::{Error, ErrorCause, Operation, Result};
use crate::host::Host;

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

impl Host {
    /// The same host with an injected fault, for tests of failure and roll-back.
    #[must_use]
    pub fn failing(mut self, fault: InjectedFault) -> Host {
        self.simulation.fault = Some(fault);
        self
    }

    /// Permits the write with this number, unless the test or the recording refuses it.
    pub(crate) fn permit_write(&self, n: usize, verb: Operation, path: &str) -> Result<()> {
        match self.simulation.fault {
            Some(InjectedFault::Refuse { at, errno }) if n == at => {
                Err(Error::os(verb, path, errno))
            }
            Some(InjectedFault::Stop { at }) if n >= at => {
                Err(Error { verb, path: path.to_owned(), value: None, cause: ErrorCause::Stopped })
            }
            _ => self.recorded_error(verb, path),
        }
    }
}
