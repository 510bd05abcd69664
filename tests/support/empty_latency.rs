//! A measurement of an experiment that has no figures.

use cpushield::latency::{
    LatencyMeasurement, MeasuredIsolation, MeasuredSetting, SCHEMA, TraceUse,
};
use cpushield::policy::LatencyLimits;

/// The document that every measurement of a simulated machine returns.
pub fn latency() -> LatencyMeasurement {
    LatencyMeasurement {
        schema: SCHEMA,
        instrument: "timer".to_owned(),
        asked_ns: 1,
        span_ns: 1,
        warmup_ns: 0,
        stopped: false,
        unfinished: false,
        began_s: 1,
        began_ns: 1,
        series: Vec::new(),
        loads: Vec::new(),
        limits: LatencyLimits::default(),
        gates: Vec::new(),
        isolation: MeasuredIsolation::default(),
        tracing: TraceUse::default(),
        setting: MeasuredSetting::default(),
        doubts: Vec::new(),
        notes: Vec::new(),
    }
}
