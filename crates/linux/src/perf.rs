//! The one use of `perf_event_open(2)`: a software clock of one CPU, because reading it makes the
//! kernel interrupt that CPU exactly once (kernel/events/core.c, `perf_event_read()`, 4.17 to
//! 6.18).

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;

/// The first bytes of `struct perf_event_attr` (include/uapi/linux/perf_event.h), version 0; the
/// rest stays zero.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    breakpoint_address: u64,
}

const _: () = assert!(size_of::<Attr>() == 64);

/// `PERF_TYPE_SOFTWARE`; its event 0, `PERF_COUNT_SW_CPU_CLOCK`, needs neither a timer nor a static
/// key as long as it does not sample.
const SOFTWARE: u32 = 1;

/// A clock of one CPU that runs in the kernel.
#[derive(Debug)]
pub struct CpuClock {
    file: File,
}

impl CpuClock {
    /// Starts it, which interrupts the CPU; so does dropping it.
    ///
    /// # Errors
    /// The kernel's answer: EACCES without the right (`perf_event_paranoid`), ENOSYS without perf.
    pub fn open(cpu: usize) -> io::Result<CpuClock> {
        let attr = Attr { kind: SOFTWARE, size: 64, ..Attr::default() };
        let cpu = libc::c_int::try_from(cpu).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: `attr` is valid for reads of the size it states; the other arguments are numbers:
        // any task, this CPU, no group, close on exec.
        let fd =
            unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attr, -1, cpu, -1, 8) };
        match i32::try_from(fd) {
            // SAFETY: a new file descriptor that nobody else owns.
            Ok(fd) if fd >= 0 => Ok(CpuClock { file: unsafe { File::from_raw_fd(fd) } }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Reads it: one function-call IPI to its CPU, which the kernel waits for.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn read(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        (&self.file).read_exact(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}
