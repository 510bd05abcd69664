//! Which CPUs are strong and which are small, by the best source that the machine has.

use super::reader::SurveyReader;
use super::{CoreKind, Cpu, KindSource};
use cpushield_linux::CpuSet;
use std::collections::BTreeMap;

/// Neighbouring classes of cores differ at least so much in strength; less is binning of equal
/// cores (favoured cores of one part differ by up to 15 % in their highest frequency).
const CLASS_GAP_PERCENT: u64 = 120;

/// ARM's own small cores: A5, A7, A32, A34, A53, A35, A55, A510, A520, A520AE, C1-Nano, A320 (MIDR
/// part numbers as in sys-utils/lscpu-arm.c of util-linux and arch/arm64/include/asm/cputype.h).
const SMALL_PARTS: &[u32] =
    &[0xc05, 0xc07, 0xd01, 0xd02, 0xd03, 0xd04, 0xd05, 0xd46, 0xd80, 0xd88, 0xd8a, 0xd8f];

/// `CPU implementer` of ARM itself.
const ARM: u32 = 0x41;

/// CPUs of hybrid x86 parts by their PMUs: the strong and the small ones; `None` on others.
pub(super) fn pmus(r: &SurveyReader) -> Option<(CpuSet, CpuSet)> {
    let pmu = |name: &str| r.list(&format!("/sys/devices/{name}/cpus")).unwrap_or_default();
    let strong = pmu("cpu_core");
    if strong.is_empty() {
        return None;
    }
    let small = pmu("cpu_atom").union(&pmu("cpu_lowpower"));
    (!small.is_empty()).then_some((strong, small))
}

/// Gives each CPU its kind, and says where that is from; nothing where all CPUs are alike.
pub(super) fn classify(
    cpus: &mut [Cpu],
    pmus: Option<&(CpuSet, CpuSet)>,
    parts: Option<&BTreeMap<usize, (u32, u32)>>,
) -> Option<KindSource> {
    if let Some((strong, small)) = pmus {
        for cpu in cpus {
            cpu.kind = match (strong.contains(cpu.cpu), small.contains(cpu.cpu)) {
                (true, _) => Some(CoreKind::Performance),
                (false, true) => Some(CoreKind::Efficiency),
                (false, false) => None,
            };
        }
        return Some(KindSource::Pmu);
    }
    if by_part(cpus, parts) {
        return Some(KindSource::PartNumber);
    }
    if by_strength(cpus, |cpu| cpu.capacity.map(u64::from)) {
        return Some(KindSource::Capacity);
    }
    if by_strength(cpus, |cpu| cpu.max_khz) {
        return Some(KindSource::Frequency);
    }
    by_clusters(cpus).then_some(KindSource::Clusters)
}

/// Small cores of ARM beside others. Frequency would mislead here: a strong core may be clocked
/// lower than a small one.
fn by_part(cpus: &mut [Cpu], parts: Option<&BTreeMap<usize, (u32, u32)>>) -> bool {
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

/// Parts the CPUs where their strengths differ most, when that is enough.
fn by_strength(cpus: &mut [Cpu], strength: impl Fn(&Cpu) -> Option<u64>) -> bool {
    let mut values: Vec<u64> = cpus.iter().filter_map(&strength).collect();
    values.sort_unstable();
    values.dedup();
    let gap = |pair: &&[u64]| pair[1].saturating_mul(100) / pair[0].max(1);
    let widest = values.windows(2).max_by_key(gap).filter(|pair| gap(pair) >= CLASS_GAP_PERCENT);
    let Some(limit) = widest.map(|pair| pair[1]) else { return false };
    for cpu in cpus {
        cpu.kind = strength(cpu).map(|strength| {
            if strength >= limit { CoreKind::Performance } else { CoreKind::Efficiency }
        });
    }
    true
}

/// Small x86 cores share a level-2 cache in modules, strong ones have their own. Where each of the
/// latter is faster than all of the former, that parts them, however near the frequencies are.
fn by_clusters(cpus: &mut [Cpu]) -> bool {
    let in_module = |cpu: &Cpu| {
        Some(cpu.sharing(2)?.len() > cpu.siblings.len()).filter(|_| cpu.max_khz.is_some())
    };
    let speeds = |module: bool| {
        let of = cpus.iter().filter(move |cpu| in_module(cpu) == Some(module));
        of.filter_map(|cpu| cpu.max_khz)
    };
    let (Some(slowest), Some(fastest)) = (speeds(false).min(), speeds(true).max()) else {
        return false;
    };
    if slowest <= fastest {
        return false;
    }
    for cpu in cpus {
        cpu.kind = in_module(cpu).map(|small| match small {
            true => CoreKind::Efficiency,
            false => CoreKind::Performance,
        });
    }
    true
}
