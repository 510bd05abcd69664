//! The machine: hardware, kernel, parameters, conflicts with a shield, and what could not be read.

use crate::report::blocks::{ReportBlock, Table, TableCell, TableColumn, TextTone};
use crate::report::page::material::ReportMaterial;
use crate::survey::Machine;

/// The section.
pub(super) fn blocks(material: &ReportMaterial) -> Vec<ReportBlock> {
    let mut blocks = Vec::new();
    let several = material.machines.len() > 1;
    for machine in &material.machines {
        if several {
            blocks.push(ReportBlock::Heading(machine.label.clone()));
        }
        blocks.extend(machine_blocks(&machine.document));
    }
    for (caption, text) in cmdlines(material) {
        blocks.push(ReportBlock::Code { caption, text });
    }
    blocks
}

fn machine_blocks(machine: &Machine) -> Vec<ReportBlock> {
    let mut blocks = vec![ReportBlock::Table(facts(machine))];
    for (title, findings) in [
        ("Conflicts with a shield", &machine.conflicts),
        ("Firmware and hardware", &machine.firmware),
    ] {
        if !findings.is_empty() {
            let rows = findings.iter().map(|finding| {
                [&finding.name, &finding.seen, &finding.advice].map(TableCell::new).to_vec()
            });
            let rows = rows.collect();
            let columns = ["name", "finding", "advice"].map(TableColumn::words).to_vec();
            blocks.push(ReportBlock::Table(Table {
                caption: title.to_owned(),
                columns,
                rows,
                ..Table::default()
            }));
        }
    }
    if !machine.notes.is_empty() {
        let items = machine.notes.iter().map(|note| format!("{}: {}", note.what, note.why));
        let items = items.collect();
        let title = "What could not be read".to_owned();
        blocks.push(ReportBlock::Doubts { title, items });
    }
    blocks
}

/// The CPUs that can stop their tick, or why there are none.
fn tickless_cpus(machine: &Machine) -> TableCell {
    let config = machine.kernel.config.get("CONFIG_NO_HZ_FULL").map(String::as_str);
    match (&machine.isolation.nohz_full, config) {
        (Some(set), _) if !set.is_empty() => TableCell::new(format!("CPU {set}")),
        (Some(_), _) | (None, Some("y")) => TableCell::new("none: not booted with nohz_full="),
        (None, Some(_)) => TableCell::new("none: built without NO_HZ_FULL"),
        (None, None) => TableCell::unknown(),
    }
}

fn facts(machine: &Machine) -> Table {
    let Machine { kernel, topology, isolation, virt, power, .. } = machine;
    let guest = match (virt.guest, &virt.hypervisor) {
        (Some(true), Some(name)) => TableCell::new(format!("guest of {name}")),
        (Some(true), None) => TableCell::new("guest"),
        (Some(false), _) => TableCell::new("bare metal"),
        (None, _) => TableCell::unknown(),
    };
    let governors: Vec<String> =
        power.governors.iter().map(|(name, cpus)| format!("{name} on CPU {cpus}")).collect();
    let governors = if governors.is_empty() { None } else { Some(governors.join(", ")) };
    let driver = power.cpufreq_driver.as_ref();
    let frequency = governors.or(driver.cloned()).unwrap_or("no cpufreq driver".to_owned());
    let idle: Vec<String> = power
        .idle_states
        .iter()
        .filter(|state| !state.disabled)
        .map(|state| format!("{} ({} µs)", state.name, state.latency_us))
        .collect();
    let idle = if idle.is_empty() { "none found".to_owned() } else { idle.join(", ") };
    let realtime = match kernel.realtime {
        Some(true) => TableCell::toned(TextTone::Good, "yes"),
        other => TableCell::yes_or_no(other),
    };
    let rows = [
        ("Processor", TableCell::known(topology.model.clone())),
        ("CPUs online", TableCell::new(topology.online.to_string())),
        ("CPUs offline", TableCell::cpus(Some(&topology.offline))),
        ("Hyper-threading (SMT) on", TableCell::yes_or_no(topology.smt_active)),
        ("Runs as", guest),
        ("Kernel", TableCell::known(kernel.release.clone())),
        ("PREEMPT_RT", realtime),
        ("Ticks per second", TableCell::known(kernel.hz.map(|hz| hz.to_string()))),
        ("Clock", TableCell::known(kernel.clocksource.clone())),
        ("Isolated at boot (isolcpus)", TableCell::cpus(isolation.isolated.as_ref())),
        ("Tick can stop (nohz_full)", tickless_cpus(machine)),
        ("RCU callbacks elsewhere", TableCell::cpus(Some(&isolation.rcu_nocbs))),
        ("Frequency", TableCell::new(frequency)),
        ("Turbo", TableCell::yes_or_no(power.turbo)),
        ("Idle states", TableCell::new(idle)),
        ("Container", TableCell::known(virt.container.clone().or(Some("no".to_owned())))),
    ];
    let rows = rows.into_iter().map(|(name, cell)| vec![TableCell::new(name), cell]).collect();
    let columns = ["property", "value"].map(TableColumn::words).to_vec();
    Table { caption: "Hardware and kernel".to_owned(), columns, rows, ..Table::default() }
}

/// Each kernel command line once, with the names of its documents.
fn cmdlines(material: &ReportMaterial) -> Vec<(String, String)> {
    let machines = material
        .machines
        .iter()
        .map(|machine| (machine.label.as_str(), machine.document.kernel.cmdline.as_deref()));
    let measured = material
        .latencies
        .iter()
        .map(|latency| (latency.label.as_str(), latency.document.setting.cmdline.as_deref()));
    let mut known: Vec<(String, Vec<&str>)> = Vec::new();
    for (label, line) in machines.chain(measured) {
        let Some(line) = line.map(str::trim) else { continue };
        match known.iter_mut().find(|(text, _)| text == line) {
            Some((_, labels)) => labels.push(label),
            None => known.push((line.to_owned(), vec![label])),
        }
    }
    let same_everywhere = known.len() == 1;
    let captioned = known.into_iter().map(|(text, labels)| match same_everywhere {
        true => ("Kernel parameters".to_owned(), text),
        false => (format!("Kernel parameters: {}", labels.join(", ")), text),
    });
    captioned.collect()
}
