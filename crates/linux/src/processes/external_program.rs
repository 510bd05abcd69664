//! External programs that run during a measurement: started, observed, ended. They end with the
//! thread that started them, however that ends.
//!
//! Elsewhere: which programs, and what their output means.

use crate::processes::open_files::new_command;
use crate::processes::process::signal_at_parent_death;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::process::Signal;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::process::{Child, ExitStatus, Stdio};

/// A file in memory that another process opens by a path.
#[derive(Debug)]
pub struct MemoryFile(File);

impl MemoryFile {
    /// Creates an empty file.
    ///
    /// # Errors
    /// No memory.
    pub fn new() -> io::Result<MemoryFile> {
        Ok(MemoryFile(memfd_create(c"cpushield", MemfdFlags::CLOEXEC)?.into()))
    }

    /// Its path, which is valid while this process lives.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Reads the text of the file.
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

/// A running program.
#[derive(Debug)]
pub struct ExternalProgram {
    child: Child,
    output: MemoryFile,
}

impl ExternalProgram {
    /// Starts a program; its name is looked up in `PATH`. It gets `signal` when the calling thread
    /// ends, and is killed when the value is dropped. Its output is stored.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(words: &[OsString], signal: i32) -> io::Result<ExternalProgram> {
        let (program, arguments) =
            words.split_first().ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
        let output = MemoryFile::new()?;
        let mut command = new_command(program);
        command.args(arguments).stdin(Stdio::null());
        command.stdout(output.0.try_clone()?).stderr(output.0.try_clone()?);
        let signal = Signal::from_named_raw(signal).ok_or(Errno::INVAL)?;
        signal_at_parent_death(&mut command, signal);
        Ok(ExternalProgram { child: command.spawn()?, output })
    }

    /// Its process ID.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(i32::MAX)
    }

    /// Waits for its end. Returns its status and output.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn wait(mut self) -> io::Result<(ExitStatus, String)> {
        let status = self.child.wait()?;
        Ok((status, self.output.text()?))
    }
}

impl Drop for ExternalProgram {
    fn drop(&mut self) {
        // If the child was waited for, the standard library knows it and sends no signal.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::process_handle::ProcessHandle;
    use std::time::Duration;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn output_and_a_memory_file_are_read_back() {
        let mut file = MemoryFile::new().unwrap();
        let script = format!("echo printed; echo written > {}; exit 3", file.path());
        let program =
            ExternalProgram::start(&words(&["sh", "-c", &script]), libc::SIGKILL).unwrap();
        let (status, output) = program.wait().unwrap();
        assert_eq!((status.code(), output.as_str()), (Some(3), "printed\n"));
        assert_eq!(file.text().unwrap(), "written\n");
        assert!(ExternalProgram::start(&words(&["cpushield-no-such-program"]), 9).is_err());
    }

    #[test]
    fn a_program_ends_with_the_thread_that_started_it() {
        let start = || ExternalProgram::start(&words(&["sleep", "1000"]), libc::SIGKILL).unwrap();
        let program = std::thread::spawn(start).join().unwrap();
        let handle = ProcessHandle::open(program.pid()).unwrap();
        assert!(handle.wait_for_end(Duration::from_secs(10)).unwrap());
        let program = start();
        let pid = program.pid();
        drop(program);
        assert_eq!(ProcessHandle::open(pid).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
