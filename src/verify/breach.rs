//! The first breach of a limit: what ran then, as a tree with times and stacks. Pure but for
//! reading back the pages of the recording.

use super::judge::{limit, measured};
use super::trace::recording::TraceRecording;
use super::trace::timeline::{TimelineEntry, TimelineKind, story};
use super::{Breach, BreachNode, VerifyLimits};

/// What broke a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokenLimit {
    /// So many entries into the kernel; 0 when nobody counted them.
    Entries(u64),
    /// A gap of so many nanoseconds, as the sampler saw it.
    Gap(u64),
    /// An interruption of so many nanoseconds, as the trace saw it.
    Interruption(u64),
}

/// A breach as it is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoticedBreach {
    /// The CPU.
    pub cpu: usize,
    /// When, in ticks of the trace.
    pub at: u64,
    /// What broke the limit.
    pub kind: BrokenLimit,
}

/// Tells a breach by what was recorded. `began`: the tick at which the span began.
pub fn tell(
    recording: &mut TraceRecording,
    breached: &NoticedBreach,
    limits: &VerifyLimits,
    began: u64,
) -> Breach {
    let NoticedBreach { cpu, at, kind } = *breached;
    let took = |what: &str, ns| {
        let most = limits.max_gap_ns.unwrap_or(0);
        format!("{what} of {}, where at most {} is allowed", measured(ns), limit(most))
    };
    let what = match kind {
        BrokenLimit::Entries(n) => {
            let most = limits.max_entries.unwrap_or(0);
            format!("entry {n} into the kernel, where at most {most} may be")
        }
        BrokenLimit::Gap(ns) => took("a gap", ns),
        BrokenLimit::Interruption(ns) => took("an interruption", ns),
    };
    // A gap begins a little before the first event in it.
    let length_ns = match kind {
        BrokenLimit::Gap(ns) => ns,
        BrokenLimit::Entries(_) | BrokenLimit::Interruption(_) => 0,
    };
    let at_ns = recording.scale.ns(at);
    let mut grove =
        BreachSearch { span: (at_ns, at_ns.saturating_add(length_ns)), ..BreachSearch::default() };
    // Pages that cannot be read back are told by whoever writes them to a file.
    let _ = story(recording, cpu, &mut |told| {
        grove.hear(told);
        Ok(())
    });
    let at_ns = recording.scale.ns(at.saturating_sub(began));
    Breach { cpu, what, at_ns, tree: grove.found }
}

/// Looks for the first interruption that touches a span.
#[derive(Debug, Default)]
struct BreachSearch {
    span: (u64, u64),
    /// It began then, and what is told now lies inside it.
    inside: Option<u64>,
    found: Vec<BreachNode>,
}

impl BreachSearch {
    fn hear(&mut self, told: &TimelineEntry) {
        let (kind, cause, culprit) = match &told.what {
            TimelineKind::Interruption(cause, culprit) => ("interruption", *cause, culprit),
            TimelineKind::Inside(kind, cause, culprit) => (*kind, *cause, culprit),
            TimelineKind::Undisturbed(_) | TimelineKind::Lost => return self.inside = None,
        };
        if told.depth == 0 {
            let (first, last) = self.span;
            let touches = told.begun_ns <= last && told.end_ns >= first;
            self.inside = (touches && self.found.is_empty()).then_some(told.begun_ns);
        }
        let Some(began) = self.inside else { return };
        self.found.push(BreachNode {
            depth: told.depth,
            kind: kind.to_owned(),
            cause,
            culprit: culprit.clone(),
            after_ns: told.begun_ns.saturating_sub(began),
            took_ns: told.end_ns.saturating_sub(told.begun_ns),
            stack: told.stack.clone(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::{Cause, Culprit};

    #[test]
    fn the_tree_is_that_of_the_interruption_that_the_breach_lies_in() {
        let told = |begun_ns, end_ns, depth, what| TimelineEntry {
            begun_ns,
            end_ns,
            depth,
            what,
            stack: Vec::new(),
        };
        let stay = |name: &str| TimelineKind::Interruption(Cause::Tick, Culprit::function(name));
        let inside =
            |name: &str| TimelineKind::Inside("softirq", Cause::Softirq, Culprit::function(name));
        let story = [
            told(0, 100, 0, TimelineKind::Undisturbed(String::new())),
            told(100, 200, 0, stay("before")),
            told(110, 120, 1, inside("before")),
            told(300, 400, 0, stay("it")),
            told(310, 350, 1, inside("it")),
            told(320, 330, 2, inside("it")),
            told(400, 500, 0, TimelineKind::Undisturbed(String::new())),
            told(500, 600, 0, stay("after")),
            told(510, 520, 1, inside("after")),
        ];
        let found = |first, last| {
            let mut grove = BreachSearch { span: (first, last), ..BreachSearch::default() };
            story.iter().for_each(|told| grove.hear(told));
            let short = |b: &BreachNode| (b.depth, b.culprit.clone(), b.after_ns, b.took_ns);
            grove.found.iter().map(short).collect::<Vec<_>>()
        };
        let it = Culprit::function("it");
        let whole = [(0, it.clone(), 0, 100), (1, it.clone(), 10, 40), (2, it, 20, 10)];
        assert_eq!(found(300, 300), whole, "an entry");
        assert_eq!(found(290, 900), whole, "a gap that another one follows");
        assert_eq!(found(450, 460), [], "nothing of the kernel's");
    }
}
