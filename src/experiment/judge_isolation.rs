//! The checks of all runs of a row → [`RowIsolation`]. Pure.

use super::RowIsolation;
use super::{ExperimentRow, ExperimentRun};
use crate::documents::latency::{IsolationAnswer, IsolationCheck};
use cpushield_linux::text::cmdline;

impl RowIsolation {
    /// Judges the checks of all runs of a row.
    #[must_use]
    pub fn judge<'a>(
        row: &ExperimentRow,
        runs: impl Iterator<Item = &'a ExperimentRun>,
    ) -> RowIsolation {
        let requested = requests_isolation(row);
        let mut judged = runs
            .filter_map(|run| run.isolation.as_ref())
            .map(|check| RowIsolation::judge_check(requested, check));
        let Some(first) = judged.next() else { return RowIsolation::Unchecked };
        judged.fold(first, |worst, next| if next.rank() > worst.rank() { next } else { worst })
    }

    fn judge_check(requested: bool, check: &IsolationCheck) -> RowIsolation {
        let found = check.clone();
        match (check.answer, requested) {
            (IsolationAnswer::Isolated, true) => RowIsolation::Isolated,
            (IsolationAnswer::NotIsolated, false) => RowIsolation::Ordinary,
            (IsolationAnswer::NotIsolated, true) => RowIsolation::NotInForce { check: found },
            (IsolationAnswer::Isolated, false) => RowIsolation::Unrequested { check: found },
            (IsolationAnswer::Contradicted, _) => {
                RowIsolation::Contradicted { requested, check: found }
            }
            (IsolationAnswer::Unknown, _) => RowIsolation::Unknown { check: found },
        }
    }
}

/// Whether a row keeps ordinary tasks off its CPUs: by a shield, or by `isolcpus=` of the scheduler
/// domains (`isolcpus=nohz,3` does not).
fn requests_isolation(row: &ExperimentRow) -> bool {
    let mut values = row.boot.iter().filter_map(|word| word.strip_prefix("isolcpus="));
    let has_domain = |value: &str| cmdline::isolcpus(value, None).map_or(true, |list| list.domain);
    row.shield || values.any(has_domain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::latency::IsolationWitness;
    use crate::experiment::ExperimentRun;
    use crate::policy::TunableSettings;
    use cpushield_linux::CpuSet;

    fn row(shield: bool, boot: &[&str]) -> ExperimentRow {
        ExperimentRow {
            name: "r".to_owned(),
            cpus: CpuSet::single(3),
            shield,
            tunables: TunableSettings::default(),
            kernel: None,
            boot: boot.iter().map(|word| (*word).to_owned()).collect(),
            isolation: RowIsolation::Unchecked,
            missing: None,
        }
    }

    /// A run whose witnesses (kernel, PID 1, probe) show CPU 3 as isolated (`+`), or not (`-`), or
    /// are missing (`?`).
    fn run(shown: &str) -> ExperimentRun {
        let witness = |letter| match letter {
            '+' => IsolationWitness::Present { isolated: CpuSet::single(3) },
            '-' => IsolationWitness::Present { isolated: CpuSet::new() },
            _ => IsolationWitness::Absent { why: "EPERM".to_owned() },
        };
        let letters: Vec<char> = shown.chars().collect();
        let witnesses = [letters[0], letters[1], letters[2]].map(witness);
        ExperimentRun {
            round: 0,
            began_s: 0,
            span_ns: 1,
            kernel: None,
            boot: None,
            held: None,
            isolation: Some(IsolationCheck::new(CpuSet::single(3), witnesses)),
            tracks: Vec::new(),
            loads: Vec::new(),
            doubts: Vec::new(),
            refused: Vec::new(),
            file: String::new(),
        }
    }

    fn judge(row: &ExperimentRow, shown: &[&str]) -> RowIsolation {
        let runs: Vec<ExperimentRun> = shown.iter().map(|shown| run(shown)).collect();
        RowIsolation::judge(row, runs.iter())
    }

    #[test]
    fn a_row_is_isolated_only_when_every_run_of_it_was() {
        let shield = row(true, &[]);
        assert_eq!(judge(&shield, &["+++", "+++"]), RowIsolation::Isolated);
        let contradicted = judge(&shield, &["+++", "++-", "+++"]);
        assert!(contradicted.is_marked() && contradicted.is_doubtful(), "{contradicted}");
        let said = "not counted as isolated, because the witnesses disagree: the kernel lists CPU 3 \
                    as isolated; PID 1 may not run on CPU 3; a probe with busy unpinned threads \
                    ran on CPU 3";
        assert_eq!(contradicted.to_string(), said);
        let unknown = judge(&shield, &["+++", "+?+"]);
        assert!(unknown.is_marked() && !unknown.is_doubtful(), "{unknown}");
        assert_eq!(judge(&shield, &[]), RowIsolation::Unchecked);
    }

    #[test]
    fn isolcpus_that_was_not_in_force_is_caught() {
        for boot in ["isolcpus=3", "isolcpus=domain,managed_irq,3"] {
            let row = row(false, &[boot]);
            assert!(matches!(judge(&row, &["---"]), RowIsolation::NotInForce { .. }), "{boot}");
            assert!(judge(&row, &["+--"]).is_doubtful(), "{boot}");
            assert_eq!(judge(&row, &["+++"]), RowIsolation::Isolated);
        }
    }

    #[test]
    fn a_row_that_requests_nothing_is_ordinary_and_says_when_it_was_isolated() {
        for boot in [&[][..], &["nohz_full=3"], &["isolcpus=nohz,3"]] {
            let row = row(false, boot);
            assert_eq!(judge(&row, &["---"]), RowIsolation::Ordinary);
            let isolated = judge(&row, &["---", "+++"]);
            assert!(matches!(isolated, RowIsolation::Unrequested { .. }), "{isolated}");
            let partly = judge(&row, &["-+-"]);
            assert!(partly.is_marked() && !partly.is_doubtful(), "{partly}");
        }
    }
}
