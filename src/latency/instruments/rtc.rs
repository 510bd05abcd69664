//! `rtc`: the periodic interrupt of the real-time clock, as people have measured it since 2.4.

use super::{Instrument, Task};
use cpushield_linux::Host;
use cpushield_linux::clock::{monotonic_ns, sleep_until};
use cpushield_linux::events::Rtc;
use cpushield_linux::tally::{Source, Tally, Wake, measure};
use std::io;

const SECOND_NS: u64 = 1_000_000_000;
/// The kernel's limit (`RTC_MAX_FREQ`, drivers/rtc/interface.c).
const HERTZ_MAX: u64 = 8192;

/// See the file.
#[derive(Debug)]
pub struct RealTimeClock;

impl Instrument for RealTimeClock {
    fn name(&self) -> &'static str {
        "rtc"
    }

    fn summary(&self) -> &'static str {
        "the periodic event of /dev/rtc0 (since 2.6.38 a timer of the kernel)"
    }

    fn page(&self) -> &'static str {
        "A thread reads from /dev/rtc0, which tells of so many events a second. Since 2.6.38 these \
         are no interrupts of the clock's chip: the kernel emulates them by a high-resolution \
         timer on the CPU that asked for them. So the figure is comparable with old ones of RTC \
         tests in its method, but not in what it measures: no interrupt of a device.\n\n\
         Events are due on a grid that begins when they are switched on. The kernel takes that \
         moment a little after the system call begins, and the figure counts from its beginning, \
         so that it is too long by a part of that one system call, never too short. One program \
         can have the device at a time, so it is one thread on one CPU; above \
         /sys/class/rtc/rtc0/max_user_freq (64 Hz) it needs CAP_SYS_RESOURCE, and periods must be \
         whole parts of a second, at least 1/8192.\n\n\
         Source: rtc(4); rtc_pie_update_irq() and rtc_irq_set_freq() in drivers/rtc/interface.c \
         (2.6.38 to 6.12), commit 6610e0893b8b."
    }

    fn possible(&self, _host: &Host) -> Result<(), String> {
        match Rtc::open() {
            Ok(_) => Ok(()),
            Err(error) => Err(match error.raw_os_error() {
                Some(2) => format!("there is no {}", Rtc::PATH),
                Some(16) => format!("another program has {}", Rtc::PATH),
                _ => format!("{}: {error}", Rtc::PATH),
            }),
        }
    }

    fn suits(&self, period_ns: u64) -> Result<(), String> {
        if !SECOND_NS.is_multiple_of(period_ns.max(1)) || SECOND_NS / period_ns.max(1) > HERTZ_MAX {
            return Err(
                "its period must be a whole part of a second, at least 1/8192; as 1ms, 10ms"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn threads_max(&self) -> usize {
        1
    }

    fn run(&self, task: &Task, tally: &Tally) {
        let period_ns = task.period_ns.max(1);
        match begin(task.begin_ns, SECOND_NS / period_ns) {
            Ok((clock, on_ns)) => {
                let due_ns = on_ns.saturating_add(period_ns);
                measure(&mut Reader { clock, due_ns, period_ns }, tally, task.terms);
            }
            Err(error) => tally.fail(&error),
        }
    }
}

/// The clock, and when its events were switched on.
fn begin(at_ns: u64, hertz: u64) -> io::Result<(Rtc, u64)> {
    let mut clock = Rtc::open()?;
    sleep_until(at_ns)?;
    let on_ns = monotonic_ns();
    clock.begin(hertz)?;
    Ok((clock, on_ns))
}

struct Reader {
    clock: Rtc,
    due_ns: u64,
    period_ns: u64,
}

impl Source for Reader {
    #[inline]
    fn wait(&mut self) -> io::Result<Wake> {
        let events = self.clock.wait()?.max(1);
        let woke_ns = monotonic_ns();
        let due_ns = self.due_ns;
        self.due_ns = due_ns.saturating_add(self.period_ns.saturating_mul(events));
        Ok(Wake { due_ns, woke_ns, missed: events - 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_whole_parts_of_a_second() {
        for (period, good) in
            [(1_000_000, true), (SECOND_NS, true), (125_000, true), (122_000, false), (3, false)]
        {
            assert_eq!(RealTimeClock.suits(period).is_ok(), good, "{period}");
        }
        assert!(RealTimeClock.suits(0).is_err());
    }
}
