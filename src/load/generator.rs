//! The processes that generate the load: one for each kind, or one for each CPU of a kind whose
//! threads would otherwise wait for each other. So what one load does to its memory does not delay
//! another. [`LoadGenerator`] sends requests, and [`serve`] answers them.

use super::kinds::{self, LoadEnvironment, LoadKind, LoadWork};
use super::order::{LoadError, LoadRequest, WantedLoad};
use super::{LoadDone, LoadDoubt, LoadRefusal};
use crate::documents::load_done::SkippedLoad;
use crate::worker::{self, WorkerClient, WorkerFailure, WorkerProtocol};
use cpushield_linux::shared_memory::progress_counter::{ProgressCounters, WorkerState};
use cpushield_linux::sys::clock::monotonic_ns;
use cpushield_linux::{CpuSet, Host, Task, sys::sched};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// The timeout of an answer: a slow disk first has to store a whole file.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The stack of a worker, whose calls are few and shallow.
const STACK_BYTES: usize = 256 << 10;
/// How many generations of child processes belong to a load.
const GENERATIONS: usize = 3;

/// A request to the process of a load.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum LoadCommand {
    Start { kind: String, arguments: Vec<String>, cpus: CpuSet, dir: PathBuf },
    Go,
    End,
}

/// Its reply.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum LoadReply {
    Ready { board: i32, workers: usize, description: LoadDescription, allowed: CpuSet },
    Going,
    Done { doubts: Vec<LoadDoubt> },
}

impl From<WorkerFailure> for LoadRefusal {
    fn from(failure: WorkerFailure) -> LoadRefusal {
        LoadRefusal::NoAnswer { failure: failure.to_string() }
    }
}

/// The process of a load as a worker.
#[derive(Debug)]
pub(crate) struct LoadProtocol;

impl WorkerProtocol for LoadProtocol {
    const SUBCOMMAND: &'static str = "__work";
    const TIMEOUT: Duration = TIMEOUT;
    type Request = LoadCommand;
    type Reply = LoadReply;
    type Failure = LoadRefusal;

    fn is_last(reply: &LoadReply) -> bool {
        matches!(reply, LoadReply::Done { .. })
    }
}

/// What a load does, and with which program.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct LoadDescription {
    what: String,
    program: Option<String>,
}

/// The loads of a measurement.
#[derive(Debug)]
pub struct LoadGenerator {
    cpus: CpuSet,
    loads: Vec<LoadInstance>,
    /// Optional loads that cannot run here.
    pub skipped: Vec<SkippedLoad>,
}

/// The count of a load at a point in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CountReading {
    /// The time in nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// What the load had done by then; `None` when it is unknown.
    pub count: Option<u64>,
}

/// One load.
#[derive(Debug)]
struct LoadInstance {
    kind: &'static LoadKind,
    arguments: Vec<String>,
    description: LoadDescription,
    processes: Vec<LoadProcess>,
    /// The counts at the start and at the end of the counted span.
    first: CountReading,
    last: CountReading,
    doubts: Vec<LoadDoubt>,
}

/// One process of a load.
#[derive(Debug)]
struct LoadProcess {
    worker: WorkerClient<LoadProtocol>,
    counters: ProgressCounters,
}

impl LoadGenerator {
    /// Prepares all loads. They do not work yet.
    ///
    /// # Errors
    /// A load that was requested by name cannot run.
    pub fn start(host: &Host, request: &LoadRequest) -> Result<LoadGenerator, LoadError> {
        let mut generator =
            LoadGenerator { cpus: request.cpus.clone(), loads: Vec::new(), skipped: Vec::new() };
        for wanted in &request.wanted {
            let load = wanted.kind.name;
            match LoadInstance::start(host, wanted, request) {
                Ok(instance) => generator.loads.push(instance),
                Err(why) if wanted.optional => {
                    generator.skipped.push(SkippedLoad { load: load.to_owned(), why });
                }
                Err(why) => return Err(LoadError::Impossible { load, why }),
            }
        }
        Ok(generator)
    }

    /// The loads that run, before anything of them is counted.
    #[must_use]
    pub fn uncounted(&self) -> Vec<LoadDone> {
        let loads = self.loads.iter();
        loads.map(|load| load.describe_done(None, 0, &self.cpus)).collect()
    }

    /// Lets all loads start to work.
    pub fn begin(&mut self) {
        for load in &mut self.loads {
            for process in &mut load.processes {
                if let Err(why) = process.worker.request(&LoadCommand::Go) {
                    load.doubts.push(LoadDoubt::DidNotBegin { why });
                }
            }
        }
    }

    /// Starts the counted span.
    pub fn start_counting(&mut self, host: &Host) {
        for load in &mut self.loads {
            load.first = load.read_count(host, &self.cpus);
        }
    }

    /// Ends the counted span.
    pub fn stop_counting(&mut self, host: &Host) {
        for load in &mut self.loads {
            load.last = load.read_count(host, &self.cpus);
        }
    }

    /// Reads what each load has done so far. Programs have no count.
    #[must_use]
    pub fn read_counts(&self, host: &Host) -> Vec<(&'static str, CountReading)> {
        let mut readings = Vec::new();
        for load in &self.loads {
            let CountReading { at_ns, count } = load.read_count(host, &self.cpus);
            let count = count.filter(|_| !load.kind.is_program);
            readings.push((load.kind.name, CountReading { at_ns, count }));
        }
        readings
    }

    /// Checks the CPUs of all loads, ends them, and returns what they did.
    #[must_use]
    pub fn end(mut self, host: &Host) -> Vec<LoadDone> {
        self.check_placement(host);
        let cpus = self.cpus;
        self.loads.into_iter().map(|load| load.end(&cpus)).collect()
    }

    /// Adds a doubt for each load that has a thread on other CPUs, including threads of its
    /// programs.
    fn check_placement(&mut self, host: &Host) {
        if self.loads.is_empty() {
            return;
        }
        let tasks = host.tasks().unwrap_or_default();
        for load in &mut self.loads {
            let pids = load.find_pids(&tasks);
            let threads = tasks.iter().filter(|task| pids.contains(&task.pid));
            let misplaced = threads.filter(|task| is_misplaced(task, host, &self.cpus));
            let cpus: CpuSet = misplaced.map(|task| task.cpu).collect();
            if !cpus.is_empty() {
                load.doubts.push(LoadDoubt::RanElsewhere { cpus });
            }
        }
    }
}

/// Whether a thread runs on a CPU outside of `cpus` because its affinity allows that.
fn is_misplaced(task: &Task, host: &Host, cpus: &CpuSet) -> bool {
    !cpus.contains(task.cpu)
        && !task.has_ended()
        && host.online_affinity(task.id.tid).is_ok_and(|allowed| !allowed.is_subset(cpus))
}

impl LoadInstance {
    fn start(
        host: &Host,
        wanted: &WantedLoad,
        request: &LoadRequest,
    ) -> Result<LoadInstance, LoadRefusal> {
        let kind = wanted.kind;
        let shares = if kind.needs_process_per_cpu {
            request.cpus.iter().map(CpuSet::single).collect()
        } else {
            vec![request.cpus.clone()]
        };
        let (mut processes, mut allowed) = (Vec::new(), CpuSet::default());
        let mut description = LoadDescription::default();
        for cpus in shares {
            let (process, described, more) = LoadProcess::start(host, wanted, cpus, request)?;
            processes.push(process);
            allowed = allowed.union(&more);
            description = described;
        }
        let refused = request.cpus.difference(&allowed);
        let mut doubts = Vec::new();
        if !refused.is_empty() {
            doubts.push(LoadDoubt::CpusRefused { cpus: refused });
        }
        let (first, last) = (CountReading::default(), CountReading::default());
        let arguments = wanted.arguments.clone();
        Ok(LoadInstance { kind, arguments, description, processes, first, last, doubts })
    }

    /// Finds the processes of the load and their children.
    fn find_pids(&self, tasks: &[Task]) -> BTreeSet<i32> {
        let mut pids: BTreeSet<i32> = self.processes.iter().map(|one| one.worker.pid()).collect();
        // Children have higher numbers than their parents, unless the numbers have wrapped around.
        for _ in 0..GENERATIONS {
            let children = tasks.iter().filter(|task| pids.contains(&task.parent));
            let children: Vec<i32> = children.map(|task| task.pid).collect();
            pids.extend(children);
        }
        pids
    }

    fn read_count(&self, host: &Host, cpus: &CpuSet) -> CountReading {
        let count = match self.kind.read_count {
            Some(read_count) => read_count(host, cpus),
            None => {
                let totals = self.processes.iter().map(|process| process.counters.total());
                Some(totals.fold(0, u64::wrapping_add))
            }
        };
        CountReading { at_ns: monotonic_ns(), count }
    }

    fn end(mut self, cpus: &CpuSet) -> LoadDone {
        self.doubts.extend(find_worker_doubts(&self.processes));
        let mut failed = Vec::new();
        for process in &mut self.processes {
            match process.worker.request(&LoadCommand::End) {
                Ok(LoadReply::Done { doubts }) => failed.extend(doubts),
                Ok(other) => {
                    self.doubts.push(LoadDoubt::NoAnswer {
                        why: WorkerFailure::unexpected(&other).into(),
                    });
                }
                Err(why) => self.doubts.push(LoadDoubt::NoAnswer { why }),
            }
        }
        let counts = self.last.count.zip(self.first.count).filter(|_| failed.is_empty());
        let count = counts.map(|(last, first)| last.wrapping_sub(first));
        if count.is_none() && failed.is_empty() {
            self.doubts.push(LoadDoubt::NotCounted);
        }
        if count == Some(0) && !self.kind.is_program {
            self.doubts.push(LoadDoubt::DidNothing);
        }
        self.doubts.extend(failed);
        let span_ns = self.last.at_ns.saturating_sub(self.first.at_ns);
        self.describe_done(count, span_ns, cpus)
    }

    fn describe_done(&self, count: Option<u64>, span_ns: u64, cpus: &CpuSet) -> LoadDone {
        LoadDone {
            name: self.kind.name.to_owned(),
            arguments: self.arguments.clone(),
            what: self.description.what.clone(),
            program: self.description.program.clone(),
            cpus: cpus.clone(),
            unit: self.kind.unit.to_owned(),
            count,
            per_s: compute_rate(count, span_ns),
            span_ns,
            doubts: self.doubts.clone(),
        }
    }
}

/// Computes how much that is per second; `None` without a count or a span.
#[must_use]
pub fn compute_rate(count: Option<u64>, span_ns: u64) -> Option<f64> {
    let rate = count? as f64 / (span_ns as f64 / 1e9);
    rate.is_finite().then_some(rate)
}

/// Finds worker threads that no longer work or never started, and why.
fn find_worker_doubts(processes: &[LoadProcess]) -> Vec<LoadDoubt> {
    let counters = processes.iter().flat_map(|process| process.counters.each());
    let states: Vec<WorkerState> = counters.map(|counter| counter.state()).collect();
    let (mut doubts, of) = (Vec::new(), states.len());
    let idle = count_state(&states, WorkerState::Waiting);
    if idle > 0 {
        doubts.push(LoadDoubt::ThreadsIdle { count: idle, of });
    }
    let ended = count_state(&states, WorkerState::Ended);
    if ended > 0 {
        doubts.push(LoadDoubt::ThreadsEnded { count: ended, of });
    }
    let errors: BTreeSet<i32> = states
        .iter()
        .filter_map(|state| match state {
            WorkerState::Failed(number) => Some(*number),
            _ => None,
        })
        .collect();
    for number in errors {
        let count = count_state(&states, WorkerState::Failed(number));
        let answer = io::Error::from_raw_os_error(number).to_string();
        doubts.push(LoadDoubt::ThreadsFailed { count, of, answer });
    }
    doubts
}

fn count_state(states: &[WorkerState], wanted: WorkerState) -> usize {
    states.iter().filter(|state| **state == wanted).count()
}

impl LoadProcess {
    /// Starts a process, ready to work. The set has the CPUs that the kernel allows it.
    fn start(
        host: &Host,
        wanted: &WantedLoad,
        cpus: CpuSet,
        request: &LoadRequest,
    ) -> Result<(LoadProcess, LoadDescription, CpuSet), LoadRefusal> {
        let (kind, arguments) = (wanted.kind.name.to_owned(), wanted.arguments.clone());
        let command = LoadCommand::Start { kind, arguments, cpus, dir: request.dir.clone() };
        match WorkerClient::start(host, &command)? {
            (worker, LoadReply::Ready { board, workers, description, allowed }) => {
                let counters = ProgressCounters::open(worker.pid(), board, workers)
                    .map_err(|e| LoadRefusal::CountersUnreadable { answer: e.to_string() })?;
                Ok((LoadProcess { worker, counters }, description, allowed))
            }
            (_, other) => Err(WorkerFailure::unexpected(&other).into()),
        }
    }
}

/// Runs the process of a load until its parent ends it or is gone. Its threads end with it.
pub fn serve(host: &Host) {
    let mut threads: Option<LoadThreads> = None;
    worker::serve::<LoadProtocol>(|command| match command {
        LoadCommand::Start { kind, arguments, cpus, dir } => {
            let (started, ready) = LoadThreads::start(host, &kind, arguments, &cpus, dir)?;
            threads = Some(started);
            Ok(ready)
        }
        LoadCommand::Go => {
            for start in threads.iter().flat_map(|threads| &threads.starts) {
                // The counter of a thread that is gone shows its state.
                let _ = start.send(());
            }
            Ok(LoadReply::Going)
        }
        LoadCommand::End => {
            let finish = threads.take().and_then(|threads| threads.finish);
            Ok(LoadReply::Done { doubts: finish.map(|finish| finish()).unwrap_or_default() })
        }
    });
}

/// The threads inside of the process of a load.
struct LoadThreads {
    starts: Vec<Sender<()>>,
    finish: Option<Box<dyn FnOnce() -> Vec<LoadDoubt>>>,
    /// Keeps the shared memory open.
    _counters: Arc<ProgressCounters>,
}

impl LoadThreads {
    fn start(
        host: &Host,
        name: &str,
        arguments: Vec<String>,
        cpus: &CpuSet,
        dir: PathBuf,
    ) -> Result<(LoadThreads, LoadReply), LoadRefusal> {
        let kind =
            kinds::named(name).ok_or_else(|| LoadRefusal::UnknownLoad { name: name.to_owned() })?;
        sched::set_affinity(0, cpus)
            .map_err(|e| LoadRefusal::CpusDenied { cpus: cpus.clone(), answer: e.to_string() })?;
        // A cpuset may allow only some of them.
        let allowed = sched::affinity(0).map_err(LoadRefusal::failed)?;
        let environment = LoadEnvironment { host, cpus: allowed.clone(), dir, arguments };
        (kind.check_possible)(&environment)?;
        let prepared = (kind.prepare)(&environment)?;
        let workers = prepared.workers.len();
        let counters = Arc::new(ProgressCounters::new(workers).map_err(LoadRefusal::failed)?);
        let (mut starts, (ready_sender, ready_receiver)) = (Vec::new(), channel());
        for (nth, (cpu, work)) in prepared.workers.into_iter().enumerate() {
            let (start, wait) = channel();
            starts.push(start);
            let worker = LoadWorker { nth, cpu, counters: Arc::clone(&counters), wait, work };
            let ready = ready_sender.clone();
            thread::Builder::new()
                .name(format!("load/{name}"))
                .stack_size(STACK_BYTES)
                .spawn(move || worker.run(&ready))
                .map_err(|e| LoadRefusal::NoThread { answer: e.to_string() })?;
        }
        for _ in 0..workers {
            let placed = ready_receiver.recv_timeout(TIMEOUT / 2);
            let seconds = (TIMEOUT / 2).as_secs();
            let placed = placed.map_err(|_| LoadRefusal::ThreadDidNotRun { seconds })?;
            placed.map_err(|e| LoadRefusal::CpuDenied { answer: e.to_string() })?;
        }
        let board = counters.number().ok_or(LoadRefusal::NoSharedMemory)?;
        let description = LoadDescription { what: prepared.what, program: prepared.program };
        let threads = LoadThreads { starts, finish: prepared.finish, _counters: counters };
        Ok((threads, LoadReply::Ready { board, workers, description, allowed }))
    }
}

/// A thread of a load.
struct LoadWorker {
    /// The index of its counter.
    nth: usize,
    /// Its CPU; `None` for any CPU of the load.
    cpu: Option<usize>,
    counters: Arc<ProgressCounters>,
    wait: Receiver<()>,
    work: LoadWork,
}

impl LoadWorker {
    /// Moves to its CPU, waits for the start, and works.
    fn run(self, ready: &Sender<io::Result<()>>) {
        let placed = self.cpu.map_or(Ok(()), |cpu| sched::set_affinity(0, &CpuSet::single(cpu)));
        let is_placed = placed.is_ok();
        // An error of a channel means that the parent is gone or gave up.
        if ready.send(placed).is_err() || !is_placed || self.wait.recv().is_err() {
            return;
        }
        if let Some(counter) = self.counters.get(self.nth) {
            counter.work(self.work);
        }
    }
}
