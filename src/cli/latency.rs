//! `cpushield latency`: measures the wake-up latency of threads on shielded CPUs.

use super::active::ActiveArgs;
use super::help::{BUG, HelpTail, USAGE};
use super::loads::LoadArgs;
use super::paint::show;
use super::{GlobalArgs, input};
use crate::cpu_selection::CpuSelection;
use crate::failure::Failure;
use crate::policy::{LatencyLimits, LinuxCncGrade};
use crate::report::latency as report;
use crate::ui::{OutputFormat, Ui};
use crate::workflow::cpu_names::select_cpus;
use crate::workflow::latency_check;
use crate::workflow::measure_latency::{
    INSTRUMENTS, LatencyFiles, LatencyRequest, measure_latency, read_limits, write_files,
};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use cpushield_linux::CpuSet;
use std::path::PathBuf;
use std::time::Duration;

/// Measure wake-up latency on the shielded CPUs
///
/// A thread on each CPU repeatedly waits for an event and reads the clock when it runs. The latency
/// is the time from when the event was due until the thread ran. Ctrl-C ends the measurement and
/// shows its results so far.
///
/// Exit code 0: the measurement is complete, and every limit holds. Exit code 1: a limit does not
/// hold, or it is unknown whether it holds.
#[derive(Debug, clap::Args)]
#[command(override_usage = "cpushield latency [OPTIONS] <INSTRUMENT>")]
pub struct LatencyArgs {
    /// Event that the threads wait for
    #[arg(value_name = "INSTRUMENT", value_parser = instrument_parser())]
    instrument: Option<String>,
    /// CPUs to measure [default: the CPUs of the active shield]
    #[arg(long, value_name = "LIST", value_parser = input::cpu_selection)]
    cpus: Option<CpuSelection>,
    /// How long to measure [default: 10s]
    #[arg(long = "for", value_name = "TIME", value_parser = input::span)]
    time: Option<Duration>,
    /// Save the results as JSON to this file every second
    #[arg(long, short, value_name = "FILE")]
    #[arg(value_parser = input::output_file())]
    output: Option<PathBuf>,
    /// Warm-up: how long the threads run before the measurement [default: 200ms; 1s with a load]
    #[arg(long, value_name = "TIME", value_parser = input::time)]
    warmup: Option<Duration>,
    /// Period of a thread on each CPU; repeat the option for more threads [default: 1ms]
    #[arg(long, value_name = "TIME", value_parser = input::span_ns)]
    thread: Vec<u64>,
    /// Real-time priority of the thread with the shortest period, 1 to 98; the other threads get
    /// lower priorities [default: 80]
    #[arg(long, value_name = "PRIORITY", value_parser = input::lower_priority)]
    fifo: Option<u32>,
    /// Use ordinary threads (SCHED_OTHER) instead of real-time threads
    #[arg(long, conflicts_with = "fifo")]
    other: bool,
    /// Count latencies longer than this, for example 20us; can be given up to 8 times
    #[arg(long, value_name = "TIME", value_parser = input::span_ns, value_delimiter = ',')]
    over: Vec<u64>,
    /// Limit: no latency longer than this
    #[arg(long, value_name = "TIME", value_parser = input::span_ns)]
    max: Option<u64>,
    /// Limit: the max jitter of every thread is within this LinuxCNC range
    #[arg(long, value_name = "GRADE", value_enum)]
    linuxcnc: Option<LinuxCncGrade>,
    /// Policy file for the limits not set by an option; if it has several shields, --shield selects
    /// one
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Trace the CPUs and report what ran during the worst latencies. Tracing overhead is included
    /// in the results
    #[arg(long)]
    why: bool,
    /// Write the histogram to this file in cyclictest's format
    #[arg(long, value_name = "FILE", value_parser = input::output_file())]
    histogram: Option<PathBuf>,
    /// Write the histograms to this file as an HDR log
    #[arg(long, value_name = "FILE", value_parser = input::output_file())]
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
    /// Trace (`--why`, kernel tracers) even if that interrupts other active shields
    #[arg(long)]
    disturb: bool,
    /// The active shield
    #[command(flatten)]
    active: ActiveArgs,
}

impl LatencyArgs {
    fn given_limits(&self) -> LatencyLimits {
        LatencyLimits { max_ns: self.max, linuxcnc: self.linuxcnc }
    }

    fn request(&self, limits: LatencyLimits, cpus: Option<CpuSet>) -> LatencyRequest {
        LatencyRequest {
            instrument: self.instrument.clone(),
            cpus,
            span: self.time,
            output: self.output.clone(),
            warmup: self.warmup,
            periods_ns: self.thread.clone(),
            fifo: self.fifo,
            other: self.other,
            over_ns: self.over.clone(),
            limits,
            why: self.why,
            files: LatencyFiles { histogram: self.histogram.clone(), hdr: self.hdr.clone() },
            load: self.load.options(),
            force: self.force,
            disturbance: self.disturb.into(),
            cgroup: self.cgroup.clone(),
        }
    }
}

/// The end of its help.
pub(super) const HELP: HelpTail = HelpTail {
    examples: &[
        ("cpushield latency timer", "measure the shielded CPUs as cyclictest does"),
        ("cpushield latency timer --for 1h --max 50us", "check a limit"),
        ("cpushield latency spin --cpus 3 --load all", "measure with a load on the other CPUs"),
        (
            "cpushield latency timer --why -o after.json",
            "report what ran during the worst latencies; save the results",
        ),
    ],
    exit_codes: &[
        ("0", "success: measured; every limit is met"),
        ("1", "a limit is exceeded, or it is unknown whether it is met"),
        USAGE,
        ("3", "failure: no shield, or the CPUs cannot be measured"),
        BUG,
    ],
};

/// Runs the subcommand.
///
/// # Errors
/// The CPUs cannot be measured, or the limit does not hold.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &LatencyArgs) -> Result<(), Failure> {
    let mut work = global.open_live(ui)?;
    args.active.select(&mut work)?;
    let shield = args.active.shield.as_deref();
    let limits = read_limits(&work.host, args.policy.as_deref(), shield, args.given_limits())?;
    let cpus = select_cpus(&work.host, args.cpus.as_ref())?;
    let request = args.request(limits, cpus);
    let (latency, save_error) = measure_latency(&work, &request)?;
    show(ui, &latency, || report::blocks(&latency))?;
    write_files(&work, &request.files, &latency)?;
    if let Some(failure) = save_error {
        if ui.format == OutputFormat::Text {
            ui.line(&latency)?;
        }
        return Err(failure);
    }
    latency_check::check(&latency)
}

fn instrument_parser() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(
        INSTRUMENTS
            .iter()
            .map(|instrument| PossibleValue::new(instrument.name).help(instrument.summary)),
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    #[test]
    fn contradictory_options_are_refused() {
        let args = |line: &str| {
            let words = format!("cpushield latency {line}");
            let cli = super::super::Cli::try_parse_from(words.split(' ')).ok()?;
            let super::super::CliCommand::Latency(args) = cli.command else { panic!("latency") };
            Some(args)
        };
        for line in ["sundial", "timer --thread 0us", "timer --thread 5", "timer --fifo 99"] {
            assert!(args(line).is_none(), "{line}");
        }
        assert!(args("timer --other --fifo 3").is_none());
        assert!(args("timer --other").is_some());
    }
}
