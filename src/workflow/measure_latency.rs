//! Measures the wake-up latency of threads on shielded CPUs.

use super::checkpoint::{self, MeasurementCheckpoint};
use super::load_options::LoadOptions;
use super::remedy_target::find_remedy_target;
use super::shield_options::read_policy_shield;
use super::trace_disturbance::check_disturbance;
use super::watch_target::WatchTarget;
use super::{WorkContext, catch_stops};
use crate::documents::evidence::TimeShare;
use crate::documents::latency::LatencyMeasurement;
use crate::failure::{Failure, FailureKind};
pub use crate::latency::INSTRUMENTS;
use crate::latency::{
    self, Instrument, IsolationChecking, MeasureProgress, MeasureRequest, PRIORITY, PeriodError,
    ShieldMonitor, ThreadSpec, instruments,
};
use crate::load;
use crate::policy::{DisturbanceConsent, LatencyLimits};
use crate::report::table;
use crate::run::{ShieldPlacement, check_move};
use crate::tunables;
use cpushield_linux::shared_memory::latency_stats::LIMITS;
use cpushield_linux::{CpuSet, Host, sys::signal};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default duration of a measurement.
const SPAN: Duration = Duration::from_secs(10);
/// The default warm-up.
const WARMUP: Duration = Duration::from_millis(200);
/// The default warm-up with a load, which first has to fill its buffers.
const WARMUP_LOADED: Duration = Duration::from_secs(1);

/// What to measure, how, and which files to write.
#[derive(Debug, Clone)]
pub struct LatencyRequest {
    /// The name of the instrument.
    pub instrument: Option<String>,
    /// The CPUs; those of the active shield if `None`.
    pub cpus: Option<CpuSet>,
    /// How long to measure; [`SPAN`] if `None`.
    pub span: Option<Duration>,
    /// The file that the measurement is saved in.
    pub output: Option<PathBuf>,
    /// How long the threads run before the measurement.
    pub warmup: Option<Duration>,
    /// The period of each thread on a CPU, in nanoseconds; one default thread if empty.
    pub periods_ns: Vec<u64>,
    /// The priority of the thread with the shortest period.
    pub fifo: Option<u32>,
    /// Whether the threads are ordinary ones.
    pub other: bool,
    /// Latencies longer than these are counted, in nanoseconds.
    pub over_ns: Vec<u64>,
    /// The limits.
    pub limits: LatencyLimits,
    /// Whether the CPUs are traced, to name what ran during the worst latencies.
    pub why: bool,
    /// Further files to write.
    pub files: LatencyFiles,
    /// The load on the rest of the machine.
    pub load: LoadOptions,
    /// Whether real-time threads may run on every CPU of the machine.
    pub force: bool,
    /// Whether a trace may interrupt other shields.
    pub disturbance: DisturbanceConsent,
    /// The cgroup that the threads join, if another tool made the shield.
    pub cgroup: Option<String>,
}

/// The files of a measurement in formats of other programs.
#[derive(Debug, Clone, Default)]
pub struct LatencyFiles {
    /// The histogram, in the format of cyclictest.
    pub histogram: Option<PathBuf>,
    /// The histograms, as an HDR log.
    pub hdr: Option<PathBuf>,
}

/// The given limits; those of the policy for the rest. `shield` names one of several in it.
///
/// # Errors
/// The policy cannot be read, or has no such shield.
pub fn read_limits(
    host: &Host,
    policy: Option<&Path>,
    shield: Option<&str>,
    given: LatencyLimits,
) -> Result<LatencyLimits, Failure> {
    let policy = read_policy_shield(host, policy, shield)?;
    Ok(policy.map_or(given, |policy| given.or(policy.limits.of_latency())))
}

/// The CPUs to measure, with their shield and the load.
struct LatencyTarget {
    watch: WatchTarget,
    cgroup: Option<String>,
    guard: Option<ShieldMonitor>,
    load: load::LoadRequest,
}

/// Measures the CPUs. If the document could not be saved, the failure comes with it.
///
/// # Errors
/// The CPUs cannot be measured.
pub fn measure_latency(
    work: &WorkContext<'_>,
    request: &LatencyRequest,
) -> Result<(LatencyMeasurement, Option<Failure>), Failure> {
    let open = |path: &PathBuf| MeasurementCheckpoint::open(work, path);
    let checkpoint = request.output.as_ref().map(open).transpose()?;
    if checkpoint.is_none() {
        checkpoint::mention_saving(work.ui, request.span.unwrap_or_default());
    }
    let name = request.instrument.as_deref();
    let instrument = name.and_then(instruments::named).ok_or_else(no_instrument)?;
    let threads = thread_specs(request, instrument)?;
    request.load.check()?;
    let LatencyFiles { histogram, hdr } = &request.files;
    let user_files = work.host.user_files();
    let mut named = [histogram, hdr].into_iter().flatten();
    named.try_for_each(|file| user_files.check_writable(file))?;
    let target = find_target(work, request, instrument)?;
    if request.why || instrument.tracer.is_some() {
        check_disturbance(work, &target.watch.cpus, request.disturbance)?;
    }
    catch_stops()?;
    let mut latency = measure(work, request, instrument, threads, &target, checkpoint.as_ref())?;
    name_remedies(&mut latency, work, &target);
    match checkpoint {
        Some(checkpoint) => checkpoint.finish(latency),
        None => Ok((latency, None)),
    }
}

fn measure(
    work: &WorkContext<'_>,
    request: &LatencyRequest,
    instrument: &'static Instrument,
    threads: Vec<ThreadSpec>,
    target: &LatencyTarget,
    checkpoint: Option<&MeasurementCheckpoint<'_>>,
) -> Result<LatencyMeasurement, Failure> {
    let WorkContext { ui, host, store, .. } = work;
    let bar = ui.bar();
    let worst = Cell::new(None);
    let save = |latency| {
        if let Some(checkpoint) = checkpoint {
            checkpoint.save(&latency);
        }
    };
    let order = MeasureRequest {
        instrument,
        cpus: target.watch.cpus.clone(),
        threads,
        span: request.span.unwrap_or(SPAN),
        warmup: request.warmup.unwrap_or(if request.load.any() { WARMUP_LOADED } else { WARMUP }),
        over_ns: request.over_ns.clone(),
        limits: request.limits,
        cgroup: target.cgroup.clone(),
        guard: target.guard.clone(),
        store: store.clone(),
        load: target.load.clone(),
        force: request.force,
        why: request.why,
        isolation: IsolationChecking::Unchecked,
        progress: &|progress| match progress {
            MeasureProgress::Starting => bar.show_task("getting ready"),
            MeasureProgress::Measuring { done, of, worst_ns } => {
                worst.set(worst.get().max(worst_ns));
                let so_far = worst
                    .get()
                    .map_or_else(String::new, |ns| format!(", worst {}", table::span(ns)));
                bar.show_progress(&format!("measuring{so_far}"), done, of);
            }
        },
        autosave: checkpoint.is_some().then_some(&save),
        stop: &|| signal::stopped_by().is_some(),
    };
    let latency = latency::measure(host, &order);
    bar.end();
    Ok(latency?)
}

/// The failure when no instrument is named. It lists all instruments.
fn no_instrument() -> Failure {
    let mut message =
        "the instrument is missing; it determines what the threads wait for".to_owned();
    for instrument in INSTRUMENTS {
        message.push_str(&format!("\n  {:<9} {}", instrument.name, instrument.summary));
    }
    Failure::usage(message)
        .hint("start with: cpushield latency timer")
        .hint("or read about an instrument: cpushield explain latency-timer")
}

/// The threads on each CPU.
fn thread_specs(
    request: &LatencyRequest,
    instrument: &Instrument,
) -> Result<Vec<ThreadSpec>, Failure> {
    if request.over_ns.len() > LIMITS {
        return Err(Failure::usage(format!("--over can be given at most {LIMITS} times")));
    }
    if instrument.is_endless && request.fifo.is_some() {
        let name = instrument.name;
        return Err(Failure::usage(format!("a {name} thread never sleeps, so --fifo is refused"))
            .hint("omit --fifo; a real-time priority would starve kernel threads"));
    }
    let periods_ns = latency::choose_periods(instrument, &request.periods_ns).map_err(|error| {
        Failure::usage(error.to_string()).hint(match error {
            PeriodError::NeverSleeps(_) => "omit --thread",
            PeriodError::SamePeriod => "give each --thread a different period",
        })
    })?;
    Ok(match request.other || instrument.is_endless {
        true => latency::ordinary_threads(&periods_ns),
        false => latency::real_time_threads(&periods_ns, request.fifo.unwrap_or(PRIORITY)),
    })
}

fn find_target(
    work: &WorkContext<'_>,
    request: &LatencyRequest,
    instrument: &Instrument,
) -> Result<LatencyTarget, Failure> {
    let host = &work.host;
    let command = format!("latency {}", instrument.name);
    let watch = WatchTarget::find(work, request.cpus.as_ref(), &command)?;
    if let Some(place) = watch.own_shield() {
        check_idle(host, place, &watch.cpus)?;
    }
    let load = request.load.request(work, &watch.cpus, &CpuSet::new())?;
    let cgroup = watch.group(host, request.cgroup.as_ref())?;
    cgroup.as_deref().map_or(Ok(()), |group| check_move(host, group))?;
    let guard = watch
        .own_shield()
        .cloned()
        .map(|place| ShieldMonitor::new(host, place.name, place.group, watch.cpus.clone()));
    Ok(LatencyTarget { watch, cgroup, guard, load })
}

/// Names the remedies for what ran during the worst latencies.
fn name_remedies(latency: &mut LatencyMeasurement, work: &WorkContext<'_>, target: &LatencyTarget) {
    let series = latency.series.iter_mut();
    let worst = series.flat_map(|series| &mut series.worst);
    let shares: Vec<&mut TimeShare> =
        worst.filter_map(|worst| worst.why.as_mut()).flat_map(|why| &mut why.shares).collect();
    if shares.is_empty() {
        return;
    }
    let WatchTarget { active, cpus, .. } = &target.watch;
    let remedy_target = find_remedy_target(&work.host, &work.store, active.as_ref(), cpus);
    let Some((machine, shield)) = remedy_target else { return };
    for share in shares {
        let (cause, culprit) = (share.cause, &share.culprit);
        share.remedy = tunables::remedy(&machine, &shield, cause, culprit, &[]).remedy();
    }
}

/// Refuses to measure while a program runs on the CPUs: it would change every result and would run
/// late itself.
fn check_idle(host: &Host, place: &ShieldPlacement, cpus: &CpuSet) -> Result<(), Failure> {
    for tid in place.members(host)? {
        let Ok(task) = host.task(tid, tid) else { continue };
        if task.state == 'R' && cpus.contains(task.cpu) {
            return Err(Failure::machine(format!(
                "{} ({tid}) is running on CPU {}, and the measuring threads would delay it",
                task.comm, task.cpu
            ))
            .hint("measure before that program starts")
            .hint("or measure another CPU of the shield: --cpus LIST"));
        }
    }
    Ok(())
}

/// Writes the measurement in formats of other programs.
///
/// # Errors
/// A file cannot be written.
pub fn write_files(
    work: &WorkContext<'_>,
    files: &LatencyFiles,
    latency: &LatencyMeasurement,
) -> Result<(), Failure> {
    let WorkContext { ui, host, .. } = work;
    let user_files = host.user_files();
    if let Some(file) = &files.histogram {
        let text = latency::cyclictest(latency)
            .map_err(|why| Failure::new(FailureKind::Bug, why.to_string()))?;
        user_files.write(file, &text)?;
        ui.status(&format!("wrote {}", file.display()));
    }
    if let Some(file) = &files.hdr {
        let log = latency::hdr_log(latency)
            .map_err(|why| Failure::new(FailureKind::Bug, why.to_string()))?;
        user_files.write_stream(file, &mut |out| out.write_all(&log))?;
        ui.status(&format!("wrote {}", file.display()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::load_options::LoadCpus;

    /// The threads of an instrument with these periods.
    fn specs(
        name: &str,
        periods_ns: &[u64],
        change: impl FnOnce(&mut LatencyRequest),
    ) -> Option<Vec<ThreadSpec>> {
        let mut request = LatencyRequest {
            instrument: Some(name.to_owned()),
            cpus: None,
            span: None,
            output: None,
            warmup: None,
            periods_ns: periods_ns.to_vec(),
            fifo: None,
            other: false,
            over_ns: Vec::new(),
            limits: LatencyLimits::default(),
            why: false,
            files: LatencyFiles::default(),
            load: LoadOptions { kinds: Vec::new(), cpus: LoadCpus::Rest },
            force: false,
            disturbance: DisturbanceConsent::NotGiven,
            cgroup: None,
        };
        change(&mut request);
        let instrument = request.instrument.as_deref().and_then(instruments::named)?;
        thread_specs(&request, instrument).ok()
    }

    #[test]
    fn contradictory_options_are_refused() {
        assert_eq!(specs("timer", &[], |request| request.instrument = None), None);
        assert_eq!(specs("timer", &[1_000_000, 1_000_000], |_| {}), None);
        assert_eq!(specs("timer", &[], |request| request.over_ns = vec![1_000; 9]), None);
        assert_eq!(specs("spin", &[], |request| request.fifo = Some(3)), None);
        assert_eq!(specs("spin", &[1_000_000], |_| {}), None);
        assert_eq!(specs("timer", &[], |_| {}).map(|threads| threads.len()), Some(1));
    }
}
