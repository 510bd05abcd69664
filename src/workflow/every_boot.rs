//! Applies a shield at every boot, and stops that.

use super::apply_shield::{ProgramsInTheWay, apply_plan, plan_options};
use super::operators::explain_sudoers;
use super::shield_options::ShieldOptions;
use super::take_down::{UnrestoredChanges, take_down};
use super::{WorkContext, catch_stops};
use crate::apply::{self, AppliedPlan, UndoneShield};
use crate::boot::Enabled;
use crate::boot::early::{self, OperatorHelper, RunningUnit, StartCommand};
use crate::change::Change;
use crate::failure::Failure;
use crate::plan::{Plan, Shield};
use crate::report::enabled_line;
use crate::run::{OPERATOR_COMMAND, OPERATOR_SOCKET};
use cpushield_linux::{Store, sched};
use serde::Serialize;
use std::path::{Path, absolute};

/// What `enable --json` prints.
#[derive(Debug, Serialize)]
pub struct EnabledShield {
    /// The command that every boot runs, and the file that runs it.
    pub enabled: Enabled,
    /// What `--now` did.
    pub applied: Option<AppliedPlan>,
}

/// What `disable --json` prints.
#[derive(Debug, Serialize)]
pub struct DisabledShield {
    /// What was removed; `None` when nothing was enabled.
    pub disabled: Option<Enabled>,
    /// The shield that stays active.
    pub active: Option<Shield>,
    /// Why it is unknown whether a shield is active.
    pub active_unknown: Option<String>,
    /// What `--now` undid.
    pub undone: Option<UndoneShield>,
}

/// What is enabled, as other subcommands report it.
#[derive(Debug, Serialize)]
pub struct AtEveryBoot {
    /// The command that every boot runs; `None` when nothing is enabled, or when that is unknown.
    pub enabled: Option<Enabled>,
    /// Why that is unknown.
    pub enabled_unknown: Option<String>,
}

impl AtEveryBoot {
    /// Reads it from the state directory.
    #[must_use]
    pub fn read(store: &Store) -> AtEveryBoot {
        match early::installed(store) {
            Ok(enabled) => AtEveryBoot { enabled, enabled_unknown: None },
            Err(error) => AtEveryBoot { enabled: None, enabled_unknown: Some(error.to_string()) },
        }
    }

    /// One line; empty when nothing is enabled.
    #[must_use]
    pub fn text(&self) -> String {
        match (&self.enabled, &self.enabled_unknown) {
            (Some(enabled), _) => enabled_line(enabled).text() + "\n",
            (None, Some(why)) => format!("Enabled at every boot: unknown: {why}\n"),
            (None, None) => String::new(),
        }
    }
}

/// When a shield is applied that every boot applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyTime {
    /// At the next boot.
    NextBoot,
    /// At the next boot, and now too.
    NowToo,
}

/// What happens to the active shield when no boot applies one any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActiveShieldFate {
    /// It stays.
    Kept,
    /// It is taken down.
    TakenDown,
}

/// Installs the file that applies this shield at every boot; `words` are the arguments of
/// `cpushield` that do so. Also returns the plan that was applied now.
///
/// # Errors
/// The request cannot be planned, the shield cannot be applied, or the file cannot be written.
pub fn enable_shield(
    work: &WorkContext<'_>,
    options: &ShieldOptions,
    words: Vec<String>,
    when: ApplyTime,
) -> Result<(EnabledShield, Option<Plan>), Failure> {
    let _hurry = sched::boost_priority();
    let (plan, inputs) = plan_options(work, options)?;
    let shield = plan.shield.name.clone();
    let (helper, operators) = (operator_helper(&plan), plan.operators.clone());
    catch_stops()?;
    let applied = match when {
        ApplyTime::NowToo => {
            Some(apply_plan(work, &plan, Some(&inputs), ProgramsInTheWay::Refuse)?)
        }
        ApplyTime::NextBoot => None,
    };
    let enabled = match (install(work, words, shield, helper.clone()), &applied) {
        (Err(failure), Some(_)) => {
            return Err(failure.hint("the shield is active, but only until the next boot"));
        }
        (enabled, _) => enabled?,
    };
    if applied.is_some() {
        early::start(&work.host, &enabled)?;
    }
    if helper.is_some() && enabled.operator_paths.is_empty() {
        let program = work.host.read_link("/proc/self/exe")?;
        work.ui.status(&explain_sudoers(operators.as_ref(), &program));
    }
    let (applied, plan) = applied.unzip();
    Ok((EnabledShield { enabled, applied }, plan))
}

/// The helper that the operators of a shield need. On cgroup v1 they need none: they may write the
/// lists of tasks.
fn operator_helper(plan: &Plan) -> Option<OperatorHelper> {
    let operators = plan.operators.as_ref()?;
    let given = plan.steps.iter().any(|step| matches!(step.change, Change::GiveToGroup { .. }));
    let group = operators.group.as_ref().filter(|_| operators.users.is_empty());
    let (command, socket, gid) = (OPERATOR_COMMAND, OPERATOR_SOCKET, group.map(|group| group.id));
    (!given).then_some(OperatorHelper { command, socket, gid })
}

fn install(
    work: &WorkContext<'_>,
    words: Vec<String>,
    shield: String,
    helper: Option<OperatorHelper>,
) -> Result<Enabled, Failure> {
    let state = absolute_path(&work.state_dir);
    let program = work.host.read_link("/proc/self/exe")?;
    let call = StartCommand { program, state, words, shield, helper };
    Ok(early::install(&work.host, &work.store, &call)?)
}

/// The path, independent of the working directory.
#[must_use]
pub fn absolute_path(path: &Path) -> String {
    absolute(path).unwrap_or(path.to_owned()).display().to_string()
}

/// Whether systemd shuts the system down. If that is unknown, it does not: an undo is only slow.
#[must_use]
pub fn shuts_down(work: &WorkContext<'_>) -> bool {
    work.host.systemd_shuts_down().unwrap_or(false)
}

/// Removes the file that applies a shield at every boot.
///
/// # Errors
/// The file cannot be removed, or the shield cannot be undone.
pub fn disable_shield(
    work: &WorkContext<'_>,
    fate: ActiveShieldFate,
) -> Result<DisabledShield, Failure> {
    catch_stops()?;
    let WorkContext { host, store, .. } = work;
    let running = match fate {
        ActiveShieldFate::Kept => RunningUnit::Kept,
        ActiveShieldFate::TakenDown => RunningUnit::Stopped,
    };
    let disabled = early::remove(host, store, running).map_err(Failure::from);
    let (disabled, undone) = match fate {
        ActiveShieldFate::Kept => (disabled?, None),
        ActiveShieldFate::TakenDown => {
            let hint = "undo the active shield: cpushield undo";
            let disabled = disabled.map_err(|failure| failure.hint(hint))?;
            (disabled, Some(take_down(work, UnrestoredChanges::Keep)?))
        }
    };
    let (active, active_unknown) = match undone {
        Some(_) => (None, None),
        None => match apply::active_plans(host, store) {
            Ok(plans) => (plans.into_iter().next().map(|plan| plan.shield), None),
            Err(error) => (None, Some(error.to_string())),
        },
    };
    Ok(DisabledShield { disabled, active, active_unknown, undone })
}
