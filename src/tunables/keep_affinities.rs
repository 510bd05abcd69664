//! `keep-affinities`: the affinities that the kernel itself overwrites are saved first. Pure.

use super::{Tunable, Wanted, Wants};
use crate::causes::Cause;
use crate::change::{Change, Risk};
use crate::plan::Shield;
use crate::survey::Machine;

#[derive(Debug)]
pub(super) struct KeepAffinities;

const PAGE: &str = "\
When a cpuset changes, the kernel computes the affinity of every task in it anew. Before 6.2 a
program that had pinned itself to one CPU comes back with all CPUs of its cpuset; since then the
kernel remembers what the program asked for (`user_cpus_ptr`, commit 8f9ea86fdf99). Taking a CPU
offline has the same effect on programs pinned to it. So every affinity is written to the
journal before the first change, and undo puts back those that differ at the end.

Cost: some kilobytes of journal. It changes nothing and removes no interruption.

Source: kernel/sched/core.c, __sched_setaffinity() (6.12).";

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

    fn wants(&self, _machine: &Machine, _shield: &Shield) -> Wants {
        Wants::Changes(vec![Wanted::new(
            Change::KeepAffinities,
            "the kernel rewrites affinities when cpusets change; undo puts them back",
        )])
    }
}
