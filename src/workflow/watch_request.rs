//! What `verify` is asked for: [`WatchRequest`].

use crate::cpu_selection::CpuSelection;
use crate::documents::evidence::{WatchOptions, WatchedWorkload};
use crate::input;
use crate::policy::{TickLimit, VerifyLimits, Workload, parse_share};
use cpushield_linux::sys::clock::nanos;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What to watch, how long, and which files to write
#[derive(Debug, Clone, clap::Args)]
pub struct WatchRequest {
    /// CPUs to watch [default: the CPUs of the active shield]
    #[arg(long, value_name = "LIST", value_parser = input::cpu_selection)]
    pub cpus: Option<CpuSelection>,
    /// How long to watch
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = input::span)]
    pub time: Duration,
    /// Warm-up: how long the workload runs before the watch starts; 0s for a short program
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = input::time)]
    pub warmup: Duration,
    /// Limit: at most N kernel entries on each CPU
    #[arg(long, value_name = "N", value_parser = input::amount)]
    pub max_entries: Option<u64>,
    /// Limit: no gap longer than this, for example 5us. With your own program, this limit can only
    /// be checked on bare metal with an SMI counter
    #[arg(long, value_name = "TIME", value_parser = input::span)]
    pub max_gap: Option<Duration>,
    /// Limit: at most N foreign interruptions of a cyclic workload on each CPU, also harmless ones
    #[arg(long, value_name = "N", value_parser = input::amount)]
    pub max_foreign: Option<u64>,
    /// Limit: at most this share of the time may be taken below the kernel, for example 1%: by the
    /// host of a guest, or by the firmware
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub max_steal: Option<u64>,
    /// Whether the tick counts against a cyclic workload
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    pub tick: TickLimit,
    /// Judge the program as this workload: a cyclic one sleeps, and only what is foreign counts
    /// [default: the workload of the active shield]
    #[arg(long, value_name = "KIND", value_enum)]
    pub workload: Option<Workload>,
    /// The workload
    #[command(flatten)]
    pub tasks: WatchedTasks,
    /// Policy file for the limits not set by an option; if it has several shields, --shield selects
    /// one
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Watch the programs that already run on the CPUs; start no program
    #[arg(long, conflicts_with = "command")]
    pub busy: bool,
    /// Watch even if tracing interrupts other active shields; let --fix interrupt them too
    #[arg(long)]
    pub disturb: bool,
    /// Also trace system calls (slightly slows every system call on the machine)
    #[arg(long)]
    pub syscalls: bool,
    /// Stop at the first breach of a limit, and report what ran at that moment. Only the end of the
    /// trace is kept, even for --trace-dat and --perfetto, so a watch can last for days
    #[arg(long)]
    pub stop_on_breach: bool,
    /// With --stop-on-breach: minimum time before the breach that the trace covers
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = input::span)]
    #[arg(requires = "stop_on_breach")]
    pub before: Duration,
    /// Record the kernel stack of each event. This costs the watched CPUs a few microseconds per
    /// event
    #[arg(long)]
    pub stacks: bool,
    /// Fix leaks and drift, then verify again until the shield holds or no fix is left. Fixes that
    /// need a reboot are only listed
    #[arg(long)]
    pub fix: bool,
    /// Cgroup directory that the busy loop joins, if another tool made the shield
    #[arg(long, value_name = "DIR")]
    pub cgroup: Option<String>,
    /// Write the raw kernel trace of the CPUs to this file, for trace-cmd and KernelShark (use the
    /// extension .dat)
    #[arg(long, value_name = "FILE", value_parser = input::output_file())]
    pub trace_dat: Option<PathBuf>,
    /// Write a timeline of the CPUs to this file, for ui.perfetto.dev
    #[arg(long, value_name = "FILE", value_parser = input::output_file())]
    pub perfetto: Option<PathBuf>,
    /// Write the JSON document to this file. During the watch, the file holds the progress, updated
    /// once a minute. An interrupted watch cannot be resumed, but the file shows how long it lasted
    #[arg(short, long, value_name = "FILE", value_parser = input::output_file())]
    pub output: Option<PathBuf>,
    /// Program to run and watch in the shield; it is stopped when the time is up
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// The processes and threads that are the workload; without any, all threads in the shield are
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct WatchedTasks {
    /// Watch only this process of those on the CPUs; may be repeated
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pub pid: Vec<i32>,
    /// Watch only this thread of those on the CPUs; may be repeated
    #[arg(long, value_name = "TID", conflicts_with = "command")]
    pub thread: Vec<i32>,
}

impl WatchRequest {
    /// The limits of the options.
    pub(super) fn limits(&self) -> VerifyLimits {
        VerifyLimits {
            max_entries: self.max_entries,
            max_gap_ns: self.max_gap.map(nanos),
            two_witnesses: false,
            max_foreign: self.max_foreign,
            max_steal_ppm: self.max_steal,
            tick: self.tick,
        }
    }

    /// Whether the gap sampler runs on the CPUs, and no program is watched.
    pub(super) fn is_sampled(&self) -> bool {
        self.command.is_empty() && !self.busy && self.tasks == WatchedTasks::default()
    }

    /// The time before a breach that is kept of the trace; `None` if a breach does not end the
    /// watch.
    pub(super) fn before_breach(&self) -> Option<Duration> {
        self.stop_on_breach.then_some(self.before)
    }

    /// The options that the evidence records.
    pub(super) fn options(&self) -> WatchOptions {
        WatchOptions {
            warmup_ns: nanos(self.warmup),
            syscalls: self.syscalls,
            stacks: self.stacks,
            before_breach_ns: self.before_breach().map(nanos),
            cgroup: self.cgroup.clone(),
            started_program: !self.command.is_empty(),
        }
    }

    /// As what a program is judged.
    pub(super) fn kind(&self) -> WatchedWorkload {
        match self.workload {
            Some(Workload::Cyclic) => WatchedWorkload::Cyclic,
            _ => WatchedWorkload::Given,
        }
    }

    /// The files that the trace is exported to.
    pub(super) fn export_files(&self) -> impl Iterator<Item = &Path> {
        self.trace_dat.iter().chain(&self.perfetto).map(PathBuf::as_path)
    }
}
