//! Applies a shield at every boot, and stops that.

use super::apply_policy::apply_shields;
use super::apply_shield::{ProgramsInTheWay, apply_plan, origin_of, plan_options};
use super::operator_units::operator_helpers;
use super::operators::explain_sudoers;
use super::policy_shields::plan_policy_shields;
use super::root_files::{RootFile, check_for_operators, check_visible, warn_of_other_users};
use super::shield_options::{PolicyOptions, ShieldOptions};
use super::take_down::{take_down, take_down_named, take_policy_down};
use super::{WorkContext, absolute_path, catch_stops};
use crate::apply;
pub use crate::boot::early::RunningUnit;
use crate::boot::early::{self, StartCommand, StartTarget};
use crate::documents::applied::{AppliedPlan, AppliedPolicy, UndoneShield, UnrestoredChanges};
pub use crate::documents::boot::Enabled;
use crate::documents::plan::{Plan, Shield};
use crate::failure::Failure;
use crate::policy::{DEFAULT_PATH, DisturbanceConsent};
use cpushield_linux::sys::sched;
use serde::Serialize;
use std::path::Path;

/// The version of the format of these documents.
pub const SCHEMA: u32 = 1;

/// What `enable --json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnabledShield {
    /// The version of this format: [`SCHEMA`].
    pub schema: u32,
    /// The command that every boot runs, and the file that runs it.
    pub enabled: Enabled,
    /// What `--now` did.
    pub applied: Option<AppliedPlan>,
}

/// What `enable --all --json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnabledPolicy {
    /// The version of this format: [`SCHEMA`].
    pub schema: u32,
    /// The command that every boot runs, and the file that runs it.
    pub enabled: Enabled,
    /// What `--now` did.
    pub applied: Option<AppliedPolicy>,
}

/// What `disable --json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DisabledShield {
    /// The version of this format: [`SCHEMA`].
    pub schema: u32,
    /// What was removed; `None` when nothing was enabled.
    pub disabled: Option<Enabled>,
    /// The shields that stay active.
    pub active: Vec<Shield>,
    /// Why it is unknown whether a shield is active.
    pub active_unknown: Option<String>,
    /// What `--now` undid.
    pub undone: Vec<UndoneShield>,
}

/// When a shield is applied that every boot applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyTime {
    /// At the next boot.
    NextBoot,
    /// At the next boot, and now too.
    NowToo,
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
    let target = StartTarget::Shield(plan.shield.name.clone());
    let file = EveryBootCommand { words, target, plans: vec![plan.clone()] };
    file.check_files(work, options.policy.as_deref())?;
    catch_stops()?;
    let applied = match when {
        ApplyTime::NowToo => {
            Some(apply_plan(work, &plan, Some(&origin_of(&inputs)), ProgramsInTheWay::Refuse)?)
        }
        ApplyTime::NextBoot => None,
    };
    let enabled = file.install(work, when)?;
    let (applied, plan) = applied.unzip();
    Ok((EnabledShield { schema: SCHEMA, enabled, applied }, plan))
}

/// Installs the file that applies every shield of this policy file at every boot, or of the default
/// one.
///
/// # Errors
/// As [`enable_shield`].
pub fn enable_policy(
    work: &WorkContext<'_>,
    options: &PolicyOptions,
    when: ApplyTime,
) -> Result<EnabledPolicy, Failure> {
    let plans = plan_policy_shields(work, options)?.document().plans;
    let file = options.policy.as_deref().unwrap_or(DEFAULT_PATH);
    let target = StartTarget::Policy(absolute_path(Path::new(file)));
    let mut words = vec!["apply".to_owned()];
    words.extend(target.words().into_iter().map(str::to_owned));
    if options.disturbance == DisturbanceConsent::Given {
        words.push("--disturb".to_owned());
    }
    let command = EveryBootCommand { words, target, plans };
    command.check_files(work, Some(file))?;
    let applied = match when {
        ApplyTime::NowToo => Some(apply_shields(work, options, ProgramsInTheWay::Refuse)?),
        ApplyTime::NextBoot => None,
    };
    let enabled = command.install(work, when)?;
    Ok(EnabledPolicy { schema: SCHEMA, enabled, applied })
}

/// What every boot runs, and what was planned for it.
struct EveryBootCommand {
    words: Vec<String>,
    target: StartTarget,
    plans: Vec<Plan>,
}

impl EveryBootCommand {
    /// Checks that only root can replace what every boot uses. Without operators it only warns:
    /// programs below a home directory are usual on a machine with one user.
    fn check_files(&self, work: &WorkContext<'_>, policy: Option<&str>) -> Result<(), Failure> {
        let program = work.host.read_link("/proc/self/exe")?;
        let has_operators = self.plans.iter().any(|plan| plan.operators.is_some());
        let policy = policy.or(has_operators.then_some(DEFAULT_PATH));
        let policy = policy.map(|file| absolute_path(Path::new(file)));
        let policy = policy.as_deref().map(RootFile::Policy);
        let files: Vec<RootFile<'_>> =
            policy.into_iter().chain([RootFile::Program(&program)]).collect();
        if !has_operators {
            files.iter().for_each(|file| warn_of_other_users(work, *file, "every boot"));
            return Ok(());
        }
        check_for_operators(work, &files)?;
        match work.host.has_systemd() && !operator_helpers(&work.host, &self.plans).is_empty() {
            true => check_visible(&program),
            false => Ok(()),
        }
    }

    /// Installs it. The shields are active if they were applied now.
    fn install(self, work: &WorkContext<'_>, when: ApplyTime) -> Result<Enabled, Failure> {
        let helpers = operator_helpers(&work.host, &self.plans);
        let state = absolute_path(&work.state_dir);
        let program = work.host.read_link("/proc/self/exe")?;
        let EveryBootCommand { words, target, plans } = self;
        let (has_helpers, own) = (!helpers.is_empty(), program.clone());
        let call = StartCommand { program, state, words, target, helpers };
        let enabled = match early::install(&work.host, &work.store, &call) {
            Err(error) if when == ApplyTime::NowToo => {
                let hint = "the shield is active, but only until the next boot";
                return Err(Failure::from(error).hint(hint));
            }
            enabled => enabled?,
        };
        if when == ApplyTime::NowToo {
            early::start(&work.host, &enabled)?;
        }
        if has_helpers && enabled.operator_paths.is_empty() {
            let operators = plans.iter().filter_map(|plan| plan.operators.as_ref());
            work.ui.status(&explain_sudoers(&work.host, operators, &own));
        }
        Ok(enabled)
    }
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
    running: RunningUnit,
) -> Result<DisabledShield, Failure> {
    catch_stops()?;
    let WorkContext { host, store, .. } = work;
    let disabled = early::remove(host, store, running).map_err(Failure::from);
    let (disabled, undone) = match running {
        RunningUnit::Kept => (disabled?, Vec::new()),
        RunningUnit::Stopped => {
            let hint = "undo the active shield: cpushield undo";
            let disabled = disabled.map_err(|failure| failure.hint(hint))?;
            let undone = take_enabled_down(work, disabled.as_ref())?;
            (disabled, undone)
        }
    };
    let (active, active_unknown) = match apply::active_plans(host, store) {
        Ok(plans) => (plans.into_iter().map(|plan| plan.shield).collect(), None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    Ok(DisabledShield { schema: SCHEMA, disabled, active, active_unknown, undone })
}

/// Takes down what every boot applied. Without that, it is the only shield.
fn take_enabled_down(
    work: &WorkContext<'_>,
    disabled: Option<&Enabled>,
) -> Result<Vec<UndoneShield>, Failure> {
    let unrestored = UnrestoredChanges::Keep;
    if let Some(policy) = disabled.and_then(|enabled| enabled.policy.as_deref()) {
        // The file may be gone, as the shields are.
        return match apply::active_plans(&work.host, &work.store)?.is_empty() {
            true => Ok(Vec::new()),
            false => take_policy_down(work, policy, unrestored),
        };
    }
    let Some(shield) = disabled.and_then(|enabled| enabled.shield.as_deref()) else {
        return Ok(vec![take_down(work, unrestored)?]);
    };
    let active = apply::active_plans(&work.host, &work.store)?;
    if active.iter().any(|plan| plan.shield.name == shield) {
        Ok(vec![take_down_named(work, Some(shield), unrestored)?])
    } else {
        Ok(Vec::new())
    }
}
