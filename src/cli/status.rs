//! `cpushield status`: shows the active shield and everything that is on its CPUs.

use super::GlobalArgs;
use super::active::ActiveArgs;
use crate::failure::{Failure, FailureKind};
use crate::run::{CpuProtection, OnCpu, ShieldState, ShieldSummary, ThreadRole};
use crate::ui::{Emphasis, Ui};
use crate::workflow::runs_as_root;
use crate::workflow::standing::{StatusDocument, read_status};
use cpushield_linux::CpuSet;
use std::process::ExitCode;

/// Show the active shields and everything that is on their CPUs
///
/// For each shielded CPU, shows whether other programs, interrupts and the timer tick are kept
/// away. Lists every thread that last ran there, foreign threads first, and every interrupt that is
/// delivered there.
///
/// Exit code 0: the shield is active and unchanged. Exit code 3: there is no shield. Exit code 1 is
/// every other case: a setting has changed, a foreign task is on a shielded CPU, the shield is
/// incomplete, or its state is unknown.
///
/// Every user may ask. Only root can compare the settings with those that `apply` left; other users
/// see what was not checked.
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// The active shield
    #[command(flatten)]
    active: ActiveArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// `/proc` cannot be read.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &StatusArgs) -> Result<ExitCode, Failure> {
    let mut work = global.open(ui)?;
    args.active.select(&mut work)?;
    let document = read_status(&work)?;
    ui.show(&document, || text(&document))?;
    Ok(match document.status.state.state {
        ShieldState::InForce | ShieldState::InForceAsSeen => ExitCode::SUCCESS,
        ShieldState::NoShield => ExitCode::from(FailureKind::Machine.code()),
        _ => ExitCode::from(FailureKind::DoesNotHold.code()),
    })
}

fn text(document: &StatusDocument) -> String {
    let status = &document.status;
    let shields: Vec<String> = status.shields.iter().map(describe_shield).collect();
    let mut out = match status.state.state {
        _ if !shields.is_empty() => shields.join("\n"),
        ShieldState::NoShield => "No shield is in force.\n".to_owned(),
        _ => format!("Shield: {}\n", Emphasis::Bad.paint(&status.state.sentence)),
    };
    if let Some(cpus) = status.isolated.as_ref().filter(|cpus| !cpus.is_empty()) {
        out.push_str(&format!("Isolated at boot (isolcpus): CPU {cpus}\n"));
    }
    if let Some(cpus) = status.nohz_full.as_ref().filter(|cpus| !cpus.is_empty()) {
        out.push_str(&format!("Tick stops while one thread runs (nohz_full): CPU {cpus}\n"));
    }
    if status.unchecked.is_empty() {
        out.push_str(&document.at_every_boot.text());
    } else {
        let parts: Vec<String> = status.unchecked.iter().map(ToString::to_string).collect();
        let parts = parts.join(", ");
        out.push_str(&format!("Not checked, because only root can: {parts}, at every boot\n"));
    }
    if status.swept > 0 {
        out.push_str("Trace: removed the trace that a killed `verify` had left running\n");
    }
    if status.state.state == ShieldState::NoShield && status.unchecked.is_empty() {
        out.push_str(
            "Next: `cpushield try` shows the effect of a shield, `cpushield apply` applies one.\n",
        );
    }
    if matches!(status.state.state, ShieldState::Unknown { .. }) {
        out.push_str(match runs_as_root() {
            true => "Next: `cpushield undo` reports what can be done.\n",
            false => "Next: sudo cpushield status\n",
        });
    }
    out
}

fn describe_shield(shield: &ShieldSummary) -> String {
    let cpus: CpuSet = shield.cpus.iter().map(|on| on.cpu).collect();
    let state = &shield.state.state;
    let tone = if state.is_active() { Emphasis::Good } else { Emphasis::Bad };
    let state = tone.paint(&state.to_string());
    let mut out = format!("Shield {} on CPU {cpus}: {state}\n", shield.name);
    let idle = shield.idle_siblings.difference(&shield.offline_siblings);
    if !idle.is_empty() {
        out.push_str(&format!("  kept idle     CPU {idle}\n"));
    }
    if !shield.offline_siblings.is_empty() {
        out.push_str(&format!("  offline       CPU {}\n", shield.offline_siblings));
    }
    out.push_str(&format!("  housekeeping  CPU {}\n", shield.housekeeping));
    if let Some(group) = &shield.group {
        out.push_str(&format!("  cgroup        {group}\n"));
    }
    if let Some(operators) = &shield.operators {
        out.push_str(&format!("  operators     {operators}\n"));
    }
    for drift in &shield.drift {
        let now = drift.now.as_deref().unwrap_or("nothing");
        out.push_str(&format!("  {}: {now}, cpushield set {}\n", drift.what, drift.left));
    }
    for raised in &shield.raised {
        let (comm, given, original) = (&raised.comm, raised.given, raised.original);
        out.push_str(&format!("  raised        {comm}: {given}, before {original}\n"));
    }
    for cpu in &shield.cpus {
        out.push_str(&describe_cpu(cpu));
    }
    out
}

fn describe_cpu(cpu: &OnCpu) -> String {
    let mut out = format!("\n{}\n", Emphasis::Head.paint(&format!("CPU {}", cpu.cpu)));
    for (name, protection) in
        [("processes", &cpu.processes), ("interrupts", &cpu.interrupts), ("timer tick", &cpu.tick)]
    {
        out.push_str(&describe_protection(name, protection));
    }
    for irq in cpu.irqs.iter().filter(|irq| !irq.leaving) {
        out.push_str(&format!("    irq {} ({})\n", irq.irq, irq.actions));
    }
    for (role, what, tone) in [
        (ThreadRole::Stranger, "does not belong here", Emphasis::Bad),
        (ThreadRole::Program, "program of the shield", Emphasis::Good),
        (ThreadRole::Waiting, "program of the shield, asleep since it was added", Emphasis::Good),
    ] {
        for thread in cpu.threads.iter().filter(|thread| thread.role == role) {
            let (tid, comm) = (thread.task.id.tid, &thread.task.comm);
            let policy = cpushield_linux::task::policy_from_stat(&thread.task);
            out.push_str(&format!("    {tid:>7} {comm:<16} {policy}  {}\n", tone.paint(what)));
        }
    }
    let kernel = thread_names(cpu, ThreadRole::Kernel);
    let gone = match thread_names(cpu, ThreadRole::Gone).as_slice() {
        [] => None,
        [name] => Some(name.to_string()),
        names => Some(format!("{} threads (--json names them)", names.len())),
    };
    let dim_lines = [
        (!kernel.is_empty()).then(|| format!("kernel threads: {}", kernel.join(", "))),
        gone.map(|gone| format!("last ran here before the shield and cannot return: {gone}")),
    ];
    for line in dim_lines.iter().flatten() {
        out.push_str(&format!("    {}\n", Emphasis::Dim.paint(line)));
    }
    out
}

fn describe_protection(name: &str, protection: &CpuProtection) -> String {
    let tone = if protection.holds { Emphasis::Good } else { Emphasis::Doubt };
    let state = tone.paint(if protection.holds { "shielded" } else { "open    " });
    format!("  {name:<11} {state}  {}\n", protection.how)
}

fn thread_names(cpu: &OnCpu, role: ThreadRole) -> Vec<&str> {
    let threads = cpu.threads.iter().filter(|thread| thread.role == role);
    threads.map(|thread| thread.task.comm.as_str()).collect()
}
