//! The terminal as a full screen: taken over, drawn on, and always restored. Other modules draw the
//! content.

use cpushield_linux::sys::terminal::{self, Keyboard, RawMode, TerminalInput};
use std::io::{self, Write};
use std::panic;
use std::sync::Arc;
use std::time::Duration;

/// What the user asked for with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserAction {
    /// Quit: `q`, Esc, Ctrl-C, Ctrl-D.
    Quit,
    /// Scroll up by this many lines, or down when negative.
    Up(isize),
    /// Any other letter.
    Letter(char),
    /// Draw again, because the size has changed.
    Redraw,
    /// The terminal is gone.
    Gone,
}

/// The terminal in full-screen mode. Dropping it restores the terminal, and so does a panic before
/// its message is printed.
#[derive(Debug)]
pub struct Screen {
    mode: Arc<RawMode>,
    keyboard: Keyboard,
    size: Option<(u16, u16)>,
}

/// The second screen of the terminal, without a cursor and without wrapped lines; and the first one
/// with both (xterm-ctlseqs).
const TAKE: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const GIVE_BACK: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// An empty screen, and the cursor in its first column.
const CLEAR: &str = "\x1b[2J";
const HOME: &str = "\x1b[H";

/// Lines per page.
const PAGE: isize = 10;

impl Screen {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// There is no terminal, or it cannot be set up.
    pub fn take() -> io::Result<Screen> {
        let keyboard = Keyboard::open()?;
        let mode = Arc::new(keyboard.set_raw()?);
        let at_panic = Arc::clone(&mode);
        let show = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            give_back(&at_panic);
            show(panic);
        }));
        let screen = Screen { mode, keyboard, size: terminal::size(&io::stdout()) };
        write(TAKE)?;
        Ok(screen)
    }

    /// The columns and rows of the terminal.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn size(&mut self) -> io::Result<(usize, usize)> {
        let size = terminal::size(&io::stdout());
        if size != self.size {
            self.size = size;
            write(CLEAR)?;
        }
        let (columns, rows) = size.ok_or(io::ErrorKind::NotConnected)?;
        Ok((usize::from(columns), usize::from(rows)))
    }

    /// Draws lines that are as wide as the screen, over those before: nothing flickers.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&self, lines: &str) -> io::Result<()> {
        write(&format!("{HOME}{}", lines.trim_end_matches('\n').replace('\n', "\r\n")))
    }

    /// Waits for a key for at most this time. A signal ends the wait early.
    ///
    /// # Errors
    /// The terminal cannot be read.
    pub fn wait(&mut self, time: Duration) -> io::Result<Option<UserAction>> {
        match self.keyboard.wait(time)? {
            TerminalInput::Typed(bytes) => Ok(parse_key(&bytes)),
            TerminalInput::Gone => Ok(Some(UserAction::Gone)),
            TerminalInput::Nothing => Ok(self.is_resized().then_some(UserAction::Redraw)),
        }
    }

    /// Whether the size is another one than when it was last drawn on.
    fn is_resized(&self) -> bool {
        terminal::size(&io::stdout()) != self.size
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back(&self.mode);
    }
}

fn give_back(mode: &RawMode) {
    // An error means that the terminal is gone, so it cannot be reported.
    let _ = write(GIVE_BACK);
    let _ = mode.restore();
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// The first key of the input; several arrive together only when a key is held down. The sequences
/// with more than one byte are those of xterm-ctlseqs, in both modes of the cursor keys.
fn parse_key(bytes: &[u8]) -> Option<UserAction> {
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
    fn every_usual_key_quits_and_an_incomplete_sequence_does_nothing() {
        for key in ["q", "\x1b", "\x03", "\x04"] {
            assert_eq!(parse_key(key.as_bytes()), Some(UserAction::Quit), "{key:?}");
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
            assert_eq!(parse_key(typed.as_bytes()), key, "{typed:?}");
        }
    }
}
