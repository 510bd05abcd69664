//! Findings about words that keep CPUs from starting, although other words name these CPUs. Pure.

use super::LintTarget;
use crate::boot::line::to_word;
use crate::documents::boot::LintFinding;
use cpushield_linux::CpuSet;
use cpushield_linux::text::cmdline::{self, KernelParam};

/// Parameters with the CPUs to isolate: they have no use without these CPUs.
const ISOLATING: &[&str] = &["nohz_full", "isolcpus", "rcu_nocbs"];
/// Parameters whose list must end below the limit of `nr_cpus=`, or the kernel cannot parse it.
const LISTS: &[&str] = &["irqaffinity", "workqueue.unbound_cpus"];

/// A word that limits the number of CPUs.
struct CpuLimit<'a> {
    param: &'a KernelParam,
    /// How many CPUs start.
    count: usize,
    /// Whether the kernel does not know the others at all.
    hard: bool,
}

/// Lists with CPUs that do not start. The kernel starts the first ones
/// (`bringup_nonboot_cpus()`, kernel/cpu.c, 6.12), or one sibling of each core first. Which ones
/// these are, only a running kernel shows.
pub(super) fn find(target: &LintTarget<'_>, params: &[KernelParam]) -> Option<LintFinding> {
    let last = target.possible.last()?;
    let (limit, started) = find_started(target, params)?;
    // CPUs can come online later.
    let none = CpuSet::new();
    let online = if target.running { target.online } else { &none };
    let (mut words, mut cpus) = (Vec::new(), CpuSet::new());
    for param in params {
        // `N` is the last CPU that the kernel knows.
        let end = if limit.hard { limit.count - 1 } else { last };
        let Some(named) = named_cpus(param, limit.hard, end.min(last), last) else { continue };
        let missing = named.intersection(target.possible).difference(&started).difference(online);
        if !missing.is_empty() {
            words.push(to_word(param));
            cpus = cpus.union(&missing);
        }
    }
    let limit = to_word(limit.param);
    (!words.is_empty()).then_some(LintFinding::CpusNotStarted { limit, started, words, cpus })
}

/// The CPUs that start, and the others among `cpus`; `None` when all of these start, or when only a
/// running kernel shows that.
pub(in crate::boot) fn find_unstarted(
    target: &LintTarget<'_>,
    params: &[KernelParam],
    cpus: &CpuSet,
) -> Option<(CpuSet, CpuSet)> {
    let (_, started) = find_started(target, params)?;
    let missing = cpus.difference(&started);
    (!missing.is_empty()).then_some((started, missing))
}

/// The strictest limit, and the CPUs that start with it.
fn find_started<'a>(
    target: &LintTarget<'_>,
    params: &'a [KernelParam],
) -> Option<(CpuLimit<'a>, CpuSet)> {
    let limit = params.iter().filter_map(cpu_limit).min_by_key(|it| (it.count, !it.hard))?;
    let of_cores = !limit.hard && limit.count > 1 && target.starts_cores_first();
    let started: CpuSet = match (of_cores, target.running) {
        (true, true) => target.online().clone(),
        (true, false) => return None,
        (false, _) => target.possible.iter().take(limit.count).collect(),
    };
    Some((limit, started))
}

/// `nosmp`, `maxcpus=` and `nr_cpus=` (kernel/smp.c, 6.12). With `maxcpus=0` only the boot CPU
/// starts, as with `nosmp`; `nr_cpus=0` is ignored.
fn cpu_limit(param: &KernelParam) -> Option<CpuLimit<'_>> {
    let count = || param.value.as_deref()?.parse::<usize>().ok();
    match param.name.replace('-', "_").as_str() {
        "nosmp" => Some(CpuLimit { param, count: 1, hard: false }),
        "maxcpus" => {
            let is_number =
                param.value.as_deref()?.starts_with(|first: char| first.is_ascii_digit());
            let count = if is_number { count()?.max(1) } else { 1 };
            Some(CpuLimit { param, count, hard: false })
        }
        "nr_cpus" => {
            let count = count().filter(|count| *count > 0)?;
            Some(CpuLimit { param, count, hard: true })
        }
        _ => None,
    }
}

/// The CPUs that a list names; `None` for other words, and for a list that no kernel can parse.
fn named_cpus(param: &KernelParam, hard: bool, end: usize, last: usize) -> Option<CpuSet> {
    let has_name = |names: &[&str]| names.iter().any(|it| cmdline::same_name(it, &param.name));
    let value = param.value.as_deref()?;
    let counts = has_name(ISOLATING) || (hard && has_name(LISTS));
    if !counts {
        return None;
    }
    let parse = |last| match cmdline::same_name(&param.name, "isolcpus") {
        true => cmdline::isolcpus(value, Some(last)).ok().map(|it| it.cpus),
        false => CpuSet::parse_list(value, Some(last)).ok(),
    };
    parse(end).or_else(|| parse(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpushield_linux::text::kernel_version::KernelVersion;

    #[test]
    fn a_limit_below_a_listed_cpu_is_a_finding() {
        let possible: CpuSet = "0-3".parse().unwrap();
        let target = LintTarget {
            possible: &possible,
            online: &possible,
            running: false,
            smt: false,
            version: None,
            list_rules: None,
            arch: None,
        };
        for (line, expected) in [
            (
                "nr_cpus=2 nohz_full=2-3 irqaffinity=0-2 quiet",
                "with nr_cpus=2, the kernel starts only CPU 0-1: it does not start CPU 2-3 in \
                 nohz_full=2-3 and irqaffinity=0-2",
            ),
            (
                "isolcpus=domain,2-N maxcpus=1",
                "with maxcpus=1, the kernel starts only CPU 0: it does not start CPU 2-3 in \
                 isolcpus=domain,2-N",
            ),
            (
                "rcu_nocbs=1 nosmp",
                "with nosmp, the kernel starts only CPU 0: it does not start CPU 1 in rcu_nocbs=1",
            ),
            (
                "maxcpus=0 nohz_full=1",
                "with maxcpus=0, the kernel starts only CPU 0: it does not start CPU 1 in \
                 nohz_full=1",
            ),
            (
                "nr_cpus=2 nohz_full=2-N",
                "with nr_cpus=2, the kernel starts only CPU 0-1: it does not start CPU 2-3 in \
                 nohz_full=2-N",
            ),
            ("nr_cpus=2 nohz_full=1-N", ""),
            ("nr_cpus=4 nohz_full=2-3", ""),
            ("nr_cpus=0 maxcpus=8 nohz_full=2-3", ""),
            ("maxcpus=2 irqaffinity=0-3", ""),
            // get_option() (lib/cmdline.c, 6.12) reads it as 0.
            (
                "maxcpus=abc nohz_full=1",
                "with maxcpus=abc, the kernel starts only CPU 0: it does not start CPU 1 in \
                 nohz_full=1",
            ),
        ] {
            let found = find(&target, &cmdline::parse(line)).map(|it| it.to_string());
            assert_eq!(found.unwrap_or_default(), expected, "{line}");
        }
    }

    #[test]
    fn an_online_cpu_is_not_called_not_started() {
        let (possible, online) = ("0-7".parse().unwrap(), "0,2,4,6".parse().unwrap());
        let smt = LintTarget {
            possible: &possible,
            online: &online,
            running: true,
            smt: true,
            version: Some(KernelVersion::new(6, 12)),
            list_rules: None,
            arch: Some("x86_64"),
        };
        let found = |target, line| {
            let found = find(target, &cmdline::parse(line));
            found.map(|it| it.to_string()).unwrap_or_default()
        };
        assert_eq!(found(&smt, "maxcpus=4 nohz_full=4,6"), "");
        let expected = "with maxcpus=4, the kernel starts only CPU 0,2,4,6: it does not start \
                        CPU 5 in nohz_full=4-5";
        assert_eq!(found(&smt, "maxcpus=4 nohz_full=4-5"), expected);
        // Which ones the kernel will start is unknown.
        let planned = LintTarget { running: false, ..smt };
        assert_eq!(found(&planned, "maxcpus=4 nohz_full=4-5"), "");
        let old = LintTarget { version: Some(KernelVersion::new(6, 1)), ..planned };
        assert!(found(&old, "maxcpus=4 nohz_full=4-5").contains("only CPU 0-3"));
        assert!(found(&planned, "nr_cpus=4 nohz_full=4-5").contains("only CPU 0-3"));
        // CPUs that were brought online later.
        let later = LintTarget { smt: false, ..smt };
        assert_eq!(found(&later, "maxcpus=2 nohz_full=4,6"), "");
    }
}
