//! Surveys the machine with what the journal of the active shield knows.

use super::WorkContext;
use super::active_shields::{cpus_of, shields_of, work_on_journal};
use crate::apply::{self, JournalLoadError};
use crate::boot;
use crate::boot::running_lint::lint_running;
use crate::documents::boot::{CommandLineLint, LintFinding};
use crate::documents::machine::Machine;
use crate::documents::plan::Plan;
use crate::failure::Failure;
use crate::survey::{survey, survey_boot, survey_with_shield};
use crate::tunables;
use cpushield_linux::{CpuSet, Host, Store};
use std::path::Path;

/// Surveys the machine. While a shield, or a part of one, is active, the survey skips everything
/// that would interrupt its CPUs.
#[must_use]
pub fn survey_machine(host: &Host, store: &Store) -> Machine {
    survey_with_state(host, store).0
}

/// What is known about an active shield.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShieldKnowledge {
    /// No shield is active.
    Absent,
    /// Shields are active on these CPUs.
    Present(CpuSet),
    /// Why it is unknown whether a shield is active.
    Unknown(String),
}

/// Like [`survey_machine`]. Also returns whether a shield is active.
fn survey_with_state(host: &Host, store: &Store) -> (Machine, ShieldKnowledge) {
    let plans = apply::active_plans(host, store);
    let machine = survey_under(host, store, plans.as_deref().unwrap_or_default());
    let knowledge = match shields_of(host, store, plans) {
        Ok(shields) if shields.is_empty() => ShieldKnowledge::Absent,
        Ok(shields) => ShieldKnowledge::Present(cpus_of(&shields)),
        Err(JournalLoadError::Access(error)) if error.is_denied() => {
            ShieldKnowledge::Unknown(format!("only root can read {}", error.path))
        }
        Err(error) => {
            let work = work_on_journal(host, store, &error);
            let why = work.map_or_else(|| error.to_string(), |work| work.to_string());
            ShieldKnowledge::Unknown(why)
        }
    };
    (machine, knowledge)
}

/// A survey, and what is known together with it.
#[derive(Debug)]
pub struct SurveyResult {
    /// The machine.
    pub machine: Machine,
    /// Whether a shield is active.
    pub shield: ShieldKnowledge,
    /// What is wrong with the command line of the running kernel.
    pub findings: Vec<LintFinding>,
    /// Why the recording is incomplete; `None` if it is complete or nothing was recorded.
    pub unrecorded: Option<String>,
}

/// Surveys the machine. With `record`, also saves the files that the survey reads in that
/// directory.
///
/// # Errors
/// The directory cannot be created or is not empty.
pub fn survey_and_record(
    work: WorkContext<'_>,
    record: Option<&Path>,
) -> Result<SurveyResult, Failure> {
    let WorkContext { mut host, store, .. } = work;
    if let Some(dir) = record {
        host = host.recording(dir).map_err(|error| {
            let failure = Failure::from(error);
            failure.hint("use a new or empty directory: cpushield survey --record DIR")
        })?;
    }
    let (machine, shield) = survey_with_state(&host, &store);
    let findings = lint_running(&host, &machine);
    Ok(SurveyResult { machine, shield, findings, unrecorded: host.recording_failure() })
}

fn survey_under(host: &Host, store: &Store, plans: &[Plan]) -> Machine {
    match plans {
        plans if host.is_live() && !plans.is_empty() => survey_with_plans(host, store, plans),
        _ => survey(host, &tunables::reads()),
    }
}

/// Surveys the machine while this shield is active, perhaps together with others. The journal
/// supplies what is known about interrupts.
#[must_use]
pub fn survey_shielded(host: &Host, store: &Store, plan: &Plan) -> Machine {
    let mut plans = apply::active_plans(host, store).unwrap_or_default();
    plans.retain(|live| live.shield.name != plan.shield.name);
    plans.push(plan.clone());
    survey_with_plans(host, store, &plans)
}

fn survey_with_plans(host: &Host, store: &Store, plans: &[Plan]) -> Machine {
    let shielded: CpuSet = plans.iter().map(|plan| &plan.shield.cpus).collect();
    let mut machine = survey_with_shield(host, &tunables::reads(), &shielded);
    // Without outcomes in the journal, the plan is all that is known.
    let outcomes = apply::outcomes(host, store).unwrap_or_default();
    for plan in plans {
        tunables::complete_survey(&mut machine, plan, &outcomes);
    }
    machine
}

/// What is wrong with the command line of the running kernel.
///
/// # Errors
/// The command line cannot be read.
pub fn lint_command_line(host: &Host) -> Result<CommandLineLint, Failure> {
    let cmdline = host.read_line("/proc/cmdline")?;
    let findings = lint_running(host, &survey_boot(host));
    Ok(CommandLineLint { schema: boot::SCHEMA, cmdline, findings })
}
