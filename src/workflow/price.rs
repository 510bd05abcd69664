//! `try --price`: measures the throughput of a load on the CPUs that are left outside the shield.

use super::WorkContext;
use super::load_options::LoadOptions;
use crate::documents::load_price::PriceWindow;
use crate::failure::Failure;
use crate::load::{LoadGenerator, LoadRequest};
use cpushield_linux::sys::clock::monotonic_ns;
use cpushield_linux::{CpuSet, sys::signal};
use std::time::{Duration, Instant};

/// Warm-up: how long the load runs before it is counted.
const WARMUP: Duration = Duration::from_secs(1);
/// The measurement is split into this many parts, to know the spread.
const PARTS: u32 = 5;
/// How often the wait checks for a stop signal.
const STEP: Duration = Duration::from_millis(100);

/// The load on every CPU except the shielded ones.
///
/// # Errors
/// There is no such load, or no CPU for it.
pub fn load_request(
    work: &WorkContext<'_>,
    kinds: &[String],
    shielded: &CpuSet,
) -> Result<LoadRequest, Failure> {
    let options = LoadOptions::everywhere(kinds.to_vec());
    let request = options.request(work, &CpuSet::new(), shielded)?;
    if request.wanted.is_empty() {
        return Err(Failure::usage("--price none measures nothing")
            .hint("omit --price")
            .hint("or name loads: --price messages,memory"));
    }
    Ok(request)
}

/// Runs the load for a while and measures its throughput.
///
/// # Errors
/// The load cannot run, or a signal stopped it.
pub fn measure_window(
    work: &WorkContext<'_>,
    request: &LoadRequest,
    span: Duration,
    what: &str,
) -> Result<PriceWindow, Failure> {
    let WorkContext { ui, host, .. } = work;
    let bar = ui.bar();
    bar.show_task(what);
    let mut generator = LoadGenerator::start(host, request)?;
    generator.begin();
    wait(WARMUP, &|_| {})?;
    let start_ns = monotonic_ns();
    generator.start_counting(host);
    let mut last = generator.read_counts(host);
    let mut parts: Vec<(String, Vec<f64>)> =
        last.iter().map(|(name, _)| ((*name).to_owned(), Vec::new())).collect();
    for part in 0..PARTS {
        wait(span / PARTS, &|done| bar.show_progress(what, span / PARTS * part + done, span))?;
        let now = generator.read_counts(host);
        for (((_, rates), (_, first)), (_, last)) in parts.iter_mut().zip(&last).zip(&now) {
            let count = last.count.zip(first.count).map(|(last, first)| last.wrapping_sub(first));
            let span_ns = last.at_ns.saturating_sub(first.at_ns);
            rates.extend(crate::load::compute_rate(count, span_ns));
        }
        last = now;
    }
    generator.stop_counting(host);
    let span_ns = monotonic_ns().saturating_sub(start_ns);
    let skipped = generator.skipped.clone();
    let loads = generator.end(host);
    bar.end();
    Ok(PriceWindow { cpus: request.cpus.clone(), span_ns, loads, parts, skipped })
}

/// Waits and reports the progress.
///
/// # Errors
/// A signal stopped it.
fn wait(time: Duration, show_progress: &dyn Fn(Duration)) -> Result<(), Failure> {
    let start = Instant::now();
    loop {
        if let Some(signal) = signal::stopped_by() {
            return Err(Failure::stopped(signal));
        }
        let done = start.elapsed();
        if done >= time {
            return Ok(());
        }
        show_progress(done);
        std::thread::sleep(STEP.min(time - done));
    }
}
