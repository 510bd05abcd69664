//! `cpushield latency`: how late threads on shielded CPUs are.

use super::checkpoint::{self, MeasurementCheckpoint};
use super::loads::LoadArgs;
use super::standing::ActiveArgs;
use super::watch_target::WatchTarget;
use super::{GlobalArgs, input, verify};
use crate::failure::{Failure, FailureKind};
use crate::latency::{
    self, INSTRUMENTS, Instrument, LatencyDoubt, LatencyMeasurement, MeasureProgress,
    MeasureRequest, ShieldMonitor, ThreadDoubt, ThreadSpec, instruments,
};
use crate::load;
use crate::report::table::{self, fold};
use crate::report::{TextStyle, latency as report};
use crate::run::ShieldPlacement;
use crate::tunables;
use crate::ui::{Emphasis, OutputFormat, Ui};
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
    #[arg(value_name = "INSTRUMENT", value_parser = instrument())]
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

/// The period of a thread, unless another is given.
const PERIOD_NS: u64 = 1_000_000;
/// How long threads warmup, unless it is said.
const WARMUP: Duration = Duration::from_millis(200);
/// The same with a load, which has to fill its buffers first.
const WARMUP_LOADED: Duration = Duration::from_secs(1);
/// The priority of the first thread, unless another is given.
const PRIORITY: u32 = 80;

/// Where it is measured.
struct LatencyTarget {
    scene: WatchTarget,
    cgroup: Option<String>,
    guard: Option<ShieldMonitor>,
    store: Store,
    load: load::LoadRequest,
}

/// Runs it.
///
/// # Errors
/// The CPUs cannot be measured, or the limit does not hold.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &LatencyArgs) -> Result<(), Failure> {
    let host = global.host()?;
    if !host.is_live() {
        return Err(Failure::usage("a recorded machine does not run: nothing to measure")
            .hint("leave --root out"));
    }
    args.active.check(&host, &global.store())?;
    let kept =
        MeasurementCheckpoint::open(ui, args.output.as_deref(), args.resume.as_deref(), args.max)?;
    let instrument = chosen(args, kept.as_ref())?;
    let beats = beats(args, instrument)?;
    args.load.check()?;
    [&args.histogram, &args.hdr].into_iter().flatten().try_for_each(|file| can_write(file))?;
    let site = site(&host, global, args, instrument)?;
    signal::catch_stops()
        .map_err(|e| Failure::machine(format!("signals cannot be caught: {e}")))?;
    let mut latency = measured(ui, &host, args, instrument, beats, &site, kept.as_ref())?;
    name_remedies(&mut latency, &host, &site);
    let (latency, lost) = match kept {
        Some(kept) => kept.end(latency)?,
        None => (latency, None),
    };
    ui.show(&latency, || fold(&report::text(&latency, &paint), ui.width()))?;
    write_files(ui, args, &latency)?;
    if let Some(failure) = lost {
        if ui.format == OutputFormat::Text {
            ui.line(&latency)?;
        }
        return Err(failure);
    }
    outcome(&latency)
}

fn measured(
    ui: &Ui,
    host: &Host,
    args: &LatencyArgs,
    instrument: &'static dyn Instrument,
    beats: Vec<ThreadSpec>,
    site: &LatencyTarget,
    kept: Option<&MeasurementCheckpoint<'_>>,
) -> Result<LatencyMeasurement, Failure> {
    let bar = ui.bar();
    let (over, worst) = kept.map_or((Duration::ZERO, None), MeasurementCheckpoint::over);
    let worst = Cell::new(worst);
    let keep = |latency| {
        if let Some(kept) = kept {
            kept.keep(latency);
        }
    };
    let order = MeasureRequest {
        instrument,
        cpus: site.scene.cpus.clone(),
        threads: beats,
        span: checkpoint::span(kept, args.time)?,
        warmup: args.warmup.unwrap_or(if args.load.any() { WARMUP_LOADED } else { WARMUP }),
        over_ns: args.over.clone(),
        max_ns: args.max,
        cgroup: site.cgroup.clone(),
        guard: site.guard.clone(),
        store: site.store.clone(),
        load: site.load.clone(),
        force: args.force,
        why: args.why,
        progress: &|progress| match progress {
            MeasureProgress::Starting => bar.show_task("getting ready"),
            MeasureProgress::Measuring { done, of, worst_ns } => {
                worst.set(worst.get().max(worst_ns));
                let so_far = worst
                    .get()
                    .map_or_else(String::new, |ns| format!(", worst {}", table::span(ns)));
                bar.show_progress(&format!("measuring{so_far}"), over + done, over + of);
            }
        },
        autosave: kept.is_some().then_some(&keep),
        stop: &|| signal::stopped_by().is_some(),
    };
    kept.map_or(Ok(()), |kept| kept.fits(host, &order))?;
    let latency = latency::measure(host, &order);
    bar.end();
    Ok(latency?)
}

/// The instrument that was asked for, or that of the measurement that is gone on with.
fn chosen(
    args: &LatencyArgs,
    kept: Option<&MeasurementCheckpoint<'_>>,
) -> Result<&'static dyn Instrument, Failure> {
    let asked = args.instrument.as_deref();
    let name = match kept {
        Some(kept) => kept.instrument(asked)?,
        None => asked,
    };
    name.and_then(instruments::by_name).ok_or_else(no_instrument)
}

/// Nothing says what the threads wait for: every instrument with its meaning.
fn no_instrument() -> Failure {
    let mut message = "name an instrument, which says what the threads wait for".to_owned();
    for one in INSTRUMENTS {
        message.push_str(&format!("\n  {:<9} {}", one.name(), one.summary()));
    }
    Failure::usage(message)
        .hint("most begin with: cpushield latency timer")
        .hint("`cpushield explain latency-timer` describes an instrument")
}

/// The threads of each CPU: the shorter the period, the higher the priority, as LinuxCNC has them.
fn beats(args: &LatencyArgs, instrument: &dyn Instrument) -> Result<Vec<ThreadSpec>, Failure> {
    if args.over.len() > LIMITS {
        return Err(Failure::usage(format!("--over can be given {LIMITS} times at most")));
    }
    if instrument.is_endless() {
        if args.fifo.is_some() || !args.thread.is_empty() {
            let name = instrument.name();
            return Err(Failure::usage(format!(
                "a thread of {name} never sleeps, so it has no period"
            ))
            .hint("it has no real-time priority either, as it would starve the kernel's threads")
            .hint("leave --thread and --fifo out"));
        }
        return Ok(vec![ThreadSpec { period_ns: 0, policy: SchedPolicy::Other { nice: 0 } }]);
    }
    let mut periods = args.thread.clone();
    if periods.is_empty() {
        periods.push(PERIOD_NS);
    }
    periods.sort_unstable();
    if periods.windows(2).any(|pair| pair.first() == pair.get(1)) {
        return Err(Failure::usage("two threads of one period on one CPU would hide each other")
            .hint("give each --thread another period"));
    }
    let beat = |(below, period_ns): (u32, u64)| {
        let priority = args.fifo.unwrap_or(PRIORITY).saturating_sub(below).max(1);
        let policy = if args.other {
            SchedPolicy::Other { nice: 0 }
        } else {
            SchedPolicy::Fifo { priority }
        };
        ThreadSpec { period_ns, policy }
    };
    Ok((0..).zip(periods).map(beat).collect())
}

fn site(
    host: &Host,
    global: &GlobalArgs,
    args: &LatencyArgs,
    instrument: &dyn Instrument,
) -> Result<LatencyTarget, Failure> {
    let store = global.store();
    let command = format!("latency {}", instrument.name());
    let scene = WatchTarget::find(host, &store, args.cpus.as_ref(), &command)?;
    if let Some(place) = scene.ours() {
        beside_others(host, place, &scene.cpus)?;
    }
    let shielded = scene.place.as_ref().map_or_else(CpuSet::new, |place| place.cpus.clone());
    let load = args.load.order(host, global, &scene.cpus, &shielded)?;
    let cgroup = args.cgroup.clone().or_else(|| scene.group());
    let ours = scene.ours().cloned();
    let guard =
        ours.map(|place| ShieldMonitor::new(host, place.name, place.group, scene.cpus.clone()));
    Ok(LatencyTarget { scene, cgroup, guard, store, load })
}

/// Says of what ran while the worst waited how it can be removed here.
fn name_remedies(latency: &mut LatencyMeasurement, host: &Host, site: &LatencyTarget) {
    let series = latency.series.iter_mut();
    let worst = series.flat_map(|series| &mut series.worst);
    let shares: Vec<&mut TimeShare> =
        worst.filter_map(|worst| worst.why.as_mut()).flat_map(|why| &mut why.shares).collect();
    if shares.is_empty() {
        return;
    }
    let WatchTarget { active, cpus, .. } = &site.scene;
    let known = verify::known(host, &site.store, active.as_ref(), cpus);
    let Some((machine, shield)) = known else { return };
    for share in shares {
        share.remedy = tunables::remedy(&machine, &shield, share.cause, &share.culprit).remedy();
    }
}

/// A program that runs in the shield would be part of every figure, and would be late itself.
fn beside_others(host: &Host, place: &ShieldPlacement, cpus: &CpuSet) -> Result<(), Failure> {
    for tid in place.members(host)? {
        let Ok(task) = host.task(tid, tid) else { continue };
        if task.state == 'R' && cpus.contains(task.cpu) {
            return Err(Failure::machine(format!(
                "{} ({tid}) is running on CPU {}, and the measuring threads would take its time",
                task.comm, task.cpu
            ))
            .hint("measure before it starts, or another CPU of the shield: --cpus"));
        }
    }
    Ok(())
}

fn write_files(ui: &Ui, args: &LatencyArgs, latency: &LatencyMeasurement) -> Result<(), Failure> {
    let bug = |why: String| Failure::new(FailureKind::Bug, why);
    if let Some(file) = &args.histogram {
        let text = latency::cyclictest(latency).map_err(bug)?;
        write_stream(file, &mut |out| out.write_all(text.as_bytes()))?;
        ui.status(&format!("wrote {}", file.display()));
    }
    if let Some(file) = &args.hdr {
        let log = latency::hdr_log(latency).map_err(bug)?;
        write_stream(file, &mut |out| out.write_all(&log))?;
        ui.status(&format!("wrote {}", file.display()));
    }
    Ok(())
}

pub(super) fn paint(word: TextStyle, words: &str) -> String {
    match word {
        TextStyle::Good => Emphasis::Good.paint(words),
        TextStyle::Bad => Emphasis::Bad.paint(words),
        TextStyle::Doubt => Emphasis::Doubt.paint(words),
        TextStyle::Head => Emphasis::Head.paint(words),
    }
}

/// The exit code.
fn outcome(latency: &LatencyMeasurement) -> Result<(), Failure> {
    let is_silent = latency.silent_below_ns().is_some();
    if latency.worst().is_none() && !latency.stopped && !is_silent {
        let of_threads = latency.series.iter().flat_map(|series| series.doubts.first());
        let of_threads = of_threads.map(ToString::to_string).next();
        let of_all = latency.doubts.first().map(ToString::to_string);
        let why = of_threads.or(of_all).unwrap_or_else(|| ThreadDoubt::NoEvent.to_string());
        return Err(Failure::machine(format!("nothing was measured: {why}")));
    }
    if latency.holds() {
        return Ok(());
    }
    let broken = latency.gates.iter().filter(|gate| gate.held != Some(true));
    let words = |gate: &crate::verify::Gate<LatencyDoubt>| match gate.held {
        None => {
            let why = gate.why.first().map_or_else(String::new, |why| format!(": {why}"));
            format!("it is not known whether {} holds{why}", gate.limit)
        }
        _ => {
            format!("{} does not hold: found {}", gate.limit, report::measured_value(latency, gate))
        }
    };
    let words: Vec<String> = broken.map(words).collect();
    Err(Failure::new(FailureKind::DoesNotHold, words.join("; ")))
}

fn instrument() -> impl TypedValueParser<Value = String> {
    let value = |one: &&'static dyn Instrument| PossibleValue::new(one.name()).help(one.summary());
    PossibleValuesParser::new(INSTRUMENTS.iter().map(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn beats(args: &LatencyArgs) -> Result<Vec<ThreadSpec>, Failure> {
        super::beats(args, chosen(args, None)?)
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
        let beats = beats(&args(line).unwrap()).unwrap();
        let fifo =
            |period_ns, priority| ThreadSpec { period_ns, policy: SchedPolicy::Fifo { priority } };
        assert_eq!(beats, [fifo(25_000, 90), fifo(1_000_000, 89)]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in ["sundial", "timer --thread 0us", "timer --thread 5", "timer --fifo 99"] {
            assert!(args(&format!("cpushield latency {line}")).is_err(), "{line}");
        }
        assert!(beats(&args("cpushield latency --for 1s").unwrap()).is_err(), "no instrument");
        assert_eq!(args("cpushield latency --resume day.json").unwrap().instrument, None);
        let twice = args("cpushield latency timer --thread 1ms --thread 1000us").unwrap();
        assert!(beats(&twice).is_err());
        let many = "1us,2us,3us,4us,5us,6us,7us,8us,9us";
        let many = args(&format!("cpushield latency timer --over {many}")).unwrap();
        assert!(beats(&many).is_err());
        assert!(args("cpushield latency timer --other --fifo 3").is_err());
        for line in ["spin --fifo 3", "spin --thread 1ms"] {
            assert!(beats(&args(&format!("cpushield latency {line}")).unwrap()).is_err());
        }
        let policy = SchedPolicy::Other { nice: 0 };
        let spin = beats(&args("cpushield latency spin").unwrap()).unwrap();
        assert_eq!(spin, [ThreadSpec { period_ns: 0, policy }]);
    }
}
