//! A fair server that the kernel does not let go. Its share of a CPU is part of the bandwidth of
//! the CPU's root domain. Where domains are rebuilt and one stays as it is, kernels without the
//! commit "sched/deadline: Restore dl_server bandwidth on non-destructive root domain changes"
//! count that domain anew without its servers; a share can then not be given back, and the write
//! is answered with EBUSY (`dl_server_apply_params()` and `__dl_overflow()` in
//! kernel/sched/deadline.c, `partition_sched_domains_locked()` in kernel/sched/topology.c,
//! `dl_rebuild_rd_accounting()` in kernel/cgroup/cpuset.c, 6.12). An earlier shield is enough for
//! that. A domain that is made anew counts right, and a partition that is `root` before it becomes
//! `isolated` gets one: there the write is made once more.

use super::document::AppliedStep;
use super::executor::Run;
use super::hogs::FAIR_SERVER;
use super::journal;
use super::make::{self, is_partition};
use crate::change::{Change, Outcome, RefusalKind};
use cpushield_linux::Result;

/// Whether the kernel refused to switch a fair server off because it has miscounted.
fn is_miscounted(change: &Change, kind: RefusalKind) -> bool {
    kind == RefusalKind::Busy
        && matches!(change, Change::Write { path, .. } if path.starts_with(FAIR_SERVER))
}

/// What a refusal means; `None` where it is another one.
pub(super) fn words(change: &Change, kind: RefusalKind, reason: &str) -> Option<String> {
    is_miscounted(change, kind).then(|| {
        format!(
            "{reason}: when scheduling domains were rebuilt, this kernel forgot that this CPU's \
             server has a share of them, and now cannot take the share back; after a reboot it \
             can, or after the CPU was offline (--on cpu-hotplug-cycle)"
        )
    })
}

impl Run<'_> {
    /// Before a partition becomes `isolated`: makes it a `root` one for a moment, and writes there
    /// what was refused before.
    pub(super) fn serve_again(&mut self, change: &Change) -> Result<()> {
        let Change::Write { path, value, .. } = change else { return Ok(()) };
        if !is_partition(path) || value != "isolated" {
            return Ok(());
        }
        let refused: Vec<usize> = (0..self.steps.len()).filter(|at| self.is_refused(*at)).collect();
        if refused.is_empty() || !self.is_member(path)? {
            return Ok(());
        }
        match self.host.write(path, "root") {
            Err(error) if error.is_stop() => return Err(error),
            // The step itself will say what is wrong.
            Err(_) => return Ok(()),
            Ok(()) => {}
        }
        for at in refused {
            self.again(at)?;
        }
        Ok(())
    }

    fn is_member(&self, path: &str) -> Result<bool> {
        match self.host.read_line(path) {
            Err(error) if error.is_stop() => Err(error),
            answer => Ok(answer.is_ok_and(|now| now == "member")),
        }
    }

    fn is_refused(&self, at: usize) -> bool {
        let step = self.steps.get(at);
        let change = step.and_then(|it| self.plan.steps.get(it.done.step)).map(|it| &it.change);
        match (change, step.map(|it| &it.done.outcome)) {
            (Some(change), Some(Outcome::Refused { kind, .. })) => is_miscounted(change, *kind),
            _ => false,
        }
    }

    /// Makes a step once more; what comes of it stands in place of what came before.
    fn again(&mut self, at: usize) -> Result<()> {
        let Some(number) = self.steps.get(at).map(|it: &AppliedStep| it.done.step) else {
            return Ok(());
        };
        let intent = self.intents.iter().find(|intent| intent.step == number);
        let (Some(intent), Some(step)) = (intent, self.plan.steps.get(number)) else {
            return Ok(());
        };
        let made = make::make(self.host, &step.change, &intent.original)?;
        let done = made.of_step(number);
        self.log.add(&journal::outcome(&done))?;
        if let Some(told) = self.steps.get_mut(at) {
            told.done = done;
        }
        Ok(())
    }
}
