//! Running programs of the distribution, such as `grub-mkconfig` and `grubby`. They are found in
//! the directories of the distribution. Their output is returned, not shown.

use super::command_output::CommandOutput;
use crate::error::{Error, ErrorCause, Operation, Result};
use crate::host::Host;
use crate::processes::open_files::new_command;
use std::io::Write;
use std::process::Stdio;

/// The directories of distributions; `PATH` of the caller is not searched.
const DIRS: &[&str] = &["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The `PATH` that a program gets: scripts of boot loaders call others by name.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl Host {
    /// The path of a program; `None` if the machine has none of that name.
    #[must_use]
    pub fn program(&self, name: &str) -> Option<String> {
        DIRS.iter().map(|dir| format!("{dir}/{name}")).find(|path| self.is_executable(path))
    }

    fn is_executable(&self, path: &str) -> bool {
        self.files.is_dir(path) == Some(false)
            && self.files.access(path).is_ok_and(|access| access.mode & 0o111 != 0)
    }

    /// Runs a program that changes nothing, and returns its output.
    ///
    /// # Errors
    /// There is no such program, it cannot be started, or its exit status is not 0.
    pub fn query_program(&self, words: &[&str], input: &[u8]) -> Result<CommandOutput> {
        let answer = self.run_to_success(words, input);
        self.log_result(Operation::Call, &words.join(" "), None, answer)
    }

    fn run_to_success(&self, words: &[&str], input: &[u8]) -> Result<CommandOutput> {
        let name = words.join(" ");
        let output =
            self.answer_program(words, input).map_err(Error::on(Operation::Call, &name))?;
        if output.status == Some(0) {
            return Ok(output);
        }
        let last = output.err.lines().rfind(|line| !line.trim().is_empty());
        let status = output.status.map_or("killed".to_owned(), |status| format!("status {status}"));
        let message = last.map_or(status.clone(), |line| format!("{status}: {line}"));
        let cause = ErrorCause::Message(message);
        Err(Error { verb: Operation::Call, path: name, value: None, cause })
    }

    /// Runs a program that changes the machine.
    ///
    /// # Errors
    /// As [`Host::query_program`].
    pub fn run_program(&self, words: &[&str]) -> Result<CommandOutput> {
        self.before_write(Operation::Call, &words.join(" "))?;
        self.query_program(words, b"")
    }

    /// Runs a program. A recorded machine has none but those that a test simulates: nothing from a
    /// recording is ever run.
    fn answer_program(&self, words: &[&str], input: &[u8]) -> std::io::Result<CommandOutput> {
        if self.is_live() {
            return self.spawn_and_wait(words, input);
        }
        let output = self.kernel.as_ref().and_then(|kernel| kernel.run(self, words, input));
        output.ok_or_else(|| std::io::Error::from_raw_os_error(libc::ENOENT))
    }

    fn spawn_and_wait(&self, words: &[&str], input: &[u8]) -> std::io::Result<CommandOutput> {
        let (name, arguments) = words.split_first().unwrap_or((&"", &[]));
        let path =
            self.program(name).ok_or_else(|| std::io::Error::from_raw_os_error(libc::ENOENT))?;
        let mut child = new_command(path)
            .args(arguments)
            .env("PATH", PATH)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut stdin = child.stdin.take();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || {
            // A program that does not read its input closes it; that is not an error.
            stdin.as_mut().map(|stdin| stdin.write_all(&input))
        });
        let output = child.wait_with_output()?;
        let _ = writer.join();
        Ok(CommandOutput {
            status: output.status.code(),
            out: output.stdout,
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}
