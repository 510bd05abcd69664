//! Shields CPUs for a few seconds, verifies the shield and undoes everything.

use super::apply_shield::warn_of_nohz_full;
use super::apply_with_fallback::{PlanOrigin, apply_or_fall_back};
use super::shield_options::ShieldOptions;
use super::undo_watchdog::{TRY_SHIELD, UndoWatchdog};
use super::{WorkContext, active_shields, catch_stops, price, step_aside};
use crate::apply;
use crate::change::{EffectTime, Outcome};
use crate::documents::applied::{AppliedPlan, ChangeFate, UndoneShield};
use crate::documents::evidence::Evidence;
use crate::documents::load_price::{LoadPrice, PriceWindow};
use crate::documents::machine::Machine;
use crate::documents::plan::Plan;
use crate::documents::try_report::{SCHEMA, TryReport};
use crate::failure::{Failure, FailureKind};
use crate::load;
use crate::plan::plan;
use crate::policy::{ShieldRequest, VerifyLimits};
use crate::run::{ShieldPlacement, check_move};
use crate::survey::{differences, survey, survey_with_shield};
use crate::tunables;
use crate::verify::{WatchOrder, WatchProgress, judge, watch};
use cpushield_linux::{CpuSet, Host, sys::signal};
use std::time::Duration;

/// Seconds that the load may run beyond both spans, for arming, warm-up, apply and undo on a slow
/// machine. Then it ends by itself, even if this process was killed.
const LOAD_SPARE: u64 = 60;
/// Warm-up: how long the workload runs before the watch starts.
const WARMUP: Duration = Duration::from_secs(1);

/// Tries the shield that these options request, and measures the price with these loads.
///
/// # Errors
/// The machine cannot be shielded, or a change could not be undone.
pub fn try_options(
    work: &WorkContext<'_>,
    options: &ShieldOptions,
    span: Duration,
    price: &[String],
) -> Result<TryReport, Failure> {
    let WorkContext { host, store, .. } = work;
    // Two concurrent runs would measure each other's load and shield.
    let _lock = store.claim(TRY_SHIELD)?;
    catch_stops()?;
    let machine = survey(host, &tunables::reads());
    let hint = "verify it: cpushield verify; or take it down first: cpushield undo";
    active_shields::refuse_active(host, store, hint)?;
    let request = options.resolve(host, &machine, EffectTime::Runtime)?.request;
    let (limits, price) = (VerifyLimits::default(), price.to_vec());
    attempt_guarded(work, &TryRequest { machine, request, limits, span, price })
}

/// What to try.
#[derive(Debug)]
pub struct TryRequest {
    /// The machine before the shield.
    pub machine: Machine,
    /// The shield.
    pub request: ShieldRequest,
    /// The limits that the verdict checks.
    pub limits: VerifyLimits,
    /// How long to watch without the shield, and again with it.
    pub span: Duration,
    /// The loads that measure the price of the shield; empty if it is not measured.
    pub price: Vec<String>,
}

/// Shields, watches and undoes everything. A watchdog process undoes it if this process is killed.
pub fn attempt_guarded(work: &WorkContext<'_>, trying: &TryRequest) -> Result<TryReport, Failure> {
    let request = ShieldRequest { name: TRY_SHIELD.to_owned(), ..trying.request.clone() };
    let plan = plan(&trying.machine, &request)?;
    let price = match trying.price.as_slice() {
        [] => None,
        kinds => Some((
            price::load_request(work, kinds, &CpuSet::new())?,
            price::load_request(work, kinds, &plan.shield.cpus)?,
        )),
    };
    let watchdog = UndoWatchdog::start(work, TRY_SHIELD)?;
    let report = attempt(&TryStage { work, plan, request, trying, price });
    watchdog.dismiss();
    report
}

/// The inputs of every step of an attempt.
struct TryStage<'a> {
    work: &'a WorkContext<'a>,
    plan: Plan,
    /// What the plan was made for.
    request: ShieldRequest,
    trying: &'a TryRequest,
    /// The load before and under the shield, if the price is measured.
    price: Option<(load::LoadRequest, load::LoadRequest)>,
}

impl TryStage<'_> {
    /// Starts a modest load, so that the shield has something to keep away.
    fn start_load(&self) -> Result<load::GentleLoad, Failure> {
        let online = &self.trying.machine.topology.online;
        let seconds = 2 * self.trying.span.as_secs().saturating_add(1) + LOAD_SPARE;
        load::start(&self.work.host, online, seconds)
            .map_err(|e| Failure::machine(format!("cannot start the load: {e}")))
    }
}

fn attempt(stage: &TryStage<'_>) -> Result<TryReport, Failure> {
    let TryStage { work, plan, request, trying, price } = stage;
    let WorkContext { host, store, .. } = work;
    let machine = &trying.machine;
    let cpus = &plan.shield.cpus;
    let load = stage.start_load()?;
    let aside = step_aside(host, &machine.topology.online.difference(cpus))?;
    let before = watch_cpus(stage, None, &format!("CPU {cpus} without a shield"))?;
    let (load, free) = measure_free(stage, load)?;
    let origin = PlanOrigin { machine, request, choice: None };
    let (applied, plan) =
        apply_or_fall_back((host, store), apply::apply, plan.clone(), Some(&origin), &mut |_| {})?;
    warn_of_nohz_full(work);
    let plan = &plan;
    let group = ShieldPlacement::new(host, plan).group;
    let shielded = watch_cpus(stage, group, &format!("CPU {cpus} shielded"));
    drop(load);
    let what = "measuring the price: with the shield";
    let price = price
        .as_ref()
        .filter(|_| shielded.is_ok())
        .map(|(_, rest)| price::measure_window(work, rest, trying.span, what));
    // The remedies for a leak depend on the settings that are in force now.
    let under = survey_under_shield(host, machine, plan);
    // Take the shield down first, even if the watch failed.
    let undone = apply::undo(host, store, Some(&plan.shield.name))?;
    let (restored, left) = summarize_undo(&undone);
    let price = price.transpose();
    if (shielded.is_err() || price.is_err()) && !left.is_empty() {
        let message = format!("some changes could not be undone:\n  {}", left.join("\n  "));
        return Err(Failure::new(FailureKind::NotUndone, message));
    }
    let shielded = shielded?;
    let price = free.zip(price?).map(|(free, rest)| LoadPrice::compute(&free, &rest));
    drop(aside);
    let after = survey(host, &tunables::reads());
    let verdict = judge(&shielded, &trying.limits, &|seen, senders| {
        tunables::remedy(&under, &plan.shield, seen.cause, &seen.culprit, senders)
    });
    let verdict = verdict.with_devices(|irq| machine.device_of(irq));
    let (changed, refused) = count_outcomes(&applied);
    Ok(TryReport {
        schema: SCHEMA,
        plan: plan.clone(),
        changed,
        refused,
        before,
        shielded,
        verdict,
        price,
        restored,
        left,
        differences: differences(machine, &after),
    })
}

/// Measures the price load without a shield. The modest load is stopped for that time, because it
/// would reduce the throughput, and then started again.
fn measure_free(
    stage: &TryStage<'_>,
    load: load::GentleLoad,
) -> Result<(load::GentleLoad, Option<PriceWindow>), Failure> {
    let Some((free, _)) = &stage.price else { return Ok((load, None)) };
    drop(load);
    let span = stage.trying.span;
    let window =
        price::measure_window(stage.work, free, span, "measuring the price: without a shield")?;
    Ok((stage.start_load()?, Some(window)))
}

/// Surveys the machine with the shield in force. The survey before it knows which interrupts can
/// be moved.
fn survey_under_shield(host: &Host, before: &Machine, plan: &Plan) -> Machine {
    let mut under = survey_with_shield(host, &tunables::reads(), &plan.shield.cpus);
    for irq in &mut under.irqs {
        if let Some(known) = before.irqs.iter().find(|known| known.irq == irq.irq) {
            irq.movable = known.movable.clone();
        }
    }
    tunables::complete_survey(&mut under, plan, &[]);
    under
}

/// Watches the CPUs for a while.
///
/// # Errors
/// The CPUs cannot be watched, or a signal stopped it.
fn watch_cpus(
    stage: &TryStage<'_>,
    cgroup: Option<String>,
    what: &str,
) -> Result<Evidence, Failure> {
    cgroup.as_deref().map_or(Ok(()), |group| check_move(&stage.work.host, group))?;
    let bar = stage.work.ui.bar();
    let progress = |progress| match progress {
        WatchProgress::Watching { done, of, .. } => bar.show_progress(what, done, of),
        WatchProgress::Arming | WatchProgress::Settling | WatchProgress::Gathering { .. } => {
            bar.show_task(what);
        }
    };
    let stop = || signal::stopped_by().is_some();
    let cpus = stage.plan.shield.cpus.clone();
    let order = WatchOrder::of_sampler(cpus, stage.trying.span, &progress, &stop);
    let evidence = watch(&stage.work.host, &WatchOrder { warmup: WARMUP, cgroup, ..order });
    bar.end();
    match signal::stopped_by() {
        Some(signal) => Err(Failure::stopped(signal)),
        None => Ok(evidence?),
    }
}

/// Counts the changes that took effect, by tunable in order, and those that the kernel refused.
fn count_outcomes(applied: &AppliedPlan) -> (Vec<(String, usize)>, usize) {
    let mut changed: Vec<(String, usize)> = Vec::new();
    let mut refused = 0;
    for step in &applied.steps {
        match (&step.done.outcome, changed.last_mut()) {
            (Outcome::Changed, Some((name, count))) if *name == step.tunable => *count += 1,
            (Outcome::Changed, _) => changed.push((step.tunable.clone(), 1)),
            (Outcome::Refused { .. }, _) => refused += 1,
            (Outcome::AlreadySo | Outcome::Absent, _) => {}
        }
    }
    (changed, refused)
}

/// Counts the restored steps and describes those that were not restored.
fn summarize_undo(undone: &UndoneShield) -> (usize, Vec<String>) {
    let restored =
        undone.steps.iter().filter(|step| matches!(step.fate, ChangeFate::Restored)).count();
    let left = undone.steps.iter().filter_map(|step| match &step.fate {
        ChangeFate::Failed { reason } => Some(format!("{}: {reason}", step.subject)),
        ChangeFate::Drifted { now, original, .. } => Some(format!(
            "{}: another process set it to {now}; the original was {original}",
            step.subject
        )),
        _ => None,
    });
    (restored, left.collect())
}
