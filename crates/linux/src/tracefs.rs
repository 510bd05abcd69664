//! tracefs: finding it, and a private tracing instance in it whose raw pages can be read.
//!
//! Where tracefs is supported but not mounted, it is mounted for this process alone: a detached
//! mount (`fsopen(2)`, `fsmount(2)`, Linux 5.2) that is in no mount table, that every thread
//! reaches through `/proc/self/fd`, and that is gone when the process ends.
//!
//! An [`TraceInstance`] is removed when it is dropped. What a killed run left behind is removed by
//! the next one ([`sweep`]).

mod instance_watch;
mod pipe;
mod settings;
mod tracer;

pub use instance_watch::{InstanceAccess, InstanceWatch, TouchedFile};
pub use pipe::{BufferStats, TracePipe};
pub use settings::{ControlSetting, changed_settings};
pub use tracer::{TimerlatFile, list_for_tracer};

use crate::cpuset::CpuSet;
use crate::error::{Error, Operation, Result};
use crate::host::Host;
use crate::ring_buffer::PageLayout;
use crate::text::mounts;
use crate::text::size::will_grow;
use crate::text::trace_format::EventFormat;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where tracefs is mounted by itself, by itself inside debugfs, or by hand.
const PLACES: &[&str] = &["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Instances of ours are named this, a hyphen and our pid.
pub const INSTANCE: &str = "cpushield";

/// Names of instances of one process differ by a number behind the pid.
static INSTANCES: AtomicU32 = AtomicU32::new(0);

/// tracefs, mounted somewhere.
#[derive(Debug)]
pub struct Tracefs {
    root: String,
    /// Keeps the detached mount alive.
    _mount: Option<OwnedFd>,
}

impl Tracefs {
    /// Finds tracefs, or mounts it for this process.
    ///
    /// # Errors
    /// EACCES or EPERM without the right; ENODEV when the kernel has none; ENOSYS when it is not
    /// mounted and the kernel is older than 5.2.
    pub fn find(host: &Host) -> Result<Tracefs> {
        let mounts = host.read("/proc/self/mountinfo").unwrap_or_default();
        let mounted = mounts::parse(&mounts).unwrap_or_default().into_iter();
        let mounted = mounted.filter(|mount| mount.kind == "tracefs" && mount.root == "/");
        let mut refused = None;
        for root in
            PLACES.iter().map(|place| (*place).to_owned()).chain(mounted.map(|mount| mount.point))
        {
            match host.read(&format!("{root}/trace_clock")) {
                Ok(_) => return Ok(Tracefs { root, _mount: None }),
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
        let mount = detached().map_err(|e| Error::io(Operation::Call, "fsopen tracefs", e))?;
        Ok(Tracefs { root: format!("/proc/self/fd/{}", mount.as_raw_fd()), _mount: Some(mount) })
    }

    /// Its directory.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The form of the ring buffer's pages.
    ///
    /// # Errors
    /// The kernel's answer, or a text that is not understood.
    pub fn layout(&self, host: &Host) -> Result<PageLayout> {
        let path = format!("{}/events/header_page", self.root);
        let text = host.read(&path)?;
        PageLayout::parse(&text).map_err(|e| e.at(&path))
    }

    /// The form of one event; `None` when this kernel does not have it.
    ///
    /// # Errors
    /// The kernel's answer, or a text that is not understood.
    pub fn format(&self, host: &Host, system: &str, event: &str) -> Result<Option<EventFormat>> {
        let path = format!("{}/events/{system}/{event}/format", self.root);
        match host.read(&path) {
            Ok(text) => EventFormat::parse(&text).map(Some).map_err(|e| e.at(&path)),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The texts that a reader on another machine needs to understand raw pages. A file that this
    /// kernel does not have, or shows to nobody, is an empty text.
    #[must_use]
    pub fn texts(&self, host: &Host) -> TraceTexts {
        let text = |file: &str| host.read(&format!("{}/{file}", self.root)).unwrap_or_default();
        let own = host.list(&format!("{}/events/ftrace", self.root)).unwrap_or_default();
        let own = own.iter().map(|name| text(&format!("events/ftrace/{name}/format")));
        TraceTexts {
            header_page: text("events/header_page"),
            header_event: text("events/header_event"),
            ftrace: own.filter(|text| !text.is_empty()).collect(),
            printk_formats: text("printk_formats"),
            saved_cmdlines: text("saved_cmdlines"),
        }
    }

    /// Whether enabling an event resizes buffers, which needs a work item on every CPU: a new
    /// instance below 6.7 shares this with the top level (commit 6d98a0f2ac3c made it its own).
    ///
    /// # Errors
    /// The kernel's answer.
    fn wants_expansion(&self, host: &Host, dir: &str) -> Result<bool> {
        host.read(&format!("{dir}/buffer_size_kb")).map(|text| will_grow(&text))
    }
}

/// Texts of tracefs beside the formats of events; see [`Tracefs::texts`].
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
    /// `saved_cmdlines`: numbers and names of tasks.
    pub saved_cmdlines: String,
}

/// A tracefs mount that is nowhere in the file tree.
fn detached() -> io::Result<OwnedFd> {
    let fd = |answer: libc::c_long| {
        let fd = i32::try_from(answer).unwrap_or(-1);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given this descriptor, and nobody else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    };
    // SAFETY: the name is a C string that lives through the call; 1 is FSOPEN_CLOEXEC.
    let context = fd(unsafe { libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), 1) })?;
    let none = std::ptr::null::<u8>();
    // SAFETY: 6 is FSCONFIG_CMD_CREATE, which takes no pointers.
    let made = unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), 6, none, none, 0) };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: no pointers; 1 is FSMOUNT_CLOEXEC, 0xe is nosuid, nodev and noexec.
    fd(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 1, 0xe) })
}

/// What an instance is made for.
#[derive(Debug, Clone)]
pub struct InstanceSettings<'a> {
    /// The CPUs whose events are recorded.
    pub cpus: &'a CpuSet,
    /// `trace_clock`; must be one the kernel has.
    pub clock: &'a str,
    /// System and name of each event.
    pub events: &'a [(&'a str, &'a str)],
    /// KiB of buffer of each recorded CPU, when it may be resized; the kernel's default otherwise.
    pub buffer_kib: Option<usize>,
    /// CPUs that are not recorded and whose buffers may be made small.
    pub shrink: &'a CpuSet,
    /// No work item may be queued on the CPUs (one of them would never run it): what needs that
    /// is an error.
    pub no_work: bool,
}

/// A tracing instance of our own, removed when it is dropped.
#[derive(Debug)]
pub struct TraceInstance<'h> {
    host: &'h Host,
    tracefs: Tracefs,
    dir: String,
    closed: bool,
}

impl<'h> TraceInstance<'h> {
    /// Makes an instance and sets it up. Nothing is recorded yet. Interrupts all CPUs, because
    /// enabling events patches the kernel's code.
    ///
    /// # Errors
    /// The kernel's answer; EBUSY when buffers would have to be resized and `no_work` forbids it.
    pub fn prepare(
        host: &'h Host,
        tracefs: Tracefs,
        wanted: &InstanceSettings<'_>,
    ) -> Result<TraceInstance<'h>> {
        remove_leftovers(host, tracefs.root());
        let mut instance = TraceInstance::make(host, tracefs)?;
        instance.set_up(wanted)?;
        Ok(instance)
    }

    /// One more instance, with filters (system, event, filter) that let less be recorded.
    ///
    /// # Errors
    /// As for [`TraceInstance::prepare`].
    pub fn separate(
        host: &'h Host,
        tracefs: Tracefs,
        wanted: &InstanceSettings<'_>,
        filters: &[(&str, &str, &str)],
    ) -> Result<TraceInstance<'h>> {
        let mut instance = TraceInstance::make(host, tracefs)?;
        for (system, event, filter) in filters {
            instance.write(&format!("events/{system}/{event}/filter"), filter)?;
        }
        instance.set_up(wanted)?;
        Ok(instance)
    }

    fn make(host: &'h Host, tracefs: Tracefs) -> Result<TraceInstance<'h>> {
        let n = INSTANCES.fetch_add(1, Ordering::Relaxed);
        let dir = format!("{}/instances/{INSTANCE}-{}-{n}", tracefs.root, std::process::id());
        host.make_dir(&dir)?;
        Ok(TraceInstance { host, tracefs, dir, closed: false })
    }

    fn set_up(&mut self, wanted: &InstanceSettings<'_>) -> Result<()> {
        self.write("tracing_on", "0")?;
        if wanted.no_work && self.tracefs.wants_expansion(self.host, &self.dir)? {
            return Err(Error::os(Operation::Write, &self.path("buffer_size_kb"), libc::EBUSY));
        }
        self.write("trace_clock", wanted.clock)?;
        self.write("tracing_cpumask", &wanted.cpus.to_mask())?;
        // Before any size: below 6.7 a size given to an instance makes the kernel forget to expand
        // the top-level buffer, which would stay tiny for its next user.
        for (system, event) in wanted.events {
            self.write(&format!("events/{system}/{event}/enable"), "1")?;
        }
        if !wanted.no_work {
            for cpu in wanted.shrink.iter() {
                // Only memory is at stake; a CPU that is offline has no buffer.
                let _ = self.write(&format!("per_cpu/cpu{cpu}/buffer_size_kb"), "8");
            }
            if let Some(kib) = wanted.buffer_kib {
                for cpu in wanted.cpus.iter() {
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

    /// The texts to read its pages elsewhere; see [`Tracefs::texts`].
    #[must_use]
    pub fn texts(&self) -> TraceTexts {
        let texts = self.tracefs.texts(self.host);
        // Its own page size, where sub-buffers can differ (6.8).
        match self.host.read(&self.path("events/header_page")) {
            Ok(header_page) => TraceTexts { header_page, ..texts },
            Err(_) => texts,
        }
    }

    /// The form of an event as the kernel tells it; empty when it has none of that name.
    #[must_use]
    pub fn format_text(&self, system: &str, event: &str) -> String {
        let path = format!("{}/events/{system}/{event}/format", self.tracefs.root);
        self.host.read(&path).unwrap_or_default()
    }

    /// `per_cpu/cpuN/stats` as it is; empty when it cannot be read.
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

    /// Every event is followed by the stack of its moment.
    ///
    /// # Errors
    /// The kernel has no stacks, or refuses.
    pub fn keep_stacks(&mut self) -> Result<()> {
        self.write("options/stacktrace", "1")
    }

    /// From now on a stack of the kernel is recorded behind this event alone. Linux before 5.18
    /// writes it into the top-level buffer instead.
    ///
    /// # Errors
    /// The kernel has no stacks, or refuses.
    pub fn add_stack(&mut self, system: &str, event: &str) -> Result<()> {
        self.write(&format!("events/{system}/{event}/trigger"), "stacktrace")
    }

    /// Recording begins. Touches no other CPU.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn start(&mut self) -> Result<()> {
        self.host.write(&self.path("tracing_on"), "1")
    }

    /// Recording ends; what was recorded can still be read. Touches no other CPU.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn stop(&mut self) -> Result<()> {
        self.host.write(&self.path("tracing_on"), "0")
    }

    /// Opens the raw pages of one CPU.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn pipe(&self, cpu: usize) -> Result<TracePipe> {
        let path = self.path(&format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        // The size of sub-buffers of this instance, where they can differ (6.8).
        let kib = self.host.read_line(&self.path("buffer_subbuf_size_kb")).ok();
        let mut layout = self.tracefs.layout(self.host)?;
        if let Some(kib) = kib.and_then(|kib| kib.parse().ok()) {
            layout = layout.with_page_kib(kib);
        }
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(self.host.place(&path))
            .map_err(|e| Error::io(Operation::Read, &path, e))?;
        Ok(TracePipe { path, file, layout, page: vec![0; layout.page_size()] })
    }

    /// What the kernel says about the buffer of one CPU.
    ///
    /// # Errors
    /// The kernel's answer, or a text that is not understood.
    pub fn stats(&self, cpu: usize) -> Result<BufferStats> {
        let path = self.path(&format!("per_cpu/cpu{cpu}/stats"));
        let text = self.host.read(&path)?;
        BufferStats::parse(&text).ok_or_else(|| Error::malformed(&path, 0, "the counters", &text))
    }

    /// Puts everything back. All pipes must be closed before.
    ///
    /// # Errors
    /// The kernel's first answer that is an error; the rest is tried all the same.
    pub fn close(mut self) -> Result<()> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        let stopped = self.stop();
        // Removing it disables its events.
        stopped.and(self.host.remove_dir(&self.dir))
    }
}

impl Drop for TraceInstance<'_> {
    fn drop(&mut self) {
        // Nobody to tell; the next run removes what is left.
        let _ = self.put_back();
    }
}

/// Removes what runs that were killed left in tracefs where it is mounted; how many instances that
/// were.
pub fn sweep(host: &Host) -> usize {
    usual_place(host).map_or(0, |root| remove_leftovers(host, root))
}

/// The first of the usual places where tracefs is. A look into the second mounts it there
/// (debugfs has an automount), so nobody may look there who need not.
fn usual_place(host: &Host) -> Option<&'static str> {
    PLACES.iter().copied().find(|root| host.exists(&format!("{root}/instances")))
}

/// The processes whose instances there are, by the number in the name.
#[must_use]
pub fn instance_owners(host: &Host) -> Vec<i32> {
    let names = usual_place(host).and_then(|root| host.list(&format!("{root}/instances")).ok());
    let names = names.unwrap_or_default();
    names.iter().filter_map(|name| owner(name)?.try_into().ok()).collect()
}

/// The process that made an instance of ours.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(INSTANCE)?.strip_prefix('-')?.split('-').next()?.parse().ok()
}

/// Removes instances of ours whose process is gone, and counts them. Those in use answer EBUSY and
/// stay.
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
    use crate::host::InjectedFault;
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::{Path, PathBuf};

    /// Linux 6.12.
    const STATS: &str = "entries: 2\noverrun: 31\ncommit overrun: 1\nbytes: 96\n\
        oldest event ts: 61230.5\nnow ts: 61231.5\ndropped events: 7\nread events: 12\n";

    /// A recorded tracefs.
    const FILES: &[(&str, &str)] = &[
        ("trace_clock", "[local] global mono x86-tsc\n"),
        ("buffer_size_kb", "1408\n"),
        ("instances/other/tracing_on", "1\n"),
    ];

    const EVENTS: &[(&str, &str)] = &[("sched", "sched_switch")];

    fn machine(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("tracefs-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        for (file, text) in FILES {
            let file = dir.join("sys/kernel/tracing").join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        dir
    }

    /// Every file below a directory.
    fn snapshot(dir: &Path) -> BTreeMap<PathBuf, String> {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files.extend(snapshot(&path));
            } else {
                files.insert(path.clone(), fs::read_to_string(path).unwrap());
            }
        }
        files
    }

    fn prepare<'h>(host: &'h Host, no_work: bool) -> Result<TraceInstance<'h>> {
        let cpus = CpuSet::one(3);
        let wanted = InstanceSettings {
            cpus: &cpus,
            clock: "x86-tsc",
            events: EVENTS,
            buffer_kib: None,
            shrink: &CpuSet::new(),
            no_work,
        };
        TraceInstance::prepare(host, Tracefs::find(host)?, &wanted)
    }

    #[test]
    fn an_instance_is_set_up_and_removed_whichever_write_fails() {
        let dir = machine("made");
        let before = snapshot(&dir);
        let host = Host::recorded(&dir).unwrap();
        let mut instance = prepare(&host, true).unwrap();
        instance.start().unwrap();
        let read = |file: &str| host.read_line(&instance.path(file)).unwrap();
        assert_eq!((read("tracing_on"), read("tracing_cpumask")), ("1".into(), "8".into()));
        assert!(read("trace_clock").contains("[x86-tsc]"));
        assert_eq!(read("events/sched/sched_switch/enable"), "1");
        instance.close().unwrap();
        let writes = host.writes();
        assert_eq!(snapshot(&dir), before);

        for at in 0..writes {
            let fault = InjectedFault::Refuse { at, errno: libc::EIO };
            let host = Host::recorded(&dir).unwrap().failing(fault);
            let set_up = prepare(&host, true).is_ok();
            assert!(set_up || host.writes() > at);
            // Here it was not started: one write less, of which the last is that of its removal.
            if at + 2 < writes {
                assert_eq!(snapshot(&dir), before, "write {at}");
            }
        }
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn an_instance_that_would_need_work_on_a_busy_cpu_is_refused_and_removed() {
        let dir = machine("busy");
        fs::write(dir.join("sys/kernel/tracing/buffer_size_kb"), "7 (expanded: 1408)\n").unwrap();
        let before = snapshot(&dir);
        let host = Host::recorded(&dir).unwrap();
        assert_eq!(prepare(&host, true).unwrap_err().errno(), Some(libc::EBUSY));
        assert_eq!(snapshot(&dir), before);
        assert!(prepare(&host, false).is_ok());
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn only_what_dead_runs_left_behind_is_removed() {
        let dir = machine("leftovers");
        let instances = dir.join("sys/kernel/tracing/instances");
        for name in ["cpushield-41", "cpushield-41-2", "cpushield-42-0", "cpushield-x"] {
            fs::create_dir(instances.join(name)).unwrap();
        }
        fs::create_dir_all(dir.join("proc/42")).unwrap();
        let host = Host::recorded(&dir).unwrap();
        assert_eq!(sweep(&host), 2);
        let left = host.list("/sys/kernel/tracing/instances").unwrap();
        assert_eq!(left, ["cpushield-42-0", "cpushield-x", "other"]);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn every_kind_of_loss_is_counted() {
        let stats = BufferStats::parse(STATS).unwrap();
        assert_eq!(stats, BufferStats { overrun: 31, commit_overrun: 1, dropped: 7 });
        assert_eq!(stats.lost(), 39);
        assert_eq!(BufferStats::parse("entries: 2\noverrun: x\n"), None);
    }
}
