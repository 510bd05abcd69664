//! [`Keyboard`]: the input from the terminal as bytes, and whether the terminal still exists. What
//! the bytes mean is decided elsewhere.
//!
//! crossterm 0.29 reads keys too, but it retries a read forever: at the end of file, after an
//! interrupted call, and while a key is incomplete (src/event/source/unix/mio.rs). So no signal
//! ends it. Here one wait is one poll(2) and at most one read(2).

use crate::sys::input_poll::wait_for_input;
use rustix::event::PollFlags;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::time::Duration;

/// The maximum size of a read: a key has a few bytes, and pasted text is not a key.
const BYTES_MAX: usize = 256;

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
