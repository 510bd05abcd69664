//! Measures the wake-up latency of threads on shielded CPUs.

use super::checkpoint::{self, MeasurementCheckpoint};
use super::cpu_names::select_cpus;
use super::load_options::LoadOptions;
use super::remedy_target::find_remedy_target;
use super::shield_options::read_policy_shield;
use super::trace_disturbance::check_disturbance;
use super::watch_target::WatchTarget;
use super::{WorkContext, catch_stops};
use crate::cpu_selection::CpuSelection;
use crate::documents::evidence::TimeShare;
use crate::documents::latency::LatencyMeasurement;
use crate::failure::{Failure, FailureKind};
use crate::input;
use crate::latency::{
    self, INSTRUMENTS, Instrument, IsolationChecking, MeasureProgress, MeasureRequest, PRIORITY,
    PeriodError, ShieldMonitor, ThreadSpec, instruments,
};
use crate::load;
use crate::policy::{LatencyLimits, LinuxCncGrade};
use crate::report::table;
use crate::run::{ShieldPlacement, check_move};
use crate::tunables;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use cpushield_linux::shared_memory::latency_stats::LIMITS;
use cpushield_linux::{CpuSet, Host, sys::signal};
use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

/// Default duration of a measurement.
const SPAN: Duration = Duration::from_secs(10);
/// The default warm-up.
const WARMUP: Duration = Duration::from_millis(200);
/// The default warm-up with a load, which first has to fill its buffers.
const WARMUP_LOADED: Duration = Duration::from_secs(1);

/// What to measure, how, and which files to write
#[derive(Debug, Clone, clap::Args)]
pub struct LatencyRequest {
    /// Event that the threads wait for
    #[arg(value_name = "INSTRUMENT", value_parser = instrument_parser())]
    pub instrument: Option<String>,
    /// CPUs to measure [default: the CPUs of the active shield]
    #[arg(long, value_name = "LIST", value_parser = input::cpu_selection)]
    pub cpus: Option<CpuSelection>,
    /// How long to measure [default: 10s]
    #[arg(long = "for", value_name = "TIME", value_parser = input::span)]
    pub time: Option<Duration>,
    /// Save the results as JSON to this file every second
    #[arg(long, short, value_name = "FILE")]
    #[arg(value_parser = input::output_file())]
    pub output: Option<PathBuf>,
    /// Warm-up: how long the threads run before the measurement [default: 200ms; 1s with a load]
    #[arg(long, value_name = "TIME", value_parser = input::time)]
    pub warmup: Option<Duration>,
    /// Period of a thread on each CPU; repeat the option for more threads [default: 1ms]
    #[arg(long, value_name = "TIME", value_parser = input::span_ns)]
    pub thread: Vec<u64>,
    /// Real-time priority of the thread with the shortest period, 1 to 98; the other threads get
    /// lower priorities [default: 80]
    #[arg(long, value_name = "PRIORITY", value_parser = input::lower_priority)]
    pub fifo: Option<u32>,
    /// Use ordinary threads (SCHED_OTHER) instead of real-time threads
    #[arg(long, conflicts_with = "fifo")]
    pub other: bool,
    /// Count latencies longer than this, for example 20us; can be given up to 8 times
    #[arg(long, value_name = "TIME", value_parser = input::span_ns, value_delimiter = ',')]
    pub over: Vec<u64>,
    /// Limit: no latency longer than this
    #[arg(long, value_name = "TIME", value_parser = input::span_ns)]
    pub max: Option<u64>,
    /// Limit: the max jitter of every thread is within this LinuxCNC range
    #[arg(long, value_name = "GRADE", value_enum)]
    pub linuxcnc: Option<LinuxCncGrade>,
    /// Policy file for the limits not set by an option; if it has several shields, --shield selects
    /// one
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Trace the CPUs and report what ran during the worst latencies. Tracing overhead is included
    /// in the results
    #[arg(long)]
    pub why: bool,
    /// Write the histogram to this file in cyclictest's format
    #[arg(long, value_name = "FILE", value_parser = input::output_file())]
    pub histogram: Option<PathBuf>,
    /// Write the histograms to this file as an HDR log
    #[arg(long, value_name = "FILE", value_parser = input::output_file())]
    pub hdr: Option<PathBuf>,
    /// The load
    #[command(flatten)]
    pub load: LoadOptions,
    /// Allow real-time threads on every CPU of the machine
    #[arg(long)]
    pub force: bool,
    /// Cgroup directory that the threads join, if another tool made the shield
    #[arg(long, value_name = "DIR")]
    pub cgroup: Option<String>,
    /// Trace (`--why`, kernel tracers) even if that interrupts other active shields
    #[arg(long)]
    pub disturb: bool,
}

fn instrument_parser() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(
        INSTRUMENTS
            .iter()
            .map(|instrument| PossibleValue::new(instrument.name).help(instrument.summary)),
    )
}

/// The limits of the options; those of the policy for the rest. `shield` names one of several in
/// it.
fn read_limits(
    host: &Host,
    request: &LatencyRequest,
    shield: Option<&str>,
) -> Result<LatencyLimits, Failure> {
    let given = LatencyLimits { max_ns: request.max, linuxcnc: request.linuxcnc };
    let policy = read_policy_shield(host, request.policy.as_deref(), shield)?;
    Ok(policy.map_or(given, |policy| given.or(policy.limits.of_latency())))
}

/// The CPUs to measure, with their shield and the load.
struct LatencyTarget {
    limits: LatencyLimits,
    watch: WatchTarget,
    cgroup: Option<String>,
    guard: Option<ShieldMonitor>,
    load: load::LoadRequest,
}

/// Measures the CPUs. If the document could not be saved, the failure comes with it. `shield` is
/// the name of the shield in the policy.
///
/// # Errors
/// The CPUs cannot be measured.
pub fn measure_latency(
    work: &WorkContext<'_>,
    request: &LatencyRequest,
    shield: Option<&str>,
) -> Result<(LatencyMeasurement, Option<Failure>), Failure> {
    let limits = read_limits(&work.host, request, shield)?;
    let cpus = select_cpus(&work.host, request.cpus.as_ref())?;
    let open = |path: &PathBuf| MeasurementCheckpoint::open(work, path);
    let checkpoint = request.output.as_ref().map(open).transpose()?;
    if checkpoint.is_none() {
        checkpoint::mention_saving(work.ui, request.time.unwrap_or_default());
    }
    let name = request.instrument.as_deref();
    let instrument = name.and_then(instruments::named).ok_or_else(no_instrument)?;
    let threads = thread_specs(request, instrument)?;
    request.load.check()?;
    let user_files = work.host.user_files();
    let mut named = [&request.histogram, &request.hdr].into_iter().flatten();
    named.try_for_each(|file| user_files.check_writable(file))?;
    let target = find_target(work, request, instrument, limits, cpus.as_ref())?;
    if request.why || instrument.tracer.is_some() {
        check_disturbance(work, &target.watch.cpus, request.disturb.into())?;
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
        span: request.time.unwrap_or(SPAN),
        warmup: request.warmup.unwrap_or(if request.load.any() { WARMUP_LOADED } else { WARMUP }),
        over_ns: request.over.clone(),
        limits: target.limits,
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
    if request.over.len() > LIMITS {
        return Err(Failure::usage(format!("--over can be given at most {LIMITS} times")));
    }
    if instrument.is_endless && request.fifo.is_some() {
        let name = instrument.name;
        return Err(Failure::usage(format!("a {name} thread never sleeps, so --fifo is refused"))
            .hint("omit --fifo; a real-time priority would starve kernel threads"));
    }
    let periods_ns = latency::choose_periods(instrument, &request.thread).map_err(|error| {
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
    limits: LatencyLimits,
    cpus: Option<&CpuSet>,
) -> Result<LatencyTarget, Failure> {
    let host = &work.host;
    let command = format!("latency {}", instrument.name);
    let watch = WatchTarget::find(work, cpus, &command)?;
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
    Ok(LatencyTarget { limits, watch, cgroup, guard, load })
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
    request: &LatencyRequest,
    latency: &LatencyMeasurement,
) -> Result<(), Failure> {
    let WorkContext { ui, host, .. } = work;
    let user_files = host.user_files();
    if let Some(file) = &request.histogram {
        let text = latency::cyclictest(latency)
            .map_err(|why| Failure::new(FailureKind::Bug, why.to_string()))?;
        user_files.write(file, &text)?;
        ui.status(&format!("wrote {}", file.display()));
    }
    if let Some(file) = &request.hdr {
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
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        request: LatencyRequest,
    }

    /// The threads of a request.
    fn specs(line: &str) -> Option<Vec<ThreadSpec>> {
        let words = ["latency"].into_iter().chain(line.split_whitespace());
        let request = Line::try_parse_from(words).unwrap().request;
        let instrument = request.instrument.as_deref().and_then(instruments::named)?;
        thread_specs(&request, instrument).ok()
    }

    #[test]
    fn contradictory_options_are_refused() {
        for line in [
            "",
            "timer --thread 1ms --thread 1ms",
            "timer --over 1us,2us,3us,4us,5us,6us,7us,8us,9us",
            "spin --fifo 3",
            "spin --thread 1ms",
        ] {
            assert_eq!(specs(line), None, "{line}");
        }
        assert_eq!(specs("timer").map(|threads| threads.len()), Some(1));
    }
}
