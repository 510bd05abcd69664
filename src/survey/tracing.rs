//! Tracing support. Nothing is mounted here. The `tracing` directory of debugfs is accessed only if
//! the kernel has no tracefs: otherwise any access mounts tracefs there.

use super::Tracing;
use super::reader::SurveyReader;
use cpushield_linux::text::first_releases::{TRACE_INSTANCES, TRACEFS};
use cpushield_linux::text::kernel_version::KernelVersion;
use cpushield_linux::text::mounts::Mount;

pub(super) fn read_tracing(
    r: &SurveyReader,
    mounts: &[Mount],
    kernel: Option<KernelVersion>,
) -> Tracing {
    let filesystems = r.required(r.host.read("/proc/filesystems"));
    let kernel_has = |name: &str| {
        let text = filesystems.as_deref();
        text.map(|text| text.lines().any(|line| line.split_whitespace().next_back() == Some(name)))
    };
    let supported = kernel_has("tracefs");
    if let Some(mount) = mounts.iter().find(|mount| mount.kind == "tracefs") {
        return read_directory(r, mount.point.clone(), supported);
    }
    match supported {
        Some(true) => {
            r.note(
                "tracefs",
                "not mounted, so tracers are unknown; to mount it: mount -t tracefs tracefs \
                 /sys/kernel/tracing",
            );
            Tracing { supported, ..Tracing::default() }
        }
        Some(false) => {
            let debugfs = mounts.iter().find(|mount| mount.kind == "debugfs" && mount.root == "/");
            let debugfs = debugfs.map(|mount| mount.point.as_str());
            let may_be_there = kernel_has("debugfs") == Some(true)
                && kernel.is_none_or(|version| (TRACE_INSTANCES..TRACEFS).contains(&version));
            read_debugfs(r, debugfs, may_be_there)
        }
        None => Tracing::default(),
    }
}

/// Before 4.1, the directory of the trace is in debugfs. Without `instances` (before 3.10),
/// recording would need the buffer that all programs share.
fn read_debugfs(r: &SurveyReader, debugfs: Option<&str>, may_be_there: bool) -> Tracing {
    let Some(debugfs) = debugfs else {
        if may_be_there {
            r.note(
                "debugfs",
                "not mounted, so tracers are unknown; to mount it: mount -t debugfs debugfs \
                 /sys/kernel/debug",
            );
            return Tracing::default();
        }
        return Tracing { supported: Some(false), ..Tracing::default() };
    };
    let dir = format!("{debugfs}/tracing");
    match r.host.list(&format!("{dir}/instances")) {
        Ok(_) => read_directory(r, dir, Some(true)),
        Err(error) if error.is_absent() => Tracing { supported: Some(false), ..Tracing::default() },
        Err(error) => {
            r.optional::<()>(Err(error));
            Tracing::default()
        }
    }
}

fn read_directory(r: &SurveyReader, dir: String, supported: Option<bool>) -> Tracing {
    let tracers = r.required_line(&format!("{dir}/available_tracers")).unwrap_or_default();
    let clocks = r.required_line(&format!("{dir}/trace_clock")).unwrap_or_default();
    let mut clocks = clocks.split_whitespace();
    Tracing {
        tracefs: Some(dir),
        supported,
        tracers: tracers.split_whitespace().map(str::to_owned).collect(),
        tsc_clock: clocks.any(|clock| clock.trim_matches(['[', ']']) == "x86-tsc"),
    }
}
