//! `cpushield apply`: a plan, or the one for a wish, is put in force.

use super::Global;
use super::boot::{BootArgs, WriteArgs};
use super::wish::WishArgs;
use crate::apply::{Progress, apply};
use crate::failure::Failure;
use crate::plan::Plan;
use crate::report::applied_text;
use crate::ui::Ui;
use cpushield_linux::{Host, Store, read_document, sched, signal};
use std::path::{Path, PathBuf};

/// Shield CPUs: put a plan in force
///
/// Every original is on the disk before the first change. When a change fails without which the
/// shield is worthless, or when it is stopped (Ctrl-C, kill), everything is put back at once.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A plan that `cpushield plan -o FILE` saved (`-` is standard input), instead of a wish
    #[arg(
        value_name = "PLAN",
        conflicts_with_all = [
            "cpus", "count", "near", "node", "share", "half_core", "workload", "on", "off",
            "policy", "shield", "boot", "at_boot",
        ]
    )]
    plan: Option<PathBuf>,
    /// The shield
    #[command(flatten)]
    wish: WishArgs,
    /// The next boot
    #[command(flatten)]
    boot: BootArgs,
    /// The next boot
    #[command(flatten)]
    write: WriteArgs,
    /// Shield them at every boot too, before services start, until `cpushield undo`
    #[arg(long, conflicts_with_all = ["boot", "dry_run", "plan"])]
    at_boot: bool,
    /// Print the shell commands that would do the same, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Runs it.
///
/// # Errors
/// The wish or the plan is wrong, or the shield could not be made and was undone.
pub fn run(ui: &Ui, global: &Global, args: &Args) -> Result<(), Failure> {
    if args.boot.boot {
        let (boot, write) = (&args.boot, &args.write);
        return super::boot::apply(ui, global, &args.wish, boot, write, args.dry_run);
    }
    let host = global.host()?;
    if !host.is_live() && !args.dry_run {
        return Err(Failure::usage("a recorded machine cannot be shielded")
            .hint("--dry-run prints the commands for it"));
    }
    let store = Store::new(&global.state);
    let _hurry = (!args.dry_run).then(sched::hurry);
    let plan = plan(&host, &store, args)?;
    if args.dry_run {
        return ui.show(&plan, || script(&plan));
    }
    signal::catch_stops().map_err(|e| Failure::machine(format!("cannot catch signals: {e}")))?;
    let bar = ui.bar();
    let mut progress = |p: Progress<'_>| {
        if !p.what.is_empty() {
            bar.tell(&format!("shielding: {}", p.what));
        }
    };
    let applied = apply(&host, &store, &plan, &mut progress);
    bar.end();
    let applied = applied?;
    let kept = args.at_boot.then(|| super::boot::keep(&host, global, &store, &args.wish));
    ui.show(&applied, || applied_text(&applied, &plan))?;
    match kept {
        Some(Ok(path)) => ui.status(&format!("at every boot again, by {path}")),
        Some(Err(failure)) => return Err(failure),
        None => {}
    }
    Ok(())
}

fn plan(host: &Host, store: &Store, args: &Args) -> Result<Plan, Failure> {
    let Some(file) = &args.plan else {
        let machine = super::surveyed(host, store);
        return Ok(args.wish.plan(host, &machine)?.0);
    };
    let stdin = Path::new("/dev/stdin");
    let text = read_document(if file.as_os_str() == "-" { stdin } else { file })?;
    Ok(Plan::parse(&text, &file.display().to_string())?)
}

/// The commands, for `sh`.
fn script(plan: &Plan) -> String {
    let mut text = format!("# shields CPU {}; nothing of this was done\n", plan.shield.cpus);
    for step in plan.steps.iter().filter(|step| step.is_runtime()) {
        text.push_str(&step.change.shell());
        text.push('\n');
    }
    text
}
