//! Programs that run repeatedly: a command of the user's own, stress-ng and hackbench.

use super::{LoadEnvironment, LoadKind, LoadRefusal, LoadWork, PreparedLoad};
use crate::load::LoadDoubt;
use cpushield_linux::processes::external_program::ExternalProgram;
use cpushield_linux::processes::orphans::OrphanTracker;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};

pub(super) const COMMAND: LoadKind = LoadKind {
    name: "command",
    summary: "your own command, for example 'command:make -j4'",
    page: "Runs a command of your own on the CPUs of the load: `--load-command 'make -j4'`, or \
         in the file of an experiment `load = [\"command:make -j4\"]`. The shell sh(1) runs \
         it as the user of cpushield, in the same working directory. It starts before the \
         warm-up. When it succeeds, it runs again. After the measurement, cpushield ends it \
         and every process that it has started: with SIGTERM, and after two seconds with \
         SIGKILL.\n\n\
         The count is the number of completed runs. A command that never ends by itself \
         completes none, which raises no doubt. When the command fails, it does not run \
         again, and a doubt reports its status and the last line of its output.\n\n\
         If cpushield itself is killed by SIGKILL, processes that the shell has started may \
         remain.\n\n\
         Source: sh(1), signal(7).",
    check_possible: |environment| match environment.arguments.as_slice() {
        [] => Err(LoadRefusal::NoCommand),
        _ => check_installed(environment, "sh", "dash"),
    },
    prepare: |environment| {
        let command = environment.arguments.join(" ");
        let words = ["sh", "-c", &command].map(OsString::from).to_vec();
        prepare(command, words)
    },
    ..PROGRAM
};

pub(super) const STRESS_NG: LoadKind = LoadKind {
    name: "stress-ng",
    summary: "the program stress-ng with your stressors, for example 'stress-ng:--cpu 2 --vm 1'",
    page: "Runs stress-ng(1) as `--load-command` runs a command, but without a shell. The text \
         after the colon is its arguments: `--load 'stress-ng:--cpu 2 --vm 1'`. Without \
         arguments, it runs a `--cpu` and a `--sock` stressor for each CPU.\n\n\
         Without `--timeout`, it never ends by itself, so there is no count.\n\n\
         stress-ng(1) says which stressors can harm a system. Stressors that choose their \
         CPUs themselves (--affinity, --taskset) leave the CPUs of the load. A doubt then \
         reports on which other CPUs they ran.\n\n\
         Source: stress-ng(1).",
    check_possible: |environment| check_installed(environment, "stress-ng", "stress-ng"),
    prepare: |environment| {
        let cpus = environment.cpus.len();
        let default = format!("--cpu {cpus} --sock {cpus}");
        prepare_program("stress-ng --timeout 0", &default, environment)
    },
    ..PROGRAM
};

pub(super) const HACKBENCH: LoadKind = LoadKind {
    name: "hackbench",
    summary: "the program hackbench from rt-tests, run repeatedly",
    page: "Runs hackbench(8) as `--load-command` runs a command, but without a shell. Without \
         arguments after a colon, it is `hackbench -T -g GROUPS -l 100`, with a group of 40 \
         threads for each CPU: 40000 messages per group in each run. `--load messages` is \
         similar and does not need the program.\n\n\
         The count is the number of completed runs.\n\n\
         Source: hackbench(8) of rt-tests 2.4.",
    check_possible: |environment| check_installed(environment, "hackbench", "rt-tests"),
    prepare: |environment| {
        let default = format!("-T -g {} -l 100", environment.cpus.len());
        prepare_program("hackbench", &default, environment)
    },
    ..PROGRAM
};

/// What they have in common.
const PROGRAM: LoadKind = LoadKind { unit: "runs", is_program: true, ..LoadKind::PLAIN };

/// Checks that a program is installed. The error names its package.
fn check_installed(
    environment: &LoadEnvironment<'_>,
    program: &str,
    package: &str,
) -> Result<(), LoadRefusal> {
    let (name, package) = (program.to_owned(), package.to_owned());
    let refusal = LoadRefusal::NotInstalled { program: name, package };
    environment.host.program(program).map(drop).ok_or(refusal)
}

/// Prepares a program with the user's arguments; with the default ones if there are none. Without
/// a shell between, it gets the signal when cpushield is killed.
fn prepare_program(
    program: &str,
    default: &str,
    environment: &LoadEnvironment<'_>,
) -> Result<PreparedLoad, LoadRefusal> {
    let command = match environment.arguments.as_slice() {
        [] => format!("{program} {default}"),
        arguments => format!("{program} {}", arguments.join(" ")),
    };
    let words = command.split(' ').map(OsString::from).collect();
    prepare(command, words)
}

/// Prepares to run these words repeatedly, which are this command.
fn prepare(command: String, words: Vec<OsString>) -> Result<PreparedLoad, LoadRefusal> {
    let orphans = OrphanTracker::adopt().map_err(LoadRefusal::failed)?;
    let is_ending = Arc::new(AtomicBool::new(false));
    let (failed, failure) = channel();
    let ending = Arc::clone(&is_ending);
    let work: LoadWork = Box::new(move |counter| {
        while !ending.load(Ordering::SeqCst) {
            match run_once(&words) {
                CommandRun::Succeeded => counter.add(1),
                // After the order to end, a failure is expected.
                CommandRun::Failed(_) if ending.load(Ordering::SeqCst) => break,
                CommandRun::Failed(message) => {
                    // The other end may be gone, and then the message does not matter.
                    let _ = failed.send(message);
                    break;
                }
            }
        }
        // A thread that ended would be a second doubt about the same failure.
        loop {
            std::thread::park();
        }
    });
    let running = RunningCommand { orphans, is_ending, failure };
    Ok(PreparedLoad {
        what: format!("run repeatedly: {command}"),
        program: Some(command),
        workers: vec![(None, work)],
        finish: Some(Box::new(move || running.finish())),
    })
}

/// Runs the command until it ends.
fn run_once(words: &[OsString]) -> CommandRun {
    match ExternalProgram::start(words).and_then(ExternalProgram::wait) {
        Ok((status, _)) if status.success() => CommandRun::Succeeded,
        Ok((status, output)) => {
            let last = output.lines().rfind(|line| !line.trim().is_empty());
            let status = status.to_string();
            CommandRun::Failed(
                last.map_or(status.clone(), |line| format!("{status}: {}", line.trim())),
            )
        }
        Err(error) => CommandRun::Failed(error.to_string()),
    }
}

/// One run of the command.
enum CommandRun {
    /// It ended without an error.
    Succeeded,
    /// It failed: its status and the last line of its output, or the kernel's answer.
    Failed(String),
}

/// The running command, as the main thread of the load sees it.
struct RunningCommand {
    orphans: OrphanTracker,
    is_ending: Arc<AtomicBool>,
    failure: Receiver<String>,
}

impl RunningCommand {
    /// Ends the command with all that it started. Returns what failed.
    fn finish(self) -> Vec<LoadDoubt> {
        self.is_ending.store(true, Ordering::SeqCst);
        let left = self.orphans.end();
        let failed = self.failure.try_iter();
        let mut doubts: Vec<LoadDoubt> =
            failed.map(|message| LoadDoubt::ProgramFailed { message: Some(message) }).collect();
        if !left.running.is_empty() {
            doubts.push(LoadDoubt::NotEnded);
        }
        doubts
    }
}
