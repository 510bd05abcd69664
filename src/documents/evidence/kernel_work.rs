//! The kinds of work in the kernel that the trace of one interruption shows.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A kind of work in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum KernelWork {
    /// A whole interruption, with everything inside it.
    Interruption,
    /// The interrupt of the local timer: the tick and high-resolution timers.
    LocalTimer,
    /// An IPI that makes the CPU choose another task.
    RescheduleIpi,
    /// An IPI that calls functions.
    FunctionCallIpi,
    /// An IPI or a self-IPI of irq_work.
    IrqWork,
    /// Another interrupt vector.
    Vector,
    /// The handler of a device's interrupt.
    DeviceInterrupt,
    /// A softirq.
    Softirq,
    /// A high-resolution timer.
    Hrtimer,
    /// A timer of the timer wheel.
    Timer,
    /// A function that an IPI called.
    CalledFunction,
    /// An item of a workqueue.
    WorkItem,
    /// Another task.
    Task,
    /// A system call.
    SystemCall,
    /// A page fault.
    PageFault,
    /// Work of the kernel that no event names.
    Kernel,
    /// An NMI.
    Nmi,
}

impl KernelWork {
    /// Its name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            KernelWork::Interruption => "interruption",
            KernelWork::LocalTimer => "local timer interrupt",
            KernelWork::RescheduleIpi => "reschedule IPI",
            KernelWork::FunctionCallIpi => "function-call IPI",
            KernelWork::IrqWork => "irq_work interrupt",
            KernelWork::Vector => "interrupt",
            KernelWork::DeviceInterrupt => "device interrupt",
            KernelWork::Softirq => "softirq",
            KernelWork::Hrtimer => "hrtimer",
            KernelWork::Timer => "timer",
            KernelWork::CalledFunction => "called function",
            KernelWork::WorkItem => "work item",
            KernelWork::Task => "task",
            KernelWork::SystemCall => "system call",
            KernelWork::PageFault => "page fault",
            KernelWork::Kernel => "kernel",
            KernelWork::Nmi => "NMI",
        }
    }
}

impl fmt::Display for KernelWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
