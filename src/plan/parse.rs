//! [`Plan::parse`]: reads saved plans, which a user may have edited. A plan with one error is
//! refused completely. Pure.

use crate::change::ChangeFault;
use crate::documents::plan::{Plan, SCHEMA, Shield};
use crate::policy::{OPERATOR_PRIORITY_MAX, expected_name};
use crate::tunables::{self, ValueRefusal, spell_setting};
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;

/// {file}:{line}: {why}.
///
/// Why a plan is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Sentence)]
#[kind(Usage)]
#[hint("make a new plan: cpushield plan -o FILE")]
pub struct PlanError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub why: PlanFault,
}

/// What is wrong with a plan.
#[derive(Debug, Clone, PartialEq, Eq, Sentence)]
pub enum PlanFault {
    /// {error}.
    Malformed {
        /// The parser's error.
        error: String,
    },
    /// expected schema {SCHEMA}, found {found}.
    #[with(found = found.map_or("none".to_owned(), |found| found.to_string()))]
    Schema {
        /// Its schema; `None` without one.
        found: Option<u64>,
    },
    /// {name:?} cannot be a shield's name; use {name}.
    #[with(name = expected_name(name))]
    Name {
        /// The name.
        name: String,
    },
    /// expected at least one shielded and one housekeeping CPU.
    NoCpus,
    /// CPU {cpus} is both shielded and housekeeping.
    BothKinds {
        /// The CPUs.
        cpus: CpuSet,
    },
    /// the idle siblings are not all shielded.
    IdleNotShielded,
    /// the offline siblings are not all idle.
    OfflineNotIdle,
    /// expected a shielded CPU that runs programs, found only idle ones.
    OnlyIdle,
    /// step {step}: there is no tunable {name:?}.
    #[with(step = step + 1)]
    NoSuchTunable {
        /// The index of the step.
        step: usize,
        /// The name of the tunable.
        name: String,
    },
    /// step {step}: its tunable takes effect at another time.
    #[with(step = step + 1)]
    When {
        /// The index of the step.
        step: usize,
    },
    /// expected a priority of 1 to {OPERATOR_PRIORITY_MAX} for operators.
    OperatorPriority,
    /// there is no tunable {name:?}.
    NotListed {
        /// The name.
        name: String,
    },
    /// {refusal}.
    Setting {
        /// Why.
        refusal: ValueRefusal,
    },
    /// step {step}: {fault}.
    #[with(step = step + 1)]
    Change {
        /// The index of the step.
        step: usize,
        /// Why.
        fault: ChangeFault,
    },
}

impl std::error::Error for PlanError {}

impl Plan {
    /// Parses and checks a plan; `file` is its name for errors.
    ///
    /// # Errors
    /// The text is not a valid plan. Names the line and what was expected there.
    pub fn parse(text: &str, file: &str) -> Result<Plan, PlanError> {
        parse_and_check(text).map_err(|(line, why)| PlanError { file: file.to_owned(), line, why })
    }
}

/// Parses and checks a plan. An error has its line.
fn parse_and_check(text: &str) -> Result<Plan, (usize, PlanFault)> {
    // The schema number comes first, because a newer version may have keys that are unknown here.
    let schema = serde_json::from_str::<serde_json::Value>(text)
        .map_err(|e| malformed(&e))?
        .get("schema")
        .and_then(serde_json::Value::as_u64);
    if schema != Some(u64::from(SCHEMA)) {
        return Err((line_of_key(text, "schema", 0), PlanFault::Schema { found: schema }));
    }
    let plan: Plan = serde_json::from_str(text).map_err(|e| malformed(&e))?;
    check_shield(&plan.shield).map_err(|why| (line_of_key(text, "shield", 0), why))?;
    let priority = plan.operators.as_ref().and_then(|operators| operators.limits.priority);
    if priority.is_some_and(|priority| !(1..=OPERATOR_PRIORITY_MAX).contains(&priority)) {
        return Err((line_of_key(text, "priority", 0), PlanFault::OperatorPriority));
    }
    let mut listed = plan.already.keys().chain(plan.shield.tunables.keys());
    if let Some(name) = listed.find(|name| tunables::named(name).is_none()) {
        return Err((line_of_key(text, name, 0), PlanFault::NotListed { name: name.clone() }));
    }
    for (name, setting) in plan.shield.tunables.iter() {
        spell_setting(name, setting)
            .map_err(|refusal| (line_of_key(text, name, 0), PlanFault::Setting { refusal }))?;
    }
    for (n, step) in plan.steps.iter().enumerate() {
        let checked = match tunables::named(&step.tunable) {
            None => Err(PlanFault::NoSuchTunable { step: n, name: step.tunable.clone() }),
            Some(tunable) => match step.check(&plan.shield) {
                Err(fault) => Err(PlanFault::Change { step: n, fault }),
                Ok(()) if step.when != tunable.when => Err(PlanFault::When { step: n }),
                Ok(()) => Ok(()),
            },
        };
        checked.map_err(|why| (line_of_key(text, "change", n), why))?;
    }
    Ok(plan)
}

fn malformed(error: &serde_json::Error) -> (usize, PlanFault) {
    (error.line().max(1), PlanFault::Malformed { error: error.to_string() })
}

fn check_shield(shield: &Shield) -> Result<(), PlanFault> {
    if !super::is_shield_name(&shield.name) {
        return Err(PlanFault::Name { name: shield.name.clone() });
    }
    if shield.cpus.is_empty() || shield.housekeeping.is_empty() {
        return Err(PlanFault::NoCpus);
    }
    let both = shield.cpus.intersection(&shield.housekeeping);
    if !both.is_empty() {
        return Err(PlanFault::BothKinds { cpus: both });
    }
    if !shield.idle_siblings.is_subset(&shield.cpus) {
        return Err(PlanFault::IdleNotShielded);
    }
    if !shield.offline_siblings.is_subset(&shield.idle_siblings) {
        return Err(PlanFault::OfflineNotIdle);
    }
    if shield.idle_siblings == shield.cpus {
        return Err(PlanFault::OnlyIdle);
    }
    Ok(())
}

/// The line of the n-th occurrence of a key, from 1; 1 if there is none.
fn line_of_key(text: &str, key: &str, n: usize) -> usize {
    let quoted = format!("\"{key}\"");
    let mut keys = text.match_indices(&quoted).map(|(at, _)| at).filter(|at| {
        let before = text.get(..*at).unwrap_or("");
        let after = text.get(at + quoted.len()..).unwrap_or("");
        !before.ends_with('\\') && after.trim_start().starts_with(':')
    });
    keys.nth(n).map_or(1, |at| 1 + text.bytes().take(at).filter(|b| *b == b'\n').count())
}

#[cfg(test)]
mod tests {
    use super::super::fake::plain;
    use super::super::plan;
    use super::*;
    use crate::change::Change;
    use crate::policy::ShieldRequest;
    use proptest::prelude::*;

    fn text() -> String {
        let mut machine = plain(4);
        machine.irq_default = Some("0-3".parse().unwrap());
        let plan = plan(&machine, &ShieldRequest::default()).unwrap();
        serde_json::to_string_pretty(&plan).unwrap()
    }

    #[test]
    fn a_saved_plan_is_read_back_completely() {
        let plan = Plan::parse(&text(), "p.json").unwrap();
        assert_eq!(serde_json::to_string_pretty(&plan).unwrap(), text());
        assert!(plan.steps.len() > 1, "{plan:#?}");
    }

    #[test]
    fn errors_name_the_line_and_what_was_expected() {
        let good = text();
        let path = "/proc/irq/default_smp_affinity";
        let line = 1 + good.lines().position(|line| line.contains(path)).unwrap();
        for (from, to, expected) in [
            ("\"schema\": 1", "\"schema\": 2", "p.json:2: expected schema 1, found 2"),
            ("\"cpus\": \"3\"", "\"cpus\": \"\"", "expected at least one shielded"),
            ("\"cpus\": \"3\"", "\"cpus\": \"2-3\"", "CPU 2 is both shielded and housekeeping"),
            ("\"cpus\": \"3\"", "\"cpus\": \"x\"", "is not a CPU number"),
            ("\"shield\": {", "\"shield\": {\n\"colour\": 1,", "unknown field `colour`"),
            (path, "/etc/passwd", "expected a path below /sys/"),
            (path, "/proc/irq/../../etc/passwd", "expected a path below /sys/"),
            (
                "\"value\": \"7\"",
                "\"value\": \"x\"",
                "expected a CPU mask as the value, found \"x\"",
            ),
            ("\"irq-affinity\"", "\"nothing\"", "there is no tunable \"nothing\""),
        ] {
            assert!(good.contains(from), "{from}");
            let error = Plan::parse(&good.replace(from, to), "p.json").unwrap_err().to_string();
            assert!(error.contains(expected), "{to}: {error}");
        }
        let error = Plan::parse(&good.replace(path, "/etc/passwd"), "p.json").unwrap_err();
        assert!(error.line.abs_diff(line) <= 3 && error.line > 3, "{error}, the path: {line}");
        assert_eq!(Plan::parse("{", "p.json").unwrap_err().line, 1);
        assert_eq!(Plan::parse("", "p.json").unwrap_err().line, 1);
    }

    #[test]
    fn a_cpu_goes_offline_only_after_a_step_that_saves_affinities() {
        let mut plan = Plan::parse(&text(), "p").unwrap();
        let saved = plan.steps.iter().position(|s| s.change == Change::KeepAffinities).unwrap();
        let mut cycle = plan.steps[saved].clone();
        cycle.change = Change::CycleCpu { cpu: 3 };
        plan.steps.insert(saved + 1, cycle.clone());
        assert_eq!(plan.unfit(), None);
        plan.steps.remove(saved);
        assert_eq!(plan.unfit(), Some((saved, ChangeFault::AffinitiesNotSaved)));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(cut in 0usize..4000, noise in ".{0,20}") {
            let good = text();
            let cut = (0..=cut.min(good.len())).rev().find(|i| good.is_char_boundary(*i)).unwrap();
            let _ = Plan::parse(&noise, "p");
            let _ = Plan::parse(&good[..cut], "p");
            let _ = Plan::parse(&format!("{}{noise}{}", &good[..cut], &good[cut..]), "p");
        }
    }
}
