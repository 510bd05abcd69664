//! `keep-affinities`: the affinities that the kernel itself overwrites are saved first. Pure.

use super::{Tunable, WantedChange, WantedChanges};
use crate::causes::Cause;
use crate::change::{Change, Risk};
use crate::plan::Shield;
use crate::survey::Machine;

#[derive(Debug)]
pub(super) struct KeepAffinities;

const PAGE: &str = "\
When a cpuset changes, the kernel computes the affinity of every task in it again. Before 6.2 a
program that had pinned itself to one CPU comes back with all CPUs of its cpuset; since then the
kernel remembers what the program asked for (`user_cpus_ptr`, commit 8f9ea86fdf99). Taking a CPU
offline has the same effect on programs pinned to it. So every affinity is written to the
journal before the first change, and undo puts back those that differ at the end.

A program may pin itself, while the shield is up, to exactly the CPUs that the shield leaves it.
Since 6.2 undo can tell: when the cpusets are gone, a program that was narrowed by them alone has
its CPUs again by itself, and one that has not asked for what it has (or was started by one that
did), so it is left as it asked and counted. Where affinities were set task by task, and before
6.2, this cannot be known; then it gets what it had before, and a program started since gets what
the program that started it had.

Cost: some kilobytes of journal. It changes nothing and removes no interruption.

Source: kernel/sched/core.c, __sched_setaffinity(), __set_cpus_allowed_ptr() and
dup_user_cpus_ptr() (6.12).";

impl Tunable for KeepAffinities {
    fn name(&self) -> &'static str {
        "keep-affinities"
    }

    fn summary(&self) -> &'static str {
        "remember every program's CPU affinity, so that undo can put it back"
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
            "the kernel rewrites affinities when cpusets change; undo puts them back",
        )])
    }
}
