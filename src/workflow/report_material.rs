//! Collects the material of a report: saved documents, or this machine and its active shields.

use super::WorkContext;
use super::document_bundle::DocumentBundle;
use super::machine_survey::survey_machine;
use super::saved_document::{NamedDocument, SavedDocument};
use crate::apply;
use crate::compare::CompareError;
use crate::documents::plan::Plan;
use crate::documents::shield_status::ShieldStatus;
use crate::failure::Failure;
use crate::json::to_json;
use crate::report::blocks::{Picture, Report};
use crate::report::page::{
    LabelledDocument, PlanWithOutcome, ReportMaterial, WatchCommand, WatchWithVerdict,
};
use crate::run;
use cpushield_linux::{Host, Store};

/// Reads these documents, or those of this machine if there are none, and sorts them by kind.
///
/// # Errors
/// A file is not a document of cpushield, or a report cannot show it.
pub fn collect_material(
    work: &WorkContext<'_>,
    files: &[String],
) -> Result<(ReportMaterial, Vec<NamedDocument>), Failure> {
    let (documents, doubts) = match files {
        [] => current_documents(work),
        files => {
            let user_files = work.host.user_files();
            let documents = files.iter().map(|file| NamedDocument::read(&user_files, file));
            (documents.collect::<Result<_, _>>()?, Vec::new())
        }
    };
    refuse_same_runs(&documents)?;
    let mut material = sort_documents(work, &documents)?;
    material.doubts.extend(doubts);
    material.live = files.is_empty();
    Ok((material, documents))
}

/// Refuses a run that is given twice: as two runs it would pass for a repetition.
fn refuse_same_runs(documents: &[NamedDocument]) -> Result<(), Failure> {
    let is_run = |saved: &SavedDocument| {
        matches!(saved, SavedDocument::Latency(_) | SavedDocument::Verdict(_))
    };
    for (n, one) in documents.iter().enumerate().filter(|(_, one)| is_run(&one.saved)) {
        if let Some(other) = documents.iter().skip(n + 1).find(|other| other.saved == one.saved) {
            let (one, other) = (one.file.clone(), other.file.clone());
            return Err(CompareError::Same { one, other }.into());
        }
    }
    Ok(())
}

/// The documents of this machine and of its active shields, or of the chosen one, with doubts.
fn current_documents(work: &WorkContext<'_>) -> (Vec<NamedDocument>, Vec<String>) {
    let WorkContext { host, store, .. } = work;
    let machine = survey_machine(host, store);
    let mut found = vec![("now", SavedDocument::Machine(Box::new(machine)))];
    let mut doubts = Vec::new();
    match work.chosen() {
        Ok(plans) => found
            .extend(plans.into_iter().map(|plan| ("shield", SavedDocument::Plan(Box::new(plan))))),
        // Without root the journal cannot be read. The report shows everything else.
        Err(error) => {
            let why = Failure::from(error).message.replace('\n', ";");
            doubts.push(format!("it is unknown whether a shield is active: {why}"));
        }
    }
    let documents = found
        .into_iter()
        .map(|(label, saved)| NamedDocument { label: label.to_owned(), file: String::new(), saved })
        .collect();
    (documents, doubts)
}

/// Sorts the documents by kind.
fn sort_documents(
    work: &WorkContext<'_>,
    documents: &[NamedDocument],
) -> Result<ReportMaterial, Failure> {
    let mut material = ReportMaterial::default();
    for NamedDocument { label, file, saved } in documents {
        match saved.clone() {
            SavedDocument::Machine(machine) => {
                material.machines.push(LabelledDocument::new(label, *machine));
            }
            SavedDocument::Plan(plan) if file.is_empty() => {
                let settings = read_outcomes(&work.host, &work.store, *plan)?;
                material.settings.push(LabelledDocument::new(label, settings));
            }
            SavedDocument::Plan(plan) => {
                material
                    .settings
                    .push(LabelledDocument::new(label, PlanWithOutcome::planned(*plan)));
            }
            SavedDocument::Verdict(verify) => {
                let (evidence, verdict) = (verify.evidence, Some(verify.verdict));
                let (origin, shield) = (WatchCommand::Verify, evidence.shield.clone());
                let watch = WatchWithVerdict { origin, shield, evidence, verdict };
                material.observations.push(LabelledDocument::new(label, watch));
            }
            SavedDocument::Latency(latency) => {
                material.latencies.push(LabelledDocument::new(label, *latency));
            }
            SavedDocument::Attempt(report) => material.add_attempt(label, *report),
            SavedDocument::Fixed(report) => material.add_fixed(label, *report),
            SavedDocument::Comparison(comparison) => {
                material.comparisons.push(LabelledDocument::new(label, *comparison));
            }
            SavedDocument::Experiment(experiment) => {
                material.experiments.push(LabelledDocument::new(label, *experiment));
            }
            SavedDocument::Search(search) => {
                material.searches.push(LabelledDocument::new(label, *search));
            }
            other => {
                return Err(Failure::usage(format!(
                    "{file}: a report cannot show the output of `cpushield {}`",
                    other.command()
                ))
                .hint("to show the active shield, name no file: cpushield report"));
            }
        }
    }
    Ok(material)
}

/// Reads the outcome of each step of the active shield, and what has changed since.
fn read_outcomes(host: &Host, store: &Store, plan: Plan) -> Result<PlanWithOutcome, Failure> {
    let outcomes = apply::outcomes(host, store)?;
    let ShieldStatus { shields, .. } = run::status(host, store, Some(&plan.shield.name))?;
    let drift = shields.into_iter().flat_map(|shield| shield.drift).collect();
    Ok(PlanWithOutcome { plan, outcomes, drift, undone: false })
}

/// The picture of this name, or the first one.
///
/// # Errors
/// There is no such picture.
pub fn choose_picture<'a>(report: &'a Report, name: Option<&str>) -> Result<&'a Picture, Failure> {
    let known: Vec<&str> = report.pictures().map(|picture| picture.id.as_str()).collect();
    let found = report.pictures().find(|picture| name.is_none_or(|name| picture.id == name));
    found.ok_or_else(|| match known.as_slice() {
        [] => Failure::usage("these documents have no picture")
            .hint("add a document: a survey has a map, verify has noise, latency has a histogram"),
        known => {
            let (name, known) = (name.unwrap_or_default(), known.join(", "));
            Failure::usage(format!("there is no picture {name:?}"))
                .hint(format!("choose one of these: {known}"))
        }
    })
}

/// All documents as one JSON document.
///
/// # Errors
/// There is a bug: a document cannot be written as JSON.
pub fn bundle_text(report: &Report, documents: &[NamedDocument]) -> Result<String, Failure> {
    let bundle = DocumentBundle::new(report.title.clone(), documents);
    Ok(to_json(&bundle)?)
}
