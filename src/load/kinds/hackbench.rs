//! `hackbench`: the program of rt-tests, again and again.

use super::{LoadEnvironment, LoadKind, LoadWork, PreparedLoad, many};
use cpushield_linux::external_program::ExternalProgram;
use std::ffi::OsString;
use std::io;

/// Messages of each pair in one run: a part of a second.
const LOOPS: u64 = 100;
/// Senders of a group and receivers of each: rt-tests' own numbers.
const PAIRS: u64 = 20 * 20;
/// SIGKILL: its threads are one process.
const END: i32 = 9;

/// See the file.
#[derive(Debug)]
pub struct HackbenchLoad;

impl LoadKind for HackbenchLoad {
    fn name(&self) -> &'static str {
        "hackbench"
    }

    fn summary(&self) -> &'static str {
        "the program hackbench (rt-tests), again and again"
    }

    fn page(&self) -> &'static str {
        "Runs `hackbench -T -g GROUPS -l 100` again and again, with a group of 40 threads for \
         each CPU: 40000 messages a group and run. It runs with threads (-T), because then all of \
         it ends with one process, whatever happens. `--load messages` does the same without the \
         program.\n\n\
         Messages of runs that ended count: 20 senders send 100 each to 20 receivers. The run \
         that is interrupted at the end does not.\n\n\
         Source: hackbench(8) and hackbench.c of rt-tests 2.4."
    }

    fn unit(&self) -> &'static str {
        "messages"
    }

    fn is_program(&self) -> bool {
        true
    }

    fn possible(&self, site: &LoadEnvironment<'_>) -> Result<(), String> {
        installed(site, "hackbench", "rt-tests")?;
        match site.words.as_slice() {
            [] => Ok(()),
            words => Err(format!("it takes no arguments: {}", words.join(" "))),
        }
    }

    fn prepare(&self, site: &LoadEnvironment<'_>) -> Result<PreparedLoad, String> {
        self.possible(site)?;
        let groups = site.cpus.len();
        let line = format!("hackbench -T -g {groups} -l {LOOPS}");
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let messages = PAIRS * LOOPS * groups as u64;
        let work: LoadWork = Box::new(move |meter| {
            loop {
                let (status, said) = ExternalProgram::start(&words, END)?.wait()?;
                if !status.success() || !said.contains("Time:") {
                    return Err(io::Error::from(io::ErrorKind::InvalidData));
                }
                meter.add(messages);
            }
        });
        Ok(PreparedLoad {
            what: format!("{} of 40 threads, again and again: {line}", many(groups, "group")),
            program: Some("hackbench".to_owned()),
            workers: vec![(None, work)],
            closing: None,
        })
    }
}

/// Whether a program is there, with the package that has it.
pub(super) fn installed(
    site: &LoadEnvironment<'_>,
    program: &str,
    package: &str,
) -> Result<(), String> {
    match site.host.program(program) {
        Some(_) => Ok(()),
        None => Err(format!("the program {program} is not there; the package {package} has it")),
    }
}
