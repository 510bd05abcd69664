//! systemd is asked through `systemctl`, found by absolute path and run with an empty environment.

use crate::error::{Error, ErrorCause, Operation, Result};
use crate::host::Host;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Where distributions keep it; `PATH` is not asked.
const PLACES: &[&str] =
    &["/usr/bin/systemctl", "/bin/systemctl", "/run/current-system/sw/bin/systemctl"];

/// Where `systemctl set-property --runtime` keeps what it was told (systemd 240 and later).
const CONTROL: &str = "/run/systemd/system.control";

/// Where cgroup v2 is when systemd mounts it alone.
const TREE: &str = "/sys/fs/cgroup";

impl Host {
    /// Asks systemd to do something and waits until it is done. The words of an error are its own.
    ///
    /// # Errors
    /// There is no `systemctl`, or it ends with an error.
    pub fn systemctl(&self, words: &[&str]) -> Result<()> {
        let name = format!("systemctl {}", words.join(" "));
        self.before_write(Operation::Call, &name)?;
        if !self.is_live() {
            return self.simulate_systemctl(&name, words);
        }
        self.ask_systemd(&name, words).map(drop)
    }

    /// A property of a unit, as `systemctl show` tells it; nothing on a recorded machine.
    ///
    /// # Errors
    /// There is no `systemctl`, or it ends with an error.
    pub fn unit_property(&self, unit: &str, property: &str) -> Result<String> {
        if !self.is_live() {
            return Ok(String::new());
        }
        let words = ["show", "--value", "--property", property, unit];
        let said = self.ask_systemd(&format!("systemctl {}", words.join(" ")), &words)?;
        Ok(said.trim().to_owned())
    }

    fn ask_systemd(&self, name: &str, words: &[&str]) -> Result<String> {
        self.logged(Operation::Call, name, None, self.call_systemctl(name, words))
    }

    fn call_systemctl(&self, name: &str, words: &[&str]) -> Result<String> {
        let fail = |e| Error::io(Operation::Call, name, e);
        let place = PLACES.iter().find(|place| self.place(place).exists());
        let place = place.ok_or_else(|| Error::os(Operation::Call, name, libc::ENOENT))?;
        let mut command = Command::new(self.place(place));
        command
            .args(["--no-ask-password", "--no-pager", "--quiet"])
            .args(words)
            .env_clear()
            // A key at the terminal is for us: we take care that the request is taken back.
            .process_group(0)
            .stdin(Stdio::null());
        // SAFETY: prctl with these arguments takes no pointers and is async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                // Killed with us: a request that comes after the next undo would not be undone.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let output = command.output().map_err(fail)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let said = if said.is_empty() { output.status.to_string() } else { said };
        let path = name.to_owned();
        Err(Error { verb: Operation::Call, path, value: None, cause: ErrorCause::Said(said) })
    }

    /// Units that have failed, by name; none on a recorded machine.
    ///
    /// # Errors
    /// There is no `systemctl`, or it ends with an error.
    pub fn failed_units(&self) -> Result<Vec<String>> {
        if !self.is_live() {
            return Ok(Vec::new());
        }
        let words = ["list-units", "--state=failed", "--plain", "--no-legend"];
        let said = self.ask_systemd(&format!("systemctl {}", words.join(" ")), &words)?;
        let names = said.lines().filter_map(|line| line.split_whitespace().next());
        Ok(names.map(str::to_owned).collect())
    }

    /// What systemd does with a slice, as far as files show it.
    fn simulate_systemctl(&self, name: &str, words: &[&str]) -> Result<()> {
        let fail = |e| Error::io(Operation::Call, name, e);
        match words {
            ["set-property", "--runtime", unit, settings @ ..] => {
                let dir = self.place(&format!("{CONTROL}/{unit}.d"));
                fs::create_dir_all(&dir).map_err(fail)?;
                for setting in settings {
                    let key = setting.split('=').next().unwrap_or("");
                    let text = format!("[Slice]\n{setting}\n");
                    fs::write(dir.join(format!("50-{key}.conf")), text).map_err(fail)?;
                }
                Ok(())
            }
            ["start", unit] => self.simulate_slice(name, unit),
            ["stop", unit] => {
                let group = format!("{TREE}/{unit}");
                if self.place(&group).is_dir() {
                    self.simulate_remove_dir(&group)?;
                    fs::remove_dir(self.place(&group)).map_err(fail)?;
                }
                Ok(())
            }
            ["enable" | "disable", unit] => {
                self.simulate_link(words[0] == "enable", unit).map_err(fail)
            }
            ["daemon-reload"] => Ok(()),
            _ => Err(Error::os(Operation::Call, name, libc::EINVAL)),
        }
    }

    /// The links that `WantedBy=` of a unit asks for.
    fn simulate_link(&self, enable: bool, unit: &str) -> std::io::Result<()> {
        let dir = self.place("/etc/systemd/system");
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
        let fail = |e| Error::io(Operation::Call, name, e);
        self.simulate(&format!("{TREE}/cgroup.subtree_control"), "+cpuset")?;
        let group = format!("{TREE}/{unit}");
        if !self.place(&group).is_dir() {
            fs::create_dir(self.place(&group)).map_err(fail)?;
            self.simulate_make_dir(&group)?;
        }
        for (key, file) in [("AllowedCPUs", "cpus"), ("AllowedMemoryNodes", "mems")] {
            let conf = self.place(&format!("{CONTROL}/{unit}.d/50-{key}.conf"));
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
    fn an_error_is_in_the_words_of_systemd() {
        let error = Error {
            verb: Operation::Call,
            path: "systemctl start x.slice".to_owned(),
            value: None,
            cause: ErrorCause::Said("Unit x.slice is masked.".to_owned()),
        };
        assert_eq!(
            error.to_string(),
            "cannot call systemctl start x.slice: Unit x.slice is masked."
        );
    }
}
