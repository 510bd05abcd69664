//! `report --json`: all documents of a report in one.

use super::saved_document::{NamedDocument, SavedDocument};
use crate::documents::comparison::Comparison;
use crate::documents::evidence::VerifyDocument;
use crate::documents::experiment::Experiment;
use crate::documents::fix_report::FixReport;
use crate::documents::latency::LatencyMeasurement;
use crate::documents::machine::Machine;
use crate::documents::option_search::OptionSearch;
use crate::documents::plan::Plan;
use crate::documents::shield_status::ShieldStatus;
use crate::documents::try_report::TryReport;
use serde::Serialize;

/// The schema version of `report --json`.
pub const SCHEMA: u32 = 1;

/// What `report --json` prints: the given documents, unchanged.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DocumentBundle<'a> {
    /// The schema version: [`SCHEMA`].
    schema: u32,
    /// The title of the report.
    title: String,
    /// The documents, in the given order.
    documents: Vec<BundleEntry<'a>>,
}

/// A document, with its label and the command that prints this kind of document.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "from")]
enum BundleEntry<'a> {
    /// The machine, as `documents::machine::Machine`.
    #[serde(rename = "survey --json")]
    Machine {
        label: &'a str,
        #[cfg_attr(feature = "schema", schemars(with = "Unspecified"))]
        document: &'a Machine,
    },
    /// A plan, as `documents::plan::Plan`.
    #[serde(rename = "plan -o FILE")]
    Plan {
        label: &'a str,
        #[cfg_attr(feature = "schema", schemars(with = "Unspecified"))]
        document: &'a Plan,
    },
    /// What interrupted the CPUs, and the verdict.
    #[serde(rename = "verify --json")]
    Verdict { label: &'a str, document: &'a VerifyDocument },
    /// A latency measurement.
    #[serde(rename = "latency --json")]
    Latency { label: &'a str, document: &'a LatencyMeasurement },
    /// A tried shield, as `documents::try_report::TryReport`.
    #[serde(rename = "try --json")]
    Attempt {
        label: &'a str,
        #[cfg_attr(feature = "schema", schemars(with = "Unspecified"))]
        document: &'a TryReport,
    },
    /// What `verify --fix` changed.
    #[serde(rename = "verify --fix --json")]
    Fixed { label: &'a str, document: &'a FixReport },
    /// A comparison of measurements.
    #[serde(rename = "compare --json")]
    Comparison { label: &'a str, document: &'a Comparison },
    /// An experiment with many configurations.
    #[serde(rename = "experiment --json")]
    Experiment { label: &'a str, document: &'a Experiment },
    /// A search for the options that matter.
    #[serde(rename = "experiment --minimize --json")]
    Search { label: &'a str, document: &'a OptionSearch },
    /// The active shield, as `documents::shield_status::ShieldStatus`.
    #[serde(rename = "status --json")]
    Status {
        label: &'a str,
        #[cfg_attr(feature = "schema", schemars(with = "Unspecified"))]
        document: &'a ShieldStatus,
    },
}

/// An object that the schema does not describe further.
#[cfg(feature = "schema")]
type Unspecified = std::collections::BTreeMap<String, serde_json::Value>;

impl<'a> BundleEntry<'a> {
    fn new(named: &'a NamedDocument) -> BundleEntry<'a> {
        let label = named.label.as_str();
        match &named.saved {
            SavedDocument::Machine(document) => BundleEntry::Machine { label, document },
            SavedDocument::Plan(document) => BundleEntry::Plan { label, document },
            SavedDocument::Verdict(document) => BundleEntry::Verdict { label, document },
            SavedDocument::Latency(document) => BundleEntry::Latency { label, document },
            SavedDocument::Attempt(document) => BundleEntry::Attempt { label, document },
            SavedDocument::Fixed(document) => BundleEntry::Fixed { label, document },
            SavedDocument::Comparison(document) => BundleEntry::Comparison { label, document },
            SavedDocument::Experiment(document) => BundleEntry::Experiment { label, document },
            SavedDocument::Search(document) => BundleEntry::Search { label, document },
            SavedDocument::Status(document) => BundleEntry::Status { label, document },
        }
    }
}

impl<'a> DocumentBundle<'a> {
    /// Collects the documents, unchanged.
    #[must_use]
    pub fn new(title: String, documents: &'a [NamedDocument]) -> DocumentBundle<'a> {
        let documents = documents.iter().map(BundleEntry::new).collect();
        DocumentBundle { schema: SCHEMA, title, documents }
    }
}
