//! `cpushield try`: shields a CPU for a few seconds, verifies the shield and undoes everything.

use super::GlobalArgs;
use super::apply_with_fallback::{PlanOrigin, apply_or_fall_back};
use super::request::RequestArgs;
use super::undo_watchdog::UndoWatchdog;
use super::{input, price, standing};
use crate::apply::{self, AppliedPlan, ChangeFate, UndoneShield};
use crate::change::{EffectTime, Outcome};
use crate::failure::{Failure, FailureKind};
use crate::load;
use crate::plan::{Plan, plan};
use crate::policy::ShieldRequest;
use crate::report::price::{LoadPrice, PriceWindow};
use crate::report::try_report::{SCHEMA, TryReport};
use crate::run::ShieldPlacement;
use crate::survey::{Machine, differences, survey, survey_with_shield};
use crate::tunables;
use crate::ui::Ui;
use crate::verify::{Evidence, VerifyLimits, WatchOrder, WatchProgress, judge, watch};
use cpushield_linux::{CpuSet, Host, Store, sched, signal};
use std::time::Duration;

/// Shield a CPU for a few seconds, verify the shield, then undo everything
///
/// Watches a busy CPU without a shield, shields it and watches it again. Then it undoes every
/// change and shows the results on one screen. It also undoes every change when it is interrupted
/// or killed.
#[derive(Debug, clap::Args)]
pub struct TryArgs {
    /// How long to watch without and with the shield, 1s to 10m
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = span)]
    pub time: Duration,
    /// Also measure the cost to the rest of the system: the throughput of a load without and with
    /// the shield [default: messages]
    #[arg(long, value_name = "KINDS", num_args = 0..=1, value_delimiter = ',',
          default_missing_value = "messages")]
    pub price: Vec<String>,
    /// The shield
    #[command(flatten)]
    pub request: RequestArgs,
}

/// The name of its shield. The watchdog recognizes it by this name.
pub(super) const NAME: &str = "try";
/// Seconds that the load may run beyond both spans, for arming, warm-up, apply and undo on a slow
/// machine. Then it ends by itself, even if this process was killed.
const LOAD_SPARE: u64 = 60;
/// Warm-up: how long the workload runs before the watch starts.
const WARMUP: Duration = Duration::from_secs(1);
/// The limits of `--for`. A shorter watch shows nothing; `verify` is for longer ones.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(10);
/// Gaps of at least this many nanoseconds are counted.
const THRESHOLD_NS: u64 = 1_000;

/// Runs the subcommand.
///
/// # Errors
/// The machine cannot be shielded, or a change could not be undone.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &TryArgs) -> Result<(), Failure> {
    let host = global.host()?;
    if !host.is_live() {
        return Err(Failure::usage("a recorded machine cannot be shielded")
            .hint("show the plan for it: cpushield plan --root DIR"));
    }
    let store = global.store();
    // Two concurrent runs would measure each other's load and shield.
    let _lock = store.claim(NAME)?;
    signal::catch_stops().map_err(|e| Failure::machine(format!("cannot catch signals: {e}")))?;
    let machine = survey(&host, &tunables::reads());
    let hint = "verify it: cpushield verify; or take it down first: cpushield undo";
    standing::refuse_active(&host, &store, hint)?;
    let request = args.request.resolve(&host, &machine, EffectTime::Runtime)?.request;
    let (limits, price) = (VerifyLimits::default(), args.price.clone());
    let trying = TryRequest { machine, request, limits, span: args.time, price };
    let attempt = attempt_guarded(ui, global, &host, &store, &trying)?;
    ui.show(&attempt, || attempt.text(ui.width()))?;
    if attempt.left.is_empty() && attempt.differences.is_empty() {
        Ok(())
    } else {
        let message = "the original state is not completely restored (see above)";
        Err(Failure::new(FailureKind::NotUndone, message))
    }
}

/// Parses the value of `--for`.
fn span(text: &str) -> Result<Duration, String> {
    let span = input::time(text)?;
    match (SHORTEST..=LONGEST).contains(&span) {
        true => Ok(span),
        false => Err("try watches for 1s to 10m".to_owned()),
    }
}

/// What to try.
pub(super) struct TryRequest {
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
pub(super) fn attempt_guarded(
    ui: &Ui,
    global: &GlobalArgs,
    host: &Host,
    store: &Store,
    trying: &TryRequest,
) -> Result<TryReport, Failure> {
    let request = ShieldRequest { name: NAME.to_owned(), ..trying.request.clone() };
    let plan = plan(&trying.machine, &request)?;
    let price = match trying.price.as_slice() {
        [] => None,
        kinds => Some((
            price::load_request(host, global, kinds, &CpuSet::new())?,
            price::load_request(host, global, kinds, &plan.shield.cpus)?,
        )),
    };
    let watchdog = UndoWatchdog::start(global)?;
    let report = attempt(ui, &TryStage { host, store, plan, request, trying, price });
    watchdog.dismiss();
    report
}

/// The inputs of every step of an attempt.
struct TryStage<'a> {
    host: &'a Host,
    store: &'a Store,
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
        load::start(online, 2 * self.trying.span.as_secs().saturating_add(1) + LOAD_SPARE)
            .map_err(|e| Failure::machine(format!("cannot start the load: {e}")))
    }
}

fn attempt(ui: &Ui, stage: &TryStage<'_>) -> Result<TryReport, Failure> {
    let TryStage { host, store, plan, request, trying, price } = stage;
    let machine = &trying.machine;
    let cpus = &plan.shield.cpus;
    let load = stage.start_load()?;
    let original = sched::affinity(0)
        .map_err(|e| Failure::machine(format!("cannot read the CPU affinity: {e}")))?;
    pin_to(&machine.topology.online.difference(cpus))?;
    let before = watch_cpus(ui, stage, None, &format!("CPU {cpus} without a shield"))?;
    let (load, free) = measure_free(ui, stage, load)?;
    let origin = PlanOrigin { machine, request };
    let (applied, plan) =
        apply_or_fall_back(host, store, plan.clone(), Some(&origin), &mut |_| {})?;
    let plan = &plan;
    let group = ShieldPlacement::new(host, plan).group;
    let shielded = watch_cpus(ui, stage, group, &format!("CPU {cpus} shielded"));
    drop(load);
    let what = "the price: with the shield";
    let price = price
        .as_ref()
        .filter(|_| shielded.is_ok())
        .map(|(_, rest)| price::measure_window(ui, host, rest, trying.span, what));
    // The remedies for a leak depend on the settings that are in force now.
    let under = survey_under_shield(host, machine, plan);
    // Take the shield down first, even if the watch failed.
    let undone = apply::undo(host, store)?;
    let (restored, left) = summarize_undo(&undone);
    let price = price.transpose();
    if (shielded.is_err() || price.is_err()) && !left.is_empty() {
        let message = format!("some changes could not be undone:\n  {}", left.join("\n  "));
        return Err(Failure::new(FailureKind::NotUndone, message));
    }
    let shielded = shielded?;
    let price = free.zip(price?).map(|(free, rest)| LoadPrice::compute(&free, &rest));
    pin_to(&original)?;
    let after = survey(host, &tunables::reads());
    let verdict = judge(&shielded, &trying.limits, &|seen| {
        tunables::remedy(&under, &plan.shield, seen.cause, &seen.culprit)
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
    ui: &Ui,
    stage: &TryStage<'_>,
    load: load::GentleLoad,
) -> Result<(load::GentleLoad, Option<PriceWindow>), Failure> {
    let Some((free, _)) = &stage.price else { return Ok((load, None)) };
    drop(load);
    let span = stage.trying.span;
    let window = price::measure_window(ui, stage.host, free, span, "the price: without a shield")?;
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
    ui: &Ui,
    stage: &TryStage<'_>,
    cgroup: Option<String>,
    what: &str,
) -> Result<Evidence, Failure> {
    let bar = ui.bar();
    let evidence = watch(
        stage.host,
        &WatchOrder {
            cpus: stage.plan.shield.cpus.clone(),
            span: stage.trying.span,
            warmup: WARMUP,
            threshold_ns: THRESHOLD_NS,
            syscalls: false,
            cgroup,
            workload: None,
            stacks: false,
            until: None,
            keep: None,
            progress: &|progress| match progress {
                WatchProgress::Watching { done, of, .. } => bar.show_progress(what, done, of),
                WatchProgress::Arming | WatchProgress::Settling | WatchProgress::Gathering => {
                    bar.show_task(what);
                }
            },
            stop: &|| signal::stopped_by().is_some(),
        },
    );
    bar.end();
    match signal::stopped_by() {
        Some(signal) => {
            Err(Failure::new(FailureKind::Undone, format!("stopped by signal {signal}"))
                .hint("every change was undone"))
        }
        None => Ok(evidence?),
    }
}

/// Restricts this process, and the processes it starts, to these CPUs.
fn pin_to(cpus: &CpuSet) -> Result<(), Failure> {
    sched::set_affinity(0, cpus)
        .map_err(|e| Failure::machine(format!("cannot restrict this process to CPU {cpus}: {e}")))
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn a_time_has_a_unit() {
        let span = |line: &str| {
            let words = format!("cpushield try {line}");
            let cli = super::super::Cli::try_parse_from(words.split_whitespace()).ok()?;
            let super::super::CliCommand::Try(args) = cli.command else { panic!("try") };
            Some(args.time)
        };
        let seconds = |n| Some(Duration::from_secs(n));
        assert_eq!(span(""), seconds(5));
        assert_eq!(span("--for 2s"), seconds(2));
        assert_eq!(span("--for 1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!((span("--for 10m"), span("--for 10min")), (seconds(600), seconds(600)));
        for wrong in
            ["--for 3", "--for 999ms", "--for 11min", "--for 99999999999999999999", "--seconds 3"]
        {
            assert_eq!(span(wrong), None, "{wrong}");
        }
    }
}
