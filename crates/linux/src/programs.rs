//! Programs of the distribution that this project asks for something: `grub-mkconfig`, `grubby`.
//! They are found where distributions keep them, and what they print is taken, not shown.

use crate::error::{Error, ErrorCause, Operation, Result};
use crate::host::Host;
use std::fmt;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Where distributions keep them; `PATH` of whoever calls is not asked.
const DIRS: &[&str] = &["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The `PATH` that a program gets: boot loader scripts call others by name.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What a program said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandOutput {
    /// Its exit status; `None` when a signal ended it.
    pub status: Option<i32>,
    /// Standard output.
    pub out: Vec<u8>,
    /// Standard error, as text.
    pub err: String,
}

/// How a test answers for the programs of a recorded machine: from its root, the words and the
/// input; `None` when there is no such program.
type FakeAnswer = dyn Fn(&Path, &[&str], &[u8]) -> Option<CommandOutput> + Send + Sync;

/// The programs of a recorded machine.
#[derive(Clone, Default)]
pub(crate) struct FakePrograms(Option<Arc<FakeAnswer>>);

impl fmt::Debug for FakePrograms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Answers({})", if self.0.is_some() { "by a test" } else { "none" })
    }
}

impl Host {
    /// The same recorded machine with programs that a test answers for. Without it there are none:
    /// nothing of a recording is ever run.
    #[must_use]
    pub fn with_programs(
        mut self,
        answer: impl Fn(&Path, &[&str], &[u8]) -> Option<CommandOutput> + Send + Sync + 'static,
    ) -> Host {
        self.answers = FakePrograms(Some(Arc::new(answer)));
        self
    }

    /// Where a program is; `None` when the machine has none of that name.
    #[must_use]
    pub fn program(&self, name: &str) -> Option<String> {
        let runs = |path: &String| {
            let found = std::fs::metadata(self.place(path));
            found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        DIRS.iter().map(|dir| format!("{dir}/{name}")).find(runs)
    }

    /// Runs a program that only looks, and takes what it says.
    ///
    /// # Errors
    /// There is no such program, or it cannot be started or ends with another status than 0.
    pub fn consult(&self, words: &[&str], input: &[u8]) -> Result<CommandOutput> {
        let answer = self.run_program(words, input);
        self.logged(Operation::Call, &words.join(" "), None, answer)
    }

    fn run_program(&self, words: &[&str], input: &[u8]) -> Result<CommandOutput> {
        let called = words.join(" ");
        let fail =
            |cause| Error { verb: Operation::Call, path: called.clone(), value: None, cause };
        let said = if self.is_live() {
            self.call(words, input).map_err(|e| fail(ErrorCause::Io(e)))?
        } else {
            let absent = || Error::os(Operation::Call, &called, libc::ENOENT);
            let answer = self.answers.0.as_ref().ok_or_else(absent)?;
            answer(&self.place("/"), words, input).ok_or_else(absent)?
        };
        if said.status == Some(0) {
            return Ok(said);
        }
        let last = said.err.lines().rfind(|line| !line.trim().is_empty());
        let status = said.status.map_or("killed".to_owned(), |status| format!("status {status}"));
        Err(fail(ErrorCause::Said(last.map_or(status.clone(), |line| format!("{status}: {line}")))))
    }

    /// Runs a program that changes the machine.
    ///
    /// # Errors
    /// As [`Host::consult`].
    pub fn order(&self, words: &[&str]) -> Result<CommandOutput> {
        self.before_write(Operation::Call, &words.join(" "))?;
        self.consult(words, b"")
    }

    fn call(&self, words: &[&str], input: &[u8]) -> std::io::Result<CommandOutput> {
        let (name, arguments) = words.split_first().unwrap_or((&"", &[]));
        let absent = || std::io::Error::from_raw_os_error(libc::ENOENT);
        let place = self.program(name).ok_or_else(absent)?;
        let mut child = Command::new(place)
            .args(arguments)
            .env("PATH", PATH)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut stdin = child.stdin.take();
        let input = input.to_vec();
        let feeder = std::thread::spawn(move || {
            // A program that does not read its input has closed it: that is its right.
            stdin.as_mut().map(|stdin| stdin.write_all(&input))
        });
        let output = child.wait_with_output()?;
        let _ = feeder.join();
        Ok(CommandOutput {
            status: output.status.code(),
            out: output.stdout,
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}
