//! `spin`: oslat's measure. A thread does nothing but look at the clock; time between two looks
//! that is longer than a look takes was taken by somebody else.

use super::{Instrument, ThreadTask};
use cpushield_linux::Host;
use cpushield_linux::clock::{ClockReading, TickScale, monotonic_ns, ticks};
use cpushield_linux::latency_stats::{EventSource, LatencyStats, WakeEvent, measure};
use std::io;
use std::time::Duration;

/// Gaps from here on are samples.
const THRESHOLD_NS: u64 = 1_000;
/// So many looks apart the thread looks whether it is to end.
const LOOKS: u32 = 1 << 12;

/// See the file.
#[derive(Debug)]
pub struct SpinInstrument;

impl Instrument for SpinInstrument {
    fn name(&self) -> &'static str {
        "spin"
    }

    fn summary(&self) -> &'static str {
        "gaps in the time of a thread that never sleeps, as oslat measures them"
    }

    fn page(&self) -> &'static str {
        "A thread looks at the time stamp counter without end. A sample is a gap between two looks \
         of a microsecond or more, or one that is longer than all before it, so that the worst is \
         known even where nothing takes a microsecond. Percentiles are those of the gaps, not of \
         all looks. It is what a program sees that polls and never enters the kernel; `verify` \
         watches the same loop and names what made each gap.\n\n\
         It is an ordinary thread (SCHED_OTHER) whatever is asked for: one of a real-time priority \
         that never sleeps would starve the kernel's own threads of its CPU, and PREEMPT_RT \
         kernels hang then. Only a shield keeps other ordinary programs away from it.\n\n\
         Source: rdtsc_ordered() in arch/x86/include/asm/tsc.h (6.12); on other processors \
         clock_gettime(2)."
    }

    fn possible(&self, _host: &Host) -> Result<(), String> {
        Ok(())
    }

    fn is_endless(&self) -> bool {
        true
    }

    fn run(&self, task: &ThreadTask, tally: &LatencyStats) {
        let first = ClockReading::now();
        // Long enough to know the rate to a thousandth.
        std::thread::sleep(Duration::from_millis(20));
        let Some(scale) = TickScale::between(first, ClockReading::now()) else {
            return tally.fail(&io::Error::other("the clock goes backwards"));
        };
        let left = task.terms.from_ns.saturating_sub(monotonic_ns());
        let last = ticks();
        let mut looker = SpinLoop {
            tally,
            scale,
            last,
            from: last.saturating_add(scale.ticks(left)),
            bar: u64::MAX,
            threshold: scale.ticks(THRESHOLD_NS).max(1),
            longest: 0,
            looks: 0,
            away: 0,
        };
        measure(&mut looker, tally, task.terms);
    }
}

struct SpinLoop<'a> {
    tally: &'a LatencyStats,
    scale: TickScale,
    /// The last look.
    last: u64,
    /// The look from which on gaps count.
    from: u64,
    /// A gap of so many ticks is a sample.
    bar: u64,
    threshold: u64,
    longest: u64,
    /// Looks since then that are no samples, and ticks of those that are.
    looks: u64,
    away: u64,
}

impl EventSource for SpinLoop<'_> {
    fn wait(&mut self) -> io::Result<WakeEvent> {
        loop {
            for nth in 0..LOOKS {
                let now = ticks();
                let gap = now.saturating_sub(self.last);
                let begin = self.last;
                self.last = now;
                if gap >= self.bar && begin >= self.from {
                    self.longest = self.longest.max(gap);
                    self.away = self.away.saturating_add(gap);
                    self.looks += u64::from(nth);
                    self.bar = self.threshold.min(self.longest.saturating_add(1));
                    let woke_ns = monotonic_ns();
                    // The next gap begins at that look all the same: nothing hides behind the
                    // keeping of the book, which takes far less than what counts.
                    let due_ns = woke_ns.saturating_sub(self.scale.ns(gap));
                    return Ok(WakeEvent { due_ns, woke_ns, missed: 0 });
                }
            }
            if self.last >= self.from && self.bar == u64::MAX {
                self.bar = 1;
                self.from = self.last;
            } else if self.bar != u64::MAX {
                self.looks += u64::from(LOOKS);
                let whole = self.last.saturating_sub(self.from).saturating_sub(self.away);
                self.tally.set_clock_reads(self.looks, self.scale.ns(whole));
            }
            if self.tally.is_stopped() {
                // Not a failure: whoever stopped it knows.
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpushield_linux::latency_stats::{LIMITS, LatencyBoard, ThreadSettings, ThreadStage};

    #[test]
    fn the_longest_is_known_and_what_counts_is_a_microsecond_or_a_record() {
        let board = LatencyBoard::new(1).unwrap();
        let tally = &board.tallies()[0];
        let from_ns = monotonic_ns() + 30_000_000;
        let terms = ThreadSettings {
            cpu: 0,
            period_ns: 0,
            from_ns,
            until_ns: u64::MAX,
            gives_up: false,
            limits_ns: [0; LIMITS],
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                SpinInstrument.run(&ThreadTask { period_ns: 0, begin_ns: 0, terms }, tally)
            });
            for _ in 0..20_000 {
                if tally.figures().samples >= 2 {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(50));
            tally.stop();
        });
        assert_eq!(tally.stage(), ThreadStage::Ended);
        let figures = tally.figures();
        assert!(figures.max_ns > 0 && figures.worst[0].due_ns >= from_ns, "{figures:?}");
        let look_ns = figures.looked_ns as f64 / figures.looks as f64;
        assert!(look_ns > 0.0 && look_ns <= figures.max_ns as f64, "{figures:?}");
        // Below the threshold each is longer than the one before, by a tick at least.
        let short: Vec<(u64, u64)> =
            tally.counts().filter(|(ns, _)| *ns < THRESHOLD_NS * 9 / 10).collect();
        assert!(short.iter().all(|(_, count)| *count <= 8), "{short:?}");
    }
}
