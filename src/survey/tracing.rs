//! Tracing support. Nothing is mounted here, and debugfs' `tracing` directory is not accessed,
//! because any access mounts tracefs.

use super::Tracing;
use super::reader::SurveyReader;
use cpushield_linux::text::mounts::Mount;

pub(super) fn read_tracing(r: &SurveyReader, mounts: &[Mount]) -> Tracing {
    let filesystems = r.required(r.host.read("/proc/filesystems"));
    let supported =
        filesystems.map(|text| text.lines().any(|line| line.trim_end().ends_with("tracefs")));
    let mut found = Tracing { supported, ..Tracing::default() };
    match mounts.iter().find(|mount| mount.kind == "tracefs") {
        Some(mount) => {
            let dir = &mount.point;
            let tracers = r.required_line(&format!("{dir}/available_tracers")).unwrap_or_default();
            found.tracers = tracers.split_whitespace().map(str::to_owned).collect();
            let clocks = r.required_line(&format!("{dir}/trace_clock")).unwrap_or_default();
            let mut clocks = clocks.split_whitespace();
            found.tsc_clock = clocks.any(|clock| clock.trim_matches(['[', ']']) == "x86-tsc");
            found.tracefs = Some(dir.clone());
        }
        None if found.supported == Some(true) => {
            r.note("tracefs", "the kernel supports it, but it is not mounted: tracers are unknown");
        }
        None => {}
    }
    found
}
