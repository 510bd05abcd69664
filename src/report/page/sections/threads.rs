//! The names of the measured threads, which the glance, the figures and the charts share.

use crate::latency::ThreadSeries;
use crate::report::page::material::ReportMaterial;
use crate::report::page::words;

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

/// `timer, threads of 1ms`.
pub(super) fn kind(instrument: &str, role: &str) -> String {
    format!("{instrument}, {role}")
}

/// `CPU 3, 1 ms`: the CPU and the period of a thread.
pub(super) fn describe_thread(series: &ThreadSeries) -> String {
    let stage = series.stage.as_ref().map_or_else(String::new, |stage| format!(" ({stage})"));
    match series.period_ns {
        0 => format!("CPU {}{stage}", series.cpu),
        ns => format!("CPU {}, {}{stage}", series.cpu, words::time(words::float(ns))),
    }
}
