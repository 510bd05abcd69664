//! The catalogue of causes: every kind of thing that can run on a CPU instead of the workload's
//! user code. Pure. `tunables/` knows what removes each, `verify/` counts them.

#[macro_use]
mod named;

pub mod culprit;
pub mod known;
pub mod lookup;
mod pages;
pub mod purpose;
pub mod topics;

pub use culprit::Culprit;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of an interruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The scheduler's periodic tick.
    Tick,
    /// A high-resolution timer other than the tick.
    Hrtimer,
    /// A timer of the timer wheel.
    Timer,
    /// A device interrupt.
    Irq,
    /// A softirq that did not run inside a counted interruption.
    Softirq,
    /// An IPI that requests a reschedule.
    IpiReschedule,
    /// An IPI that calls a function: TLB flush, text patching, membarrier, …
    IpiCall,
    /// An IPI that runs `irq_work`.
    IpiIrqWork,
    /// A work item of a workqueue, run by a kworker.
    Workqueue,
    /// A kernel thread other than a kworker.
    Kthread,
    /// Another user task.
    UserTask,
    /// A page fault of the workload.
    PageFault,
    /// A system call of the workload.
    Syscall,
    /// Another exception of the workload.
    Exception,
    /// A signal for the workload.
    Signal,
    /// A non-maskable interrupt.
    Nmi,
    /// A machine check or a thermal interrupt.
    MachineCheck,
    /// The frequency of a CPU was changed from this CPU.
    Frequency,
    /// System management mode: firmware took the CPU.
    Smi,
    /// The hypervisor ran something else.
    Steal,
    /// Seen, but of a kind that this catalogue does not have.
    Unattributed,
}

impl Cause {
    /// Every cause, in the order of reports.
    pub const ALL: &[Cause] = &[
        Cause::Tick,
        Cause::Hrtimer,
        Cause::Timer,
        Cause::Irq,
        Cause::Softirq,
        Cause::IpiReschedule,
        Cause::IpiCall,
        Cause::IpiIrqWork,
        Cause::Workqueue,
        Cause::Kthread,
        Cause::UserTask,
        Cause::PageFault,
        Cause::Syscall,
        Cause::Exception,
        Cause::Signal,
        Cause::Nmi,
        Cause::MachineCheck,
        Cause::Frequency,
        Cause::Smi,
        Cause::Steal,
        Cause::Unattributed,
    ];

    /// The stable name, as in `explain` and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cause::Tick => "tick",
            Cause::Hrtimer => "hrtimer",
            Cause::Timer => "timer",
            Cause::Irq => "irq",
            Cause::Softirq => "softirq",
            Cause::IpiReschedule => "ipi-reschedule",
            Cause::IpiCall => "ipi-call",
            Cause::IpiIrqWork => "ipi-irq-work",
            Cause::Workqueue => "workqueue",
            Cause::Kthread => "kthread",
            Cause::UserTask => "user-task",
            Cause::PageFault => "page-fault",
            Cause::Syscall => "syscall",
            Cause::Exception => "exception",
            Cause::Signal => "signal",
            Cause::Nmi => "nmi",
            Cause::MachineCheck => "machine-check",
            Cause::Frequency => "frequency",
            Cause::Smi => "smi",
            Cause::Steal => "steal",
            Cause::Unattributed => "unattributed",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
