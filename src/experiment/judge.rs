//! The cells of an [`Experiment`] → the best row, and the effect of each option alone. Pure.
//!
//! One figure of each run is compared, which is chosen before anything is measured, by the test of
//! `compare`. Runs of one boot are not independent: rows with different kernel parameters are
//! compared by the worst run of each boot. The kernel's identifier of a boot names it, so that no
//! boot counts twice.

use super::{
    BestEvidence, BestRow, ComparedUnit, EffectEvidence, EffectMeaning, Experiment, ExperimentNote,
    ExperimentRow, OptionEffect,
};
use crate::compare::{self, OneFigure, median};
use crate::documents::comparison::{ComparisonFinding, FindingAnswer};
use crate::policy::TunableSetting;
use std::collections::BTreeSet;
use std::fmt;

/// A column and the period of its threads.
type ColumnTrack = (usize, u64);

/// Finds the best row of each track and the effect of each option.
pub(super) fn judge(experiment: &mut Experiment) {
    let tracks = experiment.tracks();
    experiment.best = tracks.iter().filter_map(|track| find_best_row(experiment, *track)).collect();
    experiment.effects = find_effects(experiment, &tracks);
    let verdicts = experiment.effects.iter().map(|effect| effect.verdict);
    let effects = verdicts.filter(|verdict| *verdict != EffectMeaning::Unknown).count();
    if effects > 1 {
        experiment.notes.push(ExperimentNote::ManyTests { effects });
    }
}

/// Two rows by one track: whether the second is better.
struct RowComparison {
    difference: EffectMeaning,
    ratio: Option<f64>,
    p: Option<f64>,
    why: EffectEvidence,
}

impl RowComparison {
    fn unknown(why: EffectEvidence) -> RowComparison {
        RowComparison { difference: EffectMeaning::Unknown, ratio: None, p: None, why }
    }
}

fn compare_rows(
    experiment: &Experiment,
    (one, other): (usize, usize),
    track: ColumnTrack,
) -> RowComparison {
    for row in [one, other] {
        let name = || experiment.rows.get(row).map(|row| row.name.clone()).unwrap_or_default();
        if experiment.is_doubtful(row, track.0) {
            return RowComparison::unknown(EffectEvidence::RowDoubtful { row: name() });
        }
        if experiment.has_failed(row, track.0) {
            return RowComparison::unknown(EffectEvidence::RowFailed { row: name() });
        }
    }
    let [few, many] =
        [one, other].map(|row| experiment.rows.get(row).map_or(0, |row| row.cpus.len()));
    if few != many {
        return RowComparison::unknown(EffectEvidence::CpuCountsDiffer);
    }
    let unit = choose_unit(experiment, one, other);
    let (a, b) =
        (list_figures(experiment, one, track, unit), list_figures(experiment, other, track, unit));
    if a.is_empty() || b.is_empty() {
        return RowComparison::unknown(EffectEvidence::NotMeasured);
    }
    let OneFigure { finding, estimate, is_other_lower } = compare::one_figure(&a, &b);
    let ratio = estimate.map(|estimate| estimate.ratio);
    let difference = match (finding.answer, is_other_lower) {
        (FindingAnswer::Differs, Some(true)) => EffectMeaning::Better,
        (FindingAnswer::Differs, Some(false)) => EffectMeaning::Worse,
        (FindingAnswer::NotShown, _) => EffectMeaning::Chance,
        _ => EffectMeaning::Unknown,
    };
    RowComparison { difference, ratio, p: finding.p, why: find_evidence(&finding, unit) }
}

/// Runs of one boot are not independent if the other row needs another boot.
fn choose_unit(experiment: &Experiment, one: usize, other: usize) -> ComparedUnit {
    let [one, other] =
        [one, other].map(|row| experiment.rows.get(row).map(ExperimentRow::needed_boot));
    if one == other { ComparedUnit::Repetition } else { ComparedUnit::Boot }
}

fn find_evidence(finding: &ComparisonFinding, unit: ComparedUnit) -> EffectEvidence {
    match (finding.p, finding.runs_needed) {
        (_, Some(needed)) => EffectEvidence::TooFew { needed, unit },
        (Some(p), None) => EffectEvidence::Tested { p },
        (None, None) => EffectEvidence::NotTestable,
    }
}

/// The runs that count as one.
#[derive(Debug, PartialEq)]
enum CountedRuns<'a> {
    /// One repetition.
    Round(usize),
    /// All runs of one boot; `None` are those whose boot is unknown, which may be a single one.
    Boot(Option<&'a str>),
}

/// The figure of each repetition, or the worst of each boot.
fn list_figures(
    experiment: &Experiment,
    row: usize,
    track: ColumnTrack,
    unit: ComparedUnit,
) -> Vec<f64> {
    let figure = experiment.figure(track);
    let mut figures: Vec<(CountedRuns<'_>, u64)> = Vec::new();
    for run in experiment.runs(row, track.0) {
        let found = run.track(track.1).and_then(|track| track.figure(figure));
        let Some(ns) = found else { continue };
        let counted = match unit {
            ComparedUnit::Repetition => CountedRuns::Round(run.round),
            ComparedUnit::Boot => CountedRuns::Boot(run.boot.as_deref()),
        };
        match figures.iter_mut().find(|(known, _)| *known == counted) {
            Some((_, worst)) => *worst = ns.max(*worst),
            None => figures.push((counted, ns)),
        }
    }
    figures.into_iter().map(|(_, ns)| ns as f64).collect()
}

/// The rows that were measured with their median figures, the lowest first.
fn rank_rows(experiment: &Experiment, track: ColumnTrack) -> Vec<(usize, f64)> {
    let mut rows: Vec<(usize, f64)> = (0..experiment.rows.len())
        .filter_map(|row| {
            let figures = list_figures(experiment, row, track, ComparedUnit::Repetition);
            Some((row, median(figures)?))
        })
        .collect();
    rows.sort_by(|a, b| a.1.total_cmp(&b.1));
    rows
}

/// The best row of a track; `None` when nothing was measured.
fn find_best_row(experiment: &Experiment, track: ColumnTrack) -> Option<BestRow> {
    let mut rows = rank_rows(experiment, track);
    let compared = compare_with_best(experiment, track, &mut rows);
    let ((first, _), others) = rows.split_first()?;
    let mut among = vec![*first];
    let mut p = 0.0_f64;
    let mut reasons: Vec<EffectEvidence> = Vec::new();
    for ((other, _), compared) in others.iter().zip(compared) {
        if compared.difference == EffectMeaning::Worse {
            p = p.max(compared.p.unwrap_or(1.0));
            continue;
        }
        among.push(*other);
        let why = match compared.difference {
            EffectMeaning::Unknown => compared.why,
            _ => EffectEvidence::MayBeChance,
        };
        if !reasons.contains(&why) {
            reasons.push(why);
        }
    }
    let (winner, why) = match (others.is_empty(), among.len()) {
        (true, _) => (None, BestEvidence::NoOtherRow),
        (false, 1) => (Some(*first), BestEvidence::OthersLonger { p }),
        (false, _) => (None, BestEvidence::Undecided { reasons }),
    };
    let figure = experiment.figure(track);
    Some(BestRow { column: track.0, period_ns: track.1, figure, winner, among, why })
}

/// Compares the first row with each other one. A row that is significantly better than the first
/// one becomes the first: the test may compare the worst of each boot, which can order rows in
/// another way than the median of all repetitions.
fn compare_with_best(
    experiment: &Experiment,
    track: ColumnTrack,
    rows: &mut [(usize, f64)],
) -> Vec<RowComparison> {
    // Each turn puts another row first. More turns than rows would be a circle.
    let mut turns = rows.len();
    loop {
        let Some(((first, _), others)) = rows.split_first() else { return Vec::new() };
        let compared =
            others.iter().map(|(other, _)| compare_rows(experiment, (*first, *other), track));
        let compared: Vec<RowComparison> = compared.collect();
        let mut differences = compared.iter().map(|it| it.difference);
        match differences.position(|difference| difference == EffectMeaning::Better) {
            Some(better) if turns > 0 => rows.swap(0, better + 1),
            _ => return compared,
        }
        turns -= 1;
    }
}

/// An option of a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum RowOption<'a> {
    Shield,
    Tunable {
        name: &'a str,
        setting: &'a TunableSetting,
    },
    /// Another kernel, by its release.
    Kernel(&'a str),
    /// A word of the kernel command line.
    Word(&'a str),
}

impl fmt::Display for RowOption<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RowOption::Shield => f.write_str("shield"),
            RowOption::Tunable { name, setting: TunableSetting::Value(value) } => {
                write!(f, "{name} {value}")
            }
            RowOption::Tunable { name, setting } if setting.is_on() => write!(f, "{name} on"),
            RowOption::Tunable { name, .. } => write!(f, "{name} off"),
            RowOption::Kernel(release) => write!(f, "kernel {release}"),
            RowOption::Word(word) => f.write_str(word),
        }
    }
}

/// The options of a row: its shield, its tunables, its kernel and its kernel parameters.
fn list_options(row: &ExperimentRow) -> BTreeSet<RowOption<'_>> {
    let shield = row.shield.then_some(RowOption::Shield);
    let tunables = row.tunables.iter().map(|(name, setting)| RowOption::Tunable { name, setting });
    let kernel = row.kernel.iter().map(|release| RowOption::Kernel(release));
    let words = row.boot.iter().map(|word| RowOption::Word(word));
    shield.into_iter().chain(tunables).chain(kernel).chain(words).collect()
}

fn measure_same_cpus(experiment: &Experiment, one: usize, other: usize) -> bool {
    let [one, other] = [one, other].map(|row| experiment.rows.get(row).map(|row| &row.cpus));
    one == other
}

/// The effects of all pairs of rows that differ by one option and measure the same CPUs.
fn find_effects(experiment: &Experiment, tracks: &[ColumnTrack]) -> Vec<OptionEffect> {
    let options: Vec<BTreeSet<RowOption<'_>>> = experiment.rows.iter().map(list_options).collect();
    let mut effects = Vec::new();
    for (without, few) in options.iter().enumerate() {
        for (with, many) in options.iter().enumerate() {
            let mut more = many.difference(few);
            let (Some(option), None, true) = (more.next(), more.next(), few.is_subset(many)) else {
                continue;
            };
            if !measure_same_cpus(experiment, without, with) {
                continue;
            }
            for track in tracks {
                let compared = match find_refused(experiment, (without, with), *track, option) {
                    Some(tunable) => {
                        RowComparison::unknown(EffectEvidence::OptionRefused { tunable })
                    }
                    None => compare_rows(experiment, (without, with), *track),
                };
                let RowComparison { difference, ratio, why, .. } = compared;
                effects.push(OptionEffect {
                    option: option.to_string(),
                    without,
                    with,
                    column: track.0,
                    period_ns: track.1,
                    figure: experiment.figure(*track),
                    ratio,
                    verdict: difference,
                    why,
                });
            }
        }
    }
    effects
}

/// The tunable of an option, if the kernel refused a change of it in one of these rows.
fn find_refused(
    experiment: &Experiment,
    rows: (usize, usize),
    (column, _): ColumnTrack,
    option: &RowOption<'_>,
) -> Option<String> {
    let RowOption::Tunable { name, .. } = option else { return None };
    let mut rows = [rows.0, rows.1].into_iter();
    rows.any(|row| experiment.was_refused(row, column, name)).then(|| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::latency::{IsolationCheck, IsolationWitness};
    use crate::experiment::{
        ExperimentCell, ExperimentColumn, ExperimentRun, ExperimentSetup, ExperimentState,
        MissedRepetition, RankedFigure, RowIsolation, SCHEMA, ThreadTrack, UnmeasuredReason,
    };
    use cpushield_linux::CpuSet;

    /// A row with these options, separated by blanks.
    fn row(options: &str) -> ExperimentRow {
        let words = options.split(' ');
        ExperimentRow {
            name: options.to_owned(),
            cpus: find_row_cpus(options),
            shield: words.clone().any(|word| word == "shield"),
            tunables: words
                .clone()
                .filter_map(|word| Some((word.strip_prefix("no-")?.to_owned(), false)))
                .collect(),
            kernel: None,
            boot: words.filter(|word| word.contains('=')).map(str::to_owned).collect(),
            isolation: RowIsolation::Unchecked,
            missing: None,
        }
    }

    /// The CPUs of a row: `cpu1` is its own list, and 3 is the default.
    fn find_row_cpus(options: &str) -> CpuSet {
        let own = options.split(' ').find_map(|word| word.strip_prefix("cpu"));
        own.unwrap_or("3").parse().unwrap()
    }

    /// A run with this jitter.
    fn run(round: usize, jitter_us: u64) -> ExperimentRun {
        ExperimentRun {
            round,
            began_s: round as u64,
            span_ns: 1,
            kernel: None,
            boot: None,
            held: None,
            isolation: None,
            tracks: vec![ThreadTrack {
                period_ns: 1_000,
                samples: 9,
                missed: 0,
                mean_ns: Some(1),
                max_ns: Some(1),
                jitter_ns: Some(jitter_us * 1_000),
                percentiles: Vec::new(),
                over: Vec::new(),
            }],
            loads: Vec::new(),
            doubts: Vec::new(),
            refused: Vec::new(),
            file: String::new(),
        }
    }

    /// The cell of a row whose runs have these jitters, spread over this number of boots.
    fn cell(row: usize, jitters_us: &[u64], boots: usize) -> ExperimentCell {
        let runs = jitters_us.iter().enumerate().map(|(round, us)| ExperimentRun {
            boot: Some(format!("boot {} of row {row}", round * boots / jitters_us.len())),
            ..run(round, *us)
        });
        ExperimentCell { row, column: 0, runs: runs.collect(), missing: Vec::new() }
    }

    /// An experiment of one column. Its rows have these options, and jitters in µs.
    fn experiment(boots: usize, rows: &[(&str, &[u64])]) -> Experiment {
        let mut experiment = Experiment {
            schema: SCHEMA,
            name: "t".to_owned(),
            version: String::new(),
            state: ExperimentState::Finished,
            began_s: 0,
            ended_s: None,
            cpus: "3".parse().unwrap(),
            span_ns: 1,
            warmup_ns: 0,
            repeats: rows[0].1.len(),
            boots,
            setup: ExperimentSetup::default(),
            rows: rows.iter().map(|(options, _)| row(options)).collect(),
            columns: vec![ExperimentColumn {
                name: "c".to_owned(),
                instrument: "timer".to_owned(),
                periods_ns: vec![1_000],
                other: false,
                over_ns: Vec::new(),
                load: Vec::new(),
            }],
            cells: rows.iter().enumerate().map(|(n, (_, found))| cell(n, found, boots)).collect(),
            best: Vec::new(),
            effects: Vec::new(),
            notes: Vec::new(),
        };
        judge(&mut experiment);
        experiment
    }

    #[test]
    fn a_winner_is_named_only_if_the_difference_is_significant() {
        let clear = experiment(4, &[("base", &[90, 91, 92, 93]), ("shield", &[10, 11, 12, 13])]);
        assert_eq!((clear.best[0].winner, clear.best[0].among.as_slice()), (Some(1), &[1][..]));
        assert_eq!(clear.best[0].figure, RankedFigure::MaxJitter);
        let mixed = experiment(
            4,
            &[
                ("base", &[90, 91, 92, 93]),
                ("shield", &[10, 21, 12, 23]),
                ("shield no-thp", &[20, 11, 22, 13]),
            ],
        );
        assert_eq!((mixed.best[0].winner, mixed.best[0].among.len()), (None, 2));
        let reasons = vec![EffectEvidence::MayBeChance];
        assert_eq!(mixed.best[0].why, BestEvidence::Undecided { reasons });
        let few = experiment(2, &[("base", &[90, 91]), ("shield", &[10, 11])]);
        assert_eq!(few.best[0].winner, None);
        let why = "4 repetitions of each row are needed to distinguish an effect from chance";
        assert_eq!(few.best[0].why.to_string(), why);
        let alone = experiment(2, &[("base", &[90, 91])]);
        assert_eq!(alone.best[0].winner, None);
    }

    #[test]
    fn rows_with_different_numbers_of_cpus_or_failed_repetitions_are_not_compared() {
        let rows: &[(&str, &[u64])] =
            &[("shield cpu2-3", &[90, 91, 92, 93]), ("shield", &[10, 11, 12, 13])];
        let reasons = |experiment: &Experiment| match &experiment.best[0].why {
            BestEvidence::Undecided { reasons } => reasons.clone(),
            other => panic!("{other:?}"),
        };
        let cpus = experiment(4, rows);
        assert_eq!(cpus.best[0].winner, None);
        assert_eq!(reasons(&cpus), [EffectEvidence::CpuCountsDiffer]);
        let rows: &[(&str, &[u64])] = &[("base", &[90, 91, 92, 93]), ("shield", &[10, 11, 12, 13])];
        let mut failed = experiment(4, rows);
        let why = UnmeasuredReason::WentDownWhileMeasuring { times: 2 };
        failed.cells[1].missing.push(MissedRepetition { round: 4, why });
        judge(&mut failed);
        assert_eq!(failed.best[0].winner, None);
        let row = "shield".to_owned();
        assert_eq!(reasons(&failed), [EffectEvidence::RowFailed { row }]);
    }

    #[test]
    fn the_test_and_not_the_median_says_which_row_is_better() {
        // Many runs are equal: the medians are, too.
        let gaps: &[u64] = &[1, 9, 1, 9, 1, 9, 1, 9, 1, 9, 1, 1];
        let none: &[u64] = &[1; 12];
        let found = experiment(12, &[("base", gaps), ("shield", none)]);
        assert_eq!(found.best[0].winner, Some(1));
        assert_eq!(found.effects[0].verdict, EffectMeaning::Better);
        // The medians of all runs order these the other way round than the worst of each boot.
        let a: &[u64] = &[10, 100, 11, 101, 12, 102, 13, 103];
        let b: &[u64] = &[60, 61, 62, 63, 64, 60, 61, 62];
        let found = experiment(4, &[("nohz_full=3", a), ("nohz_full=3 x=1", b)]);
        assert_eq!(found.best[0].winner, Some(1));
    }

    #[test]
    fn an_option_that_the_kernel_refused_has_no_effect() {
        let rows: &[(&str, &[u64])] =
            &[("shield", &[90, 91, 92, 93]), ("shield no-thp", &[10, 11, 12, 13])];
        let mut refused = experiment(4, rows);
        refused.cells[1].runs[2].refused.push("thp".to_owned());
        judge(&mut refused);
        let tunable = "thp".to_owned();
        assert_eq!(refused.effects[0].why, EffectEvidence::OptionRefused { tunable });
        assert_eq!(refused.effects[0].verdict, EffectMeaning::Unknown);
    }

    #[test]
    fn a_kernel_parameter_spelled_like_a_refused_tunable_keeps_its_effect() {
        let rows: &[(&str, &[u64])] = &[("shield", &[90, 91, 92, 93]), ("shield x=1", &[9; 4])];
        let mut found = experiment(4, rows);
        found.rows[1].boot = vec!["thp off".to_owned()];
        found.cells[1].runs[2].refused.push("thp".to_owned());
        judge(&mut found);
        let effect = &found.effects[0];
        assert_eq!((effect.option.as_str(), effect.verdict), ("thp off", EffectMeaning::Better));
    }

    #[test]
    fn the_effect_of_an_option_comes_from_the_rows_that_differ_only_by_it() {
        let experiment = experiment(
            4,
            &[
                ("base", &[90, 91, 92, 93]),
                ("shield", &[10, 11, 12, 13]),
                ("shield no-thp", &[10, 11, 12, 13]),
                ("shield nohz_full=3", &[30, 31, 32, 33]),
                ("shield no-thp nohz_full=3 x=1", &[1, 1, 1, 1]),
            ],
        );
        let seen: Vec<_> = experiment
            .effects
            .iter()
            .map(|it| (it.option.as_str(), it.without, it.with, it.verdict))
            .collect();
        let wanted = [
            ("shield", 0, 1, EffectMeaning::Better),
            ("thp off", 1, 2, EffectMeaning::Chance),
            ("nohz_full=3", 1, 3, EffectMeaning::Worse),
        ];
        assert_eq!(seen, wanted);
        assert!(experiment.effects[0].ratio.is_some_and(|ratio| ratio < 0.2));
        assert_eq!(experiment.notes, [ExperimentNote::ManyTests { effects: 3 }]);
    }

    #[test]
    fn rows_on_different_cpus_are_ranked_and_are_not_the_effect_of_an_option() {
        let rows: &[(&str, &[u64])] = &[
            ("cpu1", &[90, 91, 92, 93]),
            ("shield", &[10, 11, 12, 13]),
            ("shield cpu1", &[20, 21, 22, 23]),
        ];
        let experiment = experiment(4, rows);
        let seen: Vec<_> = experiment.effects.iter().map(|it| (it.without, it.with)).collect();
        assert_eq!(seen, [(0, 2)]);
        assert_eq!(experiment.best[0].winner, Some(1));
    }

    #[test]
    fn runs_of_one_boot_do_not_count_as_repetitions() {
        let rows: &[(&str, &[u64])] =
            &[("base", &[90, 91, 92, 93]), ("nohz_full=3", &[10, 11, 12, 13])];
        let few = experiment(2, rows);
        assert_eq!(few.effects[0].verdict, EffectMeaning::Unknown);
        let unit = ComparedUnit::Boot;
        assert_eq!(few.effects[0].why, EffectEvidence::TooFew { needed: 4, unit });
        assert_eq!(experiment(4, rows).effects[0].verdict, EffectMeaning::Better);
        assert_eq!(list_figures(&few, 0, (0, 1_000), unit), [91_000.0, 93_000.0]);
    }

    #[test]
    fn visits_in_the_same_boot_count_as_one_boot() {
        let rows: &[(&str, &[u64])] =
            &[("base", &[90, 91, 92, 93]), ("nohz_full=3", &[10, 11, 12, 13])];
        let mut experiment = experiment(4, rows);
        // The second visit and the third one were made without a reboot in between.
        experiment.cells[1].runs[2].boot = experiment.cells[1].runs[1].boot.clone();
        judge(&mut experiment);
        let unit = ComparedUnit::Boot;
        assert_eq!(list_figures(&experiment, 1, (0, 1_000), unit), [10_000.0, 12_000.0, 13_000.0]);
        assert_eq!(experiment.best[0].winner, None);
        assert_eq!(experiment.effects[0].verdict, EffectMeaning::Unknown);
        // Runs whose boot is unknown may all be of one boot.
        for run in experiment.cells.iter_mut().flat_map(|cell| &mut cell.runs) {
            run.boot = None;
        }
        judge(&mut experiment);
        assert_eq!(list_figures(&experiment, 1, (0, 1_000), unit), [13_000.0]);
        assert_eq!(experiment.best[0].winner, None);
    }

    #[test]
    fn a_row_whose_isolation_was_not_in_force_does_not_win() {
        let mut experiment =
            experiment(4, &[("base", &[90, 91, 92, 93]), ("isolcpus=3", &[10, 11, 12, 13])]);
        let none = IsolationWitness::Present { isolated: CpuSet::new() };
        let witnesses = [none.clone(), none.clone(), none];
        let check = IsolationCheck::new(CpuSet::single(3), witnesses);
        experiment.rows[1].isolation = RowIsolation::NotInForce { check };
        judge(&mut experiment);
        assert_eq!(experiment.best[0].winner, None);
        assert_eq!(experiment.effects[0].verdict, EffectMeaning::Unknown);
    }

    #[test]
    fn a_doubtful_row_does_not_win() {
        let mut experiment =
            experiment(4, &[("base", &[90, 91, 92, 93]), ("shield", &[10, 11, 12, 13])]);
        experiment.cells[1].runs[2].held = Some(false);
        judge(&mut experiment);
        assert_eq!(experiment.best[0].winner, None);
        let reasons = vec![EffectEvidence::RowDoubtful { row: "shield".to_owned() }];
        assert_eq!(experiment.best[0].why, BestEvidence::Undecided { reasons });
        assert_eq!(experiment.effects[0].verdict, EffectMeaning::Unknown);
    }
}
