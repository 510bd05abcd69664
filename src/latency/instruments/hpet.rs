//! `hpet`: a device interrupt, raised by an HPET timer and measured by the HPET's counter.

use super::{Instrument, InstrumentRefusal, ThreadRefusal, ThreadTask};
use crate::latency::{HpetRefusal, LatencyNote};
use cpushield_linux::errno::{EACCES, EBUSY, EIO, ENOENT, ENOSYS};
use cpushield_linux::shared_memory::latency_stats::{
    EventSource, LatencyStats, WakeEvent, measure,
};
use cpushield_linux::sys::clock::{monotonic_ns, sleep_until};
use cpushield_linux::sys::hpet::{HpetPage, HpetRepetition, HpetTicks, HpetTimer};
use cpushield_linux::text::interrupts;
use cpushield_linux::{CpuSet, Host};
use std::io;

const SECOND_NS: u64 = 1_000_000_000;
/// The default of `dev.hpet.max-user-freq`: the highest rate for unprivileged users.
const HERTZ_FOR_ALL: u64 = 64;
/// The most reads of the comparator until no event came in between. A thread that needs more cannot
/// keep up.
const TRIES: u32 = 16;

pub(super) const HPET: Instrument = Instrument {
    name: "hpet",
    summary: "a device interrupt (an HPET timer), measured by the device's own counter",
    page: "A thread reads from /dev/hpet, which wakes it at each interrupt of an HPET timer. This is \
     a device interrupt like that of a network card: a chip raises it, an interrupt controller \
     sends it to a CPU, a driver's handler wakes the reader. The figure includes all of these \
     steps. It also includes everything else that runs in that time on the thread's CPU and on \
     the CPU that handles the interrupt. The due time of the interrupt is exact: the timer's \
     comparator holds the counter value at which it is due. The comparator and the counter are \
     both read from the device's page, which /dev/hpet maps. So the figure also includes the \
     time of the chip and the controller, which no software timer can measure. Each figure \
     also includes one read of the counter, which takes about a microsecond, and much longer \
     in a guest.\n\n\
     The kernel and /proc/irq/N/smp_affinity_list, not cpushield, determine which CPU handles \
     the interrupt; a shield keeps it away from its CPUs. The result names that CPU. To have \
     the interrupt and the thread on one CPU, write that CPU to the file; the setting stays \
     for the next run. On PREEMPT_RT kernels, and with threadirqs, the handler is a kernel \
     thread, SCHED_FIFO 50.\n\n\
     Where the timer supports it, the chip repeats the interrupt by itself, on a grid. On many \
     chips only the first timer does. Otherwise the driver's handler sets the comparator \
     again, to one period after the handler runs, so there is no grid. When something below \
     the kernel delays that handler for longer than a period, the next interrupt comes only \
     when the counter has wrapped, minutes later; the result then says that no more events \
     came. Either way each latency counts from the comparator value of its own event. Events \
     that came before the thread read the file are counted as missed. There is one thread on \
     one CPU. A period must be a second divided by a whole number; rates above \
     dev.hpet.max-user-freq (64 Hz) need CAP_SYS_RESOURCE.\n\n\
     The instrument is refused where the kernel does not let programs map the page. With \
     CONFIG_HPET_MMAP, hpet_mmap=1 allows it and hpet_mmap=0 forbids it; \
     CONFIG_HPET_MMAP_DEFAULT is the default. Without the page, the due time of an interrupt \
     is unknown. It is also refused where no timer is free. The kernel reserves the first one, \
     and with CONFIG_HPET_EMULATE_RTC the second, where they replace the legacy timer and \
     clock. It also reserves those that it uses itself with message interrupts. Some \
     processors have no others.\n\n\
     Source: drivers/char/hpet.c (6.7): hpet_open(), hpet_ioctl_ieon(), hpet_interrupt(), \
     hpet_mmap(); hpet_reserve_platform_timers() in arch/x86/kernel/hpet.c; IA-PC HPET \
     specification 1.0a, 2.3.",
    possible,
    check_period,
    threads_max: 1,
    notes,
    run,
    ..Instrument::PLAIN
};

fn possible(host: &Host) -> Result<(), InstrumentRefusal> {
    let mut hpet = HpetTimer::open(host).map_err(|error| match error.raw_os_error() {
        Some(ENOENT) => HpetRefusal::NoHpet,
        Some(EBUSY) => HpetRefusal::NoFreeTimer,
        _ => HpetRefusal::Device { answer: error.to_string() },
    })?;
    let _page = hpet.page().map_err(|error| match error.raw_os_error() {
        Some(EACCES) => HpetRefusal::RegistersDenied,
        Some(ENOSYS) => HpetRefusal::RegistersNotMapped,
        _ => HpetRefusal::Registers { answer: error.to_string() },
    })?;
    hpet.start(HERTZ_FOR_ALL).map_err(|error| match error.raw_os_error() {
        Some(EIO) => HpetRefusal::InterruptNotFree,
        _ => HpetRefusal::Device { answer: error.to_string() },
    })?;
    Ok(())
}

fn check_period(period_ns: u64) -> Result<(), ThreadRefusal> {
    if !SECOND_NS.is_multiple_of(period_ns.max(1)) || period_ns == 0 {
        return Err(ThreadRefusal::NotPartOfSecond { most: None });
    }
    Ok(())
}

fn notes(host: &Host, cpus: &CpuSet) -> Vec<LatencyNote> {
    find_handlers(host, cpus)
}

fn run(host: &Host, task: &ThreadTask, tally: &LatencyStats) {
    match start_timer(host, task.begin_ns, task.period_ns) {
        Ok(mut reader) => measure(&mut reader, tally, task.settings),
        Err(error) => tally.fail(&error),
    }
}

/// Finds the CPUs that handle the interrupt. The interrupt has a name only while a program waits
/// for it.
fn find_handlers(host: &Host, measured: &CpuSet) -> Vec<LatencyNote> {
    let text = host.read("/proc/interrupts").unwrap_or_default();
    let rows = interrupts::parse(&text).map(|all| all.rows).unwrap_or_default();
    let mut notes = Vec::new();
    // The chip names HPET for the kernel's own timers, which use message interrupts.
    for row in rows.iter().filter(|row| !row.chip.contains("HPET")) {
        let (Some(irq), true) = (row.irq(), row.name.split(',').any(is_hpet_timer)) else {
            continue;
        };
        let dir = format!("/proc/irq/{irq}");
        let effective = host.read_line(&format!("{dir}/effective_affinity_list"));
        let list = effective.or_else(|_| host.read_line(&format!("{dir}/smp_affinity_list")));
        let Some(handlers) = list.ok().and_then(|list| list.parse::<CpuSet>().ok()) else {
            continue;
        };
        notes.push(LatencyNote::HpetHandled { irq, handlers, measured: measured.clone() });
    }
    notes
}

/// Whether `/proc/interrupts` names an HPET timer: `hpet1`.
fn is_hpet_timer(name: &str) -> bool {
    let number = name.trim().strip_prefix("hpet");
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// Starts the timer.
fn start_timer(host: &Host, at_ns: u64, period_ns: u64) -> io::Result<HpetReader<HpetDevice>> {
    let mut hpet = HpetTimer::open(host)?;
    let page = hpet.page()?;
    sleep_until(at_ns)?;
    let repetition = hpet.start(SECOND_NS / period_ns.max(1))?;
    HpetReader::new(HpetDevice { hpet, page }, period_ns, repetition)
}

/// The device registers that the arithmetic needs.
trait HpetComparator {
    /// The length of a tick in femtoseconds.
    fn period_fs(&self) -> u32;
    /// The counter.
    fn counter(&self) -> HpetTicks;
    /// The counter value at which the next interrupt is due.
    fn due(&self) -> HpetTicks;
    /// Waits for interrupts, and returns their number.
    fn wait(&mut self) -> io::Result<u64>;
    /// Whether an interrupt came that was not waited for.
    fn is_pending(&self) -> io::Result<bool>;
}

struct HpetDevice {
    hpet: HpetTimer,
    page: HpetPage,
}

impl HpetComparator for HpetDevice {
    fn period_fs(&self) -> u32 {
        self.page.period_fs()
    }

    #[inline]
    fn counter(&self) -> HpetTicks {
        self.page.counter()
    }

    #[inline]
    fn due(&self) -> HpetTicks {
        self.page.comparator()
    }

    #[inline]
    fn wait(&mut self) -> io::Result<u64> {
        self.hpet.wait()
    }

    fn is_pending(&self) -> io::Result<bool> {
        self.hpet.is_pending()
    }
}

struct HpetReader<C> {
    clock: C,
    /// The counter value at which the awaited event is due.
    due: HpetTicks,
    /// The last value of the counter.
    last: HpetTicks,
    /// A period.
    period: HpetTicks,
    period_fs: u32,
    repetition: HpetRepetition,
    /// Events that were counted as missed but came later.
    came_late: u64,
}

impl<C: HpetComparator> HpetReader<C> {
    fn new(clock: C, period_ns: u64, repetition: HpetRepetition) -> io::Result<HpetReader<C>> {
        let (last, period_fs) = (clock.counter(), clock.period_fs());
        let ticks = u128::from(period_ns) * 1_000_000 / u128::from(period_fs.max(1));
        let period = HpetTicks(u32::try_from(ticks).unwrap_or(u32::MAX).max(1));
        let due = last;
        let mut reader =
            HpetReader { clock, due, last, period, period_fs, repetition, came_late: 0 };
        (_, reader.due) = reader.catch_up()?;
        Ok(reader)
    }

    #[inline]
    fn to_ns(&self, ticks: HpetTicks) -> u64 {
        u64::from(ticks.0) * u64::from(self.period_fs) / 1_000_000
    }

    /// Consumes pending events. Returns their number, and when the next one is due.
    #[cold]
    fn catch_up(&mut self) -> io::Result<(u64, HpetTicks)> {
        let mut missed = 0;
        for _ in 0..TRIES {
            if self.clock.is_pending()? {
                missed += self.clock.wait()?;
            }
            let due = self.clock.due();
            // None came since, so this is the due time of the next event.
            if !self.clock.is_pending()? {
                return Ok((missed, due));
            }
        }
        Ok((missed, self.clock.due()))
    }
}

impl<C: HpetComparator> EventSource for HpetReader<C> {
    #[inline]
    fn wait(&mut self) -> io::Result<WakeEvent> {
        let (count, now, woke_ns) = loop {
            let count = self.clock.wait()?;
            let now = self.clock.counter();
            let woke_ns = monotonic_ns();
            let wrapped = now < self.last;
            self.last = now;
            // A timer that does not repeat also raises an interrupt when the lower half of the
            // counter wraps (specification, 2.3.9.2.1); the handler then sets the next one.
            let is_driven = self.repetition == HpetRepetition::Driver;
            if wrapped && is_driven && !now.wrapping_sub(self.due).has_passed() {
                self.due = self.clock.due();
                continue;
            }
            break (count, now, woke_ns);
        };
        let mut due = self.due;
        let is_on_grid = self.repetition == HpetRepetition::Chip;
        if is_on_grid && !now.wrapping_sub(due).has_passed() {
            // This event was not raised yet: the handler of an earlier one ran only now.
            let periods = due.wrapping_sub(now).0 / self.period.0 + 1;
            due = due.wrapping_sub(self.period.wrapping_mul(periods));
            self.came_late += u64::from(periods);
        }
        let late = now.wrapping_sub(due);
        // The tally counts interrupts that came too early.
        let due_ns = if late.has_passed() {
            woke_ns.saturating_sub(self.to_ns(late))
        } else {
            woke_ns.saturating_add(self.to_ns(due.wrapping_sub(now)))
        };
        let mut missed = count.saturating_sub(1);
        self.due = self.clock.due();
        // A thread that is late by a period may have missed others, which the comparator shows,
        // too.
        if late >= self.period || self.due.wrapping_sub(now) > self.period {
            let (more, next) = self.catch_up()?;
            missed += more;
            if is_on_grid {
                // Events that come while a handler is pending are not counted by the driver.
                let half = HpetTicks(self.period.0 / 2);
                let periods = next.wrapping_sub(due).wrapping_add(half).0 / self.period.0;
                missed = missed.max(u64::from(periods.saturating_sub(1)));
            }
            self.due = next;
        }
        let counted_before = missed.min(self.came_late);
        self.came_late -= counted_before;
        missed -= counted_before;
        Ok(WakeEvent { due_ns, woke_ns, missed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// The chip and its driver: the counter advances at each step, and a due interrupt is handled a
    /// given time later, as hpet_interrupt() does.
    struct Chip(RefCell<State>);

    struct State {
        now: HpetTicks,
        comparator: HpetTicks,
        period: HpetTicks,
        repetition: HpetRepetition,
        /// How long after the interrupt it is handled.
        handler: HpetTicks,
        woken: u32,
        count: u64,
        waits: u64,
        /// When the pending interrupt is handled; until then, another one is not counted.
        handled: Option<HpetTicks>,
        raises_at_wrap: bool,
        /// One that comes during the handling is handled right after it, as by a threaded handler.
        queues: bool,
        queued: bool,
    }

    impl State {
        /// Advances the time.
        fn pass(&mut self, ticks: u32) {
            for _ in 0..ticks {
                self.now = self.now.wrapping_add(HpetTicks(1));
                if self.repetition == HpetRepetition::Chip {
                    if self.now == self.comparator {
                        self.comparator = self.now.wrapping_add(self.period);
                        let handled = self.now.wrapping_add(self.handler);
                        self.queued = self.queues && self.handled.is_some();
                        self.handled = self.handled.or(Some(handled));
                    }
                    if self.handled == Some(self.now) {
                        let again = std::mem::take(&mut self.queued);
                        self.handled = again.then(|| self.now.wrapping_add(HpetTicks(10)));
                        self.count += 1;
                    }
                    continue;
                }
                let wraps = self.now == HpetTicks(0) && self.raises_at_wrap;
                if self.now == self.comparator.wrapping_add(self.handler) || wraps {
                    self.count += 1;
                    self.comparator = self.now.wrapping_add(self.period);
                }
            }
        }
    }

    impl HpetComparator for Chip {
        fn period_fs(&self) -> u32 {
            10_000_000
        }

        fn counter(&self) -> HpetTicks {
            self.0.borrow().now
        }

        fn due(&self) -> HpetTicks {
            self.0.borrow().comparator
        }

        fn wait(&mut self) -> io::Result<u64> {
            let state = self.0.get_mut();
            while state.count == 0 {
                state.pass(1);
            }
            let woken = state.woken;
            state.pass(woken);
            state.waits += 1;
            Ok(std::mem::take(&mut state.count))
        }

        fn is_pending(&self) -> io::Result<bool> {
            Ok(self.0.borrow().count > 0)
        }
    }

    /// A timer of a thousand ticks of 10 ns that is about to wrap.
    fn reader(repetition: HpetRepetition, handler: u32, woken: u32) -> HpetReader<Chip> {
        let (now, period) = (HpetTicks(u32::MAX - 2_500), HpetTicks(1_000));
        let state = State {
            now,
            comparator: now.wrapping_add(period),
            period,
            repetition,
            handler: HpetTicks(handler),
            woken,
            count: 0,
            waits: 0,
            handled: None,
            raises_at_wrap: true,
            queues: false,
            queued: false,
        };
        HpetReader::new(Chip(RefCell::new(state)), 10_000, repetition).unwrap()
    }

    /// The latency of the next event in nanoseconds, and the number of missed events.
    fn next(reader: &mut HpetReader<Chip>) -> (u64, u64) {
        let wake = reader.wait().unwrap();
        (wake.woke_ns - wake.due_ns, wake.missed)
    }

    #[test]
    fn each_event_counts_from_its_own_comparator() {
        for repetition in [HpetRepetition::Driver, HpetRepetition::Chip] {
            let mut reader = reader(repetition, 30, 12);
            assert_eq!(reader.period, HpetTicks(1_000));
            // The counter wraps in that time; that interrupt is not an event.
            for _ in 0..10 {
                assert_eq!(next(&mut reader), (420, 0), "{repetition:?}");
            }
        }
    }

    #[test]
    fn events_before_a_late_read_are_missed_and_none_is_lost() {
        let mut reader = reader(HpetRepetition::Driver, 30, 12);
        reader.clock.0.get_mut().raises_at_wrap = false;
        reader.wait().unwrap();
        reader.clock.0.get_mut().woken = 3_500;
        // It is seen 3530 ticks after it was due; three more were handled by then.
        assert_eq!(next(&mut reader), (35_300, 3));
        reader.clock.0.get_mut().woken = 12;
        assert_eq!(next(&mut reader), (420, 0));
    }

    #[test]
    fn an_event_between_the_counter_and_the_comparator_does_not_shift_the_others() {
        let mut reader = reader(HpetRepetition::Driver, 30, 12);
        reader.clock.0.get_mut().raises_at_wrap = false;
        reader.wait().unwrap();
        // As if the thread was delayed right after it read the counter.
        let due = reader.due;
        let state = reader.clock.0.get_mut();
        state.pass(1_500);
        assert_eq!(state.count, 1);
        let (missed, next) = reader.catch_up().unwrap();
        assert_eq!((missed, next), (1, due.wrapping_add(HpetTicks(1_030))));
        assert_eq!(reader.clock.0.get_mut().waits, 2);
    }

    #[test]
    fn the_grid_of_a_repeating_timer_shows_missed_events() {
        // Each is handled so late that the second one after it is not counted.
        let mut reader = reader(HpetRepetition::Chip, 1_500, 12);
        assert_eq!(next(&mut reader), (15_120, 1));
        let state = reader.clock.0.get_mut();
        (state.handler, state.woken, state.handled) = (HpetTicks(30), 3_500, None);
        assert_eq!(next(&mut reader), (35_300, 3));
        reader.clock.0.get_mut().woken = 12;
        assert_eq!(next(&mut reader), (420, 0));
    }

    #[test]
    fn an_event_handled_after_the_next_one_is_late_and_not_early() {
        let mut reader = reader(HpetRepetition::Chip, 1_200, 4);
        reader.clock.0.get_mut().queues = true;
        // The first is handled after the second was raised, and the second right after that.
        assert_eq!(next(&mut reader), (12_040, 1));
        reader.clock.0.get_mut().handler = HpetTicks(30);
        assert_eq!(next(&mut reader), (2_140, 0));
        assert_eq!(next(&mut reader), (340, 0));
        // It was counted as missed already, so one of the next missed events is not counted.
        reader.clock.0.get_mut().woken = 2_500;
        assert_eq!(reader.wait().unwrap().missed, 1);
    }

    #[test]
    fn periods_are_whole_parts_of_a_second() {
        for (period, good) in [(1_000_000, true), (SECOND_NS, true), (3_000_000, false)] {
            assert_eq!(check_period(period).is_ok(), good, "{period}");
        }
        assert!(check_period(0).is_err());
    }
}
