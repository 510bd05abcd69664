//! Verdict → blocks: the verdict on each CPU, its interruptions with their remedies, its gaps, the
//! first breach of a limit, the witnesses with their blind spots, and the limits. Pure.

mod breach;
mod gaps;
mod interruptions;
mod ownership;
mod witnesses;

pub use interruptions::{describe_remedy, more_line};
pub use witnesses::blind_spot_block;

use super::blocks::{ReportBlock, TextLine, TextPart, TextTone, words};
use super::limits::{limit_block, limit_row};
use super::table::{rate, span};
use crate::causes::{Culprit, known};
use crate::documents::evidence::{
    CpuEvidence, CpuVerdict, EntryClass, Evidence, GateFinding, LimitsKept, Verdict, VerdictState,
    WatchedWorkload, list_classes,
};

/// The share of the time that the host of a guest took, in parts per million, from which on the
/// first line says so.
const NOTABLE_PPM: u64 = 1_000;

/// An observation with its name among several.
#[derive(Debug, Clone, Copy)]
pub struct WatchedRun<'a> {
    /// The name; empty for a single observation.
    pub name: &'a str,
    /// What was observed.
    pub evidence: &'a Evidence,
    /// The verdict; `None` when the evidence was not judged.
    pub verdict: Option<&'a Verdict>,
}

/// The blocks of one observation.
#[must_use]
pub fn blocks(evidence: &Evidence, verdict: &Verdict) -> Vec<ReportBlock> {
    let run = WatchedRun { name: "", evidence, verdict: Some(verdict) };
    let mut blocks = run.cpu_blocks();
    blocks.extend(run.open_block());
    blocks.extend(run.breach_block());
    blocks.push(run.witness_block());
    blocks.extend(blind_spot_block(&[run]));
    let gates = verdict.gates.iter();
    blocks.extend(limit_block(
        gates.map(|gate| limit_row("", gate, &gate.found.to_string())).collect(),
    ));
    blocks
}

impl WatchedRun<'_> {
    /// The name of the run before a line about it; empty for a single run.
    fn prefix(&self) -> TextPart {
        match self.name {
            "" => TextPart::default(),
            name => TextPart::new(format!("{name}: ")),
        }
    }

    /// Each CPU: the verdict, what interrupted it, its gaps, and what was not watched.
    #[must_use]
    pub fn cpu_blocks(&self) -> Vec<ReportBlock> {
        let mut blocks = Vec::new();
        for seen in &self.evidence.cpus {
            let verdicts = self.verdict.iter().flat_map(|verdict| &verdict.cpus);
            let judged = verdicts.into_iter().find(|judged| judged.cpu == seen.cpu);
            let span_ns = self.evidence.span_ns;
            let mut lines = vec![self.headline(seen, judged)];
            lines.extend(kernel_interrupts(seen).map(TextLine::below));
            let unproven = judged.iter().flat_map(|judged| &judged.unknown);
            lines.extend(
                unproven.map(|why| TextLine::remark(TextTone::Doubt, "not proven", why).below()),
            );
            blocks.push(ReportBlock::Lines(lines));
            blocks.extend(interruptions::interruption_blocks(seen, judged, span_ns));
            let owned = seen.ownership.as_ref();
            blocks.extend(
                owned.into_iter().flat_map(|owned| ownership::ownership_blocks(seen.cpu, owned)),
            );
            let mut lines = interruptions::sender_lines(seen);
            lines.extend(gaps::gap_lines(self.evidence, seen));
            lines.extend(judged.map(coverage).unwrap_or_default());
            blocks.push(ReportBlock::Lines(lines.into_iter().map(TextLine::below).collect()));
        }
        blocks.retain(|block| !matches!(block, ReportBlock::Lines(lines) if lines.is_empty()));
        blocks
    }

    /// That others may enter the shield, and who is pinned there.
    fn open_block(&self) -> Option<ReportBlock> {
        let pinned = self.evidence.open_to.as_ref()?;
        let pinned = match pinned.is_empty() {
            true => String::new(),
            false => format!("; pinned there from outside: {}", pinned.join(", ")),
        };
        let text = format!("open: others may enter the shield{pinned}");
        Some(ReportBlock::Lines(vec![TextLine::remark(TextTone::Doubt, "doubt", text)]))
    }

    /// The word that decides the exit code; with limits, the verdict without them as well.
    fn headline(&self, seen: &CpuEvidence, judged: Option<&CpuVerdict>) -> TextLine {
        let mut parts = vec![self.prefix(), TextPart::new(format!("CPU {}: ", seen.cpu))];
        if let Some(judged) = judged {
            let alone = TextPart::toned(tone(judged.state), word(judged.state));
            match judged.limits.map(limits_kept) {
                None => parts.push(alone),
                Some((tone, words)) => {
                    parts.push(TextPart::toned(tone, words));
                    parts.push(TextPart::new(format!(" (without limits: {})", alone.text)));
                }
            }
            let apart_from = judged.apart_from.iter();
            parts.extend(
                apart_from.map(|tick| TextPart::toned(TextTone::Doubt, format!(", {tick}"))),
            );
            parts.extend(self.taken(seen, judged));
            parts.push(TextPart::new(", "));
        }
        parts.push(TextPart::new(entries(seen, self.evidence.span_ns)));
        let is_given = self.evidence.workload != WatchedWorkload::Sampler;
        let unwatched = seen.entries.is_some() && is_given && !seen.whole;
        parts.extend(unwatched.then(|| TextPart::new(", without its system calls")));
        TextLine::of(parts)
    }

    /// What a shield that holds against the kernel of a guest cannot keep away.
    fn taken(&self, seen: &CpuEvidence, judged: &CpuVerdict) -> Option<TextPart> {
        let ppm = seen.taken_ppm(self.evidence.span_ns).filter(|ppm| *ppm >= NOTABLE_PPM)?;
        let is_guest = self.evidence.guest == Some(true);
        (is_guest && judged.state == VerdictState::Holds).then(|| {
            let share = GateFinding::Share { ppm };
            TextPart::toned(TextTone::Doubt, format!(" against this kernel; the host took {share}"))
        })
    }
}

/// The verdict on all CPUs, which is the worst of theirs.
#[must_use]
pub fn overall(verdict: &Verdict) -> (TextTone, &'static str) {
    let limits: Vec<LimitsKept> = verdict.cpus.iter().filter_map(|cpu| cpu.limits).collect();
    let states: Vec<VerdictState> = verdict.cpus.iter().map(|cpu| cpu.state).collect();
    let worst = [LimitsKept::Beyond, LimitsKept::Unknown, LimitsKept::Within];
    if let Some(kept) = worst.into_iter().find(|kept| limits.contains(kept)) {
        return limits_kept(kept);
    }
    let worst = [VerdictState::Leaks, VerdictState::Unknown, VerdictState::Holds];
    let state = worst.into_iter().find(|state| states.contains(state));
    let state = state.unwrap_or(VerdictState::Unknown);
    (tone(state), word(state))
}

/// The word of a verdict.
#[must_use]
pub fn word(state: VerdictState) -> &'static str {
    match state {
        VerdictState::Holds => "holds",
        VerdictState::Leaks => "leaks",
        VerdictState::Unknown => "unknown",
    }
}

/// The meaning of a verdict.
#[must_use]
pub fn tone(state: VerdictState) -> TextTone {
    match state {
        VerdictState::Holds => TextTone::Good,
        VerdictState::Leaks => TextTone::Bad,
        VerdictState::Unknown => TextTone::Doubt,
    }
}

/// Whether the limits were kept.
fn limits_kept(kept: LimitsKept) -> (TextTone, &'static str) {
    match kept {
        LimitsKept::Within => (TextTone::Good, "within the limits"),
        LimitsKept::Beyond => (TextTone::Bad, "beyond the limits"),
        LimitsKept::Unknown => (TextTone::Doubt, "unknown whether it is within the limits"),
    }
}

/// `4080 kernel entries in 4.00 s (1020/s)`.
#[must_use]
pub fn entries(seen: &CpuEvidence, span_ns: u64) -> String {
    let watched = span(span_ns);
    match seen.entries {
        Some(0) => format!("no kernel entry in {watched}"),
        Some(1) => format!("1 kernel entry in {watched}"),
        Some(n) => {
            let per_s = rate(n, span_ns);
            format!("{} kernel entries in {watched} ({per_s}/s)", words::grouped(n))
        }
        None => format!("watched for {watched}; the number of kernel entries is unknown"),
    }
}

/// The entries from user mode, and the interrupts that hit the kernel itself; `None` without any of
/// the latter.
fn kernel_interrupts(seen: &CpuEvidence) -> Option<TextLine> {
    let (user, kernel) = (seen.entries?, seen.kernel_interrupts.filter(|kernel| *kernel > 0)?);
    let [user, kernel] = [user, kernel].map(words::grouped);
    let user = format!("entries from user mode: {user}");
    Some(TextLine::new(format!("{user}, interrupts taken in kernel mode: {kernel}")))
}

/// The functions of a stack, innermost first; `None` without a stack.
fn stack_line(stack: &[String]) -> Option<TextLine> {
    (!stack.is_empty()).then(|| TextLine::new(format!("stack: {}", stack.join(" < "))))
}

/// The culprit with its purpose where that is known; `-` where the culprit is unknown.
fn describe_culprit(culprit: &Culprit) -> String {
    known::describe(culprit).unwrap_or_else(|| "-".to_owned())
}

/// The entry classes that fewer than two witnesses watched.
fn coverage(judged: &CpuVerdict) -> Vec<TextLine> {
    let mut lines = Vec::new();
    if !judged.one_witness.is_empty() {
        let classes = list_classes(&judged.one_witness);
        lines.push(TextLine::new(format!("watched by one witness only: {classes}")));
    }
    if !judged.unwatched.is_empty() {
        let classes = list_classes(&judged.unwatched);
        let hint = match judged.unwatched.contains(&EntryClass::SystemCall) {
            true => " (--syscalls watches system calls)",
            false => "",
        };
        lines.push(TextLine::new(format!("not watched: {classes}{hint}")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::Cause;
    use crate::change::EffectTime;
    use crate::documents::evidence::{
        AbsenceReason, BlindSpot, ControlAt, GapStatistics, InterruptionCount, PositiveControl,
        ProvokeMethod, ProvokedIpis, WatchedWorkload, WitnessKind, WitnessReport,
    };
    use crate::documents::remedy::Remedy;
    use crate::policy::VerifyLimits;
    use crate::report::blocks::{terminal_blocks, unpainted};
    use crate::tunables::RemedyAnswer;
    use crate::verify::judge;
    use crate::verify::judge::examples;

    fn row(cause: Cause, culprit: &str, count: u64, nested: u64) -> InterruptionCount {
        InterruptionCount {
            cause,
            culprit: Culprit::shown(cause, culprit),
            count,
            nested,
            time_ns: Some(2_500_000 * count.max(1)),
            max_ns: Some(4_100).filter(|_| count > 0),
            witness: WitnessKind::Trace,
            stack: Vec::new(),
        }
    }

    fn evidence() -> Evidence {
        let witness = |kind, absent, blind: &[BlindSpot]| WitnessReport {
            kind,
            absent,
            blind: blind.to_vec(),
        };
        let gaps = GapStatistics {
            resolution_ns: 12.0,
            threshold_ns: 1_000,
            count: 3,
            max_ns: 41_000,
            sum_ns: 9_000_000,
            longest_ns: 0,
            overflow: 0,
        };
        let clean = CpuEvidence {
            cpu: 2,
            longest_ns: Some(10_000_000_000),
            gaps: Some(GapStatistics { count: 0, ..gaps.clone() }),
            joined: None,
            ..examples::clean().cpus.remove(0)
        };
        Evidence {
            span_ns: 10_000_000_000,
            asked_ns: 10_000_000_000,
            workload: WatchedWorkload::Sampler,
            guest: Some(false),
            cpus: vec![
                clean.clone(),
                CpuEvidence {
                    cpu: 3,
                    entries: Some(2),
                    kernel_interrupts: Some(5),
                    interruptions: vec![
                        row(Cause::Tick, "tick_nohz_handler", 2, 0),
                        row(Cause::Softirq, "", 0, 5),
                        InterruptionCount {
                            witness: WitnessKind::Counters,
                            ..row(Cause::Steal, "hypervisor", 1, 0)
                        },
                    ],
                    longest_ns: Some(9_999_999_999),
                    gaps: Some(gaps),
                    steal_ns: Some(30_000_000),
                    ..clean
                },
            ],
            witnesses: vec![
                witness(WitnessKind::Trace, None, &[BlindSpot::SystemCalls, BlindSpot::Signals]),
                witness(WitnessKind::Counters, None, &[]),
                witness(WitnessKind::Sampler, Some(AbsenceReason::failed("no CPU for it")), &[]),
            ],
            control: PositiveControl::Seen {
                provoked: vec![ProvokedIpis {
                    count: 10,
                    by: ProvokeMethod::Membarrier,
                    at: ControlAt::BeforeSpan,
                }],
            },
            ..examples::clean()
        }
    }

    #[test]
    fn the_screen_shows_culprits_counts_times_and_remedies() {
        let evidence = evidence();
        let limits = VerifyLimits {
            max_entries: Some(0),
            max_gap_ns: Some(50_000),
            ..VerifyLimits::default()
        };
        let verdict = judge(&evidence, &limits, &|row, _| match row.cause {
            Cause::Tick => RemedyAnswer::Remedy(Remedy {
                tunable: "nohz-full".to_owned(),
                when: EffectTime::Boot,
                how: "nohz_full=3".to_owned(),
            }),
            _ => RemedyAnswer::Unknown,
        });
        let expected = "\
CPU 2: within the limits (without limits: holds), no kernel entry in 10.00 s
  longest uninterrupted stretch: 10.00 s (100.00 %)
  no gap of 1.0 µs or more in user space
CPU 3: beyond the limits (without limits: leaks), 2 kernel entries in 10.00 s (0.20/s)
  entries from user mode: 2, interrupts taken in kernel mode: 5
  cause    culprit            count  rate/s  nested  own time  longest  remedy
  tick     tick_nohz_handler      2    0.20       -   5.00 ms   4.1 µs  at boot: nohz_full=3
  softirq  -                      -       -       5   2.50 ms        -
  steal    hypervisor             1    0.10       -   2.50 ms   4.1 µs
  longest uninterrupted stretch: 10.00 s (99.99 %)
  gaps of 1.0 µs or more: 3, longest 41.0 µs, total 9.00 ms (0.09 %)
  the kernel's work explains 7.50 ms of the lost time; 1.50 ms is unexplained, for example
      firmware or the hypervisor
  the hypervisor took 30.00 ms
every witness saw the positive control: 10 function-call IPIs to each CPU with membarrier(2)
    before the span
kernel trace watched
kernel counters watched
gap sampler did not watch: no CPU for it

? Not visible to the witnesses
  - kernel trace: system calls of the workload (not requested)
  - kernel trace: signals of the workload (no signal:signal_deliver)

Limits
  limit            found  held      why
  --max-entries 0  2      not held
  --max-gap 50us   41us   held      according to the gap sampler
";
        let shown = blocks(&evidence, &verdict);
        assert_eq!(terminal_blocks(&shown, 100, &unpainted), expected);
        let narrow = terminal_blocks(&shown, 70, &unpainted);
        assert!(narrow.lines().all(|line| line.chars().count() <= 70), "{narrow}");
        let below = "\n  tick     tick_nohz_handler      2    0.20       -   5.00 ms   4.1 µs\n      \
                     remedy: at boot: nohz_full=3\n  softirq  -    ";
        assert!(narrow.contains(below), "{narrow}");
        let verdict = judge(&evidence, &VerifyLimits::default(), &|_, _| RemedyAnswer::Unknown);
        let text = terminal_blocks(&blocks(&evidence, &verdict), 100, &unpainted);
        assert!(text.contains("CPU 2: holds, no kernel entry"), "{text}");
        assert!(text.contains("CPU 3: leaks, 2 kernel entries"), "{text}");
    }
}
