//! `cpushield status`: the shield in force and everything that is on its CPUs.

use super::GlobalArgs;
use super::enable::AtEveryBoot;
use super::standing::ActiveArgs;
use crate::failure::{Failure, FailureKind};
use crate::latency;
use crate::run::{
    self, CpuProtection, OnCpu, ShieldState, ShieldStatus, ShieldSummary, ThreadRole,
};
use crate::ui::{Emphasis, Ui};
use cpushield_linux::{CpuSet, process};
use serde::Serialize;
use std::process::ExitCode;

/// Show the active shield and everything that is on its CPUs
///
/// For each shielded CPU, shows whether other programs, interrupts and the timer tick are kept
/// away. Lists every thread that last ran there, foreign threads first, and every interrupt that is
/// delivered there.
///
/// Exit code 0: the shield is active and unchanged. Exit code 3: there is no shield. Exit code 1 is
/// every other case: a setting has changed, a foreign task is on a shielded CPU, the shield is
/// incomplete, or this user cannot read the journal.
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// The active shield
    #[command(flatten)]
    active: ActiveArgs,
}

/// What `--json` prints.
#[derive(Serialize)]
struct StatusDocument {
    #[serde(flatten)]
    status: ShieldStatus,
    #[serde(flatten)]
    at_every_boot: AtEveryBoot,
}

/// Runs it.
///
/// # Errors
/// `/proc` cannot be read.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &StatusArgs) -> Result<ExitCode, Failure> {
    let host = global.host()?;
    let store = global.store();
    args.active.check(&host, &store)?;
    if let Some(note) = latency::restore_tracer_settings(&host, &store) {
        ui.status(&note);
    }
    let status = run::status(&host, &store)?;
    let document = StatusDocument { status, at_every_boot: AtEveryBoot::of(&store) };
    ui.show(&document, || text(&document))?;
    Ok(match document.status.state.state {
        ShieldState::InForce => ExitCode::SUCCESS,
        ShieldState::NoShield => ExitCode::from(FailureKind::Machine.code()),
        _ => ExitCode::from(FailureKind::DoesNotHold.code()),
    })
}

fn text(document: &StatusDocument) -> String {
    let status = &document.status;
    let mut out = match &status.shield {
        Some(shield) => of_shield(shield, &status.state.state),
        None if status.state.state == ShieldState::NoShield => {
            "No shield is in force.\n".to_owned()
        }
        None => format!("Shield: {}\n", Emphasis::Bad.paint(&status.state.sentence)),
    };
    let has = |set: &Option<CpuSet>| set.clone().filter(|cpus| !cpus.is_empty());
    if let Some(cpus) = has(&status.isolated) {
        out.push_str(&format!("Isolated at boot (isolcpus): CPU {cpus}\n"));
    }
    if let Some(cpus) = has(&status.nohz_full) {
        out.push_str(&format!("Tick stops while one thread runs (nohz_full): CPU {cpus}\n"));
    }
    out.push_str(&document.at_every_boot.text());
    if status.swept > 0 {
        out.push_str(
            "Trace: a `verify` that was killed had left it recording; it is removed now\n",
        );
    }
    if status.state.state == ShieldState::NoShield {
        out.push_str(
            "Next: `cpushield try` shows what a shield does here, `cpushield apply` makes one.\n",
        );
    }
    if matches!(status.state.state, ShieldState::Unknown { .. }) {
        out.push_str(match process::effective_user() {
            0 => "Next: `cpushield undo` reports what can be done.\n",
            _ => "Next: sudo cpushield status\n",
        });
    }
    out
}

fn of_shield(shield: &ShieldSummary, state: &ShieldState) -> String {
    let cpus: CpuSet = shield.cpus.iter().map(|on| on.cpu).collect();
    let tone = if *state == ShieldState::InForce { Emphasis::Good } else { Emphasis::Bad };
    let state = tone.paint(&state.to_string());
    let mut out = format!("Shield {} on CPU {cpus}: {state}\n", shield.name);
    if !shield.idle_siblings.is_empty() {
        out.push_str(&format!("  kept idle     CPU {}\n", shield.idle_siblings));
    }
    out.push_str(&format!("  housekeeping  CPU {}\n", shield.housekeeping));
    if let Some(group) = &shield.group {
        out.push_str(&format!("  cgroup        {group}\n"));
    }
    for drift in &shield.drift {
        let now = drift.now.as_deref().unwrap_or("nothing");
        out.push_str(&format!("  {}: {now}, was left as {}\n", drift.what, drift.left));
    }
    for raised in &shield.raised {
        let (comm, given, original) = (&raised.comm, raised.given, raised.original);
        out.push_str(&format!("  raised        {comm}: {given}, before {original}\n"));
    }
    shield.cpus.iter().for_each(|on| out.push_str(&of_cpu(on)));
    out
}

fn of_cpu(on: &OnCpu) -> String {
    let line = |name: &str, guard: &CpuProtection| {
        let tone = if guard.holds { Emphasis::Good } else { Emphasis::Doubt };
        let word = tone.paint(if guard.holds { "shielded" } else { "open    " });
        format!("  {name:<11} {word}  {}\n", guard.how)
    };
    let mut out = format!("\n{}\n", Emphasis::Head.paint(&format!("CPU {}", on.cpu)));
    out.push_str(&line("processes", &on.processes));
    out.push_str(&line("interrupts", &on.interrupts));
    out.push_str(&line("timer tick", &on.tick));
    for irq in on.irqs.iter().filter(|irq| !irq.leaving) {
        out.push_str(&format!("    irq {} ({})\n", irq.irq, irq.actions));
    }
    for (role, what, tone) in [
        (ThreadRole::Stranger, "does not belong here", Emphasis::Bad),
        (ThreadRole::Program, "program of the shield", Emphasis::Good),
        (ThreadRole::Waiting, "program of the shield, asleep since it was added", Emphasis::Good),
    ] {
        for thread in on.threads.iter().filter(|thread| thread.role == role) {
            let (tid, comm) = (thread.task.id.tid, &thread.task.comm);
            let policy = cpushield_linux::task::policy_from_stat(&thread.task);
            out.push_str(&format!("    {tid:>7} {comm:<16} {policy}  {}\n", tone.paint(what)));
        }
    }
    let names = |role: ThreadRole| {
        let of_role = on.threads.iter().filter(move |thread| thread.role == role);
        of_role.map(|thread| thread.task.comm.as_str()).collect::<Vec<_>>()
    };
    let mut dim = |line: &str| out.push_str(&format!("    {}\n", Emphasis::Dim.paint(line)));
    let own = names(ThreadRole::Kernel);
    if !own.is_empty() {
        dim(&format!("the kernel's own: {}", own.join(", ")));
    }
    match names(ThreadRole::Gone).as_slice() {
        [] => {}
        [one] => dim(&format!("ran here last before the shield and cannot return: {one}")),
        many => dim(&format!(
            "ran here last before the shield and cannot return: {} threads (--json names them)",
            many.len()
        )),
    }
    out
}
