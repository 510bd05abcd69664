//! `stress-ng`: stressors of the user's choice.

use super::hackbench::installed;
use super::{LoadEnvironment, LoadKind, LoadWork, PreparedLoad, ProgramReport};
use crate::load::LoadDoubt;
use cpushield_linux::external_program::{ExternalProgram, MemoryFile};
use cpushield_linux::process;
use std::ffi::OsString;
use std::io;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// SIGINT and SIGTERM: stress-ng ends its stressors, takes its files away, and sums up.
const FINISH: i32 = 2;
const END: i32 = 15;
/// How long it may take to sum up.
const PATIENCE: Duration = Duration::from_secs(20);
/// Words that say what cpushield says itself, or would take the load from its CPUs.
const OURS: &[&str] = &[
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

/// See the file.
#[derive(Debug)]
pub struct StressNgLoad;

impl LoadKind for StressNgLoad {
    fn name(&self) -> &'static str {
        "stress-ng"
    }

    fn summary(&self) -> &'static str {
        "the program stress-ng with stressors of yours: 'stress-ng:--cpu 2 --vm 1'"
    }

    fn page(&self) -> &'static str {
        "Runs stress-ng(1) on the CPUs of the load. Words after a colon are given to it as they \
         are, split at blanks, without a shell: `--load 'stress-ng:--cpu 2 --vm 1'`; without \
         words: a `--cpu` and a `--sock` stressor for each CPU. How long, where its files go and \
         how its figures are reported is set by cpushield, and such words are refused.\n\n\
         Each stressor is a load of its own in the result, in stress-ng's bogo operations: they \
         say how this stressor fared with one setting and another, and nothing else. stress-ng \
         counts all its time, the settling time too.\n\n\
         Some stressors need care: stress-ng(1) tells which of them can harm a system. Stressors \
         that choose their CPUs themselves (--affinity) leave the CPUs of the load; what was seen \
         elsewhere is reported.\n\n\
         Source: stress-ng(1), --metrics and --yaml (0.15)."
    }

    fn unit(&self) -> &'static str {
        "bogo operations"
    }

    fn is_program(&self) -> bool {
        true
    }

    fn possible(&self, site: &LoadEnvironment<'_>) -> Result<(), String> {
        installed(site, "stress-ng", "stress-ng")?;
        let is_ours = |word: &&String| OURS.contains(&word.split('=').next().unwrap_or(word));
        match site.words.iter().find(is_ours) {
            Some(word) => Err(format!("{word} is for cpushield to say; name stressors only")),
            None => Ok(()),
        }
    }

    fn prepare(&self, site: &LoadEnvironment<'_>) -> Result<PreparedLoad, String> {
        self.possible(site)?;
        let cpus = site.cpus.len().to_string();
        let words = match site.words.as_slice() {
            [] => ["--cpu", &cpus, "--sock", &cpus].map(str::to_owned).to_vec(),
            words => words.to_vec(),
        };
        let sheet = MemoryFile::new().map_err(|e| e.to_string())?;
        let line = program(&words, site, &sheet);
        let (tell, told) = channel();
        let pid = Arc::new(AtomicI32::new(0));
        let known = Arc::clone(&pid);
        let work: LoadWork = Box::new(move |_| {
            let hired = ExternalProgram::start(&line, END)?;
            known.store(hired.pid(), Ordering::SeqCst);
            let (status, said) = hired.wait()?;
            known.store(0, Ordering::SeqCst);
            let why = said.lines().rfind(|line| line.contains("error:")).map(str::to_owned);
            // Nobody listens any more when the whole ends.
            let _ = tell.send((status.success(), why));
            match status.success() {
                true => Ok(()),
                false => Err(io::Error::from(io::ErrorKind::InvalidData)),
            }
        });
        let sheet = Arc::new(Mutex::new(sheet));
        Ok(PreparedLoad {
            what: format!("stress-ng {}; it counts all its time", words.join(" ")),
            program: Some(version(site)),
            workers: vec![(None, work)],
            closing: Some(Box::new(move || close(&pid, &told, &sheet))),
        })
    }
}

/// The whole line. `--timeout 0` is for ever.
fn program(words: &[String], site: &LoadEnvironment<'_>, sheet: &MemoryFile) -> Vec<OsString> {
    let mut line: Vec<OsString> =
        ["stress-ng", "--timeout", "0", "--metrics-brief", "--yaml"].map(OsString::from).to_vec();
    line.push(sheet.path().into());
    line.push("--temp-path".into());
    line.push(site.dir.clone().into());
    line.extend(words.iter().map(OsString::from));
    line
}

/// `stress-ng 0.15.06`, or the name alone.
fn version(site: &LoadEnvironment<'_>) -> String {
    let said = site.host.query_program(&["stress-ng", "--version"], b"").ok();
    let text = said.map(|said| String::from_utf8_lossy(&said.out).into_owned()).unwrap_or_default();
    let number = text.split_once("version ").and_then(|(_, rest)| rest.split([' ', '\n']).next());
    number.map_or("stress-ng".to_owned(), |number| format!("stress-ng {number}"))
}

/// Lets it sum up.
fn close(
    pid: &AtomicI32,
    ended: &Receiver<(bool, Option<String>)>,
    sheet: &Mutex<MemoryFile>,
) -> Vec<ProgramReport> {
    let pid = pid.load(Ordering::SeqCst);
    if pid > 0 {
        // When it is gone by now it has ended by itself.
        let _ = process::kill(pid, FINISH);
    }
    let why = match ended.recv_timeout(PATIENCE) {
        Ok((true, _)) => None,
        Ok((false, said)) => Some(LoadDoubt::ProgramFailed { said }),
        Err(_) => return vec![no_figures(LoadDoubt::NotEnded)],
    };
    let text = sheet.lock().unwrap_or_else(PoisonError::into_inner).text().unwrap_or_default();
    let mut told = figures(&text);
    match why {
        Some(why) if told.is_empty() => return vec![no_figures(why)],
        Some(why) => told.iter_mut().for_each(|one| one.doubts.push(why.clone())),
        None if told.is_empty() => return vec![no_figures(LoadDoubt::NoFigures)],
        None => {}
    }
    told
}

/// What it reported nothing of, and why.
fn no_figures(doubt: LoadDoubt) -> ProgramReport {
    ProgramReport { part: None, count: None, span_ns: 0, doubts: vec![doubt] }
}

/// The `metrics` of its YAML: a list of stressors, each a few lines of `key: value`.
fn figures(text: &str) -> Vec<ProgramReport> {
    let mut told: Vec<ProgramReport> = Vec::new();
    let metrics = text.lines().skip_while(|line| line.trim_end() != "metrics:").skip(1);
    for line in metrics.take_while(|line| line.is_empty() || line.starts_with(' ')) {
        let Some((key, value)) = line.trim_start().split_once(':') else { continue };
        let value = value.trim();
        match (key.trim_start_matches("- "), told.last_mut()) {
            ("stressor", _) => told.push(ProgramReport {
                part: Some(value.to_owned()),
                count: None,
                span_ns: 0,
                doubts: Vec::new(),
            }),
            ("bogo-ops", Some(last)) => last.count = value.parse().ok(),
            ("wall-clock-time", Some(last)) => {
                let span = value.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
                last.span_ns =
                    span.map_or(0, |span| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
            }
            _ => {}
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of stress-ng 0.15.06, shortened.
    const YAML: &str = "---\nsystem-info:\n      cpus: 2\n\nmetrics:\n    - stressor: cpu\n      \
        bogo-ops: 866\n      bogo-ops-per-second-usr-sys-time: 2349.309178\n      \
        bogo-ops-per-second-real-time: 430.166787\n      wall-clock-time: 2.013173\n      \
        user-time: 0.365268\n\n    - stressor: sock\n      bogo-ops: 1888\n      \
        wall-clock-time: 2.007318\n\n...\n";

    #[test]
    fn its_figures_are_read_from_its_own_document() {
        let one = |part: &str, count, span_ns| ProgramReport {
            part: Some(part.to_owned()),
            count: Some(count),
            span_ns,
            doubts: Vec::new(),
        };
        let wanted = [one("cpu", 866, 2_013_173_000), one("sock", 1888, 2_007_318_000)];
        assert_eq!(figures(YAML), wanted);
        assert_eq!(figures("---\nsystem-info:\n      cpus: 2\n..."), []);
        let torn = figures("metrics:\n    - stressor: cpu\n      bogo-ops: many\n");
        assert_eq!((torn[0].count, torn[0].span_ns), (None, 0));
    }
}
