//! Finds what explains a word in a table: culprits, functions, threads and senders, as
//! `verify`, `watch`, `latency --why` and `status` show them. Pure.

use super::Cause;
use super::culprit::{Culprit, SignalSender};
use super::known::{self, KnownCulprit};
use super::purpose::{self, FunctionGroup, InterruptPurpose};
use super::topics::{self, Topic};
use cpushield_linux::sys::syscalls;

/// What explains a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplainSubject {
    /// A topic with a page.
    Topic(&'static Topic),
    /// A function or thread of the kernel.
    Known(&'static KnownCulprit),
    /// A group of kernel functions that send interrupts to other CPUs.
    Sender(&'static FunctionGroup),
    /// A kind of interruption.
    Cause(Cause),
}

/// Signals that the kernel sends for an exception.
const EXCEPTION_SIGNALS: &[&str] = &["SIGILL", "SIGTRAP", "SIGBUS", "SIGFPE", "SIGSEGV"];

/// The cause that a culprit is counted under; `None` where only the table of its name tells.
fn cause_of_culprit(culprit: &Culprit) -> Option<Cause> {
    Some(match culprit {
        Culprit::Unknown
        | Culprit::Interrupt { .. }
        | Culprit::Function { .. }
        | Culprit::Kthread { .. } => return None,
        Culprit::Irq { .. } => Cause::Irq,
        Culprit::Tick { .. } => Cause::Tick,
        Culprit::Work { .. } => Cause::Workqueue,
        Culprit::Task { .. } => Cause::UserTask,
        Culprit::Softirq { .. } => Cause::Softirq,
        Culprit::IrqWork { .. } => Cause::IpiIrqWork,
        Culprit::PageFault { .. } => Cause::PageFault,
        Culprit::Signal { name, sent_by: SignalSender::Unknown }
            if EXCEPTION_SIGNALS.contains(&name.as_str()) =>
        {
            Cause::Exception
        }
        Culprit::Signal { .. } => Cause::Signal,
        Culprit::MachineCheckBank { .. } => Cause::MachineCheck,
        Culprit::Syscall { .. } => Cause::Syscall,
        Culprit::Event { event } => event.cause(),
        Culprit::UnexpectedRecord { .. } | Culprit::TruncatedRecord { .. } | Culprit::Others => {
            Cause::Unattributed
        }
        Culprit::Firmware => Cause::Smi,
        Culprit::Hypervisor => Cause::Steal,
    })
}

/// Finds what explains a word in a table, with or without the name of its cause in front. The tags
/// of JSON documents are found too.
#[must_use]
pub fn find_subject(shown: &str) -> Option<ExplainSubject> {
    subject_under(shown.trim(), None)
}

/// Finds what explains a word under the cause that stands in front of it.
fn subject_under(shown: &str, cause: Option<Cause>) -> Option<ExplainSubject> {
    if let Some(cause) = Cause::named(shown) {
        return Some(ExplainSubject::Cause(cause));
    }
    if let Some((first, rest)) = shown.split_once(' ')
        && let Some(cause) = cause_of_prefix(first)
    {
        return subject_under(rest, Some(cause)).or(Some(ExplainSubject::Cause(cause)));
    }
    if let Some(InterruptPurpose::Operation { operation, .. }) = InterruptPurpose::from_shown(shown)
        && let Some(group) = purpose::group_of_operation(operation)
    {
        let subject = subject_of_name(group.function, None);
        return Some(subject.unwrap_or(ExplainSubject::Sender(group)));
    }
    match Culprit::from_shown(shown) {
        None => subject_of_name(shown, cause),
        Some(culprit) => culprit
            .kernel_function()
            .and_then(|function| subject_of_name(function, cause))
            .or_else(|| cause_of_culprit(&culprit).map(ExplainSubject::Cause)),
    }
}

/// Finds what explains a name that the kernel gives, or another word of the tables. A function can
/// run for one cause and also interrupt other CPUs: the cause in front of it decides.
fn subject_of_name(name: &str, cause: Option<Cause>) -> Option<ExplainSubject> {
    // `do_sync_core()`, `do_sync_core: text patching`.
    let function = name.split([' ', ':', ',']).next().unwrap_or_default().trim_end_matches("()");
    let known = known::find_by_name(function);
    let known_under_cause = known.filter(|known| Some(known.cause) == cause);
    topics::find(function)
        .map(ExplainSubject::Topic)
        .or_else(|| known_under_cause.map(ExplainSubject::Known))
        .or_else(|| purpose::group_of_function(function).map(ExplainSubject::Sender))
        .or_else(|| cause_of_name(name).map(ExplainSubject::Cause))
        .or_else(|| known.map(ExplainSubject::Known))
}

fn cause_of_name(name: &str) -> Option<Cause> {
    Cause::with_word(name).or_else(|| syscalls::is_known(name).then_some(Cause::Syscall))
}

/// The cause in front of a culprit, or the kind of context that runs a function.
fn cause_of_prefix(word: &str) -> Option<Cause> {
    Cause::named(word).or_else(|| (word == "work").then_some(Cause::Workqueue))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(shown: &str) -> Option<&'static str> {
        find_subject(shown).map(|subject| match subject {
            ExplainSubject::Topic(topic) => topic.name,
            ExplainSubject::Known(known) => known.name,
            ExplainSubject::Sender(group) => group.function,
            ExplainSubject::Cause(cause) => cause.name(),
        })
    }

    /// The `cause` and `culprit` of every result of the table of counted sequences.
    fn counted() -> Vec<(&'static str, &'static str)> {
        let cases = include_str!("../trace/interruptions/cases.txt").split("\n== ").skip(1);
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

    /// Everything that the lab provokes (vm/guest/lab.py), as its tables show it (docs/measurements/lab.md).
    #[test]
    fn every_culprit_of_the_lab_is_explained() {
        let lab = include_str!("../../vm/guest/lab.py");
        let provoked = lab.lines().filter(|line| line.contains("action(")).collect::<String>();
        for function in provoked.split('"').filter(|part| part.contains('_') && !part.contains('*'))
        {
            let plain = function.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            assert!(!plain || name(function).is_some(), "{function}");
        }
        let table = include_str!("../../docs/measurements/lab.md");
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
            ("workqueue refresh_vm_stats (unbound)", "refresh_vm_stats"),
            ("irq/30-virtio0-", "irq/*"),
            ("IRQ 24 eth0", "irq"),
            ("kworker/u8:1", "workqueue"),
            ("wb_workfn (unbound)", "wb_workfn"),
            ("do_flush_tlb_all", "kernel-tlb-flush"),
            ("work drain_vmap_area_work", "kernel-tlb-flush"),
            ("__purge_vmap_area_lazy()", "kernel-tlb-flush"),
            ("timer tcp_keepalive_timer", "tcp_*"),
            ("module load (dummy), requested by ip (800)", "load_module"),
            ("module load", "load_module"),
            ("module-load", "load_module"),
            ("freeing kernel addresses (vmalloc)", "kernel-tlb-flush"),
            ("do_sync_core: text patching (static key, BPF)", "do_sync_core"),
            ("tlb-shootdown", "ipi-call"),
            ("timer_create(2)", ""),
            ("system call madvise", "syscall"),
            ("an interrupt on CPU 2", "ipi-call"),
            ("modprobe (812)", "user-task"),
        ] {
            assert_eq!(name(shown).unwrap_or_default(), found, "{shown}");
        }
        assert_eq!([name("nonsense"), name("linuxcnc"), name(""), name("(x)")], [None; 4]);
    }
}
