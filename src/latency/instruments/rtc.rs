//! `rtc`: the periodic interrupt of the real-time clock, a measure in use since Linux 2.4.

use super::{Instrument, InstrumentRefusal, ThreadRefusal, ThreadTask};
use cpushield_linux::Host;
use cpushield_linux::errno::{EBUSY, ENOENT};
use cpushield_linux::shared_memory::latency_stats::{
    EventSource, LatencyStats, WakeEvent, measure,
};
use cpushield_linux::sys::clock::{monotonic_ns, sleep_until};
use cpushield_linux::sys::events::{RtcDevice, RtcTicks};
use std::io;

const SECOND_NS: u64 = 1_000_000_000;
/// The kernel's limit (`RTC_MAX_FREQ`, drivers/rtc/interface.c).
const HERTZ_MAX: u64 = 8192;

/// Enabling the events is tried again when it takes longer.
const FAST_ENABLE_NS: u64 = 5_000;
const TRIES: u32 = 8;

pub(super) const RTC: Instrument = Instrument {
    name: "rtc",
    summary: "the periodic event of /dev/rtc0 (a kernel timer since 2.6.38)",
    page: "A thread reads from /dev/rtc0, which reports a fixed number of events per second. Since \
     2.6.38 these are not interrupts of the clock chip: the kernel emulates them with a \
     high-resolution timer, started on the CPU that requested them. The timer of a nohz_full \
     CPU may expire on another CPU (see `timer`). On PREEMPT_RT kernels, the timer expires in \
     a softirq thread, like that of `timerfd`. So the method is that of old RTC tests, but the \
     figure does not include a device interrupt.\n\n\
     Events are due on a grid that starts when they are enabled. That moment is within a \
     system call, and the figure counts from the start of the call. So the figure may be too \
     high, by at most the duration of that call, but it is never too low. The result reports \
     this duration. A slow call, such as one that another process delays by reading the RTC, \
     is repeated. Alarms of other programs are not counted. Only one program can have the \
     device open at a time, so there is one thread on one CPU. Rates above \
     /sys/class/rtc/rtc0/max_user_freq need CAP_SYS_RESOURCE: that is 64 Hz, unless the \
     clock's driver sets another limit. A period must be a second divided by a whole number up \
     to 8192.\n\n\
     On PREEMPT_RT, disabling the events can hang a real-time thread forever, because it waits \
     for the softirq thread that it has preempted. So an ordinary thread of cpushield disables \
     them. A program with a real-time priority that is killed while it has the device open may \
     still hang.\n\n\
     Source: rtc(4); rtc_irq_set_state(), rtc_pie_update_irq() and rtc_irq_set_freq() in \
     drivers/rtc/interface.c (2.6.38 to 6.12), commit 6610e0893b8b.",
    possible,
    check_period,
    threads_max: 1,
    run,
    ..Instrument::PLAIN
};

fn possible(host: &Host) -> Result<(), InstrumentRefusal> {
    let path = RtcDevice::PATH;
    match RtcDevice::open(host) {
        Ok(_) => Ok(()),
        Err(error) => Err(match error.raw_os_error() {
            Some(ENOENT) => InstrumentRefusal::NoDevice { path },
            Some(EBUSY) => InstrumentRefusal::DeviceBusy { path },
            _ => InstrumentRefusal::Device { path, answer: error.to_string() },
        }),
    }
}

fn check_period(period_ns: u64) -> Result<(), ThreadRefusal> {
    if !SECOND_NS.is_multiple_of(period_ns.max(1)) || SECOND_NS / period_ns.max(1) > HERTZ_MAX {
        return Err(ThreadRefusal::NotPartOfSecond { most: Some(HERTZ_MAX) });
    }
    Ok(())
}

fn run(host: &Host, task: &ThreadTask, tally: &LatencyStats) {
    let period_ns = task.period_ns.max(1);
    match enable_events(host, task.begin_ns, SECOND_NS / period_ns) {
        Ok((clock, on_ns, took_ns)) => {
            tally.set_blur(took_ns);
            let due_ns = on_ns.saturating_add(period_ns);
            measure(&mut RtcReader { clock, due_ns, period_ns }, tally, task.settings);
        }
        Err(error) => tally.fail(&error),
    }
}

/// Enables the events. Returns the device, the earliest time they were enabled, and how long that
/// took.
fn enable_events(host: &Host, at_ns: u64, hertz: u64) -> io::Result<(RtcDevice, u64, u64)> {
    sleep_until(at_ns)?;
    let mut tries = 0;
    loop {
        // Opened again, as events of the last try may be pending (rtc_dev_open() clears them).
        let mut clock = RtcDevice::open(host)?;
        clock.set_rate(hertz)?;
        let on_ns = monotonic_ns();
        clock.start()?;
        let took_ns = monotonic_ns().saturating_sub(on_ns);
        tries += 1;
        if took_ns <= FAST_ENABLE_NS || tries == TRIES {
            return Ok((clock, on_ns, took_ns));
        }
    }
}

struct RtcReader {
    clock: RtcDevice,
    due_ns: u64,
    period_ns: u64,
}

impl EventSource for RtcReader {
    #[inline]
    fn wait(&mut self) -> io::Result<WakeEvent> {
        let ticks = self.clock.wait()?;
        let woke_ns = monotonic_ns();
        let due_ns = self.due_ns;
        let events = periods(ticks, due_ns, woke_ns, self.period_ns);
        self.due_ns = due_ns.saturating_add(self.period_ns.saturating_mul(events));
        Ok(WakeEvent { due_ns, woke_ns, missed: events - 1 })
    }
}

/// Counts the events that are periods: at most those that have passed, when alarms are among them.
#[inline]
fn periods(ticks: RtcTicks, due_ns: u64, woke_ns: u64, period_ns: u64) -> u64 {
    let passed = if ticks.is_mixed {
        woke_ns.saturating_sub(due_ns).checked_div(period_ns).unwrap_or(0).saturating_add(1)
    } else {
        u64::MAX
    };
    ticks.count.clamp(1, passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_whole_parts_of_a_second() {
        for (period, good) in
            [(1_000_000, true), (SECOND_NS, true), (125_000, true), (122_000, false), (3, false)]
        {
            assert_eq!(check_period(period).is_ok(), good, "{period}");
        }
        assert!(check_period(0).is_err());
    }

    #[test]
    fn the_alarm_of_another_program_does_not_shift_the_grid() {
        let events = |count, is_mixed, late: u64| {
            periods(RtcTicks { count, is_mixed }, 5_000_000, 5_000_000 + late, 1_000_000)
        };
        assert_eq!(events(1, false, 20_000), 1);
        assert_eq!(events(3, false, 2_020_000), 3);
        assert_eq!(events(2, true, 20_000), 1, "a period and an alarm");
        assert_eq!(events(3, true, 1_020_000), 2);
        assert_eq!(events(1, true, 1_020_000), 1, "the next one was not read yet");
    }
}
