//! [`Culprit`]: what interrupted a CPU, as a type from the trace to the last table. Its
//! `Display` is what tables show. Pure.

mod kernel;
mod pattern;
mod shown;

pub use kernel::{
    KernelEvent, PageAccess, SOFTIRQS, SignalSender, TickDependency, is_exception_signal,
    signal_name, softirq_name,
};
pub use pattern::CulpritPattern;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What interrupted a CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Culprit {
    /// Unknown: no source of evidence names it.
    #[default]
    Unknown,
    /// A device interrupt.
    Irq {
        /// Its number.
        irq: u32,
        /// The name it was requested with; empty when it has none.
        name: String,
    },
    /// An interrupt without a number, by the description of `/proc/interrupts`.
    Interrupt {
        /// The description.
        name: String,
    },
    /// A function of the kernel: of a timer, of a function call, an NMI handler.
    Function {
        /// Its name, or its address where the kernel hides names.
        name: String,
    },
    /// The tick.
    Tick {
        /// The function of its timer.
        function: String,
        /// What kept it, as the kernel last reported; empty when it reported nothing.
        kept_by: Vec<TickDependency>,
    },
    /// A work item.
    Work {
        /// Its function.
        function: String,
        /// Whether its kworker is unbound.
        unbound: bool,
    },
    /// A kernel thread.
    Kthread {
        /// Its name.
        comm: String,
    },
    /// A user task.
    Task {
        /// Its number.
        pid: i32,
        /// Its command name; empty when the task ended before it could be looked up.
        comm: String,
    },
    /// A softirq.
    Softirq {
        /// Its name: `NET_RX`.
        name: String,
        /// What raised it.
        raised_by: RaisedBy,
    },
    /// `irq_work`, which no event names.
    IrqWork {
        /// What raised it.
        raised_by: RaisedBy,
    },
    /// A page fault.
    PageFault {
        /// The access.
        access: PageAccess,
        /// Whether the kernel accessed the page on behalf of the task.
        in_kernel: bool,
    },
    /// A signal.
    Signal {
        /// Its name: `SIGALRM`.
        name: String,
        /// The sender.
        sent_by: SignalSender,
    },
    /// A bank of machine checks.
    MachineCheckBank {
        /// Its number.
        bank: u8,
    },
    /// A system call.
    Syscall {
        /// Its name, or `system call NUMBER`.
        name: String,
    },
    /// Something that the kernel reports without naming it.
    Event {
        /// The event.
        event: KernelEvent,
    },
    /// A record of an event that was not enabled.
    UnexpectedRecord {
        /// The event's number.
        id: u16,
    },
    /// A record that is too short for its fields.
    TruncatedRecord {
        /// The event.
        event: String,
    },
    /// The firmware: system management mode.
    Firmware,
    /// The hypervisor.
    Hypervisor,
    /// All culprits beyond those that are counted separately.
    Others,
}

impl Culprit {
    /// A function of the kernel.
    #[must_use]
    pub fn function(name: impl Into<String>) -> Culprit {
        Culprit::Function { name: name.into() }
    }

    /// A kernel thread.
    #[must_use]
    pub fn kthread(comm: impl Into<String>) -> Culprit {
        Culprit::Kthread { comm: comm.into() }
    }

    /// A user task.
    #[must_use]
    pub fn task(pid: i32, comm: impl Into<String>) -> Culprit {
        Culprit::Task { pid, comm: comm.into() }
    }

    /// A device interrupt.
    #[must_use]
    pub fn irq(irq: u32, name: impl Into<String>) -> Culprit {
        Culprit::Irq { irq, name: name.into() }
    }

    /// Whether no source of evidence names it.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Culprit::Unknown
    }

    /// Its text without the number of a task, which differs from run to run.
    #[must_use]
    pub fn text_without_pid(&self) -> String {
        let pid = match self {
            Culprit::Task { pid, .. }
            | Culprit::Softirq { raised_by: RaisedBy::Task { pid, .. }, .. }
            | Culprit::IrqWork { raised_by: RaisedBy::Task { pid, .. } } => *pid,
            _ => return self.to_string(),
        };
        self.to_string().replace(&format!("({pid})"), "").trim_end().to_owned()
    }

    /// The kernel function that ran; `None` when it was no function.
    #[must_use]
    pub fn kernel_function(&self) -> Option<&str> {
        match self {
            Culprit::Function { name } => Some(name),
            Culprit::Tick { function, .. } | Culprit::Work { function, .. } => Some(function),
            _ => None,
        }
    }

    /// What raised it; `None` for culprits that are not raised.
    #[must_use]
    pub fn raised_by(&self) -> Option<&RaisedBy> {
        match self {
            Culprit::Softirq { raised_by, .. } | Culprit::IrqWork { raised_by } => Some(raised_by),
            _ => None,
        }
    }
}

impl fmt::Display for Culprit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Culprit::Unknown => Ok(()),
            Culprit::Irq { irq, name } if name.is_empty() => write!(f, "IRQ {irq}"),
            Culprit::Irq { irq, name } => write!(f, "IRQ {irq} {name}"),
            Culprit::Interrupt { name }
            | Culprit::Function { name }
            | Culprit::Syscall { name } => f.write_str(name),
            Culprit::Kthread { comm } => f.write_str(comm),
            Culprit::Tick { function, kept_by } => {
                f.write_str(function)?;
                for (i, dependency) in kept_by.iter().enumerate() {
                    let separator = if i == 0 { ", kept for" } else { " and" };
                    write!(f, "{separator} {dependency}")?;
                }
                Ok(())
            }
            Culprit::Work { function, unbound } => {
                f.write_str(function)?;
                if *unbound { f.write_str(" (unbound)") } else { Ok(()) }
            }
            Culprit::Task { pid, comm } => write_task(f, *pid, comm),
            Culprit::Softirq { name, raised_by: RaisedBy::Unknown } => f.write_str(name),
            Culprit::Softirq { name, raised_by } => write!(f, "{name}, raised by {raised_by}"),
            Culprit::IrqWork { raised_by: RaisedBy::Unknown } => Ok(()),
            Culprit::IrqWork { raised_by } => write!(f, "raised by {raised_by}"),
            Culprit::PageFault { access: PageAccess::Unknown, in_kernel: true } => {
                f.write_str("by a system call")
            }
            Culprit::PageFault { access, in_kernel: true } => {
                write!(f, "{access}, by a system call")
            }
            Culprit::PageFault { access, in_kernel: false } => access.fmt(f),
            Culprit::Signal { name, sent_by } => {
                f.write_str(name)?;
                sent_by.by().map_or(Ok(()), |by| write!(f, " by {by}"))
            }
            Culprit::MachineCheckBank { bank } => write!(f, "bank {bank}"),
            Culprit::Event { event } => event.fmt(f),
            Culprit::UnexpectedRecord { id } => write!(f, "event number {id}"),
            Culprit::TruncatedRecord { event } => {
                write!(f, "a record of {event} that is too short")
            }
            Culprit::Firmware => f.write_str("firmware"),
            Culprit::Hypervisor => f.write_str("hypervisor"),
            Culprit::Others => f.write_str("others"),
        }
    }
}

/// Writes a user task as tables show it: `irqbalance (812)`.
///
/// # Errors
/// Those of the formatter.
pub fn write_task(f: &mut fmt::Formatter<'_>, pid: i32, comm: &str) -> fmt::Result {
    match (comm, pid) {
        ("", 0) => f.write_str("the idle task"),
        ("", _) => write!(f, "({pid})"),
        _ => write!(f, "{comm} ({pid})"),
    }
}

/// What raised a softirq or an `irq_work`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum RaisedBy {
    /// Not seen.
    #[default]
    Unknown,
    /// A running user task.
    Task {
        /// Its number.
        pid: i32,
        /// Its command name.
        comm: String,
    },
    /// A running kernel thread.
    Kthread {
        /// Its name.
        comm: String,
    },
    /// A device interrupt.
    Irq {
        /// Its number.
        irq: u32,
    },
    /// A kernel function: of a timer, a work item, a function call.
    Function {
        /// Its name.
        name: String,
    },
    /// Another softirq.
    Softirq {
        /// Its name.
        name: String,
    },
}

impl fmt::Display for RaisedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RaisedBy::Unknown => Ok(()),
            RaisedBy::Task { pid, comm } => write_task(f, *pid, comm),
            RaisedBy::Kthread { comm: name }
            | RaisedBy::Function { name }
            | RaisedBy::Softirq { name } => f.write_str(name),
            RaisedBy::Irq { irq } => write!(f, "IRQ {irq}"),
        }
    }
}

#[cfg(test)]
impl Culprit {
    /// For tests: the culprit of this cause that a table shows like this.
    pub fn shown(cause: super::Cause, text: &str) -> Culprit {
        use super::Cause;
        let event = KernelEvent::ALL.iter().find(|event| event.text() == text);
        let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
        let number = text.strip_suffix(')').and_then(|text| text.rsplit_once(" ("));
        match (cause, event, number) {
            _ if text.is_empty() => Culprit::Unknown,
            (_, Some(event), _) => (*event).into(),
            (Cause::UserTask, _, Some((comm, pid))) => Culprit::task(pid.parse().unwrap(), comm),
            (Cause::Irq, ..) if first == "IRQ" => {
                let (irq, name) = rest.split_once(' ').unwrap_or((rest, ""));
                Culprit::irq(irq.parse().unwrap(), name)
            }
            (Cause::Kthread, ..) => Culprit::kthread(text),
            (Cause::Workqueue, ..) if text.starts_with("kworker/") => Culprit::kthread(text),
            (Cause::Workqueue, ..) => {
                Culprit::Work { function: first.into(), unbound: rest == "(unbound)" }
            }
            (Cause::Softirq, ..) => {
                Culprit::Softirq { name: first.into(), raised_by: RaisedBy::Unknown }
            }
            _ => Culprit::function(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_numbers_have_names() {
        assert_eq!((softirq_name(3), softirq_name(77)), ("NET_RX".into(), "softirq 77".into()));
        let tick = |bits| Culprit::Tick {
            function: "tick".into(),
            kept_by: TickDependency::from_bits(bits),
        };
        assert_eq!(tick(0).to_string(), "tick");
        assert_eq!(tick(2 | 16).to_string(), "tick, kept for perf and RCU");
        let signal = |number, code| Culprit::Signal {
            name: signal_name(number),
            sent_by: SignalSender::from_code(code),
        };
        assert_eq!(signal(14, -2).to_string(), "SIGALRM by a timer");
        assert_eq!(signal(31, 1).to_string(), "SIGSYS");
        assert_eq!(signal(34, 0).to_string(), "signal 34 by kill(2)");
        assert!(is_exception_signal(8, 1) && !is_exception_signal(8, 0));
        assert!(!is_exception_signal(14, 1));
        assert!(is_exception_signal(5, 0x80) && is_exception_signal(11, 0x80), "SI_KERNEL");
        assert!(!is_exception_signal(31, 1) && !is_exception_signal(14, 0x80), "seccomp, itimer");
    }

    #[test]
    fn a_user_task_never_matches_a_pattern_for_kernel_threads() {
        let pattern = CulpritPattern::Kthread("rcuc/");
        assert!(pattern.matches(&Culprit::kthread("rcuc/3")));
        assert!(!pattern.matches(&Culprit::task(812, "rcuc/3")));
        let raised = Culprit::Softirq {
            name: "SCHED".into(),
            raised_by: RaisedBy::Function { name: "tick_nohz_handler".into() },
        };
        assert!(CulpritPattern::Function("tick_nohz").matches(&raised));
        assert!(!CulpritPattern::Function("SCHED").matches(&raised));
        assert!(CulpritPattern::Softirq("SCHED").matches(&raised));
    }

    #[test]
    fn a_document_has_the_tag_and_the_text_of_a_culprit() {
        #[derive(Serialize, Deserialize)]
        struct Row {
            #[serde(with = "crate::with_text")]
            culprit: Culprit,
        }
        for culprit in [
            Culprit::Unknown,
            Culprit::irq(24, "eth0"),
            KernelEvent::TlbShootdown.into(),
            Culprit::Softirq { name: "RCU".into(), raised_by: RaisedBy::Irq { irq: 5 } },
            Culprit::PageFault { access: PageAccess::UnmappedRead, in_kernel: true },
        ] {
            let text = culprit.to_string();
            let json = serde_json::to_value(Row { culprit: culprit.clone() }).unwrap();
            assert_eq!(json["culprit"]["text"], text);
            assert!(json["culprit"]["kind"].is_string());
            assert_eq!(serde_json::from_value::<Row>(json).unwrap().culprit, culprit);
        }
    }
}
