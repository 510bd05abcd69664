//! The names of the measured threads, which the glance, the figures and the charts share.

use crate::documents::latency::ThreadSeries;
use crate::report::page::material::ReportMaterial;

/// The instruments and the roles of their threads, in the order of the documents. Figures of
/// different roles, such as the stages of a wakeup, are never combined.
pub(super) fn kinds(material: &ReportMaterial) -> Vec<(String, String)> {
    let mut kinds = Vec::new();
    for latency in &material.latencies {
        let mut series: Vec<&ThreadSeries> = latency.document.series.iter().collect();
        series.sort_by_key(|thread| thread.period_ns);
        for thread in series {
            let kind = (latency.document.instrument.clone(), thread.role());
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
    }
    kinds
}

/// `timer, 1 ms threads`.
pub(super) fn kind(instrument: &str, role: &str) -> String {
    format!("{instrument}, {role}")
}
