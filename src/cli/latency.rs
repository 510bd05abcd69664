//! `cpushield latency`: measures the wake-up latency of threads on shielded CPUs.

use super::checkpoint::{self, MeasurementCheckpoint};
use super::loads::LoadArgs;
use super::paint::paint;
use super::standing::ActiveArgs;
use super::watch_target::WatchTarget;
use super::{GlobalArgs, input, verify};
use crate::failure::{Failure, FailureKind};
use crate::latency::{
    self, INSTRUMENTS, Instrument, LatencyDoubt, LatencyMeasurement, MeasureProgress,
    MeasureRequest, ShieldMonitor, ThreadDoubt, ThreadSpec, instruments,
};
use crate::load;
use crate::report::latency as report;
use crate::report::page::terminal_blocks;
use crate::report::table;
use crate::run::ShieldPlacement;
use crate::tunables;
use crate::ui::{OutputFormat, Ui};
use crate::verify::TimeShare;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use cpushield_linux::latency_stats::LIMITS;
use cpushield_linux::{CpuSet, Host, SchedPolicy, Store, can_write, signal, write_stream};
use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

/// Measure wake-up latency on the shielded CPUs
///
/// A thread on each CPU repeatedly waits for an event and reads the clock when it runs. The latency
/// is the time from when the event was due until the thread ran. Ctrl-C ends the measurement and
/// shows its results so far.
///
/// Exit code 0: the measurement is complete, and --max holds. Exit code 1: --max does not hold or
/// is unknown.
#[derive(Debug, clap::Args)]
#[command(override_usage = "cpushield latency [OPTIONS] <INSTRUMENT>\n       \
                            cpushield latency [OPTIONS] --resume <FILE>")]
pub struct LatencyArgs {
    /// Event that the threads wait for; --resume takes it from the saved measurement
    #[arg(value_name = "INSTRUMENT", value_parser = instrument_parser())]
    instrument: Option<String>,
    /// CPUs to measure [default: the CPUs of the active shield]
    #[arg(long, value_name = "LIST", value_parser = input::cpu_list)]
    cpus: Option<CpuSet>,
    /// How long to measure; with --resume, the total of all parts [default: 10s]
    #[arg(long = "for", value_name = "TIME", value_parser = input::span)]
    time: Option<Duration>,
    /// Save the results as JSON in this file, once a second
    #[arg(long, short, value_name = "FILE", conflicts_with = "resume")]
    output: Option<PathBuf>,
    /// Resume the measurement saved in FILE, with its original options
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Warm-up: how long the threads run before the measurement [default: 200ms; 1s with a load]
    #[arg(long, value_name = "TIME", value_parser = input::time)]
    warmup: Option<Duration>,
    /// Period of a thread on each CPU; repeat the option for more threads [default: 1ms]
    #[arg(long, value_name = "TIME", value_parser = input::span_ns)]
    thread: Vec<u64>,
    /// Real-time priority of the thread with the shortest period, 1 to 98; the others get lower
    /// ones [default: 80]
    #[arg(long, value_name = "PRIORITY", value_parser = input::lower_priority)]
    fifo: Option<u32>,
    /// Use ordinary threads (SCHED_OTHER)
    #[arg(long, conflicts_with = "fifo")]
    other: bool,
    /// Count latencies longer than this, for example 20us; can be given up to 8 times
    #[arg(long, value_name = "TIME", value_parser = input::span_ns, value_delimiter = ',')]
    over: Vec<u64>,
    /// Limit: no latency longer than this
    #[arg(long, value_name = "TIME", value_parser = input::span_ns)]
    max: Option<u64>,
    /// Trace the CPUs and report what ran during each worst latency. Tracing overhead is included
    /// in the results
    #[arg(long)]
    why: bool,
    /// Write the histogram to this file in the format of cyclictest
    #[arg(long, value_name = "FILE")]
    histogram: Option<PathBuf>,
    /// Write the histograms to this file as an HDR log
    #[arg(long, value_name = "FILE")]
    hdr: Option<PathBuf>,
    /// The load
    #[command(flatten)]
    load: LoadArgs,
    /// Allow real-time threads on every CPU of the machine
    #[arg(long)]
    force: bool,
    /// Cgroup directory that the threads join, if another tool made the shield
    #[arg(long, value_name = "DIR")]
    cgroup: Option<String>,
    /// The active shield
    #[command(flatten)]
    active: ActiveArgs,
}

/// The default period of a thread.
const PERIOD_NS: u64 = 1_000_000;
/// The default warm-up.
const WARMUP: Duration = Duration::from_millis(200);
/// The default warm-up with a load, which first has to fill its buffers.
const WARMUP_LOADED: Duration = Duration::from_secs(1);
/// The default priority of the thread with the shortest period.
const PRIORITY: u32 = 80;

/// The CPUs to measure, with their shield and the load.
struct LatencyTarget {
    watch: WatchTarget,
    cgroup: Option<String>,
    guard: Option<ShieldMonitor>,
    store: Store,
    load: load::LoadRequest,
}

/// Runs the subcommand.
///
/// # Errors
/// The CPUs cannot be measured, or the limit does not hold.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &LatencyArgs) -> Result<(), Failure> {
    let host = global.host()?;
    if !host.is_live() {
        return Err(Failure::usage("a recorded machine does not run: nothing to measure")
            .hint("omit --root"));
    }
    args.active.check(&host, &global.store())?;
    let checkpoint =
        MeasurementCheckpoint::open(ui, args.output.as_deref(), args.resume.as_deref(), args.max)?;
    let instrument = choose_instrument(args, checkpoint.as_ref())?;
    let threads = thread_specs(args, instrument)?;
    args.load.check()?;
    [&args.histogram, &args.hdr].into_iter().flatten().try_for_each(|file| can_write(file))?;
    let target = find_target(&host, global, args, instrument)?;
    signal::catch_stops().map_err(|e| Failure::machine(format!("cannot catch signals: {e}")))?;
    let mut latency = measure(ui, &host, args, instrument, threads, &target, checkpoint.as_ref())?;
    name_remedies(&mut latency, &host, &target);
    let (latency, save_error) = match checkpoint {
        Some(checkpoint) => checkpoint.finish(latency)?,
        None => (latency, None),
    };
    ui.show(&latency, || terminal_blocks(&report::blocks(&latency), ui.width(), &paint))?;
    write_files(ui, args, &latency)?;
    if let Some(failure) = save_error {
        if ui.format == OutputFormat::Text {
            ui.line(&latency)?;
        }
        return Err(failure);
    }
    check_result(&latency)
}

fn measure(
    ui: &Ui,
    host: &Host,
    args: &LatencyArgs,
    instrument: &'static dyn Instrument,
    threads: Vec<ThreadSpec>,
    target: &LatencyTarget,
    checkpoint: Option<&MeasurementCheckpoint<'_>>,
) -> Result<LatencyMeasurement, Failure> {
    let bar = ui.bar();
    let (done_before, worst_before) =
        checkpoint.map_or((Duration::ZERO, None), MeasurementCheckpoint::progress_before);
    let worst = Cell::new(worst_before);
    let save = |latency| {
        if let Some(checkpoint) = checkpoint {
            checkpoint.save(latency);
        }
    };
    let order = MeasureRequest {
        instrument,
        cpus: target.watch.cpus.clone(),
        threads,
        span: checkpoint::remaining_span(checkpoint, args.time)?,
        warmup: args.warmup.unwrap_or(if args.load.any() { WARMUP_LOADED } else { WARMUP }),
        over_ns: args.over.clone(),
        max_ns: args.max,
        cgroup: target.cgroup.clone(),
        guard: target.guard.clone(),
        store: target.store.clone(),
        load: target.load.clone(),
        force: args.force,
        why: args.why,
        progress: &|progress| match progress {
            MeasureProgress::Starting => bar.show_task("getting ready"),
            MeasureProgress::Measuring { done, of, worst_ns } => {
                worst.set(worst.get().max(worst_ns));
                let so_far = worst
                    .get()
                    .map_or_else(String::new, |ns| format!(", worst {}", table::span(ns)));
                bar.show_progress(
                    &format!("measuring{so_far}"),
                    done_before + done,
                    done_before + of,
                );
            }
        },
        autosave: checkpoint.is_some().then_some(&save),
        stop: &|| signal::stopped_by().is_some(),
    };
    checkpoint.map_or(Ok(()), |checkpoint| checkpoint.check_resumable(host, &order))?;
    let latency = latency::measure(host, &order);
    bar.end();
    Ok(latency?)
}

/// The requested instrument, or the instrument of the resumed measurement.
fn choose_instrument(
    args: &LatencyArgs,
    checkpoint: Option<&MeasurementCheckpoint<'_>>,
) -> Result<&'static dyn Instrument, Failure> {
    let requested = args.instrument.as_deref();
    let name = match checkpoint {
        Some(checkpoint) => checkpoint.instrument(requested)?,
        None => requested,
    };
    name.and_then(instruments::by_name).ok_or_else(no_instrument)
}

/// The failure when no instrument is named. It lists all instruments.
fn no_instrument() -> Failure {
    let mut message = "no instrument is named; it selects what the threads wait for".to_owned();
    for instrument in INSTRUMENTS {
        message.push_str(&format!("\n  {:<9} {}", instrument.name(), instrument.summary()));
    }
    Failure::usage(message)
        .hint("start with: cpushield latency timer")
        .hint("or read about an instrument: cpushield explain latency-timer")
}

/// The threads on each CPU. As in LinuxCNC, a shorter period gets a higher priority.
fn thread_specs(
    args: &LatencyArgs,
    instrument: &dyn Instrument,
) -> Result<Vec<ThreadSpec>, Failure> {
    if args.over.len() > LIMITS {
        return Err(Failure::usage(format!("--over can be given at most {LIMITS} times")));
    }
    if instrument.is_endless() {
        if args.fifo.is_some() || !args.thread.is_empty() {
            let name = instrument.name();
            return Err(Failure::usage(format!(
                "a thread of {name} never sleeps, so it has no period"
            ))
            .hint("omit --thread and --fifo; a real-time priority would starve kernel threads"));
        }
        return Ok(vec![ThreadSpec { period_ns: 0, policy: SchedPolicy::Other { nice: 0 } }]);
    }
    let mut periods = args.thread.clone();
    if periods.is_empty() {
        periods.push(PERIOD_NS);
    }
    periods.sort_unstable();
    if periods.windows(2).any(|pair| pair.first() == pair.get(1)) {
        return Err(Failure::usage(
            "two threads with the same period on one CPU would hide each other's latency",
        )
        .hint("give each --thread a different period"));
    }
    let ranked = (0..).zip(periods);
    Ok(ranked
        .map(|(rank, period_ns): (u32, u64)| {
            let priority = args.fifo.unwrap_or(PRIORITY).saturating_sub(rank).max(1);
            let policy = if args.other {
                SchedPolicy::Other { nice: 0 }
            } else {
                SchedPolicy::Fifo { priority }
            };
            ThreadSpec { period_ns, policy }
        })
        .collect())
}

fn find_target(
    host: &Host,
    global: &GlobalArgs,
    args: &LatencyArgs,
    instrument: &dyn Instrument,
) -> Result<LatencyTarget, Failure> {
    let store = global.store();
    let command = format!("latency {}", instrument.name());
    let watch = WatchTarget::find(host, &store, args.cpus.as_ref(), &command)?;
    if let Some(place) = watch.own_shield() {
        check_idle(host, place, &watch.cpus)?;
    }
    let shielded = watch.place.as_ref().map_or_else(CpuSet::new, |place| place.cpus.clone());
    let load = args.load.request(host, global, &watch.cpus, &shielded)?;
    let cgroup = args.cgroup.clone().or_else(|| watch.group());
    let guard = watch
        .own_shield()
        .cloned()
        .map(|place| ShieldMonitor::new(host, place.name, place.group, watch.cpus.clone()));
    Ok(LatencyTarget { watch, cgroup, guard, store, load })
}

/// Names the remedies for what ran during the worst latencies.
fn name_remedies(latency: &mut LatencyMeasurement, host: &Host, target: &LatencyTarget) {
    let series = latency.series.iter_mut();
    let worst = series.flat_map(|series| &mut series.worst);
    let shares: Vec<&mut TimeShare> =
        worst.filter_map(|worst| worst.why.as_mut()).flat_map(|why| &mut why.shares).collect();
    if shares.is_empty() {
        return;
    }
    let WatchTarget { active, cpus, .. } = &target.watch;
    let remedy_target = verify::find_remedy_target(host, &target.store, active.as_ref(), cpus);
    let Some((machine, shield)) = remedy_target else { return };
    for share in shares {
        share.remedy = tunables::remedy(&machine, &shield, share.cause, &share.culprit).remedy();
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
            .hint("measure before it starts")
            .hint("or measure another CPU of the shield: --cpus LIST"));
        }
    }
    Ok(())
}

fn write_files(ui: &Ui, args: &LatencyArgs, latency: &LatencyMeasurement) -> Result<(), Failure> {
    if let Some(file) = &args.histogram {
        let text =
            latency::cyclictest(latency).map_err(|why| Failure::new(FailureKind::Bug, why))?;
        write_stream(file, &mut |out| out.write_all(text.as_bytes()))?;
        ui.status(&format!("wrote {}", file.display()));
    }
    if let Some(file) = &args.hdr {
        let log = latency::hdr_log(latency).map_err(|why| Failure::new(FailureKind::Bug, why))?;
        write_stream(file, &mut |out| out.write_all(&log))?;
        ui.status(&format!("wrote {}", file.display()));
    }
    Ok(())
}

/// Succeeds if something was measured and every limit holds.
///
/// # Errors
/// Nothing was measured, or a limit does not hold or is unknown.
fn check_result(latency: &LatencyMeasurement) -> Result<(), Failure> {
    let is_silent = latency.silent_below_ns().is_some();
    if latency.worst().is_none() && !latency.stopped && !is_silent {
        let mut thread_doubts = latency.series.iter().flat_map(|series| series.doubts.first());
        let why = match (thread_doubts.next(), latency.doubts.first()) {
            (Some(doubt), _) => doubt.to_string(),
            (None, Some(doubt)) => doubt.to_string(),
            (None, None) => ThreadDoubt::NoEvent.to_string(),
        };
        return Err(Failure::machine(format!("nothing was measured: {why}")));
    }
    if latency.holds() {
        return Ok(());
    }
    let broken = latency.gates.iter().filter(|gate| gate.held != Some(true));
    let reasons: Vec<String> = broken.map(|gate| describe_broken_gate(latency, gate)).collect();
    Err(Failure::new(FailureKind::DoesNotHold, reasons.join("; ")))
}

fn describe_broken_gate(
    latency: &LatencyMeasurement,
    gate: &crate::verify::Gate<LatencyDoubt>,
) -> String {
    if gate.held.is_none() {
        let why = gate.why.first().map_or_else(String::new, |why| format!(": {why}"));
        return format!("it is unknown whether {} holds{why}", gate.limit);
    }
    format!("{} does not hold: found {}", gate.limit, report::measured_value(latency, gate))
}

fn instrument_parser() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(
        INSTRUMENTS
            .iter()
            .map(|instrument| PossibleValue::new(instrument.name()).help(instrument.summary())),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn thread_specs(args: &LatencyArgs) -> Result<Vec<ThreadSpec>, Failure> {
        super::thread_specs(args, choose_instrument(args, None)?)
    }

    fn args(line: &str) -> Result<LatencyArgs, String> {
        let words = line.split(' ');
        let cli = super::super::Cli::try_parse_from(words).map_err(|e| e.to_string())?;
        let super::super::CliCommand::Latency(args) = cli.command else { panic!("latency") };
        Ok(args)
    }

    #[test]
    fn the_shorter_the_period_the_higher_the_priority() {
        let line = "cpushield latency timer --thread 1ms --thread 25us --fifo 90";
        let threads = thread_specs(&args(line).unwrap()).unwrap();
        let fifo =
            |period_ns, priority| ThreadSpec { period_ns, policy: SchedPolicy::Fifo { priority } };
        assert_eq!(threads, [fifo(25_000, 90), fifo(1_000_000, 89)]);
    }

    #[test]
    fn contradictory_options_are_refused() {
        for line in ["sundial", "timer --thread 0us", "timer --thread 5", "timer --fifo 99"] {
            assert!(args(&format!("cpushield latency {line}")).is_err(), "{line}");
        }
        assert!(
            thread_specs(&args("cpushield latency --for 1s").unwrap()).is_err(),
            "no instrument"
        );
        assert_eq!(args("cpushield latency --resume day.json").unwrap().instrument, None);
        let twice = args("cpushield latency timer --thread 1ms --thread 1000us").unwrap();
        assert!(thread_specs(&twice).is_err());
        let many = "1us,2us,3us,4us,5us,6us,7us,8us,9us";
        let many = args(&format!("cpushield latency timer --over {many}")).unwrap();
        assert!(thread_specs(&many).is_err());
        assert!(args("cpushield latency timer --other --fifo 3").is_err());
        for line in ["spin --fifo 3", "spin --thread 1ms"] {
            assert!(thread_specs(&args(&format!("cpushield latency {line}")).unwrap()).is_err());
        }
        let policy = SchedPolicy::Other { nice: 0 };
        let spin = thread_specs(&args("cpushield latency spin").unwrap()).unwrap();
        assert_eq!(spin, [ThreadSpec { period_ns: 0, policy }]);
    }
}
