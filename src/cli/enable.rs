//! `cpushield enable`: the shield that every boot makes, by a unit or an init script.

use super::request::RequestArgs;
use super::{GlobalArgs, apply, undo};
use crate::apply::AppliedPlan;
use crate::boot::early::{self, Enabled, StartCommand};
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
    wish: RequestArgs,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct EnableDocument {
    /// What every boot calls, and the file that does.
    enabled: Enabled,
    /// What `--now` did.
    applied: Option<AppliedPlan>,
}

/// What is enabled, as other subcommands tell of it.
#[derive(Debug, Serialize)]
pub(super) struct AtEveryBoot {
    /// What every boot calls; `None` when nothing is enabled, or nothing can be said of it.
    pub enabled: Option<Enabled>,
    /// Why nothing can be said of it.
    pub enabled_unknown: Option<String>,
}

impl AtEveryBoot {
    /// What the state directory says.
    pub fn of(store: &Store) -> AtEveryBoot {
        match early::installed(store) {
            Ok(enabled) => AtEveryBoot { enabled, enabled_unknown: None },
            Err(error) => AtEveryBoot { enabled: None, enabled_unknown: Some(error.to_string()) },
        }
    }

    /// A line, where there is something to say.
    pub fn text(&self) -> String {
        match (&self.enabled, &self.enabled_unknown) {
            (Some(enabled), _) => enabled_text(enabled),
            (None, Some(why)) => format!("Enabled at every boot: unknown: {why}\n"),
            (None, None) => String::new(),
        }
    }
}

/// Runs it.
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
    let (plan, origin) = apply::planned(&host, &store, &args.wish)?;
    undo::catch_stops()?;
    let applied = match args.now {
        true => Some(apply::put_in_force(ui, &host, &store, plan, Some(&origin))?),
        false => None,
    };
    let enabled = write(&host, global, &store, &args.wish);
    let enabled = match (enabled, &applied) {
        (Err(failure), Some(_)) => {
            return Err(failure.hint("the shield is active until the next boot"));
        }
        (enabled, _) => enabled?,
    };
    let (applied, plan) = applied.unzip();
    let document = EnableDocument { enabled, applied };
    ui.show(&document, || text(&document, plan.as_ref()))
}

/// Writes what makes every boot apply this request.
fn write(
    host: &Host,
    global: &GlobalArgs,
    store: &Store,
    wish: &RequestArgs,
) -> Result<Enabled, Failure> {
    let state = whole(&global.state_dir());
    let call =
        StartCommand { program: host.read_link("/proc/self/exe")?, state, words: words(wish) };
    Ok(early::install(host, store, &call)?)
}

/// The words behind `cpushield` that apply this request, from whichever directory.
#[must_use]
pub fn words(wish: &RequestArgs) -> Vec<String> {
    let policy = wish.policy.as_ref().map(|path| whole(Path::new(path)));
    let wish = RequestArgs { policy, ..wish.clone() };
    ["apply".to_owned()].into_iter().chain(wish.words()).collect()
}

fn whole(path: &Path) -> String {
    absolute(path).unwrap_or(path.to_owned()).display().to_string()
}

fn text(document: &EnableDocument, plan: Option<&Plan>) -> String {
    let mut text = enabled_text(&document.enabled);
    match document.applied.as_ref().zip(plan) {
        Some((applied, plan)) => text.insert_str(0, &applied_text(applied, plan)),
        None => text.push_str("The running system has not changed. --now also applies it now.\n"),
    }
    text
}
