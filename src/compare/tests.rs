//! Comparisons of made-up documents.

use super::*;
use crate::documents::evidence::{CpuEvidence, PositiveControl, WatchedMachine, WatchedWorkload};
use crate::documents::latency::{MeasuredPower, ThreadDoubt};
use crate::documents::load_done::LoadDone;
use crate::latency::latency_of;

/// A run that began at this second; its worst is `worst_us`, and everything else is faster.
fn run(name: &str, began_s: u64, worst_us: u64) -> GivenRun {
    let mut latency = latency_of(&[(worst_us * 100, 20_000), (worst_us * 1000, 1)]);
    (latency.asked_ns, latency.span_ns) = (10_000_000_000, 10_000_000_000);
    latency.began_s = began_s;
    GivenRun { name: name.to_owned(), measured: MeasuredDocument::Latency(Box::new(latency)) }
}

/// A group whose runs began at these seconds and had these worsts.
fn group(name: &str, runs: &[(u64, u64)]) -> GivenGroup {
    let run = |(n, (at, worst)): (usize, &(u64, u64))| run(&format!("{name}{n}"), *at, *worst);
    GivenGroup { name: name.to_owned(), runs: runs.iter().enumerate().map(run).collect() }
}

fn latency_in(given: &mut GivenGroup, n: usize) -> &mut LatencyMeasurement {
    match &mut given.runs[n].measured {
        MeasuredDocument::Latency(latency) => latency,
        MeasuredDocument::Verify(..) => panic!("a verdict"),
    }
}

fn compared(base: &GivenGroup, other: &GivenGroup) -> GroupPair {
    compare(&[base.clone(), other.clone()]).unwrap().pairs.remove(0)
}

fn answers(pair: &GroupPair) -> Vec<FindingAnswer> {
    pair.rows.iter().map(|row| row.finding.answer).collect()
}

/// Five interleaved runs of each, which do not overlap.
fn clear() -> (GivenGroup, GivenGroup) {
    let before = group("before", &[(0, 100), (40, 120), (80, 110), (120, 130), (160, 105)]);
    let after = group("after", &[(20, 10), (60, 13), (100, 11), (140, 12), (180, 14)]);
    (before, after)
}

#[test]
fn a_clear_difference_of_five_interleaved_runs_is_significant() {
    let (before, after) = clear();
    let pair = compared(&before, &after);
    assert_eq!(pair.sequence, RunOrder::Alternated);
    assert_eq!((&pair.differences[..], &pair.doubts[..]), (&[][..], &[][..]));
    // Worst, average, median, 99, 99.9, 99.99 and jitter.
    assert_eq!(answers(&pair), [FindingAnswer::Differs; 7]);
    let worst = &pair.rows[0];
    assert_eq!((worst.base.value, worst.other.value), (Some(130_000.0), Some(14_000.0)));
    assert_eq!(worst.is_better(), Some(true));
    let typical = worst.typical.unwrap();
    assert!(typical.least.unwrap() > 0.07 && typical.most.unwrap() < 0.15, "{typical:?}");
    // The median of all runs together is among those of each, to what a histogram tells apart.
    let median = &pair.rows[2];
    assert_eq!(median.figure, ComparedFigure::Percentile { percent: 50.0 });
    let (least, most) = median.base.spread().unwrap();
    assert!((least..=most).contains(&median.base.value.unwrap()), "{median:?}");
    // The other way round it is worse.
    assert_eq!(compared(&after, &before).rows[0].is_better(), Some(false));
}

#[test]
fn differences_in_power_memory_and_stolen_time_are_marked() {
    let (mut before, mut after) = clear();
    for n in 0..5 {
        for (given, governor, kib) in
            [(&mut before, "powersave", 16 << 20), (&mut after, "performance", 8 << 20)]
        {
            let setting = &mut latency_in(given, n).setting;
            let governors = vec![governor.to_owned()];
            setting.power = Some(MeasuredPower { governors, ..MeasuredPower::default() });
            setting.memory_kib = Some(kib);
        }
        let power = latency_in(&mut after, n).setting.power.as_mut().unwrap();
        power.turbo = Some(false);
        power.idle_states = Some(vec!["POLL".to_owned()]);
        latency_in(&mut before, n).setting.steal_ns = Some(0);
        // The exact time differs in each run, and is no inconsistency.
        latency_in(&mut after, n).setting.steal_ns = Some(10_000_000 * (1 + n as u64));
    }
    let pair = compared(&before, &after);
    let found: Vec<(&str, &str, &str)> = (pair.differences.iter())
        .map(|it| (it.what.as_str(), it.base.as_str(), it.other.as_str()))
        .collect();
    let wanted = [
        ("memory", "16.0 GiB", "8.0 GiB"),
        ("governor", "powersave", "performance"),
        ("turbo", "unknown", "no"),
        ("idle states", "no driver", "POLL"),
        ("stolen time", "none", "up to 1 %"),
    ];
    assert_eq!(found, wanted);
    assert_eq!(pair.doubts, []);
}

#[test]
fn the_average_counts_each_sample_once() {
    let mut before = group("before", &[(0, 100)]);
    let latency = latency_in(&mut before, 0);
    let mut other_cpu = latency.series[0].clone();
    (latency.series[0].samples, latency.series[0].mean_ns) = (300, Some(1_000));
    (other_cpu.cpu, other_cpu.samples, other_cpu.mean_ns) = (4, 100, Some(5_000));
    latency.series.push(other_cpu);
    let pair = compared(&before, &group("after", &[(20, 10)]));
    let average = pair.rows.iter().find(|row| row.figure == ComparedFigure::Average).unwrap();
    assert_eq!(average.base.value, Some(2_000.0));
    assert_eq!((average.better, average.unit.as_str()), (BetterDirection::Lower, "ns"));
}

#[test]
fn gaps_without_a_period_are_compared_by_their_number_and_not_by_percentiles() {
    let (mut before, mut after) = clear();
    for n in 0..5 {
        for (given, samples) in [(&mut before, 20_000 + n as u64), (&mut after, 200 + n as u64)] {
            let series = &mut latency_in(given, n).series[0];
            (series.period_ns, series.samples) = (0, samples);
        }
    }
    let pair = compared(&before, &after);
    let figures: Vec<ComparedFigure> = pair.rows.iter().map(|row| row.figure).collect();
    assert_eq!(figures, [ComparedFigure::Worst, ComparedFigure::GapRate]);
    assert_eq!(pair.rows[1].is_better(), Some(true));
}

#[test]
fn nothing_is_claimed_with_too_few_runs() {
    let one = compared(&group("a", &[(0, 100)]), &group("b", &[(20, 1)]));
    assert_eq!(answers(&one), [FindingAnswer::Unknown; 7]);
    assert_eq!(one.rows[0].finding.runs_needed, Some(6));
    assert_eq!(one.rows[0].finding.why, [FindingReason::TooFewRuns { needed: 6 }]);
    assert_eq!(one.rows[0].typical.unwrap().least, None);
    assert!((one.rows[0].ratio.unwrap() - 0.01).abs() < 1e-9, "the ratio is shown all the same");
    let three = [(0, 100), (40, 110), (80, 120)];
    let other = [(20, 1), (60, 2), (100, 3)];
    assert_eq!(
        answers(&compared(&group("a", &three), &group("b", &other))),
        [FindingAnswer::Unknown; 7]
    );
    // Runs of one kind among each other.
    let a = &[(0, 10), (40, 30), (80, 50), (120, 70), (160, 90)];
    let b = &[(20, 20), (60, 40), (100, 60), (140, 80)];
    let mixed = compared(&group("a", a), &group("b", b));
    assert!(
        answers(&mixed).iter().all(|one| *one == FindingAnswer::NotShown),
        "{:?}",
        mixed.rows[0]
    );
    assert_eq!(mixed.notes, [PairNote::RunCountsDiffer { base: 5, other: 4 }]);
}

#[test]
fn the_order_of_the_runs_is_recorded() {
    let at = |times: &[u64]| times.iter().map(|at| (*at, 10 + at)).collect::<Vec<_>>();
    for (a, b, sequence, is_doubtful) in [
        (&[0, 40, 80][..], &[20, 60, 100][..], RunOrder::Alternated, false),
        (&[0, 60, 80], &[20, 40, 100], RunOrder::Alternated, false),
        (&[0, 20, 40], &[60, 80, 100], RunOrder::Apart, true),
        (&[60, 80, 100], &[0, 20, 40], RunOrder::Apart, true),
        (&[0, 20, 40, 140], &[60, 80, 100, 120], RunOrder::Mixed, false),
        (&[0, 20, 40, 100], &[60, 80, 120, 140], RunOrder::Mixed, true),
    ] {
        let pair = compared(&group("a", &at(a)), &group("b", &at(b)));
        assert_eq!(pair.sequence, sequence, "{a:?} {b:?}");
        let has_doubt =
            pair.doubts.iter().any(|doubt| matches!(doubt, PairDoubt::NotInterleaved { .. }));
        assert_eq!(has_doubt, is_doubtful, "{:?}", pair.doubts);
    }
    let pair = compared(&group("a", &[(0, 5)]), &group("b", &[(9, 5)]));
    assert_eq!(pair.doubts, [overlapped(&["a0", "b0"])]);
}

fn overlapped(runs: &[&str]) -> PairDoubt {
    PairDoubt::RunsOverlapped { runs: runs.iter().map(|run| (*run).to_owned()).collect() }
}

#[test]
fn runs_that_overlap_are_one_doubt_however_many_pairs_they_are() {
    // The third run joins the first two, which do not overlap; two later ones are a second set.
    let pair = compared(
        &group("a", &[(0, 5), (12, 5), (90, 5)]),
        &group("b", &[(9, 5), (50, 5), (95, 5), (200, 5)]),
    );
    let sets =
        pair.doubts.iter().filter(|doubt| !matches!(doubt, PairDoubt::NotInterleaved { .. }));
    let sets: Vec<&PairDoubt> = sets.collect();
    assert_eq!(sets, [&overlapped(&["a0", "a1", "b0"]), &overlapped(&["a2", "b2"])]);
    assert_eq!(sets[0].to_string(), "3 runs overlap in time: a0, a1, b0");
}

#[test]
fn other_differences_are_listed() {
    let (before, mut after) = clear();
    for n in 0..5 {
        let latency = latency_in(&mut after, n);
        latency.setting.kernel = Some("6.12.1".to_owned());
        latency.setting.cmdline = Some("BOOT_IMAGE=/vmlinuz-1 quiet isolcpus=3".to_owned());
        latency.isolation.shield = Some("rt".to_owned());
        latency.isolation.held = Some(true);
    }
    let mut before = before;
    (0..5).for_each(|n| {
        let text = "BOOT_IMAGE=/vmlinuz-2 quiet".to_owned();
        latency_in(&mut before, n).setting.cmdline = Some(text);
    });
    let pair = compared(&before, &after);
    let differences: Vec<(DifferenceScope, &str, &str, &str)> = pair
        .differences
        .iter()
        .map(|one| (one.realm, one.what.as_str(), one.base.as_str(), one.other.as_str()))
        .collect();
    assert_eq!(
        differences,
        [
            (DifferenceScope::Kernel, "kernel", "unknown", "6.12.1"),
            (DifferenceScope::Setting, "command line", "nothing more", "isolcpus=3"),
            (DifferenceScope::Setting, "shield", "none", "active"),
        ]
    );
    latency_in(&mut after, 2).setting.kernel = Some("6.1.9".to_owned());
    let pair = compared(&before, &after);
    let doubts: Vec<String> = pair.doubts.iter().map(ToString::to_string).collect();
    assert_eq!(doubts, ["the runs of after differ in kernel: 6.1.9 and 6.12.1"]);
}

#[test]
fn doubtful_runs_and_unequal_chances_allow_no_claim() {
    let (before, after) = clear();
    let mut doubtful = after.clone();
    latency_in(&mut doubtful, 1).series[0].doubts.push(ThreadDoubt::Gone);
    let all = compare(&[before.clone(), doubtful]).unwrap();
    assert_eq!(all.doubts().collect::<Vec<_>>(), ["after1: CPU 3, 1 ms: it ended early"]);
    assert_eq!(answers(&all.pairs[0]), [FindingAnswer::Unknown; 7]);
    let doubtful = FindingReason::DoubtfulRuns { runs: vec!["after1".to_owned()] };
    assert_eq!(all.pairs[0].rows[0].finding.why, [doubtful]);

    let mut longer = after.clone();
    (0..5).for_each(|n| latency_in(&mut longer, n).span_ns *= 3);
    let pair = compared(&before, &longer);
    use FindingAnswer::{Differs, Unknown};
    assert_eq!(answers(&pair), [Unknown, Differs, Differs, Differs, Differs, Differs, Unknown]);
    assert_eq!(pair.rows[0].finding.why, [FindingReason::LengthsDiffer]);
    assert_eq!(pair.rows[0].finding.runs_needed, None, "more runs would not help");

    let mut wider = after;
    for n in 0..5 {
        let latency = latency_in(&mut wider, n);
        let more = crate::documents::latency::ThreadSeries { cpu: 4, ..latency.series[0].clone() };
        latency.series.push(more);
    }
    let pair = compared(&before, &wider);
    assert_eq!(pair.rows[0].finding.why, [FindingReason::CpusDiffer]);
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let (before, after) = clear();
    let refused = |groups: &[GivenGroup]| compare(groups).unwrap_err().to_string();
    assert_eq!(refused(std::slice::from_ref(&before)), "a comparison needs at least two groups");
    let named = GivenGroup { name: "before".to_owned(), ..after.clone() };
    assert_eq!(refused(&[before.clone(), named]), "two groups have the name before");
    let empty = GivenGroup { name: "none".to_owned(), runs: Vec::new() };
    assert_eq!(refused(&[before.clone(), empty]), "group none has no runs");
    let twice = GivenGroup { name: "again".to_owned(), runs: vec![before.runs[3].clone()] };
    assert_eq!(refused(&[before.clone(), twice]), "before3 and before3 are the same run");
    let mut other = after.clone();
    latency_in(&mut other, 0).instrument = "rtc".to_owned();
    let said = refused(&[before.clone(), other]);
    assert_eq!(said, "not comparable: before0 measured timer, after0 measured rtc");
    let mut other = after.clone();
    (0..5).for_each(|n| latency_in(&mut other, n).series[0].period_ns = 7);
    let said = refused(&[before.clone(), other]);
    assert_eq!(said, "not comparable: before and after have no figure in common");
    let runs = (0..5).map(|n| verified([Some(n), Some(0)])).collect();
    let said = refused(&[before.clone(), GivenGroup { name: "verdicts".to_owned(), runs }]);
    assert_eq!(said, "not comparable: before has outputs of `latency`, verdicts of `verify`");
    let mut other = after;
    latency_in(&mut other, 0).series[0].histogram.push('!');
    assert!(refused(&[before, other]).starts_with("after0: cannot decode the histogram of CPU 3"));
}

/// A verdict's evidence of two seconds on two CPUs.
fn verified(entries: [Option<u64>; 2]) -> GivenRun {
    let cpu = |(cpu, entries): (usize, Option<u64>)| -> CpuEvidence {
        let text = serde_json::json!({
            "cpu": cpu, "entries": entries, "interruptions": [], "longest_ns": null, "gaps": null,
            "lost": null, "steal_ns": null, "doubts": [], "whole": false, "tracked": false,
            "senders": [], "events": [],
        });
        serde_json::from_value(text).unwrap()
    };
    let evidence = Evidence {
        shield: None,
        open_to: None,
        options: None,
        schema: crate::documents::evidence::SCHEMA,
        began_s: None,
        began_ns: 0,
        span_ns: 2_000_000_000,
        asked_ns: 2_000_000_000,
        ended: None,
        stopped: false,
        workload: WatchedWorkload::Sampler,
        guest: Some(false),
        machine: None,
        cpus: entries.into_iter().enumerate().map(cpu).collect(),
        witnesses: Vec::new(),
        control: PositiveControl::Seen { provoked: Vec::new() },
        interference: Vec::new(),
        traced: None,
        breach: None,
    };
    let verdict = Verdict {
        schema: crate::documents::evidence::SCHEMA,
        cpus: Vec::new(),
        gates: Vec::new(),
        tick: Default::default(),
    };
    let measured = MeasuredDocument::Verify(Box::new(evidence), Box::new(verdict));
    GivenRun { name: format!("{entries:?}"), measured }
}

#[test]
fn verdicts_of_two_kernels_differ_in_their_setup() {
    let group = |name: &str, shield: Option<&str>, kernel: &str, cmdline: &str, entries: u64| {
        let runs = (0..5).map(|n| verified([Some(entries + n), Some(0)]));
        let mut runs: Vec<GivenRun> = runs.collect();
        for run in &mut runs {
            let MeasuredDocument::Verify(evidence, _) = &mut run.measured else { unreachable!() };
            evidence.machine = Some(WatchedMachine {
                kernel: Some(kernel.to_owned()),
                cmdline: Some(cmdline.to_owned()),
                ..WatchedMachine::default()
            });
            evidence.shield = shield.map(str::to_owned);
        }
        GivenGroup { name: name.to_owned(), runs }
    };
    let old = group("old", None, "6.1.0", "BOOT_IMAGE=a quiet", 10);
    let new = group("new", Some("rt"), "6.12.0", "BOOT_IMAGE=b quiet nohz_full=3", 20);
    let found: Vec<(String, String, String)> = compared(&old, &new)
        .differences
        .into_iter()
        .map(|found| (found.what, found.base, found.other))
        .collect();
    let texts = |found: [&str; 3]| (found[0].into(), found[1].into(), found[2].into());
    let kernel = texts(["kernel", "6.1.0", "6.12.0"]);
    let shield = texts(["shield", "none", "active"]);
    assert_eq!(found, [kernel, texts(["command line", "nothing more", "nohz_full=3"]), shield]);
}

#[test]
fn noise_and_throughput_are_compared_too() {
    let quiet = |n: u64| verified([Some(n), Some(0)]);
    let loud = |n: u64| verified([Some(1000 + n), Some(1000)]);
    let group = |name: &str, of: &dyn Fn(u64) -> GivenRun| GivenGroup {
        name: name.to_owned(),
        runs: (0..5).map(of).collect(),
    };
    let pair = compared(&group("loud", &loud), &group("quiet", &quiet));
    assert_eq!(pair.rows.len(), 1);
    let noise = &pair.rows[0];
    assert_eq!((noise.figure, noise.unit.as_str()), (ComparedFigure::Noise, "1/s"));
    assert_eq!((noise.base.value, noise.other.value), (Some(500.5), Some(0.5)));
    assert_eq!((noise.finding.answer, noise.is_better()), (FindingAnswer::Differs, Some(true)));
    // A ratio of pairs with a 0 among them is none.
    assert_eq!((noise.typical, pair.sequence), (None, RunOrder::Unknown));
    assert_eq!(pair.doubts, [PairDoubt::NoStartTime]);
    // Newer documents tell it.
    let at = |began_s: u64, mut run: GivenRun| {
        let MeasuredDocument::Verify(evidence, _) = &mut run.measured else { unreachable!() };
        evidence.began_s = Some(began_s);
        run
    };
    let quiet = |n: u64| at(4 * n, quiet(n));
    let sequence = |shift: u64| {
        compared(&group("loud", &|n| at(4 * n + shift, loud(n))), &group("quiet", &quiet)).sequence
    };
    assert_eq!((sequence(2), sequence(100)), (RunOrder::Alternated, RunOrder::Apart));

    let (mut before, mut after) = clear();
    for n in 0..5 {
        for (group, per_s) in [(&mut before, 900.0), (&mut after, 700.0)] {
            latency_in(group, n).loads.push(LoadDone {
                name: "messages".to_owned(),
                arguments: Vec::new(),
                what: "2 pairs".to_owned(),
                program: None,
                cpus: "0".parse().unwrap(),
                unit: "messages".to_owned(),
                count: None,
                per_s: Some(per_s + n as f64),
                span_ns: 1,
                doubts: Vec::new(),
            });
        }
    }
    let pair = compared(&before, &after);
    let price = pair.rows.last().unwrap();
    assert_eq!((price.subject.as_str(), price.unit.as_str()), ("messages", "messages/s"));
    assert_eq!((price.finding.answer, price.is_better()), (FindingAnswer::Differs, Some(false)));
}

#[test]
fn runs_of_two_shields_are_never_one_group_and_each_group_names_its_shield() {
    let (mut before, mut after) = clear();
    let name = |group: &mut GivenGroup, n: usize, shield: &str| {
        latency_in(group, n).isolation.shield = Some(shield.to_owned());
    };
    name(&mut before, 1, "a");
    name(&mut after, 0, "b");
    let compared = compare(&[before.clone(), after.clone()]).unwrap();
    let shields = compared.groups.iter().map(|group| group.shield.as_deref());
    assert_eq!(shields.collect::<Vec<_>>(), [Some("a"), Some("b")]);
    name(&mut before, 4, "b");
    let named = |n: usize, shield: &str| (format!("before{n}"), shield.to_owned());
    assert_eq!(
        compare(&[before, after]),
        Err(CompareError::Shields {
            group: "before".to_owned(),
            one: named(1, "a"),
            other: named(4, "b"),
        })
    );
}

#[test]
fn a_run_without_a_gap_counts_with_the_threshold() {
    let (mut before, mut after) = clear();
    for given in [&mut before, &mut after] {
        for n in 0..5 {
            latency_in(given, n).series[0].threshold_ns = Some(1_000);
        }
    }
    for n in 0..5 {
        let silent = &mut latency_in(&mut after, n).series[0];
        (silent.samples, silent.max_ns, silent.jitter_ns) = (0, None, None);
        silent.worst.clear();
        silent.percentiles.clear();
        silent.histogram = latency_of(&[]).series[0].histogram.clone();
    }
    let worst = &compared(&before, &after).rows[0];
    assert_eq!((worst.figure, worst.other.value), (ComparedFigure::Worst, Some(1_000.0)));
    assert_eq!((worst.other.runs.len(), worst.is_better()), (5, Some(true)));
}
