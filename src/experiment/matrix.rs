//! A matrix file (TOML) → [`Matrix`]: rows of configurations, columns of measurements. Pure. An
//! error names the file, the line, the column and what was expected.

mod row_cpus;
mod suggestions;

pub use self::row_cpus::{RowCpus, RowPlace, WrittenList};
use self::suggestions::{advise_on_list, advise_on_parameter, advise_on_word};
use super::{ExperimentColumn, ExperimentRow, RowIsolation};
use crate::boot::{UnknownWords, find_word_fault, names_kernel_parameter};
use crate::cpu_selection::CpuSelection;
use crate::documents::boot::WordFault;
use crate::latency::{choose_periods, instruments};
use crate::load;
use crate::policy::{
    Siblings, TunableSetting, TunableSettings, Workload, parse_span, translate_toml_error,
};
use crate::registry::{names, nearest};
use crate::tunables::{self, TUNABLES};
use cpushield_linux::CpuSet;
use cpushield_linux::shared_memory::latency_stats::LIMITS;
use cpushield_sentence::Sentence;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use toml::Spanned;

/// The placeholder for the list of measured CPUs in a kernel parameter.
pub const CPUS: &str = "{cpus}";
/// The maximum number of rows, of columns and of repetitions.
const COUNT_MAX: usize = 64;
/// The maximum length of a name, which is a cell of a table.
const NAME_MAX: usize = 40;
/// The default number of repetitions: the smallest with which a difference between two rows can be
/// significant.
const REPEATS: usize = 4;

/// The requested measurements and configurations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    /// Its name.
    pub name: String,
    /// The CPUs of rows without a list of their own; `None` for those that a shield would choose.
    pub cpus: Option<WrittenList>,
    /// How often each cell is measured.
    pub repeats: usize,
    /// How often each set of kernel parameters is booted; the repetitions are spread over these
    /// boots.
    pub boots: usize,
    /// The duration of each measurement in nanoseconds.
    pub span_ns: u64,
    /// The duration of the warm-up in nanoseconds.
    pub warmup_ns: u64,
    /// The workload that the shields are made for.
    pub workload: Workload,
    /// What runs on the SMT siblings of the shields.
    pub siblings: Option<Siblings>,
    /// The configurations.
    pub rows: Vec<ExperimentRow>,
    /// The places of the rows in the file, in the same order.
    pub places: Vec<RowPlace>,
    /// The measurements.
    pub columns: Vec<ExperimentColumn>,
}

/// {file}{place}: {why}.
///
/// Why a matrix file is refused.
#[derive(Debug, Clone, PartialEq, Eq, Sentence)]
#[kind(Usage)]
#[with(place = place.map(|(line, column)| format!(":{line}:{column}")).unwrap_or_default())]
#[hint("see all keys: cpushield explain experiment")]
pub struct MatrixError {
    /// The file.
    pub file: String,
    /// Line and column, from 1; `None` when the error is not about one place.
    pub place: Option<(usize, usize)>,
    /// What is wrong and what was expected.
    pub why: String,
}

impl std::error::Error for MatrixError {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MatrixText {
    name: Option<Spanned<String>>,
    cpus: Option<Spanned<String>>,
    repeats: Option<Spanned<usize>>,
    boots: Option<Spanned<usize>>,
    time: Option<Spanned<String>>,
    warmup: Option<Spanned<String>>,
    #[serde(default)]
    workload: Workload,
    siblings: Option<Siblings>,
    #[serde(default)]
    row: Vec<Spanned<RowText>>,
    #[serde(default)]
    column: Vec<Spanned<ColumnText>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RowText {
    name: Spanned<String>,
    cpus: Option<Spanned<String>>,
    #[serde(default)]
    shield: bool,
    #[serde(default)]
    tunables: BTreeMap<Spanned<String>, TunableSetting>,
    kernel: Option<Spanned<String>>,
    #[serde(default)]
    boot: Vec<Spanned<String>>,
    #[serde(default)]
    allow_unknown: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ColumnText {
    name: Spanned<String>,
    instrument: Spanned<String>,
    #[serde(default)]
    threads: Vec<Spanned<String>>,
    #[serde(default)]
    other: bool,
    #[serde(default)]
    over: Vec<Spanned<String>>,
    #[serde(default)]
    load: Vec<Spanned<String>>,
}

/// An error: its place in the text, and what is wrong.
type MatrixFault = (Option<Range<usize>>, String);

impl Matrix {
    /// Parses a matrix file; `file` is its name for errors.
    ///
    /// # Errors
    /// The text is not a matrix, or has unknown keys.
    pub fn parse(text: &str, file: &str) -> Result<Matrix, MatrixError> {
        let parsed = toml::from_str::<MatrixText>(text)
            .map_err(|error| (error.span(), translate_toml_error(&error, text)))
            .and_then(|raw| check_matrix(raw, text, file));
        parsed.map_err(|(span, why)| MatrixError {
            file: file.to_owned(),
            place: span.map(|span| find_line_and_column(text, span.start)),
            why,
        })
    }

    /// Whether the file or one of its rows names CPUs.
    #[must_use]
    pub fn names_cpus(&self) -> bool {
        self.cpus.is_some() || self.places.iter().any(|place| place.cpus.is_some())
    }

    /// The matrix with one row, in the place of the row with this index.
    #[must_use]
    pub fn with_row(&self, index: usize, row: ExperimentRow) -> Matrix {
        let places = self.places.get(index).cloned().into_iter().collect();
        Matrix { rows: vec![row], places, ..self.clone() }
    }

    /// Gives each row its CPUs, and fills them into its kernel parameters.
    pub fn assign_cpus(&mut self, assigned: &[RowCpus]) {
        for (row, cpus) in self.rows.iter_mut().zip(assigned) {
            row.assign_cpus(cpus);
        }
    }

    /// Forgets the kernel of each row that needs the one of the original boot.
    pub fn set_original_kernel(&mut self, release: Option<&str>) {
        for row in &mut self.rows {
            row.set_original_kernel(release);
        }
    }

    /// Whether a row has a kernel of its own or kernel parameters, so that it needs a reboot.
    #[must_use]
    pub fn has_boots(&self) -> bool {
        self.rows.iter().any(|row| !row.needed_boot().is_original())
    }
}

/// Removes from a row what makes no difference: its name, and tunables switched off that are off
/// by default.
fn normalize_row(row: &ExperimentRow, workload: Workload) -> ExperimentRow {
    let mut row = ExperimentRow { name: String::new(), ..row.clone() };
    row.tunables.retain(|name, setting| setting.is_on() || !is_off_by_default(name, workload));
    row
}

fn is_off_by_default(tunable: &str, workload: Workload) -> bool {
    tunables::named(tunable).is_some_and(|tunable| (tunable.optional)(workload).is_some())
}

fn check_matrix(raw: MatrixText, text: &str, file: &str) -> Result<Matrix, MatrixFault> {
    let row_lists = raw.row.iter().filter_map(|row| row.get_ref().cpus.as_ref());
    raw.cpus.iter().chain(row_lists).try_for_each(check_cpu_list)?;
    let repeats = check_number(raw.repeats.as_ref(), REPEATS, "repeats")?;
    let boots = check_number(raw.boots.as_ref(), repeats, "boots")?;
    if let Some(given) = raw.boots.as_ref().filter(|_| boots > repeats) {
        let why = format!("boots is {boots}, expected at most the number of repeats, {repeats}");
        return Err(fault_at(given, why));
    }
    let span_ns = raw.time.as_ref().map_or(Ok(10_000_000_000), parse_time)?;
    let warmup_ns = raw.warmup.as_ref().map_or(Ok(200_000_000), |text| {
        parse_span(text.get_ref()).map_err(|why| fault_at(text, why))
    })?;
    let name = match &raw.name {
        Some(given) => check_name(given)?,
        None => name_after_file(file),
    };
    let rows = (raw.row.iter().map(|row| check_row(row.get_ref())))
        .collect::<Result<Vec<ExperimentRow>, MatrixFault>>()?;
    let columns = (raw.column.iter().map(|column| check_column(column.get_ref())))
        .collect::<Result<Vec<ExperimentColumn>, MatrixFault>>()?;
    for (count, what) in [(rows.len(), "row"), (columns.len(), "column")] {
        if !(1..=COUNT_MAX).contains(&count) {
            let why = format!("found {count} tables [[{what}]], expected 1 to {COUNT_MAX}");
            return Err((None, why));
        }
    }
    check_unique(raw.row.iter().map(|row| &row.get_ref().name))?;
    check_unique(raw.column.iter().map(|column| &column.get_ref().name))?;
    check_rows_differ(&rows, &raw, text)?;
    let places = raw.row.iter().map(|row| find_row_place(row, text)).collect();
    Ok(Matrix {
        name,
        cpus: raw.cpus.as_ref().map(|list| write_down(list, text)),
        repeats,
        boots,
        span_ns,
        warmup_ns,
        workload: raw.workload,
        siblings: raw.siblings,
        rows,
        places,
        columns,
    })
}

fn check_cpu_list(list: &Spanned<String>) -> Result<(), MatrixFault> {
    match CpuSelection::parse(list.get_ref()) {
        Ok(_) => Ok(()),
        Err(error) => {
            let advice = advise_on_list(list.get_ref());
            Err(fault_at(list, format!("{error}; {advice}")))
        }
    }
}

fn write_down(list: &Spanned<String>, text: &str) -> WrittenList {
    let (line, _) = find_line_and_column(text, list.span().start);
    WrittenList { list: list.get_ref().clone(), line }
}

fn find_row_place(row: &Spanned<RowText>, text: &str) -> RowPlace {
    let cpus = row.get_ref().cpus.as_ref().map(|list| write_down(list, text));
    let unknown_words = match row.get_ref().allow_unknown {
        true => UnknownWords::Accept,
        false => UnknownWords::Refuse,
    };
    RowPlace { line: find_line_and_column(text, row.span().start).0, cpus, unknown_words }
}

/// A row that was checked.
struct EarlierRow<'a> {
    name: &'a str,
    line: usize,
    /// What makes a difference, and its list of CPUs.
    normal: (ExperimentRow, Option<&'a String>),
}

/// Checks that no two rows have the same configuration.
fn check_rows_differ(
    rows: &[ExperimentRow],
    raw: &MatrixText,
    text: &str,
) -> Result<(), MatrixFault> {
    let mut earlier: Vec<EarlierRow<'_>> = Vec::new();
    for (row, table) in rows.iter().zip(&raw.row) {
        // Without a list of its own, a row has the CPUs of the whole file.
        let cpus = table.get_ref().cpus.as_ref().or(raw.cpus.as_ref()).map(Spanned::get_ref);
        let normal = (normalize_row(row, raw.workload), cpus);
        if let Some(other) = earlier.iter().find(|other| other.normal == normal) {
            let (name, line) = (other.name, other.line);
            let why = format!("row {:?} is the same as row {name:?} on line {line}", row.name);
            return Err((Some(table.span()), why));
        }
        let (line, _) = find_line_and_column(text, table.span().start);
        earlier.push(EarlierRow { name: &row.name, line, normal });
    }
    Ok(())
}

/// An error about this part of the text.
fn fault_at<T>(text: &Spanned<T>, why: String) -> MatrixFault {
    (Some(text.span()), why)
}

fn check_number(
    given: Option<&Spanned<usize>>,
    default: usize,
    what: &str,
) -> Result<usize, MatrixFault> {
    let Some(given) = given else { return Ok(default) };
    if (1..=COUNT_MAX).contains(given.get_ref()) {
        return Ok(*given.get_ref());
    }
    Err(fault_at(given, format!("{what} is {}, expected 1 to {COUNT_MAX}", given.get_ref())))
}

/// Parses a time span that is longer than 0.
fn parse_time(text: &Spanned<String>) -> Result<u64, MatrixFault> {
    match parse_span(text.get_ref()).map_err(|why| fault_at(text, why))? {
        0 => Err(fault_at(text, "the time must be longer than 0".to_owned())),
        ns => Ok(ns),
    }
}

/// The name of the file without its directory, if it can be the name of an experiment.
fn name_after_file(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file).trim_end_matches(".toml");
    if is_valid_name(name) { name.to_owned() } else { "experiment".to_owned() }
}

fn is_valid_name(name: &str) -> bool {
    let has_control = name.chars().any(char::is_control);
    !name.trim().is_empty() && name.chars().count() <= NAME_MAX && !has_control
}

fn check_name(name: &Spanned<String>) -> Result<String, MatrixFault> {
    if is_valid_name(name.get_ref()) {
        return Ok(name.get_ref().clone());
    }
    Err(fault_at(name, format!("expected a name of 1 to {NAME_MAX} characters on one line")))
}

fn check_unique<'a>(
    mut names: impl Iterator<Item = &'a Spanned<String>>,
) -> Result<(), MatrixFault> {
    let mut seen = BTreeSet::new();
    match names.find(|name| !seen.insert(name.get_ref())) {
        Some(twice) => {
            Err(fault_at(twice, format!("the name {:?} is already in use", twice.get_ref())))
        }
        None => Ok(()),
    }
}

fn check_row(text: &RowText) -> Result<ExperimentRow, MatrixFault> {
    let name = check_name(&text.name)?;
    if let Some((first, _)) = text.tunables.first_key_value()
        && !text.shield
    {
        return Err(fault_at(
            first,
            "tunables belong to a shield; expected shield = true".to_owned(),
        ));
    }
    for tunable in text.tunables.keys() {
        if tunables::named(tunable.get_ref()).is_none() {
            if names_kernel_parameter(tunable.get_ref()) {
                return Err(fault_at(tunable, advise_on_parameter(tunable.get_ref())));
            }
            let near = nearest(tunable.get_ref(), &names(TUNABLES));
            let near = near.first().map_or_else(
                || "; `cpushield explain` lists them".to_owned(),
                |near| format!("; did you mean {near}?"),
            );
            return Err(fault_at(
                tunable,
                format!("there is no tunable {:?}{near}", tunable.get_ref()),
            ));
        }
    }
    let settings = text.tunables.iter().map(|(name, setting)| {
        let spelled = tunables::spell_setting(name.get_ref(), setting);
        Ok((name.get_ref().clone(), spelled.map_err(|why| fault_at(name, why.to_string()))?))
    });
    let tunables = settings.collect::<Result<TunableSettings, MatrixFault>>()?;
    let mut names = BTreeSet::new();
    for word in &text.boot {
        check_word(word, text.allow_unknown)?;
        let name = word.get_ref().split('=').next().unwrap_or_default();
        if !names.insert(name.to_owned()) {
            return Err(fault_at(word, format!("{name} is given twice")));
        }
    }
    Ok(ExperimentRow {
        name,
        cpus: CpuSet::new(),
        shield: text.shield,
        tunables,
        kernel: text.kernel.as_ref().map(check_kernel).transpose()?,
        boot: text.boot.iter().map(|word| word.get_ref().clone()).collect(),
        isolation: RowIsolation::Unchecked,
        missing: None,
    })
}

/// Checks the release of a kernel. The boot menu decides later whether it is installed.
fn check_kernel(release: &Spanned<String>) -> Result<String, MatrixFault> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._+~-".contains(c);
    match release.get_ref() {
        text if !text.is_empty() && text.chars().all(is_plain) => Ok(text.clone()),
        _ => Err(fault_at(
            release,
            "expected the release of an installed kernel, as `ls /lib/modules` shows it".to_owned(),
        )),
    }
}

/// Checks a kernel parameter by itself. The kernel of the row decides about the rest.
fn check_word(word: &Spanned<String>, allow_unknown: bool) -> Result<(), MatrixFault> {
    // A placeholder list is enough to check the word.
    let filled = word.get_ref().replace(CPUS, "1");
    let Some((fault, near)) = find_word_fault(&filled) else { return Ok(()) };
    let advice = match (&fault, near.as_slice()) {
        (WordFault::NotPlain, _) => {
            return Err(fault_at(word, advise_on_word(word.get_ref())));
        }
        (fault, _) if fault.is_unknown() && allow_unknown => return Ok(()),
        (_, [first, ..]) => format!("; did you mean {first}?"),
        (WordFault::Unreleased { page }, []) => {
            format!(
                "; if your kernel has that patch series: allow_unknown = true; about the word: \
                 cpushield explain {page}"
            )
        }
        (fault, []) if fault.is_unknown() => "; if it is correct: allow_unknown = true".to_owned(),
        _ => format!("; {}", fault.advice(word.get_ref())),
    };
    Err(fault_at(word, format!("{:?} {fault}{advice}", word.get_ref())))
}

fn check_column(text: &ColumnText) -> Result<ExperimentColumn, MatrixFault> {
    let name = check_name(&text.name)?;
    let Some(instrument) = instruments::named(text.instrument.get_ref()) else {
        let known = names(instruments::INSTRUMENTS);
        let near = nearest(text.instrument.get_ref(), &known);
        let near = near.first().map_or_else(String::new, |near| format!("; did you mean {near}?"));
        let why = format!(
            "there is no instrument {:?}, expected one of: {}{near}",
            text.instrument.get_ref(),
            known.join(", ")
        );
        return Err(fault_at(&text.instrument, why));
    };
    let requested_ns =
        text.threads.iter().map(parse_time).collect::<Result<Vec<_>, MatrixFault>>()?;
    let place = text.threads.first().unwrap_or(&text.instrument);
    let periods_ns = choose_periods(instrument, &requested_ns)
        .map_err(|error| fault_at(place, error.to_string()))?;
    let over_ns = text.over.iter().map(parse_time).collect::<Result<Vec<_>, MatrixFault>>()?;
    if let Some(last) = text.over.get(LIMITS) {
        return Err(fault_at(last, format!("expected at most {LIMITS} limits")));
    }
    let load: Vec<String> = text.load.iter().map(|word| word.get_ref().clone()).collect();
    if let (Some(first), Err(error)) = (text.load.first(), load::parse_loads(&load)) {
        let wrong = text.load.iter().find(|word| error.is_about(word.get_ref()));
        let why = format!("{error}{}", error.suggestion());
        return Err(fault_at(wrong.unwrap_or(first), why));
    }
    Ok(ExperimentColumn {
        name,
        instrument: instrument.name.to_owned(),
        periods_ns,
        other: text.other || instrument.is_endless,
        over_ns,
        load,
    })
}

/// The line and the column of a byte, from 1. Columns are characters.
fn find_line_and_column(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (1 + before.matches('\n').count(), 1 + line.chars().count())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = r#"
name = "lathe"
cpus = "2-N"
repeats = 6
boots = 3
time = "20s"
warmup = "1s"
workload = "cyclic"

[[row]]
name = "as it is"

[[row]]
name = "shield, no watchdog"
shield = true
tunables = { watchdog = false }

[[row]]
name = "nohz_full"
cpus = "1"
shield = true
boot = ["nohz_full={cpus}", "nohlt"]

[[column]]
name = "LinuxCNC"
instrument = "timer"
threads = ["1ms", "25us"]
over = ["20us", "50us"]
load = ["messages"]

[[column]]
name = "spin"
instrument = "spin"
"#;

    fn shielded_row(name: &str) -> ExperimentRow {
        ExperimentRow {
            name: name.to_owned(),
            cpus: CpuSet::new(),
            shield: true,
            tunables: TunableSettings::default(),
            kernel: None,
            boot: Vec::new(),
            isolation: RowIsolation::Unchecked,
            missing: None,
        }
    }

    fn timer_column(name: &str) -> ExperimentColumn {
        ExperimentColumn {
            name: name.to_owned(),
            instrument: "timer".to_owned(),
            periods_ns: vec![25_000, 1_000_000],
            other: false,
            over_ns: vec![20_000, 50_000],
            load: vec!["messages".to_owned()],
        }
    }

    #[test]
    fn every_key_of_a_matrix_is_parsed() {
        let matrix = Matrix::parse(GOOD, "/etc/x.toml").unwrap();
        let wanted = Matrix {
            name: "lathe".to_owned(),
            cpus: Some(WrittenList { list: "2-N".to_owned(), line: 3 }),
            repeats: 6,
            boots: 3,
            span_ns: 20_000_000_000,
            warmup_ns: 1_000_000_000,
            workload: Workload::Cyclic,
            siblings: None,
            rows: vec![
                ExperimentRow { shield: false, ..shielded_row("as it is") },
                ExperimentRow {
                    tunables: [("watchdog".to_owned(), false)].into(),
                    ..shielded_row("shield, no watchdog")
                },
                ExperimentRow {
                    kernel: None,
                    boot: vec!["nohz_full={cpus}".to_owned(), "nohlt".to_owned()],
                    ..shielded_row("nohz_full")
                },
            ],
            places: vec![
                RowPlace { line: 10, ..RowPlace::default() },
                RowPlace { line: 13, ..RowPlace::default() },
                RowPlace {
                    line: 18,
                    cpus: Some(WrittenList { list: "1".to_owned(), line: 20 }),
                    ..RowPlace::default()
                },
            ],
            columns: vec![
                timer_column("LinuxCNC"),
                ExperimentColumn {
                    instrument: "spin".to_owned(),
                    periods_ns: vec![0],
                    other: true,
                    over_ns: Vec::new(),
                    load: Vec::new(),
                    ..timer_column("spin")
                },
            ],
        };
        assert_eq!(matrix, wanted);
        let short = "[[row]]\nname = 'a'\n[[column]]\nname = 'b'\ninstrument = 'timer'\n";
        let short = Matrix::parse(short, "/etc/mill.toml").unwrap();
        assert_eq!((short.name.as_str(), short.repeats, short.boots), ("mill", 4, 4));
    }

    #[test]
    fn the_documented_example_is_a_matrix() {
        let matrix =
            Matrix::parse(include_str!("../../docs/experiment.toml"), "experiment.toml").unwrap();
        assert_eq!(
            (matrix.name.as_str(), matrix.rows.len(), matrix.columns.len()),
            ("lathe", 5, 2)
        );
        assert!(matrix.has_boots());
    }

    #[test]
    fn a_wrong_kernel_parameter_is_an_error_with_line_and_column() {
        let row = "[[row]]\nname = \"a\"\n";
        let column = "[[column]]\nname = \"c\"\ninstrument = \"timer\"\n";
        for (text, said) in [
            (
                format!("{row}boot = [\"nohlt\", \"nohz_full=3-1\"]\n{column}"),
                "m.toml:3:18: \"nohz_full=3-1\" does not name CPUs: \"3-1\" is not a CPU list",
            ),
            (format!("{row}boot = [\"rcu_nocbs=\"]\n{column}"), "m.toml:3:9: "),
            (
                format!("{row}boot = [\"nohz_ful={{cpus}}\"]\n{column}"),
                "m.toml:3:9: \"nohz_ful={cpus}\" is not in",
            ),
            (format!("{row}boot = [\"nohz_full\"]\n{column}"), "m.toml:3:9: "),
            (
                format!("{row}boot = [\"nohlt\", \"irqaffinity\"]\n{column}"),
                "m.toml:3:18: \"irqaffinity\" has no value; the kernel does not accept it without \
                 one; add a CPU list: irqaffinity=2-3",
            ),
            (
                format!("{row}boot = [\"isolcpus=mangaed_irq,{{cpus}}\"]\n{column}"),
                "m.toml:3:9: \"isolcpus=mangaed_irq,{cpus}\" has the unknown flag mangaed_irq",
            ),
            (format!("{row}boot = \"nohlt\"\n{column}"), "m.toml:3:8: "),
            (
                format!("{row}kernel = \"6.*\"\n{column}"),
                "m.toml:3:10: expected the release of an installed kernel",
            ),
            (format!("{row}kernel = \"\"\n{column}"), "m.toml:3:10: expected the release"),
            (format!("{row}boot = [1]\n{column}"), "m.toml:3:9: "),
        ] {
            let error = Matrix::parse(&text, "m.toml").unwrap_err().to_string();
            assert!(error.starts_with(said), "{text}\n  said {error}\n  not  {said}");
        }
    }

    #[test]
    fn errors_name_line_column_and_what_was_expected() {
        let row = "[[row]]\nname = \"a\"\n";
        let column = "[[column]]\nname = \"c\"\ninstrument = \"timer\"\n";
        for (text, said) in [
            (row.to_owned(), "m.toml: found 0 tables [[column]], expected 1 to 64"),
            (format!("colour = 1\n{row}{column}"), "m.toml:1:1: unknown field `colour`, expected"),
            (format!("repeats = 0\n{row}{column}"), "m.toml:1:11: repeats is 0, expected 1 to 64"),
            (
                format!("repeats = 3\nboots = 4\n{row}{column}"),
                "m.toml:2:9: boots is 4, expected at most the number of repeats, 3",
            ),
            (format!("time = \"5\"\n{row}{column}"), "m.toml:1:8: \"5\" is not a time"),
            (format!("cpus = \"\"\n{row}{column}"), "m.toml:1:8: \"\" names no CPU"),
            (format!("cpus = \"3-1\"\n{row}{column}"), "m.toml:1:8: \"3-1\" is not a CPU list"),
            (format!("{row}[[row]]\nname = \"a\"\n{column}"), "m.toml:4:8: the name \"a\" is"),
            (
                format!("{row}[[row]]\nname = \"b\"\n{column}"),
                "m.toml:3:1: row \"b\" is the same as row \"a\" on line 1",
            ),
            (
                format!(
                    "{row}shield = true\n[[row]]\nname = \"b\"\nshield = true\n\
                     tunables = {{ cpu-idle = false }}\n{column}"
                ),
                "m.toml:4:1: row \"b\" is the same as row \"a\" on line 1",
            ),
            (
                format!("cpus = \"3\"\n{row}[[row]]\nname = \"b\"\ncpus = \"3\"\n{column}"),
                "m.toml:4:1: row \"b\" is the same as row \"a\" on line 2",
            ),
            (format!("{row}cpus = \"1-\"\n{column}"), "m.toml:3:8: \"1-\" is not a CPU list"),
            (
                format!("{row}tunables = {{ thp = false }}\n{column}"),
                "m.toml:3:14: tunables belong to a shield; expected shield = true",
            ),
            (
                format!("{row}shield = true\ntunables = {{ watchdgo = false }}\n{column}"),
                "m.toml:4:14: there is no tunable \"watchdgo\"; did you mean watchdog?",
            ),
            (format!("{row}boot = [\"a b\"]\n{column}"), "m.toml:3:9: expected one plain kernel"),
            (
                format!("{row}boot = [\"nosmt\", \"nosmt=force\"]\n{column}"),
                "m.toml:3:18: nosmt is given twice",
            ),
            (
                format!("{row}boot = [\"isolcpu={{cpus}}\"]\n{column}"),
                "m.toml:3:9: \"isolcpu={cpus}\" is not in kernel-parameters.txt",
            ),
            (
                format!("{row}boot = [\"nohz_full=3-1\"]\n{column}"),
                "m.toml:3:9: \"nohz_full=3-1\" does not name CPUs",
            ),
            (
                format!("{row}[[column]]\nname = \"c\"\ninstrument = \"sundial\"\n"),
                "m.toml:5:14: there is no instrument \"sundial\", expected one of: timer",
            ),
            (
                format!("{row}{column}threads = [\"1ms\", \"1000us\"]\n"),
                "m.toml:6:12: two threads with the same period",
            ),
            (format!("{row}{column}[[row]]\nname = \"\"\n"), "m.toml:7:8: expected a name of 1 to"),
            (
                format!("{row}{column}load = [\"bricks\"]\n"),
                "m.toml:6:9: there is no load \"bricks\"; the loads are",
            ),
            ("[[row]".to_owned(), "m.toml:1:"),
        ] {
            let error = Matrix::parse(&text, "m.toml").unwrap_err().to_string();
            assert!(error.starts_with(said), "{text}\n  said {error}\n  not  {said}");
        }
    }

    #[test]
    fn a_kernel_parameter_in_another_place_is_an_error_with_the_right_key() {
        let row = "[[row]]\nname = \"a\"\n";
        let column = "[[column]]\nname = \"c\"\ninstrument = \"timer\"\n";
        for (text, said) in [
            (
                format!("{row}shield = true\ntunables = {{ nohlt = true }}\n{column}"),
                "m.toml:4:14: nohlt is a kernel parameter, not a tunable; expected boot = \
                 [\"nohlt\"] in the row",
            ),
            (
                format!("{row}parameters = [\"nohlt\"]\n{column}"),
                "m.toml:3:1: unknown field `parameters`, expected",
            ),
        ] {
            let error = Matrix::parse(&text, "m.toml").unwrap_err().to_string();
            assert!(error.starts_with(said), "{text}\n  said {error}\n  not  {said}");
        }
    }

    #[test]
    fn errors_suggest_what_was_meant() {
        let row = "[[row]]\nname = \"a\"\n";
        let column = "[[column]]\nname = \"c\"\ninstrument = \"timer\"\n";
        for (text, suggested) in [
            (format!("workloud = \"vm\"\n{row}{column}"), "; did you mean workload?"),
            (
                format!("{row}{column}load = [\"memory\", \"mesages\"]\n"),
                "; did you mean messages?",
            ),
            (format!("repeats = 4\nrepeats = 5\n{row}{column}"), "the key repeats is already set"),
            (format!("{row}sheild = true\n{column}"), "; did you mean shield?"),
            (format!("{row}kernl = \"6.12\"\n{column}"), "; did you mean kernel?"),
            (format!("workload = \"cyclik\"\n{row}{column}"), "; did you mean cyclic?"),
            (format!("{row}boot = [\"isolcpus={{cpu}}\"]\n{column}"), "; did you mean {cpus}?"),
            (format!("{row}parameters = [\"nohlt\"]\n{column}"), "; did you mean boot?"),
            (format!("{row}{column}thread = [\"1ms\"]\n"), "; did you mean threads?"),
            (format!("{row}boot = [\"isolcpu=3\"]\n{column}"), "; did you mean isolcpus?"),
            (format!("{row}boot = [\"idle=pol\"]\n{column}"), "; did you mean idle=poll?"),
            (
                format!("{row}boot = [\"isolcpus=io_queue,{{cpus}}\"]\n{column}"),
                "; if your kernel has that patch series: allow_unknown = true; about the word: \
                 cpushield explain isolcpus-io-queue",
            ),
            (
                format!("{row}boot = [\"nohz_full\"]\n{column}"),
                "; if your kernel has that patch series: allow_unknown = true; about the word: \
                 cpushield explain nohz-full-without-list",
            ),
            (
                format!("{row}boot = [\"zzqwyx_own\"]\n{column}"),
                "; if it is correct: allow_unknown = true",
            ),
            (format!("{row}cpus = \"0x8\"\n{column}"), "; it is the mask of the list \"3\""),
            (
                format!("{row}cpus = \"\"\n{column}"),
                "; a list looks like 3, 2-3, 2-N, isolated or all,^0",
            ),
            (
                format!("{row}cpus = \"1..3\"\n{column}"),
                "; a list looks like 3, 2-3, 2-N, isolated or all,^0",
            ),
            (
                format!("{row}[[column]]\nname = \"c\"\ninstrument = \"tymer\"\n"),
                "; did you mean timer?",
            ),
        ] {
            let error = Matrix::parse(&text, "m.toml").unwrap_err().to_string();
            assert!(error.starts_with("m.toml:"), "{error}");
            assert!(error.ends_with(suggested), "{error}");
        }
        let own = format!("{row}boot = [\"zzqwyx_own\"]\nallow_unknown = true\n{column}");
        assert!(Matrix::parse(&own, "m.toml").is_ok());
        let module = format!("{row}boot = [\"radeon.modeset=0\"]\n{column}");
        assert!(Matrix::parse(&module, "m.toml").is_ok());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,80}", cut in 0..GOOD.len()) {
            let _ = Matrix::parse(&text, "m");
            let _ = Matrix::parse(&format!("[[row]]\n{text}"), "m");
            let _ = Matrix::parse(&format!("{}{text}", GOOD.get(..cut).unwrap_or_default()), "m");
        }
    }
}
