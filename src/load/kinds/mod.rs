//! The kinds of load, one file each. A load that cannot run says why; it never counts work that it
//! did not do.

mod command;
mod disk;
mod fork;
mod hackbench;
mod interrupts;
mod memory;
mod messages;
mod network;
mod stress_ng;
mod timers;

use super::{LoadDoubt, LoadRefusal};
use crate::documents::load_refusal::format_bytes;
use crate::registry::{self, ExplainPage, ExplainedEntry, RegistryEntry};
use cpushield_linux::shared_memory::progress_counter::ProgressCounter;
use cpushield_linux::{CpuSet, Host};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::PathBuf;

/// All kinds, in the order of the help: first those of cpushield itself, then other programs.
pub const KINDS: &[&dyn LoadKind] = &[
    &messages::MessageLoad,
    &memory::MemoryLoad,
    &disk::DiskLoad,
    &network::NetworkLoad,
    &fork::ForkLoad,
    &timers::TimerLoad,
    &interrupts::InterruptLoad,
    &stress_ng::StressNgLoad,
    &hackbench::HackbenchLoad,
    &command::CommandLoad,
];

/// Where a load runs, and its arguments.
#[derive(Debug)]
pub struct LoadEnvironment<'a> {
    /// The machine.
    pub host: &'a Host,
    /// The CPUs of the load.
    pub cpus: CpuSet,
    /// The directory for temporary files.
    pub dir: PathBuf,
    /// The user's arguments for a program.
    pub arguments: Vec<String>,
}

/// The work of one thread. It counts what it does, and continues until the process ends.
pub type LoadWork = Box<dyn FnOnce(&ProgressCounter) -> io::Result<()> + Send>;

/// A load that is ready to start.
pub struct PreparedLoad {
    /// A description of what it will do, with sizes and counts.
    pub what: String,
    /// The program that runs; `None` for a load of cpushield itself.
    pub program: Option<String>,
    /// Its threads: the CPU of each, or `None` for any CPU of the load, and the work.
    pub workers: Vec<(Option<usize>, LoadWork)>,
    /// Ends a program that counts its own work, and returns its figures; `None` where the workers
    /// count.
    pub finish: Option<Box<dyn FnOnce() -> Vec<ProgramReport>>>,
}

impl fmt::Debug for PreparedLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} workers)", self.what, self.workers.len())
    }
}

/// The figures of a load, or of one part of a program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramReport {
    /// The part of the program; `None` for all of it.
    pub part: Option<String>,
    /// The amount of work; `None` with a doubt.
    pub count: Option<u64>,
    /// The counted time in nanoseconds.
    pub span_ns: u64,
    /// Reasons to doubt the figures.
    pub doubts: Vec<LoadDoubt>,
}

/// The source of a load's count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountSource {
    /// Its workers count.
    Workers,
    /// The kernel counts; `None` where it has no counter.
    Kernel(Option<u64>),
}

/// A way to keep a machine busy.
pub trait LoadKind: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// What it does, in one phrase.
    fn summary(&self) -> &'static str;

    /// What it does and which parts of the machine it keeps busy, with sources.
    fn page(&self) -> &'static str;

    /// The unit of its count.
    fn unit(&self) -> &'static str;

    /// Whether it is another program, which `--load all` does not start.
    fn is_program(&self) -> bool {
        false
    }

    /// Whether it may run until the end without completing anything.
    fn may_finish_nothing(&self) -> bool {
        false
    }

    /// Whether each CPU gets a separate process, because threads of one process would wait for each
    /// other.
    fn needs_process_per_cpu(&self) -> bool {
        false
    }

    /// Reads what it has done so far on these CPUs, where the workers do not count.
    fn read_count(&self, _host: &Host, _cpus: &CpuSet) -> CountSource {
        CountSource::Workers
    }

    /// Checks that it can run there.
    ///
    /// # Errors
    /// Why it cannot.
    fn check_possible(&self, _environment: &LoadEnvironment<'_>) -> Result<(), LoadRefusal> {
        Ok(())
    }

    /// Prepares it in a separate process, which still has a single thread.
    ///
    /// # Errors
    /// Why it cannot.
    fn prepare(&self, environment: &LoadEnvironment<'_>) -> Result<PreparedLoad, LoadRefusal>;
}

impl fmt::Debug for dyn LoadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl RegistryEntry for &'static dyn LoadKind {
    fn key(self) -> &'static str {
        self.name()
    }
}

impl ExplainedEntry for &'static dyn LoadKind {
    fn explain(self) -> ExplainPage {
        // A cause may have the same name.
        let name = format!("load-{}", self.name());
        ExplainPage::new("load", name, self.summary(), self.page())
    }
}

/// Finds the kind of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static dyn LoadKind> {
    registry::find(KINDS, name)
}

/// Makes a load of cpushield itself, whose workers count.
fn prepare_own(what: String, workers: Vec<(Option<usize>, LoadWork)>) -> PreparedLoad {
    PreparedLoad { what, program: None, workers, finish: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_kind_has_a_unique_name_and_a_page_with_a_source() {
        let names: BTreeSet<&str> = KINDS.iter().map(|one| one.name()).collect();
        assert_eq!(names.len(), KINDS.len());
        for kind in KINDS {
            assert!(named(kind.name()).is_some());
            assert!(kind.page().contains("Source"), "{}", kind.name());
        }
        assert!(named("sundial").is_none() && named("all").is_none());
    }
}
