//! `cpushield enable`: applies a shield at every boot, with a systemd unit or an init script.

use super::request::RequestArgs;
use super::{GlobalArgs, apply, undo};
use crate::apply::AppliedPlan;
use crate::boot::Enabled;
use crate::boot::early::{self, StartCommand};
use crate::failure::Failure;
use crate::plan::Plan;
use crate::report::{applied_text, enabled_text};
use crate::ui::Ui;
use cpushield_linux::{Host, Store, sched};
use serde::Serialize;
use std::path::{Path, absolute};

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

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct EnableDocument {
    /// The command that every boot runs, and the file that runs it.
    enabled: Enabled,
    /// What `--now` did.
    applied: Option<AppliedPlan>,
}

/// What is enabled, as other subcommands report it.
#[derive(Debug, Serialize)]
pub(super) struct AtEveryBoot {
    /// The command that every boot runs; `None` when nothing is enabled, or when that is unknown.
    pub enabled: Option<Enabled>,
    /// Why that is unknown.
    pub enabled_unknown: Option<String>,
}

impl AtEveryBoot {
    /// Reads it from the state directory.
    pub fn read(store: &Store) -> AtEveryBoot {
        match early::installed(store) {
            Ok(enabled) => AtEveryBoot { enabled, enabled_unknown: None },
            Err(error) => AtEveryBoot { enabled: None, enabled_unknown: Some(error.to_string()) },
        }
    }

    /// One line; empty when nothing is enabled.
    pub fn text(&self) -> String {
        match (&self.enabled, &self.enabled_unknown) {
            (Some(enabled), _) => enabled_text(enabled),
            (None, Some(why)) => format!("Enabled at every boot: unknown: {why}\n"),
            (None, None) => String::new(),
        }
    }
}

/// Runs the subcommand.
///
/// # Errors
/// The request cannot be planned, the shield cannot be applied, or the file cannot be written.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &EnableArgs) -> Result<(), Failure> {
    let host = global.host()?;
    if !host.is_live() {
        return Err(Failure::usage("a recorded machine cannot boot")
            .hint("show the plan for it: cpushield plan --root DIR"));
    }
    let store = global.store();
    let _hurry = sched::boost_priority();
    let (plan, origin) = apply::plan_request(&host, &store, &args.request)?;
    undo::catch_stops()?;
    let applied = match args.now {
        true => Some(apply::apply_with_progress(ui, &host, &store, plan, Some(&origin))?),
        false => None,
    };
    let enabled = install(&host, global, &store, &args.request);
    let enabled = match (enabled, &applied) {
        (Err(failure), Some(_)) => {
            return Err(failure.hint("the shield is active, but only until the next boot"));
        }
        (enabled, _) => enabled?,
    };
    let (applied, plan) = applied.unzip();
    let document = EnableDocument { enabled, applied };
    ui.show(&document, || text(&document, plan.as_ref()))
}

/// Installs the file that applies this request at every boot.
fn install(
    host: &Host,
    global: &GlobalArgs,
    store: &Store,
    request: &RequestArgs,
) -> Result<Enabled, Failure> {
    let state = absolute_path(&global.state_dir());
    let words = apply_arguments(request);
    let call = StartCommand { program: host.read_link("/proc/self/exe")?, state, words };
    Ok(early::install(host, store, &call)?)
}

/// The arguments of `cpushield` that apply this request, independent of the working directory.
#[must_use]
pub fn apply_arguments(request: &RequestArgs) -> Vec<String> {
    let policy = request.policy.as_ref().map(|path| absolute_path(Path::new(path)));
    let request = RequestArgs { policy, ..request.clone() };
    ["apply".to_owned()].into_iter().chain(request.to_arguments()).collect()
}

fn absolute_path(path: &Path) -> String {
    absolute(path).unwrap_or(path.to_owned()).display().to_string()
}

fn text(document: &EnableDocument, plan: Option<&Plan>) -> String {
    let mut text = enabled_text(&document.enabled);
    match document.applied.as_ref().zip(plan) {
        Some((applied, plan)) => text.insert_str(0, &applied_text(applied, plan)),
        None => text
            .push_str("The running system has not changed. --now also applies the shield now.\n"),
    }
    text
}
