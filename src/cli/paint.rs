//! The colours of the terminal for the tones of reports.

use crate::report::blocks::TextTone;
use crate::ui::Emphasis;

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
