//! `experiment --between GOOD BAD`: lists what differs between two measured configurations, and
//! bisects what cpushield can set on this machine.

use super::between_ends::{EndMeasurement, MeasuredEnd};
use super::between_symptoms::{compare_symptoms, find_contradictions};
use super::experiment_machine::request_for_row;
use super::machine_survey::survey_machine;
use super::minimize::{list_forced, list_tunables};
use super::prepared_matrix::{PreparedMatrix, prepare_matrix};
use super::run_experiment::{ExperimentFile, ExperimentResults, begin_and_run, claim_experiment};
use super::{WorkContext, runs_as_root};
use crate::boot::{line, loaders};
use crate::documents::experiment::{
    Difference, DifferenceRole, DifferenceSubject, ExperimentColumn, ExperimentRow,
    ExperimentSetup, ListedReason, RowIsolation,
};
use crate::documents::machine::Machine;
use crate::documents::option_search::{
    OptionSubset, SearchDryRun, SearchGoal, SearchKind, SearchOption,
};
use crate::experiment::search::{SearchRequest, describe_search, list_only};
use crate::experiment::{Matrix, RebootPermission};
use crate::failure::Failure;
use crate::json::to_json;
use crate::plan::plan;
use crate::policy::Siblings;
use cpushield_linux::{CpuSet, Host};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use toml::{Table, Value};

/// The name of a matrix that is made from documents.
const NAME: &str = "between";

/// What to search for.
#[derive(Debug)]
pub struct BetweenRequest {
    /// The end that met the goal.
    pub good: MeasuredEnd,
    /// The end that missed the goal.
    pub bad: MeasuredEnd,
    /// The goal of each measurement.
    pub goal: SearchGoal,
    /// Whether the machine may be rebooted for kernel parameters.
    pub reboot: RebootPermission,
}

/// What a dry run shows.
#[derive(Debug)]
pub enum BetweenDryRun {
    /// The search that would run.
    Search(Box<SearchDryRun>),
    /// The list alone, because nothing can be tried here.
    List(ExperimentResults),
}

/// A search that is ready, or the reason why there is none.
struct BetweenSearch {
    request: SearchRequest,
    /// The matrix and its text; the reason when nothing can be tried here.
    matrix: Result<(Matrix, String), ListedReason>,
}

/// Describes what a search would do, without doing it.
///
/// # Errors
/// The documents cannot be compared on this machine.
pub fn dry_run(work: &WorkContext<'_>, request: &BetweenRequest) -> Result<BetweenDryRun, Failure> {
    warn_of_contradictions(work, request);
    let machine = survey_machine(&work.host, &work.store);
    let search = make_search(&machine, list_kernels(&work.host).as_ref(), request)?;
    Ok(match search.matrix {
        Err(why) => BetweenDryRun::List(list(search.request, why)),
        Ok((matrix, _)) => {
            let PreparedMatrix { matrix, row_cpus } =
                prepare_matrix(work, &machine, matrix, NAME, request.reboot)?;
            let cpus = row_cpus.into_iter().next().unwrap_or_default();
            let dry_run = describe_search(&search.request, &matrix, cpus);
            BetweenDryRun::Search(Box::new(dry_run))
        }
    })
}

/// Lists the differences and runs a search, if there is something to try. Returns the results;
/// `None` if the search continues after a reboot.
///
/// # Errors
/// This machine cannot run it, it was interrupted, or a change cannot be undone.
pub fn start(
    work: &WorkContext<'_>,
    request: &BetweenRequest,
    output: Option<&Path>,
) -> Result<Option<ExperimentResults>, Failure> {
    warn_of_contradictions(work, request);
    let machine = survey_machine(&work.host, &work.store);
    let search = make_search(&machine, list_kernels(&work.host).as_ref(), request)?;
    let not_root = (!runs_as_root()).then_some(ListedReason::NotRoot);
    let (matrix, text) = match (search.matrix, not_root) {
        (Err(why), _) | (Ok(_), Some(why)) => {
            let results = list(search.request, why);
            write_list(work, &results, output)?;
            return Ok(Some(results));
        }
        (Ok(made), None) => made,
    };
    let _lock = claim_experiment(&work.store, "an experiment is running")?;
    let file = ExperimentFile { name: NAME.to_owned(), text, matrix };
    begin_and_run(work, file, request.reboot, output, Some(search.request))
}

/// Warns of documents that contradict their roles: the search measures both ends again, which takes
/// time.
fn warn_of_contradictions(work: &WorkContext<'_>, request: &BetweenRequest) {
    for warning in find_contradictions(&request.good, &request.bad, request.goal) {
        work.ui.warn(&warning);
    }
}

/// The differences alone.
fn list(request: SearchRequest, why: ListedReason) -> ExperimentResults {
    // The setup is that of this machine, and nothing was measured on it.
    let setup = ExperimentSetup::default();
    let mut differences = request.differences;
    for difference in differences.iter_mut().filter(|it| it.role == DifferenceRole::Tried) {
        difference.role = DifferenceRole::Settable;
    }
    let request = SearchRequest { differences, options: Vec::new(), ..request };
    ExperimentResults::Search(Box::new(list_only(&request, NAME.to_owned(), setup, why)))
}

/// Writes a list to the file that was requested.
fn write_list(
    work: &WorkContext<'_>,
    results: &ExperimentResults,
    output: Option<&Path>,
) -> Result<(), Failure> {
    let Some(file) = output else { return Ok(()) };
    work.host.user_files().write(file, &to_json(results)?)?;
    work.ui.status(&format!("wrote {}", file.display()));
    Ok(())
}

/// Compares the ends, and makes the search of what can be set on this machine.
fn make_search(
    machine: &Machine,
    menu: Option<&BTreeSet<String>>,
    request: &BetweenRequest,
) -> Result<BetweenSearch, Failure> {
    let BetweenRequest { good, bad, goal, reboot } = request;
    // What the bad end missed must be seen again, with its time, its threads and its loads.
    let Some(measurement) = bad.measurement.as_ref().or(good.measurement.as_ref()) else {
        return Err(without_measurement(request));
    };
    let mut found = FoundDifferences::default();
    found.compare_kernels(good, bad, menu, *reboot);
    found.compare_parameters(good, bad, machine, *reboot);
    let other_machine = find_other_machine(machine, &[good, bad]);
    let tunables = match &other_machine {
        None => found.compare_shields(good, bad, machine, measurement)?,
        // Only a plan for this machine shows which tunables a shield has.
        Some(_) => found.compare_forced_tunables(good, bad),
    };
    found.compare_facts(good, bad);
    let base = ExperimentRow {
        name: "good".to_owned(),
        cpus: CpuSet::new(),
        isolation: RowIsolation::default(),
        shield: [good, bad].iter().any(|end| end.shielded != Some(false)),
        tunables,
        kernel: None,
        boot: Vec::new(),
        missing: None,
    };
    let search = SearchRequest {
        kind: SearchKind::Between { good: good.name.clone(), bad: bad.name.clone() },
        goal: *goal,
        base,
        options: found.options,
        shield_stays: found.shield_stays,
        forced: list_forced(&good.tunables).chain(list_forced(&bad.tunables)).collect(),
        fixed: Vec::new(),
        differences: found.differences,
    };
    let matrix = match (other_machine, search.options.is_empty()) {
        (Some(why), _) => Err(why),
        (None, true) if search.differences.is_empty() => Err(ListedReason::NoDifference),
        (None, true) => Err(ListedReason::NothingToSet),
        (None, false) => Ok(make_matrix(&search, measurement)?),
    };
    Ok(BetweenSearch { request: search, matrix })
}

/// The refusal of two documents that say nothing about a goal.
fn without_measurement(request: &BetweenRequest) -> Failure {
    let BetweenRequest { good, bad, .. } = request;
    Failure::usage(format!("neither {} nor {} has a measurement", good.name, bad.name))
        .hint("name files that `latency`, `verify`, `experiment` or `report` saved with --json")
}

/// The kernels of the boot menu; `None` when there is none that can be read.
fn list_kernels(host: &Host) -> Option<BTreeSet<String>> {
    let (_, found) = loaders::find(host).ok()??;
    let kernels = found.entries.into_iter().filter(|entry| entry.purpose.is_none());
    Some(kernels.map(|entry| entry.version).collect())
}

/// How the documents show that they are of another machine.
fn find_other_machine(machine: &Machine, ends: &[&MeasuredEnd]) -> Option<ListedReason> {
    let ours = machine.topology.model.clone()?;
    let theirs = ends.iter().filter_map(|end| end.processor.clone());
    let theirs = theirs.into_iter().find(|theirs| *theirs != ours)?;
    Some(ListedReason::OtherMachine { what: "processor".to_owned(), theirs, ours })
}

/// The differences so far, and the options that try them.
#[derive(Default)]
struct FoundDifferences {
    differences: Vec<Difference>,
    options: Vec<SearchOption>,
    /// Whether both ends have tunables in common.
    shield_stays: bool,
}

impl FoundDifferences {
    fn add(
        &mut self,
        what: DifferenceSubject,
        values: (Option<String>, Option<String>),
        role: DifferenceRole,
    ) {
        let (good, bad) = values;
        self.differences.push(Difference { what, good, bad, role });
    }

    fn compare_kernels(
        &mut self,
        good: &MeasuredEnd,
        bad: &MeasuredEnd,
        menu: Option<&BTreeSet<String>>,
        reboot: RebootPermission,
    ) {
        if let (Some(one), Some(other)) = (&good.kernel, &bad.kernel)
            && one != other
        {
            let values = (Some(one.clone()), Some(other.clone()));
            let role = match (menu, reboot) {
                (None, _) => DifferenceRole::BootMenuUnknown,
                (Some(menu), _) if !(menu.contains(one) && menu.contains(other)) => {
                    DifferenceRole::KernelNotInstalled
                }
                (Some(_), RebootPermission::Denied) => DifferenceRole::NeedsReboot,
                (Some(_), RebootPermission::Granted) => DifferenceRole::Tried,
            };
            if role == DifferenceRole::Tried {
                let (release, instead_of) = (other.clone(), one.clone());
                self.options.push(SearchOption::Kernel { release, instead_of });
            }
            self.add(DifferenceSubject::Kernel, values, role);
        }
    }

    fn compare_parameters(
        &mut self,
        good: &MeasuredEnd,
        bad: &MeasuredEnd,
        machine: &Machine,
        reboot: RebootPermission,
    ) {
        let (Some(one), Some(other)) = (&good.cmdline, &bad.cmdline) else { return };
        let (one, other) = (words_by_name(one), words_by_name(other));
        let now = words_by_name(machine.kernel.cmdline.as_deref().unwrap_or_default());
        let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
        for name in names {
            let (good, bad) = (one.get(name), other.get(name));
            if good == bad {
                continue;
            }
            let role = match reboot {
                _ if now.contains_key(name) => DifferenceRole::NotRemovable,
                RebootPermission::Denied => DifferenceRole::NeedsReboot,
                RebootPermission::Granted => DifferenceRole::Tried,
            };
            if role == DifferenceRole::Tried {
                self.options.extend(match (good.cloned(), bad.cloned()) {
                    (Some(instead_of), Some(word)) => {
                        Some(SearchOption::ParameterValue { word, instead_of })
                    }
                    (None, Some(word)) => Some(SearchOption::Parameter { word, given: true }),
                    (Some(word), None) => Some(SearchOption::Parameter { word, given: false }),
                    (None, None) => None,
                });
            }
            let what = DifferenceSubject::Parameter { name: name.clone() };
            self.add(what, (good.cloned(), bad.cloned()), role);
        }
    }

    /// Compares the shields by the tunables that they have on this machine. Returns those that both
    /// force on or off.
    fn compare_shields(
        &mut self,
        good: &MeasuredEnd,
        bad: &MeasuredEnd,
        machine: &Machine,
        measurement: &EndMeasurement,
    ) -> Result<BTreeMap<String, bool>, Failure> {
        self.compare_shielded(good, bad);
        // A tunable whose absence only the bad end shows was probably off there.
        let off = bad.remedies.difference(&good.remedies).map(|name| (name.clone(), false));
        let bad_tunables = bad.tunables.clone().into_iter().chain(off).collect();
        let one = list_active_tunables(good, good.tunables.clone(), machine, measurement)?;
        let other = list_active_tunables(bad, bad_tunables, machine, measurement)?;
        for name in one.symmetric_difference(&other) {
            let on = other.contains(name);
            self.options.push(SearchOption::Tunable { name: name.clone(), on });
            let what = DifferenceSubject::Tunable { name: name.clone() };
            let values = (Some(on_or_off(!on)), Some(on_or_off(on)));
            self.add(what, values, DifferenceRole::Tried);
        }
        let by_default =
            list_active_tunables(&MeasuredEnd::default(), BTreeMap::new(), machine, measurement)?;
        let forced: BTreeSet<String> =
            list_forced(&good.tunables).chain(list_forced(&bad.tunables)).collect();
        let both = one.intersection(&other).filter(|name| forced.contains(*name));
        let both = both.map(|name| (name.clone(), true));
        let neither =
            by_default.iter().filter(|name| !one.contains(*name) && !other.contains(*name));
        self.shield_stays = one.intersection(&other).next().is_some();
        Ok(both.chain(neither.map(|name| (name.clone(), false))).collect())
    }

    fn compare_shielded(&mut self, good: &MeasuredEnd, bad: &MeasuredEnd) {
        if let (Some(one), Some(other)) = (good.shielded, bad.shielded)
            && one != other
        {
            let values = (Some(yes_or_no(one)), Some(yes_or_no(other)));
            self.add(DifferenceSubject::Shield, values, DifferenceRole::Tried);
        }
    }

    /// Compares the tunables that were forced on or off. Nothing can be tried.
    fn compare_forced_tunables(
        &mut self,
        good: &MeasuredEnd,
        bad: &MeasuredEnd,
    ) -> BTreeMap<String, bool> {
        self.compare_shielded(good, bad);
        let names: BTreeSet<&String> = good.tunables.keys().chain(bad.tunables.keys()).collect();
        for name in names {
            let (one, other) = (good.tunables.get(name), bad.tunables.get(name));
            if one != other {
                let what = DifferenceSubject::Tunable { name: name.clone() };
                let values = (one.map(|on| on_or_off(*on)), other.map(|on| on_or_off(*on)));
                self.add(what, values, DifferenceRole::Settable);
            }
        }
        BTreeMap::new()
    }

    fn compare_facts(&mut self, good: &MeasuredEnd, bad: &MeasuredEnd) {
        if let (Some(one), Some(other)) = (&good.processor, &bad.processor)
            && one != other
        {
            let what = DifferenceSubject::Machine { name: "processor".to_owned() };
            let values = (Some(one.clone()), Some(other.clone()));
            self.add(what, values, DifferenceRole::Suspect);
        }
        for (name, one) in &good.machine {
            let Some(other) = bad.machine.get(name).filter(|other| *other != one) else { continue };
            let what = DifferenceSubject::Machine { name: name.clone() };
            self.add(what, (Some(one.clone()), Some(other.clone())), DifferenceRole::Suspect);
        }
        for (name, one) in &good.method {
            let Some(other) = bad.method.get(name).filter(|other| *other != one) else { continue };
            let what = DifferenceSubject::Method { name: name.clone() };
            self.add(what, (Some(one.clone()), Some(other.clone())), DifferenceRole::Suspect);
        }
        self.differences.extend(compare_symptoms(good, bad));
    }
}

/// The tunables that change something in the shield of an end, on this machine.
fn list_active_tunables(
    end: &MeasuredEnd,
    tunables: BTreeMap<String, bool>,
    machine: &Machine,
    measurement: &EndMeasurement,
) -> Result<BTreeSet<String>, Failure> {
    if end.shielded == Some(false) {
        return Ok(BTreeSet::new());
    }
    let matrix = Matrix {
        name: NAME.to_owned(),
        cpus: None,
        repeats: 1,
        boots: 1,
        span_ns: measurement.span_ns,
        warmup_ns: measurement.warmup_ns,
        workload: measurement.workload,
        siblings: Some(Siblings::Share),
        rows: Vec::new(),
        columns: Vec::new(),
        places: Vec::new(),
    };
    let row = ExperimentRow {
        name: end.name.clone(),
        cpus: CpuSet::new(),
        isolation: RowIsolation::default(),
        shield: true,
        tunables,
        kernel: None,
        boot: Vec::new(),
        missing: None,
    };
    let cpus = Some(measurement.cpus.clone());
    let request = request_for_row(&matrix, &row, cpus);
    Ok(list_tunables(&plan(machine, &request)?).into_iter().collect())
}

fn yes_or_no(answer: bool) -> String {
    if answer { "yes" } else { "no" }.to_owned()
}

fn on_or_off(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

/// The words of a command line by their names, without files.
fn words_by_name(cmdline: &str) -> BTreeMap<String, String> {
    let words = line::words_without_files(cmdline).into_iter();
    words.map(|word| (line::name_of(word).to_owned(), word.to_owned())).collect()
}

/// The matrix that repeats a measurement, with both ends as its rows, and its text.
fn make_matrix(
    search: &SearchRequest,
    measurement: &EndMeasurement,
) -> Result<(Matrix, String), Failure> {
    let whole: OptionSubset = (0..search.options.len()).collect();
    let rows = [("good", OptionSubset::new()), ("bad", whole)];
    let rows = rows.map(|(name, options)| {
        let row = ExperimentRow { name: name.to_owned(), ..search.row(&options) };
        Value::Table(row_table(&row))
    });
    let columns = measurement.columns.iter().map(|column| Value::Table(column_table(column)));
    let mut table = Table::new();
    table.insert("name".to_owned(), Value::from(NAME));
    table.insert("cpus".to_owned(), Value::from(measurement.cpus.to_string()));
    table.insert("repeats".to_owned(), Value::from(1));
    table.insert("time".to_owned(), Value::from(format!("{}ns", measurement.span_ns)));
    table.insert("warmup".to_owned(), Value::from(format!("{}ns", measurement.warmup_ns)));
    table.insert("workload".to_owned(), Value::from(measurement.workload.to_string()));
    table.insert("siblings".to_owned(), Value::from("share"));
    table.insert("row".to_owned(), Value::Array(rows.into()));
    table.insert("column".to_owned(), Value::Array(columns.collect()));
    let text = table.to_string();
    let matrix = Matrix::parse(&text, NAME)?;
    Ok((matrix, text))
}

fn row_table(row: &ExperimentRow) -> Table {
    let tunables = row.tunables.iter().map(|(name, on)| (name.clone(), Value::from(*on)));
    let boot = row.boot.iter().map(|word| Value::from(word.as_str()));
    let kernel = row.kernel.as_deref().map(|kernel| ("kernel".to_owned(), Value::from(kernel)));
    let rest = Table::from_iter([
        ("name".to_owned(), Value::from(row.name.as_str())),
        ("shield".to_owned(), Value::from(row.shield)),
        ("tunables".to_owned(), Value::Table(tunables.collect())),
        ("boot".to_owned(), Value::Array(boot.collect())),
    ]);
    rest.into_iter().chain(kernel).collect()
}

fn column_table(column: &ExperimentColumn) -> Table {
    let periods = column.periods_ns.iter().filter(|ns| **ns > 0);
    let periods = periods.map(|ns| Value::from(format!("{ns}ns")));
    let load = column.load.iter().map(|load| Value::from(load.as_str()));
    Table::from_iter([
        ("name".to_owned(), Value::from(column.name.as_str())),
        ("instrument".to_owned(), Value::from(column.instrument.as_str())),
        ("threads".to_owned(), Value::Array(periods.collect())),
        ("other".to_owned(), Value::from(column.other)),
        ("load".to_owned(), Value::Array(load.collect())),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FailureKind;
    use crate::ui::{OutputFormat, StatusLines, Ui};

    /// Compares two ends on a recorded machine with 4 CPUs.
    fn compare(
        good: MeasuredEnd,
        bad: MeasuredEnd,
        reboot: RebootPermission,
    ) -> (SearchRequest, Result<String, ListedReason>) {
        let ui = Ui::new(OutputFormat::Text, StatusLines::Suppressed);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("machines/6.12-rt-4/root");
        let work = WorkContext::open(&ui, Some(&root), None, None).unwrap();
        let mut machine = survey_machine(&work.host, &work.store);
        machine.topology.model = Some("Model A".to_owned());
        let goal = SearchGoal::MaxEntries { count: 0 };
        let request = BetweenRequest { good, bad, goal, reboot };
        let menu = BTreeSet::from(["6.1", "6.12"].map(str::to_owned));
        let found = make_search(&machine, Some(&menu), &request).unwrap();
        (found.request, found.matrix.map(|(_, text)| text))
    }

    fn end(shielded: Option<bool>, tunables: &[(&str, bool)], cmdline: &str) -> MeasuredEnd {
        let tunables = tunables.iter().map(|(name, on)| ((*name).to_owned(), *on));
        let column = ExperimentColumn {
            name: "a \"quoted\" name".to_owned(),
            instrument: "timer".to_owned(),
            periods_ns: vec![1_000_000],
            other: false,
            over_ns: Vec::new(),
            load: Vec::new(),
        };
        MeasuredEnd {
            kernel: Some("6.12".to_owned()),
            cmdline: Some(cmdline.to_owned()),
            processor: Some("Model A".to_owned()),
            shielded,
            tunables: tunables.collect(),
            measurement: Some(EndMeasurement {
                cpus: CpuSet::single(3),
                span_ns: 5_000_000_000,
                warmup_ns: 200_000_000,
                columns: vec![column],
                workload: crate::policy::Workload::default(),
            }),
            ..MeasuredEnd::default()
        }
    }

    fn roles(request: &SearchRequest) -> Vec<(String, DifferenceRole)> {
        let all = request.differences.iter();
        all.map(|it| (it.what.to_string(), it.role.clone())).collect()
    }

    fn options(request: &SearchRequest) -> Vec<String> {
        request.options.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn two_documents_without_a_measurement_are_refused() {
        let survey = |name: &str| MeasuredEnd { name: name.to_owned(), ..MeasuredEnd::default() };
        let (good, bad) = (survey("a.json"), survey("b.json"));
        let goal = SearchGoal::MaxEntries { count: 0 };
        let request = BetweenRequest { good, bad, goal, reboot: RebootPermission::Denied };
        let failure = make_search(&Machine::default(), None, &request).err().unwrap();
        assert_eq!(failure.kind, FailureKind::Usage);
        assert_eq!(failure.message, "neither a.json nor b.json has a measurement");
    }

    #[test]
    fn a_tunable_that_one_end_lacks_is_tried_alone() {
        let good = end(Some(true), &[], "quiet");
        let bad = end(Some(true), &[("kthreads", false)], "quiet");
        let (request, matrix) = compare(good, bad, RebootPermission::Denied);
        assert_eq!(options(&request), ["kthreads off"]);
        assert_eq!(roles(&request), [("tunable kthreads".to_owned(), DifferenceRole::Tried)]);
        // What both have by default stays as it is.
        assert_eq!(request.base.tunables, BTreeMap::new());
        let matrix = Matrix::parse(&matrix.unwrap(), "m").unwrap();
        assert_eq!(matrix.rows[0].tunables.get("kthreads"), None);
        assert_eq!(matrix.rows[1].tunables.get("kthreads"), Some(&false));
        assert_eq!(matrix.columns[0].name, "a \"quoted\" name");
    }

    #[test]
    fn a_shield_that_one_end_lacks_is_tried_by_its_tunables() {
        let (request, matrix) =
            compare(end(Some(true), &[], ""), end(Some(false), &[], ""), RebootPermission::Denied);
        assert!(options(&request).contains(&"cpuset off".to_owned()), "{request:?}");
        assert!(!options(&request).contains(&"keep-affinities off".to_owned()));
        let matrix = Matrix::parse(&matrix.unwrap(), "m").unwrap();
        assert_eq!((matrix.rows[0].shield, matrix.rows[1].shield), (true, false));
    }

    #[test]
    fn what_only_the_bad_end_is_interrupted_by_is_tried_by_its_remedy() {
        let good = MeasuredEnd { shielded: None, ..end(None, &[], "") };
        let remedies = BTreeSet::from(["workqueues".to_owned()]);
        let symptoms = BTreeMap::from([("kworker".to_owned(), 9)]);
        let bad = MeasuredEnd { remedies, symptoms, ..good.clone() };
        let (request, _) = compare(good, bad, RebootPermission::Denied);
        assert_eq!(options(&request), ["workqueues off"]);
        let symptom = ("interrupted by kworker".to_owned(), DifferenceRole::Symptom);
        assert_eq!(roles(&request)[1], symptom);
    }

    #[test]
    fn what_cannot_be_set_here_is_listed_with_the_reason() {
        let good = MeasuredEnd {
            kernel: Some("6.1".to_owned()),
            machine: BTreeMap::from([("turbo".to_owned(), "off".to_owned())]),
            ..end(Some(true), &[], "nohz_full=2 quiet")
        };
        let bad = MeasuredEnd {
            machine: BTreeMap::from([("turbo".to_owned(), "on".to_owned())]),
            ..end(Some(true), &[], "nohz_full=3 quiet nohlt")
        };
        let (request, matrix) = compare(good.clone(), bad.clone(), RebootPermission::Denied);
        let mut wanted = vec![
            ("kernel".to_owned(), DifferenceRole::NeedsReboot),
            ("kernel parameter nohlt".to_owned(), DifferenceRole::NeedsReboot),
            ("kernel parameter nohz_full".to_owned(), DifferenceRole::NeedsReboot),
            ("turbo".to_owned(), DifferenceRole::Suspect),
        ];
        assert_eq!(roles(&request), wanted);
        assert_eq!(matrix, Err(ListedReason::NothingToSet));
        let (request, matrix) = compare(good.clone(), bad.clone(), RebootPermission::Granted);
        wanted[..3].iter_mut().for_each(|(_, role)| *role = DifferenceRole::Tried);
        assert_eq!(roles(&request), wanted);
        assert_eq!(
            options(&request),
            ["kernel 6.12 instead of 6.1", "nohlt", "nohz_full=3 instead of nohz_full=2"]
        );
        let matrix = Matrix::parse(&matrix.unwrap(), "m").unwrap();
        let boots: Vec<String> = matrix.rows.iter().map(|row| row.boot.join(" ")).collect();
        assert_eq!(boots, ["nohz_full=2", "nohlt nohz_full=3"]);
        let kernels: Vec<_> = matrix.rows.iter().map(|row| row.kernel.as_deref()).collect();
        assert_eq!(kernels, [Some("6.1"), Some("6.12")]);
        for (menu, role) in [
            (Some(BTreeSet::from(["6.12".to_owned()])), DifferenceRole::KernelNotInstalled),
            (None, DifferenceRole::BootMenuUnknown),
        ] {
            let mut found = FoundDifferences::default();
            found.compare_kernels(&good, &bad, menu.as_ref(), RebootPermission::Granted);
            assert_eq!(found.differences[0].role, role);
        }
        let elsewhere = MeasuredEnd { processor: Some("Model B".to_owned()), ..bad };
        let (_, matrix) = compare(good, elsewhere, RebootPermission::Granted);
        assert!(matches!(matrix, Err(ListedReason::OtherMachine { .. })), "{matrix:?}");
    }
}
