//! How the parameters of a boot plan are written. Pure.

use super::loaders::EntryPosition;
use super::trial_unit::TrialProgram;
use crate::documents::boot::TrialDeadline;

/// What becomes of the default entry of the boot loader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DefaultEntry {
    /// Our entry becomes the default.
    #[default]
    Ours,
    /// It stays: our entries follow all others.
    Kept,
}

/// For how many boots parameters are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ParameterTerm {
    /// For all.
    #[default]
    Permanent,
    /// For one, a trial. They become permanent if it passes.
    Trial,
}

/// What starts the new entry first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EntryStart {
    /// The boot loader.
    #[default]
    BootLoader,
    /// The running kernel, with kexec. The loader need not boot the entry of a trial once.
    Kexec,
}

/// How the parameters are written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteMode {
    /// What becomes of the default entry.
    pub default_entry: DefaultEntry,
    /// For how many boots the parameters are written.
    pub term: ParameterTerm,
    /// What starts the new entry first.
    pub start: EntryStart,
    /// What the unit that concludes a trial runs; `None` without systemd.
    pub program: Option<TrialProgram>,
    /// What must come up in a trial's boot; `None`: nothing. Only the unit can fall back.
    pub until: Option<TrialDeadline>,
}

impl WriteMode {
    /// Whether the parameters are written for a trial.
    pub(super) fn is_trial(&self) -> bool {
        self.term == ParameterTerm::Trial
    }

    /// What must come up in a trial's boot; `None` also without the unit that can fall back.
    pub(super) fn deadline(&self) -> Option<TrialDeadline> {
        self.until.filter(|_| self.program.is_some())
    }

    /// Whether the default entry stays.
    pub(super) fn keeps_default(&self) -> bool {
        self.default_entry == DefaultEntry::Kept
    }

    /// Where our entries are in the menu.
    pub(super) fn position(&self) -> EntryPosition {
        match (self.term, self.default_entry) {
            (ParameterTerm::Trial, _) => EntryPosition::Trial,
            (ParameterTerm::Permanent, DefaultEntry::Kept) => EntryPosition::Last,
            (ParameterTerm::Permanent, DefaultEntry::Ours) => EntryPosition::First,
        }
    }
}
