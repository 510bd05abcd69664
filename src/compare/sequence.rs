//! In which order the runs of two groups were made. Only runs by turns, or in a mixed order, tell
//! an effect from what drifts with time: temperature, page cache, the load of a host. Pure.

use super::{GivenGroup, GivenRun, RunOrder};

/// The order of the runs of two groups.
pub(super) fn of(base: &GivenGroup, other: &GivenGroup) -> RunOrder {
    let Some(sides) = sides(base, other) else { return RunOrder::Unknown };
    let changes = sides.windows(2).filter(|pair| pair.first() != pair.get(1)).count();
    // ABAB and ABBA: no group has more than two in a row, and each is before and after the other.
    let in_a_row = sides.windows(3).any(|three| three.iter().all(|one| Some(one) == three.first()));
    match changes {
        0 | 1 => RunOrder::Apart,
        _ if in_a_row => RunOrder::Mixed,
        _ => RunOrder::Alternated,
    }
}

/// Whether each run is the base's, by the time it began; `None` when one does not tell.
fn sides(base: &GivenGroup, other: &GivenGroup) -> Option<Vec<bool>> {
    let of = |group: &GivenGroup, is_base| {
        let began = |run: &GivenRun| run.began_s().map(|at| (at, is_base));
        group.runs.iter().map(began).collect::<Option<Vec<_>>>()
    };
    let mut all = [of(base, true)?, of(other, false)?].concat();
    all.sort_by_key(|(at, _)| *at);
    Some(all.into_iter().map(|(_, is_base)| is_base).collect())
}

/// What the order makes doubtful.
pub(super) fn doubts(sequence: RunOrder, base: &GivenGroup, other: &GivenGroup) -> Vec<String> {
    let mut doubts = Vec::new();
    let repeated = base.runs.len() > 1 && other.runs.len() > 1;
    if sequence == RunOrder::Apart && repeated {
        doubts.push(format!(
            "all runs of one group come before those of the other: a drift with time \
             cannot be distinguished from an effect of {} and {}; interleave the runs",
            base.name, other.name
        ));
    }
    if sequence == RunOrder::Unknown && repeated {
        doubts.push(
            "a document has no start time of its run, so a drift with time cannot be \
             distinguished from an effect"
                .to_owned(),
        );
    }
    let runs: Vec<&GivenRun> = base.runs.iter().chain(&other.runs).collect();
    for (n, one) in runs.iter().enumerate() {
        for other in runs.iter().skip(n + 1).filter(|other| overlap(one, other)) {
            doubts.push(format!("{} and {} ran at the same time", one.name, other.name));
        }
    }
    doubts
}

/// Whether two runs of one machine were made at the same time; when a run began is known to a
/// second. A document of `verify` does not tell its machine.
fn overlap(one: &GivenRun, other: &GivenRun) -> bool {
    let time =
        |run: &GivenRun| Some((run.began_s()?, run.began_s()? + run.span_ns() / 1_000_000_000));
    let (Some(a), Some(b)) = (time(one), time(other)) else { return false };
    let machine = |run: &GivenRun| {
        let setting = run.latency().map(|latency| &latency.setting);
        setting.map(|setting| (setting.processor.clone(), setting.online.clone()))
    };
    machine(one).is_some() && machine(one) == machine(other) && a.0 < b.1 && b.0 < a.1
}
