//! The machine: hardware, kernel, parameters, what stands in the way, what could not be read.

use crate::latency::MeasuredSetting;
use crate::report::page::block::{ReportBlock, Table, TableCell, TableColumn, TextTone};
use crate::report::page::material::{LabelledDocument, ReportMaterial};
use crate::survey::{Machine, SurveyFinding, SurveyNote};
use cpushield_linux::CpuSet;

/// The section.
pub(super) fn blocks(material: &ReportMaterial) -> Vec<ReportBlock> {
    let mut blocks = Vec::new();
    let several = material.machines.len() > 1;
    for machine in &material.machines {
        if several {
            blocks.push(ReportBlock::Heading(machine.label.clone()));
        }
        blocks.extend(of(&machine.it));
    }
    // Figures without what they were measured on cannot be compared with others.
    let settings = table_of_settings(material);
    if !settings.rows.is_empty() {
        blocks.push(ReportBlock::Table(settings));
    }
    for (caption, text) in cmdlines(material) {
        blocks.push(ReportBlock::Code { caption, text });
    }
    blocks
}

fn of(machine: &Machine) -> Vec<ReportBlock> {
    let mut blocks = vec![ReportBlock::Table(facts(machine))];
    for (title, findings) in
        [("In the way", &machine.conflicts), ("Firmware and hardware", &machine.firmware)]
    {
        if !findings.is_empty() {
            let row = |it: &SurveyFinding| {
                vec![TableCell::new(&it.name), TableCell::new(&it.seen), TableCell::new(&it.advice)]
            };
            let columns =
                ["name", "what was seen", "what it means"].map(TableColumn::words).to_vec();
            let rows = findings.iter().map(row).collect();
            blocks.push(ReportBlock::Table(Table { caption: title.to_owned(), columns, rows }));
        }
    }
    if !machine.notes.is_empty() {
        let item = |note: &SurveyNote| format!("{}: {}", note.what, note.why);
        let title = "What could not be read".to_owned();
        blocks.push(ReportBlock::Doubts { title, items: machine.notes.iter().map(item).collect() });
    }
    blocks
}

/// A text, or that it is not known.
fn known(text: Option<impl Into<String>>) -> TableCell {
    text.map_or_else(TableCell::unknown, TableCell::new)
}

fn yes(answer: Option<bool>) -> TableCell {
    known(answer.map(|yes| if yes { "yes" } else { "no" }))
}

/// Which CPUs can stop their tick, or why none.
fn tick(machine: &Machine) -> TableCell {
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
    let cpus = |set: &Option<CpuSet>| match set {
        None => TableCell::new("not reported by this kernel"),
        Some(set) if set.is_empty() => TableCell::new("none"),
        Some(set) => TableCell::new(format!("CPU {set}")),
    };
    let guest = match (virt.guest, &virt.hypervisor) {
        (Some(true), Some(name)) => TableCell::new(format!("guest of {name}")),
        (Some(true), None) => TableCell::new("guest"),
        (Some(false), _) => TableCell::new("machine of its own"),
        (None, _) => TableCell::unknown(),
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
        Some(true) => TableCell::toned(TextTone::Good, "yes"),
        other => yes(other),
    };
    let rows = [
        ("Processor", known(topology.model.clone())),
        ("CPUs in use", TableCell::new(topology.online.to_string())),
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
        ("Frequency", TableCell::new(frequency)),
        ("Turbo", yes(power.turbo)),
        ("Idle states", TableCell::new(idle)),
        ("Container", known(virt.container.clone().or(Some("no".to_owned())))),
    ];
    let rows = rows.into_iter().map(|(name, cell)| vec![TableCell::new(name), cell]).collect();
    let columns = ["what", "found"].map(TableColumn::words).to_vec();
    Table { caption: "Hardware and kernel".to_owned(), columns, rows }
}

fn table_of_settings(material: &ReportMaterial) -> Table {
    let row = |(label, it): (&str, &MeasuredSetting)| {
        let mut kernel = it.kernel.clone().unwrap_or_else(|| "unknown".to_owned());
        if it.realtime == Some(true) {
            kernel.push_str(" (PREEMPT_RT)");
        }
        let guest = it.hypervisor.as_deref().unwrap_or("no");
        vec![
            TableCell::new(label),
            known(it.processor.clone()),
            TableCell::new(kernel),
            TableCell::new(it.online.to_string()),
            TableCell::new(guest),
            yes(it.timer_migration),
        ]
    };
    let names = ["of", "processor", "kernel", "CPUs in use", "guest of", "timers may move"];
    Table {
        caption: "What the latencies were measured on".to_owned(),
        columns: names.map(TableColumn::words).to_vec(),
        rows: material.latencies.iter().map(|it| row((&it.label, &it.it.setting))).collect(),
    }
}

/// Kernel parameters, each once, with the names of those that have them.
fn cmdlines(material: &ReportMaterial) -> Vec<(String, String)> {
    let machines = material
        .machines
        .iter()
        .map(|it: &LabelledDocument<Machine>| (it.label.as_str(), it.it.kernel.cmdline.as_deref()));
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
