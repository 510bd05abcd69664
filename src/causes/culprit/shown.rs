//! Reads a culprit as a table shows it: the inverse of its `Display`. Pure.

use super::kernel::is_signal_name;
use super::{Culprit, KernelEvent, PageAccess, RaisedBy, SOFTIRQS, SignalSender, TickDependency};

impl Culprit {
    /// The culprit that a table shows like this, or that a document has this tag for. `None` for
    /// plain names: only their tables tell whether a name is a function, a thread or a system call.
    #[must_use]
    pub fn from_shown(shown: &str) -> Option<Culprit> {
        fixed_word(shown)
            .or_else(|| numbered(shown))
            .or_else(|| page_fault(shown))
            .or_else(|| raised(shown))
            .or_else(|| signal(shown))
            .or_else(|| function(shown))
            .or_else(|| task(shown).map(|(pid, comm)| Culprit::task(pid, comm)))
    }
}

fn fixed_word(shown: &str) -> Option<Culprit> {
    match shown {
        "firmware" => Some(Culprit::Firmware),
        "hypervisor" => Some(Culprit::Hypervisor),
        "others" => Some(Culprit::Others),
        _ => KernelEvent::from_text(shown)
            .or_else(|| KernelEvent::from_tag(shown))
            .map(Culprit::from),
    }
}

/// `IRQ 24 eth0`, `bank 4`, `event number 77`, `system call 999`.
fn numbered(shown: &str) -> Option<Culprit> {
    if let Some(rest) = shown.strip_prefix("IRQ ") {
        let (irq, name) = rest.split_once(' ').unwrap_or((rest, ""));
        return Some(Culprit::irq(irq.parse().ok()?, name));
    }
    if let Some(bank) = shown.strip_prefix("bank ") {
        return Some(Culprit::MachineCheckBank { bank: bank.parse().ok()? });
    }
    if let Some(id) = shown.strip_prefix("event number ") {
        return Some(Culprit::UnexpectedRecord { id: id.parse().ok()? });
    }
    if let Some(event) = shown.strip_prefix("a record of ") {
        let event = event.strip_suffix(" that is too short")?.to_owned();
        return Some(Culprit::TruncatedRecord { event });
    }
    shown.starts_with("system call ").then(|| Culprit::Syscall { name: shown.to_owned() })
}

fn page_fault(shown: &str) -> Option<Culprit> {
    const BY_KERNEL: &str = "by a system call";
    if shown == BY_KERNEL {
        return Some(Culprit::PageFault { access: PageAccess::Unknown, in_kernel: true });
    }
    let by_kernel = shown.strip_suffix(BY_KERNEL).and_then(|start| start.strip_suffix(", "));
    let access = PageAccess::from_text(by_kernel.unwrap_or(shown))
        .or_else(|| PageAccess::from_tag(shown))
        .filter(|access| *access != PageAccess::Unknown);
    access.map(|access| Culprit::PageFault { access, in_kernel: by_kernel.is_some() })
}

/// A softirq or an `irq_work`, with what raised it.
fn raised(shown: &str) -> Option<Culprit> {
    const RAISED_BY: &str = "raised by ";
    if let Some(raiser) = shown.strip_prefix(RAISED_BY) {
        return Some(Culprit::IrqWork { raised_by: raised_by(raiser) });
    }
    let (name, raiser) = shown.split_once(", ").unwrap_or((shown, ""));
    let number = name.strip_prefix("softirq ").and_then(|number| number.parse::<u8>().ok());
    (SOFTIRQS.contains(&name) || number.is_some()).then(|| Culprit::Softirq {
        name: name.to_owned(),
        raised_by: raiser.strip_prefix(RAISED_BY).map(raised_by).unwrap_or_default(),
    })
}

fn raised_by(shown: &str) -> RaisedBy {
    let irq = shown.strip_prefix("IRQ ").and_then(|irq| irq.parse().ok());
    match (irq, task(shown)) {
        (Some(irq), _) => RaisedBy::Irq { irq },
        (_, Some((pid, comm))) => RaisedBy::Task { pid, comm: comm.to_owned() },
        _ if SOFTIRQS.contains(&shown) => RaisedBy::Softirq { name: shown.to_owned() },
        _ => RaisedBy::Function { name: shown.to_owned() },
    }
}

fn signal(shown: &str) -> Option<Culprit> {
    let (name, sender) = shown.split_once(" by ").unwrap_or((shown, ""));
    is_signal_name(name).then(|| Culprit::Signal {
        name: name.to_owned(),
        sent_by: SignalSender::from_text(sender).unwrap_or(SignalSender::Unknown),
    })
}

/// A function with more than its name: that of the tick, or of an unbound work item.
fn function(shown: &str) -> Option<Culprit> {
    if let Some(function) = shown.strip_suffix(" (unbound)") {
        return Some(Culprit::Work { function: function.to_owned(), unbound: true });
    }
    let (function, kept_by) = shown.split_once(", kept for ")?;
    let kept_by = kept_by.split(" and ").filter_map(TickDependency::from_text).collect();
    Some(Culprit::Tick { function: function.to_owned(), kept_by })
}

/// The number and the name of a task: `load (9972)`, `(9972)`.
fn task(shown: &str) -> Option<(i32, &str)> {
    let (comm, pid) = shown.strip_suffix(')')?.rsplit_once('(')?;
    let comm = if comm.is_empty() { comm } else { comm.strip_suffix(' ')? };
    pid.bytes().all(|byte| byte.is_ascii_digit()).then_some(())?;
    Some((pid.parse().ok()?, comm))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One culprit of each kind that is shown with more than a plain name.
    fn culprits() -> Vec<Culprit> {
        let events = KernelEvent::ALL.iter().map(|event| (*event).into());
        let faults = PageAccess::ALL.iter().flat_map(|access| {
            [false, true].map(|in_kernel| Culprit::PageFault { access: *access, in_kernel })
        });
        let signals = SignalSender::ALL
            .iter()
            .map(|sent_by| Culprit::Signal { name: "SIGUSR1".into(), sent_by: *sent_by });
        let raisers = [
            RaisedBy::Task { pid: 812, comm: "ip".into() },
            RaisedBy::Irq { irq: 5 },
            RaisedBy::Function { name: "tcp_orphan_update".into() },
            RaisedBy::Softirq { name: "TIMER".into() },
        ];
        let softirqs =
            raisers.clone().map(|raised_by| Culprit::Softirq { name: "NET_RX".into(), raised_by });
        let irq_works = raisers.map(|raised_by| Culprit::IrqWork { raised_by });
        let ticks = TickDependency::ALL
            .iter()
            .map(|kept_by| Culprit::Tick { function: "tick".into(), kept_by: vec![*kept_by] });
        let others = [
            Culprit::irq(24, "eth0"),
            Culprit::irq(24, ""),
            Culprit::Work { function: "wb_workfn".into(), unbound: true },
            Culprit::task(812, "load"),
            Culprit::task(812, ""),
            Culprit::Softirq { name: "softirq 77".into(), raised_by: RaisedBy::Unknown },
            Culprit::Signal { name: "signal 34".into(), sent_by: SignalSender::Kill },
            Culprit::MachineCheckBank { bank: 4 },
            Culprit::Syscall { name: "system call 999".into() },
            Culprit::UnexpectedRecord { id: 77 },
            Culprit::TruncatedRecord { event: "sched_switch".into() },
            Culprit::Firmware,
            Culprit::Hypervisor,
            Culprit::Others,
        ];
        let tables = events.chain(faults).chain(signals).chain(softirqs).chain(irq_works);
        tables
            .chain(ticks)
            .chain(others)
            .filter(|culprit| !culprit.to_string().is_empty())
            .collect()
    }

    #[test]
    fn every_culprit_is_read_back_from_its_text() {
        for culprit in culprits() {
            let shown = culprit.to_string();
            assert_eq!(Culprit::from_shown(&shown), Some(culprit), "{shown}");
        }
        let both = Culprit::Tick {
            function: "tick".into(),
            kept_by: vec![TickDependency::PerfEvents, TickDependency::Rcu],
        };
        assert_eq!(Culprit::from_shown(&both.to_string()), Some(both));
        for plain in ["", "vmstat_update", "timer_create(2)", "linuxcnc", "IRQ", "(x)", "SIGX"] {
            assert_eq!(Culprit::from_shown(plain), None, "{plain}");
        }
    }

    #[test]
    fn a_tag_of_a_document_is_read_too() {
        let shootdown = Culprit::from(KernelEvent::TlbShootdown);
        assert_eq!(Culprit::from_shown("tlb-shootdown"), Some(shootdown));
        let read = Culprit::PageFault { access: PageAccess::UnmappedRead, in_kernel: false };
        assert_eq!(Culprit::from_shown("unmapped-read"), Some(read));
    }
}
