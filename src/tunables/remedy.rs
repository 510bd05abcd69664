//! [`remedy`]: from an interruption to what removes it. Pure.

use super::{Force, TUNABLES, Tunable, Wanted, Wants, in_force};
use crate::causes::Cause;
use crate::change::{Change, When};
use crate::plan::Shield;
use crate::survey::Machine;
use serde::{Deserialize, Serialize};

/// How to remove an interruption.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Remedy {
    /// The tunable.
    pub tunable: String,
    /// Now or at the next boot.
    pub when: When,
    /// The command or the parameter.
    pub how: String,
}

/// How to remove an interruption of a shield: by a tunable that is not in force, else by a boot
/// parameter, else by moving out the task that it is. `culprit` is who it was, where known, and
/// picks the change that is about it.
///
/// # Errors
/// There is none; with the reason when a tunable would remove it but does nothing on this machine.
pub fn remedy(
    machine: &Machine,
    shield: &Shield,
    cause: Cause,
    culprit: &str,
) -> Result<Remedy, Option<String>> {
    let names = |tunable: &dyn Tunable| tunable.culprits().iter().any(|n| culprit.contains(n));
    let removes = |tunable: &&dyn Tunable| {
        tunable.removes().contains(&cause) && !tunable.spares(machine, culprit)
    };
    // Those that name the culprit know better than those for all.
    let (named, others): (Vec<&dyn Tunable>, Vec<_>) =
        TUNABLES.iter().copied().filter(removes).partition(|tunable| names(*tunable));
    let settled = |tunable: &&dyn Tunable| tunable.settles(machine, shield, culprit);
    if let Some(answer) = named.iter().chain(&others).find_map(settled) {
        return answer.map_err(Some);
    }
    let open = |tunable: &&dyn Tunable| {
        let guess = culprit.is_empty() && tunable.when() == When::Runtime;
        tunable.culprits().is_empty() || guess
    };
    let others: Vec<&dyn Tunable> = others.into_iter().filter(open).collect();
    let found = [&named, &others].into_iter().find_map(|tunables| {
        let mut now = tunables.iter().filter_map(|t| at_runtime(machine, shield, *t, culprit));
        let asked = || tunables.iter().find_map(|t| when_asked(machine, shield, *t));
        let boot = || tunables.iter().find_map(|t| at_boot(machine, shield, *t, cause));
        now.next().or_else(asked).or_else(boot)
    });
    // What only a boot can do says so in its parameter, or why there is none.
    let why_none = || {
        let boot = named.iter().chain(&others).filter(|tunable| tunable.when() == When::Boot);
        boot.into_iter().find_map(|tunable| match in_force(machine, shield, *tunable) {
            Force::NotApplicable(why) => Some(why),
            _ => None,
        })
    };
    found.or_else(|| removal(cause, culprit)).ok_or_else(why_none)
}

/// A task that is on the shield although nothing is lacking was put there: it can be moved out.
fn removal(cause: Cause, culprit: &str) -> Option<Remedy> {
    if cause != Cause::UserTask {
        return None;
    }
    let (_, pid) = culprit.strip_suffix(')')?.rsplit_once('(')?;
    let pid: i32 = pid.parse().ok()?;
    let how = format!("cpushield remove {pid}");
    Some(Remedy { tunable: "cpuset".to_owned(), when: When::Runtime, how })
}

fn at_runtime(
    machine: &Machine,
    shield: &Shield,
    tunable: &dyn Tunable,
    culprit: &str,
) -> Option<Remedy> {
    let Force::NotInForce(missing) = in_force(machine, shield, tunable) else { return None };
    let about = missing.iter().find(|wanted| is_about(wanted, culprit));
    let how = match (about, missing.as_slice()) {
        (Some(wanted), _) => wanted.change.shell(),
        (None, [only]) => only.change.shell(),
        (None, many) => {
            let on = tunable.optional(shield.workload).map(|_| tunable.name());
            let on = on.map(|name| format!(" --on {name}")).unwrap_or_default();
            format!("cpushield apply{on} ({} changes)", many.len())
        }
    };
    Some(Remedy { tunable: tunable.name().to_owned(), when: When::Runtime, how })
}

/// What a tunable does not do unasked on this machine.
fn when_asked(machine: &Machine, shield: &Shield, tunable: &dyn Tunable) -> Option<Remedy> {
    if !matches!(in_force(machine, shield, tunable), Force::NotApplicable(_)) {
        return None;
    }
    let wants = tunable.wants_when_asked(machine, shield);
    let tunable = tunable.name().to_owned();
    let how = format!("cpushield apply --on {tunable}");
    matches!(wants, Wants::Changes(wanted) if !wanted.is_empty()).then_some(Remedy {
        tunable,
        when: When::Runtime,
        how,
    })
}

fn at_boot(
    machine: &Machine,
    shield: &Shield,
    tunable: &dyn Tunable,
    cause: Cause,
) -> Option<Remedy> {
    let how = tunable.at_boot(machine, shield, cause)?;
    Some(Remedy { tunable: tunable.name().to_owned(), when: When::Boot, how })
}

/// Whether a change is about this culprit: the interrupt of `IRQ 24 nvme0q3`, the thread of
/// `kswapd0 (88)`.
fn is_about(wanted: &Wanted, culprit: &str) -> bool {
    match &wanted.change {
        Change::Write { path, .. } => {
            let irq = path.strip_prefix("/proc/irq/").and_then(|rest| rest.split('/').next());
            let number = culprit.strip_prefix("IRQ ").and_then(|rest| rest.split(' ').next());
            irq.is_some() && irq == number
        }
        Change::Affinity { task, comm, .. } => {
            culprit == comm || culprit.ends_with(&format!("({})", task.tid))
        }
        _ => false,
    }
}
