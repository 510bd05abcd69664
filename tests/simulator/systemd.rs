//! What systemd does at the request of `systemctl`, as far as files show it.

use crate::SimulatedMachine;
use cpushield_linux::errno;
use cpushield_linux::error::{Error, Operation, Result};
use std::fs;

/// Where `systemctl set-property --runtime` stores settings (systemd 240 and later).
const CONTROL: &str = "/run/systemd/system.control";

/// Where cgroup v2 is if systemd mounts it alone.
const TREE: &str = "/sys/fs/cgroup";

impl SimulatedMachine<'_> {
    /// Simulates a `systemctl` command.
    pub(crate) fn systemctl(&self, name: &str, words: &[&str]) -> Result<()> {
        let failed = Error::on(Operation::Call, name);
        match words {
            ["set-property", "--runtime", unit, settings @ ..] => {
                let dir = format!("{CONTROL}/{unit}.d");
                self.make_dirs(&dir)?;
                for setting in settings {
                    let key = setting.split('=').next().unwrap_or("");
                    let text = format!("[Slice]\n{setting}\n");
                    self.set_text(&format!("{dir}/50-{key}.conf"), &text)?;
                }
                match self.is_dir(&format!("{TREE}/{unit}")) {
                    true => self.simulate_slice(name, unit),
                    false => Ok(()),
                }
            }
            ["start", unit] => self.simulate_slice(name, unit),
            ["stop", unit] => {
                let group = format!("{TREE}/{unit}");
                if self.is_dir(&group) {
                    self.empty_dir(&group)?;
                    self.files.remove_dir(&group).map_err(failed)?;
                }
                Ok(())
            }
            ["enable" | "disable", unit] | ["enable" | "disable", "--now", unit] => {
                self.simulate_link(words[0] == "enable", unit).map_err(failed)
            }
            ["daemon-reload"] => Ok(()),
            _ => Err(Error::os(Operation::Call, name, errno::EINVAL)),
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
                match std::os::unix::fs::symlink(format!("../{unit}"), wants.join(unit)) {
                    Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                    made => made?,
                }
            } else {
                fs::remove_file(wants.join(unit))?;
                let _ = fs::remove_dir(&wants);
            }
        }
        Ok(())
    }

    fn simulate_slice(&self, name: &str, unit: &str) -> Result<()> {
        self.write(&format!("{TREE}/cgroup.subtree_control"), "+cpuset")?;
        let group = format!("{TREE}/{unit}");
        if !self.is_dir(&group) {
            self.files.make_dir(&group).map_err(Error::on(Operation::Call, name))?;
            self.fill_dir(&group)?;
        }
        for (key, file) in [("AllowedCPUs", "cpus"), ("AllowedMemoryNodes", "mems")] {
            let conf = format!("{CONTROL}/{unit}.d/50-{key}.conf");
            let text = self.text(&conf).unwrap_or_default();
            let value = text.split_once('=').map(|(_, value)| value.trim()).unwrap_or_default();
            self.write(&format!("{group}/cpuset.{file}"), value)?;
        }
        Ok(())
    }
}
