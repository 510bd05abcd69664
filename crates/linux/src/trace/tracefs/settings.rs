//! The settings that decide which events a [`TraceInstance`] records, as text. They are read when
//! the instance is armed and again at the end, so that a change in between is noticed.

use super::TraceInstance;
use crate::cpuset::CpuSet;
use crate::error::Result;
use crate::tracefs::InstanceWatch;

/// Files of the instance itself. `set_event_notrace_pid` exists since 5.8 (commit 2768362603018),
/// `buffer_subbuf_size_kb` since 6.8 (commit 2808e31ec12e).
const FILES: &[&str] = &[
    "tracing_on",
    "tracing_cpumask",
    "trace_clock",
    "current_tracer",
    "set_event_pid",
    "set_event_notrace_pid",
    "buffer_subbuf_size_kb",
];

/// Files of each event.
const EVENT_FILES: &[&str] = &["enable", "filter", "trigger"];

/// One line of a control file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlSetting {
    /// The path below the instance's directory.
    pub file: String,
    /// Its text, or one line of it; `None` if the kernel does not have the file.
    pub text: Option<String>,
}

impl TraceInstance<'_> {
    /// The settings that apply to these CPUs and events. Affects no other CPU.
    #[must_use]
    pub fn settings(&self, cpus: &CpuSet, events: &[(&str, &str)]) -> Vec<ControlSetting> {
        let mut files: Vec<String> = FILES.iter().map(|file| (*file).to_owned()).collect();
        files.extend(cpus.iter().map(|cpu| format!("per_cpu/cpu{cpu}/buffer_size_kb")));
        for (system, event) in events {
            files.extend(EVENT_FILES.iter().map(|file| format!("events/{system}/{event}/{file}")));
        }
        let mut settings: Vec<ControlSetting> =
            files.into_iter().map(|file| self.setting(file)).collect();
        // One option per line.
        let options = self.host.read(&self.path("trace_options")).unwrap_or_default();
        settings.extend(options.lines().map(|option| ControlSetting {
            file: format!("options/{}", option.strip_prefix("no").unwrap_or(option)),
            text: Some(option.to_owned()),
        }));
        settings
    }

    fn setting(&self, file: String) -> ControlSetting {
        let text = self.host.read(&self.path(&file)).ok();
        ControlSetting { file, text: text.map(|text| text.trim().to_owned()) }
    }

    /// Starts to watch the files that decide what is recorded of these CPUs and events.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn watch_files(&self, cpus: &CpuSet, events: &[(&str, &str)]) -> Result<InstanceWatch> {
        let mut dirs = vec![String::new(), "events".to_owned()];
        dirs.extend(cpus.iter().map(|cpu| format!("per_cpu/cpu{cpu}")));
        for (system, event) in events {
            let system = format!("events/{system}");
            dirs.push(format!("{system}/{event}"));
            dirs.push(system);
        }
        if self.host.exists(&self.path("options")) {
            dirs.push("options".to_owned());
        }
        dirs.sort_unstable();
        dirs.dedup();
        InstanceWatch::start(self.host, &self.dir, &dirs)
    }
}

/// The armed settings that have changed, each with its text now.
#[must_use]
pub fn changed_settings(
    armed: &[ControlSetting],
    now: &[ControlSetting],
) -> Vec<(ControlSetting, Option<String>)> {
    let mut changed = Vec::new();
    for setting in armed {
        let found = now.iter().find(|known| known.file == setting.file);
        let text = found.and_then(|found| found.text.clone());
        if text != setting.text {
            changed.push((setting.clone(), text));
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_differs_or_disappeared_is_reported_with_both_texts() {
        let setting = |file: &str, text: Option<&str>| ControlSetting {
            file: file.to_owned(),
            text: text.map(str::to_owned),
        };
        let armed =
            [setting("tracing_on", Some("1")), setting("options/overwrite", Some("overwrite"))];
        assert_eq!(changed_settings(&armed, &armed), []);
        let now = [setting("tracing_on", Some("0"))];
        assert_eq!(
            changed_settings(&armed, &now),
            [(armed[0].clone(), Some("0".to_owned())), (armed[1].clone(), None)]
        );
    }
}
