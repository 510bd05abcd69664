//! The machine: hardware, kernel, parameters, conflicts with a shield, and what could not be read.

use crate::boot::lint::lint;
use crate::report::blocks::ReportBlock;
use crate::report::lint::lint_blocks;
use crate::report::machine::{background, facts};
use crate::report::page::material::ReportMaterial;

/// The section.
pub(super) fn blocks(material: &ReportMaterial) -> Vec<ReportBlock> {
    let mut blocks = Vec::new();
    let several = material.machines.len() > 1;
    for machine in &material.machines {
        if several {
            blocks.push(ReportBlock::Heading(machine.label.clone()));
        }
        blocks.extend(lint_blocks(&lint(&machine.document, &[])));
        blocks.push(facts(&machine.document));
        blocks.extend(background(&machine.document));
    }
    for (caption, text) in cmdlines(material) {
        blocks.push(ReportBlock::Code { caption, text });
    }
    blocks
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
