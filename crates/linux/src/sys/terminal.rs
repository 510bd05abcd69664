//! The terminal: its size, its mode ([`RawMode`]) and its input as bytes ([`Keyboard`]). What the
//! bytes mean is decided elsewhere. One wait for keys is one poll(2) and at most one read(2), so a
//! signal ends it, and an incomplete key does not hold it.

use crate::sys::input_poll::wait_for_input;
use rustix::event::PollFlags;
use rustix::termios::{self, OptionalActions, Termios};
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::time::Duration;

/// The maximum size of a read: a key has a few bytes, and pasted text is not a key.
const BYTES_MAX: usize = 256;

/// The columns and rows of the terminal that this file is; `None` if it is not one. A terminal
/// without a size, as a serial line is, has 80 columns and 24 rows.
pub fn size(file: &impl AsFd) -> Option<(u16, u16)> {
    let size = termios::tcgetwinsize(file).ok()?;
    Some(match (size.ws_col, size.ws_row) {
        (0, _) | (_, 0) => (80, 24),
        size => size,
    })
}

/// A terminal in raw mode: it neither echoes keys nor makes signals of them.
#[derive(Debug)]
pub struct RawMode {
    file: File,
    before: Termios,
}

impl RawMode {
    /// Restores the mode before.
    ///
    /// # Errors
    /// The kernel's error: the terminal is gone.
    pub fn restore(&self) -> io::Result<()> {
        Ok(termios::tcsetattr(&self.file, OptionalActions::Now, &self.before)?)
    }
}

/// Input from the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalInput {
    /// Typed bytes.
    Typed(Vec<u8>),
    /// Nothing was typed in that time, or a signal ended the wait.
    Nothing,
    /// The terminal is gone: its window was closed or its connection was lost.
    Gone,
}

/// The keyboard of the terminal of this process.
#[derive(Debug)]
pub struct Keyboard {
    file: File,
}

impl Keyboard {
    /// Opens standard input if it is a terminal, else the controlling terminal.
    ///
    /// # Errors
    /// There is no terminal.
    pub fn open() -> io::Result<Keyboard> {
        let stdin = io::stdin();
        let file = if stdin.is_terminal() {
            File::from(stdin.as_fd().try_clone_to_owned()?)
        } else {
            File::open("/dev/tty")?
        };
        Ok(Keyboard { file })
    }

    /// Sets raw mode, until [`RawMode::restore`].
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_raw(&self) -> io::Result<RawMode> {
        let before = termios::tcgetattr(&self.file)?;
        let mut raw = before.clone();
        raw.make_raw();
        termios::tcsetattr(&self.file, OptionalActions::Now, &raw)?;
        Ok(RawMode { file: self.file.try_clone()?, before })
    }

    /// Waits for keys, at most `timeout`. A signal ends the wait early.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<TerminalInput> {
        let seen = match wait_for_input(&self.file, timeout) {
            Ok(seen) if seen.is_empty() => return Ok(TerminalInput::Nothing),
            Ok(seen) => seen,
            Err(error) => return nothing_when_interrupted(error),
        };
        // A terminal that was hung up returns the end of file at every read
        // (drivers/tty/tty_io.c, hung_up_tty_read and hung_up_tty_poll, 6.12).
        if seen.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Ok(TerminalInput::Gone);
        }
        let mut bytes = vec![0; BYTES_MAX];
        match self.file.read(&mut bytes) {
            Ok(0) => Ok(TerminalInput::Gone),
            Ok(n) => {
                bytes.truncate(n);
                Ok(TerminalInput::Typed(bytes))
            }
            Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(TerminalInput::Gone),
            Err(error) => nothing_when_interrupted(error),
        }
    }
}

fn nothing_when_interrupted(error: io::Error) -> io::Result<TerminalInput> {
    match error.kind() {
        io::ErrorKind::Interrupted => Ok(TerminalInput::Nothing),
        _ => Err(error),
    }
}
