//! Documents → [`Report`]: one file for each section.

mod glance;
mod histograms;
mod latency;
mod machine;
mod noise;
mod remains;
mod repeat;
mod settings;
mod threads;
mod topology;

use crate::documents::plan::Shield;
use crate::report::blocks::{Report, ReportBlock, Section};
use crate::report::moment::day;
use crate::report::page::material::{LabelledDocument, ReportMaterial};
use crate::report::{compare, experiment, option_search};
use std::collections::BTreeMap;

/// The report on these documents.
#[must_use]
pub fn report(material: &ReportMaterial) -> Report {
    let sections = match material.has_several_shields() {
        true => sections_of_shields(material),
        false => vec![
            section("glance", "At a glance", glance::blocks(material)),
            section("topology", topology_title(material), topology::blocks(material)),
            section("interruptions", INTERRUPTS, noise::blocks(material)),
            section("latency", "Latencies", latency::blocks(material)),
            section("comparison", DIFFERENCES, comparisons(material)),
            section("experiment", CONFIGURATIONS, experiments(material)),
            section("search", OPTIONS, searches(material)),
            section("remains", REMAINS, remains::blocks(material)),
            section("settings", "What was changed", settings::blocks(material)),
            section("machine", "The machine", machine::blocks(material)),
            section("repeat", "How to repeat the measurements", repeat::blocks(material)),
        ],
    };
    Report {
        title: material.title.clone().unwrap_or_else(|| title(material)),
        facts: facts(material),
        sections: sections.into_iter().filter(|section| !section.blocks.is_empty()).collect(),
        made: format!("cpushield {}", env!("CARGO_PKG_VERSION")),
    }
}

const INTERRUPTS: &str = "What interrupts the CPUs";
const DIFFERENCES: &str = "Significant differences";
const CONFIGURATIONS: &str = "Configurations side by side";
const OPTIONS: &str = "Which options matter";
const REMAINS: &str = "What remains, and how to remove it";

/// The title of the map of the CPUs.
fn topology_title(material: &ReportMaterial) -> &'static str {
    if material.settings.is_empty() { "The CPUs" } else { "Where the shield is" }
}

fn section(id: &str, title: &str, blocks: Vec<ReportBlock>) -> Section {
    Section { id: id.to_owned(), title: title.to_owned(), blocks }
}

/// A section for each shield, in order of name, then one for the documents of no shield. What is
/// about the machine or compares documents on its own comes before and after them.
fn sections_of_shields(material: &ReportMaterial) -> Vec<Section> {
    let doubts = ReportMaterial { doubts: material.doubts.clone(), ..ReportMaterial::default() };
    let mut sections = vec![
        section("glance", "At a glance", glance::blocks(&doubts)),
        section("topology", "Where the shields are", topology::blocks(material)),
    ];
    for (n, shield) in material.shields().into_iter().enumerate() {
        let (title, suffix) = match shield {
            Some(name) => (format!("Shield {name}"), format!("shield {name}")),
            None => ("No shield".to_owned(), "no shield".to_owned()),
        };
        let mut blocks = shield_blocks(&material.of_shield(shield));
        for block in &mut blocks {
            if let ReportBlock::Picture(picture) = block {
                picture.title = format!("{} ({suffix})", picture.title);
            }
        }
        sections.push(section(&format!("shield-{}", n + 1), &title, blocks));
    }
    number_pictures(&mut sections);
    sections.extend([
        section("comparison", DIFFERENCES, comparisons(material)),
        section("experiment", CONFIGURATIONS, experiments(material)),
        section("search", OPTIONS, searches(material)),
        section("machine", "The machine", machine::blocks(material)),
        section("repeat", "How to repeat the measurements", repeat::blocks(material)),
    ]);
    sections
}

/// The documents of one shield: what would be sections if it were the only one.
fn shield_blocks(material: &ReportMaterial) -> Vec<ReportBlock> {
    let parts = [
        ("At a glance", glance::blocks(material)),
        (INTERRUPTS, noise::blocks(material)),
        ("Latencies", latency::blocks(material)),
        (REMAINS, remains::blocks(material)),
        ("What was changed", settings::blocks(material)),
    ];
    let filled = parts.into_iter().filter(|(_, blocks)| !blocks.is_empty());
    let titled = filled.flat_map(|(title, blocks)| {
        std::iter::once(ReportBlock::Heading(title.to_owned())).chain(blocks)
    });
    titled.collect()
}

/// Gives each picture its own name: the second of a kind is `noise-2`.
fn number_pictures(sections: &mut [Section]) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for block in sections.iter_mut().flat_map(|section| &mut section.blocks) {
        let ReportBlock::Picture(picture) = block else { continue };
        let kind = picture.id.split('-').next().unwrap_or_default().to_owned();
        let count = counts.entry(kind.clone()).or_default();
        *count += 1;
        picture.id = if *count == 1 { kind } else { format!("{kind}-{count}") };
    }
}

/// The comparisons of repeated runs, each with its name where there are several.
fn comparisons(material: &ReportMaterial) -> Vec<ReportBlock> {
    let comparisons = &material.comparisons;
    let mut blocks = Vec::new();
    for LabelledDocument { label, document } in comparisons {
        if comparisons.len() > 1 {
            blocks.push(ReportBlock::Heading(label.clone()));
        }
        blocks.extend(compare::blocks(document));
    }
    blocks
}

/// The experiments; the first line of each names it.
fn experiments(material: &ReportMaterial) -> Vec<ReportBlock> {
    let experiments = material.experiments.iter();
    experiments.flat_map(|named| experiment::blocks(&named.document)).collect()
}

/// The searches; the first line of each names it.
fn searches(material: &ReportMaterial) -> Vec<ReportBlock> {
    let searches = material.searches.iter();
    searches.flat_map(|named| option_search::blocks(&named.document)).collect()
}

/// A longer list of CPUs does not fit into a title.
const LIST_MAX: usize = 24;

fn title(material: &ReportMaterial) -> String {
    let names: Vec<&str> = material.shields().into_iter().flatten().collect();
    if names.len() > 1 {
        return format!("Shields {}", names.join(", "));
    }
    if let Some(settings) = material.settings.last() {
        let Shield { name, cpus, .. } = &settings.document.plan.shield;
        let list = cpus.to_string();
        return match list.len() > LIST_MAX {
            true => format!("Shield {name} on {} CPUs", cpus.len()),
            false => format!("Shield {name} on CPU {list}"),
        };
    }
    let shield = names.first();
    match (material.observations.is_empty(), material.latencies.is_empty()) {
        (false, true) => match shield {
            Some(name) => format!("What interrupts the CPUs of shield {name}"),
            None => "What interrupts these CPUs".to_owned(),
        },
        (_, false) => shield.map_or("Latencies".to_owned(), |it| format!("Latencies: shield {it}")),
        (true, true) if !material.searches.is_empty() && material.machines.is_empty() => {
            "Which options matter".to_owned()
        }
        (true, true) => "A machine and its CPUs".to_owned(),
    }
}

/// The machine and the day of the measurements, where all documents agree.
fn facts(material: &ReportMaterial) -> Vec<String> {
    let settings = material.latencies.iter().map(|latency| &latency.document.setting);
    let machines = material.machines.iter().map(|machine| &machine.document);
    let mut facts = Vec::new();
    let processors: Vec<String> = settings.clone().filter_map(|s| s.processor.clone()).collect();
    let models = machines.clone().filter_map(|machine| machine.topology.model.clone());
    facts.extend(only(models.chain(processors)));
    let plans =
        material.settings.iter().filter_map(|settings| settings.document.plan.kernel.clone());
    let kernels = settings.filter_map(|setting| setting.kernel.clone());
    let released = machines.filter_map(|machine| machine.kernel.release.clone());
    facts.extend(only(released.chain(plans).chain(kernels)).map(|name| format!("Linux {name}")));
    facts.extend(only(material.guests()).map(|name| format!("guest of {name}")));
    let measured = material.latencies.iter().map(|latency| latency.document.began_s);
    let watched = material
        .observations
        .iter()
        .filter_map(|observation| observation.document.evidence.began_s);
    let began = measured.chain(watched).filter(|s| *s > 0).min();
    facts.extend(began.map(|s| format!("measured {}", day(s))));
    facts
}

/// The value that all share; `None` when they differ.
fn only(mut values: impl Iterator<Item = String>) -> Option<String> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}
