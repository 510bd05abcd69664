//! External programs that run during a measurement: started, observed, ended. They end with the
//! thread that started them, however that ends.
//!
//! Elsewhere: which programs, and what their output means.

use crate::processes::open_files::new_command;
use crate::processes::process::signal_at_parent_death;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::Signal;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::process::{Child, ExitStatus, Stdio};

/// A running program.
#[derive(Debug)]
pub struct ExternalProgram {
    child: Child,
    output: File,
}

impl ExternalProgram {
    /// Starts a program; its name is looked up in `PATH`. It gets SIGTERM when the calling
    /// thread ends, and is killed when the value is dropped. Its output is stored.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(words: &[OsString]) -> io::Result<ExternalProgram> {
        let (program, arguments) =
            words.split_first().ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
        let output = File::from(memfd_create(c"cpushield", MemfdFlags::CLOEXEC)?);
        let mut command = new_command(program);
        command.args(arguments).stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output.try_clone()?);
        signal_at_parent_death(&mut command, Signal::TERM);
        Ok(ExternalProgram { child: command.spawn()?, output })
    }

    /// Waits for its end. Returns its status and output.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn wait(mut self) -> io::Result<(ExitStatus, String)> {
        let status = self.child.wait()?;
        self.output.seek(SeekFrom::Start(0))?;
        let mut bytes = Vec::new();
        self.output.read_to_end(&mut bytes)?;
        Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
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
    fn the_output_is_read_back() {
        let script = "echo printed; exit 3";
        let program = ExternalProgram::start(&words(&["sh", "-c", script])).unwrap();
        let (status, output) = program.wait().unwrap();
        assert_eq!((status.code(), output.as_str()), (Some(3), "printed\n"));
        assert!(ExternalProgram::start(&words(&["cpushield-no-such-program"])).is_err());
    }

    #[test]
    fn a_program_ends_with_the_thread_that_started_it() {
        let start = || ExternalProgram::start(&words(&["sleep", "1000"])).unwrap();
        let pid = |program: &ExternalProgram| i32::try_from(program.child.id()).unwrap();
        let program = std::thread::spawn(start).join().unwrap();
        let handle = ProcessHandle::open(pid(&program)).unwrap();
        assert!(handle.wait_for_end(Duration::from_secs(10)).unwrap());
        let program = start();
        let pid = pid(&program);
        drop(program);
        assert_eq!(ProcessHandle::open(pid).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
