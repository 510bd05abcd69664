//! [`Matrix`] → [`Schedule`]: every measurement in its order. Pure.
//!
//! Rows alternate, forward and then backward (ABBA), so that what drifts slowly (the temperature, a
//! cache of the disk, the hour) is in all of them alike. Rows that are booted with the same
//! parameters follow each other, and boots go forward and backward too: where the order turns no
//! reboot is needed.

use super::{ExperimentRow, Matrix};
use cpushield_linux::CpuSet;
use serde::Serialize;

/// What an experiment would do, for `--dry-run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DryRun {
    /// The name of the experiment.
    pub name: String,
    /// The CPUs that are measured.
    pub cpus: CpuSet,
    /// The names of all rows.
    pub rows: Vec<String>,
    /// How many measurements there are.
    pub measurements: usize,
    /// How long they take, in nanoseconds; shields and boots come on top.
    pub span_ns: u64,
    /// How often the machine is rebooted, the way back included.
    pub reboots: usize,
    /// What is measured in which boot, in order.
    pub stays: Vec<BootPeriod>,
    /// Rows that are not run, because they need a reboot.
    pub left_out: Vec<String>,
}

/// The time between two reboots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BootPeriod {
    /// Parameters of ours that the machine is booted with.
    pub boot: Vec<String>,
    /// The rows in the order they are measured, from 1; each with all columns.
    pub rows: Vec<usize>,
}

/// What an experiment would do on these CPUs.
#[must_use]
pub fn outlook(matrix: &Matrix, schedule: &Schedule, cpus: CpuSet, reboot: bool) -> DryRun {
    let mut stays: Vec<(usize, BootPeriod)> = Vec::new();
    let mut last = None;
    for step in &schedule.steps {
        if stays.last().is_none_or(|(boot, _)| *boot != step.boot) {
            let boot = schedule.boots.get(step.boot).cloned().unwrap_or_default();
            stays.push((step.boot, BootPeriod { boot, rows: Vec::new() }));
        }
        let visit = Some((step.row, step.round));
        if let Some((_, stay)) = stays.last_mut().filter(|_| last != visit) {
            stay.rows.push(step.row + 1);
        }
        last = visit;
    }
    let needs = |row: &&ExperimentRow| !reboot && !row.boot.is_empty();
    DryRun {
        name: matrix.name.clone(),
        cpus,
        rows: matrix.rows.iter().map(|row| row.name.clone()).collect(),
        measurements: schedule.steps.len(),
        span_ns: schedule.span_ns(matrix),
        reboots: schedule.reboots(),
        stays: stays.into_iter().map(|(_, stay)| stay).collect(),
        left_out: matrix.rows.iter().filter(needs).map(|row| row.name.clone()).collect(),
    }
}

/// One measurement of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasurementStep {
    /// Which of [`Schedule::boots`] it is made in.
    pub boot: usize,
    /// The row.
    pub row: usize,
    /// The column.
    pub column: usize,
    /// Which repetition, from 0.
    pub round: usize,
}

/// Every measurement of an experiment in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// The kernel parameters of each kind of boot; the first has none of ours.
    pub boots: Vec<Vec<String>>,
    /// The measurements.
    pub steps: Vec<MeasurementStep>,
}

/// The schedule of a matrix; without `reboot` rows with kernel parameters are left out.
#[must_use]
pub fn schedule(matrix: &Matrix, reboot: bool) -> Schedule {
    let mut boots = vec![Vec::new()];
    // Rows of each boot.
    let mut rows: Vec<Vec<usize>> = vec![Vec::new()];
    for (index, row) in matrix.rows.iter().enumerate() {
        if !reboot && !row.boot.is_empty() {
            continue;
        }
        let boot = boots.iter().position(|known| *known == row.boot).unwrap_or_else(|| {
            boots.push(row.boot.clone());
            rows.push(Vec::new());
            boots.len() - 1
        });
        if let Some(rows) = rows.get_mut(boot) {
            rows.push(index);
        }
    }
    let mut steps = Vec::new();
    for visit in 0..matrix.boots {
        let order: Vec<usize> = turned(0..boots.len(), visit);
        let share = |visit: usize| visit * matrix.repeats / matrix.boots;
        for boot in order {
            let rows = rows.get(boot).map(Vec::as_slice).unwrap_or_default();
            for round in share(visit)..share(visit + 1) {
                for row in turned(rows.iter().copied(), round) {
                    let columns = turned(0..matrix.columns.len(), round);
                    steps.extend(columns.into_iter().map(|column| MeasurementStep {
                        boot,
                        row,
                        column,
                        round,
                    }));
                }
            }
        }
    }
    Schedule { boots, steps }
}

/// Forward, and each other time backward.
fn turned(of: impl DoubleEndedIterator<Item = usize>, nth: usize) -> Vec<usize> {
    if nth.is_multiple_of(2) { of.collect() } else { of.rev().collect() }
}

impl Schedule {
    /// How often the machine is rebooted, the way back included.
    #[must_use]
    pub fn reboots(&self) -> usize {
        let mut now = 0;
        let mut count = 0;
        for boot in self.steps.iter().map(|step| step.boot).chain([0]) {
            count += usize::from(boot != now);
            now = boot;
        }
        count
    }

    /// How long all measurements take, without the time that a machine takes to boot.
    #[must_use]
    pub fn span_ns(&self, matrix: &Matrix) -> u64 {
        let one = matrix.span_ns.saturating_add(matrix.warmup_ns);
        one.saturating_mul(u64::try_from(self.steps.len()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// A matrix whose rows are booted with these parameters; `-` is none.
    fn matrix(rows: &[&str], columns: usize, repeats: usize, boots: usize) -> Matrix {
        let mut text = format!("repeats = {repeats}\nboots = {boots}\n");
        for (n, word) in rows.iter().enumerate() {
            let words = if *word == "-" { String::new() } else { format!("\"{word}\"") };
            // Rows of one boot must differ somehow.
            let off = cpushield_tunable(n);
            text.push_str(&format!(
                "[[row]]\nname = \"r{n}\"\nshield = true\nboot = [{words}]\ntunables = {{ {off} }}\n"
            ));
        }
        for n in 0..columns {
            text.push_str(&format!("[[column]]\nname = \"c{n}\"\ninstrument = \"timer\"\n"));
        }
        Matrix::parse(&text, "m.toml").unwrap()
    }

    /// Another tunable for each number.
    fn cpushield_tunable(n: usize) -> String {
        format!("{} = false", crate::tunables::TUNABLES[n].name())
    }

    fn rows(schedule: &Schedule) -> String {
        let letters = ["A", "B", "C", "D"];
        schedule.steps.iter().map(|step| letters[step.row]).collect()
    }

    #[test]
    fn rows_go_forward_and_backward_and_boots_do_so_too() {
        let plain = matrix(&["-", "-"], 1, 4, 2);
        assert_eq!(rows(&schedule(&plain, true)), "ABBAABBA");
        assert_eq!(schedule(&plain, true).reboots(), 0);
        let booted = matrix(&["-", "nohz_full=3", "-", "nohlt"], 1, 4, 2);
        let all = schedule(&booted, true);
        assert_eq!(rows(&all), "ACCABBDDDDBBACCA");
        assert_eq!(all.boots, [vec![], vec!["nohz_full=3".to_owned()], vec!["nohlt".to_owned()]]);
        assert_eq!(all.reboots(), 4, "there, on, and back the same way");
        assert_eq!(rows(&schedule(&booted, false)), "ACCAACCA");
        let plan = outlook(&booted, &all, CpuSet::single(3), true);
        let stays: Vec<Vec<usize>> = plan.stays.into_iter().map(|stay| stay.rows).collect();
        let wanted: [&[usize]; 5] = [&[1, 3, 3, 1], &[2, 2], &[4, 4, 4, 4], &[2, 2], &[1, 3, 3, 1]];
        assert_eq!(stays, wanted);
        let some = schedule(&booted, false);
        let left_out = outlook(&booted, &some, CpuSet::single(3), false).left_out;
        assert_eq!(left_out, ["r1", "r3"]);
        let odd = matrix(&["-", "nohlt"], 1, 3, 1);
        assert_eq!(
            (rows(&schedule(&odd, true)).as_str(), schedule(&odd, true).reboots()),
            ("AAABBB", 2)
        );
    }

    proptest! {
        #[test]
        fn every_cell_is_measured_as_often_as_asked_and_drift_is_in_all_rows_alike(
            words in proptest::collection::vec(prop_oneof![Just("-"), Just("nohlt"), Just("x=1")], 1..6),
            columns in 1usize..3,
            repeats in 1usize..7,
            boots in 1usize..7,
        ) {
            let boots = boots.min(repeats);
            let matrix = matrix(&words, columns, repeats, boots);
            let all = schedule(&matrix, true);
            let seen: BTreeSet<_> = all.steps.iter().map(|s| (s.row, s.column, s.round)).collect();
            prop_assert_eq!(seen.len(), all.steps.len());
            prop_assert_eq!(seen.len(), words.len() * columns * repeats);
            for step in &all.steps {
                prop_assert_eq!(&all.boots[step.boot], &matrix.rows[step.row].boot);
            }
            // Each kind of boot is entered once a visit, but where the order turns.
            prop_assert!(all.reboots() <= boots * all.boots.len());
            // Read backward it is the same, so a drift in time adds as much to each cell.
            if boots.is_multiple_of(2) && repeats.is_multiple_of(boots) {
                let cells: Vec<_> = all.steps.iter().map(|s| (s.row, s.column)).collect();
                let mut back = cells.clone();
                back.reverse();
                prop_assert_eq!(cells, back);
            }
        }
    }
}
