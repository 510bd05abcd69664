//! [`ShieldStatus`] → blocks: each shield, its CPUs, and everything that is on them. Pure.

use super::blocks::{ReportBlock, Table, TableCell, TableHead};
use super::blocks::{TextLine, TextPart, TextTone};
use super::every_boot::at_every_boot_line;
use crate::documents::boot::AtEveryBoot;
use crate::documents::count_text::joined;
use crate::documents::shield_status::{
    OnCpu, ShieldState, ShieldStatus, ShieldSummary, ThreadRole,
};
use cpushield_linux::{CpuSet, processes::task};

/// The user that reads a status, which decides what comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusAudience {
    /// The administrator of this machine.
    Root,
    /// Another user.
    User,
    /// A user of another machine, with a recording.
    Elsewhere,
}

/// The blocks of `cpushield status`.
#[must_use]
pub fn status_blocks(
    status: &ShieldStatus,
    at_every_boot: &AtEveryBoot,
    reader: StatusAudience,
) -> Vec<ReportBlock> {
    let mut blocks = Vec::new();
    for (nth, shield) in status.shields.iter().enumerate() {
        blocks.extend((nth > 0).then_some(ReportBlock::Space));
        blocks.extend(shield_blocks(shield));
    }
    let mut lines = Vec::new();
    match status.state.state {
        _ if !blocks.is_empty() => {}
        ShieldState::NoShield => lines.push(TextLine::new("No shield is active.")),
        _ => {
            let state = TextPart::toned(TextTone::Bad, &status.state.sentence);
            lines.push(TextLine::of(vec![TextPart::new("Shield: "), state]));
        }
    }
    for (what, cpus) in [
        ("Isolated at boot (isolcpus)", &status.isolated),
        ("Tick stops while the scheduler does not need it (nohz_full)", &status.nohz_full),
    ] {
        let cpus = cpus.as_ref().filter(|cpus| !cpus.is_empty());
        lines.extend(cpus.map(|cpus| TextLine::new(format!("{what}: CPU {cpus}"))));
    }
    if status.unchecked.is_empty() {
        lines.extend(at_every_boot_line(at_every_boot));
    } else {
        let parts = status.unchecked.iter();
        let parts = joined(parts, ", ");
        let text = format!("Not checked (needs root): {parts}, and what is enabled at every boot");
        lines.push(TextLine::new(text));
    }
    if status.swept > 0 {
        let text = "Trace: removed the trace that a killed `verify` had left running";
        lines.push(TextLine::new(text));
    }
    lines.extend(next_step(status, reader).map(TextLine::new));
    blocks.push(ReportBlock::Lines(lines));
    blocks
}

/// What to do next, where there is no shield, a CPU of it is offline, or its state is unknown.
fn next_step(status: &ShieldStatus, reader: StatusAudience) -> Option<String> {
    let next = match (&status.state.state, reader) {
        (_, StatusAudience::Elsewhere) => return None,
        (ShieldState::NoShield, _) if status.unchecked.is_empty() => {
            "`cpushield try` demonstrates a shield; `cpushield apply` makes one."
        }
        (ShieldState::Offline { cpus }, _) => {
            let cpu = cpus.first().unwrap_or_default();
            return Some(format!("Next: echo 1 > /sys/devices/system/cpu/cpu{cpu}/online"));
        }
        (ShieldState::Unknown { .. }, StatusAudience::Root) => {
            "`cpushield undo` reports what can be done."
        }
        (ShieldState::Unknown { .. }, StatusAudience::User) => "sudo cpushield status",
        _ => return None,
    };
    Some(format!("Next: {next}"))
}

fn shield_blocks(shield: &ShieldSummary) -> Vec<ReportBlock> {
    let cpus: CpuSet = shield.cpus.iter().map(|on| on.cpu).collect();
    let state = &shield.state.state;
    let tone = if state.is_active() { TextTone::Good } else { TextTone::Bad };
    let about = TextPart::new(format!("Shield {} on CPU {cpus}: ", shield.name));
    let head = TextLine::of(vec![about, TextPart::toned(tone, state)]);
    let idle = shield.idle_siblings.difference(&shield.offline_siblings);
    let some_cpus = |cpus: &CpuSet| (!cpus.is_empty()).then(|| format!("CPU {cpus}"));
    let facts = [
        ("kept idle", some_cpus(&idle)),
        ("offline", some_cpus(&shield.offline_siblings)),
        ("housekeeping", Some(format!("CPU {}", shield.housekeeping))),
        ("isolated already", some_cpus(&shield.closed)),
        ("cgroup", shield.group.clone()),
        ("operators", shield.operators.as_ref().map(ToString::to_string)),
    ];
    let raised = shield.raised.iter().map(|raised| {
        let (comm, given, original) = (&raised.comm, raised.given, raised.original);
        ("raised", Some(format!("{comm}: {given}, originally {original}")))
    });
    let rows = facts.into_iter().chain(raised);
    let rows =
        rows.filter_map(|(name, what)| Some(vec![TableCell::new(name), what.map(TableCell::new)?]));
    let drift = shield.drift.iter().map(|drift| {
        let now = drift.now.as_deref().unwrap_or("nothing");
        TextLine::new(format!("{}: now {now}, but cpushield set {}", drift.what, drift.left))
            .below()
    });
    let risks = shield.risks.iter().map(|risk| TextLine::remark(TextTone::Doubt, "risk", risk));
    let mut blocks = vec![
        ReportBlock::line(head),
        ReportBlock::Lines(risks.map(TextLine::below).collect()),
        plain_table("Shield", ["fact", "value"], rows.collect()),
        ReportBlock::Lines(drift.collect()),
    ];
    blocks.extend(shield.cpus.iter().flat_map(cpu_blocks));
    blocks
}

fn plain_table<const N: usize>(
    caption: &str,
    columns: [&str; N],
    rows: Vec<Vec<TableCell>>,
) -> ReportBlock {
    ReportBlock::Table(Table::new(caption, columns, rows).with_head(TableHead::Hidden))
}

fn cpu_blocks(cpu: &OnCpu) -> Vec<ReportBlock> {
    if cpu.offline {
        let offline = TextLine::of(vec![TextPart::toned(TextTone::Doubt, "offline")]);
        let heading = ReportBlock::Heading(format!("CPU {}", cpu.cpu));
        return vec![heading, ReportBlock::line(offline.below())];
    }
    let protections =
        [("processes", &cpu.processes), ("interrupts", &cpu.interrupts), ("timer tick", &cpu.tick)];
    let rows = protections.map(|(name, protection)| {
        let state = match (protection.holds, protection.unknown) {
            (_, true) => TableCell::toned(TextTone::Doubt, "unknown"),
            (true, false) => TableCell::toned(TextTone::Good, "shielded"),
            (false, false) => TableCell::toned(TextTone::Doubt, "not shielded"),
        };
        vec![TableCell::new(name), state, TableCell::new(&protection.how)]
    });
    let columns = ["protection", "state", "how"];
    let irqs = cpu.irqs.iter().filter(|irq| !irq.leaving);
    let mut lines: Vec<TextLine> =
        irqs.map(|irq| TextLine::new(format!("irq {} ({})", irq.irq, irq.actions))).collect();
    for (role, what, tone) in [
        (ThreadRole::Foreign, "foreign task", TextTone::Bad),
        (ThreadRole::Program, "program of the shield", TextTone::Good),
        (ThreadRole::Waiting, "program of the shield, asleep since it was added", TextTone::Good),
    ] {
        lines.extend(cpu.threads.iter().filter(|thread| thread.role == role).map(|thread| {
            let (tid, comm) = (thread.task.id.tid, &thread.task.comm);
            let policy = task::policy_from_stat(&thread.task);
            let about = TextPart::new(format!("{tid:>7} {comm:<16} {policy}  "));
            TextLine::of(vec![about, TextPart::toned(tone, what)])
        }));
    }
    let remarks = thread_remarks(cpu).into_iter();
    lines.extend(remarks.map(|text| TextLine::of(vec![TextPart::toned(TextTone::Dim, text)])));
    vec![
        ReportBlock::Heading(format!("CPU {}", cpu.cpu)),
        plain_table("Protections", columns, rows.to_vec()),
        ReportBlock::Lines(lines.into_iter().map(|line| line.below().below()).collect()),
    ]
}

/// The kernel's own threads of the CPU, and the threads that cannot return to it.
fn thread_remarks(cpu: &OnCpu) -> Vec<String> {
    let names = |role: ThreadRole| -> Vec<&str> {
        let threads = cpu.threads.iter().filter(|thread| thread.role == role);
        threads.map(|thread| thread.task.comm.as_str()).collect()
    };
    let kernel = names(ThreadRole::Kernel);
    let gone = match names(ThreadRole::Gone).as_slice() {
        [] => None,
        [name] => Some((*name).to_owned()),
        names => Some(format!("{} threads (--json names them)", names.len())),
    };
    let kernel = (!kernel.is_empty()).then(|| format!("kernel threads: {}", kernel.join(", ")));
    let gone = gone.map(|gone| {
        format!("last ran here before the shield was applied, and cannot return: {gone}")
    });
    kernel.into_iter().chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use super::super::blocks::{terminal_blocks, unpainted};
    use super::*;
    use crate::documents::shield_status::{CpuProtection, OnThread};
    use cpushield_linux::{Task, TaskId};

    fn thread(comm: &str, role: ThreadRole) -> OnThread {
        let task = Task {
            id: TaskId { tid: 42, started: 1 },
            pid: 42,
            parent: 1,
            comm: comm.to_owned(),
            kthread: role == ThreadRole::Kernel,
            bound: role == ThreadRole::Kernel,
            cpu: 3,
            state: 'S',
            nice: 0,
            rt_priority: 0,
            policy: 0,
        };
        OnThread { task, role }
    }

    fn status() -> ShieldStatus {
        let protection =
            |holds, how: &str| CpuProtection { holds, unknown: false, how: how.to_owned() };
        let cpu = OnCpu {
            cpu: 3,
            offline: false,
            processes: protection(false, "1 foreign task"),
            interrupts: protection(true, "none delivered here"),
            tick: protection(true, "stops while the scheduler does not need it"),
            threads: vec![
                thread("intruder", ThreadRole::Foreign),
                thread("control", ThreadRole::Program),
                thread("ksoftirqd/3", ThreadRole::Kernel),
                thread("cpuhp/3", ThreadRole::Kernel),
                thread("bash", ThreadRole::Gone),
            ],
            irqs: Vec::new(),
        };
        let shield = ShieldSummary {
            name: "rt".to_owned(),
            state: ShieldState::Drifted { settings: 0, foreign: 1 }.into(),
            group: Some("/sys/fs/cgroup/cpushield".to_owned()),
            housekeeping: "0-1".parse().unwrap(),
            closed: CpuSet::new(),
            idle_siblings: "2".parse().unwrap(),
            offline_siblings: CpuSet::new(),
            drift: Vec::new(),
            cpus: vec![cpu],
            raised: Vec::new(),
            risks: Vec::new(),
            operators: None,
        };
        ShieldStatus {
            schema: 1,
            state: shield.state.clone(),
            shields: vec![shield],
            isolated: None,
            nohz_full: Some("3".parse().unwrap()),
            swept: 0,
            unchecked: Vec::new(),
        }
    }

    const SCREEN: &str = "\
Shield rt on CPU 3: active, but 1 foreign task is on its CPUs
  kept idle     CPU 2
  housekeeping  CPU 0-1
  cgroup        /sys/fs/cgroup/cpushield

CPU 3
  processes   not shielded  1 foreign task
  interrupts  shielded      none delivered here
  timer tick  shielded      stops while the scheduler does not need it
         42 intruder         SCHED_OTHER  foreign task
         42 control          SCHED_OTHER  program of the shield
    kernel threads: ksoftirqd/3, cpuhp/3
    last ran here before the shield was applied, and cannot return: bash
Tick stops while the scheduler does not need it (nohz_full): CPU 3
Enabled at every boot: unknown (torn)
";

    #[test]
    fn a_shield_and_everything_on_its_cpus_is_one_screen() {
        let at_every_boot = AtEveryBoot { enabled: None, enabled_unknown: Some("torn".to_owned()) };
        let blocks = status_blocks(&status(), &at_every_boot, StatusAudience::Root);
        assert_eq!(terminal_blocks(&blocks, 80, &unpainted), SCREEN);
    }

    #[test]
    fn only_root_is_sent_to_undo_when_the_state_is_unknown() {
        let mut status = status();
        status.shields.clear();
        status.state = ShieldState::Unknown { reason: "torn".to_owned() }.into();
        let readers = [StatusAudience::Root, StatusAudience::User, StatusAudience::Elsewhere];
        let next = readers.map(|reader| next_step(&status, reader));
        let undo = "Next: `cpushield undo` reports what can be done.".to_owned();
        assert_eq!(next, [Some(undo), Some("Next: sudo cpushield status".to_owned()), None]);
    }
}
