//! `cargo xtask vm test`: runs scenarios, several guests at a time, and counts their claims.

use super::claims::{self, ClaimCounts};
use super::scenario::{Scenario, ScenarioGuest};
use super::{VmResult, passes, places, shuffle, stop};
use clap::Args;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, sleep};
use std::time::Instant;

/// Runs all scenarios, or the named ones, in their guests. A guest that dies, hangs, or makes no
/// claim counts as one failure. If one or two guests failed, each runs once more, alone; a guest
/// that then passes is reported as unsteady, and its failures count as skipped. The last line is
/// `N passed, N failed, N skipped`
#[derive(Debug, Args)]
pub struct TestArgs {
    /// The number of guests at a time; a guest with 4 CPUs uses about 1.5 CPUs of the host
    #[arg(long, value_name = "N", default_value_t = 2)]
    jobs: usize,
    /// Also run the slow guests
    #[arg(long)]
    slow: bool,
    /// Leave out guests that passed earlier with the same program and kit, and count their passes.
    /// So a run that was interrupted continues, also on another machine that has its file of passes
    #[arg(long)]
    resume: bool,
    /// Print the whole output of each guest
    #[arg(long, short)]
    verbose: bool,
    /// The program /host/cpushield (default: CPUSHIELD_BINARY, otherwise the newest static build)
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Run the guests in a random order, to find claims that depend on the order; SEED repeats one
    #[arg(long, value_name = "SEED", num_args = 0..=1, require_equals = true)]
    shuffle: Option<Option<u64>>,
    /// Names or files of scenarios; all their guests run, slow ones too
    scenarios: Vec<String>,
}

/// A fault of the emulator says nothing about cpushield. The guest is run again.
const RUNS: usize = 3;
/// A host that stalls for seconds breaks a claim now and then, so a few failed guests run once
/// more, alone. A fault of the tree breaks the second run too, or more guests than these.
const MOST_REPEATED: usize = 2;
/// The exit status of `vm run` after such a fault.
const EMULATOR_FAULT: i32 = 126;
/// Where the logs are, below the directory of the build.
const LOGS: &str = "guests";
const LOGS_AGAIN: &str = "guests/again";

/// A guest that is to run.
#[derive(Debug)]
struct GuestJob {
    scenario: PathBuf,
    guest: ScenarioGuest,
    /// What the reports call it.
    title: String,
    /// What the file of passes calls it.
    key: String,
    /// The claims that it passed in an earlier run.
    earlier: Option<ClaimCounts>,
}

/// The result of a guest's run.
#[derive(Debug)]
struct GuestResult {
    counts: ClaimCounts,
    /// One line, and what else is shown at once.
    report: String,
    /// The failures, which are shown again at the end.
    failures: Option<String>,
}

pub fn run(args: &TestArgs) -> VmResult<ExitCode> {
    let (jobs, left_out) = choose_guests(args)?;
    fs::create_dir_all(places::target().join(LOGS_AGAIN))?;
    let mut results = run_all(args, &jobs);
    let unsteady = repeat_failed(args, &jobs, &mut results);
    if stop::is_requested() {
        return Ok(ExitCode::from(stop::INTERRUPTED));
    }
    let mut counts = ClaimCounts::default();
    let mut failures = Vec::new();
    for result in results.into_values() {
        counts += result.counts;
        failures.extend(result.failures);
    }
    counts.skipped += left_out.len();
    if !left_out.is_empty() {
        let count = left_out.len();
        println!("\n!! NOT RUN: {count} slow guests. Run them with: cargo xtask vm test --slow");
        left_out.iter().for_each(|title| println!("!!   {title}"));
        println!();
    }
    if !unsteady.is_empty() {
        println!("!! UNSTEADY: failed at first, and passed when run again, alone:");
        println!("{}\n", unsteady.join("\n"));
    }
    if !failures.is_empty() {
        println!("Failures:\n{}", failures.join("\n"));
    }
    println!("{counts}");
    Ok(if counts.not_ok == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The guests that run, and the titles of the slow ones that do not.
fn choose_guests(args: &TestArgs) -> VmResult<(Vec<GuestJob>, Vec<String>)> {
    let scenarios = if args.scenarios.is_empty() {
        Scenario::all()?
    } else {
        args.scenarios.iter().map(|name| Scenario::find(name)).collect::<VmResult<Vec<_>>>()?
    };
    let earlier = if args.resume { passes::read(&passes::file()) } else { BTreeMap::new() };
    let binary = args.binary.as_deref();
    let runs_slow = args.slow || !args.scenarios.is_empty();
    let (mut jobs, mut left_out) = (Vec::new(), Vec::new());
    for scenario in scenarios {
        for guest in scenario.guests {
            let title = format!("{} on {}", scenario.name, guest.words);
            if guest.is_slow && !runs_slow {
                left_out.push(title);
            } else {
                let key = passes::key(binary, &title, &scenario.script, &guest.words)?;
                let earlier = earlier.get(&key).copied().filter(|counts| counts.not_ok == 0);
                let scenario = scenario.script.clone();
                jobs.push(GuestJob { scenario, guest, title, key, earlier });
            }
        }
    }
    // A long guest that begins last would run alone. The time limit tells which ones are long.
    jobs.sort_by_key(|job| Reverse(job.guest.line.options.timeout));
    if let Some(seed) = args.shuffle {
        let seed = seed.unwrap_or_else(shuffle::new_seed);
        println!("random order; to repeat it: --shuffle={seed}");
        shuffle::shuffle(&mut jobs, seed);
    }
    Ok((jobs, left_out))
}

/// Runs the guests. Each report is printed when its guest and all before it have ended.
fn run_all(args: &TestArgs, jobs: &[GuestJob]) -> BTreeMap<usize, GuestResult> {
    let next = AtomicUsize::new(0);
    let ended = Mutex::new(EndedGuests::default());
    thread::scope(|scope| {
        for _ in 0..args.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(at) else { return };
                    if stop::is_requested() {
                        return;
                    }
                    let result = match job.earlier {
                        Some(counts) => {
                            let report = format!("{}: {counts}, in an earlier run\n", job.title);
                            GuestResult { counts, report, failures: None }
                        }
                        None => run_guest(args, job, LOGS)
                            .map(|result| keep_result(job, result))
                            .unwrap_or_else(|error| GuestResult::broken(job, &error.to_string())),
                    };
                    ended.lock().unwrap_or_else(PoisonError::into_inner).add(at, result);
                }
            });
        }
    });
    ended.into_inner().unwrap_or_else(PoisonError::into_inner).results
}

/// Runs a few failed guests again, one at a time. Where the second run passes, its result replaces
/// the first one. Returns the failures of those first runs.
fn repeat_failed(
    args: &TestArgs,
    jobs: &[GuestJob],
    results: &mut BTreeMap<usize, GuestResult>,
) -> Vec<String> {
    let failed = failed_guests(results);
    if failed.len() > MOST_REPEATED {
        return Vec::new();
    }
    let mut unsteady = Vec::new();
    for (at, job) in failed.into_iter().filter_map(|at| Some((at, jobs.get(at)?))) {
        if stop::is_requested() {
            break;
        }
        println!("{}: failed, running it again, alone", job.title);
        let second = run_guest(args, job, LOGS_AGAIN)
            .unwrap_or_else(|error| GuestResult::broken(job, &error.to_string()));
        print!("{}", second.report);
        if let Some(first) = results.get_mut(&at)
            && let Some(failures) = first.replace_with(second)
        {
            unsteady.push(failures);
        }
    }
    unsteady
}

fn failed_guests(results: &BTreeMap<usize, GuestResult>) -> Vec<usize> {
    results.iter().filter(|(_, result)| result.counts.not_ok != 0).map(|(&at, _)| at).collect()
}

/// The results of guests that have ended, by their number.
#[derive(Debug, Default)]
struct EndedGuests {
    results: BTreeMap<usize, GuestResult>,
    /// How many have been printed.
    shown: usize,
}

impl EndedGuests {
    /// Adds a result, and prints every one that is next.
    fn add(&mut self, at: usize, result: GuestResult) {
        self.results.insert(at, result);
        while let Some(result) = self.results.get(&self.shown) {
            print!("{}", result.report);
            let _ = std::io::stdout().flush();
            self.shown += 1;
        }
    }
}

impl GuestResult {
    /// Takes the result of a second run that passed. The claims that failed at first count as
    /// skipped; returns what they said. A second run that failed changes nothing.
    fn replace_with(&mut self, mut second: GuestResult) -> Option<String> {
        if second.counts.not_ok != 0 {
            return None;
        }
        second.counts.skipped += self.counts.not_ok;
        std::mem::replace(self, second).failures
    }

    /// A guest that could not be started.
    fn broken(job: &GuestJob, error: &str) -> GuestResult {
        let report = format!("{}: not started: {error}\n", job.title);
        let counts = ClaimCounts { not_ok: 1, ..ClaimCounts::default() };
        GuestResult { counts, failures: Some(report.clone()), report }
    }
}

/// Keeps the result of a guest for `--resume`. That of a second run is not kept.
fn keep_result(job: &GuestJob, mut result: GuestResult) -> GuestResult {
    if !stop::is_requested()
        && let Err(error) = passes::add(&passes::file(), &job.key, result.counts)
    {
        result.report += &format!("{}: the result was not kept: {error}\n", job.title);
    }
    result
}

fn run_guest(args: &TestArgs, job: &GuestJob, logs: &str) -> VmResult<GuestResult> {
    let begin = Instant::now();
    let log = places::target().join(logs).join(log_name(&job.title));
    let mut report = String::new();
    let mut status = None;
    for _ in 0..RUNS {
        status = wait_for(&mut start_guest(args, job, &log)?)?;
        if status != Some(EMULATOR_FAULT) {
            break;
        }
        let output = read_text(&log);
        report += &format!("{}: ended by a fault of the emulator, restarting\n", job.title);
        report += &claims::failures(&output).join("\n");
        report.push('\n');
    }
    let mut counts = claims::count(&read_text(&log));
    // A problem without a failed claim counts as one failure.
    if counts.not_ok == 0 && (status != Some(0) || counts.ok + counts.skipped == 0) {
        let status = status.map_or_else(|| "a signal".to_owned(), |status| status.to_string());
        let mut file = OpenOptions::new().append(true).open(&log)?;
        writeln!(file, "not ok - the guest succeeds and makes a claim (exit status {status})")?;
        counts.not_ok = 1;
    }
    let seconds = begin.elapsed().as_secs();
    let title = &job.title;
    let output = read_text(&log);
    let boot = boot_seconds(&output).map_or_else(String::new, |boot| format!(" ({boot} s boot)"));
    report += &format!("{title}: {counts}, {seconds} s{boot}\n");
    let mut failures = None;
    if args.verbose {
        report += &output;
    }
    if counts.not_ok != 0 {
        let lines = claims::failures(&output).join("\n");
        let place = format!("(the whole log: {})", log.display());
        report += &format!("{lines}\n{place}\n");
        failures = Some(format!("{title}\n{lines}\n{place}"));
    } else if !args.verbose {
        claims::skipped(&output).iter().for_each(|line| report += &format!("{line}\n"));
    }
    Ok(GuestResult { counts, report, failures })
}

/// Starts `vm run` for a guest; its output goes to the log.
fn start_guest(args: &TestArgs, job: &GuestJob, log: &Path) -> VmResult<Child> {
    let output = File::create(log)?;
    let words = shlex::split(&job.guest.words).unwrap_or_default();
    let (kernel, options) = words.split_first().ok_or("a guest needs a kernel")?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["vm", "run", "--times"]).args(options);
    if let Some(binary) = &args.binary {
        command.arg("--binary").arg(binary);
    }
    command.arg(kernel).arg(&job.scenario);
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    Ok(command.spawn()?)
}

/// Waits for a child, and ends it when the task is interrupted. Returns the exit status; `None`
/// means a signal.
fn wait_for(child: &mut Child) -> VmResult<Option<i32>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code());
        }
        if stop::is_requested() {
            stop::terminate(child);
            return Ok(child.wait()?.code());
        }
        sleep(stop::POLL);
    }
}

/// How long the guest took until the script began, from the line of `vm run --times`.
fn boot_seconds(output: &str) -> Option<u64> {
    let times = output.lines().rev().find_map(|line| line.strip_prefix("# times boot_s="))?;
    times.split('.').next()?.parse().ok()
}

fn read_text(file: &Path) -> String {
    String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned()
}

/// A file name for a title: at most 100 characters, of letters, digits, dots and dashes.
fn log_name(title: &str) -> String {
    let words = title.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
    let words = words.filter(|word| !word.is_empty());
    let mut name = words.collect::<Vec<_>>().join("-");
    name.truncate(100);
    name + ".log"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_the_boot_is_read_from_the_log() {
        assert_eq!(boot_seconds("ok - a\n# times boot_s=6.57 guest_s=8.6\n"), Some(6));
        assert_eq!(boot_seconds("# times boot_s=none guest_s=8.6\n"), None);
    }

    fn result(ok: usize, not_ok: usize) -> GuestResult {
        let counts = ClaimCounts { ok, not_ok, ..ClaimCounts::default() };
        let failures = (not_ok != 0).then(|| "not ok - a claim".to_owned());
        GuestResult { counts, report: String::new(), failures }
    }

    #[test]
    fn a_guest_that_passes_the_second_time_is_unsteady_and_not_green() {
        let mut first = result(5, 1);
        assert_eq!(first.replace_with(result(4, 2)), None);
        assert_eq!((first.counts.ok, first.counts.not_ok), (5, 1));
        assert_eq!(first.replace_with(result(6, 0)).as_deref(), Some("not ok - a claim"));
        let ClaimCounts { ok, not_ok, skipped } = first.counts;
        assert_eq!((ok, not_ok, skipped), (6, 0, 1));
    }

    #[test]
    fn a_log_is_named_after_its_guest() {
        assert_eq!(log_name("undo on 6.1-rt --cgroup v1"), "undo-on-6.1-rt-cgroup-v1.log");
    }
}
