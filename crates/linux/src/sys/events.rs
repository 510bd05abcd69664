//! What a measuring thread can wait for besides sleeping: a timer file, the real-time clock, a
//! futex in shared memory, an event file.

use crate::error::Operation;
use crate::host::Host;
use crate::sys::clock::timespec;
use crate::sys::device_request::DeviceRequest;
use crate::sys::input_poll::read_array;
use crate::sys::sched;
use crate::sys::sched_policy::SchedPolicy;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use rustix::thread::futex;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// A periodic timer that is a file (timerfd_create(2)).
#[derive(Debug)]
pub struct TimerFile {
    file: File,
}

impl TimerFile {
    /// Creates a timer that expires first at this time of `CLOCK_MONOTONIC`, then once a period.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new(first_ns: u64, period_ns: u64) -> io::Result<TimerFile> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        let time = Itimerspec { it_interval: timespec(period_ns)?, it_value: timespec(first_ns)? };
        timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &time)?;
        Ok(TimerFile { file: timer.into() })
    }

    /// Waits until it expires. Returns how often it has expired since the last call.
    ///
    /// # Errors
    /// The kernel's error.
    #[inline]
    pub fn wait(&mut self) -> io::Result<u64> {
        Ok(u64::from_ne_bytes(read_array(&self.file)?))
    }
}

/// How long the timer callback of the clock may take; usually it takes microseconds.
const CALLBACK: Duration = Duration::from_millis(2);

/// The real-time clock's device, which only one program at a time can open.
#[derive(Debug)]
pub struct RtcDevice {
    file: File,
}

impl RtcDevice {
    /// The path of the device.
    pub const PATH: &str = "/dev/rtc0";

    /// Opens it.
    ///
    /// # Errors
    /// The kernel's error: ENOENT without the device, EBUSY when another program has it open.
    pub fn open(host: &Host) -> io::Result<RtcDevice> {
        let file = File::open(RtcDevice::PATH);
        let file = host.log_io(Operation::Read, RtcDevice::PATH, file)?;
        Ok(RtcDevice { file })
    }

    /// Sets how many events a second the device reports once [`RtcDevice::start`] was called.
    ///
    /// # Errors
    /// The kernel's error: EACCES above `/sys/class/rtc/rtc0/max_user_freq` without the privilege,
    /// EINVAL above 8192.
    pub fn set_rate(&mut self, hertz: u64) -> io::Result<()> {
        let hertz = hertz.try_into().map_err(io::Error::other)?;
        DeviceRequest::RtcRate(hertz).make(&self.file)
    }

    /// Starts the periodic events; the first one comes after one period. Takes long when another
    /// process reads the clock at the same time: both hold `ops_lock` of the device
    /// (drivers/rtc/dev.c, 2.6.38 to 6.12).
    ///
    /// # Errors
    /// The kernel's error.
    pub fn start(&mut self) -> io::Result<()> {
        DeviceRequest::RtcStart.make(&self.file)
    }

    /// Waits for a periodic event. Returns how many came since the last call.
    ///
    /// # Errors
    /// The kernel's error.
    #[inline]
    pub fn wait(&mut self) -> io::Result<RtcTicks> {
        loop {
            if let Some(ticks) =
                RtcTicks::decode(libc::c_ulong::from_ne_bytes(read_array(&self.file)?))
            {
                return Ok(ticks);
            }
        }
    }
}

/// Periodic events of the real-time clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtcTicks {
    /// How many there were.
    pub count: u64,
    /// Whether alarms or updates, which other programs request, are among them.
    pub is_mixed: bool,
}

impl RtcTicks {
    /// Decodes what was read: the number of events of all kinds, and the kinds in the lowest byte
    /// (rtc(4); rtc_handle_legacy_irq() in drivers/rtc/interface.c). `None` without a periodic one.
    #[inline]
    fn decode(word: libc::c_ulong) -> Option<RtcTicks> {
        /// include/uapi/linux/rtc.h: `RTC_PF`, `RTC_AF`, `RTC_UF`.
        const PERIODIC: libc::c_ulong = 0x40;
        const OTHERS: libc::c_ulong = 0x20 | 0x10;
        let is_mixed = word & OTHERS != 0;
        (word & PERIODIC != 0).then(|| RtcTicks { count: (word >> 8).max(1), is_mixed })
    }
}

impl Drop for RtcDevice {
    fn drop(&mut self) {
        // rtc_irq_set_state() spins until the timer's callback is not running
        // (drivers/rtc/interface.c, 2.6.38 to 6.12). On PREEMPT_RT the callback is a thread. A
        // real-time thread that it woke may have preempted it, and then neither would ever finish.
        // Closing the device does the same (rtc_dev_release()). So this thread gets an ordinary
        // policy first.
        let policy = sched::policy(0);
        let lowered = policy.as_ref().is_ok_and(|policy| policy.rt_priority() > 0)
            && sched::set_policy(0, SchedPolicy::Other { nice: 0 }).is_ok();
        if lowered {
            // A callback that it had preempted is done by then.
            std::thread::sleep(CALLBACK);
        }
        let _ = DeviceRequest::RtcStop.make(&self.file);
        if let (true, Ok(policy)) = (lowered, policy) {
            let _ = sched::set_policy(0, policy);
        }
    }
}

/// A counter that is a file (eventfd(2)): a reader sleeps while it is 0.
#[derive(Debug)]
pub struct EventFile {
    file: File,
}

impl EventFile {
    /// Creates a counter at 0.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new() -> io::Result<EventFile> {
        Ok(EventFile { file: eventfd(0, EventfdFlags::CLOEXEC)?.into() })
    }

    /// Opens the one with this file descriptor of another process (pidfd_getfd(2), Linux 5.6). It
    /// has no inode of its own, so it cannot be opened by `/proc/PID/fd`.
    ///
    /// # Errors
    /// The kernel's error: ENOSYS before 5.6, EPERM where ptrace(2) would not be allowed either.
    pub fn open(pid: i32, number: i32) -> io::Result<EventFile> {
        let pid = Pid::from_raw(pid.max(0)).ok_or(Errno::SRCH)?;
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        let file = pidfd_getfd(process, number, PidfdGetfdFlags::empty())?;
        Ok(EventFile { file: file.into() })
    }

    /// Its file descriptor, by which another process of the same user opens it.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// Adds 1, which wakes the reader.
    ///
    /// # Errors
    /// The kernel's error.
    #[inline]
    pub fn add(&self) -> io::Result<()> {
        (&self.file).write_all(&1_u64.to_ne_bytes())
    }

    /// Waits until the counter is more than 0, returns it, and resets it to 0.
    ///
    /// # Errors
    /// The kernel's error.
    #[inline]
    pub fn wait(&self) -> io::Result<u64> {
        Ok(u64::from_ne_bytes(read_array(&self.file)?))
    }
}

/// Sleeps until [`wake`] is called on the word; returns at once if the word has another value. The
/// caller of [`wake`] may be in another process. May return spuriously.
///
/// # Errors
/// The kernel's error.
#[inline]
pub fn wait_while(word: &AtomicU32, value: u32) -> io::Result<()> {
    // Without PRIVATE, because the other process has another address for the word.
    match futex::wait(word, futex::Flags::empty(), value, None) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Wakes a thread that sleeps on the word.
#[inline]
pub fn wake(word: &AtomicU32) {
    // Waking no thread is not an error.
    let _ = futex::wake(word, futex::Flags::empty(), 1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock::monotonic_ns;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_timer_file_counts_missed_expirations() {
        let first = monotonic_ns() + 1_000_000;
        let mut timer = TimerFile::new(first, 1_000_000).unwrap();
        assert!(timer.wait().unwrap() >= 1 && monotonic_ns() >= first);
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert!(timer.wait().unwrap() >= 4);
    }

    #[test]
    fn an_alarm_of_the_clock_is_not_a_periodic_event() {
        let ticks = |count, is_mixed| Some(RtcTicks { count, is_mixed });
        assert_eq!(RtcTicks::decode(0x1c0), ticks(1, false));
        assert_eq!(RtcTicks::decode(0x3c0), ticks(3, false));
        assert_eq!(RtcTicks::decode(0x2e0), ticks(2, true));
        assert_eq!((RtcTicks::decode(0x1a0), RtcTicks::decode(0x190)), (None, None));
    }

    #[test]
    fn a_futex_wakes_its_sleeper_and_another_value_prevents_the_sleep() {
        let word = AtomicU32::new(0);
        wait_while(&word, 1).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(5));
                word.store(1, Ordering::Release);
                wake(&word);
            });
            while word.load(Ordering::Acquire) == 0 {
                wait_while(&word, 0).unwrap();
            }
        });
    }
}
