//! The gaps of a CPU → lines: how long it ran without one, what the trace explains, and the
//! possible causes of the others. Pure.

use crate::causes::Cause;
use crate::documents::evidence::{CpuEvidence, Evidence, GapAttribution, GapPart, GapStatistics};
use crate::latency::percent_of;
use crate::report::blocks::TextLine;
use crate::report::table::span;

/// How many of the longest unexplained gaps are listed.
const LONGEST_MAX: usize = 3;

/// The longest stretch, the gaps with their causes, and the stolen time.
pub(super) fn gap_lines(evidence: &Evidence, seen: &CpuEvidence) -> Vec<TextLine> {
    let mut lines = Vec::new();
    if let Some(longest) = seen.longest_ns {
        let share = percent(longest, evidence.span_ns);
        lines.push(format!("longest uninterrupted stretch: {} ({share})", span(longest)));
    }
    if let Some(gaps) = &seen.gaps {
        let least = span(gaps.threshold_ns);
        lines.push(match gaps.count {
            0 => format!("no gap of {least} or more in user space"),
            n => format!(
                "gaps of {least} or more: {n}, longest {}, total {} ({})",
                span(gaps.max_ns),
                span(gaps.sum_ns),
                percent(gaps.sum_ns, evidence.span_ns)
            ),
        });
        match &seen.joined {
            Some(joined) => lines.extend(attributed_gaps(joined, seen, evidence.guest)),
            None => lines.extend(explained_gaps(gaps, seen)),
        }
    }
    let stolen = seen.steal_ns.filter(|ns| *ns > 0);
    lines.extend(stolen.map(|ns| format!("the hypervisor took {}", span(ns))));
    lines.into_iter().map(TextLine::new).collect()
}

fn percent(part: u64, whole: u64) -> String {
    // A part must not be rounded up to the whole.
    let percent = if part < whole { percent_of(part, whole).min(99.99) } else { 100.0 };
    format!("{percent:.2} %")
}

/// How many of the gaps the trace explains, and the possible causes of the others.
fn attributed_gaps(
    joined: &GapAttribution,
    seen: &CpuEvidence,
    guest: Option<bool>,
) -> Vec<String> {
    let GapAttribution { explained, unexplained, .. } = joined;
    if explained.count + unexplained.count == 0 {
        return Vec::new();
    }
    let compared = explained.count + unexplained.count;
    let mut known = format!(
        "the trace explains {} of {compared} gaps ({})",
        explained.count,
        span(explained.sum_ns)
    );
    let all = seen.gaps.as_ref().map_or(0, |gaps| gaps.count);
    if all > compared {
        let missing = all - compared;
        known.push_str(&format!("; {missing} more could not be correlated with the trace"));
    }
    if unexplained.count == 0 {
        return vec![known];
    }
    let longest = joined.worst.iter().take(LONGEST_MAX);
    let longest: Vec<String> =
        longest.map(|gap| format!("{} at {}", span(gap.ns), span(gap.at_ns))).collect();
    vec![
        format!(
            "{known}; {} without a trace event (longest {}, total {})",
            unexplained.count,
            span(unexplained.max_ns),
            span(unexplained.sum_ns)
        ),
        unexplained_cause(unexplained, seen, guest),
        format!("the longest without a trace event: {}", longest.join(", ")),
    ]
}

/// The cause of the gaps that the trace does not explain, by the steal and the SMI counters.
fn unexplained_cause(gaps: &GapPart, seen: &CpuEvidence, guest: Option<bool>) -> String {
    let by_smi = seen.smis.unwrap_or(0).min(gaps.count);
    match (by_smi, guest) {
        (0, Some(true)) => match seen.steal_ns.unwrap_or(0).min(gaps.sum_ns) {
            0 => "no event in the guest's kernel belongs to the other gaps: their likely cause is \
                  the hypervisor or the host's firmware"
                .to_owned(),
            ns if ns == gaps.sum_ns => {
                "the other gaps come from the hypervisor, according to the steal counter".to_owned()
            }
            ns => format!(
                "according to the steal counter, the hypervisor took {} of the other gaps; {} is \
                 unexplained",
                span(ns),
                span(gaps.sum_ns - ns)
            ),
        },
        (0, _) if seen.smis.is_some() => {
            "the cause of the other gaps is unknown: no SMI was counted".to_owned()
        }
        (0, _) => format!(
            "the other gaps come from the firmware or an unknown cause, and SMIs cannot be counted \
             here; `cpushield latency hardware --cpus {}` measures with interrupts disabled",
            seen.cpu
        ),
        (n, _) if n == gaps.count => {
            "the firmware caused all other gaps, according to the SMI counter".to_owned()
        }
        (n, _) => format!(
            "the firmware caused {n} of the other gaps, according to the SMI counter; the cause of \
             the rest is unknown"
        ),
    }
}

/// How much of the lost time the trace explains; the kernel did not cause the rest.
fn explained_gaps(gaps: &GapStatistics, seen: &CpuEvidence) -> Option<String> {
    if gaps.count == 0 || seen.lost.is_none() {
        return None;
    }
    let kernel = seen.interruptions.iter().filter(|row| row.cause != Cause::Steal);
    let known: u64 = kernel.filter_map(|row| row.time_ns).sum();
    Some(match gaps.sum_ns.saturating_sub(known) {
        0 => "the kernel's work explains all of the lost time".to_owned(),
        rest => {
            let (known, rest) = (span(known), span(rest));
            format!(
                "the kernel's work explains {known} of the lost time; {rest} is unexplained, for \
                 example firmware or the hypervisor"
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::evidence::UnexplainedGap;
    use crate::verify::judge::examples;

    fn statistics() -> GapStatistics {
        GapStatistics {
            resolution_ns: 20.0,
            threshold_ns: 1_000,
            count: 0,
            max_ns: 50_000,
            sum_ns: 200_000,
            longest_ns: 1_000_000_000,
            overflow: 0,
        }
    }

    #[test]
    fn the_lines_show_which_gaps_the_trace_explains_and_what_caused_the_others() {
        let part = |count, sum_ns, max_ns| GapPart { count, sum_ns, max_ns };
        let joined = GapAttribution {
            explained: part(7, 90_000, 20_000),
            unexplained: part(2, 80_000, 50_000),
            long: 2,
            worst: vec![
                UnexplainedGap { at_ns: 3_000_000_000, ns: 50_000 },
                UnexplainedGap { at_ns: 4_000_000_000, ns: 30_000 },
            ],
            ..GapAttribution::default()
        };
        let hwlat = "the other gaps come from the firmware or an unknown cause, and SMIs cannot be \
                     counted here; `cpushield latency hardware --cpus 2` measures with interrupts \
                     disabled";
        let stolen = Some(90_000);
        for (smis, steal_ns, guest, cause) in [
            (Some(0), None, None, "the cause of the other gaps is unknown: no SMI was counted"),
            (
                Some(9),
                None,
                None,
                "the firmware caused all other gaps, according to the SMI counter",
            ),
            (
                Some(1),
                None,
                None,
                "the firmware caused 1 of the other gaps, according to the SMI counter; the cause \
                 of the rest is unknown",
            ),
            (
                None,
                None,
                Some(true),
                "no event in the guest's kernel belongs to the other gaps: their likely cause is \
                 the hypervisor or the host's firmware",
            ),
            (None, None, Some(false), hwlat),
            (
                None,
                stolen,
                Some(true),
                "the other gaps come from the hypervisor, according to the steal counter",
            ),
            (
                None,
                Some(60_000),
                Some(true),
                "according to the steal counter, the hypervisor took 60.0 µs of the other gaps; \
                 20.0 µs is unexplained",
            ),
        ] {
            let mut seen =
                CpuEvidence { cpu: 2, smis, steal_ns, ..examples::clean().cpus.remove(0) };
            let count = 12;
            seen.gaps = Some(GapStatistics { count, overflow: 3, ..statistics() });
            let expected = [
                "the trace explains 7 of 9 gaps (90.0 µs); 3 more could not be correlated with \
                 the trace; 2 without a trace event (longest 50.0 µs, total 80.0 µs)",
                cause,
                "the longest without a trace event: 50.0 µs at 3.00 s, 30.0 µs at 4.00 s",
            ];
            assert_eq!(attributed_gaps(&joined, &seen, guest), expected);
        }
    }
}
