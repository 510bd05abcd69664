//! A build without the simulator: recorded machines refuse every write.

use crate::error::{Error, Operation, Result};
use crate::host::Host;

impl Host {
    /// Refuses a write to a recorded machine.
    pub(crate) fn permit_write(&self, _n: usize, verb: Operation, path: &str) -> Result<()> {
        if self.is_live() { Ok(()) } else { Err(Error::os(verb, path, libc::EROFS)) }
    }
}
