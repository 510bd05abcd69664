//! Tunables: one file for each thing the kernel or the machine can be told, one slice that lists
//! them. A tunable is pure: it sees the [`Machine`] and the [`Shield`] and returns [`Change`]s; it
//! has no write and no undo code.

use crate::causes::Cause;
use crate::change::{Change, Risk, When};
use crate::plan::{BootAdvice, Immovable, Shield};
use crate::survey::Machine;

/// One thing the kernel or the machine can be told.
pub trait Tunable: Sync {
    /// The stable name: `irq-affinity`.
    fn name(&self) -> &'static str;
    /// One line for lists.
    fn summary(&self) -> &'static str;
    /// The page of `explain` (Markdown): why, when it applies, what it costs, sources.
    fn page(&self) -> &'static str;
    /// Files the survey must read for it; `*` stands for any one name in a path.
    fn reads(&self) -> &'static [&'static str];
    /// Causes it removes.
    fn removes(&self) -> &'static [Cause];
    /// What it can harm.
    fn risk(&self) -> Risk;
    /// When it takes effect.
    fn when(&self) -> When {
        When::Runtime
    }
    /// What it wants on this machine for this shield.
    fn wants(&self, machine: &Machine, shield: &Shield) -> Wants;
}

/// What a tunable wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wants {
    /// These changes, in order.
    Changes(Vec<Wanted>),
    /// Nothing: it does not apply here, or this machine cannot, and why.
    Nothing(String),
}

/// One change with its now and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// What to do.
    pub change: Change,
    /// What is there now.
    pub now: Option<String>,
    /// Why, in one sentence.
    pub reason: String,
    /// The shield is worthless without it.
    pub required: bool,
}

/// What stays although a tunable did its part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remains {
    /// Things that cannot be moved.
    pub immovable: Vec<Immovable>,
    /// Boot parameters that would remove them.
    pub boot: Vec<BootAdvice>,
}

/// Every tunable, in the order their changes are made.
pub const TUNABLES: &[&dyn Tunable] = &[];

/// The files that the tunables want the survey to read.
#[must_use]
pub fn reads() -> Vec<&'static str> {
    TUNABLES.iter().flat_map(|tunable| tunable.reads()).copied().collect()
}
