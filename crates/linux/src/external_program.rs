//! Programs of others that work beside a measurement: started, looked at, ended. They end when the
//! thread that started them does, however that ends.
//!
//! Elsewhere: which programs, and what their words mean.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

/// A file in memory that another process finds by a path.
#[derive(Debug)]
pub struct MemoryFile(File);

impl MemoryFile {
    /// An empty one.
    ///
    /// # Errors
    /// No memory.
    pub fn new() -> io::Result<MemoryFile> {
        // SAFETY: the name is a C string that lives through the call.
        let fd = unsafe { libc::memfd_create(c"cpushield".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor with no other owner.
        Ok(MemoryFile(unsafe { File::from_raw_fd(fd) }))
    }

    /// The path, while this process lives.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// What was written there.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn text(&mut self) -> io::Result<String> {
        self.0.seek(SeekFrom::Start(0))?;
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// A program at work.
#[derive(Debug)]
pub struct ExternalProgram {
    child: Child,
    said: MemoryFile,
}

impl ExternalProgram {
    /// Starts a program; the name is looked up in `PATH`. It gets this signal when the calling
    /// thread ends, and is killed when the value is dropped. What it prints is kept.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(words: &[OsString], signal: i32) -> io::Result<ExternalProgram> {
        let absent = || io::Error::from_raw_os_error(libc::ENOENT);
        let (program, arguments) = words.split_first().ok_or_else(absent)?;
        let said = MemoryFile::new()?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        command.stdout(said.0.try_clone()?).stderr(said.0.try_clone()?);
        let signal = libc::c_ulong::try_from(signal).unwrap_or(0);
        let die_with_parent = move || {
            // SAFETY: this operation takes a number and no pointers.
            match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        // SAFETY: between fork and exec it makes one system call and allocates nothing.
        unsafe { command.pre_exec(die_with_parent) };
        Ok(ExternalProgram { child: command.spawn()?, said })
    }

    /// Its process number.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(i32::MAX)
    }

    /// Waits for its end, and gives what it printed.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn wait(mut self) -> io::Result<(ExitStatus, String)> {
        let status = self.child.wait()?;
        Ok((status, self.said.text()?))
    }
}

impl Drop for ExternalProgram {
    fn drop(&mut self) {
        // It is our child: when it was waited for, the library knows and sends nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;
    use std::time::Duration;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn what_it_prints_and_writes_to_a_sheet_is_kept() {
        let mut sheet = MemoryFile::new().unwrap();
        let script = format!("echo said; echo written > {}; exit 3", sheet.path());
        let hired = ExternalProgram::start(&words(&["sh", "-c", &script]), libc::SIGKILL).unwrap();
        let (status, said) = hired.wait().unwrap();
        assert_eq!((status.code(), said.as_str()), (Some(3), "said\n"));
        assert_eq!(sheet.text().unwrap(), "written\n");
        assert!(ExternalProgram::start(&words(&["cpushield-no-such-program"]), 9).is_err());
    }

    #[test]
    fn it_ends_with_the_thread_that_started_it() {
        let start = || ExternalProgram::start(&words(&["sleep", "1000"]), libc::SIGKILL).unwrap();
        let hired = std::thread::spawn(start).join().unwrap();
        assert!(process::wait_for_end(hired.pid(), Duration::from_secs(10)).unwrap());
        let hired = start();
        let pid = hired.pid();
        drop(hired);
        assert!(process::wait_for_end(pid, Duration::ZERO).unwrap());
    }
}
