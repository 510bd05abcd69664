//! Requests to systemd by `systemctl`, found by absolute path and run with an empty environment.

use crate::error::{Error, ErrorCause, Operation, Result};
use crate::host::Host;
use crate::process::signal_at_parent_death;
use rustix::process::Signal;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Where distributions install it; `PATH` is not searched.
const PLACES: &[&str] =
    &["/usr/bin/systemctl", "/bin/systemctl", "/run/current-system/sw/bin/systemctl"];

/// Where `systemctl set-property --runtime` stores settings (systemd 240 and later).
const CONTROL: &str = "/run/systemd/system.control";

/// Where cgroup v2 is if systemd mounts it alone.
const TREE: &str = "/sys/fs/cgroup";

impl Host {
    /// Runs a `systemctl` command that changes the machine, and waits for it. The message of an
    /// error is that of `systemctl`.
    ///
    /// # Errors
    /// There is no `systemctl`, or it fails.
    pub fn systemctl(&self, words: &[&str]) -> Result<()> {
        let name = format!("systemctl {}", words.join(" "));
        self.before_write(Operation::Call, &name)?;
        if !self.is_live() {
            return self.simulate_systemctl(&name, words);
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

    fn run_systemctl(&self, name: &str, words: &[&str]) -> Result<String> {
        self.log_result(Operation::Call, name, None, self.call_systemctl(name, words))
    }

    fn call_systemctl(&self, name: &str, words: &[&str]) -> Result<String> {
        let path = PLACES.iter().find(|path| self.local_path(path).exists());
        let path = path.ok_or_else(|| Error::os(Operation::Call, name, libc::ENOENT))?;
        let mut command = Command::new(self.local_path(path));
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

    /// Simulates what systemd does with a slice, as far as files show it.
    fn simulate_systemctl(&self, name: &str, words: &[&str]) -> Result<()> {
        let failed = Error::on(Operation::Call, name);
        match words {
            ["set-property", "--runtime", unit, settings @ ..] => {
                let dir = self.local_path(&format!("{CONTROL}/{unit}.d"));
                fs::create_dir_all(&dir).map_err(failed)?;
                for setting in settings {
                    let key = setting.split('=').next().unwrap_or("");
                    let text = format!("[Slice]\n{setting}\n");
                    fs::write(dir.join(format!("50-{key}.conf")), text).map_err(failed)?;
                }
                Ok(())
            }
            ["start", unit] => self.simulate_slice(name, unit),
            ["stop", unit] => {
                let group = format!("{TREE}/{unit}");
                if self.local_path(&group).is_dir() {
                    self.simulate_remove_dir(&group)?;
                    fs::remove_dir(self.local_path(&group)).map_err(failed)?;
                }
                Ok(())
            }
            ["enable" | "disable", unit] => {
                self.simulate_link(words[0] == "enable", unit).map_err(failed)
            }
            ["daemon-reload"] => Ok(()),
            _ => Err(Error::os(Operation::Call, name, libc::EINVAL)),
        }
    }

    /// Creates or removes the links for `WantedBy=` of a unit.
    fn simulate_link(&self, enable: bool, unit: &str) -> std::io::Result<()> {
        let dir = self.local_path("/etc/systemd/system");
        let text = fs::read_to_string(dir.join(unit))?;
        for target in text.lines().filter_map(|line| line.strip_prefix("WantedBy=")) {
            let wants = dir.join(format!("{target}.wants"));
            if enable {
                fs::create_dir_all(&wants)?;
                std::os::unix::fs::symlink(format!("../{unit}"), wants.join(unit))?;
            } else {
                fs::remove_file(wants.join(unit))?;
                let _ = fs::remove_dir(&wants);
            }
        }
        Ok(())
    }

    fn simulate_slice(&self, name: &str, unit: &str) -> Result<()> {
        self.simulate(&format!("{TREE}/cgroup.subtree_control"), "+cpuset")?;
        let group = format!("{TREE}/{unit}");
        if !self.local_path(&group).is_dir() {
            fs::create_dir(self.local_path(&group)).map_err(Error::on(Operation::Call, name))?;
            self.simulate_make_dir(&group)?;
        }
        for (key, file) in [("AllowedCPUs", "cpus"), ("AllowedMemoryNodes", "mems")] {
            let conf = self.local_path(&format!("{CONTROL}/{unit}.d/50-{key}.conf"));
            let text = fs::read_to_string(conf).unwrap_or_default();
            let value = text.split_once('=').map(|(_, value)| value.trim()).unwrap_or_default();
            self.simulate(&format!("{group}/cpuset.{file}"), value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
