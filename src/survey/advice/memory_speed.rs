//! Memory modules that run below their rated speed, according to the firmware's table. Only root
//! may read this table.

use super::{AdviceSource, SubjectReading, SurveyFinding};
use cpushield_linux::text::dmi::{MemoryModule, memory_modules};

const TABLE: &str = "/sys/firmware/dmi/tables/DMI";

pub(super) fn read(source: &AdviceSource<'_>) -> SubjectReading {
    let table = source.r.host.read_bytes(TABLE).unwrap_or_default();
    let modules = memory_modules(&table);
    let speeds = modules
        .iter()
        .filter_map(|MemoryModule { rated, configured }| Some(((*rated)?, (*configured)?)));
    let speeds: Vec<(u32, u32)> = speeds.collect();
    if speeds.is_empty() {
        return None;
    }
    let slow = speeds.iter().filter(|(rated, configured)| configured < rated);
    let slowest = slow.clone().min_by_key(|(_, configured)| configured);
    Some(Vec::from_iter(slowest.map(|(rated, configured)| {
        SurveyFinding::new(
            "memory-speed",
            format!(
                "{} of {} memory modules run below their rated speed: {configured} MT/s instead of \
                 {rated} MT/s",
                slow.count(),
                speeds.len()
            ),
            "the firmware limits the speed to save power, or because the processor or the number \
             of modules on a channel requires it; check the firmware's memory settings",
        )
    })))
}
