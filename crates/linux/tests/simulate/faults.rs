//! Faults that a test injects: the n-th write is refused, or the process is killed before it.

use super::simulation::InjectedFault;
use crate::error::{Error, ErrorCause, Operation, Result};
use crate::host::Host;

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
