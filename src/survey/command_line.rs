//! What the kernel does with `nohz_full=`, `isolcpus=` and `irqaffinity=` on a command line, and
//! which of them it refuses, replaces or accepts in part. Pure.
//!
//! Three rules exist, by version (kernel/sched/isolation.c, read in 5.10, 6.0 and 7.0):
//! - before 4.15 the two are independent, and a second `isolcpus=` replaces the first one
//!   (`isolated_cpu_setup()`, kernel/sched/topology.c, 4.13);
//! - from 4.15 to 5.17 one list serves both, whatever the flags: the first parameter sets it, and
//!   a later one with another list is refused (`housekeeping_mask`);
//! - from 5.18 each kind of isolation has its own list: a later parameter is refused only when it
//!   requests a kind that an earlier one has with another list (`housekeeping.cpumasks[]`).

use super::{CommandLineFault, Isolation, Kernel};
use cpushield_linux::CpuSet;
use cpushield_linux::text::cmdline::{self, KernelParam};
use cpushield_linux::text::first_releases::{
    ALL_CPUS_WORD, ISOLCPUS_FLAGS, LAST_CPU_WORD, LIST_PER_ISOLATION, MANAGED_IRQ_FLAG,
    ONE_ISOLATION_LIST, STRICT_CPU_RANGE, UNKNOWN_FLAGS_SKIPPED,
};
use cpushield_linux::text::kernel_version::{KernelVersion, may_be_vendor_build};

/// A kind of isolation that a parameter requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsolationKind {
    /// No tick (`nohz_full=`, `isolcpus=nohz,`).
    Tick,
    /// Out of the scheduling domains (`isolcpus=`, `isolcpus=domain,`).
    Domain,
    /// Managed interrupts kept away (`isolcpus=managed_irq,`).
    ManagedIrq,
}

/// `nohz_full=` or `isolcpus=` as the kernel applies it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IsolationParameter {
    /// The word: `isolcpus=domain,2-3`.
    pub word: String,
    /// The kinds of isolation that it requests.
    pub kinds: Vec<IsolationKind>,
    /// Its CPUs, without those that the machine cannot have.
    pub cpus: CpuSet,
}

/// How a kernel applies a command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IsolationSetup {
    /// Parameters that are in force, in order.
    pub taken: Vec<IsolationParameter>,
    /// Parameters that are not in force as written.
    pub faults: Vec<CommandLineFault>,
}

impl IsolationSetup {
    /// CPUs with this kind of isolation.
    #[must_use]
    pub fn cpus(&self, kind: IsolationKind) -> CpuSet {
        let of_kind = self.taken.iter().filter(|it| it.kinds.contains(&kind));
        of_kind.map(|it| &it.cpus).collect()
    }
}

/// The version by whose rules a kernel of this release applies isolation lists; `None` where that
/// is unknown. Vendors have given each kind of isolation its own list in releases before 5.18
/// (5.14 of RHEL 9), so the version of a vendor's build says nothing there.
#[must_use]
pub fn list_rules(release: &str) -> Option<KernelVersion> {
    let version = KernelVersion::from_release(release)?;
    (!has_one_list(version) || !may_be_vendor_build(release)).then_some(version)
}

/// The same for the running kernel. Two different lists in its files show that each kind of
/// isolation has its own, whatever the version.
#[must_use]
pub fn running_list_rules(kernel: &Kernel, isolation: &Isolation) -> Option<KernelVersion> {
    let version = kernel.release.as_deref().map_or(kernel.version, list_rules)?;
    let shown = |cpus: &CpuSet| !cpus.is_empty();
    let tick = isolation.nohz_full.as_ref().filter(|cpus| shown(cpus));
    let domain = isolation.isolated.as_ref().filter(|cpus| shown(cpus));
    let differ = tick.zip(domain).is_some_and(|(tick, domain)| tick != domain);
    (!has_one_list(version) || !differ).then_some(version)
}

fn has_one_list(version: KernelVersion) -> bool {
    (ONE_ISOLATION_LIST..LIST_PER_ISOLATION).contains(&version)
}

/// How a kernel of this version applies a command line on a machine with these possible CPUs. Lists
/// that it cannot parse are left out; an unknown version is treated as a recent one.
#[must_use]
pub fn isolation_setup(
    line: &str,
    possible: &CpuSet,
    version: Option<KernelVersion>,
) -> IsolationSetup {
    let params = cmdline::parse(line);
    let mut setup = IsolationSetup::default();
    let Some(last) = possible.last() else { return setup };
    for param in &params {
        let Some((kinds, cpus)) = requested_isolation(param, last) else { continue };
        let beyond: CpuSet = cpus.iter().filter(|cpu| *cpu > last).collect();
        let word = plain_word(param);
        if let Some((part, since)) = version.and_then(|version| unknown_part(param, version)) {
            let parameter = word;
            setup.faults.push(CommandLineFault::PartUnknown { parameter, part, since });
            continue;
        }
        if !beyond.is_empty() {
            let certain = version
                .is_none_or(|version| version < LIST_PER_ISOLATION || version >= STRICT_CPU_RANGE);
            setup.faults.push(CommandLineFault::BeyondLast {
                parameter: word,
                cpus: beyond,
                last,
                certain,
            });
            continue;
        }
        let absent = cpus.difference(possible);
        if !absent.is_empty() {
            let parameter = word.clone();
            setup.faults.push(CommandLineFault::NoSuchCpus { parameter, cpus: absent });
        }
        apply_parameter(
            &mut setup,
            IsolationParameter { word, kinds, cpus: cpus.intersection(possible) },
            version,
        );
    }
    setup.faults.extend(interrupts_on_isolated(&params, &setup.taken, last));
    setup
}

/// Adds a parameter to those in force, as a kernel of this version does.
fn apply_parameter(
    setup: &mut IsolationSetup,
    parameter: IsolationParameter,
    version: Option<KernelVersion>,
) {
    if version.is_some_and(|version| version < ONE_ISOLATION_LIST) {
        if let Some(index) = setup.taken.iter().position(|it| it.kinds == parameter.kinds) {
            let lost = setup.taken.remove(index).word;
            let by = parameter.word.clone();
            setup.faults.push(CommandLineFault::Replaced { lost, by });
        }
        setup.taken.push(parameter);
        return;
    }
    let one_list = version.is_some_and(has_one_list);
    let conflicting = setup.taken.iter().find(|earlier| {
        let shares = one_list || earlier.kinds.iter().any(|kind| parameter.kinds.contains(kind));
        shares && earlier.cpus != parameter.cpus
    });
    match conflicting {
        Some(earlier) => {
            let (refused, kept) = (parameter.word, earlier.word.clone());
            setup.faults.push(CommandLineFault::ListDiffers { refused, kept, one_list });
        }
        None => setup.taken.push(parameter),
    }
}

/// The isolation that a parameter requests; `None` for other parameters and for invalid lists.
fn requested_isolation(param: &KernelParam, last: usize) -> Option<(Vec<IsolationKind>, CpuSet)> {
    let value = param.value.as_deref()?;
    if cmdline::same_name(&param.name, "nohz_full") {
        let cpus = CpuSet::parse_list(value, Some(last)).ok()?;
        return Some((vec![IsolationKind::Tick], cpus));
    }
    if !cmdline::same_name(&param.name, "isolcpus") {
        return None;
    }
    let isolcpus = cmdline::isolcpus(value, Some(last)).ok()?;
    let kinds = [
        (isolcpus.nohz, IsolationKind::Tick),
        (isolcpus.domain, IsolationKind::Domain),
        (isolcpus.managed_irq, IsolationKind::ManagedIrq),
    ];
    let requested = kinds.into_iter().filter(|(flag, _)| *flag).map(|(_, kind)| kind);
    Some((requested.collect(), isolcpus.cpus))
}

/// The first flag or part of a list that a kernel of this version does not accept, and the first
/// release that does.
fn unknown_part(param: &KernelParam, version: KernelVersion) -> Option<(String, KernelVersion)> {
    let value = param.value.as_deref()?;
    let (flags, list) = match cmdline::same_name(&param.name, "isolcpus") {
        true => cmdline::split_isolcpus(value),
        false => (Vec::new(), value),
    };
    let of_flag = |flag: &str| match flag {
        "domain" | "nohz" => ISOLCPUS_FLAGS,
        "managed_irq" => MANAGED_IRQ_FLAG,
        _ => UNKNOWN_FLAGS_SKIPPED,
    };
    let of_list = |part: &str| {
        let words = part.split(['-', ':', '/']).map(str::trim);
        let since = words.filter_map(|word| match word {
            "N" => Some(LAST_CPU_WORD),
            all if all.eq_ignore_ascii_case("all") => Some(ALL_CPUS_WORD),
            _ => None,
        });
        since.max()
    };
    let flags = flags.into_iter().map(|flag| (flag, Some(of_flag(flag))));
    let mut parts = flags.chain(list.split(',').map(|part| (part, of_list(part))));
    parts.find_map(|(part, since)| Some((part.to_owned(), since.filter(|since| version < *since)?)))
}

/// Finds isolated CPUs in the last `irqaffinity=`. The boot CPU, which the kernel adds to that list
/// (`irq_affinity_setup()`, kernel/irq/irqdesc.c, 6.12), does not count.
fn interrupts_on_isolated(
    params: &[KernelParam],
    taken: &[IsolationParameter],
    last: usize,
) -> Option<CommandLineFault> {
    let param = cmdline::last(params, "irqaffinity")?;
    let interrupts = CpuSet::parse_list(param.value.as_deref()?, Some(last)).ok()?;
    let isolcpus = taken
        .iter()
        .find(|it| it.word.starts_with("isolcpus") && it.cpus.intersects(&interrupts))?;
    Some(CommandLineFault::InterruptsOnIsolated {
        irqaffinity: plain_word(param),
        isolcpus: isolcpus.word.clone(),
        cpus: isolcpus.cpus.intersection(&interrupts),
    })
}

/// The word of a parameter, without quotes.
pub(super) fn plain_word(param: &KernelParam) -> String {
    format!("{}={}", param.name, param.value.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(line: &str, version: (u32, u32)) -> (Vec<String>, Vec<String>) {
        let possible = "0-3".parse().unwrap();
        let version = KernelVersion::new(version.0, version.1);
        let setup = isolation_setup(line, &possible, Some(version));
        (
            setup.taken.into_iter().map(|it| it.word).collect(),
            setup.faults.iter().map(ToString::to_string).collect(),
        )
    }

    #[test]
    fn before_5_18_one_list_serves_nohz_full_and_isolcpus() {
        for (line, refused) in [
            ("nohz_full=1-3 isolcpus=2-3", "isolcpus=2-3"),
            ("isolcpus=2-3 ro nohz_full=1-3", "nohz_full=1-3"),
        ] {
            for version in [(4, 15), (5, 10), (5, 17)] {
                let (taken, faults) = setup(line, version);
                assert_eq!((taken.len(), faults.len()), (1, 1), "{line}");
                assert!(faults[0].starts_with(&format!("the kernel ignores {refused}: ")));
                assert!(faults[0].contains("before 5.18"), "{faults:?}");
            }
            for version in [(4, 14), (5, 18), (6, 12)] {
                let (taken, faults) = setup(line, version);
                assert_eq!((taken.len(), faults), (2, Vec::new()), "{line}");
            }
        }
        assert_eq!(setup("nohz_full=1-3 isolcpus=managed_irq,2-3", (5, 10)).0.len(), 1);
        assert_eq!(setup("nohz_full=1-3 isolcpus=managed_irq,2-3", (5, 18)).0.len(), 2);
        assert_eq!(setup("nohz_full=1-3 isolcpus=1-3", (5, 10)).1, [""; 0]);
        // Every later kernel also refuses the same kind twice.
        let (taken, faults) = setup("isolcpus=nohz,2-3 nohz_full=1-3", (6, 12));
        assert_eq!(taken, ["isolcpus=nohz,2-3"]);
        assert!(faults[0].starts_with("the kernel ignores nohz_full=1-3: "), "{faults:?}");
    }

    #[test]
    fn a_flag_or_a_word_that_is_younger_than_the_kernel_defeats_the_parameter() {
        for (line, since, part, before) in [
            ("isolcpus=domain,2-3", (4, 15), "domain", (4, 14)),
            ("isolcpus=nohz,domain,2-3", (4, 15), "nohz", (4, 14)),
            ("isolcpus=domain,managed_irq,2-3", (5, 6), "managed_irq", (5, 4)),
            ("isolcpus=domain,future,2-3", (5, 8), "future", (5, 7)),
            ("isolcpus=1,2-N", (5, 13), "2-N", (5, 10)),
            ("nohz_full=all", (5, 14), "all", (5, 13)),
        ] {
            let (taken, faults) = setup(line, before);
            let text = format!(
                "the kernel ignores {line}: kernels before {}.{} do not accept {part:?}",
                since.0, since.1
            );
            assert_eq!((taken, faults), (Vec::new(), vec![text]));
            assert_eq!(setup(line, since), (vec![line.to_owned()], Vec::new()));
        }
        // The version of a vendor's build is not known, and so nothing is too young.
        let none = isolation_setup("isolcpus=managed_irq,2-N", &"0-3".parse().unwrap(), None);
        assert_eq!((none.taken.len(), none.faults), (1, Vec::new()));
    }

    #[test]
    fn a_version_says_nothing_about_the_lists_of_a_vendor_build() {
        let rules = |release| list_rules(release).map(|version| version.to_string());
        assert_eq!(rules("5.14.0-570.12.1.el9_6.x86_64"), None);
        assert_eq!(rules("5.10.0-28-rt-amd64").as_deref(), Some("5.10"));
        // Outside of these versions vendors changed no rule that is known.
        assert_eq!(rules("3.10.0-1160.el7.x86_64").as_deref(), Some("3.10"));
        assert_eq!(rules("6.8.0-31-generic").as_deref(), Some("6.8"));
        let running = |release: &str, nohz_full: &str, isolated: &str| {
            let kernel = Kernel { release: Some(release.to_owned()), ..Kernel::default() };
            let isolation = Isolation {
                nohz_full: nohz_full.parse().ok(),
                isolated: isolated.parse().ok(),
                ..Isolation::default()
            };
            running_list_rules(&kernel, &isolation).map(|version| version.to_string())
        };
        assert_eq!(running("5.14.0", "1-3", "2-3"), None);
        assert_eq!(running("5.14.0", "1-3", "").as_deref(), Some("5.14"));
        assert_eq!(running("5.14.0", "1-3", "1-3").as_deref(), Some("5.14"));
        assert_eq!(running("4.9.0", "1-3", "2-3").as_deref(), Some("4.9"));
    }

    #[test]
    fn the_first_isolcpus_wins_and_before_4_15_the_last_one() {
        let line = "isolcpus=1 quiet isolcpus=2-3";
        let (taken, faults) = setup(line, (6, 12));
        assert_eq!(taken, ["isolcpus=1"]);
        assert_eq!(
            faults,
            ["the kernel ignores isolcpus=2-3: isolcpus=1 comes first and names other CPUs"]
        );
        let (taken, faults) = setup(line, (4, 9));
        assert_eq!(taken, ["isolcpus=2-3"]);
        assert_eq!(faults, ["isolcpus=1 has no effect: isolcpus=2-3 comes later and replaces it"]);
        assert_eq!(setup("isolcpus=1 isolcpus=1", (6, 12)).1, [""; 0]);
        // Two kinds of isolation have two lists.
        let two = "isolcpus=domain,1 isolcpus=managed_irq,2-3";
        assert_eq!(setup(two, (6, 12)).0.len(), 2);
        assert_eq!(setup(two, (5, 10)).0.len(), 1);
    }

    #[test]
    fn impossible_cpus_are_reported_with_what_the_kernel_does() {
        let whole = "isolcpus=2-9 names CPU 4-9, but the last CPU is 3: the kernel ignores the \
                     whole list";
        for version in [(4, 19), (5, 17), (6, 3), (6, 12)] {
            let (taken, faults) = setup("isolcpus=2-9", version);
            assert_eq!((taken, faults), (Vec::new(), vec![whole.to_owned()]));
        }
        let (_, faults) = setup("isolcpus=2-9", (6, 1));
        assert!(faults[0].contains("CONFIG_CPUMASK_OFFSTACK"), "{faults:?}");
        // N is the last CPU; CPU numbers in a gap are skipped.
        assert_eq!(setup("isolcpus=1-N", (6, 12)).1, [""; 0]);
        let sparse = isolation_setup("isolcpus=1-2", &"0,2".parse().unwrap(), None);
        assert_eq!(sparse.cpus(IsolationKind::Domain), "2".parse().unwrap());
        let absent = CommandLineFault::NoSuchCpus {
            parameter: "isolcpus=1-2".to_owned(),
            cpus: "1".parse().unwrap(),
        };
        assert_eq!(sparse.faults, [absent]);
    }

    #[test]
    fn an_irqaffinity_on_isolated_cpus_is_reported() {
        let (_, faults) = setup("isolcpus=2-3 irqaffinity=0-2", (6, 12));
        assert_eq!(
            faults,
            ["irqaffinity=0-2 sends interrupts to CPU 2, which isolcpus=2-3 isolates; the kernel \
              does not compare the two"]
        );
        assert_eq!(setup("isolcpus=2-3 irqaffinity=0-1", (6, 12)).1, [""; 0]);
        // The last one wins, and nohz_full= alone does not isolate CPUs.
        assert_eq!(setup("isolcpus=2-3 irqaffinity=0-3 irqaffinity=0-1", (6, 12)).1, [""; 0]);
        assert_eq!(setup("nohz_full=1-3 irqaffinity=0-3", (6, 12)).1, [""; 0]);
    }
}
