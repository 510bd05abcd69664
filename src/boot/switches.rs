//! Switches: the names that `--on`, `--off` and a policy accept. A switch is a tunable of the
//! running kernel, a boot parameter, or both. One lookup serves all. Pure.

use super::parameters::{KernelParameter, PARAMETERS};
use crate::registry::{self, ExplainPage, ExplainedEntry, RegistryEntry};
use crate::tunables::{TUNABLES, Tunable};
use std::fmt;

/// A tunable, a boot parameter, or both under one name.
#[derive(Clone, Copy)]
pub enum Switch {
    /// Only a tunable of the running kernel.
    Tunable(&'static Tunable),
    /// Only a boot parameter.
    Parameter(&'static KernelParameter),
    /// A tunable that the running kernel shows, and the boot parameter that sets it.
    Both(&'static Tunable, &'static KernelParameter),
}

impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Switch({})", self.key())
    }
}

impl Switch {
    /// Whether a plan for the running kernel knows it.
    #[must_use]
    pub fn is_tunable(self) -> bool {
        !matches!(self, Switch::Parameter(_))
    }

    /// The boot parameter.
    #[must_use]
    pub fn parameter(self) -> Option<&'static KernelParameter> {
        match self {
            Switch::Tunable(_) => None,
            Switch::Parameter(parameter) | Switch::Both(_, parameter) => Some(parameter),
        }
    }
}

impl RegistryEntry for Switch {
    fn key(self) -> &'static str {
        match self {
            Switch::Tunable(tunable) | Switch::Both(tunable, _) => tunable.name,
            Switch::Parameter(parameter) => parameter.name,
        }
    }
}

impl ExplainedEntry for Switch {
    fn explain(self) -> ExplainPage {
        match self {
            Switch::Tunable(tunable) | Switch::Both(tunable, _) => tunable.explain(),
            Switch::Parameter(parameter) => parameter.explain(),
        }
    }
}

/// Every switch: the tunables in their order, then the parameters that are no tunable.
#[must_use]
pub fn switches() -> Vec<Switch> {
    let tunables = TUNABLES.iter().map(|tunable| match registry::find(PARAMETERS, tunable.name) {
        Some(parameter) => Switch::Both(tunable, parameter),
        None => Switch::Tunable(tunable),
    });
    let only_boot = PARAMETERS.iter().copied();
    let only_boot =
        only_boot.filter(|parameter| registry::find(TUNABLES, parameter.name).is_none());
    tunables.chain(only_boot.map(Switch::Parameter)).collect()
}

/// The switch of this name.
#[must_use]
pub fn named_switch(name: &str) -> Option<Switch> {
    registry::find(&switches(), name)
}

/// The names of all switches.
#[must_use]
pub fn switch_names() -> Vec<&'static str> {
    registry::names(&switches())
}

/// Whether a plan for the next boot knows the switch of this name.
#[must_use]
pub fn is_parameter(name: &str) -> bool {
    named_switch(name).is_some_and(|switch| switch.parameter().is_some())
}

/// Whether a plan for the running kernel knows the switch of this name.
#[must_use]
pub fn is_tunable(name: &str) -> bool {
    named_switch(name).is_some_and(Switch::is_tunable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_both_is_one_switch() {
        let both = switches().into_iter().filter(|it| matches!(it, Switch::Both(..)));
        let both: Vec<&str> = both.map(Switch::key).collect();
        assert_eq!(both, ["nohz-full", "rcu-nocbs", "clocksource-watchdog"]);
        assert_eq!(switch_names().len() + both.len(), TUNABLES.len() + PARAMETERS.len());
        assert!(is_tunable("nohz-full") && !is_tunable("nosmt") && !is_tunable("nonsense"));
    }
}
