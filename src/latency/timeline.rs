//! The worst latency of each moment of a run, in constant memory: when there are too many moments,
//! pairs of them are merged. Pure.

use super::WorstTimeline;

/// The most moments of a timeline.
const MOMENTS_MAX: usize = 600;

impl WorstTimeline {
    /// An empty timeline with moments of `step_ns` nanoseconds.
    pub(super) fn new(step_ns: u64) -> WorstTimeline {
        WorstTimeline { step_ns, worst_ns: Vec::new() }
    }

    /// Merges pairs of moments.
    fn halve(&mut self) {
        self.step_ns = self.step_ns.saturating_mul(2);
        let pairs = self.worst_ns.chunks(2);
        self.worst_ns = pairs.filter_map(|pair| pair.iter().copied().max()).collect();
    }

    /// Adds a latency at this time since the start.
    pub(super) fn enter(&mut self, at_ns: u64, worst_ns: u64) {
        if self.step_ns == 0 {
            return;
        }
        while at_ns / self.step_ns >= MOMENTS_MAX as u64 {
            self.halve();
        }
        let at = usize::try_from(at_ns / self.step_ns).unwrap_or(0);
        if self.worst_ns.len() <= at {
            self.worst_ns.resize(at + 1, 0);
        }
        if let Some(worst) = self.worst_ns.get_mut(at) {
            *worst = worst_ns.max(*worst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_keeps_every_peak_at_its_time_in_constant_memory() {
        let mut line = WorstTimeline::new(100);
        for at in 0..100_000 {
            line.enter(at * 100, if at == 77_777 { 5_000 } else { at % 7 });
        }
        assert!(line.worst_ns.len() <= MOMENTS_MAX && line.worst_ns.len() > MOMENTS_MAX / 2);
        let peak = line.worst_ns.iter().position(|worst| *worst == 5_000).unwrap() as u64;
        assert_eq!(peak, 7_777_700 / line.step_ns);
        assert_eq!(line.worst_ns.iter().filter(|worst| **worst > 6).count(), 1);
    }
}
