//! The machine: hardware, kernel, parameters, what stands in the way, what could not be read.

use crate::latency::Setting;
use crate::report::page::block::{Block, Cell, Column, Table, Tone};
use crate::report::page::material::{Labelled, Material};
use crate::survey::{Finding, Machine, Note};
use cpushield_linux::CpuSet;

/// The section.
pub(super) fn blocks(material: &Material) -> Vec<Block> {
    let mut blocks = Vec::new();
    let several = material.machines.len() > 1;
    for machine in &material.machines {
        if several {
            blocks.push(Block::Heading(machine.label.clone()));
        }
        blocks.extend(of(&machine.it));
    }
    // Figures without what they were measured on cannot be compared with others.
    let settings = table_of_settings(material);
    if !settings.rows.is_empty() {
        blocks.push(Block::Table(settings));
    }
    for (caption, text) in cmdlines(material) {
        blocks.push(Block::Code { caption, text });
    }
    blocks
}

fn of(machine: &Machine) -> Vec<Block> {
    let mut blocks = vec![Block::Table(facts(machine))];
    for (title, findings) in
        [("In the way", &machine.conflicts), ("Firmware and hardware", &machine.firmware)]
    {
        if !findings.is_empty() {
            let row = |it: &Finding| {
                vec![Cell::new(&it.name), Cell::new(&it.seen), Cell::new(&it.advice)]
            };
            let columns = ["name", "what was seen", "what it means"].map(Column::words).to_vec();
            let rows = findings.iter().map(row).collect();
            blocks.push(Block::Table(Table { caption: title.to_owned(), columns, rows }));
        }
    }
    if !machine.notes.is_empty() {
        let item = |note: &Note| format!("{}: {}", note.what, note.why);
        let title = "What could not be read".to_owned();
        blocks.push(Block::Doubts { title, items: machine.notes.iter().map(item).collect() });
    }
    blocks
}

/// A text, or that it is not known.
fn known(text: Option<impl Into<String>>) -> Cell {
    text.map_or_else(Cell::unknown, Cell::new)
}

fn yes(answer: Option<bool>) -> Cell {
    known(answer.map(|yes| if yes { "yes" } else { "no" }))
}

/// Which CPUs can stop their tick, or why none.
fn tick(machine: &Machine) -> Cell {
    let config = machine.kernel.config.get("CONFIG_NO_HZ_FULL").map(String::as_str);
    match (&machine.isolation.nohz_full, config) {
        (Some(set), _) if !set.is_empty() => Cell::new(format!("CPU {set}")),
        (Some(_), _) | (None, Some("y")) => Cell::new("none: not booted with nohz_full="),
        (None, Some(_)) => Cell::new("none: built without NO_HZ_FULL"),
        (None, None) => Cell::unknown(),
    }
}

fn facts(machine: &Machine) -> Table {
    let Machine { kernel, topology, isolation, virt, power, .. } = machine;
    let cpus = |set: &Option<CpuSet>| match set {
        None => Cell::new("not reported by this kernel"),
        Some(set) if set.is_empty() => Cell::new("none"),
        Some(set) => Cell::new(format!("CPU {set}")),
    };
    let guest = match (virt.guest, &virt.hypervisor) {
        (Some(true), Some(name)) => Cell::new(format!("guest of {name}")),
        (Some(true), None) => Cell::new("guest"),
        (Some(false), _) => Cell::new("machine of its own"),
        (None, _) => Cell::unknown(),
    };
    let governors: Vec<String> =
        power.governors.iter().map(|(name, cpus)| format!("{name} on CPU {cpus}")).collect();
    let governors = if governors.is_empty() { None } else { Some(governors.join(", ")) };
    let driver = power.cpufreq_driver.as_ref();
    let frequency = governors.or(driver.cloned()).unwrap_or("not controlled here".to_owned());
    let idle: Vec<String> = power
        .idle_states
        .iter()
        .filter(|state| !state.disabled)
        .map(|state| format!("{} ({} µs)", state.name, state.latency_us))
        .collect();
    let idle = if idle.is_empty() { "none seen".to_owned() } else { idle.join(", ") };
    let realtime = match kernel.realtime {
        Some(true) => Cell::toned(Tone::Good, "yes"),
        other => yes(other),
    };
    let rows = [
        ("Processor", known(topology.model.clone())),
        ("CPUs in use", Cell::new(topology.online.to_string())),
        ("CPUs offline", cpus(&Some(topology.offline.clone()))),
        ("Hyper-threading (SMT) on", yes(topology.smt_active)),
        ("Runs as", guest),
        ("Kernel", known(kernel.release.clone())),
        ("PREEMPT_RT", realtime),
        ("Ticks in a second", known(kernel.hz.map(|hz| hz.to_string()))),
        ("Clock", known(kernel.clocksource.clone())),
        ("Isolated at boot (isolcpus)", cpus(&isolation.isolated)),
        ("Tick can stop (nohz_full)", tick(machine)),
        ("RCU callbacks elsewhere", cpus(&Some(isolation.rcu_nocbs.clone()))),
        ("Frequency", Cell::new(frequency)),
        ("Turbo", yes(power.turbo)),
        ("Idle states", Cell::new(idle)),
        ("Container", known(virt.container.clone().or(Some("no".to_owned())))),
    ];
    let rows = rows.into_iter().map(|(name, cell)| vec![Cell::new(name), cell]).collect();
    let columns = ["what", "found"].map(Column::words).to_vec();
    Table { caption: "Hardware and kernel".to_owned(), columns, rows }
}

fn table_of_settings(material: &Material) -> Table {
    let row = |(label, it): (&str, &Setting)| {
        let mut kernel = it.kernel.clone().unwrap_or_else(|| "unknown".to_owned());
        if it.realtime == Some(true) {
            kernel.push_str(" (PREEMPT_RT)");
        }
        let guest = it.hypervisor.as_deref().unwrap_or("no");
        vec![
            Cell::new(label),
            known(it.processor.clone()),
            Cell::new(kernel),
            Cell::new(it.online.to_string()),
            Cell::new(guest),
            yes(it.timer_migration),
        ]
    };
    let names = ["of", "processor", "kernel", "CPUs in use", "guest of", "timers may move"];
    Table {
        caption: "What the latencies were measured on".to_owned(),
        columns: names.map(Column::words).to_vec(),
        rows: material.latencies.iter().map(|it| row((&it.label, &it.it.setting))).collect(),
    }
}

/// Kernel parameters, each once, with the names of those that have them.
fn cmdlines(material: &Material) -> Vec<(String, String)> {
    let machines = material
        .machines
        .iter()
        .map(|it: &Labelled<Machine>| (it.label.as_str(), it.it.kernel.cmdline.as_deref()));
    let measured =
        material.latencies.iter().map(|it| (it.label.as_str(), it.it.setting.cmdline.as_deref()));
    let mut known: Vec<(String, Vec<&str>)> = Vec::new();
    for (label, line) in machines.chain(measured) {
        let Some(line) = line.map(str::trim) else { continue };
        match known.iter_mut().find(|(text, _)| text == line) {
            Some((_, labels)) => labels.push(label),
            None => known.push((line.to_owned(), vec![label])),
        }
    }
    let one = known.len() == 1;
    let caption = |labels: &[&str]| match one {
        true => "Kernel parameters".to_owned(),
        false => format!("Kernel parameters: {}", labels.join(", ")),
    };
    known.into_iter().map(|(text, labels)| (caption(&labels), text)).collect()
}
