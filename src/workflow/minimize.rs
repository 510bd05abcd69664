//! `experiment FILE --minimize`: finds the least set of options of a row that meets a goal.

use super::WorkContext;
use super::experiment_cpus::choose_row_cpus;
use super::experiment_machine::request_for_row;
use super::machine_survey::survey_machine;
use super::prepared_matrix::prepare_matrix;
use super::run_experiment::{ExperimentFile, ExperimentResults, begin_and_run, claim_experiment};
use crate::change::EffectTime;
use crate::documents::experiment::ExperimentRow;
use crate::documents::machine::Machine;
use crate::documents::option_search::{
    FixedOption, FixedReason, SearchDryRun, SearchGoal, SearchOption,
};
use crate::documents::plan::Plan;
use crate::experiment::search::{SearchRequest, describe_search};
use crate::experiment::{Matrix, RebootPermission, RowCpus};
use crate::failure::Failure;
use crate::plan::plan;
use crate::quote::quote_names;
use crate::registry::nearest;
use crate::tunables::TUNABLES;
use std::path::Path;

/// Tunables that prevent nothing. Undo and the instruments need them.
const BOOKKEEPING: [&str; 2] = ["keep-affinities", "tracing-buffer"];

/// What to search for.
#[derive(Debug)]
pub struct MinimizeRequest {
    /// The matrix.
    pub file: ExperimentFile,
    /// The name of the row; `None` for the last one that can be measured.
    pub row: Option<String>,
    /// The goal of each measurement.
    pub goal: SearchGoal,
    /// Whether the machine may be rebooted for kernel parameters.
    pub reboot: RebootPermission,
}

/// Describes what a search would do, without doing it.
///
/// # Errors
/// This machine cannot run it.
pub fn dry_run(work: &WorkContext<'_>, request: &MinimizeRequest) -> Result<SearchDryRun, Failure> {
    let machine = survey_machine(&work.host, &work.store);
    let (search, cpus) = make_search(work, &machine, request)?;
    let ExperimentFile { name, matrix, .. } = &request.file;
    let whole = make_whole_matrix(request, &search)?;
    prepare_matrix(work, &machine, whole, name, request.reboot)?;
    Ok(describe_search(&search, matrix, cpus))
}

/// Runs a search. Returns its results; `None` if it continues after a reboot.
///
/// # Errors
/// This machine cannot run it, it was interrupted, or a change cannot be undone.
pub fn start(
    work: &WorkContext<'_>,
    request: &MinimizeRequest,
    output: Option<&Path>,
) -> Result<Option<ExperimentResults>, Failure> {
    let _lock = claim_experiment(&work.store, "an experiment is running")?;
    let machine = survey_machine(&work.host, &work.store);
    let (search, _) = make_search(work, &machine, request)?;
    for fixed in search.fixed.iter().filter(|it| it.why == FixedReason::RebootNotPermitted) {
        work.ui.warn(&format!("{}: {}", fixed.option, fixed.why));
    }
    let whole = make_whole_matrix(request, &search)?;
    let file = ExperimentFile { matrix: whole, ..request.file.clone() };
    begin_and_run(work, file, request.reboot, output, Some(search))
}

/// The matrix of the row with every option.
fn make_whole_matrix(request: &MinimizeRequest, search: &SearchRequest) -> Result<Matrix, Failure> {
    let matrix = &request.file.matrix;
    let index = choose_row(matrix, request.row.as_deref(), request.reboot)?;
    Ok(matrix.with_row(index, whole_row(search)))
}

/// The configuration with every option.
pub(super) fn whole_row(search: &SearchRequest) -> ExperimentRow {
    search.row_with(&(0..search.options.len()).collect())
}

/// Makes the search of a row. Returns it with the CPUs of the row.
fn make_search(
    work: &WorkContext<'_>,
    machine: &Machine,
    request: &MinimizeRequest,
) -> Result<(SearchRequest, RowCpus), Failure> {
    let MinimizeRequest { file, goal, reboot, .. } = request;
    let matrix = &file.matrix;
    let index = choose_row(matrix, request.row.as_deref(), *reboot)?;
    let Some(row) = matrix.rows.get(index) else { return Err(no_row()) };
    let base = ExperimentRow { boot: Vec::new(), ..row.clone() };
    let alone = matrix.with_row(index, base.clone());
    let row_cpus = choose_row_cpus(work, machine, &alone, &file.name)?;
    let Some(row_cpus) = row_cpus.into_iter().next() else { return Err(no_row()) };
    let words = row.boot.iter().map(|word| SearchOption::Parameter { word: word.clone() });
    let (mut options, mut fixed) = (Vec::new(), Vec::new());
    match reboot {
        RebootPermission::Granted => options.extend(words),
        RebootPermission::Denied => fixed.extend(words.map(|option| {
            let why = FixedReason::RebootNotPermitted;
            FixedOption { option, why }
        })),
    }
    if row.shield {
        let wanted = request_for_row(&alone, &base, Some(row_cpus.shielded.clone()));
        let plan = plan(machine, &wanted)?;
        options.extend(list_tunables(&plan).into_iter().map(tunable_on));
        let planned = BOOKKEEPING.iter().filter(|name| has_steps(&plan, name));
        let why = FixedReason::Bookkeeping;
        fixed.extend(
            planned.map(|name| FixedOption { option: tunable_on((*name).to_owned()), why }),
        );
    }
    if options.is_empty() {
        let message = format!("row {:?} has no option that can be left out", row.name);
        let failure = Failure::usage(message);
        return Err(match fixed.iter().any(|it| it.why == FixedReason::RebootNotPermitted) {
            true => failure.hint("allow reboots for its kernel parameters: --reboot"),
            false => failure.hint("name a row with a shield: --row NAME"),
        });
    }
    let (goal, row) = (*goal, row.name.clone());
    // The search forces these options itself, on or off.
    let forced = base.tunables.iter().filter(|(_, it)| it.is_on());
    let forced = forced.map(|(name, it)| (name.clone(), it.clone())).collect();
    let mut base = base;
    let shield_stays = !options.iter().any(|option| matches!(option, SearchOption::Tunable { .. }));
    base.tunables.retain(|name, _| !options.contains(&tunable_on(name.clone())));
    let request = SearchRequest { row, goal, base, options, forced, shield_stays, fixed };
    Ok((request, row_cpus))
}

/// The row of this name; otherwise the last row that can be measured without permission that was
/// not given, or else the last one. Returns its index.
fn choose_row(
    matrix: &Matrix,
    name: Option<&str>,
    reboot: RebootPermission,
) -> Result<usize, Failure> {
    let Some(name) = name else {
        let last = matrix.rows.iter().rposition(|row| reboot.allows(row));
        return last.or(matrix.rows.len().checked_sub(1)).ok_or_else(no_row);
    };
    matrix.rows.iter().position(|row| row.name == name).ok_or_else(|| {
        let known: Vec<&str> = matrix.rows.iter().map(|row| row.name.as_str()).collect();
        let failure = Failure::usage(format!("there is no row {name:?}"));
        match nearest(name, &known).first() {
            Some(near) => failure.hint(format!("did you mean {near:?}?")),
            None => failure.hint(format!("rows: {}", quote_names(&known))),
        }
    })
}

fn no_row() -> Failure {
    Failure::usage("the file has no row")
}

fn tunable_on(name: String) -> SearchOption {
    SearchOption::Tunable { name }
}

fn has_steps(plan: &Plan, tunable: &str) -> bool {
    plan.steps.iter().any(|step| step.tunable == tunable)
}

/// The tunables that change something, in the order in which they are left out: the riskiest
/// first, so that the result has the least risk where one of two options is enough.
fn list_tunables(plan: &Plan) -> Vec<String> {
    let names = TUNABLES.iter().rev().map(|tunable| tunable.name);
    let names = names.filter(|name| !BOOKKEEPING.contains(name) && has_steps(plan, name));
    let mut names: Vec<&str> = names.collect();
    names.sort_by_key(|name| {
        let steps = plan.steps.iter().filter(|step| step.tunable == *name);
        std::cmp::Reverse(
            steps.filter(|step| step.when == EffectTime::Runtime).map(|step| step.risk).max(),
        )
    });
    names.into_iter().map(str::to_owned).collect()
}
