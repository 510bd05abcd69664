//! The uses of `perf_event_open(2)`: an event of one CPU, whatever runs there, that is counted and
//! never sampled. Opening, reading and closing interrupt that CPU (kernel/events/core.c,
//! `perf_install_in_context()`, `perf_event_read()` and `perf_remove_from_context()`, 4.17 to
//! 6.18); in between nothing does, and the tick is not kept, for that only events with a frequency
//! do (`account_freq_event_nohz()`).

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

/// `PERF_TYPE_SOFTWARE` and `PERF_TYPE_RAW`.
const SOFTWARE: u32 = 1;
const RAW: u32 = 4;
/// The bit `pinned` of the flags: the event is counted all the time, or reading it ends at once.
const PINNED: u64 = 1 << 2;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    kind: u32,
    config: u64,
    flags: u64,
}

impl Event {
    /// `PERF_COUNT_SW_CPU_CLOCK`, which needs neither a timer nor a static key as long as it does
    /// not sample; reading it interrupts its CPU exactly once.
    pub const CPU_CLOCK: Event = Event { kind: SOFTWARE, config: 0, flags: 0 };

    /// An event of the processor, by the number that its manual gives it.
    #[must_use]
    pub const fn of_processor(number: u64) -> Event {
        Event { kind: RAW, config: number, flags: PINNED }
    }
}

/// An event of one CPU that is counted for as long as this exists.
#[derive(Debug)]
pub struct CpuEvent {
    file: File,
}

impl CpuEvent {
    /// Begins to count.
    ///
    /// # Errors
    /// The kernel's answer: EACCES without the right (`perf_event_paranoid`), ENOSYS without perf,
    /// ENOENT or EOPNOTSUPP where the kernel cannot count it.
    pub fn open(cpu: usize, event: Event) -> io::Result<CpuEvent> {
        let Event { kind, config, flags } = event;
        let attr = Attr { kind, size: 64, config, flags, ..Attr::default() };
        let cpu = libc::c_int::try_from(cpu).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: `attr` is valid for reads of the size it states; the other arguments are numbers:
        // any task, this CPU, no group, close on exec.
        let fd =
            unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attr, -1, cpu, -1, 8) };
        match i32::try_from(fd) {
            // SAFETY: a new file descriptor that nobody else owns.
            Ok(fd) if fd >= 0 => Ok(CpuEvent { file: unsafe { File::from_raw_fd(fd) } }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// How often it was since it was opened.
    ///
    /// # Errors
    /// The kernel's answer; `UnexpectedEof` where a pinned event lost its counter to another one.
    pub fn read(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        (&self.file).read_exact(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched;
    use std::time::Duration;

    #[test]
    fn an_event_is_counted_on_its_cpu_from_its_opening_on() {
        // `PERF_COUNT_SW_CONTEXT_SWITCHES`: a thread that sleeps is switched away.
        let switches = Event { kind: SOFTWARE, config: 3, flags: PINNED };
        let cpus = sched::affinity(0).unwrap();
        let cpu = cpus.iter().next().unwrap();
        let job = move || {
            sched::set_affinity(0, &crate::CpuSet::one(cpu)).unwrap();
            let event = CpuEvent::open(cpu, switches)?;
            let before = event.read()?;
            for _ in 0..20 {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok::<_, io::Error>((before, event.read()?))
        };
        match std::thread::spawn(job).join().unwrap() {
            Ok((before, after)) => assert!(after >= before + 20, "{before} {after}"),
            Err(error) => println!("NOT RUN: no right to count, or no perf: {error}"),
        }
        let error = CpuEvent::open(usize::MAX, switches).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
