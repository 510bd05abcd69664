//! Statistics of a few repeated runs: the exact rank test, adjusted for many figures of the same
//! runs, and the ratio of two groups with its interval. Nothing is assumed of how figures are
//! spread, only that the runs of both groups could have changed places if the groups did not differ
//! (which the order of the runs must bear out, see `sequence`). Pure.
//!
//! Sources: Mann and Whitney, "On a test of whether one of two random variables is stochastically
//! larger than the other" (1947); Hodges and Lehmann, "Estimates of location based on rank tests"
//! (1963); Westfall and Young, "Resampling-based multiple testing" (1993), step-down minP.

/// So many ways to deal the runs out are gone through one by one: all of 8 and 8 runs.
const WAYS_MAX: usize = 20_000;

/// The figures of two groups; runs are in the same order in every figure.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct GroupPairing {
    pub(super) base: Vec<f64>,
    pub(super) other: Vec<f64>,
}

/// The middle of some values.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    let upper = values.get(half).copied()?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(*values.get(half.checked_sub(1)?)?, upper))
}

/// For each figure, in how many cases of one chance alone would make any of them look as different
/// as this one does. All figures must be of the same runs.
///
/// Every way to deal the runs out to two groups of these sizes is gone through; when there are too
/// many, ways drawn by a fixed seed, the true one among them, so that `p` is never too small.
pub(super) fn adjusted(figures: &[GroupPairing]) -> Vec<f64> {
    let Some((base, other)) = figures.first().map(|one| (one.base.len(), one.other.len())) else {
        return Vec::new();
    };
    if base == 0 || other == 0 {
        return vec![1.0; figures.len()];
    }
    let ways = ways(base + other, base);
    let shares: Vec<Vec<f64>> = figures.iter().map(|one| shares(one, &ways)).collect();
    let own = |at: &usize| shares.get(*at).and_then(|row| row.first()).copied().unwrap_or(1.0);
    let mut order: Vec<usize> = (0..figures.len()).collect();
    order.sort_by(|a, b| own(a).total_cmp(&own(b)));
    // From the least significant on: the smallest share of all figures that are not more
    // significant, of every way.
    let mut least = vec![f64::INFINITY; ways.len()];
    let mut found = vec![1.0; figures.len()];
    for at in order.iter().rev() {
        for (least, share) in least.iter_mut().zip(shares.get(*at).into_iter().flatten()) {
            *least = least.min(*share);
        }
        let as_much = least.iter().filter(|share| **share <= own(at) * (1.0 + 1e-9)).count();
        if let Some(p) = found.get_mut(*at) {
            *p = ratio(as_much, ways.len());
        }
    }
    // A figure is never more certain than one that is more significant.
    let mut floor: f64 = 0.0;
    for at in order {
        if let Some(p) = found.get_mut(at) {
            floor = floor.max(*p);
            *p = floor;
        }
    }
    found
}

#[expect(clippy::cast_precision_loss, reason = "counts of ways are far below 2^52")]
fn ratio(part: usize, of: usize) -> f64 {
    part as f64 / of as f64
}

/// For every way, the share of ways that set the groups as far apart in this figure.
fn shares(figure: &GroupPairing, ways: &[Vec<usize>]) -> Vec<f64> {
    let ranks = ranks(&[&figure.base[..], &figure.other[..]].concat());
    let all: i64 = ranks.iter().sum();
    let (few, many) = (as_i64(figure.base.len()), as_i64(ranks.len()));
    // Twice the rank sum of the base less what is expected of it, times the number of runs: exact
    // in whole numbers.
    let apart = |way: &Vec<usize>| {
        let sum: i64 = way.iter().filter_map(|at| ranks.get(*at)).sum();
        (sum * many - all * few).abs()
    };
    let distances: Vec<i64> = ways.iter().map(apart).collect();
    let mut sorted = distances.clone();
    sorted.sort_unstable();
    let as_far = |distance: &i64| sorted.len() - sorted.partition_point(|other| other < distance);
    distances.iter().map(|distance| ratio(as_far(distance), ways.len())).collect()
}

fn as_i64(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Twice the rank of each value; equal ones share theirs.
fn ranks(values: &[f64]) -> Vec<i64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count();
        let same = values.iter().filter(|other| *other == value).count();
        as_i64(2 * below + same + 1)
    };
    values.iter().map(rank).collect()
}

/// The ways to choose so many of all; the first is the true one, the first of all.
fn ways(all: usize, few: usize) -> Vec<Vec<usize>> {
    let truth: Vec<usize> = (0..few).collect();
    if choices(all, few).is_none_or(|ways| ways > WAYS_MAX) {
        return drawn(all, truth);
    }
    let mut ways = vec![truth];
    while let Some(next) = ways.last().and_then(|last| following(last, all)) {
        ways.push(next);
    }
    ways
}

/// The next choice in the order of a dictionary.
fn following(last: &[usize], all: usize) -> Option<Vec<usize>> {
    let mut next = last.to_vec();
    let at = (0..last.len()).rev().find(|at| {
        let most = all - last.len() + at;
        last.get(*at).is_some_and(|place| *place < most)
    })?;
    let from = next.get(at).copied()? + 1;
    next.iter_mut().skip(at).zip(from..).for_each(|(place, value)| *place = value);
    Some(next)
}

/// Ways drawn at random, after the true one.
fn drawn(all: usize, truth: Vec<usize>) -> Vec<Vec<usize>> {
    let few = truth.len();
    let mut ways = vec![truth];
    // SplitMix64 (Steele, Lea and Flood, 2014), by a fixed seed: the same documents, the same `p`.
    let mut state: u64 = 0x5eed;
    let mut below = |bound: usize| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap_or(0)
    };
    while ways.len() < WAYS_MAX {
        let mut places: Vec<usize> = (0..all).collect();
        for at in 0..few {
            places.swap(at, at + below(all - at));
        }
        places.truncate(few);
        ways.push(places);
    }
    ways
}

/// How many ways there are to choose; `None` when they are very many.
fn choices(all: usize, few: usize) -> Option<usize> {
    let few = few.min(all.checked_sub(few)?);
    (0..few).try_fold(1_usize, |ways, n| Some(ways.checked_mul(all - n)? / (n + 1)))
}

/// The smallest `p` that so many runs can give for one figure alone.
pub(super) fn smallest_p(base: usize, other: usize) -> f64 {
    match choices(base + other, base) {
        _ if base == 0 || other == 0 => 1.0,
        Some(ways) => (2.0 / ratio(ways, 1)).min(1.0),
        None => 0.0,
    }
}

/// With so many runs of each group, one figure of so many is seen to differ whenever its groups do
/// not overlap, whatever the others show.
pub(super) fn runs_needed(figures: usize, alpha: f64) -> usize {
    let enough = |runs: &usize| smallest_p(*runs, *runs) * ratio(figures.max(1), 1) <= alpha;
    (1..64).find(enough).unwrap_or(64)
}

/// How many times the base's the other's figures are, by all pairs: the median, and the interval
/// that the rank test does not speak against at `alpha`. `None` when a figure is not above 0.
pub(super) fn times(figure: &GroupPairing, alpha: f64) -> Option<(f64, Option<(f64, f64)>)> {
    let positive = |values: &[f64]| values.iter().all(|value| *value > 0.0);
    if !positive(&figure.base) || !positive(&figure.other) {
        return None;
    }
    let of_one = |base: &f64| figure.other.iter().map(|other| other / base).collect::<Vec<f64>>();
    let mut ratios: Vec<f64> = figure.base.iter().flat_map(of_one).collect();
    ratios.sort_by(f64::total_cmp);
    // The interval leaves out as many pairs at each end as the test could be without.
    let interval = left_out(figure.base.len(), figure.other.len(), alpha).and_then(|out| {
        let most = ratios.len().checked_sub(1 + out)?;
        Some((*ratios.get(out)?, *ratios.get(most)?))
    });
    // The median of logarithms is that of the ratios, but between two of them.
    let logs = ratios.iter().map(|ratio| ratio.ln()).collect();
    Some((median(logs)?.exp(), interval))
}

/// The largest number of pairs that are the other way round with a probability of at most half of
/// `alpha`; `None` when not even none is.
fn left_out(base: usize, other: usize, alpha: f64) -> Option<usize> {
    // counts[u]: in how many ways u of the pairs are the other way round, one run after another
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
    let within = |count: &&f64| {
        sum += **count;
        sum / all <= alpha / 2.0
    };
    counts.iter().take_while(within).count().checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The exact two-sided test by its definition: every way to deal out, pairs counted one by one.
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
            assert_eq!(left_out(n, n, 0.05), Some(u), "{n}");
        }
        assert_eq!(left_out(3, 3, 0.05), None);
    }

    #[test]
    fn many_runs_are_tested_by_drawing_and_never_too_small() {
        let base: Vec<f64> = (0..12).map(f64::from).collect();
        let other: Vec<f64> = (12..24).map(f64::from).collect();
        let found = p(&base, &other);
        assert!(found >= 1.0 / ratio(WAYS_MAX, 1) && found < 0.001, "{found}");
        let same = p(&base, &base);
        assert!(same > 0.9, "{same}");
    }

    #[test]
    fn figures_that_go_together_cost_less_than_figures_that_do_not() {
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

        /// What the adjustment is for: when the groups do not differ, every way to deal the runs
        /// out is as likely, and in at most 5 of 100 of them is any figure told to differ.
        #[test]
        fn chance_alone_shows_in_no_more_cases_than_is_said(
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

        /// The interval has exactly the ratios in it that the test does not speak against.
        #[test]
        fn the_interval_is_the_test_turned_round(
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
