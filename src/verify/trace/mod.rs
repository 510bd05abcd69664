//! The kernel's trace as witness: a private tracing instance whose binary pages are read from a
//! housekeeping CPU and turned into interruptions by cause and culprit.
//!
//! How it is used:
//!
//! 1. [`Recorder::arm`] before the workload starts: makes the instance, sizes its buffers, enables
//!    the events. This interrupts every CPU (the kernel patches its code), which is why it comes
//!    first.
//! 2. [`Recorder::start`]: recording begins; costs the watched CPUs nothing.
//! 3. [`Recorder::poll`] every 50 to 100 ms from a housekeeping thread: reads what is there and
//!    counts. It never waits on the buffer, because the kernel would wake a waiter by an interrupt
//!    on the watched CPU (`rb_wakeups()`).
//! 4. [`Recorder::cut`] ends a phase and gives its evidence; the next begins at the same moment. So
//!    a positive control can be provoked in a phase of its own before and after the time that
//!    counts.
//! 5. Dropping the recorder puts everything back.
//!
//! Deliberately not here: who is to be watched and for how long (`verify::watch`), and what the
//! evidence means (`verify::judge`).

use crate::verify::Interruptions;
use cpushield_linux::{CpuSet, Host};
use serde::{Deserialize, Serialize};

/// What is to be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The CPUs to watch.
    pub cpus: CpuSet,
    /// The workload's system calls too. Costs every process of the machine a little on each of its
    /// system calls while armed, so only when asked.
    pub syscalls: bool,
}

/// Why there is no trace here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    /// For people: what is missing and what would help.
    pub why: String,
}

/// What the trace saw on one CPU in one phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceEvidence {
    /// The CPU.
    pub cpu: usize,
    /// Length of the phase in nanoseconds.
    pub span_ns: u64,
    /// Entries into the kernel that have an event of their own: vectors, device interrupts, user
    /// page faults, NMIs, and system calls when asked for.
    pub entries: u64,
    /// Switches from one task to another.
    pub switches: u64,
    /// Stays in the kernel or in another task: the sum of `count` over [`Self::interruptions`].
    pub stays: u64,
    /// By cause and culprit, most frequent first.
    pub interruptions: Vec<Interruptions>,
    /// Longest time the workload was in user mode without an interruption, in nanoseconds (the
    /// longest idle time when no workload was named). `None` when it never ran.
    pub longest_ns: Option<u64>,
    /// Events the kernel dropped because the buffer was full.
    pub lost: u64,
    /// Bytes of the trace that were not understood.
    pub skipped_bytes: u64,
    /// How often each event was seen, by name.
    pub events: Vec<(String, u64)>,
    /// What weakens the evidence, for people: lost events, a clock that went backwards, …
    pub doubts: Vec<String>,
}

/// A running trace of some CPUs.
#[derive(Debug)]
pub struct Recorder<'h> {
    host: &'h Host,
    blind: Vec<String>,
}

impl<'h> Recorder<'h> {
    /// Makes everything ready; nothing is recorded yet.
    ///
    /// # Errors
    /// There is no tracing here, it is not allowed, or arming it now would hang.
    pub fn arm(host: &'h Host, _order: &Order) -> Result<Recorder<'h>, Absent> {
        if !host.is_live() {
            return Err(Absent { why: "a recorded machine cannot be traced".to_owned() });
        }
        Err(Absent { why: "this build cannot trace yet".to_owned() })
    }

    /// What this trace cannot see on this kernel, for people.
    #[must_use]
    pub fn blind(&self) -> &[String] {
        &self.blind
    }

    /// The threads that make up the workload, by number; may be told at any time. Without a
    /// workload an idle CPU counts as undisturbed.
    pub fn workload(&mut self, _tids: &[i32]) {}

    /// Recording begins.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn start(&mut self) -> cpushield_linux::Result<()> {
        self.host.read("/proc/self/status").map(drop)
    }

    /// Reads and counts what the kernel has recorded since the last time. Never waits.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn poll(&mut self) -> cpushield_linux::Result<()> {
        Ok(())
    }

    /// Ends a phase: everything until now. One entry for each watched CPU.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn cut(&mut self) -> cpushield_linux::Result<Vec<TraceEvidence>> {
        self.poll()?;
        Ok(Vec::new())
    }
}
