//! `hackbench`: runs this program of rt-tests repeatedly.

use super::{LoadEnvironment, LoadKind, LoadRefusal, LoadWork, PreparedLoad};
use crate::documents::count_text::many;
use cpushield_linux::processes::external_program::ExternalProgram;
use std::ffi::OsString;
use std::io;

/// Messages of each pair in one run, which takes less than a second.
const MESSAGES: u64 = 100;
/// Pairs of a sender and a receiver in a group, by the defaults of rt-tests.
const PAIRS: u64 = 20 * 20;
/// SIGKILL. It ends the whole load, because all threads are in one process.
const KILL_SIGNAL: i32 = 9;

/// The load `hackbench`.
#[derive(Debug)]
pub struct HackbenchLoad;

impl LoadKind for HackbenchLoad {
    fn name(&self) -> &'static str {
        "hackbench"
    }

    fn summary(&self) -> &'static str {
        "the program hackbench from rt-tests, run repeatedly"
    }

    fn page(&self) -> &'static str {
        "Runs `hackbench -T -g GROUPS -l 100` repeatedly, with a group of 40 threads for each CPU: \
         40000 messages per group in each run. With -T all threads are in one process, so killing \
         that process ends them all. `--load messages` is similar and does not need the \
         program.\n\n\
         The count is the number of messages of completed runs: in each group, 20 senders send 100 \
         messages to each of 20 receivers. The run in progress at the end is not \
         counted.\n\n\
         Source: hackbench(8) and hackbench.c of rt-tests 2.4."
    }

    fn unit(&self) -> &'static str {
        "messages"
    }

    fn is_program(&self) -> bool {
        true
    }

    fn check_possible(&self, environment: &LoadEnvironment<'_>) -> Result<(), LoadRefusal> {
        check_installed(environment, "hackbench", "rt-tests")?;
        match environment.arguments.as_slice() {
            [] => Ok(()),
            arguments => Err(LoadRefusal::TakesNoArguments { arguments: arguments.to_vec() }),
        }
    }

    fn prepare(&self, environment: &LoadEnvironment<'_>) -> Result<PreparedLoad, LoadRefusal> {
        self.check_possible(environment)?;
        let groups = environment.cpus.len();
        let line = format!("hackbench -T -g {groups} -l {MESSAGES}");
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let messages = PAIRS * MESSAGES * groups as u64;
        let work: LoadWork = Box::new(move |counter| {
            loop {
                let (status, output) = ExternalProgram::start(&words, KILL_SIGNAL)?.wait()?;
                if !status.success() || !output.contains("Time:") {
                    return Err(io::Error::from(io::ErrorKind::InvalidData));
                }
                counter.add(messages);
            }
        });
        Ok(PreparedLoad {
            what: format!("{} of 40 threads, run repeatedly: {line}", many(groups, "group")),
            program: Some("hackbench".to_owned()),
            workers: vec![(None, work)],
            finish: None,
        })
    }
}

/// Checks that a program is installed. The error names its package.
pub(super) fn check_installed(
    environment: &LoadEnvironment<'_>,
    program: &str,
    package: &str,
) -> Result<(), LoadRefusal> {
    match environment.host.program(program) {
        Some(_) => Ok(()),
        None => {
            let (program, package) = (program.to_owned(), package.to_owned());
            Err(LoadRefusal::NotInstalled { program, package })
        }
    }
}
