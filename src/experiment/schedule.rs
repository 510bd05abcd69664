//! [`Matrix`] → [`Schedule`]: every measurement, in order. Pure.
//!
//! Rows run forward and then backward (ABBA), so that a slow drift (of the temperature or the page
//! cache) affects all of them equally. Rows with the same kernel parameters follow each other.
//! Boots also run forward and backward. Runs of one boot are not independent, so each visit to a
//! kind of boot is a boot of its own, also where the direction changes.

use super::{ExperimentRow, Matrix, RowBoot};
use crate::documents::experiment::{BootPeriod, DRY_RUN_SCHEMA, DryRun, DryRunRow};
use crate::documents::plan::CpuCandidate;
use serde::{Deserialize, Serialize};

/// Describes what an experiment would do. Each row of the matrix has its CPUs.
#[must_use]
pub fn describe_dry_run(
    matrix: &Matrix,
    schedule: &Schedule,
    candidates: Vec<CpuCandidate>,
) -> DryRun {
    let rows = matrix.rows.iter().enumerate();
    let skipped = rows.filter(|(index, _)| !schedule.steps.iter().any(|step| step.row == *index));
    let dry_rows =
        matrix.rows.iter().map(|row| DryRunRow { name: row.name.clone(), cpus: row.cpus.clone() });
    DryRun {
        schema: DRY_RUN_SCHEMA,
        name: matrix.name.clone(),
        cpus: matrix.rows.iter().flat_map(|row| row.cpus.iter()).collect(),
        rows: dry_rows.collect(),
        candidates,
        measurements: schedule.steps.len(),
        span_ns: schedule.span_ns(matrix),
        reboots: schedule.reboots(),
        boot_periods: list_boot_periods(schedule),
        skipped: skipped.map(|(_, row)| row.name.clone()).collect(),
    }
}

fn list_boot_periods(schedule: &Schedule) -> Vec<BootPeriod> {
    let mut periods: Vec<BootPeriod> = Vec::new();
    let mut last: Option<&MeasurementStep> = None;
    for step in &schedule.steps {
        if last.is_none_or(|last| (last.boot, last.visit) != (step.boot, step.visit)) {
            let boot = schedule.boots.get(step.boot).cloned().unwrap_or_default();
            periods.push(BootPeriod { boot, rows: Vec::new() });
        }
        // The columns of a row follow each other.
        if last.is_none_or(|last| (last.row, last.round) != (step.row, step.round))
            && let Some(period) = periods.last_mut()
        {
            period.rows.push(step.row + 1);
        }
        last = Some(step);
    }
    periods
}

/// One measurement of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasurementStep {
    /// The index in [`Schedule::boots`] of the boot that it needs.
    pub boot: usize,
    /// The number of the visit to this kind of boot, from 0. Two visits are never the same boot.
    /// With a single kind of boot there is one visit, so that nothing is rebooted.
    pub visit: usize,
    /// The row.
    pub row: usize,
    /// The column.
    pub column: usize,
    /// The number of the repetition, from 0.
    pub round: usize,
}

/// Every measurement of an experiment, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Each kind of boot; the first one is the original.
    pub boots: Vec<RowBoot>,
    /// The measurements.
    pub steps: Vec<MeasurementStep>,
}

/// Whether an experiment may reboot the machine for rows with kernel parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RebootPermission {
    /// It may.
    Granted,
    /// It may not, so these rows are skipped.
    Denied,
}

impl RebootPermission {
    /// Whether a row can be measured.
    #[must_use]
    pub fn allows(self, row: &ExperimentRow) -> bool {
        self == RebootPermission::Granted || row.needed_boot().is_original()
    }
}

/// Makes the schedule of a matrix.
#[must_use]
pub fn make_schedule(matrix: &Matrix, permission: RebootPermission) -> Schedule {
    let mut boots = vec![RowBoot::default()];
    // The rows of each boot.
    let mut rows: Vec<Vec<usize>> = vec![Vec::new()];
    for (index, row) in matrix.rows.iter().enumerate().filter(|(_, row)| permission.allows(row)) {
        let boot = find_or_add(&mut boots, row.needed_boot());
        rows.resize(boots.len(), Vec::new());
        if let Some(rows) = rows.get_mut(boot) {
            rows.push(index);
        }
    }
    let mut steps = Vec::new();
    for nth in 0..matrix.boots {
        let visit = if boots.len() > 1 { nth } else { 0 };
        for boot in alternate_order(0..boots.len(), nth) {
            let rows = rows.get(boot).map(Vec::as_slice).unwrap_or_default();
            for round in first_round(matrix, nth)..first_round(matrix, nth + 1) {
                for row in alternate_order(rows.iter().copied(), round) {
                    let columns = alternate_order(0..matrix.columns.len(), round);
                    steps.extend(columns.into_iter().map(|column| MeasurementStep {
                        boot,
                        visit,
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

/// The first repetition that is measured when a boot is visited for this time, from 0.
fn first_round(matrix: &Matrix, visit: usize) -> usize {
    visit * matrix.repeats / matrix.boots
}

/// The items forward, and every second time backward.
fn alternate_order(items: impl DoubleEndedIterator<Item = usize>, nth: usize) -> Vec<usize> {
    if nth.is_multiple_of(2) { items.collect() } else { items.rev().collect() }
}

impl Schedule {
    /// How often the machine is rebooted, including the return to the original boot.
    #[must_use]
    pub fn reboots(&self) -> usize {
        let mut now = (0, 0);
        let mut count = 0;
        for needed in self.steps.iter().map(|step| (step.boot, step.visit)) {
            count += usize::from(needed != now);
            now = needed;
        }
        count + usize::from(now.0 != 0)
    }

    /// The duration of all measurements, without reboots.
    #[must_use]
    pub fn span_ns(&self, matrix: &Matrix) -> u64 {
        let one = matrix.span_ns.saturating_add(matrix.warmup_ns);
        one.saturating_mul(u64::try_from(self.steps.len()).unwrap_or(u64::MAX))
    }
}

/// The index of a kind of boot in a list, to which it is added if it is new.
pub(in crate::experiment) fn find_or_add(boots: &mut Vec<RowBoot>, needed: RowBoot) -> usize {
    boots.iter().position(|known| *known == needed).unwrap_or_else(|| {
        boots.push(needed);
        boots.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use super::RebootPermission::{Denied, Granted};
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// A matrix whose rows have these kernel parameters; `-` is none.
    fn matrix(rows: &[&str], columns: usize, repeats: usize, boots: usize) -> Matrix {
        let mut text = format!("repeats = {repeats}\nboots = {boots}\n");
        for (n, word) in rows.iter().enumerate() {
            let words = if *word == "-" { String::new() } else { format!("\"{word}\"") };
            // Rows of one boot must differ somehow.
            let off = switch_off_tunable(n);
            text.push_str(&format!(
                "[[row]]\nname = \"r{n}\"\nshield = true\nboot = [{words}]\ntunables = {{ {off} }}\n"
            ));
        }
        for n in 0..columns {
            text.push_str(&format!("[[column]]\nname = \"c{n}\"\ninstrument = \"timer\"\n"));
        }
        Matrix::parse(&text, "m.toml").unwrap()
    }

    /// Switches off a different tunable for each number.
    fn switch_off_tunable(n: usize) -> String {
        format!("{} = false", crate::tunables::TUNABLES[n].name)
    }

    /// The rows of the steps as letters.
    fn row_letters(schedule: &Schedule) -> String {
        let letters = ["A", "B", "C", "D"];
        schedule.steps.iter().map(|step| letters[step.row]).collect()
    }

    #[test]
    fn rows_and_boots_run_forward_and_backward() {
        let plain = matrix(&["-", "-"], 1, 4, 2);
        assert_eq!(row_letters(&make_schedule(&plain, Granted)), "ABBAABBA");
        assert_eq!(make_schedule(&plain, Granted).reboots(), 0);
        let booted = matrix(&["-", "nohz_full=3", "-", "nohlt"], 1, 4, 2);
        let all = make_schedule(&booted, Granted);
        assert_eq!(row_letters(&all), "ACCABBDDDDBBACCA");
        let boots: Vec<String> = all.boots.iter().map(ToString::to_string).collect();
        assert_eq!(boots, ["", "nohz_full=3", "nohlt"]);
        assert_eq!(all.reboots(), 5, "forward, and backward the same way in boots of their own");
        assert_eq!(row_letters(&make_schedule(&booted, Denied)), "ACCAACCA");
        let plan = describe_dry_run(&booted, &all, Vec::new());
        let periods: Vec<Vec<usize>> =
            plan.boot_periods.into_iter().map(|period| period.rows).collect();
        let wanted: [&[usize]; 6] =
            [&[1, 3, 3, 1], &[2, 2], &[4, 4], &[4, 4], &[2, 2], &[1, 3, 3, 1]];
        assert_eq!(periods, wanted);
        let some = make_schedule(&booted, Denied);
        let skipped = describe_dry_run(&booted, &some, Vec::new()).skipped;
        assert_eq!(skipped, ["r1", "r3"]);
        let odd = matrix(&["-", "nohlt"], 1, 3, 1);
        assert_eq!(
            (
                row_letters(&make_schedule(&odd, Granted)).as_str(),
                make_schedule(&odd, Granted).reboots()
            ),
            ("AAABBB", 2)
        );
    }

    proptest! {
        #[test]
        fn every_cell_is_repeated_as_requested_and_drift_affects_all_rows_equally(
            words in proptest::collection::vec(prop_oneof![Just("-"), Just("nohlt"), Just("nosmt")], 1..6),
            columns in 1usize..3,
            repeats in 1usize..7,
            boots in 1usize..7,
        ) {
            let boots = boots.min(repeats);
            let matrix = matrix(&words, columns, repeats, boots);
            let all = make_schedule(&matrix, Granted);
            let seen: BTreeSet<_> = all.steps.iter().map(|s| (s.row, s.column, s.round)).collect();
            prop_assert_eq!(seen.len(), all.steps.len());
            prop_assert_eq!(seen.len(), words.len() * columns * repeats);
            for step in &all.steps {
                prop_assert_eq!(&all.boots[step.boot], &matrix.rows[step.row].needed_boot());
            }
            // Each kind of boot is entered at most once per visit.
            prop_assert!(all.reboots() <= boots * all.boots.len());
            // The order is symmetric, so a linear drift adds the same to each cell.
            if boots.is_multiple_of(2) && repeats.is_multiple_of(boots) {
                let cells: Vec<_> = all.steps.iter().map(|s| (s.row, s.column)).collect();
                let mut back = cells.clone();
                back.reverse();
                prop_assert_eq!(cells, back);
            }
        }
    }
}
