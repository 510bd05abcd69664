//! The cells of a [`Experiment`] → which row is best, and what each option does alone. Pure.
//!
//! One figure of each run is compared, which is fixed before anything is measured, by the test of
//! `compare`. Runs of one boot are no repetitions of that boot: rows that are booted differently
//! are compared by the worst of each boot.

use super::{BestRow, EffectMeaning, Experiment, ExperimentRow, OptionEffect};
use crate::compare::{self, ComparisonFinding, FindingAnswer};
use std::collections::BTreeSet;

/// A column and the period of its threads.
type ColumnTrack = (usize, u64);

/// Says which row is best, and what each option does alone.
pub(super) fn judge(experiment: &mut Experiment) {
    let tracks = experiment.tracks();
    experiment.best = tracks.iter().filter_map(|track| best(experiment, *track)).collect();
    experiment.effects = effects(experiment, &tracks);
    let tested =
        experiment.effects.iter().filter(|it| it.verdict != EffectMeaning::Unknown).count();
    if tested > 1 {
        experiment.notes.push(format!(
            "{tested} effects were tested, each by itself: one in {:.0} looks like more than chance \
             when there is none",
            1.0 / compare::ALPHA
        ));
    }
}

/// Two rows by one track: whether the second is better.
struct RowComparison {
    difference: EffectMeaning,
    ratio: Option<f64>,
    p: Option<f64>,
    why: String,
}

fn compared(
    experiment: &Experiment,
    (one, other): (usize, usize),
    track: ColumnTrack,
) -> RowComparison {
    let unknown = |why: String| RowComparison {
        difference: EffectMeaning::Unknown,
        ratio: None,
        p: None,
        why,
    };
    for row in [one, other] {
        if let Some(why) = doubtful(experiment, row, track.0) {
            return unknown(why);
        }
    }
    let boot = |row: usize| experiment.rows.get(row).map(|row| row.boot.clone());
    let apart = boot(one) != boot(other);
    let (a, b) = (values(experiment, one, track, apart), values(experiment, other, track, apart));
    if a.is_empty() || b.is_empty() {
        return unknown("not measured".to_owned());
    }
    let (finding, estimate) = compare::one_figure(&a, &b);
    let ratio = estimate.map(|estimate| estimate.ratio);
    let difference = match (finding.answer, ratio) {
        (FindingAnswer::Differs, Some(ratio)) if ratio < 1.0 => EffectMeaning::Better,
        (FindingAnswer::Differs, Some(_)) => EffectMeaning::Worse,
        (FindingAnswer::NotShown, _) => EffectMeaning::Chance,
        _ => EffectMeaning::Unknown,
    };
    RowComparison { difference, ratio, p: finding.p, why: why(&finding, apart) }
}

fn why(finding: &ComparisonFinding, apart: bool) -> String {
    let what = if apart { "boots" } else { "repetitions" };
    match (finding.p, finding.runs_needed) {
        (_, Some(needed)) => format!("{needed} {what} of each are needed to tell it from chance"),
        (Some(p), None) => format!("p {p:.3}"),
        (None, None) => finding.why.join("; "),
    }
}

/// Why nothing can be said of a row.
fn doubtful(experiment: &Experiment, row: usize, column: usize) -> Option<String> {
    let runs = &experiment.cell(row, column)?.runs;
    let name = experiment.rows.get(row).map(|row| row.name.as_str()).unwrap_or_default();
    let doubtful = runs.iter().any(|run| !run.doubts.is_empty() || run.held == Some(false));
    doubtful.then(|| format!("a measurement of {name:?} is doubtful"))
}

/// The figure of each repetition, or the worst of each boot.
fn values(experiment: &Experiment, row: usize, track: ColumnTrack, by_boot: bool) -> Vec<f64> {
    let figure = experiment.figure(track);
    let runs = experiment.cell(row, track.0).map(|cell| cell.runs.as_slice()).unwrap_or_default();
    let mut values: Vec<(usize, u64)> = Vec::new();
    for run in runs {
        let of = run.tracks.iter().find(|it| it.period_ns == track.1);
        let Some(ns) = of.and_then(|it| it.figure(figure)) else { continue };
        let unit = if by_boot { visit(experiment, run.round) } else { run.round };
        match values.iter_mut().find(|(known, _)| *known == unit) {
            Some((_, worst)) => *worst = ns.max(*worst),
            None => values.push((unit, ns)),
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "times are below 2^52 ns")]
    let real = |(_, ns): (usize, u64)| ns as f64;
    values.into_iter().map(real).collect()
}

/// In which boot of its kind a repetition is made.
fn visit(experiment: &Experiment, round: usize) -> usize {
    let (boots, repeats) = (experiment.boots.max(1), experiment.repeats.max(1));
    (0..boots).rev().find(|visit| visit * repeats / boots <= round).unwrap_or(0)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    let upper = *values.get(half)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(*values.get(half.checked_sub(1)?)?, upper))
}

/// Which row is best; `None` where nothing was measured.
fn best(experiment: &Experiment, track: ColumnTrack) -> Option<BestRow> {
    let typical = |row: usize| Some((row, median(values(experiment, row, track, false))?));
    let mut rows: Vec<(usize, f64)> = (0..experiment.rows.len()).filter_map(typical).collect();
    rows.sort_by(|a, b| a.1.total_cmp(&b.1));
    let ((first, _), others) = rows.split_first()?;
    let mut among = vec![*first];
    let mut p = 0.0_f64;
    let mut reasons: Vec<String> = Vec::new();
    for (other, _) in others {
        let compared = compared(experiment, (*first, *other), track);
        if compared.difference == EffectMeaning::Worse {
            p = p.max(compared.p.unwrap_or(1.0));
            continue;
        }
        among.push(*other);
        let why = match compared.difference {
            EffectMeaning::Unknown => compared.why,
            _ => "chance may explain the difference".to_owned(),
        };
        if !reasons.contains(&why) {
            reasons.push(why);
        }
    }
    let winner = (others.len() + 1 > 1 && among.len() == 1).then_some(*first);
    let why = match (winner, others) {
        (Some(_), _) => format!("every other row is longer by more than chance, p {p:.3} at most"),
        (None, []) => "no other row was measured".to_owned(),
        (None, _) => reasons.join("; "),
    };
    let figure = experiment.figure(track);
    Some(BestRow { column: track.0, period_ns: track.1, figure, winner, among, why })
}

/// What a row has that another may not have.
fn options(row: &ExperimentRow) -> BTreeSet<String> {
    let switch = |on: bool| if on { "on" } else { "off" };
    let tunables = row.tunables.iter().map(|(name, on)| format!("{name} {}", switch(*on)));
    let shield = row.shield.then(|| "shield".to_owned());
    shield.into_iter().chain(tunables).chain(row.boot.iter().cloned()).collect()
}

/// Every pair of rows that differ by one option.
fn effects(experiment: &Experiment, tracks: &[ColumnTrack]) -> Vec<OptionEffect> {
    let options: Vec<BTreeSet<String>> = experiment.rows.iter().map(options).collect();
    let mut effects = Vec::new();
    for (without, few) in options.iter().enumerate() {
        for (with, many) in options.iter().enumerate() {
            let mut more = many.difference(few);
            let (Some(option), None, true) = (more.next(), more.next(), few.is_subset(many)) else {
                continue;
            };
            for track in tracks {
                let RowComparison { difference, ratio, why, .. } =
                    compared(experiment, (without, with), *track);
                effects.push(OptionEffect {
                    option: option.clone(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{
        ExperimentCell, ExperimentColumn, ExperimentRun, ExperimentSetup, ExperimentState,
        RankedFigure, SCHEMA, ThreadTrack,
    };

    /// An experiment of one column whose rows have these options and found these jitters in µs.
    fn experiment(boots: usize, rows: &[(&str, &[u64])]) -> Experiment {
        let row = |(options, _): &(&str, &[u64])| {
            let words = || options.split(' ');
            ExperimentRow {
                name: (*options).to_owned(),
                shield: words().any(|word| word == "shield"),
                tunables: words()
                    .filter_map(|word| Some((word.strip_prefix("no-")?.to_owned(), false)))
                    .collect(),
                boot: words().filter(|word| word.contains('=')).map(str::to_owned).collect(),
                missing: None,
            }
        };
        let run = |(round, us): (usize, &u64)| ExperimentRun {
            round,
            began_s: round as u64,
            span_ns: 1,
            kernel: None,
            held: None,
            tracks: vec![ThreadTrack {
                period_ns: 1_000,
                samples: 9,
                missed: 0,
                max_ns: Some(1),
                jitter_ns: Some(us * 1_000),
                percentiles: Vec::new(),
                over: Vec::new(),
            }],
            loads: Vec::new(),
            doubts: Vec::new(),
            file: String::new(),
        };
        let cell = |(row, (_, found)): (usize, &(&str, &[u64]))| ExperimentCell {
            row,
            column: 0,
            runs: found.iter().enumerate().map(run).collect(),
            missing: Vec::new(),
        };
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
            rows: rows.iter().map(row).collect(),
            columns: vec![ExperimentColumn {
                name: "c".to_owned(),
                instrument: "timer".to_owned(),
                periods_ns: vec![1_000],
                other: false,
                over_ns: Vec::new(),
                load: Vec::new(),
            }],
            cells: rows.iter().enumerate().map(cell).collect(),
            best: Vec::new(),
            effects: Vec::new(),
            notes: Vec::new(),
        };
        judge(&mut experiment);
        experiment
    }

    #[test]
    fn a_winner_is_named_only_where_chance_does_not_explain_it() {
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
        assert_eq!(mixed.best[0].why, "chance may explain the difference");
        let few = experiment(2, &[("base", &[90, 91]), ("shield", &[10, 11])]);
        assert_eq!(few.best[0].winner, None);
        assert_eq!(few.best[0].why, "4 repetitions of each are needed to tell it from chance");
        let alone = experiment(2, &[("base", &[90, 91])]);
        assert_eq!(alone.best[0].winner, None);
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
        assert!(experiment.notes[0].starts_with("3 effects were tested"), "{:?}", experiment.notes);
    }

    #[test]
    fn runs_of_one_boot_are_no_repetitions_of_it() {
        let rows: &[(&str, &[u64])] =
            &[("base", &[90, 91, 92, 93]), ("nohz_full=3", &[10, 11, 12, 13])];
        let few = experiment(2, rows);
        assert_eq!(few.effects[0].verdict, EffectMeaning::Unknown);
        assert_eq!(few.effects[0].why, "4 boots of each are needed to tell it from chance");
        assert_eq!(experiment(4, rows).effects[0].verdict, EffectMeaning::Better);
        assert_eq!(values(&few, 0, (0, 1_000), true), [91_000.0, 93_000.0]);
    }

    #[test]
    fn what_is_doubtful_wins_nothing() {
        let mut experiment =
            experiment(4, &[("base", &[90, 91, 92, 93]), ("shield", &[10, 11, 12, 13])]);
        experiment.cells[1].runs[2].held = Some(false);
        judge(&mut experiment);
        assert_eq!(experiment.best[0].winner, None);
        assert_eq!(experiment.best[0].why, "a measurement of \"shield\" is doubtful");
        assert_eq!(experiment.effects[0].verdict, EffectMeaning::Unknown);
    }
}
