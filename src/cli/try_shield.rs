//! `cpushield try`: shield a CPU for a few seconds, prove it, put everything back.

use super::GlobalArgs;
use super::apply_with_fallback::{PlanOrigin, shield};
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
    /// Also measure the cost to the rest of the system: throughput of a load before and under the
    /// shield [default: messages]
    #[arg(long, value_name = "KINDS", num_args = 0..=1, value_delimiter = ',',
          default_missing_value = "messages")]
    pub price: Vec<String>,
    /// The shield
    #[command(flatten)]
    pub wish: RequestArgs,
}

/// The name of its shield, by which its guard knows it.
pub(super) const NAME: &str = "try";
/// Seconds that the load may go on beyond both spans: arming, settling, apply and undo on a slow
/// machine. It ends by itself then, whatever became of this process.
const LOAD_SPARE: u64 = 60;
/// How long the workload runs before anything counts.
const WARMUP: Duration = Duration::from_secs(1);
/// How long may be watched: shorter shows nothing, longer is what `verify` is for.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(10);
/// Gaps from this many nanoseconds on count.
const THRESHOLD_NS: u64 = 1_000;

/// Runs it.
///
/// # Errors
/// The machine cannot be shielded, or something could not be put back.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &TryArgs) -> Result<(), Failure> {
    let host = global.host()?;
    if !host.is_live() {
        return Err(Failure::usage("a recorded machine cannot be tried")
            .hint("`cpushield plan --root DIR` shows what would be done"));
    }
    let store = global.store();
    // Two would measure each other's load and shield.
    let _turn = store.claim(NAME)?;
    signal::catch_stops().map_err(|e| Failure::machine(format!("cannot catch signals: {e}")))?;
    let machine = survey(&host, &tunables::reads());
    let hint = "`cpushield verify` watches it; `cpushield undo` takes the shield down first";
    standing::refuse(&host, &store, hint)?;
    let wish = args.wish.asked(&host, &machine, EffectTime::Runtime)?.wish;
    let (limits, price) = (VerifyLimits::default(), args.price.clone());
    let trying = TryRequest { machine, wish, limits, span: args.time, price };
    let attempt = attempted(ui, global, &host, &store, &trying)?;
    ui.show(&attempt, || attempt.text(ui.width()))?;
    if attempt.left.is_empty() && attempt.differences.is_empty() {
        Ok(())
    } else {
        Err(Failure::new(FailureKind::NotUndone, "the machine is not quite as it was (see above)"))
    }
}

/// A time with its unit.
fn span(text: &str) -> Result<Duration, String> {
    let span = input::time(text)?;
    match (SHORTEST..=LONGEST).contains(&span) {
        true => Ok(span),
        false => Err("try watches for 1s to 10m".to_owned()),
    }
}

/// What is tried.
pub(super) struct TryRequest {
    /// The machine before.
    pub machine: Machine,
    /// The shield.
    pub wish: ShieldRequest,
    /// What the verdict gates on.
    pub limits: VerifyLimits,
    /// How long to watch, before and while shielded.
    pub span: Duration,
    /// The loads that tell the price of the shield; none: it is not measured.
    pub price: Vec<String>,
}

/// Shields, looks and puts everything back, with a guard that does so whatever happens to us.
pub(super) fn attempted(
    ui: &Ui,
    global: &GlobalArgs,
    host: &Host,
    store: &Store,
    trying: &TryRequest,
) -> Result<TryReport, Failure> {
    let wish = ShieldRequest { name: NAME.to_owned(), ..trying.wish.clone() };
    let plan = plan(&trying.machine, &wish)?;
    let loads = |shielded: &CpuSet| {
        let asked = (!trying.price.is_empty()).then_some(&trying.price);
        asked.map(|kinds| price::order(host, global, kinds, shielded)).transpose()
    };
    let price = loads(&CpuSet::new())?.zip(loads(&plan.shield.cpus)?);
    let guard = UndoWatchdog::start(global)?;
    let attempt = attempt(ui, &TryStage { host, store, plan, wish, trying, price });
    guard.dismiss();
    attempt
}

/// What every step of an attempt needs.
struct TryStage<'a> {
    host: &'a Host,
    store: &'a Store,
    plan: Plan,
    /// What the plan was made for.
    wish: ShieldRequest,
    trying: &'a TryRequest,
    /// The load before and under the shield, when its price is to be told.
    price: Option<(load::LoadRequest, load::LoadRequest)>,
}

impl TryStage<'_> {
    /// A modest load, so that the shield has something to keep out.
    fn gentle(&self) -> Result<load::GentleLoad, Failure> {
        let online = &self.trying.machine.topology.online;
        load::start(online, 2 * self.trying.span.as_secs().saturating_add(1) + LOAD_SPARE)
            .map_err(|e| Failure::machine(format!("cannot start the load: {e}")))
    }
}

fn attempt(ui: &Ui, stage: &TryStage<'_>) -> Result<TryReport, Failure> {
    let TryStage { host, store, plan, wish, trying, price } = stage;
    let machine = &trying.machine;
    let cpus = &plan.shield.cpus;
    let load = stage.gentle()?;
    let home = sched::affinity(0).map_err(|e| Failure::machine(format!("no affinity: {e}")))?;
    keep_to(&machine.topology.online.minus(cpus))?;
    let before = look(ui, stage, None, &format!("CPU {cpus} as it is"))?;
    let (load, free) = free(ui, stage, load)?;
    let origin = PlanOrigin { machine, wish };
    let (applied, plan) = shield(host, store, plan.clone(), Some(&origin), &mut |_| {})?;
    let plan = &plan;
    let group = ShieldPlacement::new(host, plan).group;
    let shielded = look(ui, stage, group, &format!("CPU {cpus} shielded"));
    drop(load);
    let paid = price
        .as_ref()
        .filter(|_| shielded.is_ok())
        .map(|(_, rest)| price::window(ui, host, rest, trying.span, "the price: under the shield"));
    // What is in force now decides what could still be done about a leak.
    let under = under(host, machine, plan);
    // Whatever the watching came to, the shield comes down first.
    let undone = apply::undo(host, store)?;
    let (restored, left) = fates(&undone);
    let price = paid.transpose();
    if (shielded.is_err() || price.is_err()) && !left.is_empty() {
        let message = format!("not everything was put back:\n  {}", left.join("\n  "));
        return Err(Failure::new(FailureKind::NotUndone, message));
    }
    let shielded = shielded?;
    let price = free.zip(price?).map(|(free, rest)| LoadPrice::compute(&free, &rest));
    keep_to(&home)?;
    let after = survey(host, &tunables::reads());
    let verdict = judge(&shielded, &trying.limits, &|seen| {
        tunables::remedy(&under, &plan.shield, seen.cause, &seen.culprit)
    });
    let verdict = verdict.with_devices(|irq| machine.device_of(irq));
    let (changed, refused) = outcomes(&applied);
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

/// What the load that tells the price does without a shield. Beside the other one it would be
/// measured how much that takes, so that one is begun anew.
fn free(
    ui: &Ui,
    stage: &TryStage<'_>,
    load: load::GentleLoad,
) -> Result<(load::GentleLoad, Option<PriceWindow>), Failure> {
    let Some((free, _)) = &stage.price else { return Ok((load, None)) };
    drop(load);
    let span = stage.trying.span;
    let window = price::window(ui, stage.host, free, span, "the price: without a shield")?;
    Ok((stage.gentle()?, Some(window)))
}

/// The machine with the shield up; which interrupts can be moved was found out before.
fn under(host: &Host, before: &Machine, plan: &Plan) -> Machine {
    let mut under = survey_with_shield(host, &tunables::reads(), &plan.shield.cpus);
    for irq in &mut under.irqs {
        if let Some(known) = before.irqs.iter().find(|known| known.irq == irq.irq) {
            irq.movable = known.movable.clone();
        }
    }
    tunables::complete_survey(&mut under, plan, &[]);
    under
}

/// Watches the CPUs for a while; asked to stop, it says so as a failure.
fn look(
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
                    bar.show_task(what)
                }
            },
            stop: &|| signal::stopped_by().is_some(),
        },
    );
    bar.end();
    match signal::stopped_by() {
        Some(signal) => {
            Err(Failure::new(FailureKind::Undone, format!("stopped by signal {signal}"))
                .hint("everything is as it was"))
        }
        None => Ok(evidence?),
    }
}

/// This process, and what it starts, stays on these CPUs.
fn keep_to(cpus: &CpuSet) -> Result<(), Failure> {
    sched::set_affinity(0, cpus)
        .map_err(|e| Failure::machine(format!("cannot keep to CPU {cpus}: {e}")))
}

/// How many changes took effect by tunable, in their order, and how many the kernel refused.
fn outcomes(applied: &AppliedPlan) -> (Vec<(String, usize)>, usize) {
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

/// How many steps were put back, and sentences about those that were not.
fn fates(undone: &UndoneShield) -> (usize, Vec<String>) {
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
    fn a_time_has_its_unit() {
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
