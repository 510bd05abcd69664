//! Tracers: parts of the kernel that measure, and write their results into the buffer of an
//! instance. Their parameters (CPUs, periods and so on) are files for the whole machine, outside of
//! the instances. The caller that writes them saves the originals.

use super::{TraceInstance, Tracefs};
use crate::cpuset::CpuSet;
use crate::error::{Error, Operation, Result};
use crate::host::Host;
use std::fs::File;
use std::io::{self, Read};

impl Tracefs {
    /// Whether this kernel has the tracer.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn has_tracer(&self, host: &Host, name: &str) -> Result<bool> {
        let list = host.read(&format!("{}/available_tracers", self.root))?;
        Ok(list.split_whitespace().any(|word| word == name))
    }

    /// The directories, of instances or the top level, where one of these tracers is active, each
    /// with the tracer's name.
    #[must_use]
    pub fn active_tracers(&self, host: &Host, names: &[&str]) -> Vec<(String, String)> {
        let instances = format!("{}/instances", self.root);
        let below = host
            .list(&instances)
            .unwrap_or_default()
            .into_iter()
            .map(|name| format!("{instances}/{name}"));
        let mut found = Vec::new();
        for dir in std::iter::once(self.root.clone()).chain(below) {
            let tracer = host.read_line(&format!("{dir}/current_tracer")).unwrap_or_default();
            if names.contains(&tracer.as_str()) {
                found.push((dir, tracer));
            }
        }
        found
    }
}

impl TraceInstance<'_> {
    /// Activates a tracer. Its records are stored once [`TraceInstance::start`] was called.
    ///
    /// # Errors
    /// EBUSY if another active tracer excludes it; EINVAL if an instance cannot have it.
    pub fn set_tracer(&mut self, tracer: &str) -> Result<()> {
        self.write("current_tracer", tracer)
    }
}

/// `osnoise/per_cpu/cpuN/timerlat_fd` (6.5): a read waits for the next period of the `timerlat`
/// tracer, which records when the reader ran in the kernel and when it came back for the next one.
#[derive(Debug)]
pub struct TimerlatFile {
    file: File,
}

impl TimerlatFile {
    /// Its path below the root of tracefs.
    #[must_use]
    pub fn path(cpu: usize) -> String {
        format!("osnoise/per_cpu/cpu{cpu}/timerlat_fd")
    }

    /// Opens the file of the CPU that this thread runs on and is bound to.
    ///
    /// # Errors
    /// EINVAL if the tracer is not active or has threads of its own; EPERM on another CPU; EBUSY if
    /// another task has it open.
    pub fn open(host: &Host, cpu: usize) -> io::Result<TimerlatFile> {
        // If this mounts tracefs, the open file keeps the mount alive.
        let tracefs = Tracefs::find(host).map_err(|error: Error| {
            io::Error::from_raw_os_error(error.errno().unwrap_or(libc::EIO))
        })?;
        let path = format!("{}/{}", tracefs.root, TimerlatFile::path(cpu));
        let file = File::open(host.local_path(&path));
        host.log_io(Operation::Read, &path, file).map(|file| TimerlatFile { file })
    }

    /// Reports the return from the previous period, and waits for the next one.
    ///
    /// # Errors
    /// The kernel's error: EINVAL when the thread was moved.
    #[inline]
    pub fn wait(&mut self) -> io::Result<()> {
        // The kernel returns no bytes (kernel/trace/trace_osnoise.c, `timerlat_fd_read()`).
        self.file.read(&mut [0; 1]).map(|_| ())
    }
}

/// CPUs in the form of the tracers' files; an empty set is a line end, because an empty write would
/// be no write at all.
#[must_use]
pub fn list_for_tracer(cpus: &CpuSet) -> String {
    if cpus.is_empty() { "\n".to_owned() } else { cpus.to_string() }
}
