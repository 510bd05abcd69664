//! Correlates the two witnesses of one CPU on their common clock: every gap of the sampler with the
//! interruptions inside it, every interruption with the gap that it caused. Pure, incremental, at
//! constant memory.
//!
//! A gap is *explained* when an interruption lies in it and the rest of it is no longer than the
//! way into and out of the kernel, which the trace does not see ([`WAY_NS`], or as long again as
//! the interruption). The rest of any other gap was taken below the kernel, or by something that
//! the trace does not see: it is *unexplained*.

use super::culprit_stats::{CpuCulprits, CulpritKey, CulpritNames};
use super::interruptions::{FinishedInterruption, ns_to_ticks};
use crate::documents::evidence::{GapAttribution, GapPart, LONG_NS, MadeGap, UnexplainedGap};
use cpushield_linux::shared_memory::sampler::Gap;
use cpushield_linux::sys::clock::TickScale;
use std::collections::VecDeque;

/// Kernel entry and exit with cold caches: the time of an interruption outside its first and last
/// event.
const WAY_NS: u64 = 10_000;

/// Gaps and interruptions that wait for each other; more are counted, but not joined.
const WAITING_MAX: usize = 1 << 16;

/// How many of the longest unexplained gaps are kept.
const WORST_MAX: usize = 8;

/// An interruption that waits for gaps.
#[derive(Debug, Clone, Copy)]
struct WaitingInterruption {
    begun: u64,
    end: u64,
    /// The culprit; `None` while it may still continue.
    key: Option<CulpritKey>,
    in_gap: bool,
}

/// Number and duration of gaps or parts of gaps, in ticks.
#[derive(Debug, Clone, Copy, Default)]
struct GapTicks {
    count: u64,
    sum: u64,
    max: u64,
}

impl GapTicks {
    fn add(&mut self, ticks: u64) {
        self.count += 1;
        self.sum = self.sum.saturating_add(ticks);
        self.max = self.max.max(ticks);
    }

    fn to_part(self, scale: &TickScale) -> GapPart {
        GapPart { count: self.count, sum_ns: scale.ns(self.sum), max_ns: scale.ns(self.max) }
    }
}

/// The result so far, in ticks.
#[derive(Debug, Default)]
struct GapTotals {
    explained: GapTicks,
    unexplained: GapTicks,
    long: u64,
    worst: Vec<Gap>,
    by_culprit: CpuCulprits,
    without_gap: u64,
    unjoined: u64,
}

/// Correlates the gaps and the interruptions of one CPU.
#[derive(Debug)]
pub struct GapCorrelator {
    begun: u64,
    ticks_per_ns: f64,
    interruptions: VecDeque<WaitingInterruption>,
    gaps: VecDeque<Gap>,
    /// Every event before this tick has been added.
    trace_complete_until: u64,
    /// Every gap that began before this tick has been added.
    gaps_complete_until: u64,
    found: GapTotals,
    /// Whether there is a sampler.
    has_sampler: bool,
}

impl GapCorrelator {
    /// A correlator without data.
    #[must_use]
    pub fn new() -> GapCorrelator {
        GapCorrelator {
            begun: 0,
            ticks_per_ns: 1.0,
            interruptions: VecDeque::new(),
            gaps: VecDeque::new(),
            trace_complete_until: 0,
            gaps_complete_until: 0,
            found: GapTotals::default(),
            has_sampler: false,
        }
    }

    /// Begins a phase; discards what was before it.
    pub fn begin_phase(&mut self, at: u64, ticks_per_ns: f64) {
        *self = GapCorrelator {
            begun: at,
            ticks_per_ns,
            has_sampler: self.has_sampler,
            ..GapCorrelator::new()
        };
    }

    /// The tick before which all gaps have been added; `None` without a sampler.
    #[must_use]
    pub fn read_until(&self) -> Option<u64> {
        self.has_sampler.then_some(self.gaps_complete_until)
    }

    /// Adds finished interruptions, the open one, and the tick up to which all have been added.
    pub fn add_interruptions(
        &mut self,
        finished: impl Iterator<Item = FinishedInterruption>,
        open: Option<(u64, u64)>,
        trace_complete_until: u64,
    ) {
        if !self.has_sampler {
            return finished.for_each(drop);
        }
        for interruption in finished {
            self.add_interruption(interruption.begun, interruption.end, Some(interruption.key));
        }
        if let Some((begun, last)) = open {
            self.add_interruption(begun, last, None);
        }
        self.trace_complete_until = self.trace_complete_until.max(trace_complete_until);
    }

    fn add_interruption(&mut self, begun: u64, end: u64, key: Option<CulpritKey>) {
        if let Some(last) = self.interruptions.back_mut()
            && last.key.is_none()
        {
            // The interruption that could still continue.
            (last.end, last.key) = (end, key);
            return;
        }
        if end < self.begun {
            return;
        }
        if self.interruptions.len() >= WAITING_MAX {
            self.interruptions.pop_front();
            self.found.unjoined += 1;
        }
        self.interruptions.push_back(WaitingInterruption { begun, end, key, in_gap: false });
    }

    /// Adds gaps in the order of time, and a tick before which no other gap begins.
    pub fn add_gaps(&mut self, gaps: &[Gap], gaps_complete_until: u64) {
        self.has_sampler = true;
        for gap in gaps.iter().filter(|gap| gap.start >= self.begun) {
            if self.gaps.len() >= WAITING_MAX {
                self.gaps.pop_front();
                self.found.unjoined += 1;
            }
            self.gaps.push_back(*gap);
        }
        self.gaps_complete_until = self.gaps_complete_until.max(gaps_complete_until);
        self.advance();
    }

    /// Correlates the gaps for which both witnesses are complete.
    fn advance(&mut self) {
        while let Some(gap) =
            self.gaps.front().copied().filter(|gap| gap.end < self.trace_complete_until)
        {
            self.gaps.pop_front();
            self.drop_before(gap.start);
            self.correlate(gap);
        }
        let until = self.gaps.front().map_or(self.gaps_complete_until, |gap| gap.start);
        self.drop_before(until);
    }

    /// Drops the interruptions that ended before any gap that may still be added.
    fn drop_before(&mut self, until: u64) {
        while let Some(interruption) = self
            .interruptions
            .front()
            .filter(|interruption| interruption.end < until && interruption.key.is_some())
        {
            self.found.without_gap += u64::from(!interruption.in_gap);
            self.interruptions.pop_front();
        }
    }

    fn correlate(&mut self, gap: Gap) {
        let (mut covered, mut first, mut some) = (0_u64, None, false);
        for interruption in
            self.interruptions.iter_mut().take_while(|interruption| interruption.begun <= gap.end)
        {
            if interruption.end < gap.start {
                continue;
            }
            covered +=
                interruption.end.min(gap.end).saturating_sub(interruption.begun.max(gap.start));
            first = first.or(interruption.key);
            (interruption.in_gap, some) = (true, true);
        }
        let whole = gap.end.saturating_sub(gap.start);
        let left = whole.saturating_sub(covered);
        if some && left <= covered.max(self.ns_to_ticks(WAY_NS)) {
            self.found.explained.add(whole);
        } else {
            self.found.unexplained.add(left);
            self.found.long += u64::from(left >= self.ns_to_ticks(LONG_NS));
            self.keep_longest(Gap { start: gap.start, end: gap.start.saturating_add(left) });
        }
        if let Some(key) = first {
            let row = self.found.by_culprit.row(key);
            row.count += 1;
            row.ticks += whole;
            row.max = row.max.max(whole);
        }
    }

    fn keep_longest(&mut self, gap: Gap) {
        let worst = &mut self.found.worst;
        worst.push(gap);
        worst.sort_by_key(|gap| std::cmp::Reverse(gap.end - gap.start));
        worst.truncate(WORST_MAX);
    }

    fn ns_to_ticks(&self, ns: u64) -> u64 {
        ns_to_ticks(ns, self.ticks_per_ns)
    }

    /// Ends the phase and returns its result; `None` without a sampler.
    pub fn end_phase(
        &mut self,
        names: &CulpritNames<'_>,
        scale: &TickScale,
    ) -> Option<GapAttribution> {
        self.advance();
        if !self.has_sampler {
            return None;
        }
        let found = &self.found;
        let mut worst: Vec<UnexplainedGap> = found
            .worst
            .iter()
            .map(|gap| UnexplainedGap {
                at_ns: scale.ns(gap.start - self.begun),
                ns: scale.ns(gap.end - gap.start),
            })
            .collect();
        worst.sort_by_key(|gap| std::cmp::Reverse(gap.ns));
        let by = found.by_culprit.interruptions(names, scale);
        Some(GapAttribution {
            explained: found.explained.to_part(scale),
            unexplained: found.unexplained.to_part(scale),
            long: found.long,
            worst,
            by: by
                .into_iter()
                .map(|row| MadeGap {
                    cause: row.cause,
                    culprit: row.culprit,
                    gaps: GapPart {
                        count: row.count,
                        sum_ns: row.time_ns.unwrap_or(0),
                        max_ns: row.max_ns.unwrap_or(0),
                    },
                })
                .collect(),
            without_gap: found.without_gap,
            unjoined: found.unjoined + self.gaps.len() as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::Cause;
    use crate::causes::culprit::KernelEvent;
    use crate::trace::culprit_stats::TracedCulprit;
    use cpushield_linux::text::kallsyms::KernelSymbols;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn correlator(begun: u64) -> GapCorrelator {
        let mut correlator = GapCorrelator::new();
        correlator.add_gaps(&[], 0);
        correlator.begin_phase(begun, 1.0);
        correlator
    }

    const SCALE: TickScale = TickScale { ns_per_tick: 1.0, error_ppm: 0.0 };

    fn tick(begun: u64, end: u64) -> FinishedInterruption {
        FinishedInterruption {
            begun,
            end,
            key: CulpritKey {
                cause: Cause::Tick,
                culprit: TracedCulprit::Event(KernelEvent::LocalTimer),
            },
        }
    }

    fn gap(start: u64, end: u64) -> Gap {
        Gap { start, end }
    }

    fn end(correlator: &mut GapCorrelator) -> GapAttribution {
        let symbols = KernelSymbols::default();
        let tasks = HashMap::new();
        correlator
            .end_phase(&CulpritNames { symbols: &symbols, tasks: &tasks, stacks: None }, &SCALE)
            .unwrap()
    }

    fn part(count: u64, sum_ns: u64, max_ns: u64) -> GapPart {
        GapPart { count, sum_ns, max_ns }
    }

    #[test]
    fn gaps_are_explained_by_the_interruptions_that_caused_them() {
        let mut correlator = correlator(1_000);
        // One before the phase, one in its gap, one too short for a gap, and two in one gap.
        let interruptions =
            [tick(500, 600), tick(5_000, 7_000), tick(9_000, 9_100), tick(20_000, 22_000)];
        correlator.add_interruptions(
            interruptions.into_iter().chain([tick(23_000, 24_000)]),
            None,
            900_000,
        );
        let gaps = [
            gap(400, 700),
            gap(4_800, 8_000),
            gap(19_900, 24_500),
            // Nothing in it, and a tick in far too long a gap.
            gap(50_000, 62_000),
        ];
        correlator.add_gaps(&gaps, 800_000);
        correlator.add_interruptions([tick(700_000, 701_000)].into_iter(), None, 900_000);
        correlator.add_gaps(&[gap(699_999, 750_000)], 800_000);
        let by = |count, sum, max| MadeGap {
            cause: Cause::Tick,
            culprit: KernelEvent::LocalTimer.into(),
            gaps: part(count, sum, max),
        };
        let expected = GapAttribution {
            explained: part(2, 3_200 + 4_600, 4_600),
            unexplained: part(2, 12_000 + 49_001, 49_001),
            long: 2,
            worst: vec![
                UnexplainedGap { at_ns: 698_999, ns: 49_001 },
                UnexplainedGap { at_ns: 49_000, ns: 12_000 },
            ],
            by: vec![by(3, 3_200 + 4_600 + 50_001, 50_001)],
            without_gap: 1,
            unjoined: 0,
        };
        assert_eq!(end(&mut correlator), expected);
    }

    #[test]
    fn an_interruption_that_may_continue_explains_its_gap_and_is_counted_once() {
        let mut correlator = correlator(0);
        correlator.add_interruptions(std::iter::empty(), Some((100, 200)), 1_000);
        correlator.add_gaps(&[gap(90, 210)], 990);
        correlator.add_interruptions(std::iter::empty(), Some((100, 200)), 2_000);
        correlator.add_gaps(&[gap(1_500, 1_700)], 1_990);
        correlator.add_interruptions([tick(100, 200), tick(2_100, 2_200)].into_iter(), None, 3_000);
        correlator.add_gaps(&[gap(2_090, 2_250)], 2_990);
        let joined = end(&mut correlator);
        assert_eq!(joined.explained, part(2, 280, 160));
        assert_eq!((joined.unexplained, joined.without_gap), (part(1, 200, 200), 0));
    }

    #[test]
    fn a_gap_is_not_judged_before_its_events_were_read() {
        let mut correlator = correlator(0);
        correlator.add_interruptions(std::iter::empty(), None, 100);
        correlator.add_gaps(&[gap(90, 210)], 300);
        correlator.add_interruptions([tick(95, 200)].into_iter(), None, 400);
        correlator.add_gaps(&[], 400);
        let joined = end(&mut correlator);
        assert_eq!((joined.explained.count, joined.unexplained.count), (1, 0));
        correlator.begin_phase(0, 1.0);
        correlator.add_gaps(&[gap(90, 210)], 300);
        assert_eq!(end(&mut correlator).unjoined, 1, "its events are unknown");
    }

    proptest! {
        /// Whatever comes, no gap and no interruption is lost or counted twice.
        #[test]
        fn every_gap_and_every_interruption_is_counted_once(
            steps in prop::collection::vec(
                (1..50u64, 1..50u64, any::<bool>(), any::<bool>()),
                0..300,
            ),
        ) {
            let mut correlator = correlator(0);
            let (mut now, mut interruptions, mut gaps) = (0, 0, 0);
            for (pause, long, interruption, gapped) in steps {
                let (begun, over) = (now + pause, now + pause + long);
                now = over + 2;
                if interruption {
                    interruptions += 1;
                    correlator.add_interruptions([tick(begun, over)].into_iter(), None, now);
                } else {
                    correlator.add_interruptions(std::iter::empty(), None, now);
                }
                if gapped {
                    gaps += 1;
                    correlator.add_gaps(&[gap(begun - 1, over + 1)], now);
                }
            }
            correlator.add_interruptions(std::iter::empty(), None, now + 1);
            correlator.add_gaps(&[], now + 1);
            let joined = end(&mut correlator);
            prop_assert_eq!(joined.explained.count + joined.unexplained.count, gaps);
            let made: u64 = joined.by.iter().map(|by| by.gaps.count).sum();
            prop_assert_eq!(made + joined.without_gap, interruptions);
        }
    }
}
