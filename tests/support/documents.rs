//! Measurements that the tests make up, as `latency --json` and `verify --json` print them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use serde_json::{Value, json};

/// A name as an attacker would choose it.
pub const HOSTILE: &str = "</script><script>window.hacked=1</script><img src=x onerror=\"window.hacked=2\
                       \">'\"&lt;\u{1b}[31m\u{202e}\u{0}";

/// A histogram as documents have it.
fn histogram(counts: &[(u64, u64)]) -> String {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 1 << 40, 3).unwrap();
    counts.iter().for_each(|(ns, count)| histogram.record_n(*ns, *count).unwrap());
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(&histogram, &mut bytes).unwrap();
    STANDARD.encode(bytes)
}

/// Latencies of threads on these CPUs around `typical_ns`.
pub fn latency(cpus: &[usize], seconds: u64, per_second: u64, typical_ns: u64) -> Value {
    let each = seconds * per_second;
    let series = cpus.iter().map(|cpu| {
        // Each power of two is half as frequent as the one before it.
        let counts: Vec<(u64, u64)> = (0..2000)
            .map(|n: u64| (typical_ns + n * n * typical_ns / 4000, (each / 2) >> (n / 60)))
            .filter(|(_, count)| *count > 0)
            .collect();
        let (worst, samples) = (counts.last().unwrap().0, counts.iter().map(|c| c.1).sum::<u64>());
        let moments: Vec<u64> = (0..600).map(|n| typical_ns * (2 + n * 7919 % 23)).collect();
        json!({
            "cpu": cpu, "period_ns": 1_000_000_000 / per_second, "policy": { "policy": "fifo", "priority": 80 },
            "samples": samples, "missed": 0,
            "worst": [{ "at_ns": seconds * 500_000_000, "late_ns": worst }],
            "min_ns": typical_ns, "mean_ns": typical_ns * 2, "max_ns": worst,
            "percentiles": [{ "percent": 50.0, "ns": typical_ns }, { "percent": 99.9, "ns": worst }],
            "over": [{ "limit_ns": 20_000, "count": 7, "percent": 0.01 }],
            "jitter_ns": worst, "elsewhere": 0,
            "timeline": { "step_ns": seconds * 1_000_000_000 / 600, "worst_ns": moments },
            "histogram": histogram(&counts), "doubts": [{ "doubt": "elsewhere", "count": 3 }],
        })
    });
    let series: Vec<Value> = series.collect();
    json!({
        "schema": 1, "instrument": "timer", "asked_ns": seconds * 1_000_000_000,
        "span_ns": seconds * 1_000_000_000, "warmup_ns": 0, "stopped": false,
        "unfinished": false, "began_s": 1_800_000_000_u64, "began_ns": 0, "series": series,
        "loads": [], "limits": { "max_ns": null, "linuxcnc": null }, "gates": [],
        "tracing": { "asked": false, "absent": null, "blind": [] },
        "isolation": {
            "shield": HOSTILE, "held": true, "broken": [], "isolated": null, "nohz_full": "2-3"
        },
        "setting": {
            "kernel": HOSTILE, "realtime": true, "timer_migration": false, "cmdline": HOSTILE,
            "processor": "a processor", "online": "0-3", "hypervisor": null,
            "clock": "CLOCK_MONOTONIC", "clocksource": "tsc", "clock_read_ns": 20
        },
        "doubts": [{ "about": "tracer-not-stopped", "answer": HOSTILE }], "notes": [{ "note": "change-refused", "tunable": HOSTILE }],
    })
}

/// What `verify --json` prints of a CPU with these leaks.
pub fn verified(cpu: usize, leaks: &[(&str, &str, u64)]) -> Value {
    let seen = |(cause, culprit, count): &(&str, &str, u64)| {
        json!({
            "cause": cause, "culprit": { "kind": "function", "name": culprit }, "count": count, "nested": 0, "time_ns": 900,
            "max_ns": 4_000, "witness": "trace"
        })
    };
    let interruptions: Vec<Value> = leaks.iter().map(seen).collect();
    let leak = |(n, seen): (usize, &Value)| {
        let remedy = json!({ "tunable": "watchdog", "when": "runtime", "how": HOSTILE });
        let remedy = if n == 0 { remedy } else { Value::Null };
        json!({ "interruptions": seen, "remedy": remedy, "why_none": null })
    };
    let leaks: Vec<Value> = interruptions.iter().enumerate().map(leak).collect();
    let entries: u64 = interruptions.iter().filter_map(|seen| seen["count"].as_u64()).sum();
    let state = if leaks.is_empty() { "holds" } else { "leaks" };
    json!({
        "schema": 1,
        "evidence": {
            "schema": 1, "began_ns": 0, "span_ns": 4_000_000_000_u64, "asked_ns": 4_000_000_000_u64,
            "stopped": false, "workload": "sampler", "guest": false,
            "cpus": [{
                "cpu": cpu, "entries": entries, "interruptions": interruptions,
                "whole": false, "tracked": false, "senders": [], "events": [],
                "longest_ns": 3_000_000, "lost": 0, "steal_ns": 0, "doubts": [],
                "gaps": {
                    "resolution_ns": 20.0, "threshold_ns": 1000, "count": 3, "max_ns": 9_000,
                    "sum_ns": 20_000, "longest_ns": 1_000_000, "overflow": 0
                }
            }],
            "witnesses": [
                { "kind": "trace", "absent": null, "blind": [{ "blind": "event-fields", "event": HOSTILE }] },
                { "kind": "firmware", "absent": { "absence": "no-msr-device" }, "blind": [] }
            ],
            "control": { "control": "seen", "provoked": [] }
        },
        "verdict": {
            "schema": 1, "gates": [], "tick": "counts",
            "cpus": [{
                "cpu": cpu, "state": state, "limits": null, "leaks": leaks,
                "one_witness": [], "unwatched": [], "unknown": []
            }]
        }
    })
}
