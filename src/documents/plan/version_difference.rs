//! [`VersionSettings`]: what another version of a shield has that the one before has not, and the
//! reverse. Pure.

use super::{Plan, Step};
use crate::change::Change;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// What a new version of a shield does with settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SettingsFate {
    /// Only the new version has them.
    Added,
    /// Only the old version had them.
    Dropped,
}

/// Settings of one tunable that only one of two versions of a shield has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VersionSettings {
    /// What becomes of them.
    pub fate: SettingsFate,
    /// The tunable.
    pub tunable: String,
    /// Their subjects: files, threads.
    pub settings: Vec<String>,
}

/// The most subjects that a line names.
const NAMED_MAX: usize = 2;

impl fmt::Display for VersionSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fate = match self.fate {
            SettingsFate::Added => "added",
            SettingsFate::Dropped => "dropped",
        };
        let named: Vec<&str> = self.settings.iter().take(NAMED_MAX).map(String::as_str).collect();
        write!(f, "{fate}: {} ({}", self.tunable, named.join(", "))?;
        match self.settings.len().saturating_sub(NAMED_MAX) {
            0 => f.write_str(")"),
            more => write!(f, " and {more} more)"),
        }
    }
}

/// The settings that only one of two versions of a shield has, by tunable: first what is added. A
/// setting that gets another value is in both.
#[must_use]
pub fn version_differences(old: &Plan, new: &Plan) -> Vec<VersionSettings> {
    let mut found: BTreeMap<(SettingsFate, &str), Vec<String>> = BTreeMap::new();
    for (fate, plan, other) in [(SettingsFate::Added, new, old), (SettingsFate::Dropped, old, new)]
    {
        let is_in_other =
            |step: &Step| other.steps.iter().any(|it| it.change.is_about_same(&step.change));
        let only = plan.steps.iter().filter(|step| is_setting(step) && !is_in_other(step));
        for step in only {
            let settings = found.entry((fate, step.tunable.as_str())).or_default();
            settings.push(step.change.subject());
        }
    }
    let changed = found.into_iter().map(|((fate, tunable), settings)| VersionSettings {
        fate,
        tunable: tunable.to_owned(),
        settings,
    });
    changed.collect()
}

/// Whether a step leaves something that stays until it is undone.
fn is_setting(step: &Step) -> bool {
    let passes = matches!(
        step.change,
        Change::CycleCpu { .. } | Change::MoveTasks { .. } | Change::KeepAffinities
    );
    step.is_runtime() && !passes
}
