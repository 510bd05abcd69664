//! What the two ends of `experiment --between` show of the result itself: what interrupted the CPUs
//! in only one of them, and figures that contradict the role of an end. Pure.

use super::between_ends::MeasuredEnd;
use crate::documents::experiment::{Difference, DifferenceRole, DifferenceSubject};
use crate::documents::option_search::SearchGoal;
use crate::report::table;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// How many interruptions are listed, the most frequent first.
const LISTED_MAX: usize = 10;

/// What interrupted the CPUs in only one of the ends.
pub(super) fn compare_symptoms(good: &MeasuredEnd, bad: &MeasuredEnd) -> Vec<Difference> {
    let names: BTreeSet<&String> = good.symptoms.keys().chain(bad.symptoms.keys()).collect();
    let counts = names
        .into_iter()
        .map(|name| (name, good.symptoms.get(name).copied(), bad.symptoms.get(name).copied()));
    let mut found: Vec<_> =
        counts.filter(|(_, one, other)| one.is_some() != other.is_some()).collect();
    found.sort_by_key(|(name, one, other)| (Reverse(one.or(*other)), *name));
    let more = found.split_off(found.len().min(LISTED_MAX));
    let symptom = |what, one: Option<u64>, other: Option<u64>| Difference {
        what,
        good: describe_count(good, one),
        bad: describe_count(bad, other),
        role: DifferenceRole::Symptom,
    };
    let mut listed: Vec<Difference> = Vec::new();
    for (name, one, other) in found {
        listed.push(symptom(DifferenceSubject::Interruption { name: name.clone() }, one, other));
    }
    if !more.is_empty() {
        let one: u64 = more.iter().filter_map(|(_, one, _)| *one).sum();
        let other: u64 = more.iter().filter_map(|(_, _, other)| *other).sum();
        let [one, other] = [one, other].map(|count| (count > 0).then_some(count));
        let what = DifferenceSubject::MoreInterruptions { count: more.len() };
        listed.push(symptom(what, one, other));
    }
    listed
}

/// `once`, `9 times`; `never` where a watch did not see it. `None` when the end does not say.
fn describe_count(end: &MeasuredEnd, count: Option<u64>) -> Option<String> {
    match count {
        Some(1) => Some("once".to_owned()),
        Some(count) => Some(format!("{count} times")),
        None => end.watched.then(|| "never".to_owned()),
    }
}

/// Warnings about ends whose own figures contradict their roles.
pub(super) fn find_contradictions(
    good: &MeasuredEnd,
    bad: &MeasuredEnd,
    goal: SearchGoal,
) -> Vec<String> {
    let ends = [(good, "GOOD misses", true), (bad, "BAD meets", false)];
    let contradictions = ends.into_iter().filter_map(|(end, what, contradicts_if_missed)| {
        let (missed, worst) = match goal {
            SearchGoal::MaxLatency { ns } => {
                let worst = end.worst_ns?;
                (worst > ns, table::span(worst))
            }
            SearchGoal::MaxEntries { count } => {
                let entries = end.entries?;
                let noun = if entries == 1 { "kernel entry" } else { "kernel entries" };
                (entries > count, format!("{entries} {noun}"))
            }
        };
        (missed == contradicts_if_missed).then(|| {
            let name = &end.name;
            format!("according to {name}, {what} the goal (worst {worst}); are the files swapped?")
        })
    });
    contradictions.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn make_end(name: &str, symptoms: &[(String, u64)]) -> MeasuredEnd {
        let symptoms: BTreeMap<String, u64> = symptoms.iter().cloned().collect();
        MeasuredEnd { name: name.to_owned(), watched: true, symptoms, ..MeasuredEnd::default() }
    }

    fn rows(differences: &[Difference]) -> Vec<[String; 3]> {
        let known = |value: &Option<String>| value.clone().unwrap_or_default();
        differences
            .iter()
            .map(|it| [it.what.to_string(), known(&it.good), known(&it.bad)])
            .collect()
    }

    #[test]
    fn the_most_frequent_interruptions_come_first_and_the_others_are_one_line() {
        let many: Vec<(String, u64)> = (1..=13).map(|n| (format!("task-{n:02}"), n)).collect();
        let both = ("tick".to_owned(), 5);
        let good = make_end("good.json", std::slice::from_ref(&both));
        let bad = make_end("bad.json", &[many, vec![both]].concat());
        let found = rows(&compare_symptoms(&good, &bad));
        assert_eq!(found.len(), LISTED_MAX + 1);
        assert_eq!(found[0], ["interrupted by task-13", "never", "13 times"]);
        assert_eq!(found[LISTED_MAX], ["and 3 more sources of interruptions", "never", "6 times"]);
        // Without a whole watch, nothing is known about the other end.
        let unknown = MeasuredEnd { watched: false, ..make_end("good.json", &[]) };
        let bad = make_end("bad.json", &[("tick".to_owned(), 1)]);
        assert_eq!(rows(&compare_symptoms(&unknown, &bad)), [["interrupted by tick", "", "once"]]);
    }

    #[test]
    fn an_end_whose_figure_contradicts_its_role_is_a_warning() {
        let end =
            |name: &str, worst_ns| MeasuredEnd { worst_ns: Some(worst_ns), ..make_end(name, &[]) };
        let (fast, slow) = (end("fast.json", 20_000), end("slow.json", 21_170_000));
        let goal = SearchGoal::MaxLatency { ns: 50_000 };
        assert_eq!(find_contradictions(&fast, &slow, goal), [""; 0]);
        let warnings = [
            "according to slow.json, GOOD misses the goal (worst 21.17 ms); are the files swapped?",
            "according to fast.json, BAD meets the goal (worst 20.0 µs); are the files swapped?",
        ];
        assert_eq!(find_contradictions(&slow, &fast, goal), warnings);
        assert_eq!(find_contradictions(&slow, &fast, SearchGoal::MaxEntries { count: 0 }), [""; 0]);
    }
}
