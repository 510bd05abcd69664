//! `command`: runs a command of the user's own repeatedly.

use super::hackbench::check_installed;
use super::{LoadEnvironment, LoadKind, LoadRefusal, LoadWork, PreparedLoad, ProgramReport};
use crate::load::LoadDoubt;
use cpushield_linux::processes::external_program::ExternalProgram;
use cpushield_linux::processes::orphans::OrphanTracker;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};

/// SIGKILL, when the process of the load ends without an order.
const KILL_SIGNAL: i32 = 9;

/// The load `command`.
#[derive(Debug)]
pub struct CommandLoad;

impl LoadKind for CommandLoad {
    fn name(&self) -> &'static str {
        "command"
    }

    fn summary(&self) -> &'static str {
        "your own command, for example 'command:make -j4'"
    }

    fn page(&self) -> &'static str {
        "Runs a command of your own on the CPUs of the load: `--load-command 'make -j4'`, or in \
         the file of an experiment `load = [\"command:make -j4\"]`. The shell sh(1) runs it as the \
         user of cpushield, in the same working directory. It starts before the warm-up. When it \
         succeeds, it runs again. After the measurement, cpushield ends it and every process that \
         it has started: with SIGTERM, and after two seconds with SIGKILL.\n\n\
         The count is the number of completed runs. A command that never ends by itself completes \
         none, which raises no doubt. When the command fails, it does not run again, and a doubt \
         reports its status and the last line of its output.\n\n\
         If cpushield itself is killed by SIGKILL, processes that the shell has started may \
         remain.\n\n\
         Source: sh(1), signal(7)."
    }

    fn unit(&self) -> &'static str {
        "runs"
    }

    fn is_program(&self) -> bool {
        true
    }

    fn may_finish_nothing(&self) -> bool {
        true
    }

    fn check_possible(&self, environment: &LoadEnvironment<'_>) -> Result<(), LoadRefusal> {
        check_installed(environment, "sh", "dash")?;
        match environment.arguments.as_slice() {
            [] => Err(LoadRefusal::NoCommand),
            _ => Ok(()),
        }
    }

    fn prepare(&self, environment: &LoadEnvironment<'_>) -> Result<PreparedLoad, LoadRefusal> {
        self.check_possible(environment)?;
        let command = environment.arguments.join(" ");
        let orphans = OrphanTracker::adopt().map_err(LoadRefusal::failed)?;
        let is_ending = Arc::new(AtomicBool::new(false));
        let (failed, failure) = channel();
        let words = ["sh", "-c", &command].map(OsString::from);
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
}

/// Runs the command until it ends.
fn run_once(words: &[OsString]) -> CommandRun {
    match ExternalProgram::start(words, KILL_SIGNAL).and_then(ExternalProgram::wait) {
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
    /// Ends the command with all that it started. Returns a report only if something failed;
    /// otherwise the runs were counted.
    fn finish(self) -> Vec<ProgramReport> {
        self.is_ending.store(true, Ordering::SeqCst);
        let left = self.orphans.end();
        let failed = self.failure.try_iter();
        let mut doubts: Vec<LoadDoubt> =
            failed.map(|message| LoadDoubt::ProgramFailed { message: Some(message) }).collect();
        if !left.running.is_empty() {
            doubts.push(LoadDoubt::NotEnded);
        }
        if doubts.is_empty() {
            return Vec::new();
        }
        vec![ProgramReport { doubts, ..ProgramReport::default() }]
    }
}
