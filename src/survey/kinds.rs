//! Which CPUs are fast and which are small, from the best source that the machine has.

use super::reader::SurveyReader;
use super::{CoreKind, Cpu, KindSource};
use cpushield_linux::CpuSet;
use std::collections::BTreeMap;

/// The least ratio of speed between two core types. Smaller differences are binning of equal cores
/// (favoured cores of one processor differ by up to 15 % in their highest frequency).
const CLASS_GAP_PERCENT: u64 = 120;

/// Small cores designed by ARM: A5, A7, A32, A34, A53, A35, A55, A510, A520, A520AE, C1-Nano, A320
/// (MIDR part numbers as in sys-utils/lscpu-arm.c of util-linux and
/// arch/arm64/include/asm/cputype.h).
const SMALL_PARTS: &[u32] =
    &[0xc05, 0xc07, 0xd01, 0xd02, 0xd03, 0xd04, 0xd05, 0xd46, 0xd80, 0xd88, 0xd8a, 0xd8f];

/// `CPU implementer` of ARM itself.
const ARM: u32 = 0x41;

/// The fast and the small CPUs of a hybrid x86 processor, from its PMUs; `None` on others.
pub(super) fn read_pmus(r: &SurveyReader) -> Option<(CpuSet, CpuSet)> {
    let fast = read_pmu(r, "cpu_core");
    if fast.is_empty() {
        return None;
    }
    let small = read_pmu(r, "cpu_atom").union(&read_pmu(r, "cpu_lowpower"));
    (!small.is_empty()).then_some((fast, small))
}

fn read_pmu(r: &SurveyReader, name: &str) -> CpuSet {
    r.list(&format!("/sys/devices/{name}/cpus")).unwrap_or_default()
}

/// Sets the type of each CPU and returns its source; `None` when all CPUs are alike.
pub(super) fn classify(
    cpus: &mut [Cpu],
    pmus: Option<&(CpuSet, CpuSet)>,
    parts: Option<&BTreeMap<usize, (u32, u32)>>,
) -> Option<KindSource> {
    if let Some((fast, small)) = pmus {
        for cpu in cpus {
            cpu.kind = match (fast.contains(cpu.cpu), small.contains(cpu.cpu)) {
                (true, _) => Some(CoreKind::Performance),
                (false, true) => Some(CoreKind::Efficiency),
                (false, false) => None,
            };
        }
        return Some(KindSource::Pmu);
    }
    if classify_by_part(cpus, parts) {
        return Some(KindSource::PartNumber);
    }
    if classify_by_speed(cpus, |cpu| cpu.capacity.map(u64::from)) {
        return Some(KindSource::Capacity);
    }
    if classify_by_speed(cpus, |cpu| cpu.max_khz) {
        return Some(KindSource::Frequency);
    }
    classify_by_clusters(cpus).then_some(KindSource::Clusters)
}

/// Finds small ARM cores next to others. Frequency would mislead here: a fast core may be clocked
/// lower than a small one.
fn classify_by_part(cpus: &mut [Cpu], parts: Option<&BTreeMap<usize, (u32, u32)>>) -> bool {
    let Some(parts) = parts else { return false };
    let kinds: Option<Vec<CoreKind>> = cpus
        .iter()
        .map(|cpu| {
            let (implementer, part) = parts.get(&cpu.cpu)?;
            let small = *implementer == ARM && SMALL_PARTS.contains(part);
            Some(if small { CoreKind::Efficiency } else { CoreKind::Performance })
        })
        .collect();
    let Some(kinds) = kinds else { return false };
    let mixed = [CoreKind::Performance, CoreKind::Efficiency].iter().all(|it| kinds.contains(it));
    if mixed {
        for (cpu, kind) in cpus.iter_mut().zip(kinds) {
            cpu.kind = Some(kind);
        }
    }
    mixed
}

/// Divides the CPUs where their speeds differ most, if the difference is large enough.
fn classify_by_speed(cpus: &mut [Cpu], speed: impl Fn(&Cpu) -> Option<u64>) -> bool {
    let mut values: Vec<u64> = cpus.iter().filter_map(&speed).collect();
    values.sort_unstable();
    values.dedup();
    let ratios =
        values.windows(2).map(|pair| (pair[1].saturating_mul(100) / pair[0].max(1), pair[1]));
    let Some((percent, limit)) = ratios.max_by_key(|(percent, _)| *percent) else { return false };
    if percent < CLASS_GAP_PERCENT {
        return false;
    }
    for cpu in cpus {
        cpu.kind = speed(cpu)
            .map(|speed| if speed >= limit { CoreKind::Performance } else { CoreKind::Efficiency });
    }
    true
}

/// Small x86 cores share a level-2 cache in modules, fast ones have their own. When each of the
/// latter is faster than all of the former, that divides them, even at similar frequencies.
fn classify_by_clusters(cpus: &mut [Cpu]) -> bool {
    let (mut slowest_single, mut fastest_in_module) = (None, None);
    for cpu in cpus.iter() {
        match is_in_module(cpu) {
            Some(true) => fastest_in_module = fastest_in_module.max(cpu.max_khz),
            Some(false) => {
                slowest_single = slowest_single.into_iter().chain(cpu.max_khz).min();
            }
            None => {}
        }
    }
    let (Some(slowest_single), Some(fastest_in_module)) = (slowest_single, fastest_in_module)
    else {
        return false;
    };
    if slowest_single <= fastest_in_module {
        return false;
    }
    for cpu in cpus {
        cpu.kind = is_in_module(cpu).map(|small| match small {
            true => CoreKind::Efficiency,
            false => CoreKind::Performance,
        });
    }
    true
}

/// Whether a core shares its level-2 cache with others; `None` without a cache or a frequency.
fn is_in_module(cpu: &Cpu) -> Option<bool> {
    cpu.max_khz?;
    Some(cpu.sharing(2)?.len() > cpu.siblings.len())
}
