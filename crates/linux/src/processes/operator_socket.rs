//! The socket at which a user other than root asks for a place in a shield: the identity of the
//! caller, a one-line request and a one-line reply. Which request is allowed is decided elsewhere.

use crate::error::{Error, Operation, Result};
use crate::host::Host;
use crate::processes::open_files::new_command;
use crate::processes::process_handle::ProcessHandle;
use crate::sys::input_poll::wait_for_input;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The supplementary groups that a process may have (`NGROUPS_MAX`, include/uapi/linux/limits.h).
const GROUPS_MAX: usize = 65_536;
/// The longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// The process at the other end: the one that connected.
#[derive(Debug)]
pub struct SocketPeer {
    /// The process itself, whatever becomes of its number.
    pub process: ProcessHandle,
    /// Its effective user when it connected.
    pub uid: u32,
    /// Its effective group when it connected, and its supplementary groups.
    pub groups: Vec<u32>,
}

/// What was received as a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceivedLine {
    /// A line, without its end.
    Line(Vec<u8>),
    /// The line is longer than permitted.
    TooLong,
    /// The line was not complete in time, or the other end was closed before its end.
    Incomplete,
}

/// A connection at which a request arrives.
#[derive(Debug)]
pub struct OperatorConnection {
    socket: OwnedFd,
}

impl OperatorConnection {
    /// The connection on standard input.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn standard_input() -> io::Result<OperatorConnection> {
        let socket = io::stdin().as_fd().try_clone_to_owned()?;
        Ok(OperatorConnection { socket })
    }

    /// A connection for tests.
    #[must_use]
    pub fn of_stream(stream: UnixStream) -> OperatorConnection {
        OperatorConnection { socket: stream.into() }
    }

    /// Finds the calling process. The kernel stored this when the other end connected.
    ///
    /// # Errors
    /// It is no Unix socket (ENOTSOCK, EOPNOTSUPP), the process has ended (ESRCH), or it is in
    /// another PID namespace (without an error number).
    pub fn peer(&self) -> io::Result<SocketPeer> {
        let socket = self.socket.as_fd();
        let mut credentials = [0; 3];
        read_option(socket, libc::SO_PEERCRED, &mut credentials)?;
        let [pid, uid, gid] = credentials;
        // A process of another PID namespace has the number 0 here.
        let foreign = || io::Error::other("the process is in another PID namespace");
        let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0).ok_or_else(foreign)?;
        let mut groups = vec![0; GROUPS_MAX];
        let count = read_option(socket, libc::SO_PEERGROUPS, &mut groups)?;
        groups.truncate(count);
        groups.push(gid);
        Ok(SocketPeer { process: find_process(socket, pid)?, uid, groups })
    }

    /// Receives one line of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn receive(&self, bytes_max: usize, timeout: Duration) -> io::Result<ReceivedLine> {
        let until = Instant::now() + timeout;
        let mut line = Vec::new();
        let mut chunk = [0; 512];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(ReceivedLine::Incomplete);
            }
            match wait_for_input(&self.socket, left) {
                Ok(events) if events.is_empty() => return Ok(ReceivedLine::Incomplete),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                answer => drop(answer?),
            }
            let (received, _) =
                retry_on_intr(|| recv(&self.socket, &mut chunk, RecvFlags::DONTWAIT))?;
            let received = chunk.get(..received).unwrap_or_default();
            match received.iter().position(|byte| *byte == b'\n') {
                Some(end) => line.extend(received.iter().take(end)),
                None => line.extend(received),
            }
            if line.len() > bytes_max {
                return Ok(ReceivedLine::TooLong);
            }
            if received.contains(&b'\n') {
                return Ok(ReceivedLine::Line(line));
            }
            if received.is_empty() {
                return Ok(ReceivedLine::Incomplete);
            }
        }
    }

    /// Sends an answer. The other end may be gone already.
    ///
    /// # Errors
    /// The kernel's error; EAGAIN if the other end does not read.
    pub fn answer(&self, line: &str) -> io::Result<()> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        retry_on_intr(|| send(&self.socket, line.as_bytes(), flags))?;
        Ok(())
    }
}

/// The process that connected (`SO_PEERPIDFD`, 6.5). Before that it is found by its number, which
/// may belong to another process when the first one has ended. So the caller compares its user.
fn find_process(socket: BorrowedFd<'_>, pid: i32) -> io::Result<ProcessHandle> {
    let mut pidfd = [0];
    let found = match read_option(socket, libc::SO_PEERPIDFD, &mut pidfd) {
        Ok(_) => {
            let [pidfd] = pidfd.map(u32::cast_signed);
            // SAFETY: the kernel has just made this descriptor for this process, and nothing else
            // knows it.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(ProcessHandle::of_descriptor(pid, pidfd))
        }
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => ProcessHandle::open(pid),
        Err(error) => Err(error),
    };
    // The process has ended, and its number is free (EINVAL, `pidfd_prepare()`, kernel/fork.c,
    // 6.12; ESRCH later) or belongs to a thread of another process (EINVAL or ENOENT).
    found.map_err(|error| match error.raw_os_error() {
        Some(libc::EINVAL | libc::ENOENT) => Errno::SRCH.into(),
        _ => error,
    })
}

/// Reads an option of a socket into words of 32 bits. Returns their number.
fn read_option(
    socket: BorrowedFd<'_>,
    option: libc::c_int,
    words: &mut [u32],
) -> io::Result<usize> {
    let mut bytes = libc::socklen_t::try_from(size_of_val(words)).unwrap_or(libc::socklen_t::MAX);
    // SAFETY: the kernel writes at most `bytes` bytes, the size of `words`, and then the number of
    // written bytes.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            words.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    match answer {
        0 => Ok(bytes as usize / size_of::<u32>()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Host {
    /// Asks at a socket: sends one line, and returns the answer.
    ///
    /// # Errors
    /// The kernel's error: ENOENT without a socket, EACCES if this user may not connect.
    pub fn ask_at_socket(&self, path: &str, line: &str, timeout: Duration) -> Result<String> {
        let stream = UnixStream::connect(self.local_path(path));
        stream
            .and_then(|stream| exchange(stream, line, timeout))
            .map_err(|e| Error::io(Operation::Call, path, e))
    }

    /// Asks a program that answers on its standard input, which is a socket of this process.
    ///
    /// # Errors
    /// The program cannot be started, or it gives no answer.
    pub fn ask_program(&self, command: &[&str], line: &str, timeout: Duration) -> Result<String> {
        let words = command.join(" ");
        let failed = Error::on(Operation::Call, &words);
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let [program, arguments @ ..] = command else {
            return Err(Error::os(Operation::Call, &words, libc::ENOENT));
        };
        let theirs = Stdio::from(OwnedFd::from(theirs));
        let child = new_command(program)
            .args(arguments)
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut child = child.map_err(failed)?;
        let answer = exchange(ours, line, timeout).map_err(failed);
        // It ends when it has answered, or when this end is closed.
        child.wait().map_err(failed)?;
        answer
    }
}

fn exchange(stream: UnixStream, line: &str, timeout: Duration) -> io::Result<String> {
    stream.set_read_timeout(Some(timeout))?;
    retry_on_intr(|| send(&stream, line.as_bytes(), SendFlags::NOSIGNAL))?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    match answer.is_empty() {
        true => Err(io::ErrorKind::UnexpectedEof.into()),
        false => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::Shutdown;

    const SHORT: Duration = Duration::from_millis(50);

    fn pair() -> (UnixStream, OperatorConnection) {
        let (theirs, ours) = UnixStream::pair().unwrap();
        (theirs, OperatorConnection::of_stream(ours))
    }

    #[test]
    fn the_other_end_is_known_to_the_kernel() {
        let (_theirs, ours) = pair();
        let peer = ours.peer().unwrap();
        assert_eq!(u32::try_from(peer.process.pid()), Ok(std::process::id()));
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
        assert!(peer.groups.contains(&rustix::process::getegid().as_raw()));
        assert!(!peer.process.has_ended().unwrap());
    }

    #[test]
    fn a_line_is_received_whole_in_time_and_within_its_limit() {
        let received = |bytes: &[u8]| {
            let (mut theirs, ours) = pair();
            theirs.write_all(bytes).unwrap();
            ours.receive(8, SHORT).unwrap()
        };
        assert_eq!(received(b"12345678\n"), ReceivedLine::Line(b"12345678".to_vec()));
        assert_eq!(received(b"\nrest"), ReceivedLine::Line(Vec::new()));
        assert_eq!(received(b"123456789\n"), ReceivedLine::TooLong);
        assert_eq!(received(&[b'x'; 4096]), ReceivedLine::TooLong);
        assert_eq!(received(b"half"), ReceivedLine::Incomplete);
        assert_eq!(received(b""), ReceivedLine::Incomplete);
        let (mut theirs, ours) = pair();
        theirs.write_all(b"half").unwrap();
        theirs.shutdown(Shutdown::Write).unwrap();
        assert_eq!(ours.receive(8, Duration::from_secs(60)).unwrap(), ReceivedLine::Incomplete);
        // One that sends a byte from time to time does not get more time.
        let (mut theirs, ours) = pair();
        let slow = std::thread::spawn(move || {
            while theirs.write_all(b"x").is_ok() {
                std::thread::sleep(SHORT / 10);
            }
        });
        assert_eq!(ours.receive(4096, SHORT * 4).unwrap(), ReceivedLine::Incomplete);
        drop(ours);
        slow.join().unwrap();
    }

    #[test]
    fn an_answer_to_a_closed_end_is_an_error_and_no_signal() {
        let (theirs, ours) = pair();
        drop(theirs);
        assert!(ours.answer("{}\n").is_err());
    }

    #[test]
    fn a_program_that_gives_no_answer_is_an_error() {
        let host = Host::live();
        assert!(host.ask_program(&["true"], "{}\n", SHORT).is_err());
        assert!(host.ask_program(&["/nonexistent"], "{}\n", SHORT).is_err());
        assert!(host.ask_at_socket("/nonexistent", "{}\n", SHORT).unwrap_err().is_absent());
    }
}
