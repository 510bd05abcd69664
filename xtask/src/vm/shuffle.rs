//! Random orders that a seed repeats.

use std::time::{SystemTime, UNIX_EPOCH};

/// A seed that differs from run to run; short enough to be typed.
#[must_use]
pub fn new_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_micros())
}

/// Brings items into a random order. The same seed gives the same order.
pub fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed;
    // Fisher-Yates.
    for last in (1..items.len()).rev() {
        let bound = u64::try_from(last + 1).unwrap_or(u64::MAX);
        let chosen = usize::try_from(next(&mut state) % bound).unwrap_or(last);
        items.swap(last, chosen);
    }
}

/// The next number of SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
/// Generators", OOPSLA 2014).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_seed_repeats_its_order_and_another_seed_does_not() {
        let shuffled = |seed| {
            let mut items: Vec<u32> = (0..20).collect();
            shuffle(&mut items, seed);
            items
        };
        assert_eq!(shuffled(7), shuffled(7));
        let orders: BTreeSet<Vec<u32>> = (0..50).map(shuffled).collect();
        assert_eq!(orders.len(), 50);
        for mut order in orders {
            order.sort_unstable();
            assert_eq!(order, (0..20).collect::<Vec<u32>>(), "no item is lost or doubled");
        }
    }

    #[test]
    fn every_item_comes_to_every_place() {
        let mut seen = BTreeSet::new();
        for seed in 0..500 {
            let mut items = [0, 1, 2, 3];
            shuffle(&mut items, seed);
            seen.insert(items);
        }
        assert_eq!(seen.len(), 24, "all orders of four items");
    }

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        assert_eq!(next(&mut 0), 0xe220_a839_7b1d_cdaf);
    }
}
