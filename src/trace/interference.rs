//! Detects when another process changes what the tracing instance records, and names that process.
//! An instrument that was interfered with proves nothing.

use crate::documents::evidence::TraceInterference;
use cpushield_linux::processes::closer::OpenFile;
use cpushield_linux::trace::tracefs::{
    ControlSetting, InstanceAccess, InstanceWatch, TouchedFile, TraceInstance, changed_settings,
    unexpected_settings,
};
use cpushield_linux::{CpuSet, Host};

/// The most interferences that are kept.
const KEPT_MAX: usize = 32;

/// Monitors the tracing instance for changes since it was armed.
#[derive(Debug)]
pub struct InterferenceMonitor {
    cpus: CpuSet,
    events: Vec<(&'static str, &'static str)>,
    armed: Vec<ControlSetting>,
    /// `None` where files cannot be watched. That is an interference too, because a change that is
    /// reverted would not be noticed.
    watch: Option<InstanceWatch>,
    found: Vec<TraceInterference>,
}

impl InterferenceMonitor {
    /// The files of its watch.
    pub fn into_files(self) -> impl Iterator<Item = OpenFile> {
        self.watch.into_iter().flat_map(InstanceWatch::into_files)
    }

    /// Starts monitoring, right after the recording started. What another process changed before,
    /// while the instance was armed, shows in the settings.
    pub fn start(
        instance: &mut TraceInstance<'_>,
        clock: &str,
        cpus: CpuSet,
        events: Vec<(&'static str, &'static str)>,
    ) -> InterferenceMonitor {
        let watch = instance.watch_files(&cpus, &events);
        let armed = instance.settings(&cpus, &events);
        let mut unexpected = unexpected_settings(&armed, &cpus, clock);
        let (watch, mut unwatched) = match watch {
            Ok(watch) => (Some(watch), None),
            Err(error) => (None, Some(error.to_string())),
        };
        if watch.as_ref().is_some_and(|watch| !watch.reports_every_write()) {
            match instance.triggers() {
                Ok(triggers) => unexpected.extend(unexpected_settings(&triggers, &cpus, clock)),
                Err(error) => unwatched = Some(error.to_string()),
            }
        }
        let mut monitor = InterferenceMonitor { cpus, events, armed, watch, found: Vec::new() };
        if let Some(answer) = unwatched {
            monitor.add(TraceInterference::Unwatched { answer });
        }
        monitor.add_changes(unexpected);
        monitor
    }

    /// Collects what happened since the last call, while the processes that did it may still run.
    /// Compares the settings of the instance itself, too: no process is informed of a write through
    /// a descriptor that fanotify(7) opened (`FMODE_NONOTIFY`, fs/notify/fanotify, 6.12).
    pub fn poll(&mut self, host: &Host, instance: &TraceInstance<'_>) {
        let touches = self.watch.as_mut().map(InstanceWatch::drain).unwrap_or_default();
        for TouchedFile { file, access, pid } in touches {
            let by = pid.map(|pid| process_name(host, pid));
            self.add(match access {
                InstanceAccess::Written => TraceInterference::Written { file, by },
                InstanceAccess::Opened => TraceInterference::Opened { file, by },
                InstanceAccess::Removed => TraceInterference::Removed { file },
                InstanceAccess::Unknown => TraceInterference::Unreported,
            });
        }
        let now = instance.settings(&CpuSet::new(), &[]);
        let is_read = |armed: &&ControlSetting| now.iter().any(|now| now.file == armed.file);
        let armed: Vec<ControlSetting> = self.armed.iter().filter(is_read).cloned().collect();
        self.add_changes(changed_settings(&armed, &now));
    }

    /// Returns all interference so far. Reads the settings again and compares them with those at
    /// the start.
    pub fn found(&mut self, host: &Host, instance: &TraceInstance<'_>) -> Vec<TraceInterference> {
        self.poll(host, instance);
        let now = instance.settings(&self.cpus, &self.events);
        self.add_changes(changed_settings(&self.armed, &now));
        self.found.clone()
    }

    /// Adds settings that differ, each as it was or should be, with its text now.
    fn add_changes(&mut self, changed: Vec<(ControlSetting, Option<String>)>) {
        for (ControlSetting { file, text }, found) in changed {
            let (armed, found) = (text.unwrap_or_default(), found.unwrap_or_default());
            self.add(TraceInterference::SettingChanged { file, armed, found });
        }
    }

    fn add(&mut self, interference: TraceInterference) {
        if self.found.len() < KEPT_MAX && !self.found.contains(&interference) {
            self.found.push(interference);
        }
    }
}

/// `trace-cmd (812)`, or only the number when the process has ended.
fn process_name(host: &Host, pid: i32) -> String {
    match host.task(pid, pid) {
        Ok(task) => format!("{} ({pid})", task.comm),
        Err(_) => format!("process {pid}, which has ended,"),
    }
}
