//! [`Plan::parse`]: plans from disk, which people may have edited. Nothing of a plan that is wrong
//! in one place is done. Pure.

use super::document::{Plan, SCHEMA, Shield};
use crate::change::{Change, ValueComparison};
use crate::tunables;
use cpushield_linux::CpuSet;
use std::fmt;

/// Where a plan may write and make directories: kernel interfaces, never files on a disk.
const WRITES: &[&str] = &["/sys/", "/proc/sys/", "/proc/irq/", "/dev/cpuset/"];
/// The longest value that a kernel file takes in one write.
const VALUE_BYTES_MAX: usize = 4096;

/// Why a plan is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong and what was expected.
    pub why: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.why)
    }
}

impl std::error::Error for PlanError {}

impl Plan {
    /// Parses and checks a plan; `file` is its name for errors.
    ///
    /// # Errors
    /// Names the line and what was expected there.
    pub fn parse(text: &str, file: &str) -> Result<Plan, PlanError> {
        let wrong = |line: usize, why: String| PlanError { file: file.to_owned(), line, why };
        let schema = line_of_key(text, "schema", 0);
        // The number is looked at first: a later form may have keys that this one does not know.
        let known = serde_json::from_str::<serde_json::Value>(text)
            .map_err(|e| wrong(e.line().max(1), e.to_string()))?
            .get("schema")
            .and_then(serde_json::Value::as_u64);
        if known != Some(u64::from(SCHEMA)) {
            let found = known.map_or("none".to_owned(), |found| found.to_string());
            return Err(wrong(schema, format!("expected schema {SCHEMA}, found {found}")));
        }
        let plan: Plan =
            serde_json::from_str(text).map_err(|e| wrong(e.line().max(1), e.to_string()))?;
        check_shield(&plan.shield).map_err(|why| wrong(line_of_key(text, "shield", 0), why))?;
        for (n, step) in plan.steps.iter().enumerate() {
            let at = |why: String| {
                wrong(line_of_key(text, "change", n), format!("step {}: {why}", n + 1))
            };
            if tunables::named(&step.tunable).is_none() {
                return Err(at(format!("there is no tunable {:?}", step.tunable)));
            }
            check_change(&step.change, &plan.shield).map_err(at)?;
        }
        Ok(plan)
    }

    /// The first step that asks for what no plan may ask for, from 0, and why.
    #[must_use]
    pub fn unfit(&self) -> Option<(usize, String)> {
        let mut steps = self.steps.iter().enumerate();
        let wrong =
            steps.find_map(|(n, step)| Some((n, check_change(&step.change, &self.shield).err()?)));
        wrong.or_else(|| self.loses_affinities())
    }

    /// A CPU that goes offline before anybody has kept the affinities of tasks: those that may run
    /// nowhere else would never come back to it.
    fn loses_affinities(&self) -> Option<(usize, String)> {
        let before = self.steps.iter().take_while(|step| step.change != Change::KeepAffinities);
        let mut cycles =
            before.enumerate().filter(|(_, step)| matches!(step.change, Change::CycleCpu { .. }));
        let why = "expected a step before it that keeps the affinities of tasks, found none";
        cycles.next().map(|(n, _)| (n, why.to_owned()))
    }
}

fn check_shield(shield: &Shield) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if shield.name.is_empty() || shield.name.len() > 64 || !shield.name.chars().all(plain) {
        return Err(format!("expected a name of letters and digits, found {:?}", shield.name));
    }
    if shield.cpus.is_empty() || shield.housekeeping.is_empty() {
        return Err("expected at least one shielded and one housekeeping CPU".to_owned());
    }
    let both = shield.cpus.and(&shield.housekeeping);
    if !both.is_empty() {
        return Err(format!("CPU {both} is shielded and housekeeping"));
    }
    if !shield.idle_siblings.is_subset(&shield.cpus) {
        return Err("the idle siblings are not all shielded".to_owned());
    }
    Ok(())
}

fn check_change(change: &Change, shield: &Shield) -> Result<(), String> {
    match change {
        Change::Write { path, value, compare } => {
            check_path(path)?;
            check_value(value, *compare)
        }
        Change::MakeDir { path } => check_path(path),
        Change::MoveTasks { from, to } => check_path(&format!("{from}/")).and(check_path(to)),
        Change::Affinity { task, cpus, .. } => check_task(task.tid).and(check_cpus(cpus)),
        Change::Scheduling { task, .. } => check_task(task.tid),
        Change::KeepAffinities => Ok(()),
        Change::BanFromIrqbalance { cpus } => check_cpus(cpus),
        Change::Slice { unit, cpus, .. } => {
            let wanted = format!("{}.slice", shield.group());
            if *unit != wanted {
                return Err(format!("expected the slice {wanted:?}, found {unit:?}"));
            }
            check_cpus(cpus)
        }
        Change::CycleCpu { cpu } if shield.cpus.contains(*cpu) => Ok(()),
        Change::CycleCpu { cpu } => Err(format!("CPU {cpu} is not shielded")),
    }
}

fn check_path(path: &str) -> Result<(), String> {
    let inside = WRITES.iter().any(|prefix| path.starts_with(prefix));
    let direct = path.split('/').skip(1).all(|name| name != "." && name != "..");
    let clean = !path.contains("//") && !path.chars().any(char::is_control);
    if inside && direct && clean {
        return Ok(());
    }
    let places = WRITES.join(", ");
    Err(format!("expected a path below {places} without . and .., found {path:?}"))
}

fn check_value(value: &str, compare: ValueComparison) -> Result<(), String> {
    if value.len() > VALUE_BYTES_MAX || value.chars().any(char::is_control) {
        return Err("expected one line of at most 4096 bytes as the value".to_owned());
    }
    let fits = match compare {
        ValueComparison::List => value.parse::<CpuSet>().is_ok(),
        ValueComparison::Mask => CpuSet::parse_mask(value).is_ok(),
        ValueComparison::Member => {
            value.split_whitespace().all(|word| word.starts_with(['+', '-']))
        }
        ValueComparison::Text | ValueComparison::Word | ValueComparison::Again => !value.is_empty(),
    };
    if fits { Ok(()) } else { Err(format!("{value:?} is not a value of the kind {compare:?}")) }
}

fn check_task(tid: i32) -> Result<(), String> {
    if tid > 0 { Ok(()) } else { Err(format!("expected the number of a task, found {tid}")) }
}

fn check_cpus(cpus: &CpuSet) -> Result<(), String> {
    if cpus.is_empty() { Err("expected at least one CPU".to_owned()) } else { Ok(()) }
}

/// The line of the n-th time that a key stands in the text, from 1; 1 when it does not.
fn line_of_key(text: &str, key: &str, n: usize) -> usize {
    let quoted = format!("\"{key}\"");
    let is_key = |(at, _): &(usize, &str)| {
        let before = text.get(..*at).unwrap_or("");
        let after = text.get(at + quoted.len()..).unwrap_or("");
        !before.ends_with('\\') && after.trim_start().starts_with(':')
    };
    let found = text.match_indices(&quoted).filter(is_key).nth(n);
    found.map_or(1, |(at, _)| 1 + text.bytes().take(at).filter(|b| *b == b'\n').count())
}

#[cfg(test)]
mod tests {
    use super::super::fake::plain;
    use super::super::plan;
    use super::*;
    use crate::policy::ShieldRequest;
    use proptest::prelude::*;

    fn text() -> String {
        let mut machine = plain(4);
        machine.irq_default = Some("0-3".parse().unwrap());
        let plan = plan(&machine, &ShieldRequest::default()).unwrap();
        serde_json::to_string_pretty(&plan).unwrap()
    }

    #[test]
    fn a_saved_plan_is_read_back_whole() {
        let plan = Plan::parse(&text(), "p.json").unwrap();
        assert_eq!(serde_json::to_string_pretty(&plan).unwrap(), text());
        assert!(plan.steps.len() > 1, "{plan:#?}");
    }

    #[test]
    fn errors_name_the_line_and_what_was_expected() {
        let good = text();
        let path = "/proc/irq/default_smp_affinity";
        let line = 1 + good.lines().position(|line| line.contains(path)).unwrap();
        for (from, to, said) in [
            ("\"schema\": 1", "\"schema\": 2", "p.json:2: expected schema 1, found 2"),
            ("\"cpus\": \"3\"", "\"cpus\": \"\"", "expected at least one shielded"),
            ("\"cpus\": \"3\"", "\"cpus\": \"2-3\"", "CPU 2 is shielded and housekeeping"),
            ("\"cpus\": \"3\"", "\"cpus\": \"x\"", "is not a CPU number"),
            ("\"shield\": {", "\"shield\": {\n\"colour\": 1,", "unknown field `colour`"),
            (path, "/etc/passwd", "expected a path below /sys/"),
            (path, "/proc/irq/../../etc/passwd", "expected a path below /sys/"),
            ("\"value\": \"7\"", "\"value\": \"x\"", "\"x\" is not a value of the kind Mask"),
            ("\"irq-affinity\"", "\"nothing\"", "there is no tunable \"nothing\""),
        ] {
            assert!(good.contains(from), "{from}");
            let error = Plan::parse(&good.replace(from, to), "p.json").unwrap_err().to_string();
            assert!(error.contains(said), "{to}: {error}");
        }
        let error = Plan::parse(&good.replace(path, "/etc/passwd"), "p.json").unwrap_err();
        assert!(error.line.abs_diff(line) <= 3 && error.line > 3, "{error}, the path: {line}");
        assert_eq!(Plan::parse("{", "p.json").unwrap_err().line, 1);
        assert_eq!(Plan::parse("", "p.json").unwrap_err().line, 1);
    }

    #[test]
    fn a_cpu_goes_offline_only_when_affinities_are_kept_before() {
        let mut plan = Plan::parse(&text(), "p").unwrap();
        let kept = plan.steps.iter().position(|s| s.change == Change::KeepAffinities).unwrap();
        let mut cycle = plan.steps[kept].clone();
        cycle.change = Change::CycleCpu { cpu: 3 };
        plan.steps.insert(kept + 1, cycle.clone());
        assert_eq!(plan.unfit(), None);
        plan.steps.remove(kept);
        let (n, why) = plan.unfit().unwrap();
        assert!(n == kept && why.contains("keeps the affinities"), "{n}: {why}");
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
