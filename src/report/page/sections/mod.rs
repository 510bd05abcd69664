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

use crate::report::blocks::{Report, ReportBlock, Section};
use crate::report::moment::day;
use crate::report::page::material::{LabelledDocument, ReportMaterial};
use crate::report::{compare, experiment, option_search};

/// The report on these documents.
#[must_use]
pub fn report(material: &ReportMaterial) -> Report {
    let sections = [
        ("glance", "At a glance", glance::blocks(material)),
        ("topology", "Where the shield is", topology::blocks(material)),
        ("interruptions", "What interrupts", noise::blocks(material)),
        ("latency", "Latencies", latency::blocks(material)),
        ("comparison", "Significant differences", comparisons(material)),
        ("experiment", "Configurations side by side", experiments(material)),
        ("search", "Which options matter", searches(material)),
        ("remains", "What remains, and how to remove it", remains::blocks(material)),
        ("settings", "What was changed", settings::blocks(material)),
        ("machine", "The machine", machine::blocks(material)),
        ("repeat", "How to repeat it", repeat::blocks(material)),
    ];
    let filled = sections.into_iter().filter(|(_, _, blocks)| !blocks.is_empty());
    Report {
        title: material.title.clone().unwrap_or_else(|| title(material)),
        facts: facts(material),
        sections: filled.map(|(id, title, blocks)| Section { id, title, blocks }).collect(),
        made: format!("cpushield {}", env!("CARGO_PKG_VERSION")),
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
    if let Some(settings) = material.settings.last() {
        let cpus = &settings.document.plan.shield.cpus;
        let list = cpus.to_string();
        return match list.len() > LIST_MAX {
            true => format!("A shield on {} CPUs", cpus.len()),
            false => format!("A shield on CPU {list}"),
        };
    }
    match (material.observations.is_empty(), material.latencies.is_empty()) {
        (false, true) => "What interrupts these CPUs".to_owned(),
        (_, false) => "Latencies".to_owned(),
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
