//! Tracers: parts of the kernel that measure by themselves, and write what they saw into the buffer
//! of an instance. Which CPUs, how often and the like are files for the whole machine beside the
//! instances; whoever writes them keeps what was there.

use super::{TraceInstance, Tracefs};
use crate::cpuset::CpuSet;
use crate::error::{Error, Result};
use crate::host::Host;
use std::fs::File;
use std::io::{self, Read};

impl Tracefs {
    /// Whether this kernel has the tracer.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn has_tracer(&self, host: &Host, name: &str) -> Result<bool> {
        let list = host.read(&format!("{}/available_tracers", self.root))?;
        Ok(list.split_whitespace().any(|word| word == name))
    }

    /// The directories (of instances, or that of all) where one of these tracers is at work, each
    /// with its name.
    #[must_use]
    pub fn tracers_at_work(&self, host: &Host, names: &[&str]) -> Vec<(String, String)> {
        let instances = format!("{}/instances", self.root);
        let below = host.list(&instances).unwrap_or_default().into_iter();
        let below = below.map(|name| format!("{instances}/{name}"));
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
    /// Puts a tracer to work. What it records is kept once [`TraceInstance::start`] was called.
    ///
    /// # Errors
    /// EBUSY where one that cannot be beside it is at work; EINVAL where an instance cannot have
    /// it.
    pub fn employ(&mut self, tracer: &str) -> Result<()> {
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
    /// Where it is below the root of tracefs.
    #[must_use]
    pub fn path(cpu: usize) -> String {
        format!("osnoise/per_cpu/cpu{cpu}/timerlat_fd")
    }

    /// Opens that of the CPU this thread runs on, and is bound to.
    ///
    /// # Errors
    /// EINVAL when the tracer is not at work or has threads of its own; EPERM on another CPU; EBUSY
    /// when another task has it.
    pub fn open(host: &Host, cpu: usize) -> io::Result<TimerlatFile> {
        let number =
            |error: Error| io::Error::from_raw_os_error(error.errno().unwrap_or(libc::EIO));
        // Where this mounts tracefs, the open file keeps it.
        let tracefs = Tracefs::find(host).map_err(number)?;
        let path = format!("{}/{}", tracefs.root, TimerlatFile::path(cpu));
        File::open(host.place(&path)).map(|file| TimerlatFile { file })
    }

    /// Tells of the return of the period before, and waits for the next one.
    ///
    /// # Errors
    /// The kernel's answer: EINVAL when the thread was moved.
    #[inline]
    pub fn wait(&mut self) -> io::Result<()> {
        // It answers with no bytes (kernel/trace/trace_osnoise.c, `timerlat_fd_read()`).
        self.file.read(&mut [0; 1]).map(|_| ())
    }
}

/// CPUs as the tracers' files want them: an empty write would be none.
#[must_use]
pub fn list_for_tracer(cpus: &CpuSet) -> String {
    if cpus.is_empty() { "\n".to_owned() } else { cpus.to_string() }
}
