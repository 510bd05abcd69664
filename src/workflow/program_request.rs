//! The request for a program in the shield, and what to say about the CPU that is chosen for it.

use crate::run::ChosenCpu;
use crate::ui::Ui;
use cpushield_linux::SchedPolicy;
use std::ffi::OsString;

/// The program, and how it runs.
#[derive(Debug, Clone)]
pub struct ProgramRequest {
    /// The CPUs of its threads.
    pub cpus: ProgramCpus,
    /// Its scheduling policy; that of ordinary programs if `None`.
    pub policy: Option<SchedPolicy>,
    /// The highest priority that the program sets by itself.
    pub own_priority: Option<u32>,
    /// Its user and group.
    pub user: Option<String>,
    /// Whether it may lock any amount of memory.
    pub lock_memory: bool,
    /// Whether another process of cpushield observes it.
    pub is_watched: bool,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}

/// The CPUs of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramCpus {
    /// One CPU: this one, or the one with the fewest programs.
    One(Option<usize>),
    /// All shielded CPUs, with a thread on each.
    Spread,
}

/// Says when every CPU of the shield has a program already.
pub(super) fn explain_busy(ui: &Ui, choice: &ChosenCpu) {
    let ChosenCpu { cpu, threads } = *choice;
    if threads > 0 {
        let threads =
            if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
        ui.status(&format!(
            "no CPU of the shield is free; CPU {cpu} has the fewest programs ({threads})"
        ));
    }
}
