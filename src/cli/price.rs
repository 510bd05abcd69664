//! `try --price`: the windows in which the load is measured that a shield takes CPUs from.

use super::GlobalArgs;
use super::loads::{LoadArgs, LoadCpus};
use crate::failure::{Failure, FailureKind};
use crate::load::{LoadGenerator, LoadRequest};
use crate::report::price::PriceWindow;
use crate::ui::Ui;
use cpushield_linux::clock::monotonic_ns;
use cpushield_linux::{CpuSet, Host, signal};
use std::time::{Duration, Instant};

/// How long the load runs before anything counts.
const SETTLE: Duration = Duration::from_secs(1);
/// The time is counted in so many parts, so that its spread is known.
const PARTS: u32 = 5;
/// How often it is looked whether somebody stops it.
const STEP: Duration = Duration::from_millis(100);

/// The load on every CPU but these.
///
/// # Errors
/// There is no such load, or no CPU for it.
pub(super) fn order(
    host: &Host,
    global: &GlobalArgs,
    kinds: &[String],
    shielded: &CpuSet,
) -> Result<LoadRequest, Failure> {
    let args = LoadArgs { load: kinds.to_vec(), load_cpus: LoadCpus::All };
    let order = args.order(host, global, &CpuSet::new(), shielded)?;
    if order.wanted.is_empty() {
        return Err(Failure::usage("--price none measures nothing")
            .hint("leave --price out, or name loads: --price messages,memory"));
    }
    Ok(order)
}

/// Lets the load work and counts what it does.
///
/// # Errors
/// It cannot run, or somebody stopped it.
pub(super) fn window(
    ui: &Ui,
    host: &Host,
    order: &LoadRequest,
    span: Duration,
    what: &str,
) -> Result<PriceWindow, Failure> {
    let bar = ui.bar();
    bar.show_task(what);
    let mut gang = LoadGenerator::start(order)?;
    gang.begin();
    pass(SETTLE, &|_| {})?;
    let begin_ns = monotonic_ns();
    gang.count_from_now(host);
    let mut last = gang.so_far(host);
    let mut parts: Vec<(String, Vec<f64>)> =
        last.iter().map(|(name, ..)| ((*name).to_owned(), Vec::new())).collect();
    for part in 0..PARTS {
        pass(span / PARTS, &|done| bar.show_progress(what, span / PARTS * part + done, span))?;
        let now = gang.so_far(host);
        for ((rates, (_, from_ns, from)), (_, until_ns, until)) in
            parts.iter_mut().zip(&last).zip(&now)
        {
            let count = until.zip(*from).map(|(until, from)| until.wrapping_sub(from));
            rates.1.extend(crate::load::rate(count, until_ns.saturating_sub(*from_ns)));
        }
        last = now;
    }
    gang.count_until_now(host);
    let span_ns = monotonic_ns().saturating_sub(begin_ns);
    let notes = std::mem::take(&mut gang.notes);
    let loads = gang.end(host);
    bar.end();
    Ok(PriceWindow { cpus: order.cpus.clone(), span_ns, loads, parts, notes })
}

/// Lets time go by; asked to stop, it says so as a failure.
fn pass(time: Duration, tell: &dyn Fn(Duration)) -> Result<(), Failure> {
    let begin = Instant::now();
    loop {
        if let Some(signal) = signal::stopped_by() {
            return Err(Failure::new(FailureKind::Undone, format!("stopped by signal {signal}"))
                .hint("everything is as it was"));
        }
        let done = begin.elapsed();
        if done >= time {
            return Ok(());
        }
        tell(done);
        std::thread::sleep(STEP.min(time - done));
    }
}
