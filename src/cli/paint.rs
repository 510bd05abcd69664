//! The colours of verdicts and texts.

use crate::report::TextStyle;
use crate::report::page::TextTone;
use crate::ui::Emphasis;
use crate::verify::VerdictState;

/// Colours a verdict.
pub(super) fn paint_verdict(state: VerdictState, words: &str) -> String {
    let tone = match state {
        VerdictState::Holds => Emphasis::Good,
        VerdictState::Leaks => Emphasis::Bad,
        VerdictState::Unknown => Emphasis::Doubt,
    };
    tone.paint(words)
}

/// Colours a part of a text.
pub(super) fn paint_text(style: TextStyle, text: &str) -> String {
    match style {
        TextStyle::Good => Emphasis::Good.paint(text),
        TextStyle::Bad => Emphasis::Bad.paint(text),
        TextStyle::Doubt => Emphasis::Doubt.paint(text),
        TextStyle::Head => Emphasis::Head.paint(text),
    }
}

/// Colours a part of a report.
pub(super) fn paint_report(tone: TextTone, text: &str) -> String {
    match tone {
        TextTone::Plain => text.to_owned(),
        TextTone::Good => Emphasis::Good.paint(text),
        TextTone::Bad => Emphasis::Bad.paint(text),
        TextTone::Doubt => Emphasis::Doubt.paint(text),
    }
}
