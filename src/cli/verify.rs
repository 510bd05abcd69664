//! `cpushield verify`: watches shielded CPUs and reports whether the shield holds.

use super::paint::paint;
use super::request::read_policy;
use super::standing::ActiveArgs;
use super::watch_target::WatchTarget;
use super::{GlobalArgs, exit_status, fix, input};
use crate::causes::{Cause, Culprit};
use crate::export::perfetto::{self, ExportContext};
use crate::export::trace_dat;
use crate::failure::Failure;
use crate::plan::{Plan, Shield, plan};
use crate::policy::{ShieldRequest, VerifyLimits};
use crate::report::verdict as report;
use crate::run::RunError;
use crate::survey::{Machine, survey};
use crate::tunables::{self, RemedyAnswer};
use crate::ui::Ui;
use crate::verify::trace::recording::TraceRecording;
use crate::verify::{
    self, Evidence, GivenWorkload, RawTraceUse, UntilBreach, Verdict, WatchOrder, WatchProgress,
    WatchedWorkload, WorstSoFar,
};
use cpushield_linux::orphans::LeftBehind;
use cpushield_linux::worker_process::ChildCommand;
use cpushield_linux::{CpuSet, Host, Store, Task, can_write, process, signal, write_stream};
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Watch shielded CPUs and say whether the shield holds
///
/// Without a command, a busy loop runs on the CPUs and reads the clock. A gap between two reads is
/// time that something else took. A program must run for at least half of the time to prove
/// anything.
///
/// With --fix, every change becomes part of the active shield, and `cpushield undo` reverts it. A
/// given program is started again for each verification. The last verification decides the exit
/// code.
///
/// Exit code 0: every CPU holds, or with limits, all limits hold. Exit code 1: something does not
/// hold, or is not proven.
#[derive(Debug, clap::Args)]
pub struct VerifyArgs {
    /// CPUs to watch [default: the CPUs of the active shield]
    #[arg(long, value_name = "LIST", value_parser = input::cpu_list)]
    cpus: Option<CpuSet>,
    /// How long to watch
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = input::span)]
    time: Duration,
    /// Warm-up: how long the workload runs before the watch starts; 0s for a short program
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = input::time)]
    warmup: Duration,
    /// Limit: at most N entries into the kernel on each CPU
    #[arg(long, value_name = "N", value_parser = input::amount)]
    max_entries: Option<u64>,
    /// Limit: no gap longer than this, for example 5us. With your own program this can only be
    /// checked on bare metal with an SMI counter
    #[arg(long, value_name = "TIME", value_parser = input::span)]
    max_gap: Option<Duration>,
    /// Policy file with the limits that no flag gives; of several shields in it, --shield names one
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Watch the programs that already run on the CPUs, and start none
    #[arg(long, conflicts_with = "command")]
    busy: bool,
    /// Also trace system calls (slightly slows every system call on the machine)
    #[arg(long)]
    syscalls: bool,
    /// Stop at the first breach of a limit, and report what ran then. Only the end of the trace is
    /// kept, also for --trace-dat and --perfetto, so a watch can last for days
    #[arg(long)]
    stop_on_breach: bool,
    /// Minimum time before the breach that --stop-on-breach keeps of the trace
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = input::span)]
    before: Duration,
    /// Record the kernel stack of each event. This costs the watched CPUs some microseconds per
    /// event
    #[arg(long)]
    stacks: bool,
    /// Fix leaks and drift, then verify again until the shield holds or nothing more can be done.
    /// Fixes that need a reboot are only listed
    #[arg(long)]
    fix: bool,
    /// Cgroup directory that the busy loop joins, if another tool made the shield
    #[arg(long, value_name = "DIR")]
    cgroup: Option<String>,
    /// Write the raw kernel trace of the CPUs to this file, for trace-cmd and KernelShark (which
    /// opens .dat files)
    #[arg(long, value_name = "FILE")]
    trace_dat: Option<PathBuf>,
    /// Write a timeline of the CPUs to this file, for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Program to watch in the shield; it is stopped when the time is over
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
    /// The active shield
    #[command(flatten)]
    active: ActiveArgs,
}

/// Gaps of at least this many nanoseconds are counted, unless a limit is shorter.
const THRESHOLD_NS: u64 = 1_000;

/// What `verify --json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VerifyOutput<'a> {
    /// The observations.
    pub(super) evidence: &'a Evidence,
    /// The verdict on them.
    pub(super) verdict: &'a Verdict,
}

/// Runs the subcommand.
///
/// # Errors
/// The CPUs cannot be watched, or something does not hold.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &VerifyArgs) -> Result<(), Failure> {
    let host = global.host()?;
    if !host.is_live() {
        return Err(Failure::usage("a recorded machine does not run, so it cannot be verified")
            .hint("omit --root")
            .hint("or show the plan for it: cpushield plan --root DIR"));
    }
    args.active.check(&host, &global.store())?;
    let limits = limits(args)?;
    if args.stop_on_breach && limits == VerifyLimits::default() {
        return Err(Failure::usage("--stop-on-breach needs a limit")
            .hint("give one: --max-entries N or --max-gap TIME")
            .hint("or use those of a policy: --policy FILE"));
    }
    export_files(args).try_for_each(can_write)?;
    let target = find_target(&host, global, args)?;
    if args.command.is_empty() && !args.busy {
        check_sampler_cpus(ui, &host, &target)?;
    }
    for tracer in verify::other_tracers(&host) {
        ui.warn(&format!(
            "{tracer} may also be tracing: if it disables events that verify records, the verdict \
             is unknown"
        ));
    }
    signal::catch_stops().map_err(|e| Failure::machine(format!("cannot catch signals: {e}")))?;
    let order = EvidenceRequest { ui, global, args, host: &host, target, limits };
    if args.fix {
        return fix::run(&order);
    }
    let VerifyResult { evidence, verdict, recording, .. } =
        order.watch_and_judge(SurveyWhen::Interrupted)?;
    ui.show(&VerifyOutput { evidence: &evidence, verdict: &verdict }, || {
        report::text(&evidence, &verdict, &paint, ui.width())
    })?;
    export(ui, args, recording, &VerifyOutput { evidence: &evidence, verdict: &verdict })?;
    let subject = match order.target.own_shield() {
        Some(_) => exit_status::VerdictSubject::Shield,
        None => exit_status::VerdictSubject::Cpus,
    };
    exit_status::check(&verdict, subject)
}

/// The inputs of a watch.
pub(super) struct EvidenceRequest<'a> {
    pub(super) ui: &'a Ui,
    pub(super) global: &'a GlobalArgs,
    pub(super) args: &'a VerifyArgs,
    pub(super) host: &'a Host,
    pub(super) target: WatchTarget,
    limits: VerifyLimits,
}

/// When the machine is surveyed after a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SurveyWhen {
    /// After every watch.
    Always,
    /// After an interruption was seen, because only a remedy needs the survey.
    Interrupted,
}

/// The result of a watch.
pub(super) struct VerifyResult {
    pub(super) evidence: Evidence,
    pub(super) verdict: Verdict,
    pub(super) recording: Option<TraceRecording>,
    /// The machine right after the watch, if a remedy or the caller needs it.
    pub(super) known: Option<(Machine, Shield)>,
}

impl EvidenceRequest<'_> {
    /// Watches, surveys the machine when that is needed, and judges.
    pub(super) fn watch_and_judge(&self, survey: SurveyWhen) -> Result<VerifyResult, Failure> {
        let EvidenceRequest { ui, global, args, host, target, limits } = self;
        let (evidence, recording) = watch_target(ui, global, args, host, target, limits)?;
        let interrupted = evidence.cpus.iter().any(|cpu| !cpu.interruptions.is_empty());
        // The survey comes after the watch, because a shield that holds does not need one.
        let known = if interrupted || survey == SurveyWhen::Always {
            find_remedy_target(host, &global.store(), target.active.as_ref(), &target.cpus)
        } else {
            None
        };
        let verdict = verify::judge(&evidence, limits, &|row| {
            known.as_ref().map_or(RemedyAnswer::Unknown, |(machine, shield)| {
                tunables::remedy(machine, shield, row.cause, &row.culprit)
            })
        });
        let verdict = match &known {
            Some((machine, _)) => verdict.with_devices(|irq| machine.device_of(irq)),
            None => verdict,
        };
        Ok(VerifyResult { evidence, verdict, recording, known })
    }
}

/// The limits of the options; those of the policy for the rest.
fn limits(args: &VerifyArgs) -> Result<VerifyLimits, Failure> {
    let mut limits = VerifyLimits::default();
    if let Some(file) = &args.policy {
        let name = file.display().to_string();
        let policy = read_policy(&input::read_file(file)?, &name)?;
        let (_, shield) = policy
            .shield(args.active.shield.as_deref(), &name)
            .map_err(|error| Failure::usage(error.to_string()))?;
        limits = shield.limits;
    }
    limits.max_entries = args.max_entries.or(limits.max_entries);
    limits.max_gap_ns = args.max_gap.map(nanos).or(limits.max_gap_ns);
    Ok(limits)
}

/// Finds the CPUs to watch, and checks that the program can be started.
fn find_target(
    host: &Host,
    global: &GlobalArgs,
    args: &VerifyArgs,
) -> Result<WatchTarget, Failure> {
    let target = WatchTarget::find(host, &global.store(), args.cpus.as_ref(), "verify")?;
    if !args.command.is_empty() && target.own_shield().is_none() {
        return Err(Failure::machine(
            "no shield is in force there, and a program is only watched in a shield",
        )
        .hint("apply a shield: cpushield apply")
        .hint("or start the program yourself and watch it: cpushield verify --busy"));
    }
    if let Some(program) = args.command.first() {
        // `run` would report this too, but only when everything else is ready.
        process::executable(program).map_err(|error| {
            let program = program.display().to_string();
            RunError::Exec { program, error }
        })?;
    }
    Ok(target)
}

/// Checks for programs of the shield on the watched CPUs. The gap sampler would take half of the
/// CPU time of a running program, so that is refused.
fn check_sampler_cpus(ui: &Ui, host: &Host, target: &WatchTarget) -> Result<(), Failure> {
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
            "{comm} ({}) sleeps on CPU {cpu} and interrupts the gap sampler when it wakes up; \
             --busy watches it instead",
            id.tid
        ));
    }
    Ok(())
}

/// Watches the CPUs, with the given program or the gap sampler.
fn watch_target(
    ui: &Ui,
    global: &GlobalArgs,
    args: &VerifyArgs,
    host: &Host,
    target: &WatchTarget,
    limits: &VerifyLimits,
) -> Result<(Evidence, Option<TraceRecording>), Failure> {
    let recording = RefCell::new(None);
    let keep_recording = |taken| *recording.borrow_mut() = Some(taken);
    let program: RefCell<Option<ChildCommand>> = RefCell::new(None);
    let given = args.busy || !args.command.is_empty();
    let bar = ui.bar();
    let worst = Cell::new(WorstSoFar::default());
    let threshold_ns = limits.max_gap_ns.map_or(THRESHOLD_NS, |most| most.clamp(1, THRESHOLD_NS));
    let evidence = verify::watch(
        host,
        &WatchOrder {
            cpus: target.cpus.clone(),
            span: args.time,
            warmup: args.warmup,
            threshold_ns,
            syscalls: args.syscalls,
            cgroup: args.cgroup.clone().or_else(|| target.group()),
            workload: given.then_some(GivenWorkload {
                start: &|| {
                    if !args.command.is_empty() {
                        *program.borrow_mut() = Some(start_program(global, &args.command)?);
                    }
                    Ok(())
                },
                threads: &|| match program.borrow().as_ref() {
                    Some(program) => list_threads(host, program.pid()),
                    None => find_workload_threads(host, target),
                },
                ended: &|| how_program_ended(&program),
            }),
            stacks: args.stacks,
            until: args
                .stop_on_breach
                .then(|| UntilBreach { limits: *limits, before_ns: nanos(args.before) }),
            keep: export_files(args)
                .next()
                .map(|beside| RawTraceUse { beside, take: &keep_recording }),
            progress: &|progress| match progress {
                WatchProgress::Arming => bar.show_task("getting ready"),
                WatchProgress::Settling => bar.show_task("warming up"),
                WatchProgress::Watching { done, of, worst: now } => {
                    bar.show_progress(&describe_progress(&now), done, of);
                    worst.set(now);
                }
                WatchProgress::Gathering => bar.show_task("collecting the results"),
            },
            stop: &|| signal::stopped_by().is_some(),
        },
    );
    bar.end();
    if args.stop_on_breach
        && let Ok(evidence) = &evidence
        && (evidence.breach.is_some() || worst.get().breaks(limits))
    {
        ui.status("stopped the watch, because a limit was exceeded");
    }
    if let Some(how) = how_program_ended(&program) {
        ui.status(&format!("the program ended by itself: {how}"));
    }
    if let Some(program) = program.borrow_mut().as_mut() {
        report_left_behind(ui, &program.end());
    }
    Ok((evidence?, recording.into_inner()))
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

/// How the program ended, in words; `None` when none was started or it still runs.
fn how_program_ended(program: &RefCell<Option<ChildCommand>>) -> Option<String> {
    program.borrow_mut().as_mut().and_then(ChildCommand::ended)
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

/// The files of `--trace-dat` and `--perfetto`.
fn export_files(args: &VerifyArgs) -> impl Iterator<Item = &Path> {
    args.trace_dat.iter().chain(&args.perfetto).map(PathBuf::as_path)
}

/// Writes the files of `--trace-dat` and `--perfetto`.
pub(super) fn export(
    ui: &Ui,
    args: &VerifyArgs,
    recording: Option<TraceRecording>,
    output: &VerifyOutput<'_>,
) -> Result<(), Failure> {
    let Some(mut recording) = recording else {
        for file in export_files(args) {
            ui.warn(&format!("{}: not written, because there is no trace", file.display()));
        }
        return Ok(());
    };
    if let Some(file) = &args.trace_dat {
        write_stream(file, &mut |out| trace_dat::write(&mut recording, out))?;
        ui.status(&format!("wrote {0}: trace-cmd report -i {0}", file.display()));
    }
    if let Some(file) = &args.perfetto {
        let is_sampler = output.evidence.workload == WatchedWorkload::Sampler;
        let context = ExportContext {
            workload: is_sampler.then_some("busy loop of cpushield"),
            remedy: &|cause, culprit| describe_remedy(output.verdict, cause, culprit),
        };
        write_stream(file, &mut |out| perfetto::write(&mut recording, &context, out))?;
        ui.status(&format!("wrote {}: open it in ui.perfetto.dev", file.display()));
    }
    Ok(())
}

/// The remedy for a leak of this cause and culprit.
fn describe_remedy(verdict: &Verdict, cause: Cause, culprit: &Culprit) -> Option<String> {
    let mut leaks = verdict.cpus.iter().flat_map(|cpu| &cpu.leaks);
    let leak = leaks
        .find(|leak| leak.interruptions.cause == cause && leak.interruptions.culprit == *culprit)?;
    let remedy = leak.remedy.as_ref()?;
    Some(format!("{}: {}", remedy.tunable, remedy.how))
}

/// Starts the program in the shield, with `cpushield run`.
fn start_program(global: &GlobalArgs, command: &[OsString]) -> Result<ChildCommand, String> {
    let mut args: Vec<OsString> = vec!["run".into()];
    args.extend(global.quiet.then(|| "--quiet".into()));
    args.push("--state".into());
    args.push(global.state_dir().into_os_string());
    args.push("--".into());
    args.extend(command.iter().cloned());
    ChildCommand::start(&args).map_err(|error| error.to_string())
}

/// Lists the current threads of a process.
fn list_threads(host: &Host, pid: i32) -> Vec<i32> {
    let names = host.list(&format!("/proc/{pid}/task")).unwrap_or_default();
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

/// Finds the threads of the workload: those in the shield's cgroup. If there are none, all user
/// threads that are confined to the watched CPUs.
fn find_workload_threads(host: &Host, target: &WatchTarget) -> Vec<i32> {
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

/// The machine and the shield that remedies are for: the active shield, or a hypothetical one on
/// these CPUs.
pub(super) fn find_remedy_target(
    host: &Host,
    store: &Store,
    active: Option<&Plan>,
    cpus: &CpuSet,
) -> Option<(Machine, Shield)> {
    let machine = match active {
        Some(plan) => super::survey_shielded(host, store, plan),
        None => survey(host, &tunables::reads()),
    };
    let shield = match active {
        Some(plan) if cpus.is_subset(&plan.shield.cpus) => plan.shield.clone(),
        _ => {
            let cpus = Some(cpus.clone());
            plan(&machine, &ShieldRequest { cpus, half_core: true, ..ShieldRequest::default() })
                .ok()?
                .shield
        }
    };
    Some((machine, shield))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
