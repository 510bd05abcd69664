//! Finds what explains a word in a table: culprits, functions, threads and senders, as
//! `verify`, `watch`, `latency --why` and `status` show them. Pure.

use super::Cause;
use super::culprit::{KernelEvent, PageAccess, SOFTIRQS};
use super::known::{self, KnownCulprit};
use super::purpose::{self, FunctionGroup};
use super::topics::{self, Topic};
use cpushield_linux::syscalls;

/// What explains a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplainSubject {
    /// A topic with a page.
    Topic(&'static Topic),
    /// A function or thread of the kernel.
    Known(&'static KnownCulprit),
    /// A group of kernel functions that send interrupts to other CPUs.
    Way(&'static FunctionGroup),
    /// A kind of interruption.
    Cause(Cause),
}

/// The first words of culprits that end with a name or a number, and their causes.
const BEGINNINGS: &[(&str, Cause)] = &[
    ("IRQ ", Cause::Irq),
    ("softirq ", Cause::Softirq),
    ("an interrupt on CPU ", Cause::IpiCall),
    ("raised by ", Cause::IpiIrqWork),
    ("kworker/", Cause::Workqueue),
    ("system call ", Cause::Syscall),
    ("SIG", Cause::Signal),
    ("signal ", Cause::Signal),
    ("bank ", Cause::MachineCheck),
    // Rows of /proc/interrupts.
    ("Machine check", Cause::MachineCheck),
    ("Thermal ", Cause::MachineCheck),
    ("Threshold ", Cause::MachineCheck),
    ("Deferred Error", Cause::MachineCheck),
    ("event number ", Cause::Unattributed),
    ("a record of ", Cause::Unattributed),
];

/// Culprits with a fixed name, and their causes.
const WORDS: &[(&str, Cause)] = &[
    ("tick_nohz_handler", Cause::Tick),
    ("tick_nohz_highres_handler", Cause::Tick),
    ("tick_sched_timer", Cause::Tick),
    ("reschedule", Cause::IpiReschedule),
    ("an idle CPU", Cause::IpiReschedule),
    ("SIGILL", Cause::Exception),
    ("SIGTRAP", Cause::Exception),
    ("SIGBUS", Cause::Exception),
    ("SIGFPE", Cause::Exception),
    ("SIGSEGV", Cause::Exception),
    ("firmware", Cause::Smi),
    ("gap", Cause::Smi),
    ("gaps", Cause::Smi),
    ("hypervisor", Cause::Steal),
    ("others", Cause::Unattributed),
];

/// The cause that an event of the kernel is counted under.
fn cause_of_event(event: KernelEvent) -> Cause {
    match event {
        KernelEvent::LocalTimer | KernelEvent::TimerBroadcast | KernelEvent::HyperVTimer => {
            Cause::Tick
        }
        KernelEvent::HypervisorCallback => Cause::Irq,
        KernelEvent::NoHrtimerExpired | KernelEvent::HrtimersInSoftirq => Cause::Hrtimer,
        KernelEvent::TlbShootdown => Cause::IpiCall,
        KernelEvent::ApicError
        | KernelEvent::Thermal
        | KernelEvent::MachineCheckThreshold
        | KernelEvent::DeferredMachineCheck => Cause::MachineCheck,
        KernelEvent::FrequencySet => Cause::Frequency,
        KernelEvent::Slept => Cause::Syscall,
        KernelEvent::ExceptionWithoutSignal => Cause::Exception,
        KernelEvent::PlatformIpi
        | KernelEvent::SpuriousInterrupt
        | KernelEvent::WithoutEvent
        | KernelEvent::SyscallOrException => Cause::Unattributed,
    }
}

/// Finds what explains a word in a table, with or without the name of its cause in front.
#[must_use]
pub fn subject(shown: &str) -> Option<ExplainSubject> {
    let shown = shown.trim();
    if let Some(cause) = Cause::named(shown) {
        return Some(ExplainSubject::Cause(cause));
    }
    if let Some((first, rest)) = shown.split_once(' ')
        && let Some(cause) = cause_of_prefix(first)
    {
        return subject(rest).or(Some(ExplainSubject::Cause(cause)));
    }
    let (head, _) = shown.split_once(", ").unwrap_or((shown, ""));
    // `wb_workfn (unbound)`, `do_sync_core()`.
    let function = head.split(' ').next().unwrap_or_default().trim_end_matches("()");
    topics::find(function)
        .map(ExplainSubject::Topic)
        .or_else(|| purpose::group_of_function(function).map(ExplainSubject::Way))
        .or_else(|| purpose::group_of_text(shown).map(ExplainSubject::Way))
        .or_else(|| cause_of_culprit(shown, head).map(ExplainSubject::Cause))
        .or_else(|| known::find_by_name(function).map(ExplainSubject::Known))
}

/// The cause in front of a culprit, or the kind of context that runs a function.
fn cause_of_prefix(word: &str) -> Option<Cause> {
    Cause::named(word).or_else(|| (word == "work").then_some(Cause::Workqueue))
}

fn cause_of_culprit(shown: &str, head: &str) -> Option<Cause> {
    let event = KernelEvent::ALL.iter().find(|event| shown.starts_with(event.text()));
    let access = PageAccess::ALL
        .iter()
        .find(|access| **access != PageAccess::Unknown && shown.starts_with(access.text()));
    let word = WORDS.iter().find(|(word, _)| *word == head);
    let beginning = BEGINNINGS.iter().find(|(beginning, _)| head.starts_with(beginning));
    event
        .map(|event| cause_of_event(*event))
        .or_else(|| access.map(|_| Cause::PageFault))
        .or_else(|| word.or(beginning).map(|(_, cause)| *cause))
        .or_else(|| SOFTIRQS.contains(&head).then_some(Cause::Softirq))
        .or_else(|| syscalls::is_known(head).then_some(Cause::Syscall))
        .or_else(|| is_task(shown).then_some(Cause::UserTask))
}

/// Whether this is a task, which is shown with its number: `load (9972)`.
fn is_task(shown: &str) -> bool {
    let number = shown.rsplit_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(shown: &str) -> Option<&'static str> {
        subject(shown).map(|subject| match subject {
            ExplainSubject::Topic(topic) => topic.name,
            ExplainSubject::Known(known) => known.name,
            ExplainSubject::Way(row) => row.function,
            ExplainSubject::Cause(cause) => cause.name(),
        })
    }

    /// The `cause` and `culprit` of every result of the table of counted sequences.
    fn counted() -> Vec<(&'static str, &'static str)> {
        let cases = include_str!("../verify/trace/interruptions/cases.txt").split("\n== ").skip(1);
        let results = cases.flat_map(|case| case.split_once("\n--\n").unwrap().1.lines());
        let rows = results.filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
        // COUNT TIME MAX CAUSE CULPRIT
        let named = rows.filter_map(|line| line.splitn(4, ' ').nth(3));
        named.map(|named| named.split_once(' ').unwrap_or((named, ""))).collect()
    }

    #[test]
    fn every_culprit_of_the_counted_sequences_is_explained() {
        let rows = counted();
        assert!(rows.len() > 50);
        for (cause, culprit) in rows {
            let shown = format!("{cause} {culprit}");
            assert!(name(&shown).is_some(), "{shown}");
            // A function that exists only in the test stands for any unknown function.
            if !["", "flush_work"].contains(&culprit) {
                assert!(name(culprit).is_some(), "{culprit}");
            }
        }
    }

    /// Everything that the lab provokes (vm/guest/lab.py), as its tables show it (vm/bench/LAB.md).
    #[test]
    fn every_culprit_of_the_lab_is_explained() {
        let lab = include_str!("../../vm/guest/lab.py");
        let provoked = lab.lines().filter(|line| line.contains("action(")).collect::<String>();
        for function in provoked.split('"').filter(|part| part.contains('_') && !part.contains('*'))
        {
            let plain = function.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            assert!(!plain || name(function).is_some(), "{function}");
        }
        let table = include_str!("../../vm/bench/LAB.md");
        let rows = table.lines().filter(|line| line.starts_with("| ")).skip(2);
        let seen = rows.filter_map(|line| line.split('|').nth(4)).flat_map(|cell| cell.split(", "));
        for shown in seen.filter_map(|item| item.trim().split_once(' ')) {
            let is_count = shown.0.chars().all(|c| c.is_ascii_digit());
            assert!(!is_count || shown.1 == "more" || name(shown.1).is_some(), "{}", shown.1);
        }
        for (shown, found) in [
            ("flush_tlb_func", "flush_tlb_func*"),
            ("__rdmsr_safe_on_cpu", "__rdmsr_safe_on_cpu"),
            ("mce_cpu_restart", "mce_cpu_restart"),
            ("migration/3", "migration/*"),
            ("rcuc/3", "rcuc/*"),
            ("provoke (812)", "user-task"),
            ("SIGUSR1 by kill(2)", "signal"),
            ("SIGTRAP", "exception"),
            ("IRQ 36 virtio1-req.0", "irq"),
            ("getppid", "syscall"),
        ] {
            assert_eq!(name(shown), Some(found), "{shown}");
        }
    }

    #[test]
    fn threads_functions_and_senders_are_explained_in_the_form_of_the_tables() {
        for (shown, found) in [
            ("tick_nohz_handler", "tick"),
            ("tick_nohz_handler, kept for the scheduler: another runnable task", "tick"),
            ("load (9972)", "user-task"),
            ("SCHED, raised by tick_nohz_handler", "softirq"),
            ("raised by perf_swevent_hrtimer", "ipi-irq-work"),
            ("refresh_vm_stats", "refresh_vm_stats"),
            ("workqueue refresh_vm_stats", "refresh_vm_stats"),
            ("irq/30-virtio0-", "irq/*"),
            ("IRQ 24 eth0", "irq"),
            ("kworker/u8:1", "workqueue"),
            ("wb_workfn (unbound)", "wb_workfn"),
            ("do_flush_tlb_all", "kernel-tlb-flush"),
            ("work drain_vmap_area_work", "kernel-tlb-flush"),
            ("__purge_vmap_area_lazy()", "kernel-tlb-flush"),
            ("timer tcp_keepalive_timer", "tcp_*"),
            ("loads a module (dummy), requested by ip (800)", "load_module"),
            ("system call madvise", "syscall"),
            ("an interrupt on CPU 2", "ipi-call"),
            ("modprobe (812)", "user-task"),
        ] {
            assert_eq!(name(shown), Some(found), "{shown}");
        }
        assert_eq!([name("nonsense"), name("linuxcnc"), name(""), name("(x)")], [None; 4]);
    }
}
