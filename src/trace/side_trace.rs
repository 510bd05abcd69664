//! [`SideTrace`]: a trace instance of its own on all online CPUs, whose filters pass only what
//! concerns the watched ones.

use crate::documents::evidence::BlindReason;
use cpushield_linux::processes::closer::OpenFile;
use cpushield_linux::trace::ring_buffer::PageLayout;
use cpushield_linux::trace::tracefs::{
    InstanceSettings, InstanceWatch, TraceInstance, TracePipe, Tracefs,
};
use cpushield_linux::{CpuSet, Host};

/// The most pages read from one CPU at once.
const PAGES_MAX: usize = 1 << 10;

/// What a side trace records.
#[derive(Debug)]
pub struct SideEvents<'a> {
    /// System and name of each event.
    pub events: &'a [(&'a str, &'a str)],
    /// The same with a filter, for some of them.
    pub filters: &'a [(&'a str, &'a str, &'a str)],
    /// The buffer of each CPU in KiB.
    pub buffer_kib: usize,
}

/// A running side trace.
#[derive(Debug)]
pub struct SideTrace<'h> {
    // Before the instance: it cannot be removed while its files are open.
    pipes: Vec<(usize, TracePipe)>,
    instance: TraceInstance<'h>,
    /// `None` where its files cannot be watched.
    watch: Option<InstanceWatch>,
    /// Whether another process may have changed what is recorded, or a page could not be read.
    pub disturbed: bool,
}

impl<'h> SideTrace<'h> {
    /// Prepares the trace; nothing is recorded yet.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn prepare(
        host: &'h Host,
        tracefs: Tracefs,
        clock: &str,
        wanted: &SideEvents<'_>,
    ) -> Result<SideTrace<'h>, BlindReason> {
        let online = host.online_cpus()?;
        let settings = InstanceSettings {
            cpus: &online,
            clock,
            events: wanted.events,
            buffer_kib: Some(wanted.buffer_kib),
            shrink: &CpuSet::new(),
            no_work: false,
        };
        let instance = TraceInstance::with_filters(host, tracefs, &settings, wanted.filters)?;
        let mut pipes = Vec::new();
        for cpu in online.iter() {
            pipes.push((cpu, instance.pipe(cpu)?));
        }
        Ok(SideTrace { pipes, instance, watch: None, disturbed: false })
    }

    /// Records the stack behind every event. Returns whether the kernel can.
    pub fn enable_stacks(&mut self) -> bool {
        self.instance.enable_stacks().is_ok()
    }

    /// Starts recording.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn start(&mut self, events: &[(&str, &str)]) -> Result<(), BlindReason> {
        self.instance.start()?;
        self.watch = self.instance.watch_files(&CpuSet::new(), events).ok();
        self.disturbed = self.watch.is_none();
        Ok(())
    }

    /// The directory of its instance, which the caller removes. Adds the files that the caller
    /// closes before.
    pub fn into_dir(self, files: &mut Vec<OpenFile>) -> Option<String> {
        let SideTrace { pipes, instance, watch, .. } = self;
        drop(pipes);
        files.extend(watch.into_iter().flat_map(InstanceWatch::into_files));
        instance.into_dir()
    }

    /// Passes on the pages since the last call. Never waits.
    pub fn poll(&mut self, mut on_page: impl FnMut(usize, &PageLayout, &[u8])) {
        let touched = self.watch.as_mut().map(InstanceWatch::drain).unwrap_or_default();
        self.disturbed |= !touched.is_empty();
        for (cpu, pipe) in &mut self.pipes {
            let layout = pipe.layout();
            for _ in 0..PAGES_MAX {
                let page = pipe.next_page();
                self.disturbed |= page.is_err();
                let Ok(Some(page)) = page else { break };
                on_page(*cpu, &layout, page);
            }
        }
    }
}

/// A filter that passes events whose field is one of these CPUs.
#[must_use]
pub fn any_cpu(field: &str, cpus: &CpuSet) -> String {
    cpus.iter().map(|cpu| format!("{field} == {cpu}")).collect::<Vec<_>>().join(" || ")
}
