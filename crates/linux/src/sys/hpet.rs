//! A timer of the HPET by `/dev/hpet`, and the page of its registers: its counter, and when the
//! next interrupt is due.
//!
//! Elsewhere: what the difference of the two means.

use crate::error::Operation;
use crate::host::Host;
use crate::shared_memory::{MappingAccess, MemoryMapping};
use crate::sys::device_request::DeviceRequest;
use crate::sys::input_poll::{read_array, wait_for_input};
use rustix::event::PollFlags;
use rustix::ioctl::{Getter, Opcode, ioctl, opcode};
use std::fs::File;
use std::io;
use std::time::Duration;

/// `_IOR('h', 3, struct hpet_info)` in include/uapi/linux/hpet.h.
const HPET_INFO: Opcode = opcode::read::<HpetInfo>(b'h', 3);

/// The size that the driver maps, exactly.
const PAGE_BYTES: usize = 4096;
/// Registers (IA-PC HPET specification 1.0a, 2.3; include/linux/hpet.h): femtoseconds per tick, the
/// counter, the comparator of the first timer and the distance to the next timer's.
const PERIOD: usize = 0x004;
const COUNTER: usize = 0x0f0;
const COMPARATOR: usize = 0x108;
const EACH_TIMER: usize = 0x20;
/// The maximum duration of a tick (specification, 2.3.4).
const PERIOD_FS_MAX: u32 = 100_000_000;

/// `struct hpet_info`.
#[repr(C)]
struct HpetInfo {
    hz: libc::c_ulong,
    flags: libc::c_ulong,
    block: libc::c_ushort,
    timer: libc::c_ushort,
}

/// A value of the HPET's counter, or a difference of two values. The counter wraps around.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HpetTicks(pub u32);

impl HpetTicks {
    /// The ticks from an earlier value to this one.
    #[inline]
    #[must_use]
    pub fn wrapping_sub(self, earlier: HpetTicks) -> HpetTicks {
        HpetTicks(self.0.wrapping_sub(earlier.0))
    }

    /// The value that comes this many ticks later.
    #[inline]
    #[must_use]
    pub fn wrapping_add(self, ticks: HpetTicks) -> HpetTicks {
        HpetTicks(self.0.wrapping_add(ticks.0))
    }

    /// Multiplies a number of ticks.
    #[inline]
    #[must_use]
    pub fn wrapping_mul(self, times: u32) -> HpetTicks {
        HpetTicks(self.0.wrapping_mul(times))
    }

    /// Whether a difference of two values is in the past: half of all differences are.
    #[inline]
    #[must_use]
    pub fn has_passed(self) -> bool {
        self.0 <= u32::MAX / 2
    }
}

/// What sets the comparator of a timer after each interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HpetRepetition {
    /// The chip, so the interrupts are on a grid.
    Chip,
    /// The driver's handler.
    Driver,
}

/// A timer of the HPET. Its interrupt is a device interrupt: the chip raises it when its counter
/// reaches the timer's comparator, and the driver then sets the next comparator value.
#[derive(Debug)]
pub struct HpetTimer {
    file: File,
}

impl HpetTimer {
    /// The path of the device.
    pub const PATH: &str = "/dev/hpet";

    /// Opens the first free timer.
    ///
    /// # Errors
    /// The kernel's error: ENOENT without the driver, EBUSY if no timer is free or there is none.
    pub fn open(host: &Host) -> io::Result<HpetTimer> {
        let file = File::open(HpetTimer::PATH);
        let file = host.log_io(Operation::Read, HpetTimer::PATH, file)?;
        Ok(HpetTimer { file })
    }

    /// Maps its registers.
    ///
    /// # Errors
    /// The kernel's error: EACCES if it was booted or built without `hpet_mmap=1`, ENOSYS if it was
    /// built without `CONFIG_HPET_MMAP` or the registers share their page.
    pub fn page(&self) -> io::Result<HpetPage> {
        // SAFETY: the request writes one `struct hpet_info`.
        let info = unsafe { ioctl(&self.file, Getter::<HPET_INFO, HpetInfo>::new()) }?;
        let region = MemoryMapping::map(&self.file, PAGE_BYTES, MappingAccess::Read)?;
        let comparator = COMPARATOR + EACH_TIMER * usize::from(info.timer);
        let page = HpetPage { region, comparator, timer: info.timer };
        match page.period_fs() {
            1..=PERIOD_FS_MAX if comparator < PAGE_BYTES => Ok(page),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Starts periodic interrupts of this many per second. Returns what repeats them: not every
    /// timer can do that itself.
    ///
    /// # Errors
    /// The kernel's error: EACCES above `dev.hpet.max-user-freq` (64) without `CAP_SYS_RESOURCE`,
    /// EIO if its interrupt is not free.
    pub fn start(&mut self, hertz: u64) -> io::Result<HpetRepetition> {
        let hertz = hertz.try_into().map_err(io::Error::other)?;
        DeviceRequest::HpetRate(hertz).make(&self.file)?;
        let repetition = match DeviceRequest::HpetPeriodic.make(&self.file) {
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => HpetRepetition::Driver,
            answer => answer.map(|()| HpetRepetition::Chip)?,
        };
        DeviceRequest::HpetStart.make(&self.file)?;
        Ok(repetition)
    }

    /// Waits for an interrupt. Returns how many came since the last call.
    ///
    /// # Errors
    /// The kernel's error.
    #[inline]
    pub fn wait(&mut self) -> io::Result<u64> {
        Ok(libc::c_ulong::from_ne_bytes(read_array(&self.file)?))
    }

    /// Whether an interrupt came since the last [`HpetTimer::wait`].
    ///
    /// # Errors
    /// The kernel's error.
    pub fn is_pending(&self) -> io::Result<bool> {
        Ok(wait_for_input(&self.file, Duration::ZERO)?.contains(PollFlags::IN))
    }
}

/// The registers of the HPET, mapped for reading.
#[derive(Debug)]
pub struct HpetPage {
    region: MemoryMapping,
    comparator: usize,
    /// The number of the timer; its interrupt is called `hpetN`.
    pub timer: u16,
}

impl HpetPage {
    /// Femtoseconds per tick.
    #[must_use]
    pub fn period_fs(&self) -> u32 {
        self.register(PERIOD)
    }

    /// The lower half of the counter.
    #[inline]
    #[must_use]
    pub fn counter(&self) -> HpetTicks {
        HpetTicks(self.register(COUNTER))
    }

    /// The counter value at which the next interrupt is due; the driver's timers compare the lower
    /// half (`Tn_32MODE_CNF_MASK`).
    #[inline]
    #[must_use]
    pub fn comparator(&self) -> HpetTicks {
        HpetTicks(self.register(self.comparator))
    }

    #[inline]
    fn register(&self, offset: usize) -> u32 {
        // Reading these registers has no side effect.
        self.region.register(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_that_of_the_header() {
        if size_of::<libc::c_ulong>() == 8 {
            assert_eq!(HPET_INFO, 0x8018_6803);
        }
    }

    #[test]
    fn the_device_is_used_or_refused() {
        let error = match HpetTimer::open(&Host::live()).and_then(|hpet| hpet.page()) {
            Ok(page) => {
                let first = page.counter();
                while page.counter() == first {}
                return;
            }
            Err(error) => error.raw_os_error(),
        };
        let known = [libc::ENOENT, libc::EBUSY, libc::EACCES, libc::ENOSYS, libc::EPERM];
        assert!(known.map(Some).contains(&error), "{error:?}");
    }
}
