//! [`Keyboard`]: what is typed on the terminal, as bytes, and whether the terminal is still there.
//! What the bytes mean is not decided here.
//!
//! crossterm 0.29 reads keys too, but it retries a read forever: at the end of file, after an
//! interrupted call, and while half a key has come (src/event/source/unix/mio.rs). So no signal
//! ends it. Here one wait is one poll(2) and at most one read(2).

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// One read takes no more: a key has a few bytes, and what is pasted is no key.
const BYTES_MAX: usize = 256;

/// What came from the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalInput {
    /// Bytes that were typed.
    Typed(Vec<u8>),
    /// Nothing in that time, or a signal ended the wait.
    Nothing,
    /// The terminal is gone: its window was closed or its connection was lost.
    Gone,
}

/// The keys of the terminal of this process.
#[derive(Debug)]
pub struct Keyboard {
    file: File,
}

impl Keyboard {
    /// Standard input where it is a terminal, else the controlling terminal.
    ///
    /// # Errors
    /// There is none.
    pub fn open() -> io::Result<Keyboard> {
        let stdin = io::stdin();
        let file = if stdin.is_terminal() {
            File::from(stdin.as_fd().try_clone_to_owned()?)
        } else {
            File::open("/dev/tty")?
        };
        Ok(Keyboard { file })
    }

    /// Waits for keys, at most this long. A signal ends the wait early.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn wait(&mut self, most: Duration) -> io::Result<TerminalInput> {
        let mut poll = libc::pollfd { fd: self.file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // A part of a millisecond is a whole one, or the last one would be spent in a loop.
        let ms = i32::try_from(most.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
        // SAFETY: `poll` is valid for reads and writes of the one entry the call is told of.
        match unsafe { libc::poll(&raw mut poll, 1, ms) } {
            0 => return Ok(TerminalInput::Nothing),
            n if n < 0 => return nothing_when_interrupted(io::Error::last_os_error()),
            _ => {}
        }
        // A terminal that was hung up answers every read with the end of file
        // (drivers/tty/tty_io.c, hung_up_tty_read and hung_up_tty_poll, 6.12).
        if poll.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0 {
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
