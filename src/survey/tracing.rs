//! What can be traced. Nothing is mounted here, and debugfs' own `tracing` directory is not
//! touched, because a look at it mounts tracefs.

use super::Tracing;
use super::reader::SurveyReader;
use cpushield_linux::text::mounts::Mount;

pub(super) fn tracing(r: &SurveyReader, mounts: &[Mount]) -> Tracing {
    let filesystems = r.wanted(r.host.read("/proc/filesystems"));
    let knows = |text: String| text.lines().any(|line| line.trim_end().ends_with("tracefs"));
    let mount = mounts.iter().find(|mount| mount.kind == "tracefs");
    let mut found = Tracing { supported: filesystems.map(knows), ..Tracing::default() };
    match mount {
        Some(mount) => {
            let file = |name: &str| r.wanted_line(&format!("{}/{name}", mount.point));
            let tracers = file("available_tracers").unwrap_or_default();
            found.tracers = tracers.split_whitespace().map(str::to_owned).collect();
            let clocks = file("trace_clock").unwrap_or_default();
            let word = |word: &str| word.trim_matches(['[', ']']) == "x86-tsc";
            found.tsc_clock = clocks.split_whitespace().any(word);
            found.tracefs = Some(mount.point.clone());
        }
        None if found.supported == Some(true) => {
            r.note("tracefs", "the kernel has it, but it is not mounted: tracers are not known");
        }
        None => {}
    }
    found
}
