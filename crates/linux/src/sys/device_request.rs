//! Requests to a device whose argument is a number (ioctl(2)).

use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};
use std::ffi::{c_ulong, c_void};
use std::fs::File;
use std::io;

/// A request, with its number where it takes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceRequest {
    /// `RTC_IRQP_SET` of rtc(4): events per second.
    RtcRate(usize),
    /// `RTC_PIE_ON`: starts periodic events.
    RtcStart,
    /// `RTC_PIE_OFF`: ends them.
    RtcStop,
    /// `HPET_IRQFREQ`: interrupts per second.
    HpetRate(usize),
    /// `HPET_EPI`: the chip repeats interrupts.
    HpetPeriodic,
    /// `HPET_IE_ON`: starts interrupts.
    HpetStart,
}

impl DeviceRequest {
    /// Makes the request.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn make(self, device: &File) -> io::Result<()> {
        // SAFETY: these requests take a number and no pointer (rtc_dev_ioctl(),
        // drivers/rtc/dev.c; hpet_ioctl_common(), drivers/char/hpet.c). A device without the
        // request refuses it.
        Ok(unsafe { ioctl(device, self) }?)
    }
}

// SAFETY: no request reads or writes memory of this process; the answer has no content.
unsafe impl Ioctl for DeviceRequest {
    type Output = ();
    const IS_MUTATING: bool = false;

    /// The numbers in include/uapi/linux/rtc.h and include/uapi/linux/hpet.h.
    fn opcode(&self) -> Opcode {
        match self {
            DeviceRequest::RtcRate(_) => opcode::write::<c_ulong>(b'p', 0x0c),
            DeviceRequest::RtcStart => opcode::none(b'p', 0x05),
            DeviceRequest::RtcStop => opcode::none(b'p', 0x06),
            DeviceRequest::HpetRate(_) => opcode::write::<c_ulong>(b'h', 6),
            DeviceRequest::HpetPeriodic => opcode::none(b'h', 4),
            DeviceRequest::HpetStart => opcode::none(b'h', 1),
        }
    }

    fn as_ptr(&mut self) -> *mut c_void {
        let number = match *self {
            DeviceRequest::RtcRate(hertz) | DeviceRequest::HpetRate(hertz) => hertz,
            _ => 0,
        };
        std::ptr::without_provenance_mut(number)
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requests_are_those_of_the_headers() {
        if size_of::<c_ulong>() == 8 {
            let requests = [DeviceRequest::RtcRate(0), DeviceRequest::HpetRate(0)];
            assert_eq!(requests.map(|request| request.opcode()), [0x4008_700c, 0x4008_6806]);
        }
        let requests = [DeviceRequest::RtcStart, DeviceRequest::RtcStop, DeviceRequest::HpetStart];
        assert_eq!(requests.map(|request| request.opcode()), [0x7005, 0x7006, 0x6801]);
    }
}
