//! `experiment FILE --minimize`: finds the least set of options of a row that meets a goal.

use super::WorkContext;
use super::experiment_machine::LiveExperimentMachine;
use super::machine_survey::survey_machine;
use super::run_experiment::{
    ExperimentFile, ExperimentResults, check_and_begin, choose_cpus, claim_experiment, now_s,
    run_schedule,
};
use crate::change::EffectTime;
use crate::experiment::journal::ExperimentJournal;
use crate::experiment::search::{
    FixedOption, FixedReason, SearchDryRun, SearchGoal, SearchKind, SearchOption, SearchRequest,
    describe_search,
};
use crate::experiment::{ExperimentRow, Matrix, RebootPermission};
use crate::failure::Failure;
use crate::plan::{Plan, plan};
use crate::registry::nearest;
use crate::survey::Machine;
use crate::tunables::TUNABLES;
use cpushield_linux::{CpuSet, Host};
use std::collections::BTreeMap;
use std::path::{Path, absolute};

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
    let (search, cpus) = make_search(&work.host, &machine, request)?;
    Ok(describe_search(&search, &request.file.matrix, cpus))
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
    let (search, _) = make_search(&work.host, &machine, request)?;
    let ExperimentFile { name, text, matrix } = &request.file;
    for fixed in search.fixed.iter().filter(|it| it.why == FixedReason::RebootNotPermitted) {
        work.ui.warn(&format!("{}: {}", fixed.option, fixed.why));
    }
    let whole = Matrix { rows: vec![whole_row(&search)], ..matrix.clone() };
    let journal = ExperimentJournal {
        reboot: request.reboot,
        output: output.map(|file| absolute(file).unwrap_or(file.into()).display().to_string()),
        search: Some(search),
        ..ExperimentJournal::new(name.clone(), text.clone(), CpuSet::new(), now_s())
    };
    let journal = check_and_begin(work, &whole, output, journal)?;
    run_schedule(work, journal)
}

/// The configuration with every option.
pub(super) fn whole_row(search: &SearchRequest) -> ExperimentRow {
    search.row(&(0..search.options.len()).collect())
}

/// Makes the search of a row. Returns it with the measured CPUs.
fn make_search(
    host: &Host,
    machine: &Machine,
    request: &MinimizeRequest,
) -> Result<(SearchRequest, CpuSet), Failure> {
    let MinimizeRequest { file, goal, reboot, .. } = request;
    let row = choose_row(&file.matrix, request.row.as_deref(), *reboot)?;
    let base = ExperimentRow { boot: Vec::new(), ..row.clone() };
    let alone = Matrix { rows: vec![base.clone()], ..file.matrix.clone() };
    let (shielded, cpus) = choose_cpus(host, machine, &alone)?;
    let words =
        row.boot.iter().map(|word| SearchOption::Parameter { word: word.clone(), given: true });
    let (mut options, mut fixed) = (Vec::new(), Vec::new());
    match reboot {
        RebootPermission::Granted => options.extend(words),
        RebootPermission::Denied => fixed.extend(words.map(|option| {
            let why = FixedReason::RebootNotPermitted;
            FixedOption { option, why }
        })),
    }
    if row.shield {
        let wanted = LiveExperimentMachine::request_for_row(&alone, &base, Some(shielded));
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
    let kind = SearchKind::Minimize { row: row.name.clone() };
    let (goal, differences) = (*goal, Vec::new());
    // The search forces these options itself, on or off.
    let forced = list_forced(&base.tunables).collect();
    let mut base = base;
    let shield_stays = !options.iter().any(|option| matches!(option, SearchOption::Tunable { .. }));
    base.tunables.retain(|name, _| !options.contains(&tunable_on(name.clone())));
    let request =
        SearchRequest { kind, goal, base, options, forced, shield_stays, fixed, differences };
    Ok((request, cpus))
}

/// The row of this name; otherwise the last row that can be measured without permission that was
/// not given, or else the last one.
fn choose_row<'a>(
    matrix: &'a Matrix,
    name: Option<&str>,
    reboot: RebootPermission,
) -> Result<&'a ExperimentRow, Failure> {
    let Some(name) = name else {
        let rows = matrix.rows.iter().rev();
        let last = rows.clone().find(|row| reboot.allows(row)).or(matrix.rows.last());
        return last.ok_or_else(|| Failure::usage("the file has no row"));
    };
    matrix.rows.iter().find(|row| row.name == name).ok_or_else(|| {
        let known: Vec<&str> = matrix.rows.iter().map(|row| row.name.as_str()).collect();
        let failure = Failure::usage(format!("there is no row {name:?}"));
        match nearest(name, &known).first() {
            Some(near) => failure.hint(format!("did you mean {near:?}?")),
            None => failure.hint(format!("rows: {}", known.join(", "))),
        }
    })
}

/// The tunables that are forced on.
pub(super) fn list_forced(tunables: &BTreeMap<String, bool>) -> impl Iterator<Item = String> + '_ {
    tunables.iter().filter(|(_, on)| **on).map(|(name, _)| name.clone())
}

fn tunable_on(name: String) -> SearchOption {
    SearchOption::Tunable { name, on: true }
}

fn has_steps(plan: &Plan, tunable: &str) -> bool {
    plan.steps.iter().any(|step| step.tunable == tunable)
}

/// The tunables that change something, in the order in which they are left out: the riskiest
/// first, so that the result has the least risk where one of two options is enough.
pub(super) fn list_tunables(plan: &Plan) -> Vec<String> {
    let names = TUNABLES.iter().rev().map(|tunable| tunable.name());
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
