//! The active shield, for subcommands that need one, and for those that must not find one.
//! [`apply::find_shield`] tells a whole shield from an incomplete one and from one that another
//! process is changing.

use super::WorkContext;
use super::active_plans::known_shields;
use super::take_down::note_of_tracer;
use crate::apply::{self, JournalLoadError, ShieldPresence, UnfinishedWork};
use crate::boot::AtEveryBoot;
use crate::failure::Failure;
use crate::latency;
use crate::policy::DisturbanceConsent;
use crate::run::{self, RunError, ShieldStatus};
use cpushield_linux::{CpuSet, Host, Store};
use serde::Serialize;
use std::time::Duration;

/// Checks that a shield of this name, whole or incomplete, is live.
///
/// # Errors
/// None is, or the journal cannot be read.
pub fn check_name(host: &Host, store: &Store, name: &str) -> Result<(), Failure> {
    let shields = known_shields(host, store)?;
    let names: Vec<String> = shields.into_iter().map(|shield| shield.name).collect();
    match names.iter().any(|live| live == name) {
        true => Ok(()),
        false if names.is_empty() => Err(RunError::NoShield.into()),
        false => Err(RunError::NoSuchShield { name: name.to_owned(), names }.into()),
    }
}

/// Checks that a trace on these CPUs interrupts no other active shield, or that the user consents.
/// Arming and disarming tracepoints patches the kernel's code, which interrupts every online CPU
/// (`text_poke_sync()`, arch/x86/kernel/alternative.c, 6.12). On 6.12 in a guest with 4 CPUs, a
/// `verify` of one second made 1,386 function-call interrupts on the CPU of the other shield.
///
/// # Errors
/// It interrupts another shield, or the journal cannot be read.
pub fn check_disturbance(
    work: &WorkContext<'_>,
    watched: &CpuSet,
    consent: DisturbanceConsent,
) -> Result<(), Failure> {
    if consent == DisturbanceConsent::Given {
        return Ok(());
    }
    let shields = known_shields(&work.host, &work.store)?;
    let Some(other) = shields.iter().find(|shield| !shield.cpus.intersects(watched)) else {
        return Ok(());
    };
    let message = format!(
        "the trace would interrupt CPU {} of shield {}: arming it patches the kernel's code, which \
         interrupts every CPU, often more than a thousand times",
        other.cpus, other.name
    );
    Err(Failure::machine(message)
        .hint("accept the interruption: --disturb")
        .hint("counters alone interrupt no CPU: cpushield watch"))
}

/// How long to wait for another process that is changing the shield.
const TIMEOUT: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(100);

/// Checks that no shield is active, incomplete or being made; `hint` is for a whole one.
///
/// # Errors
/// There is a shield, or the journal cannot be read.
pub fn refuse_active(host: &Host, store: &Store, hint: &str) -> Result<(), Failure> {
    let plans = run::all_active(host, store)?;
    if plans.is_empty() {
        return Ok(());
    }
    let cpus = plans.iter().fold(CpuSet::new(), |all, plan| all.union(&plan.shield.cpus));
    Err(Failure::machine(format!("CPU {cpus} is already shielded")).hint(hint))
}

/// Waits, for a minute at most, until no other process is changing the shield. Returns the shield
/// that it then finds.
///
/// # Errors
/// The journal cannot be read.
pub fn find_settled_shield(host: &Host, store: &Store) -> Result<ShieldPresence, JournalLoadError> {
    let mut waited = Duration::ZERO;
    loop {
        match apply::find_shield(host, store)? {
            ShieldPresence::Part(_, UnfinishedWork::UnderWay { .. }) if waited < TIMEOUT => {
                std::thread::sleep(STEP);
                waited += STEP;
            }
            found => return Ok(found),
        }
    }
}

/// Undoes the shield, whole or incomplete, if it has one of these names.
///
/// # Errors
/// The journal cannot be read, or undo failed.
pub fn undo_named(host: &Host, store: &Store, names: &[&str]) -> Result<(), Failure> {
    let journal = match find_settled_shield(host, store)? {
        ShieldPresence::Whole(journal) | ShieldPresence::Part(Some(journal), _) => journal,
        ShieldPresence::Absent | ShieldPresence::Part(None, _) => return Ok(()),
    };
    for name in journal.shield_names().iter().filter(|name| names.contains(&name.as_str())) {
        apply::undo(host, store, Some(name))?;
    }
    Ok(())
}

/// What `status` shows.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatusDocument {
    /// The active shields.
    #[serde(flatten)]
    pub status: ShieldStatus,
    /// What every boot applies.
    #[serde(flatten)]
    pub at_every_boot: AtEveryBoot,
}

/// Reads the status of the shields. First restores what a killed measurement left changed.
///
/// # Errors
/// `/proc` cannot be read.
pub fn read_status(work: &WorkContext<'_>) -> Result<StatusDocument, Failure> {
    if let Some(recovery) = latency::restore_tracer_settings(&work.host, &work.store) {
        work.ui.status(&note_of_tracer(recovery).to_string());
    }
    let status = run::status(&work.host, &work.store, work.shield.as_deref())?;
    Ok(StatusDocument { status, at_every_boot: AtEveryBoot::read(&work.store) })
}
