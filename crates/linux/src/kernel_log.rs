//! The kernel's log.

use crate::error::{Error, Operation, Result};
use crate::fast_read::open;
use crate::host::Host;
use crate::text::kmsg;
use std::io::{ErrorKind, Read};
use std::path::Path;

const KMSG: &str = "/dev/kmsg";

/// A record is at most this long (`PRINTK_MESSAGE_MAX`, kernel/printk/internal.h, 6.12); a read
/// into less fails with EINVAL.
const RECORD_BYTES: usize = 8192;

impl Host {
    /// What the kernel itself said since it started, oldest first, as far as its buffer goes back.
    /// In a recording it is a file with a record a line.
    ///
    /// # Errors
    /// The kernel's error: EPERM without privilege where `kernel.dmesg_restrict` is set.
    pub fn kernel_log(&self) -> Result<Vec<String>> {
        let kept = |record: &str| kmsg::said(record).map(str::to_owned);
        if !self.is_live() {
            return self.read(KMSG).map(|text| text.lines().filter_map(kept).collect());
        }
        let fail = |e| Error::io(Operation::Read, KMSG, e);
        let access = libc::O_RDONLY | libc::O_NONBLOCK;
        let mut file = open(Path::new(KMSG), access).map_err(fail)?;
        let (mut said, mut record) = (Vec::new(), vec![0; RECORD_BYTES]);
        loop {
            match file.read(&mut record) {
                Ok(n) => said.extend(kept(&String::from_utf8_lossy(&record[..n]))),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(said),
                // Overwritten before it was read: the next read goes on behind it.
                Err(e) if matches!(e.raw_os_error(), Some(libc::EPIPE | libc::EINTR)) => {}
                Err(e) => return Err(fail(e)),
            }
        }
    }
}
