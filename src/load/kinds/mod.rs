//! The kinds of load: what a machine is made busy with, one file each. One that cannot run says
//! why; it never counts what it did not do.

mod disk;
mod fork;
mod hackbench;
mod interrupts;
mod memory;
mod messages;
mod network;
mod stress_ng;
mod timers;

use super::LoadDoubt;
use cpushield_linux::progress_counter::ProgressCounter;
use cpushield_linux::{CpuSet, Host};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Every kind, in the order of the help: those of cpushield itself, then programs of others.
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
];

/// Where a load works, and with what.
#[derive(Debug)]
pub struct LoadEnvironment<'a> {
    /// The machine.
    pub host: &'a Host,
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Where files for a moment belong.
    pub dir: PathBuf,
    /// The words of the user's for a program.
    pub words: Vec<String>,
}

/// The work of one thread: it counts what it does, and goes on until the process ends.
pub type LoadWork = Box<dyn FnOnce(&ProgressCounter) -> io::Result<()> + Send>;

/// A load that is about to begin.
pub struct PreparedLoad {
    /// What it will do, with its amounts.
    pub what: String,
    /// The program that does it; `None` for this one.
    pub program: Option<String>,
    /// What its threads do, and on which CPU; `None`: on any of its CPUs.
    pub workers: Vec<(Option<usize>, LoadWork)>,
    /// Ends it and says what it did, where the meters do not.
    pub closing: Option<Box<dyn FnOnce() -> Vec<ProgramReport>>>,
}

impl fmt::Debug for PreparedLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} workers)", self.what, self.workers.len())
    }
}

/// What a program says that it did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProgramReport {
    /// Which part of it.
    pub part: Option<String>,
    /// How much; `None` with a doubt.
    pub count: Option<u64>,
    /// In which time.
    pub span_ns: u64,
    /// What is wrong with it.
    pub doubts: Vec<LoadDoubt>,
}

/// What counts what a load did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountSource {
    /// Its own meters.
    Meters,
    /// The kernel alone, with its count; `None` where the kernel does not say.
    Kernel(Option<u64>),
}

/// A way to make a machine busy.
pub trait LoadKind: Sync {
    /// The word for it on the command line.
    fn name(&self) -> &'static str;

    /// What it does, in one sentence.
    fn summary(&self) -> &'static str;

    /// What it does and what of the machine it makes busy, with sources.
    fn page(&self) -> &'static str;

    /// What is counted.
    fn unit(&self) -> &'static str;

    /// Whether it is a program of others, which `--load all` does not start.
    fn is_program(&self) -> bool {
        false
    }

    /// Whether each CPU gets a process of its own, because threads of one would wait for each
    /// other.
    fn is_alone(&self) -> bool {
        false
    }

    /// What counts what it did until now on these CPUs.
    fn counted(&self, _host: &Host, _cpus: &CpuSet) -> CountSource {
        CountSource::Meters
    }

    /// Why it cannot run there.
    ///
    /// # Errors
    /// One sentence.
    fn possible(&self, _site: &LoadEnvironment<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Makes ready what it needs, in a process of its own that has one thread yet.
    ///
    /// # Errors
    /// One sentence.
    fn prepare(&self, site: &LoadEnvironment<'_>) -> Result<PreparedLoad, String>;
}

impl fmt::Debug for dyn LoadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The kind of this name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static dyn LoadKind> {
    KINDS.iter().copied().find(|kind| kind.name() == name)
}

/// A load of this program.
fn own(what: String, workers: Vec<(Option<usize>, LoadWork)>) -> PreparedLoad {
    PreparedLoad { what, program: None, workers, closing: None }
}

/// `4 threads`, `1 thread`.
fn many(count: usize, word: &str) -> String {
    match count {
        1 => format!("1 {word}"),
        _ => format!("{count} {word}s"),
    }
}

/// Bytes in whole units.
fn size(bytes: u64) -> String {
    match bytes {
        1_048_576.. => format!("{} MiB", bytes >> 20),
        _ => format!("{} KiB", bytes >> 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpushield_linux::progress_counter::{ProgressCounters, WorkerState};
    use cpushield_linux::sched;
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    #[test]
    fn every_kind_has_a_name_of_its_own_and_a_page_with_a_source() {
        let names: BTreeSet<&str> = KINDS.iter().map(|one| one.name()).collect();
        assert_eq!(names.len(), KINDS.len());
        for kind in KINDS {
            assert!(by_name(kind.name()).is_some());
            assert!(kind.page().contains("Source"), "{}", kind.name());
        }
        assert!(by_name("sundial").is_none() && by_name("all").is_none());
    }

    /// How often each kind makes its kernel do what it counts is in `tests/load.rs`.
    #[test]
    fn every_worker_of_every_kind_works() {
        let host = Host::live();
        let dir = std::env::temp_dir();
        for kind in KINDS.iter().filter(|kind| !kind.is_program()) {
            let cpus = sched::affinity(0).unwrap();
            let site = LoadEnvironment { host: &host, cpus, dir: dir.clone(), words: Vec::new() };
            if kind.possible(&site).is_err() {
                continue;
            }
            let ready = kind.prepare(&site).unwrap();
            let meters = Arc::new(ProgressCounters::new(ready.workers.len()).unwrap());
            for (i, (_, work)) in ready.workers.into_iter().enumerate() {
                let meters = Arc::clone(&meters);
                std::thread::spawn(move || meters.get(i).unwrap().work(work));
            }
            let until = Instant::now() + Duration::from_secs(20);
            let idle =
                || meters.each().filter(|meter| meter.state() != WorkerState::Working).count();
            while (idle() > 0 || meters.total() < 50) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(idle() == 0 && meters.total() >= 50, "{kind:?}: {meters:?}");
        }
    }
}
