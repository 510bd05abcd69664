//! Counting events with `perf_event_open(2)`: on one CPU, for any task, without sampling. Opening,
//! reading and closing interrupt that CPU (kernel/events/core.c, `perf_install_in_context()`,
//! `perf_event_read()` and `perf_remove_from_context()`, 4.17 to 6.18); in between nothing does.
//! The events do not keep the tick, because only events with a frequency do
//! (`account_freq_event_nohz()`).

use crate::error::Operation;
use crate::host::Host;
use crate::sys::input_poll::read_array;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};

/// The start of `struct perf_event_attr` (include/uapi/linux/perf_event.h), version 0; the rest is
/// zero.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
struct PerfEventAttr {
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

const _: () = assert!(size_of::<PerfEventAttr>() == 64);

/// `PERF_TYPE_SOFTWARE`, `PERF_TYPE_TRACEPOINT` and `PERF_TYPE_RAW`.
const SOFTWARE: u32 = 1;
const TRACEPOINT: u32 = 2;
const RAW: u32 = 4;
/// The bit `pinned` of the flags: the event is always counted, or reading it fails.
const PINNED: u64 = 1 << 2;
/// `PERF_FORMAT_TOTAL_TIME_ENABLED`, `PERF_FORMAT_TOTAL_TIME_RUNNING` and `PERF_FORMAT_GROUP`.
const GROUP_FORMAT: u64 = 1 | 1 << 1 | 1 << 3;

/// An event to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerfEvent {
    kind: u32,
    config: u64,
    flags: u64,
}

impl PerfEvent {
    /// `PERF_COUNT_SW_CPU_CLOCK`, which needs neither a timer nor a static key unless it samples.
    /// Reading it interrupts its CPU exactly once, unless that CPU is idle and polls: since 5.8 the
    /// kernel then sends no IPI (commit b2a02fc43a1f; `call_function_single_prep_ipi()`,
    /// kernel/sched/core.c, 6.12).
    pub const CPU_CLOCK: PerfEvent = PerfEvent { kind: SOFTWARE, config: 0, flags: 0 };

    /// An event of the processor, by the number in the processor's manual.
    #[must_use]
    pub const fn raw(number: u64) -> PerfEvent {
        PerfEvent { kind: RAW, config: number, flags: PINNED }
    }

    /// A tracepoint, by the number after `ID:` in its `format` file. perf counts it independently
    /// (`perf_swevent_event()`, kernel/events/core.c, 4.17 to 7.2): neither `tracing_on` nor the
    /// filters of a tracing instance affect it.
    #[must_use]
    pub const fn tracepoint(id: u16) -> PerfEvent {
        PerfEvent { kind: TRACEPOINT, config: id as u64, flags: 0 }
    }
}

/// Opens an event for any task on one CPU, and logs that.
fn open_on(
    host: &Host,
    cpu: usize,
    event: PerfEvent,
    read_format: u64,
    group: Option<&File>,
) -> io::Result<File> {
    let answer = call_perf_event_open(cpu, event, read_format, group);
    let PerfEvent { kind, config, .. } = event;
    let what = format!("perf_event_open(2) on CPU {cpu}, type {kind}, config {config}");
    host.log_io(Operation::Call, &what, answer)
}

/// Calls `perf_event_open(2)` for any task on one CPU.
fn call_perf_event_open(
    cpu: usize,
    event: PerfEvent,
    read_format: u64,
    group: Option<&File>,
) -> io::Result<File> {
    let PerfEvent { kind, config, flags } = event;
    let attr =
        PerfEventAttr { kind, size: 64, config, flags, read_format, ..PerfEventAttr::default() };
    let cpu = libc::c_int::try_from(cpu).map_err(|_| io::ErrorKind::InvalidInput)?;
    let group = group.map_or(-1, AsRawFd::as_raw_fd);
    // SAFETY: `attr` is valid for reads of the size that it states; the other arguments are
    // numbers: any task, this CPU, the leader of a group or none, close on exec. The answer is a
    // new file descriptor with no other owner.
    unsafe {
        let answer = libc::syscall(libc::SYS_perf_event_open, &raw const attr, -1, cpu, group, 8);
        match i32::try_from(answer) {
            Ok(fd) if fd >= 0 => Ok(File::from_raw_fd(fd)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// An event of one CPU, counted as long as this value exists.
#[derive(Debug)]
pub struct CpuEvent {
    file: File,
}

impl CpuEvent {
    /// Starts to count.
    ///
    /// # Errors
    /// The kernel's error: EACCES without the privilege (`perf_event_paranoid`), ENOSYS without
    /// perf, ENOENT or EOPNOTSUPP if the kernel cannot count it.
    pub fn open(host: &Host, cpu: usize, event: PerfEvent) -> io::Result<CpuEvent> {
        open_on(host, cpu, event, 0, None).map(|file| CpuEvent { file })
    }

    /// How often the event occurred since it was opened.
    ///
    /// # Errors
    /// The kernel's error; `UnexpectedEof` if a pinned event lost its counter to another one.
    pub fn read(&self) -> io::Result<u64> {
        Ok(u64::from_ne_bytes(read_array(&self.file)?))
    }
}

/// Events of one CPU, counted together as long as this value exists.
#[derive(Debug)]
pub struct EventGroup {
    leader: File,
    /// They count for as long as they are open.
    members: Vec<File>,
    len: usize,
}

/// The counts of a group since it was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupReading {
    /// Nanoseconds for which the group was enabled; stops when its CPU goes offline.
    pub enabled_ns: u64,
    /// Nanoseconds for which the group was counted.
    pub running_ns: u64,
    /// One count for each event, in the order in which they were given. Fewer if the kernel
    /// dissolved the group, which it does when its CPU goes offline (`perf_event_exit_cpu()`).
    pub counts: Vec<u64>,
}

impl EventGroup {
    /// Starts to count these events; there must be at least one.
    ///
    /// # Errors
    /// As [`CpuEvent::open`]; EMFILE if this process may not open so many files.
    pub fn open(host: &Host, cpu: usize, events: &[PerfEvent]) -> io::Result<EventGroup> {
        let (first, others) = events.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let leader = open_on(host, cpu, *first, GROUP_FORMAT, None)?;
        let open_member =
            |event: &PerfEvent| open_on(host, cpu, *event, GROUP_FORMAT, Some(&leader));
        let members = others.iter().map(open_member).collect::<io::Result<_>>()?;
        Ok(EventGroup { leader, members, len: events.len() })
    }

    /// Its files. It counts until they are closed.
    pub fn into_files(self) -> impl Iterator<Item = File> {
        self.members.into_iter().chain([self.leader])
    }

    /// Reads all counts at the same moment. Interrupts the CPU once (`perf_event_read()` calls
    /// `smp_call_function_single()`).
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read(&self) -> io::Result<GroupReading> {
        let mut bytes = vec![0; (3 + self.len) * 8];
        let filled = (&self.leader).read(&mut bytes)?;
        let mut words = bytes[..filled].chunks_exact(8).map(|word| {
            u64::from_ne_bytes(word.try_into().unwrap_or_default()) // always 8 bytes
        });
        let header = [words.next(), words.next(), words.next()];
        let [Some(_), Some(enabled_ns), Some(running_ns)] = header else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        Ok(GroupReading { enabled_ns, running_ns, counts: words.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::not_run::not_run;
    use crate::sys::sched;
    use std::time::Duration;

    #[test]
    fn an_event_is_counted_on_its_cpu_once_it_is_open() {
        // `PERF_COUNT_SW_CONTEXT_SWITCHES`: a thread that sleeps is switched away.
        let switches = PerfEvent { kind: SOFTWARE, config: 3, flags: PINNED };
        let cpus = sched::affinity(0).unwrap();
        let cpu = cpus.iter().next().unwrap();
        let job = move || {
            sched::set_affinity(0, &crate::CpuSet::single(cpu)).unwrap();
            let event = CpuEvent::open(&Host::live(), cpu, switches)?;
            let before = event.read()?;
            for _ in 0..20 {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok::<_, io::Error>((before, event.read()?))
        };
        match std::thread::spawn(job).join().unwrap() {
            Ok((before, after)) => assert!(after >= before + 20, "{before} {after}"),
            Err(error) => not_run(&format!("no permission to count, or no perf: {error}")),
        }
        let error = CpuEvent::open(&Host::live(), usize::MAX, switches).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn the_counts_of_a_group_are_read_at_one_moment() {
        let switches = PerfEvent { kind: SOFTWARE, config: 3, flags: 0 };
        let cpu = sched::affinity(0).unwrap().iter().next().unwrap();
        let job = move || {
            sched::set_affinity(0, &crate::CpuSet::single(cpu)).unwrap();
            let group = EventGroup::open(&Host::live(), cpu, &[switches, PerfEvent::CPU_CLOCK])?;
            let before = group.read()?;
            for _ in 0..20 {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok::<_, io::Error>((before, group.read()?))
        };
        match std::thread::spawn(job).join().unwrap() {
            Ok((before, after)) => {
                assert_eq!((before.counts.len(), after.counts.len()), (2, 2));
                assert!(after.counts[0] >= before.counts[0] + 20, "{before:?} {after:?}");
                let enabled = after.enabled_ns - before.enabled_ns;
                assert!(enabled >= 20_000_000, "{before:?} {after:?}");
                assert_eq!(enabled, after.running_ns - before.running_ns);
            }
            Err(error) => not_run(&format!("no permission to count, or no perf: {error}")),
        }
        let none = EventGroup::open(&Host::live(), cpu, &[]).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::InvalidInput);
    }
}
