//! The terminal as a screen of its own: taken over, drawn on, and in any case given back as it was.
//! What is drawn is somebody else's matter.

use cpushield_linux::terminal::{Keyboard, TerminalInput};
use ratatui::crossterm::terminal;
use ratatui::{DefaultTerminal, Frame};
use std::io;
use std::time::Duration;

/// What the user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserAction {
    /// To leave: `q`, Esc, Ctrl-C, Ctrl-D.
    Quit,
    /// Up by so many lines, or down when negative.
    Up(isize),
    /// Any other letter.
    Letter(char),
    /// To see it drawn again: the size has changed.
    Redraw,
    /// Nothing any more: the terminal is gone.
    Gone,
}

/// The terminal while it is ours. Given back when this is dropped, and before a panic is told.
#[derive(Debug)]
pub struct Screen {
    terminal: DefaultTerminal,
    keyboard: Keyboard,
    size: Option<(u16, u16)>,
}

/// A page of scrolling.
const PAGE: isize = 10;

impl Screen {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// There is none, or it does not do what is asked.
    pub fn take() -> io::Result<Screen> {
        let keyboard = Keyboard::open()?;
        Ok(Screen { terminal: ratatui::try_init()?, keyboard, size: terminal::size().ok() })
    }

    /// Draws anew.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&mut self, view: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(view).map(|_| ())
    }

    /// Waits for a key, at most this long. A signal ends the wait early.
    ///
    /// # Errors
    /// The terminal cannot be read.
    pub fn wait(&mut self, time: Duration) -> io::Result<Option<UserAction>> {
        match self.keyboard.wait(time)? {
            TerminalInput::Typed(bytes) => Ok(key_of(&bytes)),
            TerminalInput::Gone => Ok(Some(UserAction::Gone)),
            TerminalInput::Nothing => Ok(self.resized().then_some(UserAction::Redraw)),
        }
    }

    /// Whether the size is another one than at the last call.
    fn resized(&mut self) -> bool {
        let before = self.size;
        self.size = terminal::size().ok();
        self.size != before
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nobody is left to tell when the terminal is gone.
        let _ = ratatui::try_restore();
    }
}

/// The first key of what was typed; more than one come together only when a key is held down.
/// Keys with more than one byte are those of xterm-ctlseqs, in both modes of the cursor keys.
fn key_of(bytes: &[u8]) -> Option<UserAction> {
    match bytes {
        [b'q' | 0x03 | 0x04, ..] | [0x1b] => Some(UserAction::Quit),
        [b'k', ..] | [0x1b, b'[' | b'O', b'A', ..] => Some(UserAction::Up(1)),
        [b'j', ..] | [0x1b, b'[' | b'O', b'B', ..] => Some(UserAction::Up(-1)),
        [0x1b, b'[', b'5', b'~', ..] => Some(UserAction::Up(PAGE)),
        [0x1b, b'[', b'6', b'~', ..] => Some(UserAction::Up(-PAGE)),
        [0x1b, b'[' | b'O', b'H', ..] | [0x1b, b'[', b'1' | b'7', b'~', ..] => {
            Some(UserAction::Up(isize::MAX))
        }
        [letter, ..] if letter.is_ascii_graphic() => Some(UserAction::Letter(char::from(*letter))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usual_way_out_is_a_way_out_and_half_a_key_is_none() {
        for way_out in ["q", "\x1b", "\x03", "\x04"] {
            assert_eq!(key_of(way_out.as_bytes()), Some(UserAction::Quit), "{way_out:?}");
        }
        for (typed, key) in [
            ("c", Some(UserAction::Letter('c'))),
            ("\x1b[B", Some(UserAction::Up(-1))),
            ("\x1bOA", Some(UserAction::Up(1))),
            ("\x1b[6~", Some(UserAction::Up(-PAGE))),
            ("\x1b[H", Some(UserAction::Up(isize::MAX))),
            ("\x1b[", None),
            ("\x1b[5", None),
            ("\x1b[1;5C", None),
            ("é", None),
            ("", None),
        ] {
            assert_eq!(key_of(typed.as_bytes()), key, "{typed:?}");
        }
    }
}
