//! Bans the CPUs of all active shields from an irqbalance that started after they were applied.
//! irqbalance has forgotten the ban of an earlier start, and may have moved interrupts already.

use super::WorkContext;
use super::machine_survey::survey_shielded;
use crate::apply::{amend, outcomes};
use crate::change::Change;
use crate::documents::plan::Step;
use crate::failure::Failure;
use crate::plan::{missing, wanted_now};
use crate::run;
use cpushield_linux::{CpuSet, Host, Task};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long irqbalance may take until it answers: systemd counts it as started before it is.
const TIMEOUT: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(200);

/// Bans the shielded CPUs, and moves interrupts off them again. Does nothing without a shield or
/// without irqbalance.
///
/// # Errors
/// The journal cannot be read, or another process is changing the shield.
pub fn ban_from_irqbalance(work: &WorkContext<'_>) -> Result<(), Failure> {
    let WorkContext { ui, host, store, .. } = work;
    let plans = run::all_active(host, store)?;
    if plans.is_empty() {
        ui.status("no shield is active, so irqbalance may use every CPU");
        return Ok(());
    }
    if !wait_for_irqbalance(host) {
        ui.status("irqbalance is not running");
        return Ok(());
    }
    let shielded: CpuSet = plans.iter().map(|plan| &plan.shield.cpus).collect();
    for plan in plans {
        let machine = survey_shielded(host, store, &plan);
        let done = outcomes(host, store)?;
        let mut steps: Vec<Step> = wanted_now(&machine, &plan, "irqbalance");
        steps.extend(missing(&machine, &plan, &done, &BTreeSet::new()));
        steps.retain(|step| ["irqbalance", "irq-affinity"].contains(&step.tunable.as_str()));
        steps.dedup_by(|later, earlier| later.change == earlier.change);
        for step in &mut steps {
            if let Change::BanFromIrqbalance { cpus } = &mut step.change {
                cpus.clone_from(&shielded);
            }
        }
        amend(host, store, &plan.shield.name, &steps)?;
    }
    ui.status(&format!("asked irqbalance not to use CPU {shielded}"));
    Ok(())
}

/// Waits until irqbalance answers. Returns whether it does. systemd calls this when it starts
/// irqbalance, perhaps before the process has its name. Scripts call it at each boot.
fn wait_for_irqbalance(host: &Host) -> bool {
    let runs = |task: &Task| task.comm == "irqbalance" && !task.kthread;
    let systemd = host.has_systemd();
    if !systemd && !host.tasks().unwrap_or_default().iter().any(runs) {
        return false;
    }
    let mut waited = Duration::ZERO;
    while waited < TIMEOUT {
        if matches!(host.irqbalance(), Ok(Some(_))) {
            return true;
        }
        std::thread::sleep(STEP);
        waited += STEP;
    }
    false
}
