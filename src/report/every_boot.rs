//! What every boot applies → lines, and the screens of `enable`, `disable` and `undo`, which change
//! it or leave it. Pure.

use super::applied::{applied_blocks, applied_policy_blocks, undone_blocks};
use super::blocks::{ReportBlock, TextLine};
use crate::documents::applied::{AppliedPlan, AppliedPolicy, UndoneShield};
use crate::documents::boot::{AtEveryBoot, Enabled};
use crate::documents::plan::{Plan, Shield, named};

/// A line for the shield that every boot creates.
#[must_use]
pub fn enabled_line(enabled: &Enabled) -> TextLine {
    let words = enabled.words.join(" ");
    TextLine::new(format!("Enabled at every boot: cpushield {words} ({})", enabled.path))
}

/// A line for what every boot applies; `None` when nothing is enabled.
pub(super) fn at_every_boot_line(at_every_boot: &AtEveryBoot) -> Option<TextLine> {
    match (&at_every_boot.enabled, &at_every_boot.enabled_unknown) {
        (Some(enabled), _) => Some(enabled_line(enabled)),
        (None, Some(why)) => Some(TextLine::new(format!("Enabled at every boot: unknown ({why})"))),
        (None, None) => None,
    }
}

/// The blocks of `cpushield enable`. `applied` is what `--now` did.
#[must_use]
pub fn enabled_blocks(
    enabled: &Enabled,
    applied: Option<(&AppliedPlan, &Plan)>,
) -> Vec<ReportBlock> {
    let applied = applied.map(|(applied, plan)| applied_blocks(applied, plan));
    enabled_after(applied, enabled, "the shield")
}

/// The blocks of `cpushield enable --all`. `applied` is what `--now` did.
#[must_use]
pub fn enabled_policy_blocks(
    enabled: &Enabled,
    applied: Option<&AppliedPolicy>,
) -> Vec<ReportBlock> {
    enabled_after(applied.map(applied_policy_blocks), enabled, "the shields")
}

/// What was applied now, and what every boot does.
fn enabled_after(
    applied: Option<Vec<ReportBlock>>,
    enabled: &Enabled,
    what: &str,
) -> Vec<ReportBlock> {
    let mut lines = vec![enabled_line(enabled)];
    lines.extend(applied.is_none().then(|| {
        let text = "The running system has not changed. --now also applies";
        TextLine::new(format!("{text} {what} now."))
    }));
    applied.into_iter().flatten().chain([ReportBlock::Lines(lines)]).collect()
}

/// The blocks of `cpushield disable`. `active` are the shields that stay, `active_unknown` says why
/// that is unknown, and `undone` is what `--now` did.
#[must_use]
pub fn disabled_blocks(
    disabled: Option<&Enabled>,
    active: &[Shield],
    active_unknown: Option<&str>,
    undone: &[UndoneShield],
) -> Vec<ReportBlock> {
    let mut lines = vec![TextLine::new(match disabled {
        Some(disabled) => {
            format!("Disabled: {} is removed, so the next boot shields no CPU", disabled.path)
        }
        None => "Not enabled: no shield is applied at boot".to_owned(),
    })];
    lines.extend(active.iter().map(|shield| {
        TextLine::new(format!(
            "Shield {0} on {1} stays active until `cpushield undo --shield {0}` or a reboot",
            shield.name,
            named(&shield.cpus)
        ))
    }));
    lines
        .extend(active_unknown.map(|why| TextLine::new(format!("Active shield: unknown ({why})"))));
    [ReportBlock::Lines(lines)].into_iter().chain(undone.iter().flat_map(undone_blocks)).collect()
}

/// The blocks of `cpushield undo`.
#[must_use]
pub fn undo_blocks(shields: &[UndoneShield], at_every_boot: &AtEveryBoot) -> Vec<ReportBlock> {
    let nothing = shields
        .is_empty()
        .then(|| TextLine::new("nothing to undo: no shield of the policy is active"));
    let enabled = match &at_every_boot.enabled {
        Some(enabled) => Some(TextLine::new(format!(
            "Still enabled at every boot ({}); to disable it: cpushield disable",
            enabled.path
        ))),
        None => at_every_boot_line(at_every_boot),
    };
    let lines = nothing.into_iter().chain(enabled).collect();
    shields.iter().flat_map(undone_blocks).chain([ReportBlock::Lines(lines)]).collect()
}
