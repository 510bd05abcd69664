//! Reading the kernel's log.

use crate::error::{Error, Operation, Result};
use crate::files::fast_read::open;
use crate::host::Host;
use crate::text::kmsg;
use rustix::fs::OFlags;
use std::io::{ErrorKind, Read};
use std::path::Path;

const KMSG: &str = "/dev/kmsg";

/// The maximum length of a record (`PRINTK_MESSAGE_MAX`, kernel/printk/internal.h, 6.12); a read
/// into a shorter buffer fails with EINVAL.
const RECORD_BYTES: usize = 8192;

impl Host {
    /// The messages of the kernel itself since it started, oldest first, as far as its buffer goes
    /// back. In a recording the log is a file with one record per line.
    ///
    /// # Errors
    /// The kernel's error: EPERM without privilege where `kernel.dmesg_restrict` is set.
    pub fn kernel_log(&self) -> Result<Vec<String>> {
        if !self.is_live() {
            let text = self.read(KMSG)?;
            return Ok(text.lines().filter_map(kmsg::kernel_message).map(str::to_owned).collect());
        }
        let access = OFlags::RDONLY | OFlags::NONBLOCK;
        let mut file = open(Path::new(KMSG), access).map_err(Error::on(Operation::Read, KMSG))?;
        let (mut messages, mut record) = (Vec::new(), vec![0; RECORD_BYTES]);
        loop {
            match file.read(&mut record) {
                Ok(n) => {
                    let text = String::from_utf8_lossy(&record[..n]);
                    messages.extend(kmsg::kernel_message(&text).map(str::to_owned));
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(messages),
                // Overwritten before it was read: the next read continues after it.
                Err(e) if matches!(e.raw_os_error(), Some(libc::EPIPE | libc::EINTR)) => {}
                Err(e) => return Err(Error::io(Operation::Read, KMSG, e)),
            }
        }
    }
}
