//! Requests to systemd by `systemctl`, found by absolute path and run with an empty environment.

use crate::error::{Error, ErrorCause, Operation, Result};
use crate::host::Host;
use crate::processes::open_files::new_command;
use crate::processes::process::signal_at_parent_death;
use rustix::process::Signal;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

/// Where distributions install it; `PATH` is not searched.
const PLACES: &[&str] =
    &["/usr/bin/systemctl", "/bin/systemctl", "/run/current-system/sw/bin/systemctl"];

/// The target that every shutdown and reboot starts (systemd.special(7)).
const SHUTDOWN: &str = "shutdown.target";

/// Whether a unit has a job, or is active. `systemctl show` prints the number of the job, and an
/// empty line or 0 without one.
fn is_pending(job: &str, state: &str) -> bool {
    !matches!(job, "" | "0") || matches!(state, "active" | "activating" | "reloading")
}

impl Host {
    /// Runs a `systemctl` command that changes the machine, and waits for it. The message of an
    /// error is that of `systemctl`.
    ///
    /// # Errors
    /// There is no `systemctl`, or it fails.
    pub fn systemctl(&self, words: &[&str]) -> Result<()> {
        let name = format!("systemctl {}", words.join(" "));
        self.before_write(Operation::Call, &name)?;
        if let Some(kernel) = &self.kernel {
            return kernel.systemctl(self, &name, words);
        }
        self.run_systemctl(&name, words).map(drop)
    }

    /// A property of a unit, as `systemctl show` prints it; empty on a recorded machine.
    ///
    /// # Errors
    /// There is no `systemctl`, or it fails.
    pub fn unit_property(&self, unit: &str, property: &str) -> Result<String> {
        if !self.is_live() {
            return Ok(String::new());
        }
        let words = ["show", "--value", "--property", property, unit];
        let printed = self.run_systemctl(&format!("systemctl {}", words.join(" ")), &words)?;
        Ok(printed.trim().to_owned())
    }

    /// Whether systemd is PID 1 (sd_booted(3)).
    #[must_use]
    pub fn has_systemd(&self) -> bool {
        self.exists("/run/systemd/system")
    }

    /// Whether systemd shuts the system down: `shutdown.target` has a job or is active, as in
    /// `manager_state()` (src/core/manager.c). That function itself reports `starting` until the
    /// boot is finished. A machine without systemd does not.
    ///
    /// # Errors
    /// There is no `systemctl`, or it fails.
    pub fn systemd_shuts_down(&self) -> Result<bool> {
        if !self.has_systemd() {
            return Ok(false);
        }
        let job = self.unit_property(SHUTDOWN, "Job")?;
        let state = self.unit_property(SHUTDOWN, "ActiveState")?;
        Ok(is_pending(&job, &state))
    }

    fn run_systemctl(&self, name: &str, words: &[&str]) -> Result<String> {
        self.log_result(Operation::Call, name, None, self.call_systemctl(name, words))
    }

    fn call_systemctl(&self, name: &str, words: &[&str]) -> Result<String> {
        let path = PLACES.iter().find(|path| self.local_path(path).exists());
        let path = path.ok_or_else(|| Error::os(Operation::Call, name, libc::ENOENT))?;
        let mut command = new_command(self.local_path(path));
        command
            .args(["--no-ask-password", "--no-pager", "--quiet"])
            .args(words)
            .env_clear()
            // Ctrl-C at the terminal is for this program, which takes the request back.
            .process_group(0)
            .stdin(Stdio::null());
        // Killed together with this program: a request that came later would not be undone.
        signal_at_parent_death(&mut command, Signal::KILL);
        let output = command.output().map_err(Error::on(Operation::Call, name))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let message = if message.is_empty() { output.status.to_string() } else { message };
        let (verb, path) = (Operation::Call, name.to_owned());
        Err(Error { verb, path, value: None, cause: ErrorCause::Message(message) })
    }

    /// The names of failed units; none on a recorded machine.
    ///
    /// # Errors
    /// There is no `systemctl`, or it fails.
    pub fn failed_units(&self) -> Result<Vec<String>> {
        if !self.is_live() {
            return Ok(Vec::new());
        }
        let words = ["list-units", "--state=failed", "--plain", "--no-legend"];
        let printed = self.run_systemctl(&format!("systemctl {}", words.join(" ")), &words)?;
        let names = printed.lines().filter_map(|line| line.split_whitespace().next());
        Ok(names.map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_with_a_job_or_active_is_pending() {
        assert!(is_pending("1821", "inactive") && is_pending("", "active"));
        assert!(!is_pending("", "inactive") && !is_pending("0", "inactive"));
    }

    #[test]
    fn an_error_has_the_message_of_systemctl() {
        let error = Error {
            verb: Operation::Call,
            path: "systemctl start x.slice".to_owned(),
            value: None,
            cause: ErrorCause::Message("Unit x.slice is masked.".to_owned()),
        };
        assert_eq!(
            error.to_string(),
            "cannot call systemctl start x.slice: Unit x.slice is masked."
        );
    }
}
