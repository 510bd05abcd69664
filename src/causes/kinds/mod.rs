//! The kinds of interruptions: [`Cause`], and one file for each with its name, its page and other
//! words for it ([`CauseEntry`]). Pure.

mod ended_task;
mod exception;
mod frequency;
mod hrtimer;
mod ipi_call;
mod ipi_irq_work;
mod ipi_reschedule;
mod irq;
mod kthread;
mod machine_check;
mod nmi;
mod page_fault;
mod signal;
mod smi;
mod softirq;
mod steal;
mod syscall;
mod throttling;
mod tick;
mod timer;
mod timer_elsewhere;
mod unattributed;
mod user_task;
mod workqueue;

use crate::registry::{self, RegistryEntry};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The texts of a cause.
#[derive(Debug)]
struct CauseEntry {
    /// The stable name, as in JSON.
    name: &'static str,
    /// A summary of one line, for lists.
    summary: &'static str,
    /// Other words for it in tables, such as functions of the kernel.
    words: &'static [&'static str],
    /// Beginnings of such words.
    beginnings: &'static [&'static str],
    /// The page of `explain` (Markdown): what it is, where it comes from, how it is seen. Kernel
    /// facts name their file and version.
    page: &'static str,
}

/// Makes [`Cause`] with the entry of each variant.
macro_rules! causes {
    ($($(#[$doc:meta])* $variant:ident => $entry:path,)*) => {
        /// The kind of an interruption.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "kebab-case")]
        pub enum Cause { $($(#[$doc])* $variant,)* }

        impl Cause {
            /// Every cause, in the order of reports.
            pub const ALL: &[Cause] = &[$(Cause::$variant,)*];

            const fn entry(self) -> &'static CauseEntry {
                match self { $(Cause::$variant => &$entry,)* }
            }
        }
    };
}

causes! {
    /// The scheduler's periodic tick.
    Tick => tick::ENTRY,
    /// A high-resolution timer other than the tick.
    Hrtimer => hrtimer::ENTRY,
    /// A timer of the timer wheel.
    Timer => timer::ENTRY,
    /// A timer of the workload that expired on another CPU.
    TimerElsewhere => timer_elsewhere::ENTRY,
    /// A device interrupt.
    Irq => irq::ENTRY,
    /// A softirq that did not run inside a counted interruption.
    Softirq => softirq::ENTRY,
    /// An IPI that requests a reschedule.
    IpiReschedule => ipi_reschedule::ENTRY,
    /// An IPI that calls a function: TLB flush, text patching, membarrier, …
    IpiCall => ipi_call::ENTRY,
    /// An IPI that runs `irq_work`.
    IpiIrqWork => ipi_irq_work::ENTRY,
    /// A work item of a workqueue, run by a kworker.
    Workqueue => workqueue::ENTRY,
    /// A kernel thread other than a kworker.
    Kthread => kthread::ENTRY,
    /// Another user task.
    UserTask => user_task::ENTRY,
    /// A task that ended before it was looked up.
    EndedTask => ended_task::ENTRY,
    /// The workload had to wait, because a limit of CPU time was used up.
    Throttling => throttling::ENTRY,
    /// A page fault of the workload.
    PageFault => page_fault::ENTRY,
    /// A system call of the workload.
    Syscall => syscall::ENTRY,
    /// Another exception of the workload.
    Exception => exception::ENTRY,
    /// A signal for the workload.
    Signal => signal::ENTRY,
    /// A non-maskable interrupt.
    Nmi => nmi::ENTRY,
    /// A machine check or a thermal interrupt.
    MachineCheck => machine_check::ENTRY,
    /// The frequency of a CPU was changed from this CPU.
    Frequency => frequency::ENTRY,
    /// System management mode: firmware took the CPU.
    Smi => smi::ENTRY,
    /// The hypervisor ran something else.
    Steal => steal::ENTRY,
    /// Seen, but of a kind that this catalogue does not have.
    Unattributed => unattributed::ENTRY,
}

impl Cause {
    /// The cause with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Cause> {
        registry::find(Cause::ALL, name)
    }

    /// The stable name, as in `explain` and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// A summary of one line, for lists.
    #[must_use]
    pub fn summary(self) -> &'static str {
        self.entry().summary
    }

    /// The page of `explain` (Markdown).
    #[must_use]
    pub fn page(self) -> &'static str {
        self.entry().page
    }

    /// The cause with this other word.
    pub(super) fn with_word(word: &str) -> Option<Cause> {
        let mut causes = Cause::ALL.iter().map(|cause| (*cause, cause.entry()));
        let whole = causes.clone().find(|(_, entry)| entry.words.contains(&word));
        let begins = |entry: &CauseEntry| entry.beginnings.iter().any(|it| word.starts_with(it));
        whole.or_else(|| causes.find(|(_, entry)| begins(entry))).map(|(cause, _)| cause)
    }
}

impl RegistryEntry for Cause {
    fn key(self) -> &'static str {
        self.name()
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_page_names_its_source() {
        for cause in Cause::ALL {
            let page = cause.page();
            let files = [".c", ".h", ".rst", ".json"].iter().any(|end| page.contains(end));
            assert!(files && page.contains('/'), "{cause}: {page}");
            assert!(page.contains("\n\nSource: "), "{cause}: {page}");
            assert!(page.lines().all(|line| line.chars().count() <= 100), "{cause}");
        }
    }

    #[test]
    fn every_cause_has_one_name_and_is_a_file() {
        for cause in Cause::ALL {
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.name());
            let file = format!("src/causes/kinds/{}.rs", cause.name().replace('-', "_"));
            assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(&file).exists(), "{file}");
        }
    }
}
