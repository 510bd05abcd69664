//! The order of the runs of two groups. Only interleaved or mixed runs distinguish an effect from a
//! drift with time: temperature, page cache, the load of a host. Pure.

use super::statistics::{GroupPairing, adjusted};
use super::{GivenGroup, GivenRun, PairDoubt, RunOrder};
use cpushield_linux::CpuSet;

/// The order of the runs of two groups.
pub(super) fn run_order(base: &GivenGroup, other: &GivenGroup) -> RunOrder {
    let Some(sides) = sides(base, other) else { return RunOrder::Unknown };
    let changes = sides.windows(2).filter(|pair| pair.first() != pair.get(1)).count();
    // In ABAB and ABBA, no group has more than two runs in a row, and each is before and after the
    // other.
    let in_a_row =
        sides.windows(3).any(|three| three.iter().all(|side| Some(side) == three.first()));
    match changes {
        0 | 1 => RunOrder::Apart,
        _ if in_a_row => RunOrder::Mixed,
        _ => RunOrder::Alternated,
    }
}

/// Orders that chance makes in fewer cases than this are almost as good as one after the other.
const UNBALANCED: f64 = 0.2;

/// Whether one group was measured mostly before the other: a drift with time would make the same
/// difference. The test is the one of the figures, on the places in the order.
fn is_almost_apart(sides: &[bool]) -> bool {
    let places = |of_base: bool| {
        let places = (0_u32..).zip(sides).filter(|(_, side)| **side == of_base);
        places.map(|(place, _)| f64::from(place)).collect()
    };
    let pairing = GroupPairing { base: places(true), other: places(false) };
    adjusted(&[pairing]).first().is_some_and(|p| *p <= UNBALANCED)
}

/// Whether each run belongs to the base, ordered by start time; `None` when a start is unknown.
fn sides(base: &GivenGroup, other: &GivenGroup) -> Option<Vec<bool>> {
    let base = base.runs.iter().map(|run| Some((run.began_s()?, true)));
    let other = other.runs.iter().map(|run| Some((run.began_s()?, false)));
    let mut all = base.chain(other).collect::<Option<Vec<(u64, bool)>>>()?;
    all.sort_by_key(|(at, _)| *at);
    Some(all.into_iter().map(|(_, is_base)| is_base).collect())
}

/// The doubts that follow from the order.
pub(super) fn doubts(sequence: RunOrder, base: &GivenGroup, other: &GivenGroup) -> Vec<PairDoubt> {
    let mut doubts = Vec::new();
    let repeated = base.runs.len() > 1 && other.runs.len() > 1;
    let is_apart = match sequence {
        RunOrder::Apart => true,
        RunOrder::Mixed => sides(base, other).is_some_and(|sides| is_almost_apart(&sides)),
        RunOrder::Alternated | RunOrder::Unknown => false,
    };
    if is_apart && repeated {
        let (base, other) = (base.name.clone(), other.name.clone());
        doubts.push(PairDoubt::NotInterleaved { base, other });
    }
    if sequence == RunOrder::Unknown && repeated {
        doubts.push(PairDoubt::NoStartTime);
    }
    for runs in overlapping(base.runs.iter().chain(&other.runs)) {
        let runs = runs.into_iter().map(|run| run.name.clone()).collect();
        doubts.push(PairDoubt::RunsOverlapped { runs });
    }
    doubts
}

/// The runs that overlapped, in sets: each run of a set overlapped with another run of it.
fn overlapping<'a>(runs: impl Iterator<Item = &'a GivenRun>) -> Vec<Vec<&'a GivenRun>> {
    let mut sets: Vec<Vec<&GivenRun>> = Vec::new();
    for run in runs {
        let joins = |set: &Vec<&GivenRun>| set.iter().any(|other| overlap(run, other));
        let (with, mut apart): (Vec<_>, Vec<_>) = sets.into_iter().partition(joins);
        let mut joined = with.concat();
        joined.push(run);
        apart.push(joined);
        sets = apart;
    }
    sets.retain(|set| set.len() > 1);
    sets
}

/// Whether two runs on the same machine overlapped. Start times are exact to a second. A document
/// of `verify` does not record its machine.
fn overlap(run: &GivenRun, other: &GivenRun) -> bool {
    let (Some(a), Some(b)) = (time(run), time(other)) else { return false };
    machine(run).is_some() && machine(run) == machine(other) && a.0 < b.1 && b.0 < a.1
}

/// The start and the end of a run, in seconds since 1970.
fn time(run: &GivenRun) -> Option<(u64, u64)> {
    let began_s = run.began_s()?;
    Some((began_s, began_s + run.span_ns() / 1_000_000_000))
}

fn machine(run: &GivenRun) -> Option<(&Option<String>, &CpuSet)> {
    run.latency().map(|latency| (&latency.setting.processor, &latency.setting.online))
}

#[cfg(test)]
mod tests {
    use super::is_almost_apart;

    #[test]
    fn runs_that_are_mixed_but_hardly_interleaved_are_almost_apart() {
        let sides = |order: &str| order.chars().map(|side| side == 'A').collect::<Vec<bool>>();
        assert!(is_almost_apart(&sides("AAAAAAAABBBBBBBBBA")));
        assert!(!is_almost_apart(&sides("AAABBBBBBAAA")));
        assert!(!is_almost_apart(&sides("AABABBBAAB")));
    }
}
