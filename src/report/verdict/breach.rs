//! The first breach of a limit → lines: when it was, and what ran at that moment. Pure.

use super::{WatchedRun, describe_culprit, stack_line};
use crate::documents::evidence::{Breach, BreachNode};
use crate::report::blocks::{ReportBlock, TextLine, TextPart, TextTone};
use crate::report::moment::moment;
use crate::report::table::span;

impl WatchedRun<'_> {
    /// The first breach of a limit; `None` when there is none.
    pub fn breach_block(&self) -> Option<ReportBlock> {
        let breach = self.evidence.breach.as_ref()?;
        let when = when(breach, self.evidence.began_s);
        let title = TextPart::toned(TextTone::Bad, "first breach");
        let what = format!(": CPU {} at {when}: {}", breach.cpu, breach.what);
        let mut lines = vec![TextLine::of(vec![self.prefix(), title, TextPart::new(what)])];
        lines.extend(breach.missing.as_ref().map(|why| TextLine::new(why.to_string()).below()));
        lines.extend(breach.tree.iter().flat_map(node_lines));
        Some(ReportBlock::Lines(lines))
    }
}

/// The time of a breach since the start of the span, with the wall-clock time where that is known.
fn when(breach: &Breach, began_s: Option<u64>) -> String {
    let at = span(breach.at_ns);
    let by_clock = began_s.map(|s| moment(s.saturating_add(breach.at_ns / 1_000_000_000)));
    by_clock.map_or_else(|| at.clone(), |clock| format!("{at} ({clock})"))
}

/// An event with its times, and below it its stack.
fn node_lines(node: &BreachNode) -> Vec<TextLine> {
    let BreachNode { depth, kind, cause, culprit, after_ns, took_ns, stack } = node;
    let kind = if *depth == 0 { cause.name() } else { kind.name() };
    let times = match (*depth, *took_ns) {
        (0, took_ns) => span(took_ns),
        (_, 0) => format!("after {}", span(*after_ns)),
        (_, took_ns) => format!("after {}, {}", span(*after_ns), span(took_ns)),
    };
    let event = TextLine::new(format!("{kind} {}: {times}", describe_culprit(culprit)));
    let lines = [event].into_iter().chain(stack_line(stack).map(TextLine::below));
    lines.map(|line| TextLine { indent: line.indent + 1 + depth, ..line }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::evidence::LimitBreach;

    #[test]
    fn a_breach_shows_the_wall_clock_time_where_that_is_known() {
        let what = LimitBreach::Entries { count: 1, most: 0 };
        let (cpu, tree) = (2, Vec::new());
        let breach = Breach { cpu, what, at_ns: 90_500_000_000, tree, missing: None };
        assert_eq!(when(&breach, Some(1_800_000_000)), "90.50 s (2027-01-15 08:01:30 UTC)");
        assert_eq!(when(&breach, None), "90.50 s");
    }
}
