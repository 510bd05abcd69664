//! What `verify` is asked for: [`WatchRequest`].

use crate::documents::evidence::{WatchOptions, WatchedWorkload};
use crate::policy::{DisturbanceConsent, VerifyLimits, Workload};
use cpushield_linux::CpuSet;
use cpushield_linux::sys::clock::nanos;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What to watch, how long, and which files to write.
#[derive(Debug, Clone)]
pub struct WatchRequest {
    /// The CPUs; those of the active shield if `None`.
    pub cpus: Option<CpuSet>,
    /// How long to watch.
    pub span: Duration,
    /// How long the workload runs before the watch starts.
    pub warmup: Duration,
    /// The limits that the verdict checks.
    pub limits: VerifyLimits,
    /// What runs on the CPUs.
    pub program: WatchedProgram,
    /// The workload to judge it as; that of the active shield if `None`.
    pub workload: Option<Workload>,
    /// The processes and threads to watch instead of all in the shield.
    pub tasks: WatchedTasks,
    /// Whether system calls are traced.
    pub syscalls: bool,
    /// Whether the trace may interrupt other shields.
    pub disturbance: DisturbanceConsent,
    /// Whether the kernel stack of each event is recorded.
    pub stacks: bool,
    /// The time before a breach that is kept of the trace; `None` if a breach does not end the
    /// watch.
    pub before_breach: Option<Duration>,
    /// The cgroup that the sampler joins, if another tool made the shield.
    pub cgroup: Option<String>,
    /// The file for the raw trace.
    pub trace_dat: Option<PathBuf>,
    /// The file for a timeline.
    pub perfetto: Option<PathBuf>,
    /// The file for the document, which has the progress until the watch ends.
    pub output: Option<PathBuf>,
}

impl WatchRequest {
    /// The options that the evidence records.
    pub(super) fn options(&self) -> WatchOptions {
        WatchOptions {
            warmup_ns: nanos(self.warmup),
            syscalls: self.syscalls,
            stacks: self.stacks,
            before_breach_ns: self.before_breach.map(nanos),
            cgroup: self.cgroup.clone(),
            started_program: matches!(self.program, WatchedProgram::Started(_)),
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

/// The processes and threads that are the workload; without any, all threads in the shield are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchedTasks {
    /// Processes, with all their threads.
    pub pids: Vec<i32>,
    /// Threads.
    pub tids: Vec<i32>,
}

/// What runs on the watched CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchedProgram {
    /// The gap sampler.
    Sampler,
    /// The programs that already run there.
    Running,
    /// This command, which is started in the shield.
    Started(Vec<OsString>),
}
