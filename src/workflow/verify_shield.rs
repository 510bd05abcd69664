//! Watches shielded CPUs, with a program or the gap sampler, and judges the evidence.

use super::checkpoint::mention_saving;
use super::cpu_names::select_cpus;
use super::remedy_target::find_remedy_target;
use super::shield_options::read_policy_shield;
use super::trace_disturbance::check_disturbance;
use super::watch_checkpoint::WatchCheckpoint;
use super::watch_request::{WatchRequest, WatchedTasks};
use super::watch_target::WatchTarget;
use super::{WorkContext, catch_stops};
use crate::causes::{Cause, Culprit};
use crate::documents::evidence::{Evidence, ProgramEnd, Verdict, WatchedWorkload};
use crate::documents::machine::Machine;
use crate::documents::plan::Shield;
use crate::export::perfetto::{self, ExportContext};
use crate::export::trace_dat;
use crate::failure::Failure;
use crate::observe;
use crate::policy::{VerifyLimits, Workload};
use crate::run::{RunError, check_move};
use crate::trace::recording::TraceRecording;
use crate::tunables::{self, RemedyAnswer};
use crate::ui::{ProgressLine, StatusLines, Ui};
use crate::verify::{
    self, COUNTED_GAP_NS, GivenWorkload, RawTraceUse, UntilBreach, WatchOrder, WatchProgress,
    WorstSoFar,
};
use crate::worker::log_argument;
use cpushield_linux::processes::orphans::LeftBehind;
use cpushield_linux::processes::worker_process::ChildCommand;
use cpushield_linux::sys::clock::nanos;
use cpushield_linux::{CpuSet, Host, Task, processes::process, sys::signal};
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::ffi::OsString;

/// What a terminal shows instead of progress.
const SILENT: &str =
    "watching; progress is not shown, because the work of the terminal may run on these CPUs";

/// Everything that is known before a watch.
#[derive(Debug)]
pub struct VerifySession<'a> {
    /// The machine.
    pub work: &'a WorkContext<'a>,
    request: WatchRequest,
    limits: VerifyLimits,
    checkpoint: Option<WatchCheckpoint<'a>>,
    /// The CPUs, with their shield.
    pub target: WatchTarget,
}

/// When the machine is surveyed after a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurveyWhen {
    /// After every watch.
    Always,
    /// After an interruption was seen, because only a remedy needs the survey.
    Interrupted,
}

/// The result of a watch.
#[derive(Debug)]
pub struct VerifyResult {
    /// The observations.
    pub evidence: Evidence,
    /// The verdict on them.
    pub verdict: Verdict,
    /// The trace, if it is exported.
    pub recording: Option<TraceRecording>,
    /// The machine right after the watch, if a remedy or the caller needs it.
    pub known: Option<(Machine, Shield)>,
}

impl<'a> VerifySession<'a> {
    /// Finds the CPUs and checks everything that can be checked before the watch. `shield` is the
    /// name of the shield in the policy.
    ///
    /// # Errors
    /// The CPUs cannot be watched, or a file cannot be written.
    pub fn prepare(
        work: &'a WorkContext<'a>,
        mut request: WatchRequest,
        shield: Option<&str>,
    ) -> Result<VerifySession<'a>, Failure> {
        let (limits, workload) = read_limits(&work.host, &request, shield)?;
        request.workload = request.workload.or(workload);
        let cpus = select_cpus(&work.host, request.cpus.as_ref())?;
        if request.stop_on_breach && limits == VerifyLimits::default() {
            return Err(Failure::usage("--stop-on-breach needs a limit")
                .hint("set a limit: --max-entries N or --max-gap TIME")
                .hint("or use the limits of a policy: --policy FILE"));
        }
        let files = work.host.user_files();
        request.export_files().try_for_each(|file| files.check_writable(file))?;
        let target = find_target(work, &request, cpus.as_ref())?;
        judge_as_cyclic(&work.host, &target, &mut request, &limits)?;
        check_disturbance(work, &target.cpus, request.disturb.into())?;
        if request.is_sampled() {
            check_sampler_cpus(work, &target)?;
        }
        for tracer in observe::other_tracers(&work.host) {
            work.ui.warn(&format!(
                "{tracer} may also be tracing: if it disables events that verify records, the \
                 verdict is unknown"
            ));
        }
        let output = request.output.as_deref();
        let checkpoint = output.map(|path| WatchCheckpoint::open(work, path)).transpose()?;
        if checkpoint.is_none() {
            mention_saving(work.ui, request.time);
        }
        catch_stops()?;
        Ok(VerifySession { work, request, limits, checkpoint, target })
    }

    /// Watches, surveys the machine when that is needed, and judges.
    ///
    /// # Errors
    /// The CPUs cannot be watched.
    pub fn watch_and_judge(&self, survey: SurveyWhen) -> Result<VerifyResult, Failure> {
        let VerifySession { work, request, target, .. } = self;
        let WorkContext { host, store, .. } = work;
        let (mut evidence, recording) = self.watch()?;
        evidence.options = Some(request.options());
        evidence.shield = target.own_shield().map(|place| place.name.clone());
        evidence.open_to = target.own_shield().and_then(|place| crate::run::open_to(host, place));
        let interrupted = evidence.cpus.iter().any(|cpu| !cpu.interruptions.is_empty());
        // The survey comes after the watch, because a shield that holds does not need one.
        let known = if interrupted || survey == SurveyWhen::Always {
            find_remedy_target(host, store, target.active.as_ref(), &target.cpus)
        } else {
            None
        };
        let verdict = verify::judge(&evidence, &self.limits, &|row, senders| {
            known.as_ref().map_or(RemedyAnswer::Unknown, |(machine, shield)| {
                tunables::remedy(machine, shield, row.cause, &row.culprit, senders)
            })
        });
        let verdict = match &known {
            Some((machine, _)) => verdict.with_devices(|irq| machine.device_of(irq)),
            None => verdict,
        };
        Ok(VerifyResult { evidence, verdict, recording, known })
    }

    /// The group of the CPUs, which the gap sampler can enter.
    fn find_group(&self) -> Result<Option<String>, Failure> {
        let VerifySession { work, request, target, .. } = self;
        let cgroup = target.group(&work.host, request.cgroup.as_ref())?;
        if let Some(group) = cgroup.as_ref().filter(|_| request.is_sampled()) {
            check_move(&work.host, group)?;
        }
        Ok(cgroup)
    }

    /// Watches the CPUs, with the given program or the gap sampler.
    fn watch(&self) -> Result<(Evidence, Option<TraceRecording>), Failure> {
        let VerifySession { work, request, target, .. } = self;
        let WorkContext { ui, host, .. } = work;
        let recording = RefCell::new(None);
        let keep_recording = |taken| *recording.borrow_mut() = Some(taken);
        let program: RefCell<Option<ChildCommand>> = RefCell::new(None);
        let bar = ui.bar();
        let is_silent = observe::environment::takes_unbound_work(host, &target.cpus);
        let worst = Cell::new(WorstSoFar::default());
        let threshold_ns =
            self.limits.max_gap_ns.map_or(COUNTED_GAP_NS, |most| most.clamp(1, COUNTED_GAP_NS));
        let cgroup = self.find_group()?;
        let evidence = verify::watch(
            host,
            &WatchOrder {
                cpus: target.cpus.clone(),
                span: request.time,
                warmup: request.warmup,
                threshold_ns,
                syscalls: request.syscalls,
                cgroup,
                workload: (!request.is_sampled()).then_some(GivenWorkload {
                    start: &|| {
                        if !request.command.is_empty() {
                            let started = start_program(work, target, &request.command)?;
                            *program.borrow_mut() = Some(started);
                        }
                        Ok(())
                    },
                    threads: &|| match program.borrow().as_ref() {
                        Some(program) => program.threads(host),
                        None => find_workload_threads(host, target, &request.tasks),
                    },
                    ended: &|| how_program_ended(&program),
                    kind: request.kind(),
                }),
                stacks: request.stacks,
                until: request
                    .before_breach()
                    .map(|before| UntilBreach { limits: self.limits, before_ns: nanos(before) }),
                keep: request
                    .export_files()
                    .next()
                    .map(|next_to| RawTraceUse { next_to, take: &keep_recording }),
                progress: &|progress| {
                    if let WatchProgress::Watching { worst: now, .. } = progress {
                        worst.set(now);
                    }
                    self.show_progress(&bar, is_silent, progress);
                },
                stop: &|| signal::stopped_by().is_some(),
            },
        );
        bar.end();
        if request.stop_on_breach
            && let Ok(evidence) = &evidence
            && (evidence.breach.is_some() || worst.get().breaks(&self.limits))
        {
            ui.status("stopped the watch because a limit was exceeded");
        }
        if let Some(how) = how_program_ended(&program) {
            ui.status(&format!("the program ended on its own: {how}"));
        }
        if let Some(program) = program.borrow_mut().as_mut() {
            report_left_behind(ui, &program.end());
        }
        Ok((evidence?, recording.into_inner()))
    }

    fn show_progress(&self, bar: &ProgressLine, is_silent: bool, progress: WatchProgress) {
        match progress {
            WatchProgress::Arming => bar.show_task("getting ready"),
            WatchProgress::Settling if is_silent => bar.show_task(SILENT),
            WatchProgress::Settling => bar.show_task("warming up"),
            WatchProgress::Watching { done, of, worst } => {
                if !is_silent {
                    bar.show_progress(&describe_progress(&worst), done, of);
                }
                if let Some(checkpoint) = &self.checkpoint {
                    checkpoint.save(&self.target.cpus, done, of, worst);
                }
            }
            // The span has not ended yet.
            WatchProgress::Gathering { .. } if is_silent => {}
            WatchProgress::Gathering { about } => {
                let about = about.as_secs_f64();
                bar.show_task(&format!("collecting the results; this takes about {about:.0} s"));
            }
        }
    }

    /// Writes the file of `-o`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, document: &impl Serialize) -> Result<(), Failure> {
        self.checkpoint.as_ref().map_or(Ok(()), |checkpoint| checkpoint.finish(document))
    }

    /// Writes the files of `--trace-dat` and `--perfetto`.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn export(
        &self,
        recording: Option<TraceRecording>,
        evidence: &Evidence,
        verdict: &Verdict,
    ) -> Result<(), Failure> {
        let VerifySession { work: WorkContext { ui, host, .. }, request, .. } = self;
        let files = host.user_files();
        let Some(mut recording) = recording else {
            for file in request.export_files() {
                ui.warn(&format!("{}: not written, because there is no trace", file.display()));
            }
            return Ok(());
        };
        if let Some(file) = &request.trace_dat {
            files.write_stream(file, &mut |out| trace_dat::write(&mut recording, out))?;
            ui.status(&format!("wrote {0}: trace-cmd report -i {0}", file.display()));
        }
        if let Some(file) = &request.perfetto {
            let is_sampler = evidence.workload == WatchedWorkload::Sampler;
            let context = ExportContext {
                workload: is_sampler.then_some("busy loop of cpushield"),
                remedy: &|cause, culprit| describe_remedy(verdict, cause, culprit),
            };
            files.write_stream(file, &mut |out| perfetto::write(&mut recording, &context, out))?;
            ui.status(&format!("wrote {}: open it in ui.perfetto.dev", file.display()));
        }
        Ok(())
    }
}

/// The limits of the options; those of the policy for the rest, and its workload if that is cyclic.
/// `shield` names one of several in it.
fn read_limits(
    host: &Host,
    request: &WatchRequest,
    shield: Option<&str>,
) -> Result<(VerifyLimits, Option<Workload>), Failure> {
    let given = request.limits();
    let policy = read_policy_shield(host, request.policy.as_deref(), shield)?;
    let Some(policy) = policy else { return Ok((given, None)) };
    let limits = policy.limits.of_verify();
    let limits = VerifyLimits {
        max_entries: given.max_entries.or(limits.max_entries),
        max_gap_ns: given.max_gap_ns.or(limits.max_gap_ns),
        max_foreign: given.max_foreign.or(limits.max_foreign),
        max_steal_ppm: given.max_steal_ppm.or(limits.max_steal_ppm),
        tick: given.tick.max(limits.tick),
        ..limits
    };
    Ok((limits, policy.workload.filter(|workload| *workload == Workload::Cyclic)))
}

/// Finds the CPUs to watch, and checks that the program can be started.
fn find_target(
    work: &WorkContext<'_>,
    request: &WatchRequest,
    cpus: Option<&CpuSet>,
) -> Result<WatchTarget, Failure> {
    let target = WatchTarget::find(work, cpus, "verify")?;
    let Some(program) = request.command.first() else { return Ok(target) };
    if target.own_shield().is_none() {
        return Err(Failure::machine(
            "no shield is active on these CPUs, and a program can only be watched in a shield",
        )
        .hint("apply a shield: cpushield apply")
        .hint("or start the program yourself and watch it: cpushield verify --busy"));
    }
    // `run` would report this too, but only when everything else is ready.
    process::executable(program).map_err(|error| {
        let program = program.display().to_string();
        RunError::Exec { program, error }
    })?;
    Ok(target)
}

/// Judges the workload as that of the shield. The programs of a cyclic one are watched, not the
/// busy loop.
fn judge_as_cyclic(
    host: &Host,
    target: &WatchTarget,
    request: &mut WatchRequest,
    limits: &VerifyLimits,
) -> Result<(), Failure> {
    let shield = target.active.as_ref().filter(|_| target.own_shield().is_some());
    request.workload = request.workload.or(shield.map(|plan| plan.shield.workload));
    if request.workload != Some(Workload::Cyclic) {
        if limits.max_foreign.is_some() {
            return Err(Failure::usage("--max-foreign needs a cyclic workload")
                .hint("if the program sleeps and wakes up: --workload cyclic"));
        }
        return Ok(());
    }
    request.busy = request.command.is_empty();
    if request.busy && find_workload_threads(host, target, &request.tasks).is_empty() {
        return Err(Failure::machine(format!("no program runs on CPU {}", target.cpus))
            .hint("start one in the shield: cpushield run -- PROGRAM")
            .hint("or watch the busy loop: cpushield verify --workload polling"));
    }
    Ok(())
}

/// Checks for programs of the shield on the watched CPUs. The gap sampler would take half of the
/// CPU time of a running program, so that is refused.
fn check_sampler_cpus(work: &WorkContext<'_>, target: &WatchTarget) -> Result<(), Failure> {
    let WorkContext { ui, host, .. } = work;
    let members = target.place.as_ref().and_then(|place| place.members(host).ok());
    let tasks: Vec<Task> = members
        .iter()
        .flatten()
        .filter_map(|tid| host.task(*tid, *tid).ok())
        .filter(|task| target.cpus.contains(task.cpu) && !task.has_ended())
        .collect();
    if let Some(Task { comm, id, cpu, .. }) = tasks.iter().find(|task| task.state == 'R') {
        return Err(Failure::machine(format!(
            "{comm} ({}) is running on CPU {cpu}, and the gap sampler would delay it",
            id.tid
        ))
        .hint("watch that program instead: cpushield verify --busy"));
    }
    if let Some(Task { comm, id, cpu, .. }) = tasks.first() {
        ui.warn(&format!(
            "{comm} ({}) sleeps on CPU {cpu} and interrupts the gap sampler when it wakes up; to \
             watch that program instead, use --busy",
            id.tid
        ));
    }
    Ok(())
}

/// Reports processes that the program started and left running.
fn report_left_behind(ui: &Ui, left: &LeftBehind) {
    if !left.ended.is_empty() {
        let ended = join_names(&left.ended);
        ui.status(&format!("ended processes that the program left running: {ended}"));
    }
    if let Some((pid, _)) = left.running.first() {
        ui.warn(&format!(
            "cannot end processes that the program left running in the shield: {}; remove them \
             from the shield: cpushield remove {pid}",
            join_names(&left.running)
        ));
    }
}

fn join_names(tasks: &[(i32, String)]) -> String {
    let names: Vec<String> = tasks.iter().map(|(pid, comm)| format!("{comm} ({pid})")).collect();
    names.join(", ")
}

/// How the program ended; `None` when none was started or it still runs.
fn how_program_ended(program: &RefCell<Option<ChildCommand>>) -> Option<ProgramEnd> {
    program.borrow_mut().as_mut().and_then(ChildCommand::ended).map(ProgramEnd::from)
}

/// The text of the progress bar.
fn describe_progress(worst: &WorstSoFar) -> String {
    let mut text = "watching".to_owned();
    if let Some(entries) = worst.entries {
        text.push_str(&format!(", {entries} entries"));
    }
    if let Some(gap) = worst.gap_ns.filter(|gap| *gap > 0) {
        text.push_str(&format!(", longest gap {}", crate::report::table::span(gap)));
    }
    text
}

/// The remedy for a leak of this cause and culprit.
fn describe_remedy(verdict: &Verdict, cause: Cause, culprit: &Culprit) -> Option<String> {
    let mut leaks = verdict.cpus.iter().flat_map(|cpu| &cpu.leaks);
    let leak = leaks
        .find(|leak| leak.interruptions.cause == cause && leak.interruptions.culprit == *culprit)?;
    let remedy = leak.remedy.as_ref()?;
    Some(format!("{}: {}", remedy.tunable, remedy.how))
}

/// Starts the program in the shield.
fn start_program(
    work: &WorkContext<'_>,
    target: &WatchTarget,
    command: &[OsString],
) -> Result<ChildCommand, String> {
    let arguments = run_arguments(work, target, command);
    ChildCommand::start(&work.host, &arguments).map_err(|error| error.to_string())
}

/// The arguments of `cpushield run` that start the program where it is watched: in the shield, and
/// on the first watched CPU if only some are watched.
pub(super) fn run_arguments(
    work: &WorkContext<'_>,
    target: &WatchTarget,
    command: &[OsString],
) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec!["run".into(), "--watched".into()];
    let quiet = work.ui.status_lines == StatusLines::Suppressed;
    args.extend(quiet.then(|| "--quiet".into()));
    args.push("--state".into());
    args.push(work.state_dir.clone().into_os_string());
    args.extend(work.host.log_path().map(log_argument));
    if let Some(place) = target.own_shield() {
        args.extend(["--shield".into(), place.name.clone().into()]);
        if let Some(first) = target.cpus.first().filter(|_| target.cpus != place.cpus) {
            args.extend(["--cpu".into(), first.to_string().into()]);
        }
    }
    args.push("--".into());
    args.extend(command.iter().cloned());
    args
}

/// Finds the threads of the workload: the named ones, or those in the shield's cgroup. If there are
/// none, all user threads that are confined to the watched CPUs.
fn find_workload_threads(host: &Host, target: &WatchTarget, named: &WatchedTasks) -> Vec<i32> {
    if *named != WatchedTasks::default() {
        let threads = named.pid.iter().flat_map(|pid| host.thread_ids(*pid).unwrap_or_default());
        return threads.chain(named.thread.iter().copied()).collect();
    }
    if let Some(members) = target.place.as_ref().and_then(|place| place.members(host).ok())
        && !members.is_empty()
    {
        return members;
    }
    let tasks = host.tasks().unwrap_or_default();
    tasks
        .iter()
        .filter(|task| !task.kthread && target.cpus.contains(task.cpu))
        .map(|task| task.id.tid)
        .filter(|tid| host.affinity(*tid).is_ok_and(|cpus| cpus.is_subset(&target.cpus)))
        .collect()
}
