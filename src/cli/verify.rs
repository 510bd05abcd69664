//! `cpushield verify`: watches shielded CPUs and reports whether the shield holds.

use super::active::ActiveArgs;
use super::help::{BUG, HelpTail, USAGE};
use super::paint::show;
use super::{GlobalArgs, input};
use crate::cpu_selection::CpuSelection;
use crate::documents::evidence::VerifyDocument;
use crate::failure::Failure;
use crate::policy::{TickLimit, VerifyLimits, Workload, parse_share};
use crate::report::verdict as report;
use crate::ui::Ui;
use crate::workflow::cpu_names::select_cpus;
use crate::workflow::fix;
use crate::workflow::verdict_check::{self, VerdictSubject};
use crate::workflow::verify_shield::{SurveyWhen, VerifyResult, VerifySession, read_limits};
use crate::workflow::watch_request::{WatchRequest, WatchedProgram, WatchedTasks};
use cpushield_linux::CpuSet;
use cpushield_linux::sys::clock::nanos;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Watch shielded CPUs and say whether the shield holds
///
/// Without a command, a busy loop runs on the CPUs and reads the clock. A gap between two reads is
/// time taken by something else. The result is unknown if your program ends in the first half of
/// the time, or if the CPU is idle the whole time.
///
/// With --fix, every change becomes part of the active shield, and `cpushield undo` reverts it. If
/// you give a command, it is started again for each verification. The last verification determines
/// the exit code.
///
/// Exit code 0: the shield holds on every CPU or, with limits, all limits hold. Exit code 1: the
/// shield or a limit does not hold, or the result is unknown.
#[derive(Debug, clap::Args)]
pub struct VerifyArgs {
    /// CPUs to watch [default: the CPUs of the active shield]
    #[arg(long, value_name = "LIST", value_parser = input::cpu_selection)]
    cpus: Option<CpuSelection>,
    /// How long to watch
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = input::span)]
    time: Duration,
    /// Warm-up: how long the workload runs before the watch starts; 0s for a short program
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = input::time)]
    warmup: Duration,
    /// Limit: at most N kernel entries on each CPU
    #[arg(long, value_name = "N", value_parser = input::amount)]
    max_entries: Option<u64>,
    /// Limit: no gap longer than this, for example 5us. With your own program, this limit can only
    /// be checked on bare metal with an SMI counter
    #[arg(long, value_name = "TIME", value_parser = input::span)]
    max_gap: Option<Duration>,
    /// Limit: at most N foreign interruptions of a cyclic workload on each CPU, also harmless ones
    #[arg(long, value_name = "N", value_parser = input::amount)]
    max_foreign: Option<u64>,
    /// Limit: at most this share of the time may be taken below the kernel, for example 1%: by the
    /// host of a guest, or by the firmware
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    max_steal: Option<u64>,
    /// Whether the tick counts against a cyclic workload
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    tick: TickLimit,
    /// Judge the program as this workload: a cyclic one sleeps, and only what is foreign counts
    /// [default: the workload of the active shield]
    #[arg(long, value_name = "KIND", value_enum)]
    workload: Option<Workload>,
    /// Watch only this process of those on the CPUs; may be repeated
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pid: Vec<i32>,
    /// Watch only this thread of those on the CPUs; may be repeated
    #[arg(long, value_name = "TID", conflicts_with = "command")]
    thread: Vec<i32>,
    /// Policy file for the limits not set by an option; if it has several shields, --shield selects
    /// one
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Watch the programs that already run on the CPUs; start no program
    #[arg(long, conflicts_with = "command")]
    busy: bool,
    /// Watch even if tracing interrupts other active shields; let --fix interrupt them too
    #[arg(long)]
    disturb: bool,
    /// Also trace system calls (slightly slows every system call on the machine)
    #[arg(long)]
    syscalls: bool,
    /// Stop at the first breach of a limit, and report what ran at that moment. Only the end of the
    /// trace is kept, even for --trace-dat and --perfetto, so a watch can last for days
    #[arg(long)]
    stop_on_breach: bool,
    /// With --stop-on-breach: minimum time before the breach that the trace covers
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = input::span)]
    #[arg(requires = "stop_on_breach")]
    before: Duration,
    /// Record the kernel stack of each event. This costs the watched CPUs a few microseconds per
    /// event
    #[arg(long)]
    stacks: bool,
    /// Fix leaks and drift, then verify again until the shield holds or no fix is left. Fixes that
    /// need a reboot are only listed
    #[arg(long)]
    fix: bool,
    /// Cgroup directory that the busy loop joins, if another tool made the shield
    #[arg(long, value_name = "DIR")]
    cgroup: Option<String>,
    /// Write the raw kernel trace of the CPUs to this file, for trace-cmd and KernelShark (use the
    /// extension .dat)
    #[arg(long, value_name = "FILE", value_parser = input::output_file())]
    trace_dat: Option<PathBuf>,
    /// Write a timeline of the CPUs to this file, for ui.perfetto.dev
    #[arg(long, value_name = "FILE", value_parser = input::output_file())]
    perfetto: Option<PathBuf>,
    /// Write the JSON document to this file. During the watch, the file holds the progress, updated
    /// once a minute. An interrupted watch cannot be resumed, but the file shows how long it lasted
    #[arg(short, long, value_name = "FILE", value_parser = input::output_file())]
    output: Option<PathBuf>,
    /// Program to run and watch in the shield; it is stopped when the time is up
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
    /// The active shield
    #[command(flatten)]
    active: ActiveArgs,
}

impl VerifyArgs {
    fn given_limits(&self) -> VerifyLimits {
        VerifyLimits {
            max_entries: self.max_entries,
            max_gap_ns: self.max_gap.map(nanos),
            two_witnesses: false,
            max_foreign: self.max_foreign,
            max_steal_ppm: self.max_steal,
            tick: self.tick,
        }
    }

    fn request(&self, limits: VerifyLimits, cpus: Option<CpuSet>) -> WatchRequest {
        let named = !self.pid.is_empty() || !self.thread.is_empty();
        WatchRequest {
            cpus,
            span: self.time,
            warmup: self.warmup,
            limits,
            program: match self.command.as_slice() {
                [] if self.busy || named => WatchedProgram::Running,
                [] => WatchedProgram::Sampler,
                command => WatchedProgram::Started(command.to_vec()),
            },
            workload: self.workload,
            tasks: WatchedTasks { pids: self.pid.clone(), tids: self.thread.clone() },
            syscalls: self.syscalls,
            disturbance: self.disturb.into(),
            stacks: self.stacks,
            before_breach: self.stop_on_breach.then_some(self.before),
            cgroup: self.cgroup.clone(),
            trace_dat: self.trace_dat.clone(),
            perfetto: self.perfetto.clone(),
            output: self.output.clone(),
        }
    }
}

/// The end of its help.
pub(super) const HELP: HelpTail = HelpTail {
    examples: &[
        ("cpushield verify", "watch the shield for 10 seconds"),
        ("cpushield verify --for 10m --max-entries 5", "check a limit"),
        ("cpushield verify --cpus 3 -- ./control", "with a program instead of the busy loop"),
        ("cpushield verify --fix", "fix leaks, then verify again"),
    ],
    exit_codes: &[
        ("0", "the shield holds and every limit is met; with --fix: after the last change"),
        (
            "1",
            "the shield leaks, a limit is exceeded, or the result is unknown; the message says \
                 which",
        ),
        USAGE,
        ("3", "failure: no shield, or the CPUs cannot be watched"),
        BUG,
    ],
};

/// Runs the subcommand.
///
/// # Errors
/// The CPUs cannot be watched, or something does not hold.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &VerifyArgs) -> Result<(), Failure> {
    let mut work = global.open_live(ui)?;
    args.active.select(&mut work)?;
    let shield = args.active.shield.as_deref();
    let policy = args.policy.as_deref();
    let (limits, workload) = read_limits(&work.host, policy, shield, args.given_limits())?;
    let cpus = select_cpus(&work.host, args.cpus.as_ref())?;
    let mut request = args.request(limits, cpus);
    request.workload = request.workload.or(workload);
    let session = VerifySession::prepare(&work, request)?;
    if args.fix {
        return run_fix(ui, &session);
    }
    let watched = session.watch_and_judge(SurveyWhen::Interrupted)?;
    let VerifyResult { evidence, verdict, recording, known } = watched;
    let document = VerifyDocument::new(evidence, verdict);
    let VerifyDocument { evidence, verdict, .. } = &document;
    show(ui, &document, || report::blocks(evidence, verdict))?;
    session.save(&document)?;
    session.export(recording, evidence, verdict)?;
    let subject = match session.target.own_shield() {
        Some(_) => VerdictSubject::Shield,
        None => VerdictSubject::Cpus,
    };
    verdict_check::check(verdict, subject, || {
        verdict_check::boot_hint(&work, verdict, known.map(|(machine, _)| machine))
    })
}

/// Runs `verify --fix`.
fn run_fix(ui: &Ui, session: &VerifySession<'_>) -> Result<(), Failure> {
    let (fixed, recording) = fix::fix(session)?;
    show(ui, &fixed, || fixed.blocks())?;
    let Some(last) = fixed.rounds.last() else { return Ok(()) };
    session.save(&fixed)?;
    session.export(recording, &last.evidence, &last.verdict)?;
    let (work, verdict) = (session.work, &last.verdict);
    let subject = VerdictSubject::FixedShield;
    verdict_check::check(verdict, subject, || verdict_check::boot_hint(work, verdict, None))
}
