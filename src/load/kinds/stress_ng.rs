//! `stress-ng`: runs this program with stressors that the user chooses.

use super::hackbench::check_installed;
use super::{LoadEnvironment, LoadKind, LoadRefusal, LoadWork, PreparedLoad, ProgramReport};
use crate::load::LoadDoubt;
use cpushield_linux::processes::external_program::{ExternalProgram, MemoryFile};
use cpushield_linux::processes::process;
use cpushield_linux::sys::clock::nanos;
use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// SIGINT and SIGTERM. At both, stress-ng ends its stressors, removes its files and writes its
/// metrics.
const FINISH_SIGNAL: i32 = 2;
const END_SIGNAL: i32 = 15;
/// How long it may take to write its metrics.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Options that cpushield sets itself, or that would move the load off its CPUs.
const RESERVED_OPTIONS: &[&str] = &[
    "-t",
    "-Y",
    "-q",
    "--timeout",
    "--yaml",
    "--quiet",
    "--taskset",
    "--temp-path",
    "--log-file",
    "--metrics",
    "--metrics-brief",
    "--backoff",
    "--sequential",
];

/// The load `stress-ng`.
#[derive(Debug)]
pub struct StressNgLoad;

impl LoadKind for StressNgLoad {
    fn name(&self) -> &'static str {
        "stress-ng"
    }

    fn summary(&self) -> &'static str {
        "the program stress-ng with your stressors, for example 'stress-ng:--cpu 2 --vm 1'"
    }

    fn page(&self) -> &'static str {
        "Runs stress-ng(1) on the CPUs of the load. The text after the colon is its arguments, \
         split at blanks, without a shell: `--load 'stress-ng:--cpu 2 --vm 1'`. Without arguments, \
         it runs a `--cpu` and a `--sock` stressor for each CPU. cpushield sets the duration, the \
         directory of the files and the format of the metrics, and refuses options that change \
         them. It also refuses `--taskset`, `--sequential` and `--backoff`.\n\n\
         The result has a separate load for each stressor. The count is the number of stress-ng's \
         bogo operations. Use it only to compare the same stressor with different settings. The \
         counts cover all the time that stress-ng runs, including the warm-up.\n\n\
         stress-ng(1) says which stressors can harm a system. Stressors that choose their CPUs \
         themselves (--affinity) leave the CPUs of the load. A doubt then reports on which other \
         CPUs they ran.\n\n\
         Source: stress-ng(1), --metrics and --yaml (0.15)."
    }

    fn unit(&self) -> &'static str {
        "bogo operations"
    }

    fn is_program(&self) -> bool {
        true
    }

    fn check_possible(&self, environment: &LoadEnvironment<'_>) -> Result<(), LoadRefusal> {
        check_installed(environment, "stress-ng", "stress-ng")?;
        match environment.arguments.iter().find(|argument| is_reserved(argument)) {
            Some(argument) => Err(LoadRefusal::ReservedArgument { argument: argument.clone() }),
            None => Ok(()),
        }
    }

    fn prepare(&self, environment: &LoadEnvironment<'_>) -> Result<PreparedLoad, LoadRefusal> {
        self.check_possible(environment)?;
        let cpus = environment.cpus.len().to_string();
        let arguments = match environment.arguments.as_slice() {
            [] => ["--cpu", &cpus, "--sock", &cpus].map(str::to_owned).to_vec(),
            arguments => arguments.to_vec(),
        };
        let metrics = MemoryFile::new().map_err(LoadRefusal::failed)?;
        let line = build_command_line(&arguments, environment, &metrics);
        let (result_sender, result) = channel();
        let pid = Arc::new(AtomicI32::new(0));
        let running = RunningProgram { pid: Arc::clone(&pid), result, metrics };
        let work: LoadWork = Box::new(move |_| run_program(&line, &pid, &result_sender));
        Ok(PreparedLoad {
            what: format!("stress-ng {}; its counts include the warm-up", arguments.join(" ")),
            program: Some(read_version(environment)),
            workers: vec![(None, work)],
            finish: Some(Box::new(move || running.finish())),
        })
    }
}

/// Whether cpushield sets this option itself: `--timeout=5`.
fn is_reserved(argument: &str) -> bool {
    RESERVED_OPTIONS.contains(&argument.split('=').next().unwrap_or(argument))
}

/// Builds the whole command line. `--timeout 0` runs it without an end.
fn build_command_line(
    arguments: &[String],
    environment: &LoadEnvironment<'_>,
    metrics: &MemoryFile,
) -> Vec<OsString> {
    let mut line: Vec<OsString> =
        ["stress-ng", "--timeout", "0", "--metrics-brief", "--yaml"].map(OsString::from).to_vec();
    line.push(metrics.path().into());
    line.push("--temp-path".into());
    line.push(environment.dir.clone().into());
    line.extend(arguments.iter().map(OsString::from));
    line
}

/// Reads the version: `stress-ng 0.15.06`, or the name alone when it is unknown.
fn read_version(environment: &LoadEnvironment<'_>) -> String {
    let answer = environment.host.query_program(&["stress-ng", "--version"], b"").ok();
    let text =
        answer.map(|answer| String::from_utf8_lossy(&answer.out).into_owned()).unwrap_or_default();
    let number = text.split_once("version ").and_then(|(_, rest)| rest.split([' ', '\n']).next());
    number.map_or("stress-ng".to_owned(), |number| format!("stress-ng {number}"))
}

/// How the program ended.
#[derive(Debug)]
enum ProgramResult {
    /// With success.
    Succeeded,
    /// With an error, and its message if it wrote one.
    Failed(Option<String>),
}

/// Runs the program until it ends.
fn run_program(
    line: &[OsString],
    pid: &AtomicI32,
    result: &Sender<ProgramResult>,
) -> io::Result<()> {
    let program = ExternalProgram::start(line, END_SIGNAL)?;
    pid.store(program.pid(), Ordering::SeqCst);
    let (status, output) = program.wait()?;
    pid.store(0, Ordering::SeqCst);
    // Sending fails when the load has ended, and then the result does not matter.
    if status.success() {
        let _ = result.send(ProgramResult::Succeeded);
        return Ok(());
    }
    let message = output.lines().rfind(|line| line.contains("error:")).map(str::to_owned);
    let _ = result.send(ProgramResult::Failed(message));
    Err(io::Error::from(io::ErrorKind::InvalidData))
}

/// The running program, as the main thread of the load sees it.
struct RunningProgram {
    /// Its number; 0 when it does not run.
    pid: Arc<AtomicI32>,
    result: Receiver<ProgramResult>,
    metrics: MemoryFile,
}

impl RunningProgram {
    /// Ends the program and returns its figures.
    fn finish(mut self) -> Vec<ProgramReport> {
        let pid = self.pid.load(Ordering::SeqCst);
        if pid > 0 {
            // This fails if the program has ended by itself.
            let _ = process::kill(pid, FINISH_SIGNAL);
        }
        let doubt = match self.result.recv_timeout(TIMEOUT) {
            Ok(ProgramResult::Succeeded) => None,
            Ok(ProgramResult::Failed(message)) => Some(LoadDoubt::ProgramFailed { message }),
            Err(_) => return vec![report_without_figures(LoadDoubt::NotEnded)],
        };
        let mut reports = parse_metrics(&self.metrics.text().unwrap_or_default());
        if reports.is_empty() {
            return vec![report_without_figures(doubt.unwrap_or(LoadDoubt::NoFigures))];
        }
        reports.iter_mut().for_each(|report| report.doubts.extend(doubt.clone()));
        reports
    }
}

/// Makes the report of a program that returned no figures.
fn report_without_figures(doubt: LoadDoubt) -> ProgramReport {
    ProgramReport { part: None, count: None, span_ns: 0, doubts: vec![doubt] }
}

/// Parses the `metrics` of its YAML: a list of stressors, each with some lines of `key: value`.
fn parse_metrics(text: &str) -> Vec<ProgramReport> {
    let mut reports: Vec<ProgramReport> = Vec::new();
    let metrics = text.lines().skip_while(|line| line.trim_end() != "metrics:").skip(1);
    for line in metrics.take_while(|line| line.is_empty() || line.starts_with(' ')) {
        let Some((key, value)) = line.trim_start().split_once(':') else { continue };
        let value = value.trim();
        match (key.trim_start_matches("- "), reports.last_mut()) {
            ("stressor", _) => reports.push(ProgramReport {
                part: Some(value.to_owned()),
                count: None,
                span_ns: 0,
                doubts: Vec::new(),
            }),
            ("bogo-ops", Some(last)) => last.count = value.parse().ok(),
            ("wall-clock-time", Some(last)) => {
                let span = value.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
                last.span_ns = span.map_or(0, nanos);
            }
            _ => {}
        }
    }
    reports
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of stress-ng 0.15.06, shortened.
    const YAML: &str = "---\nsystem-info:\n      cpus: 2\n\nmetrics:\n    - stressor: cpu\n      \
        bogo-ops: 866\n      bogo-ops-per-second-usr-sys-time: 2349.309178\n      \
        bogo-ops-per-second-real-time: 430.166787\n      wall-clock-time: 2.013173\n      \
        user-time: 0.365268\n\n    - stressor: sock\n      bogo-ops: 1888\n      \
        wall-clock-time: 2.007318\n\n...\n";

    #[test]
    fn the_figures_of_each_stressor_are_parsed() {
        let report = |part: &str, count, span_ns| ProgramReport {
            part: Some(part.to_owned()),
            count: Some(count),
            span_ns,
            doubts: Vec::new(),
        };
        let wanted = [report("cpu", 866, 2_013_173_000), report("sock", 1888, 2_007_318_000)];
        assert_eq!(parse_metrics(YAML), wanted);
        assert_eq!(parse_metrics("---\nsystem-info:\n      cpus: 2\n..."), []);
        let torn = parse_metrics("metrics:\n    - stressor: cpu\n      bogo-ops: many\n");
        assert_eq!((torn[0].count, torn[0].span_ns), (None, 0));
    }
}
