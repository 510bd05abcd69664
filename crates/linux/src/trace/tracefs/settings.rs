//! The settings that decide which events a [`TraceInstance`] records, as text. They are read when
//! the instance is armed and again at the end, so that a change in between is noticed.

use super::TraceInstance;
use crate::cpuset::CpuSet;
use crate::error::Result;
use crate::trace::tracefs::InstanceWatch;

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
    // With the commands of functions, such as `schedule:traceoff`.
    "set_ftrace_filter",
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

    /// Starts to watch the files that decide what is recorded of these CPUs and events. Reports
    /// what other processes have written since before the instance existed, where the kernel can.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn watch_files(&mut self, cpus: &CpuSet, events: &[(&str, &str)]) -> Result<InstanceWatch> {
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
        let writes = self.writes.take();
        if writes.is_none() && self.host.is_live() {
            // A trigger of any event can stop the recording.
            dirs.extend(self.event_dirs()?);
        }
        dirs.sort_unstable();
        dirs.dedup();
        InstanceWatch::start(self.host, &self.dir, &dirs, writes)
    }

    /// The triggers of all events. One that was set before the files were watched may stop the
    /// recording later, without any write.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn triggers(&self) -> Result<Vec<ControlSetting>> {
        let files = self.event_dirs()?.into_iter().map(|dir| format!("{dir}/trigger"));
        // The directory of a system has none.
        Ok(files.map(|file| self.setting(file)).filter(|found| found.text.is_some()).collect())
    }

    /// The directories of all events and of their systems, below the instance.
    fn event_dirs(&self) -> Result<Vec<String>> {
        let mut dirs = Vec::new();
        for system in self.host.list_directories(&self.path("events"))? {
            let system = format!("events/{system}");
            let events = self.host.list_directories(&self.path(&system))?;
            dirs.extend(events.into_iter().map(|event| format!("{system}/{event}")));
            dirs.push(system);
        }
        Ok(dirs)
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

/// The settings of an instance that differ from what [`TraceInstance::prepare`] and
/// [`TraceInstance::start`] set for these CPUs and this clock, each as it should be, with its text
/// now. Another process may change them before anything watches the files.
#[must_use]
pub fn unexpected_settings(
    now: &[ControlSetting],
    cpus: &CpuSet,
    clock: &str,
) -> Vec<(ControlSetting, Option<String>)> {
    let mut unexpected = Vec::new();
    for ControlSetting { file, text } in now {
        let name = file.rsplit('/').next().unwrap_or_default();
        let (wanted, fits) = match (name, text) {
            ("tracing_on", text) => ("1".to_owned(), text.as_deref() == Some("1")),
            // An asterisk marks an event that also has a trigger
            // (event_enable_read() in kernel/trace/trace_events.c, 6.12).
            ("enable", text) => ("1".to_owned(), matches!(text.as_deref(), Some("1" | "1*"))),
            ("tracing_cpumask", text) => {
                let mask = text.as_deref().and_then(|text| CpuSet::parse_mask(text).ok());
                (cpus.to_mask(), mask.as_ref() == Some(cpus))
            }
            ("trace_clock", text) => {
                let wanted = format!("[{clock}]");
                let mut words = text.iter().flat_map(|text| text.split_whitespace());
                let fits = words.any(|word| word == wanted);
                (wanted, fits)
            }
            ("current_tracer", Some(text)) => ("nop".to_owned(), text == "nop"),
            ("filter", Some(text)) => ("none".to_owned(), text == "none"),
            // Only cpushield's own trigger may be there. Without a trigger, the file lists those
            // that exist in comments (trigger_show() in
            // kernel/trace/trace_events_trigger.c, 6.12).
            ("trigger", Some(text)) => {
                let mut lines = text.lines();
                (String::new(), lines.all(|line| line.starts_with('#') || is_own(line)))
            }
            // Without a function, one comment says that all are traced (t_show() in
            // kernel/trace/ftrace.c, 6.12).
            ("set_ftrace_filter", Some(text)) => {
                (String::new(), text.lines().all(|line| line.starts_with('#')))
            }
            ("set_event_pid" | "set_event_notrace_pid", Some(text)) => {
                (String::new(), text.is_empty())
            }
            _ => continue,
        };
        if !fits {
            let should_be = ControlSetting { file: file.clone(), text: Some(wanted) };
            unexpected.push((should_be, text.clone()));
        }
    }
    unexpected
}

/// Whether a line of a trigger file is the trigger that [`TraceInstance::add_stack_trigger`] sets.
fn is_own(line: &str) -> bool {
    line == "stacktrace" || line.starts_with("stacktrace:")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Linux 6.12 shows right after an instance was started.
    const STARTED: &[(&str, &str)] = &[
        ("tracing_on", "1"),
        ("tracing_cpumask", "00000000,00000008"),
        ("trace_clock", "local global counter uptime perf mono mono_raw boot tai [x86-tsc]"),
        ("current_tracer", "nop"),
        ("set_event_pid", ""),
        ("set_event_notrace_pid", ""),
        ("buffer_subbuf_size_kb", "4"),
        ("set_ftrace_filter", "#### all functions enabled ####"),
        ("per_cpu/cpu3/buffer_size_kb", "8192"),
        ("events/exceptions/page_fault_user/enable", "1"),
        ("events/exceptions/page_fault_user/filter", "none"),
        ("events/irq_vectors/local_timer_entry/enable", "1*"),
        ("events/irq_vectors/local_timer_entry/trigger", "stacktrace:unlimited"),
        (
            "events/exceptions/page_fault_user/trigger",
            "# Available triggers:\n# traceon traceoff snapshot stacktrace enable_event \
             disable_event enable_hist disable_hist hist",
        ),
    ];

    fn started_with(changed: &str, text: Option<&str>) -> Vec<ControlSetting> {
        let mut settings = Vec::new();
        for (file, started) in STARTED {
            let text = if *file == changed { text } else { Some(*started) };
            let (file, text) = ((*file).to_owned(), text.map(str::to_owned));
            settings.push(ControlSetting { file, text });
        }
        settings
    }

    #[test]
    fn a_setting_that_was_changed_before_the_watch_is_unexpected() {
        let cpus = CpuSet::single(3);
        assert_eq!(unexpected_settings(&started_with("", None), &cpus, "x86-tsc"), []);
        for (file, text) in [
            ("tracing_on", Some("0")),
            ("tracing_on", None),
            ("tracing_cpumask", Some("1")),
            ("trace_clock", Some("[local] global mono x86-tsc")),
            ("current_tracer", Some("function")),
            ("set_event_pid", Some("1")),
            ("set_event_notrace_pid", Some("812")),
            (
                "set_ftrace_filter",
                Some("#### all functions enabled ####\nschedule:traceoff:unlimited"),
            ),
            ("events/exceptions/page_fault_user/enable", Some("0")),
            ("events/exceptions/page_fault_user/enable", Some("0*")),
            ("events/exceptions/page_fault_user/filter", Some("error_code == 99")),
            ("events/exceptions/page_fault_user/trigger", Some("traceoff:unlimited")),
        ] {
            let found = unexpected_settings(&started_with(file, text), &cpus, "x86-tsc");
            let files: Vec<_> = found.iter().map(|(setting, _)| setting.file.as_str()).collect();
            assert_eq!(files, [file], "{text:?}");
            assert_eq!(found[0].1.as_deref(), text);
        }
        // Linux before 5.8 has no such file.
        let older = started_with("set_event_notrace_pid", None);
        assert_eq!(unexpected_settings(&older, &cpus, "x86-tsc"), []);
    }

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
