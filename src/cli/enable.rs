//! `cpushield enable`: applies a shield at every boot, with a systemd unit or an init script.

use super::GlobalArgs;
use super::paint::on_terminal;
use super::request::RequestArgs;
use crate::failure::Failure;
use crate::plan::Plan;
use crate::report::{applied_blocks, enabled_line};
use crate::ui::Ui;
use crate::workflow::every_boot::{ApplyTime, EnabledShield, absolute_path, enable_shield};
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
    /// The shield
    #[command(flatten)]
    request: RequestArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// The request cannot be planned, the shield cannot be applied, or the file cannot be written.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &EnableArgs) -> Result<(), Failure> {
    let work = global.open(ui)?;
    if !work.host.is_live() {
        return Err(Failure::usage("a recorded machine cannot boot")
            .hint("show the plan for it: cpushield plan --root DIR"));
    }
    let when = if args.now { ApplyTime::NowToo } else { ApplyTime::NextBoot };
    let words = apply_arguments(&args.request);
    let (enabled, plan) = enable_shield(&work, &args.request.options(), words, when)?;
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
    let mut text = enabled_line(&document.enabled).text() + "\n";
    match document.applied.as_ref().zip(plan) {
        Some((applied, plan)) => {
            text.insert_str(0, &on_terminal(ui, &applied_blocks(applied, plan)));
        }
        None => text
            .push_str("The running system has not changed. --now also applies the shield now.\n"),
    }
    text
}
