//! tracefs: finding it, and private tracing instances in it whose raw pages can be read.
//!
//! Kernels before 4.1 have the same files in debugfs, in its directory `tracing`.
//!
//! If tracefs is supported but not mounted, it is mounted for this process alone: a detached mount
//! (`fsopen(2)`, `fsmount(2)`, Linux 5.2). It is in no mount table, every thread reaches it through
//! `/proc/self/fd`, and it is gone when the process ends.
//!
//! A [`TraceInstance`] is removed when it is dropped. Its name contains the number of the process
//! that made it, so the next run removes what a killed run left behind
//! ([`remove_stale_instances`]).

mod instance_watch;
mod pipe;
mod settings;
mod tracer;

pub use instance_watch::{FileSystemWrites, InstanceAccess, InstanceWatch, TouchedFile};
pub use pipe::{BufferStats, TracePipe};
pub use settings::{ControlSetting, changed_settings, unexpected_settings};
pub use tracer::{TimerlatFile, list_for_tracer};

use crate::cpuset::CpuSet;
use crate::error::{Error, Operation, Result};
use crate::host::Host;
use crate::text::first_releases::{TRACE_INSTANCES, TRACEFS};
use crate::text::kernel_version::KernelVersion;
use crate::text::mounts;
use crate::text::size::will_grow;
use crate::text::trace_format::EventFormat;
use crate::trace::ring_buffer::PageLayout;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where tracefs is: at its own mount point, or mounted automatically inside debugfs. Before 4.1,
/// the second place is a directory of debugfs.
const PLACES: &[&str] = &["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The names of our instances start with this, a hyphen and our process ID.
pub const INSTANCE: &str = "cpushield";

/// The number after the process ID, which distinguishes the instances of one process.
static INSTANCES: AtomicU32 = AtomicU32::new(0);

/// tracefs, mounted somewhere.
#[derive(Debug)]
pub struct Tracefs {
    root: String,
    /// Keeps the detached mount alive.
    mount: Option<OwnedFd>,
}

impl Tracefs {
    /// Finds tracefs, or mounts it for this process.
    ///
    /// # Errors
    /// EACCES or EPERM without the privilege; ENODEV if the kernel has no tracefs; ENOSYS if it is
    /// not mounted and the kernel is older than 5.2.
    pub fn find(host: &Host) -> Result<Tracefs> {
        let mounts = host.read("/proc/self/mountinfo").unwrap_or_default();
        let mounted = mounts::parse(&mounts)
            .unwrap_or_default()
            .into_iter()
            .filter(|mount| mount.root == "/")
            .filter_map(|mount| match mount.kind.as_str() {
                "tracefs" => Some(mount.point),
                "debugfs" => Some(format!("{}/tracing", mount.point)),
                _ => None,
            });
        let mut refused = None;
        for root in PLACES.iter().map(|place| (*place).to_owned()).chain(mounted) {
            match host.read(&format!("{root}/trace_clock")) {
                Ok(_) => return Ok(Tracefs { root, mount: None }),
                Err(error) if error.is_absent() => {}
                Err(error) => refused = Some(error),
            }
        }
        if let Some(error) = refused {
            return Err(error);
        }
        let supported = host.read("/proc/filesystems")?;
        if !host.is_live() || !supported.split_whitespace().any(|word| word == "tracefs") {
            return Err(Error::os(Operation::Read, PLACES[0], libc::ENODEV));
        }
        let mount =
            mount_detached().map_err(|e| Error::io(Operation::Call, "fsopen tracefs", e))?;
        Ok(Tracefs { root: format!("/proc/self/fd/{}", mount.as_raw_fd()), mount: Some(mount) })
    }

    /// Whether it has instances. Directories in debugfs before 3.10 have none.
    #[must_use]
    pub fn has_instances(&self, host: &Host) -> bool {
        host.exists(&format!("{}/instances", self.root))
    }

    /// Its directory.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The layout of the ring buffer's pages.
    ///
    /// # Errors
    /// The kernel's error, or an unknown format of the file.
    pub fn layout(&self, host: &Host) -> Result<PageLayout> {
        let path = format!("{}/events/header_page", self.root);
        let text = host.read(&path)?;
        PageLayout::parse(&text).map_err(|e| e.at(&path))
    }

    /// The record format of one event; `None` if this kernel does not have it.
    ///
    /// # Errors
    /// The kernel's error, or an unknown format of the file.
    pub fn format(&self, host: &Host, system: &str, event: &str) -> Result<Option<EventFormat>> {
        let path = format!("{}/events/{system}/{event}/format", self.root);
        let text = host.read_if_present(&path)?;
        text.map(|text| EventFormat::parse(&text).map_err(|e| e.at(&path))).transpose()
    }

    /// The texts that a reader on another machine needs to decode raw pages. A file that cannot be
    /// read is an empty text.
    #[must_use]
    pub fn texts(&self, host: &Host) -> TraceTexts {
        let text = |file: &str| host.read(&format!("{}/{file}", self.root)).unwrap_or_default();
        let ftrace_events = host.list(&format!("{}/events/ftrace", self.root)).unwrap_or_default();
        let formats =
            ftrace_events.iter().map(|name| text(&format!("events/ftrace/{name}/format")));
        TraceTexts {
            header_page: text("events/header_page"),
            header_event: text("events/header_event"),
            ftrace: formats.filter(|text| !text.is_empty()).collect(),
            printk_formats: text("printk_formats"),
            saved_cmdlines: text("saved_cmdlines"),
        }
    }

    /// Whether enabling an event resizes buffers, which needs a work item on every CPU. A new
    /// instance below 6.7 shares this state with the top level (separate since a1f157c7a3bb).
    ///
    /// # Errors
    /// The kernel's error.
    fn needs_expansion(&self, host: &Host, dir: &str) -> Result<bool> {
        host.read(&format!("{dir}/buffer_size_kb")).map(|text| will_grow(&text))
    }
}

/// Texts of tracefs other than the formats of events; see [`Tracefs::texts`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceTexts {
    /// `events/header_page`.
    pub header_page: String,
    /// `events/header_event`.
    pub header_event: String,
    /// The formats of the records that ftrace itself writes.
    pub ftrace: Vec<String>,
    /// `printk_formats`.
    pub printk_formats: String,
    /// `saved_cmdlines`: IDs and names of tasks.
    pub saved_cmdlines: String,
}

/// Mounts tracefs outside of the file tree.
fn mount_detached() -> io::Result<OwnedFd> {
    let context = fsopen(c"tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// The settings of an instance.
#[derive(Debug, Clone)]
pub struct InstanceSettings<'a> {
    /// The CPUs whose events are recorded.
    pub cpus: &'a CpuSet,
    /// `trace_clock`; the kernel must have it.
    pub clock: &'a str,
    /// System and name of each event.
    pub events: &'a [(&'a str, &'a str)],
    /// KiB of buffer for each recorded CPU; `None` for the kernel's default.
    pub buffer_kib: Option<usize>,
    /// CPUs that are not recorded and whose buffers may be shrunk.
    pub shrink: &'a CpuSet,
    /// No work item may be queued on any CPU, because one of them would never run it. A step that
    /// needs one fails.
    pub no_work: bool,
}

/// A tracing instance of this process, removed when it is dropped.
#[derive(Debug)]
pub struct TraceInstance<'h> {
    host: &'h Host,
    tracefs: Tracefs,
    dir: String,
    closed: bool,
    /// What other processes have written since before the instance existed; `None` where the
    /// kernel does not report it, and once [`TraceInstance::watch_files`] has taken it.
    writes: Option<FileSystemWrites>,
}

impl<'h> TraceInstance<'h> {
    /// Creates an instance and configures it, without starting to record. Interrupts all CPUs,
    /// because enabling events patches the kernel's code.
    ///
    /// # Errors
    /// The kernel's error; EBUSY if buffers would have to be resized and `no_work` forbids it.
    pub fn prepare(
        host: &'h Host,
        tracefs: Tracefs,
        settings: &InstanceSettings<'_>,
    ) -> Result<TraceInstance<'h>> {
        remove_leftovers(host, tracefs.root());
        let mut instance = TraceInstance::create(host, tracefs)?;
        instance.configure(settings)?;
        Ok(instance)
    }

    /// Creates another instance that records less: only events that pass its filters (system,
    /// event, filter).
    ///
    /// # Errors
    /// As [`TraceInstance::prepare`].
    pub fn with_filters(
        host: &'h Host,
        tracefs: Tracefs,
        settings: &InstanceSettings<'_>,
        filters: &[(&str, &str, &str)],
    ) -> Result<TraceInstance<'h>> {
        let mut instance = TraceInstance::create(host, tracefs)?;
        for (system, event, filter) in filters {
            instance.write(&format!("events/{system}/{event}/filter"), filter)?;
        }
        instance.configure(settings)?;
        Ok(instance)
    }

    fn create(host: &'h Host, tracefs: Tracefs) -> Result<TraceInstance<'h>> {
        let n = INSTANCES.fetch_add(1, Ordering::Relaxed);
        let dir = format!("{}/instances/{INSTANCE}-{}-{n}", tracefs.root, std::process::id());
        // Of a recorded machine, the file system holds other files, too.
        let writes = match host.is_live() {
            true => FileSystemWrites::start(host, &tracefs.root).ok(),
            false => None,
        };
        host.make_dir(&dir)?;
        Ok(TraceInstance { host, tracefs, dir, closed: false, writes })
    }

    fn configure(&mut self, settings: &InstanceSettings<'_>) -> Result<()> {
        self.write("tracing_on", "0")?;
        if settings.no_work && self.tracefs.needs_expansion(self.host, &self.dir)? {
            return Err(Error::os(Operation::Write, &self.path("buffer_size_kb"), libc::EBUSY));
        }
        self.write("trace_clock", settings.clock)?;
        self.write("tracing_cpumask", &settings.cpus.to_mask())?;
        // Before any size: below 6.7, setting the size of an instance makes the kernel forget to
        // expand the top-level buffer, which would stay tiny for its next user.
        for (system, event) in settings.events {
            self.write(&format!("events/{system}/{event}/enable"), "1")?;
        }
        if !settings.no_work {
            for cpu in settings.shrink.iter() {
                // A failure only costs memory; a CPU that is offline has no buffer.
                let _ = self.write(&format!("per_cpu/cpu{cpu}/buffer_size_kb"), "8");
            }
            if let Some(kib) = settings.buffer_kib {
                for cpu in settings.cpus.iter() {
                    let file = format!("per_cpu/cpu{cpu}/buffer_size_kb");
                    self.write(&file, &kib.to_string())?;
                }
            }
        }
        Ok(())
    }

    /// Its directory.
    #[must_use]
    pub fn dir(&self) -> &str {
        &self.dir
    }

    /// The texts that a reader on another machine needs; see [`Tracefs::texts`].
    #[must_use]
    pub fn texts(&self) -> TraceTexts {
        let texts = self.tracefs.texts(self.host);
        // The instance has a page size of its own where sub-buffers can differ (6.8).
        match self.host.read(&self.path("events/header_page")) {
            Ok(header_page) => TraceTexts { header_page, ..texts },
            Err(_) => texts,
        }
    }

    /// The `format` file of an event; empty if the kernel has no event of that name.
    #[must_use]
    pub fn format_text(&self, system: &str, event: &str) -> String {
        let path = format!("{}/events/{system}/{event}/format", self.tracefs.root);
        self.host.read(&path).unwrap_or_default()
    }

    /// The text of `per_cpu/cpuN/stats`; empty if it cannot be read.
    #[must_use]
    pub fn stats_text(&self, cpu: usize) -> String {
        self.host.read(&self.path(&format!("per_cpu/cpu{cpu}/stats"))).unwrap_or_default()
    }

    fn path(&self, file: &str) -> String {
        format!("{}/{file}", self.dir)
    }

    fn write(&self, file: &str, value: &str) -> Result<()> {
        self.host.write(&self.path(file), value)
    }

    /// Makes the kernel record a stack after every event.
    ///
    /// # Errors
    /// The kernel cannot record stacks, or refuses.
    pub fn enable_stacks(&mut self) -> Result<()> {
        self.write("options/stacktrace", "1")
    }

    /// Makes the kernel record a stack after this event only. Linux before 5.18 writes it into the
    /// top-level buffer instead.
    ///
    /// # Errors
    /// The kernel cannot record stacks, or refuses.
    pub fn add_stack_trigger(&mut self, system: &str, event: &str) -> Result<()> {
        self.write(&format!("events/{system}/{event}/trigger"), "stacktrace")
    }

    /// Starts to record. Affects no other CPU.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn start(&mut self) -> Result<()> {
        self.host.write(&self.path("tracing_on"), "1")
    }

    /// Stops recording; recorded pages can still be read. Affects no other CPU.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn stop(&mut self) -> Result<()> {
        self.host.write(&self.path("tracing_on"), "0")
    }

    /// Opens the raw pages of one CPU.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn pipe(&self, cpu: usize) -> Result<TracePipe> {
        let path = self.path(&format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        // The page size of this instance, where sub-buffers can differ (6.8).
        let kib = self.host.read_line(&self.path("buffer_subbuf_size_kb")).ok();
        let mut layout = self.tracefs.layout(self.host)?;
        if let Some(kib) = kib.and_then(|kib| kib.parse().ok()) {
            layout = layout.with_page_kib(kib);
        }
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(self.host.local_path(&path))
            .map_err(|e| Error::io(Operation::Read, &path, e));
        let file = self.host.log_result(Operation::Read, &path, None, file)?;
        Ok(TracePipe { path, file, layout, page: vec![0; layout.page_size()] })
    }

    /// The kernel's counters of one CPU's buffer.
    ///
    /// # Errors
    /// The kernel's error, or an unknown format of the file.
    pub fn stats(&self, cpu: usize) -> Result<BufferStats> {
        let path = self.path(&format!("per_cpu/cpu{cpu}/stats"));
        let text = self.host.read(&path)?;
        BufferStats::parse(&text)
            .ok_or_else(|| Error::malformed(&path, 0, "the counters of a trace buffer", &text))
    }

    /// Stops recording. The caller removes the directory, once all pipes are closed; `None` where
    /// only this process sees it, and it is removed here.
    pub fn into_dir(mut self) -> Option<String> {
        if self.tracefs.mount.is_some() || self.stop().is_err() {
            return None;
        }
        self.closed = true;
        Some(std::mem::take(&mut self.dir))
    }

    /// Stops recording and removes the instance. All pipes must be closed before.
    ///
    /// # Errors
    /// The kernel's first error; the other steps are still tried.
    pub fn close(mut self) -> Result<()> {
        self.remove()
    }

    fn remove(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        let stopped = self.stop();
        // Removing the instance disables its events.
        stopped.and(self.host.remove_dir(&self.dir))
    }
}

impl Drop for TraceInstance<'_> {
    fn drop(&mut self) {
        // There is no caller to return an error to; the next run removes what is left.
        let _ = self.remove();
    }
}

/// Removes the instances that killed runs left behind, if tracefs is mounted; returns how many.
pub fn remove_stale_instances(host: &Host) -> usize {
    mounted_root(host).map_or(0, |root| remove_leftovers(host, root))
}

/// Whether this kernel has its trace in debugfs, which is not mounted.
#[must_use]
pub fn needs_debugfs(host: &Host) -> bool {
    let has = |path: &str, word: &str| {
        host.read(path).is_ok_and(|text| text.split_whitespace().any(|found| found == word))
    };
    let release = host.read_line("/proc/sys/kernel/osrelease").unwrap_or_default();
    let version = KernelVersion::from_release(&release);
    version.is_some_and(|version| (TRACE_INSTANCES..TRACEFS).contains(&version))
        && has("/proc/filesystems", "debugfs")
        && !has("/proc/self/mountinfo", "debugfs")
}

/// The first of [`PLACES`] where tracefs is mounted. Looking at the second place mounts tracefs
/// there (debugfs has an automount), so it is not tried unless necessary.
fn mounted_root(host: &Host) -> Option<&'static str> {
    PLACES.iter().copied().find(|root| host.exists(&format!("{root}/instances")))
}

/// The processes that own instances, by the process ID in the name.
#[must_use]
pub fn instance_owners(host: &Host) -> Vec<i32> {
    let names = mounted_root(host)
        .and_then(|root| host.list(&format!("{root}/instances")).ok())
        .unwrap_or_default();
    names.iter().filter_map(|name| owner(name)?.try_into().ok()).collect()
}

/// The process of cpushield that made an instance.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(INSTANCE)?.strip_prefix('-')?.split('-').next()?.parse().ok()
}

/// Removes our instances whose process is gone; returns how many. Instances in use answer EBUSY
/// and remain.
pub fn remove_leftovers(host: &Host, root: &str) -> usize {
    let dir = format!("{root}/instances");
    let mut removed = 0;
    for name in host.list(&dir).unwrap_or_default() {
        if let Some(pid) = owner(&name)
            && !host.exists(&format!("/proc/{pid}"))
        {
            removed += usize::from(host.remove_dir(&format!("{dir}/{name}")).is_ok());
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux 6.12.
    const STATS: &str = "entries: 2\noverrun: 31\ncommit overrun: 1\nbytes: 96\n\
        oldest event ts: 61230.5\nnow ts: 61231.5\ndropped events: 7\nread events: 12\n";

    #[test]
    fn every_kind_of_loss_is_counted() {
        let stats = BufferStats::parse(STATS).unwrap();
        assert_eq!(stats, BufferStats { overrun: 31, commit_overrun: 1, dropped: 7, read: 12 });
        assert_eq!(stats.lost(), 39);
        assert_eq!(BufferStats::parse("entries: 2\noverrun: x\n"), None);
    }
}
