//! `spin`: like oslat. A thread polls the clock; time between two reads that is longer than a read
//! takes went to something else.

use super::{Instrument, ThreadTask};
use cpushield_linux::Host;
use cpushield_linux::shared_memory::latency_stats::{
    EventSource, LatencyStats, WakeEvent, measure,
};
use cpushield_linux::sys::clock::{ClockReading, ClockTicks, TickScale, monotonic_ns, ticks};
use std::io;
use std::time::Duration;

/// Gaps of at least this length are samples.
const THRESHOLD_NS: u64 = 1_000;
/// No gap is this long: nothing is sampled yet.
const NO_SAMPLES: ClockTicks = ClockTicks(u64::MAX);
/// The thread checks once in this many reads whether to end.
const READS_PER_CHECK: u32 = 1 << 12;

pub(super) const SPIN: Instrument = Instrument {
    name: "spin",
    summary: "gaps in the execution of a thread that never sleeps, as oslat measures them",
    page: "A thread polls the clock: on x86 the time stamp counter. A sample is a gap of a \
     microsecond or more between two reads. A gap that is longer than all earlier gaps is also \
     a sample. So the worst gap is known even if no gap takes a microsecond. Percentiles are \
     those of the gaps, not of all reads. This is what a program that polls and never enters \
     the kernel sees. `verify` runs the same loop, and names the cause of each gap that its \
     witnesses saw.\n\n\
     The thread is always an ordinary one (SCHED_OTHER). From a real-time thread that never \
     sleeps, the kernel would take the CPU, and that would show as gaps: up to 6.11 by \
     kernel.sched_rt_runtime_us, since 6.12 by the fair server. Where neither limits it, it \
     would starve the kernel's threads on its CPU, and PREEMPT_RT kernels hang then. On a CPU \
     that is not isolated, by a shield or with isolcpus=, other ordinary programs run too.\n\n\
     Source: rdtsc_ordered() in arch/x86/include/asm/tsc.h (6.12); on other processors \
     clock_gettime(2); for real-time threads, commit 5f6bd380c7bd (6.12).",
    is_endless: true,
    run,
    ..Instrument::PLAIN
};

fn run(_host: &Host, task: &ThreadTask, tally: &LatencyStats) {
    let first = ClockReading::now();
    // Long enough to know the tick rate to a thousandth.
    std::thread::sleep(Duration::from_millis(20));
    let Some(scale) = TickScale::between(first, ClockReading::now()) else {
        return tally.fail(&io::Error::other("the clock went backwards"));
    };
    let left = task.settings.from_ns.saturating_sub(monotonic_ns());
    let last = ticks();
    let mut spin = SpinLoop {
        tally,
        scale,
        last,
        from: last.saturating_add(scale.ticks(left)),
        sample_from: NO_SAMPLES,
        threshold: scale.ticks(THRESHOLD_NS).max(ClockTicks(1)),
        longest: ClockTicks(0),
        reads: 0,
        sampled: ClockTicks(0),
    };
    measure(&mut spin, tally, task.settings);
}

struct SpinLoop<'a> {
    tally: &'a LatencyStats,
    scale: TickScale,
    /// The last read.
    last: ClockTicks,
    /// Gaps count from this read on.
    from: ClockTicks,
    /// A gap of at least this length is a sample.
    sample_from: ClockTicks,
    threshold: ClockTicks,
    longest: ClockTicks,
    /// Reads since `from` that are no samples, and the time of those that are.
    reads: u64,
    sampled: ClockTicks,
}

impl EventSource for SpinLoop<'_> {
    fn wait(&mut self) -> io::Result<WakeEvent> {
        // Recording the last sample is no gap. What takes as long as a gap may be one.
        let now = ticks();
        let recording = now.saturating_sub(self.last);
        if recording < self.threshold && self.sample_from != NO_SAMPLES {
            self.sampled = self.sampled.saturating_add(recording);
            self.last = now;
        }
        loop {
            for nth in 0..READS_PER_CHECK {
                let now = ticks();
                let gap = now.saturating_sub(self.last);
                let begin = self.last;
                self.last = now;
                if gap >= self.sample_from && begin >= self.from {
                    self.longest = self.longest.max(gap);
                    self.sampled = self.sampled.saturating_add(gap);
                    self.reads += u64::from(nth);
                    let record = self.longest.saturating_add(ClockTicks(1));
                    self.sample_from = self.threshold.min(record);
                    let woke_ns = monotonic_ns();
                    let due_ns = woke_ns.saturating_sub(self.scale.duration_ns(gap));
                    return Ok(WakeEvent { due_ns, woke_ns, missed: 0 });
                }
            }
            if self.last >= self.from && self.sample_from == NO_SAMPLES {
                self.sample_from = ClockTicks(1);
                self.from = self.last;
            } else if self.sample_from != NO_SAMPLES {
                self.reads += u64::from(READS_PER_CHECK);
                let whole = self.last.saturating_sub(self.from).saturating_sub(self.sampled);
                self.tally.set_clock_reads(self.reads, self.scale.duration_ns(whole));
            }
            if self.tally.is_stopped() {
                // Not a failure: the parent stopped it.
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpushield_linux::shared_memory::latency_stats::{
        LIMITS, LatencyBoard, ThreadSettings, ThreadStage,
    };

    #[test]
    fn samples_are_gaps_of_a_microsecond_or_new_records() {
        let board = LatencyBoard::new(1).unwrap();
        let tally = &board.tallies()[0];
        let from_ns = monotonic_ns() + 30_000_000;
        let settings = ThreadSettings {
            cpu: 0,
            period_ns: 0,
            from_ns,
            until_ns: u64::MAX,
            gives_up: false,
            limits_ns: [0; LIMITS],
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                run(&Host::live(), &ThreadTask { period_ns: 0, begin_ns: 0, settings }, tally);
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
        // Each sample below the threshold is longer than the one before, by at least a tick.
        let short: Vec<(u64, u64)> =
            tally.counts().filter(|(ns, _)| *ns < THRESHOLD_NS * 9 / 10).collect();
        assert!(short.iter().all(|(_, count)| *count <= 8), "{short:?}");
    }
}
