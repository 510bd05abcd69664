//! The processes that are the load. One for each kind (for each CPU of a kind whose threads would
//! wait for each other), so that what one does to its memory does not hold up another. Both sides
//! of the conversation are here: [`LoadGenerator`] asks, [`serve`] answers.

use super::kinds::{self, CountSource, LoadEnvironment, LoadKind, ProgramReport};
use super::order::{LoadError, LoadRequest, WantedLoad};
use super::{LoadDone, LoadDoubt};
use cpushield_linux::clock::monotonic_ns;
use cpushield_linux::progress_counter::{ProgressCounters, WorkerState};
use cpushield_linux::worker_process::{WorkerEnd, WorkerProcess};
use cpushield_linux::{CpuSet, Host, sched};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

/// The hidden subcommand that makes this program a load.
pub const HIDDEN: &str = "__work";
/// How long an answer may take: a slow disk has to take a file first.
const PATIENCE: Duration = Duration::from_secs(120);
/// A worker calls little.
const STACK_BYTES: usize = 256 << 10;

/// What the process is asked.
#[derive(Debug, Serialize, Deserialize)]
enum LoadCommand {
    Start { kind: String, words: Vec<String>, cpus: CpuSet, dir: PathBuf },
    Go,
    End,
}

/// What it answers.
#[derive(Debug, Serialize, Deserialize)]
enum LoadReply {
    Ready { board: i32, workers: usize, what: String, program: Option<String>, on: CpuSet },
    Going,
    Done { told: Vec<ProgramReport> },
    Failed { why: String },
}

/// A load at work, as its maker sees it.
#[derive(Debug)]
pub struct LoadGenerator {
    cpus: CpuSet,
    hands: Vec<LoadInstance>,
    /// What is good to know.
    pub notes: Vec<String>,
}

/// One load.
#[derive(Debug)]
struct LoadInstance {
    kind: &'static dyn LoadKind,
    what: String,
    program: Option<String>,
    crews: Vec<LoadProcess>,
    /// When it began to count, and how much was done by then; `None` when nobody knows.
    from: (u64, Option<u64>),
    until: (u64, Option<u64>),
    doubts: Vec<LoadDoubt>,
}

/// One process of it.
#[derive(Debug)]
struct LoadProcess {
    companion: WorkerProcess,
    meters: ProgressCounters,
}

impl LoadGenerator {
    /// Makes everything ready; nothing works yet.
    ///
    /// # Errors
    /// A load that was asked for by name cannot run.
    pub fn start(order: &LoadRequest) -> Result<LoadGenerator, LoadError> {
        let mut gang =
            LoadGenerator { cpus: order.cpus.clone(), hands: Vec::new(), notes: Vec::new() };
        for wanted in &order.wanted {
            match LoadInstance::start(wanted, order) {
                Ok(hand) => gang.hands.push(hand),
                Err(why) if wanted.optional => {
                    gang.notes.push(format!("no load {}: {why}", wanted.kind.name()));
                }
                Err(why) => {
                    return Err(LoadError::Impossible { load: wanted.kind.name(), why });
                }
            }
        }
        Ok(gang)
    }

    /// Starts the work of all loads.
    pub fn begin(&mut self) {
        for hand in &mut self.hands {
            for crew in &mut hand.crews {
                if let Err(why) = crew.talk(&LoadCommand::Go) {
                    hand.doubts.push(LoadDoubt::DidNotBegin { why });
                }
            }
        }
    }

    /// Starts the counted span.
    pub fn count_from_now(&mut self, host: &Host) {
        for hand in &mut self.hands {
            hand.from = hand.now(host, &self.cpus);
        }
    }

    /// When it is now, and how much each has done by now; `None` when nobody knows, or it counts
    /// for itself.
    #[must_use]
    pub fn so_far(&self, host: &Host) -> Vec<(&'static str, u64, Option<u64>)> {
        let now = |hand: &LoadInstance| {
            let (now_ns, count) = hand.now(host, &self.cpus);
            (hand.kind.name(), now_ns, count.filter(|_| !hand.kind.is_program()))
        };
        self.hands.iter().map(now).collect()
    }

    /// Ends the counted span.
    pub fn count_until_now(&mut self, host: &Host) {
        for hand in &mut self.hands {
            hand.until = hand.now(host, &self.cpus);
        }
    }

    /// Checks the CPUs of all loads, ends them, and returns what they did.
    #[must_use]
    pub fn end(mut self, host: &Host) -> Vec<LoadDone> {
        self.check_placement(host);
        let cpus = self.cpus;
        self.hands.into_iter().flat_map(|hand| hand.end(&cpus)).collect()
    }

    /// Adds a doubt for each load with a thread on other CPUs, including those of its programs.
    fn check_placement(&mut self, host: &Host) {
        if self.hands.is_empty() {
            return;
        }
        let tasks = host.tasks().unwrap_or_default();
        for hand in &mut self.hands {
            let mut pids: BTreeSet<i32> = hand.crews.iter().map(|it| it.companion.pid()).collect();
            // Children have higher numbers, unless the numbers have gone round since.
            for _ in 0..3 {
                let more = tasks.iter().filter(|task| pids.contains(&task.parent));
                let more: Vec<i32> = more.map(|task| task.pid).collect();
                pids.extend(more);
            }
            let threads = tasks.iter().filter(|task| pids.contains(&task.pid));
            let of = |tid| host.online_affinity(tid).ok();
            let away: CpuSet = threads
                .filter(|task| !self.cpus.contains(task.cpu) && !task.has_ended())
                .filter(|task| of(task.id.tid).is_some_and(|own| !own.is_subset(&self.cpus)))
                .map(|task| task.cpu)
                .collect();
            if !away.is_empty() {
                hand.doubts.push(LoadDoubt::RanElsewhere { cpus: away });
            }
        }
    }
}

impl LoadInstance {
    fn start(wanted: &WantedLoad, order: &LoadRequest) -> Result<LoadInstance, String> {
        let kind = wanted.kind;
        let shares = match kind.is_alone() {
            true => order.cpus.iter().map(CpuSet::single).collect(),
            false => vec![order.cpus.clone()],
        };
        let (mut crews, mut on) = (Vec::new(), CpuSet::default());
        let mut words = (String::new(), None);
        for cpus in shares {
            let (crew, what, program, own) = LoadProcess::start(wanted, cpus, order)?;
            crews.push(crew);
            on = on.union(&own);
            words = (what, program);
        }
        let (what, program) = words;
        let missing = order.cpus.difference(&on);
        let mut doubts = Vec::new();
        if !missing.is_empty() {
            doubts.push(LoadDoubt::CpusRefused { cpus: missing });
        }
        Ok(LoadInstance { kind, what, program, crews, from: (0, None), until: (0, None), doubts })
    }

    fn now(&self, host: &Host, cpus: &CpuSet) -> (u64, Option<u64>) {
        let count = match self.kind.counted(host, cpus) {
            CountSource::Kernel(count) => count,
            CountSource::Meters => {
                let totals = self.crews.iter().map(|crew| crew.meters.total());
                Some(totals.fold(0, u64::wrapping_add))
            }
        };
        (monotonic_ns(), count)
    }

    fn end(mut self, cpus: &CpuSet) -> Vec<LoadDone> {
        let closes = self.kind.is_program();
        self.doubts.extend(ended_early(&self.crews));
        let mut told = Vec::new();
        for crew in &mut self.crews {
            match crew.talk(&LoadCommand::End) {
                Ok(LoadReply::Done { told: more }) => told.extend(more),
                Ok(_) => {
                    let why = "an unexpected answer".to_owned();
                    self.doubts.push(LoadDoubt::NoAnswer { why });
                }
                Err(why) => self.doubts.push(LoadDoubt::NoAnswer { why }),
            }
        }
        if told.is_empty() {
            let count = self.until.1.zip(self.from.1).map(|(until, from)| until.wrapping_sub(from));
            let span_ns = self.until.0.saturating_sub(self.from.0);
            let silent = count.is_none().then_some(LoadDoubt::NotCounted);
            let doubts = silent.into_iter().collect();
            told.push(ProgramReport { part: None, count, span_ns, doubts });
        }
        let name = self.kind.name();
        let own = |told: ProgramReport| {
            let mut doubts = self.doubts.clone();
            doubts.extend(told.doubts);
            if told.count == Some(0) {
                doubts.push(match closes {
                    true => LoadDoubt::NothingFinished,
                    false => LoadDoubt::DidNothing,
                });
            }
            LoadDone {
                name: told.part.map_or(name.to_owned(), |part| format!("{name}:{part}")),
                what: self.what.clone(),
                program: self.program.clone(),
                cpus: cpus.clone(),
                unit: self.kind.unit().to_owned(),
                count: told.count,
                per_s: rate(told.count, told.span_ns),
                span_ns: told.span_ns,
                doubts,
            }
        };
        told.into_iter().map(own).collect()
    }
}

/// How much that is in a second; `None` without a count, or without time.
#[must_use]
pub fn rate(count: Option<u64>, span_ns: u64) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a rate is not exact")]
    let rate = count? as f64 / (span_ns as f64 / 1e9);
    rate.is_finite().then_some(rate)
}

/// Which of its threads do not work any more, and why.
fn ended_early(crews: &[LoadProcess]) -> Vec<LoadDoubt> {
    let states: Vec<WorkerState> =
        crews.iter().flat_map(|crew| crew.meters.each().map(|meter| meter.state())).collect();
    let of = |test: fn(&WorkerState) -> bool| states.iter().filter(|state| test(state)).count();
    let (mut doubts, all) = (Vec::new(), states.len());
    let (idle, ended) = (of(|it| *it == WorkerState::Waiting), of(|it| *it == WorkerState::Ended));
    if idle > 0 {
        doubts.push(LoadDoubt::ThreadsIdle { count: idle, of: all });
    }
    if ended > 0 {
        doubts.push(LoadDoubt::ThreadsEnded { count: ended, of: all });
    }
    let failed: BTreeSet<i32> = states
        .iter()
        .filter_map(|state| match state {
            WorkerState::Failed(number) => Some(*number),
            _ => None,
        })
        .collect();
    for number in failed {
        let count = states.iter().filter(|state| **state == WorkerState::Failed(number)).count();
        let answer = std::io::Error::from_raw_os_error(number).to_string();
        doubts.push(LoadDoubt::ThreadsFailed { count, of: all, answer });
    }
    doubts
}

impl LoadProcess {
    fn start(
        wanted: &WantedLoad,
        cpus: CpuSet,
        order: &LoadRequest,
    ) -> Result<(LoadProcess, String, Option<String>, CpuSet), String> {
        let mut companion = WorkerProcess::start(&[HIDDEN]).map_err(|e| e.to_string())?;
        let (kind, words) = (wanted.kind.name().to_owned(), wanted.words.clone());
        let ask = LoadCommand::Start { kind, words, cpus, dir: order.dir.clone() };
        match talk(&mut companion, &ask)? {
            LoadReply::Ready { board, workers, what, program, on } => {
                let meters = ProgressCounters::open(companion.pid(), board, workers)
                    .map_err(|e| format!("cannot read its counters: {e}"))?;
                Ok((LoadProcess { companion, meters }, what, program, on))
            }
            other => Err(format!("an unexpected answer: {other:?}")),
        }
    }

    fn talk(&mut self, ask: &LoadCommand) -> Result<LoadReply, String> {
        talk(&mut self.companion, ask)
    }
}

fn talk(companion: &mut WorkerProcess, ask: &LoadCommand) -> Result<LoadReply, String> {
    let line = serde_json::to_string(ask).map_err(|e| e.to_string())?;
    companion.send(&line).map_err(|e| format!("its process is gone: {e}"))?;
    let line =
        companion.receive(PATIENCE).map_err(|e| format!("its process does not answer: {e}"))?;
    match serde_json::from_str(&line)
        .map_err(|e| format!("an answer that cannot be parsed: {e}"))?
    {
        LoadReply::Failed { why } => Err(why),
        answer => Ok(answer),
    }
}

/// The load's own side: serves until its maker says so or is gone. Its threads end with it.
pub fn serve(host: &Host) {
    let duty = WorkerEnd::start();
    let mut team: Option<LoadThreads> = None;
    while let Some(line) = duty.next() {
        let answer = match serde_json::from_str(&line) {
            Ok(LoadCommand::Start { kind, words, cpus, dir }) => {
                match LoadThreads::start(host, &kind, words, cpus, dir) {
                    Ok((made, ready)) => {
                        team = Some(made);
                        ready
                    }
                    Err(why) => LoadReply::Failed { why },
                }
            }
            Ok(LoadCommand::Go) => {
                for start in team.iter().flat_map(|team| &team.starts) {
                    // A thread that is gone shows in its meter.
                    let _ = start.send(());
                }
                LoadReply::Going
            }
            Ok(LoadCommand::End) => {
                let closing = team.take().and_then(|team| team.closing);
                LoadReply::Done { told: closing.map(|close| close()).unwrap_or_default() }
            }
            Err(e) => LoadReply::Failed { why: e.to_string() },
        };
        let is_end = matches!(answer, LoadReply::Done { .. } | LoadReply::Failed { .. });
        let line = serde_json::to_string(&answer).unwrap_or_default();
        if duty.answer(&line).is_err() || is_end {
            break;
        }
    }
}

/// The threads, as their own process has them.
struct LoadThreads {
    starts: Vec<Sender<()>>,
    closing: Option<Box<dyn FnOnce() -> Vec<ProgramReport>>>,
    /// The maker of the shared memory keeps it open.
    _meters: Arc<ProgressCounters>,
}

impl LoadThreads {
    fn start(
        host: &Host,
        name: &str,
        words: Vec<String>,
        cpus: CpuSet,
        dir: PathBuf,
    ) -> Result<(LoadThreads, LoadReply), String> {
        let kind = kinds::by_name(name).ok_or_else(|| format!("no load {name}"))?;
        sched::set_affinity(0, &cpus)
            .map_err(|e| format!("the kernel does not let it run on CPU {cpus}: {e}"))?;
        // A cpuset may leave some of them only.
        let on = sched::affinity(0).map_err(|e| e.to_string())?;
        let site = LoadEnvironment { host, cpus: on.clone(), dir, words };
        kind.possible(&site)?;
        let ready = kind.prepare(&site)?;
        let workers = ready.workers.len();
        let meters = Arc::new(ProgressCounters::new(workers).map_err(|e| e.to_string())?);
        let (mut starts, (tell, told)) = (Vec::new(), channel());
        for (i, (cpu, work)) in ready.workers.into_iter().enumerate() {
            let (start, wait) = channel();
            starts.push(start);
            let (meters, tell) = (Arc::clone(&meters), tell.clone());
            let named = thread::Builder::new().name(format!("load/{name}"));
            let run = move || {
                let settled =
                    cpu.map_or(Ok(()), |cpu| sched::set_affinity(0, &CpuSet::single(cpu)));
                let is_settled = settled.is_ok();
                // The maker is gone, or gave up.
                let asked = tell.send(settled).is_ok() && is_settled && wait.recv().is_ok();
                if let Some(meter) = meters.get(i).filter(|_| asked) {
                    meter.work(work);
                }
            };
            named.stack_size(STACK_BYTES).spawn(run).map_err(|e| format!("no thread: {e}"))?;
        }
        for _ in 0..workers {
            let settled = told.recv_timeout(PATIENCE / 2).map_err(|e| e.to_string())?;
            settled.map_err(|e| format!("a thread does not get its CPU: {e}"))?;
        }
        let board = meters.number().ok_or("no shared memory")?;
        let (what, program) = (ready.what, ready.program);
        let team = LoadThreads { starts, closing: ready.closing, _meters: meters };
        Ok((team, LoadReply::Ready { board, workers, what, program, on }))
    }
}
