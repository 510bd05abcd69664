//! `cpushield enable`: applies a shield at every boot, with a systemd unit or an init script.

use super::GlobalArgs;
use super::apply::all_text;
use super::paint::on_terminal;
use super::request::{DisturbArgs, ONE_SHIELD, RequestArgs};
use crate::failure::Failure;
use crate::plan::Plan;
use crate::report::{applied_blocks, enabled_line};
use crate::ui::Ui;
use crate::workflow::every_boot::{
    ApplyTime, Enabled, EnabledPolicy, EnabledShield, absolute_path, enable_policy, enable_shield,
};
use std::path::Path;

/// Shield CPUs at every boot, before services start
///
/// Writes a systemd unit or an init script that applies this shield at every boot. The running
/// system does not change, unless `--now` is given. `cpushield disable` removes the file.
#[derive(Debug, clap::Args)]
pub struct EnableArgs {
    /// Also apply the shield now
    #[arg(long)]
    now: bool,
    /// Apply every shield of the policy file
    #[arg(long, conflicts_with_all = ONE_SHIELD)]
    all: bool,
    /// What the shield may do to others
    #[command(flatten)]
    disturb: DisturbArgs,
    /// The shield
    #[command(flatten)]
    request: RequestArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// The request cannot be planned, the shield cannot be applied, or the file cannot be written.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &EnableArgs) -> Result<(), Failure> {
    let work = global.open_live(ui)?;
    let when = if args.now { ApplyTime::NowToo } else { ApplyTime::NextBoot };
    if args.all {
        let document = enable_policy(&work, &args.disturb.policy_options(&args.request), when)?;
        return ui.show(&document, || policy_text(ui, &document));
    }
    let mut words = apply_arguments(&args.request);
    words.extend(args.disturb.disturb.then(|| "--disturb".to_owned()));
    let options = args.disturb.options(&args.request);
    let (enabled, plan) = enable_shield(&work, &options, words, when)?;
    ui.show(&enabled, || text(ui, &enabled, plan.as_ref()))
}

/// The arguments of `cpushield` that apply this request, independent of the working directory.
#[must_use]
pub fn apply_arguments(request: &RequestArgs) -> Vec<String> {
    let policy = request.policy.as_ref().map(|path| absolute_path(Path::new(path)));
    let request = RequestArgs { policy, ..request.clone() };
    ["apply".to_owned()].into_iter().chain(request.to_arguments()).collect()
}

fn text(ui: &Ui, document: &EnabledShield, plan: Option<&Plan>) -> String {
    let applied = document.applied.as_ref().zip(plan);
    let applied = applied.map(|(applied, plan)| on_terminal(ui, &applied_blocks(applied, plan)));
    enabled_text(&document.enabled, applied, "the shield")
}

fn policy_text(ui: &Ui, document: &EnabledPolicy) -> String {
    let applied = document.applied.as_ref().map(|applied| all_text(ui, applied));
    enabled_text(&document.enabled, applied, "the shields")
}

/// What was applied now, and what every boot does.
fn enabled_text(enabled: &Enabled, applied: Option<String>, what: &str) -> String {
    let mut text = enabled_line(enabled).text() + "\n";
    match applied {
        Some(applied) => text.insert_str(0, &applied),
        None => text.push_str(&format!(
            "The running system has not changed. --now also applies {what} now.\n"
        )),
    }
    text
}
