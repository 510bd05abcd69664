//! The shield that is there already, for subcommands that make one for a while and for their guard.
//! All ask [`apply::find_shield`], which knows a part of a shield and somebody at work from a whole
//! one.

use crate::apply::{self, JournalLoadError, ShieldPresence, UnfinishedWork};
use crate::failure::Failure;
use crate::run::{self, RunError};
use cpushield_linux::{Host, Store};
use std::time::Duration;

/// Which shield a subcommand is about
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ActiveArgs {
    /// Fail unless the active shield has this name
    #[arg(long, value_name = "NAME", help_heading = "The active shield")]
    pub shield: Option<String>,
}

impl ActiveArgs {
    /// Refuses where the user named a shield and the active one, whole or a part of it, has another
    /// name.
    ///
    /// # Errors
    /// It has, there is none, or the journal cannot be read.
    pub fn check(&self, host: &Host, store: &Store) -> Result<(), Failure> {
        let Some(asked) = &self.shield else { return Ok(()) };
        let active = apply::active(host, store)?.ok_or(RunError::NoShield)?.shield.name;
        if *asked == active {
            return Ok(());
        }
        Err(Failure::machine(format!("the active shield is named {active:?}, not {asked:?}"))
            .hint(format!("give its name: --shield {active}"))
            .hint("or leave --shield out"))
    }
}

/// How long somebody at work on a shield is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(100);

/// Refuses where a shield is, a part of one, or somebody who makes one; `hint` is for a whole one.
///
/// # Errors
/// There is one, or the journal cannot be read.
pub fn refuse(host: &Host, store: &Store, hint: &str) -> Result<(), Failure> {
    match run::active(host, store)? {
        None => Ok(()),
        Some(plan) => {
            let why = format!("CPU {} is shielded already", plan.shield.cpus);
            Err(Failure::machine(why).hint(hint))
        }
    }
}

/// What is there when nobody is at work on it any more, or after a minute.
///
/// # Errors
/// The journal cannot be read, or is none.
pub fn after_others(host: &Host, store: &Store) -> Result<ShieldPresence, JournalLoadError> {
    let mut waited = Duration::ZERO;
    loop {
        match apply::find_shield(host, store)? {
            ShieldPresence::Part(_, UnfinishedWork::UnderWay { .. }) if waited < PATIENCE => {
                std::thread::sleep(STEP);
                waited += STEP;
            }
            found => return Ok(found),
        }
    }
}

/// Undoes a shield of one of these names, whole or a part of it. Somebody else's is left alone.
///
/// # Errors
/// The journal cannot be read, or undo failed.
pub fn undo_own(host: &Host, store: &Store, names: &[&str]) -> Result<(), Failure> {
    let journal = match after_others(host, store)? {
        ShieldPresence::Whole(journal) | ShieldPresence::Part(Some(journal), _) => journal,
        ShieldPresence::Absent | ShieldPresence::Part(None, _) => return Ok(()),
    };
    if names.contains(&journal.header.plan.shield.name.as_str()) {
        apply::undo(host, store)?;
    }
    Ok(())
}
