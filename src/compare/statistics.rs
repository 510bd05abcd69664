//! Statistics of a few repeated runs: the exact rank test, adjusted for many figures of the same
//! runs, and the ratio of two groups with its interval. It assumes no distribution of the figures.
//! It assumes only that the runs are exchangeable if the groups do not differ (which the order of
//! the runs must support, see `sequence`). Pure.
//!
//! Sources: Mann and Whitney, "On a test of whether one of two random variables is stochastically
//! larger than the other" (1947); Hodges and Lehmann, "Estimates of location based on rank tests"
//! (1963); Westfall and Young, "Resampling-based multiple testing" (1993), step-down minP.

/// Up to this number, all permutations are enumerated: enough for 8 and 8 runs.
const WAYS_MAX: usize = 20_000;

/// One figure of the runs of two groups; the runs are in the same order in every figure.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct GroupPairing {
    pub(super) base: Vec<f64>,
    pub(super) other: Vec<f64>,
}

/// The median; `None` without values.
#[must_use]
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    let upper = values.get(half).copied()?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(*values.get(half.checked_sub(1)?)?, upper))
}

/// The adjusted `p` of each figure: the probability that chance alone makes any of the figures
/// differ as much as this one does. All figures must come from the same runs.
///
/// It enumerates every way to assign the runs to two groups of these sizes. When there are too
/// many, it draws some with a fixed seed and includes the true one, so that `p` is never too small.
pub(super) fn adjusted(figures: &[GroupPairing]) -> Vec<f64> {
    let Some((base, other)) = figures.first().map(|figure| (figure.base.len(), figure.other.len()))
    else {
        return Vec::new();
    };
    if base == 0 || other == 0 {
        return vec![1.0; figures.len()];
    }
    let ways = ways(base + other, base);
    let shares: Vec<Vec<f64>> = figures.iter().map(|figure| shares(figure, &ways)).collect();
    // The share of the true way, which is the first, is the unadjusted p.
    let unadjusted: Vec<f64> =
        shares.iter().map(|row| row.first().copied().unwrap_or(1.0)).collect();
    let mut order: Vec<(usize, f64)> = unadjusted.into_iter().enumerate().collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    // Starting from the least significant figure: for every way, the smallest share of all figures
    // that are not more significant.
    let mut least = vec![f64::INFINITY; ways.len()];
    let mut adjusted = vec![1.0; figures.len()];
    for (at, share) in order.iter().rev() {
        for (least, share) in least.iter_mut().zip(shares.get(*at).into_iter().flatten()) {
            *least = least.min(*share);
        }
        let as_much = least.iter().filter(|other| **other <= share * (1.0 + 1e-9)).count();
        if let Some(p) = adjusted.get_mut(*at) {
            *p = ratio(as_much, ways.len());
        }
    }
    // The p of a figure is never below that of a more significant one.
    let mut floor: f64 = 0.0;
    for (at, _) in order {
        if let Some(p) = adjusted.get_mut(at) {
            floor = floor.max(*p);
            *p = floor;
        }
    }
    adjusted
}

fn ratio(part: usize, of: usize) -> f64 {
    part as f64 / of as f64
}

/// For every way, the share of ways in which this figure differs at least as much.
fn shares(figure: &GroupPairing, ways: &[Vec<usize>]) -> Vec<f64> {
    let ranks = ranks(&[&figure.base[..], &figure.other[..]].concat());
    let all: i64 = ranks.iter().sum();
    let (few, many) = (as_i64(figure.base.len()), as_i64(ranks.len()));
    // Twice the rank sum of the base minus its expectation, times the number of runs: exact in
    // integers.
    let distances = ways.iter().map(|way| {
        let sum: i64 = way.iter().filter_map(|at| ranks.get(*at)).sum();
        (sum * many - all * few).abs()
    });
    let distances: Vec<i64> = distances.collect();
    let mut sorted = distances.clone();
    sorted.sort_unstable();
    let shares = distances.iter().map(|distance| {
        let as_far = sorted.len() - sorted.partition_point(|other| other < distance);
        ratio(as_far, ways.len())
    });
    shares.collect()
}

fn as_i64(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Whether the other's figures are the lower ones, by the sum of ranks that the test compares;
/// `None` when neither are. Medians and ratios can say something else: equal figures are common.
pub(super) fn is_other_lower(base: &[f64], other: &[f64]) -> Option<bool> {
    let ranks = ranks(&[base, other].concat());
    let all: i64 = ranks.iter().sum();
    let of_base: i64 = ranks.iter().take(base.len()).sum();
    let distance = of_base * as_i64(ranks.len()) - all * as_i64(base.len());
    (distance != 0).then_some(distance > 0)
}

/// Twice the rank of each value; equal values share the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<i64> {
    let ranks = values.iter().map(|value| {
        let below = values.iter().filter(|other| *other < value).count();
        let same = values.iter().filter(|other| *other == value).count();
        as_i64(2 * below + same + 1)
    });
    ranks.collect()
}

/// The ways to choose `few` of `all` runs. The first one is the true one.
fn ways(all: usize, few: usize) -> Vec<Vec<usize>> {
    let truth: Vec<usize> = (0..few).collect();
    if choices(all, few).is_none_or(|ways| ways > WAYS_MAX) {
        return draw_ways(all, truth);
    }
    let mut ways = vec![truth];
    while let Some(next) = ways.last().and_then(|last| next_choice(last, all)) {
        ways.push(next);
    }
    ways
}

/// The next choice in lexicographic order.
fn next_choice(last: &[usize], all: usize) -> Option<Vec<usize>> {
    let mut next = last.to_vec();
    let at = (0..last.len()).rev().find(|at| {
        let most = all - last.len() + at;
        last.get(*at).is_some_and(|place| *place < most)
    })?;
    let from = next.get(at).copied()? + 1;
    next.iter_mut().skip(at).zip(from..).for_each(|(place, value)| *place = value);
    Some(next)
}

/// The true way, followed by random ones.
fn draw_ways(all: usize, truth: Vec<usize>) -> Vec<Vec<usize>> {
    let few = truth.len();
    let mut ways = vec![truth];
    // A fixed seed: the same documents give the same `p`.
    let mut random = SplitMix64(0x5eed);
    while ways.len() < WAYS_MAX {
        let mut places: Vec<usize> = (0..all).collect();
        for at in 0..few {
            places.swap(at, at + random.draw_below(all - at));
        }
        places.truncate(few);
        ways.push(places);
    }
    ways
}

/// A random number generator (Steele, Lea and Flood, 2014).
struct SplitMix64(u64);

impl SplitMix64 {
    /// Draws a number from 0 to below `bound`.
    fn draw_below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap_or(0)
    }
}

/// The number of ways to choose `few` of `all`; `None` when it overflows.
fn choices(all: usize, few: usize) -> Option<usize> {
    let few = few.min(all.checked_sub(few)?);
    (0..few).try_fold(1_usize, |ways, n| Some(ways.checked_mul(all - n)? / (n + 1)))
}

/// The smallest `p` that this many runs can give for a single figure.
pub(super) fn smallest_p(base: usize, other: usize) -> f64 {
    match choices(base + other, base) {
        _ if base == 0 || other == 0 => 1.0,
        Some(ways) => (2.0 / ratio(ways, 1)).min(1.0),
        None => 0.0,
    }
}

/// The runs that each group needs so that one of `figures` figures is significant whenever its
/// groups do not overlap, no matter what the other figures show.
pub(super) fn runs_needed(figures: usize, alpha: f64) -> usize {
    let figures = ratio(figures.max(1), 1);
    (1..64).find(|runs| smallest_p(*runs, *runs) * figures <= alpha).unwrap_or(64)
}

/// The ratio of the other's figures to the base's over all pairs: the median, and the interval that
/// the rank test does not reject at `alpha`. `None` when a figure is not above 0.
pub(super) fn times(figure: &GroupPairing, alpha: f64) -> Option<(f64, Option<(f64, f64)>)> {
    let GroupPairing { base, other } = figure;
    if !base.iter().chain(other).all(|value| *value > 0.0) {
        return None;
    }
    let mut ratios: Vec<f64> =
        base.iter().flat_map(|base| other.iter().map(move |other| other / base)).collect();
    ratios.sort_by(f64::total_cmp);
    // The interval excludes as many pairs at each end as the test allows.
    let interval = excluded_pairs(base.len(), other.len(), alpha).and_then(|out| {
        let most = ratios.len().checked_sub(1 + out)?;
        Some((*ratios.get(out)?, *ratios.get(most)?))
    });
    // The median of logarithms equals that of the ratios, except between two middle values.
    let logs = ratios.iter().map(|ratio| ratio.ln()).collect();
    Some((median(logs)?.exp(), interval))
}

/// The largest number of reversed pairs whose probability is at most half of `alpha`; `None` when
/// even 0 is more likely.
fn excluded_pairs(base: usize, other: usize, alpha: f64) -> Option<usize> {
    // counts[u]: the number of ways in which u of the pairs are reversed, one run after another
    // (Mann and Whitney's recursion, by generating function).
    let most = base.checked_mul(other)?;
    let mut counts = vec![0.0_f64; most + 1];
    *counts.first_mut()? = 1.0;
    for n in 1..=base {
        // Times (1 - x^(other + n)), divided by (1 - x^n).
        for u in (other + n..=most).rev() {
            let less = counts.get(u - other - n).copied()?;
            *counts.get_mut(u)? -= less;
        }
        for u in n..=most {
            let more = counts.get(u - n).copied()?;
            *counts.get_mut(u)? += more;
        }
    }
    let all: f64 = counts.iter().sum();
    let mut sum = 0.0;
    let within = counts.iter().take_while(|count| {
        sum += **count;
        sum / all <= alpha / 2.0
    });
    within.count().checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_direction_of_a_difference_is_that_of_the_ranks() {
        // The medians are equal, and the ratio of typical runs is unknown.
        let (some, none) = ([3.0, 3.0, 3.0, 0.0, 0.0, 0.0, 0.0], [0.0; 7]);
        assert_eq!(is_other_lower(&some, &none), Some(true));
        assert_eq!(is_other_lower(&none, &some), Some(false));
        assert_eq!(is_other_lower(&none, &none), None);
    }

    /// The exact two-sided test by its definition: it counts the pairs of every way one by one.
    fn by_force(base: &[f64], other: &[f64]) -> f64 {
        let all = [base, other].concat();
        let won = |mask: u32| {
            let is_base = |at: usize| mask & (1 << at) != 0;
            let mut halves = 0_i64;
            for (i, a) in all.iter().enumerate().filter(|(i, _)| is_base(*i)) {
                for (j, b) in all.iter().enumerate().filter(|(j, _)| !is_base(*j)) {
                    assert_ne!(i, j);
                    halves += if a > b { 2 } else { i64::from(a == b) };
                }
            }
            (halves - as_i64(base.len() * other.len())).abs()
        };
        let truth = won((1 << base.len()) - 1);
        let masks = (0..1_u32 << all.len()).filter(|m| m.count_ones() as usize == base.len());
        let (mut as_far, mut ways) = (0, 0);
        for mask in masks {
            ways += 1;
            as_far += usize::from(won(mask) >= truth);
        }
        ratio(as_far, ways)
    }

    fn p(base: &[f64], other: &[f64]) -> f64 {
        adjusted(&[GroupPairing { base: base.to_vec(), other: other.to_vec() }])[0]
    }

    #[test]
    fn known_tables_of_the_rank_test() {
        // Two-sided: 2 / C(8, 4), 2 / C(6, 3), and U = 2 with five and five: 2 * 4 / 252.
        assert!((p(&[1., 2., 3., 4.], &[5., 6., 7., 8.]) - 2.0 / 70.0).abs() < 1e-12);
        assert!((p(&[4., 5., 6.], &[1., 2., 3.]) - 0.1).abs() < 1e-12);
        let two = p(&[1., 2., 3., 4., 7.], &[5., 6., 8., 9., 10.]);
        assert!((two - 8.0 / 252.0).abs() < 1e-12, "{two}");
        assert!((p(&[1., 1.], &[1., 1.]) - 1.0).abs() < 1e-12, "equal runs show nothing");
        assert_eq!([1, 6, 12, 13].map(|figures| runs_needed(figures, 0.05)), [4, 5, 6, 6]);
        // Critical values of U at 5 %, two-sided, from Mann and Whitney's table.
        for (n, u) in [(4, 0), (5, 2), (6, 5), (7, 8), (8, 13), (10, 23)] {
            assert_eq!(excluded_pairs(n, n, 0.05), Some(u), "{n}");
        }
        assert_eq!(excluded_pairs(3, 3, 0.05), None);
    }

    #[test]
    fn drawn_ways_never_make_p_too_small() {
        let base: Vec<f64> = (0..12).map(f64::from).collect();
        let other: Vec<f64> = (12..24).map(f64::from).collect();
        let found = p(&base, &other);
        assert!(found >= 1.0 / ratio(WAYS_MAX, 1) && found < 0.001, "{found}");
        let same = p(&base, &base);
        assert!(same > 0.9, "{same}");
    }

    #[test]
    fn correlated_figures_cost_less_than_independent_ones() {
        let one = GroupPairing { base: vec![1., 2., 3., 4.], other: vec![5., 6., 7., 8.] };
        let noise = GroupPairing { base: vec![1., 6., 3., 8.], other: vec![5., 2., 7., 4.] };
        let same = adjusted(&[one.clone(), one.clone(), one.clone()]);
        assert!(same.iter().all(|p| (p - 2.0 / 70.0).abs() < 1e-12), "{same:?}");
        let mixed = adjusted(&[noise, one]);
        assert!((mixed[1] - 4.0 / 70.0).abs() < 1e-12 && mixed[0] > 0.5, "{mixed:?}");
    }

    /// Values that are often equal.
    fn values() -> impl Strategy<Value = Vec<f64>> {
        proptest::collection::vec((1_u8..12).prop_map(f64::from), 2..6)
    }

    proptest! {
        #[test]
        fn the_test_is_that_of_its_definition(base in values(), other in values()) {
            prop_assert!((p(&base, &other) - by_force(&base, &other)).abs() < 1e-9);
        }

        /// The purpose of the adjustment: when the groups do not differ, every way is equally
        /// likely, and in at most 5 of 100 of them any figure is significant.
        #[test]
        fn false_positives_are_no_more_frequent_than_the_level(
            rows in proptest::collection::vec(
                proptest::collection::vec((1_u8..20).prop_map(f64::from), 8), 1..4),
            few in 3_usize..5,
        ) {
            let ways = ways(8, few);
            let mut wrong = 0;
            for way in &ways {
                let deal = |row: &Vec<f64>| GroupPairing {
                    base: way.iter().map(|at| row[*at]).collect(),
                    other: (0..8).filter(|at| !way.contains(at)).map(|at| row[at]).collect(),
                };
                let figures: Vec<GroupPairing> = rows.iter().map(deal).collect();
                wrong += usize::from(adjusted(&figures).iter().any(|p| *p <= 0.05));
            }
            prop_assert!(ratio(wrong, ways.len()) <= 0.05, "{} of {}", wrong, ways.len());
        }

        /// The interval contains exactly the ratios that the test does not reject.
        #[test]
        fn the_interval_is_the_inverted_test(
            base in proptest::collection::vec(1.0_f64..2.0, 4..6),
            other in proptest::collection::vec(1.0_f64..2.0, 4..6),
            times_given in 0.4_f64..2.5,
        ) {
            let figure = GroupPairing { base: base.clone(), other: other.clone() };
            let (middle, interval) = times(&figure, 0.05).unwrap();
            let (least, most) = interval.unwrap();
            prop_assert!(least <= middle && middle <= most);
            let scaled: Vec<f64> = base.iter().map(|value| value * times_given).collect();
            let inside = least <= times_given && times_given <= most;
            prop_assert_eq!(inside, by_force(&scaled, &other) > 0.05);
        }
    }
}
