//! Blocks on the terminal: its width, and its colours for the tones.

use crate::report::blocks::{ReportBlock, TextTone, terminal_blocks};
use crate::ui::{Emphasis, Ui};

/// The blocks as this terminal shows them.
pub(super) fn on_terminal(ui: &Ui, blocks: &[ReportBlock]) -> String {
    terminal_blocks(blocks, ui.width(), &paint)
}

/// Colours words by their meaning.
pub(super) fn paint(tone: TextTone, words: &str) -> String {
    match tone {
        TextTone::Plain => words.to_owned(),
        TextTone::Good => Emphasis::Good.paint(words),
        TextTone::Bad => Emphasis::Bad.paint(words),
        TextTone::Doubt => Emphasis::Doubt.paint(words),
        TextTone::Head => Emphasis::Head.paint(words),
    }
}
