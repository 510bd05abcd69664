//! The kinds of load, one file each. A load that cannot run says why; it never counts work that it
//! did not do.

mod command;
mod disk;
mod fork;
mod interrupts;
mod memory;
mod messages;
mod network;
mod timers;

use super::{LoadDoubt, LoadRefusal};
use crate::documents::load_refusal::format_bytes;
use crate::registry::{self, ExplainPage, ExplainedEntry, RegistryEntry};
use cpushield_linux::shared_memory::progress_counter::ProgressCounter;
use cpushield_linux::{CpuSet, Host};
use std::fmt;
use std::io;
use std::path::PathBuf;

/// All kinds, in the order of the help: first those of cpushield itself, then other programs.
pub const KINDS: &[&LoadKind] = &[
    &messages::MESSAGES,
    &memory::MEMORY,
    &disk::DISK,
    &network::NETWORK,
    &fork::FORK,
    &timers::TIMERS,
    &interrupts::INTERRUPTS,
    &command::STRESS_NG,
    &command::HACKBENCH,
    &command::COMMAND,
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
    /// Ends a program, and returns what failed; `None` for a load of cpushield itself.
    pub finish: Option<Box<dyn FnOnce() -> Vec<LoadDoubt>>>,
}

impl fmt::Debug for PreparedLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} workers)", self.what, self.workers.len())
    }
}

/// A way to keep a machine busy.
pub struct LoadKind {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in one phrase.
    pub summary: &'static str,
    /// What it does and which parts of the machine it keeps busy, with sources.
    pub page: &'static str,
    /// The unit of its count.
    pub unit: &'static str,
    /// Whether it is another program, which `--load all` does not start. It may run until the end
    /// without completing anything.
    pub is_program: bool,
    /// Whether each CPU gets a separate process, because threads of one process would wait for each
    /// other.
    pub needs_process_per_cpu: bool,
    /// Reads the kernel's count of its work on these CPUs, if the kernel has one; `None` where the
    /// workers count.
    pub read_count: Option<fn(&Host, &CpuSet) -> Option<u64>>,
    /// Why it cannot run there.
    pub check_possible: fn(&LoadEnvironment<'_>) -> Result<(), LoadRefusal>,
    /// Prepares it in a separate process, which still has a single thread; or why it cannot run.
    pub prepare: fn(&LoadEnvironment<'_>) -> Result<PreparedLoad, LoadRefusal>,
}

impl LoadKind {
    /// What most loads are like.
    const PLAIN: LoadKind = LoadKind {
        name: "",
        summary: "",
        page: "",
        unit: "",
        is_program: false,
        needs_process_per_cpu: false,
        read_count: None,
        check_possible: |_| Ok(()),
        prepare: |_| Ok(prepare_own(String::new(), Vec::new())),
    };
}

impl fmt::Debug for LoadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl RegistryEntry for &'static LoadKind {
    fn key(self) -> &'static str {
        self.name
    }
}

impl ExplainedEntry for &'static LoadKind {
    fn explain(self) -> ExplainPage {
        // A cause may have the same name.
        let name = format!("load-{}", self.name);
        ExplainPage::new("load", name, self.summary, self.page)
    }
}

/// Finds the kind of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static LoadKind> {
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
        let names: BTreeSet<&str> = KINDS.iter().map(|one| one.name).collect();
        assert_eq!(names.len(), KINDS.len());
        for kind in KINDS {
            assert!(named(kind.name).is_some());
            assert!(kind.page.contains("Source"), "{}", kind.name);
        }
        assert!(named("sundial").is_none() && named("all").is_none());
    }
}
