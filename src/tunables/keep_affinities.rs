//! `keep-affinities`: saves the affinities that the kernel itself overwrites. Pure.

use super::{Tunable, WantedChange, WantedChanges};
use crate::causes::Cause;
use crate::change::{Change, Risk};
use crate::plan::Shield;
use crate::survey::Machine;

#[derive(Debug)]
pub(super) struct KeepAffinities;

const PAGE: &str = "\
When a cpuset changes, the kernel recomputes the affinity of every task in it. Before 6.2 a program
that had pinned itself to one CPU then has all CPUs of its cpuset; since then the kernel remembers
the affinity that the program requested (`user_cpus_ptr`, commit 8f9ea86fdf99). Taking a CPU
offline has the same effect on programs pinned to it. So every affinity is written to the journal
before the first change, and undo restores those that differ at the end.

While the shield is active, a program may pin itself to exactly the CPUs that the shield leaves it.
Since 6.2 undo can detect this. When the cpusets are gone, a program that only they had narrowed
has its CPUs again. A program that has not requested its affinity itself (or its parent did), so it
keeps the affinity and is counted. Where affinities were set task by task, and before 6.2, this
cannot be known. Then the program gets its previous affinity, and a program started since gets
that of the program that started it.

Cost: some kilobytes of journal. It changes nothing and removes no interruption.

Source: kernel/sched/core.c, __sched_setaffinity(), __set_cpus_allowed_ptr() and
dup_user_cpus_ptr() (6.12).";

impl Tunable for KeepAffinities {
    fn name(&self) -> &'static str {
        "keep-affinities"
    }

    fn summary(&self) -> &'static str {
        "save every program's CPU affinity, so that undo can restore it"
    }

    fn page(&self) -> &'static str {
        PAGE
    }

    fn reads(&self) -> &'static [&'static str] {
        &[]
    }

    fn removes(&self) -> &'static [Cause] {
        &[]
    }

    fn risk(&self) -> Risk {
        Risk::None
    }

    fn wants(&self, _machine: &Machine, _shield: &Shield) -> WantedChanges {
        WantedChanges::Changes(vec![WantedChange::new(
            Change::KeepAffinities,
            "the kernel rewrites affinities when cpusets change; undo restores them",
        )])
    }
}
