//! The exact sequential test that decides whether a configuration meets the goal. Pure.
//!
//! Each measurement either meets the goal or misses it. The test compares two hypotheses about the
//! rate of misses by their likelihood ratio (Wald, "Sequential Tests of Statistical Hypotheses",
//! 1945). It ends when the ratio exceeds 1 / error rate in either direction. By Ville's inequality
//! the probability of a wrong decision is at most the error rate, for any number of measurements.
//! Its own test computes the probabilities of its ends exactly.

use crate::documents::option_search::{GoalDecision, GoalTally, SequentialTest};

/// A configuration that misses the goal in at most this share of all measurements meets it.
pub const MISS_RATE_MET: f64 = 0.1;
/// A configuration that misses the goal in at least this share of all measurements misses it.
pub const MISS_RATE_MISSED: f64 = 0.5;
/// The error rate of a whole search.
pub const ERROR_RATE: f64 = 0.05;
/// The maximum number of measurements for one decision.
pub const MEASUREMENTS_MAX: usize = 40;

impl GoalTally {
    /// The number of measurements.
    #[must_use]
    pub fn measurements(&self) -> usize {
        self.met + self.missed + self.doubtful
    }
}

impl SequentialTest {
    /// The test of a search that makes about this many decisions, which share [`ERROR_RATE`].
    #[must_use]
    pub fn for_decisions(decisions: usize) -> SequentialTest {
        SequentialTest {
            miss_rate_met: MISS_RATE_MET,
            miss_rate_missed: MISS_RATE_MISSED,
            error_rate: ERROR_RATE / decisions.max(1) as f64,
            measurements_max: MEASUREMENTS_MAX,
        }
    }

    /// The logarithm of the likelihood ratio: positive values speak for a miss.
    fn log_ratio(&self, met: usize, missed: usize) -> f64 {
        let per_miss = (self.miss_rate_missed / self.miss_rate_met).ln();
        let per_met = ((1.0 - self.miss_rate_missed) / (1.0 - self.miss_rate_met)).ln();
        missed as f64 * per_miss + met as f64 * per_met
    }

    /// Decides by these measurements; `None` when more are needed.
    #[must_use]
    pub fn decide(&self, tally: &GoalTally) -> Option<GoalDecision> {
        let GoalTally { met, missed, doubtful } = *tally;
        let bound = -self.error_rate.ln();
        if self.log_ratio(met + doubtful, missed) >= bound {
            Some(GoalDecision::Missed)
        } else if self.log_ratio(met, missed) <= -bound {
            Some(GoalDecision::Met)
        } else if tally.measurements() >= self.measurements_max {
            Some(GoalDecision::NoAnswer)
        } else {
            None
        }
    }

    /// The number of measurements until a decision when every one meets the goal.
    #[must_use]
    pub fn shortest(&self) -> usize {
        let met = (1..self.measurements_max).find(|met| {
            let tally = GoalTally { met: *met, missed: 0, doubtful: 0 };
            self.decide(&tally) == Some(GoalDecision::Met)
        });
        met.unwrap_or(self.measurements_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The probability of each end of a test.
    #[derive(Debug, Default)]
    struct TestEndRates {
        met: f64,
        missed: f64,
        no_answer: f64,
    }

    /// The exact probability of each end when each measurement misses the goal with this
    /// probability and none is doubtful.
    fn end_rates(test: &SequentialTest, miss_rate: f64) -> TestEndRates {
        let mut ends = TestEndRates::default();
        // The probability of each number of misses among the tests that still run.
        let mut running = vec![1.0_f64];
        for measurements in 1..=test.measurements_max {
            let mut next = vec![0.0; measurements + 1];
            for (missed, chance) in running.iter().enumerate() {
                for (missed, chance) in
                    [(missed, chance * (1.0 - miss_rate)), (missed + 1, chance * miss_rate)]
                {
                    let (met, doubtful) = (measurements - missed, 0);
                    let place = next.get_mut(missed);
                    match test.decide(&GoalTally { met, missed, doubtful }) {
                        Some(GoalDecision::Met) => ends.met += chance,
                        Some(GoalDecision::Missed) => ends.missed += chance,
                        Some(GoalDecision::NoAnswer) => ends.no_answer += chance,
                        None => place.into_iter().for_each(|sum| *sum += chance),
                    }
                }
            }
            running = next;
        }
        ends
    }

    #[test]
    fn the_exact_error_rates_stay_within_the_stated_ones() {
        for decisions in [1, 5, 23, 43, 129] {
            let test = SequentialTest::for_decisions(decisions);
            for percent in 0..=100_u32 {
                let miss_rate = f64::from(percent) / 100.0;
                let ends = end_rates(&test, miss_rate);
                assert!((ends.met + ends.missed + ends.no_answer - 1.0).abs() < 1e-9);
                if miss_rate <= test.miss_rate_met {
                    assert!(ends.missed <= test.error_rate, "{decisions} {miss_rate} {ends:?}");
                }
                if miss_rate >= test.miss_rate_missed {
                    assert!(ends.met <= test.error_rate, "{decisions} {miss_rate} {ends:?}");
                }
            }
        }
    }

    #[test]
    fn a_clear_configuration_is_decided_and_an_ambiguous_one_has_no_answer() {
        let test = SequentialTest::for_decisions(23);
        assert_eq!(test.shortest(), 11);
        assert!(end_rates(&test, 0.02).met > 0.999);
        assert!(end_rates(&test, 0.9).missed > 0.999);
        assert!(end_rates(&test, 0.27).no_answer > 0.4, "{:?}", end_rates(&test, 0.27));
        let doubtful = GoalTally { met: 5, missed: 0, doubtful: MEASUREMENTS_MAX - 5 };
        assert_eq!(test.decide(&doubtful), Some(GoalDecision::NoAnswer));
        assert_eq!(test.decide(&GoalTally::default()), None);
        // Where each measurement that does not miss is doubtful, 4 misses of 40 are no proof.
        let doubtful = GoalTally { met: 0, missed: 4, doubtful: MEASUREMENTS_MAX - 4 };
        assert_eq!(test.decide(&doubtful), Some(GoalDecision::NoAnswer));
        let clear = GoalTally { met: 0, missed: 4, doubtful: 0 };
        assert_eq!(test.decide(&clear), Some(GoalDecision::Missed));
    }
}
