//! Adds words to the text of a kernel command line: finds words that are already present, words
//! that contradict, and the limit of its length. Pure. The other words stay as they are, byte for
//! byte.

use crate::documents::boot::DifferentLists;
use crate::documents::command_line_fault::CommandLineFault;
use crate::survey::isolation_setup;
use cpushield_linux::CpuSet;
use cpushield_linux::cpuset::CPUS_MAX;
use cpushield_linux::text::cmdline;
use cpushield_linux::text::kernel_version::KernelVersion;
use cpushield_sentence::Sentence;
use std::collections::BTreeSet;

/// Words by which boot loaders name the files of the kernel.
const FILES: [&str; 2] = ["BOOT_IMAGE", "initrd"];
/// Parameters whose values are CPU lists: equal sets are equal values.
const LISTS: &[&str] = &["nohz_full", "rcu_nocbs", "irqaffinity", "workqueue.unbound_cpus"];

/// Parameters that a line may have several times with different values (kernel-parameters.txt,
/// 6.12).
const REPEATED: &[&str] =
    &["console", "earlycon", "hugepages", "hugepagesz", "memmap", "module_blacklist", "video"];

/// Why words cannot be added to a command line.
#[derive(Debug, Clone, PartialEq, Eq, Sentence)]
pub enum ParameterConflict {
    /// {present} is already on the command line and contradicts {wanted}.
    ///
    /// The kernel takes one of the two, or neither.
    Differs {
        /// The word on the line.
        present: String,
        /// The word to add.
        wanted: String,
    },
    /// {present} is already on the command line; the lists differ, so the kernel would ignore it or
    /// {wanted}, whichever comes later.
    ///
    /// `isolcpus=nohz,…` and `nohz_full=` have different lists: the kernel ignores the second one
    /// ("Housekeeping: nohz_full= must match isolcpus=", kernel/sched/isolation.c).
    Mismatch {
        /// The word on the line.
        present: String,
        /// The word to add.
        wanted: String,
    },
    /// {present} is already on the command line; with this limit, the kernel refuses {wanted},
    /// because the list names CPUs beyond the limit.
    ///
    /// The line limits the kernel to fewer CPUs than the list names: it refuses the whole list
    /// ("Housekeeping: nohz_full= or isolcpus= incorrect CPU range", kernel/sched/isolation.c,
    /// 6.12).
    Beyond {
        /// The word on the line.
        present: String,
        /// The word to add.
        wanted: String,
    },
    /// the command line would be {bytes} bytes long; this kernel reads only {limit} bytes and drops
    /// the rest.
    TooLong {
        /// Its length with the words added, in bytes.
        bytes: usize,
        /// The bytes that the kernel reads.
        limit: usize,
    },
    /// a quote in the command line is never closed.
    OpenQuote,
}

/// Wanted words, sorted by whether the line has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MergedLine {
    /// Words to add, in the given order.
    pub add: Vec<String>,
    /// Words that the line already has.
    pub already: Vec<String>,
}

/// Bytes of a command line that kernels of an architecture read, with the final zero
/// (`COMMAND_LINE_SIZE`: arch/x86/include/asm/setup.h and arch/arm64/include/uapi/asm/setup.h 2048,
/// arch/arm/include/uapi/asm/setup.h 1024, include/uapi/asm-generic/setup.h 512; 6.12).
#[must_use]
pub fn limit(arch: Option<&str>) -> usize {
    match arch {
        None | Some("x86_64" | "i386" | "i686" | "x86" | "aarch64" | "ppc64le" | "ppc64") => 2048,
        Some("armv7l" | "armv6l" | "arm" | "riscv64") => 1024,
        Some("s390x") => 4096,
        Some(_) => 512,
    }
}

/// Sorts wanted words (`nohz_full=2-3`) into those to add and those already present. `last` is the
/// last possible CPU, which `N` in a list means, where known.
///
/// # Errors
/// A word contradicts the line, or the line would become too long.
pub fn merge(
    line: &str,
    wanted: &[String],
    limit: usize,
    last: Option<usize>,
) -> Result<MergedLine, ParameterConflict> {
    if line.matches('"').count() % 2 == 1 {
        return Err(ParameterConflict::OpenQuote);
    }
    let params = cmdline::parse(line);
    let mut merged = MergedLine::default();
    for word in wanted {
        let (name, value) = split(word);
        let mut known = false;
        for param in &params {
            let (present, wanted) = (to_word(param), word.clone());
            if name == "nohz_full" && cmdline::same_name(&param.name, "isolcpus") {
                let isolcpus = param.value.as_deref().map(|value| cmdline::isolcpus(value, last));
                let isolcpus = isolcpus.and_then(Result::ok);
                if isolcpus.is_some_and(|it| it.nohz && !is_list_of(&it.cpus, value, last)) {
                    return Err(ParameterConflict::Mismatch { present, wanted });
                }
            }
            if LISTS.contains(&name) && cmdline::same_name(&param.name, "nr_cpus") {
                let known = param.value.as_deref().and_then(|value| value.parse::<usize>().ok());
                let highest = value.and_then(|value| value.parse::<CpuSet>().ok()?.last());
                if known.zip(highest).is_some_and(|(known, highest)| highest >= known) {
                    return Err(ParameterConflict::Beyond { present, wanted });
                }
            }
            if !cmdline::same_name(&param.name, name) {
                continue;
            }
            let same = is_same_value(name, param.value.as_deref(), value, last);
            if !same && is_repeated(name) {
                continue;
            }
            if !same {
                return Err(ParameterConflict::Differs { present, wanted });
            }
            known = true;
        }
        if known { &mut merged.already } else { &mut merged.add }.push(word.clone());
    }
    let added: usize = merged.add.iter().map(|word| word.len() + 1).sum();
    let bytes = line.trim_end().len() + added + 1;
    if bytes > limit { Err(ParameterConflict::TooLong { bytes, limit }) } else { Ok(merged) }
}

/// The two different lists that the line has with these words; `None` when there are none.
#[must_use]
pub fn different_lists(
    line: &str,
    wanted: &[String],
    version: Option<KernelVersion>,
) -> Option<DifferentLists> {
    let nohz_full = wanted.iter().find(|word| word.starts_with("nohz_full="))?;
    let (_, cpus) = split(nohz_full);
    let both_taken = version.is_some();
    cmdline::parse(line).iter().find_map(|param| {
        let value =
            param.value.as_deref().filter(|_| cmdline::same_name(&param.name, "isolcpus"))?;
        let parsed =
            cmdline::isolcpus(value, None).ok().filter(|it| !is_list_of(&it.cpus, cpus, None))?;
        let (isolcpus, nohz_full) = (to_word(param), nohz_full.clone());
        (!parsed.nohz).then_some(DifferentLists { isolcpus, nohz_full, both_taken })
    })
}

/// The first parameter that a kernel of this version would ignore on the line with these words,
/// and does not ignore there already. A list of which the kernel only skips some CPUs, and
/// interrupts on isolated CPUs, are no such parameters.
#[must_use]
pub fn first_ignored(
    line: &str,
    wanted: &[String],
    possible: &CpuSet,
    version: Option<KernelVersion>,
) -> Option<CommandLineFault> {
    let before = isolation_setup(line, possible, version).faults;
    let after = isolation_setup(&with_missing(line, wanted), possible, version).faults;
    after.into_iter().find(|fault| match fault {
        // Two values of one parameter are a conflict that `merge` finds.
        CommandLineFault::ListDiffers { refused, kept, .. } => {
            split(refused).0 != split(kept).0 && !before.contains(fault)
        }
        CommandLineFault::BeyondLast { .. } | CommandLineFault::PartUnknown { .. } => {
            !before.contains(fault)
        }
        // `merge` finds these too: only kernels before 4.15 replace one `isolcpus=` by another.
        CommandLineFault::Replaced { .. }
        | CommandLineFault::NoSuchCpus { .. }
        | CommandLineFault::InterruptsOnIsolated { .. } => false,
    })
}

/// The line with words in front, where no `--` of the line can hide them from the kernel.
#[must_use]
pub fn with_words(line: &str, words: &[String]) -> String {
    if words.is_empty() {
        return line.to_owned();
    }
    let gap = if line.is_empty() { "" } else { " " };
    format!("{}{gap}{line}", words.join(" "))
}

/// The line with those of the words in front that it does not have yet.
#[must_use]
pub fn with_missing(line: &str, words: &[String]) -> String {
    let missing: Vec<String> = words.iter().filter(|word| !has(line, word)).cloned().collect();
    with_words(line, &missing)
}

/// The line without those of the words that [`with_missing`] put in front of it.
#[must_use]
pub fn without_front(line: &str, words: &[String]) -> String {
    let mut rest = line;
    for word in words {
        match rest.strip_prefix(word.as_str()) {
            Some("") => rest = "",
            Some(after) => rest = after.strip_prefix(' ').unwrap_or(rest),
            None => {}
        }
    }
    rest.to_owned()
}

/// The word that a command line has for the same parameter with another value. `last` is the last
/// possible CPU.
pub(super) fn present_value(line: &str, word: &str, last: Option<usize>) -> Option<String> {
    match merge(line, &[word.to_owned()], usize::MAX, last) {
        Err(ParameterConflict::Differs { present, .. }) => Some(present),
        _ => None,
    }
}

/// The line without the words that have another value of these parameters.
pub(super) fn without_contradicting(line: &str, words: &[String], last: Option<usize>) -> String {
    words.iter().fold(line.to_owned(), |mut line, word| {
        while let Some(present) = present_value(&line, word, last) {
            let rest = without(&line, &[present]);
            if rest == line {
                break;
            }
            line = rest;
        }
        line
    })
}

/// The line without exactly these words.
#[must_use]
pub fn without(line: &str, words: &[String]) -> String {
    let mut quoted = false;
    let mut kept: Vec<&str> = Vec::new();
    for word in line.split(' ') {
        let ours = !quoted && words.iter().any(|it| it == word);
        quoted ^= word.matches('"').count() % 2 == 1;
        if !ours {
            kept.push(word);
        }
    }
    kept.join(" ")
}

/// Whether the line has this word, or an equal one.
#[must_use]
pub fn has(line: &str, word: &str) -> bool {
    has_on(line, word, None)
}

/// The same on a machine with this last possible CPU, which `N` in a list means.
#[must_use]
pub fn has_on(line: &str, word: &str, last: Option<usize>) -> bool {
    let (name, value) = split(word);
    cmdline::parse(line).iter().any(|param| {
        let present = param.value.as_deref();
        cmdline::same_name(&param.name, name) && is_same_value(name, present, value, last)
    })
}

/// The CPUs that a word takes out of the scheduling domains; `None` for other words.
#[must_use]
pub fn isolated_domain(word: &str) -> Option<CpuSet> {
    parsed_isolcpus(word).filter(|it| it.domain).map(|it| it.cpus)
}

/// One `isolcpus=` with the flags of two that name the same CPUs; `None` for other words.
#[must_use]
pub fn join_isolcpus(a: &str, b: &str) -> Option<String> {
    let (mut a, b) = (parsed_isolcpus(a)?, parsed_isolcpus(b)?);
    (a.nohz, a.domain, a.managed_irq) =
        (a.nohz || b.nohz, a.domain || b.domain, a.managed_irq || b.managed_irq);
    (a.cpus == b.cpus).then(|| a.word())
}

/// The flags and CPUs of a word; `None` for other words than `isolcpus=`.
pub(super) fn parsed_isolcpus(word: &str) -> Option<cmdline::Isolcpus> {
    parse_isolcpus(split(word), None)
}

fn parse_isolcpus(
    (name, value): (&str, Option<&str>),
    last: Option<usize>,
) -> Option<cmdline::Isolcpus> {
    cmdline::isolcpus(value.filter(|_| cmdline::same_name(name, "isolcpus"))?, last).ok()
}

/// The name of the parameter that a word sets.
#[must_use]
pub fn name_of(word: &str) -> &str {
    split(word).0
}

/// The words of a command line, without those that name the files of its kernel.
#[must_use]
pub fn words_without_files(line: &str) -> BTreeSet<&str> {
    line.split_whitespace().filter(|word| !FILES.contains(&name_of(word))).collect()
}

/// Whether a word sets the same parameter as another one to another value.
#[must_use]
pub fn contradicts(present: &str, wanted: &str) -> bool {
    let name = name_of(wanted);
    cmdline::same_name(name_of(present), name) && !is_repeated(name) && !has(present, wanted)
}

fn is_repeated(name: &str) -> bool {
    REPEATED.iter().any(|it| cmdline::same_name(it, name))
}

/// Checks the value of a parameter whose value is a CPU list.
///
/// # Errors
/// It is not a list that the kernel accepts.
pub fn check_list(word: &str) -> Result<(), String> {
    let (name, value) = split(word);
    let Some(value) = value else { return Ok(()) };
    let last = Some(CPUS_MAX - 1);
    let cpus = if cmdline::same_name(name, "isolcpus") {
        cmdline::isolcpus(value, last).map(|it| it.cpus).map_err(|error| error.to_string())?
    } else if LISTS.iter().any(|list| cmdline::same_name(list, name)) {
        CpuSet::parse_list(value, last).map_err(|error| error.to_string())?
    } else {
        return Ok(());
    };
    if cpus.is_empty() { Err("the list is empty".to_owned()) } else { Ok(()) }
}

/// Whether a word needs no quoting in any loader's files: shell, GRUB and BLS read it literally.
#[must_use]
pub fn is_plain(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphanumeric())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "_.,:=/+-".contains(c))
}

/// The name and the value of a word.
#[must_use]
pub fn split(word: &str) -> (&str, Option<&str>) {
    match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    }
}

/// The word of a parsed parameter, without quotes.
pub(super) fn to_word(param: &cmdline::KernelParam) -> String {
    match &param.value {
        Some(value) => format!("{}={value}", param.name),
        None => param.name.clone(),
    }
}

fn is_same_value(
    name: &str,
    present: Option<&str>,
    wanted: Option<&str>,
    last: Option<usize>,
) -> bool {
    present == wanted
        || LISTS.iter().any(|list| cmdline::same_name(list, name))
            && parse_list(present, last).is_some_and(|cpus| is_list_of(&cpus, wanted, last))
        || parse_isolcpus((name, present), last)
            .is_some_and(|isolcpus| Some(isolcpus) == parse_isolcpus((name, wanted), last))
}

fn is_list_of(cpus: &CpuSet, list: Option<&str>, last: Option<usize>) -> bool {
    parse_list(list, last).as_ref() == Some(cpus)
}

fn parse_list(value: Option<&str>, last: Option<usize>) -> Option<CpuSet> {
    CpuSet::parse_list(value?, last).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn present_words_are_not_added_and_contradictions_are_refused() {
        let wanted = words("nohz_full=2-3 rcu_nocbs=2-3");
        let merged = merge("root=/dev/vda1 ro quiet", &wanted, 2048, None).unwrap();
        assert_eq!((merged.add, merged.already.len()), (wanted.clone(), 0));
        let merged = merge("ro nohz-full=2,3 a=\"b nohz_full=1\"", &wanted, 2048, None).unwrap();
        assert_eq!((merged.add, merged.already), (words("rcu_nocbs=2-3"), words("nohz_full=2-3")));
        let refused = |line| merge(line, &wanted, 2048, None).unwrap_err().to_string();
        assert!(refused("nohz_full=3").starts_with("nohz_full=3 is already on the command line"));
        // Given twice with different values: the kernel takes the first and warns.
        assert!(refused("nohz_full=2-3 nohz_full=1").contains("nohz_full=1"));
        assert!(refused("isolcpus=nohz,domain,1").contains("the lists differ"));
        assert!(merge("isolcpus=domain,1", &wanted, 2048, None).is_ok());
        assert!(merge("isolcpus=nohz,2-3", &wanted, 2048, None).is_ok());
        let differ = |line, version| {
            different_lists(line, &wanted, version).map(|it| it.to_string()).unwrap_or_default()
        };
        assert!(differ("isolcpus=domain,1", None).contains("before 5.18"));
        let recent = Some(KernelVersion::new(6, 12));
        assert!(differ("isolcpus=domain,1", recent).ends_with("accepts both"));
        assert_eq!(
            (differ("isolcpus=managed_irq,2-3", None), differ("ro", None)),
            Default::default()
        );
        assert!(refused("nr_cpus=3").contains("the list names CPUs beyond the limit"));
        assert!(merge("nr_cpus=4", &wanted, 2048, None).is_ok());
        assert!(refused("a=\"b").contains("never closed"));
        // Words after `--` are for init.
        assert!(merge("ro -- nohz_full=1", &wanted, 2048, None).is_ok());
    }

    #[test]
    fn one_isolcpus_has_the_flags_of_both_and_equal_ones_are_present() {
        let joined = join_isolcpus("isolcpus=2-3", "isolcpus=managed_irq,2,3");
        assert_eq!(joined.as_deref(), Some("isolcpus=domain,managed_irq,2-3"));
        assert_eq!(join_isolcpus("isolcpus=2-3", "isolcpus=managed_irq,3"), None);
        assert_eq!(join_isolcpus("isolcpus=2-3", "nohz_full=2-3"), None);
        assert!(has("ro isolcpus=domain,2,3", "isolcpus=2-3"));
        assert!(!has("ro isolcpus=nohz,2,3", "isolcpus=2-3"));
        let refused = merge("isolcpus=2", &words("isolcpus=2-3"), 2048, None).unwrap_err();
        assert!(matches!(refused, ParameterConflict::Differs { .. }));
    }

    #[test]
    fn the_last_cpu_may_be_written_as_n() {
        let wanted = words("nohz_full=1-3 rcu_nocbs=1-3 isolcpus=domain,1-3");
        let line = "nohz_full=1-N rcu_nocbs=1-N isolcpus=domain,1-N";
        assert_eq!(merge(line, &wanted, 2048, Some(3)).unwrap().already, wanted);
        assert!(has_on(line, "nohz_full=1-3", Some(3)));
        for last in [None, Some(7)] {
            let refused = merge(line, &wanted, 2048, last).unwrap_err();
            assert!(matches!(refused, ParameterConflict::Differs { .. }));
        }
        let nohz = |last| merge("isolcpus=nohz,1-N", &words("nohz_full=1-3"), 2048, Some(last));
        assert!(nohz(3).is_ok());
        assert!(matches!(nohz(7), Err(ParameterConflict::Mismatch { .. })));
    }

    #[test]
    fn the_limit_includes_the_final_zero() {
        let wanted = words("skew_tick=1");
        let line = "x".repeat(2048 - 1 - 1 - "skew_tick=1".len());
        assert!(merge(&line, &wanted, limit(Some("x86_64")), None).is_ok());
        let too_long = ParameterConflict::TooLong { bytes: 2049, limit: 2048 };
        assert_eq!(merge(&(line + "x"), &wanted, 2048, None), Err(too_long));
    }

    proptest! {
        #[test]
        fn added_words_are_present_and_the_rest_is_unchanged(
            line in "[ -~]{0,80}",
            cpus in 1_usize..64,
        ) {
            let wanted = vec![format!("nohz_full={cpus}"), "rcu_nocb_poll".to_owned()];
            if let Ok(merged) = merge(&line, &wanted, 2048, None) {
                let new = with_words(&line, &merged.add);
                prop_assert!(new.ends_with(&line));
                for word in &wanted {
                    prop_assert!(has(&new, word), "{new:?}");
                }
                if !line.starts_with(' ') && !merged.add.is_empty() && !line.contains("nohz_full") {
                    prop_assert_eq!(without(&new, &merged.add), line.clone());
                    prop_assert_eq!(without_front(&new, &merged.add), line.clone());
                }
                // The second time there is nothing to add.
                prop_assert!(merge(&new, &wanted, 2048, None).unwrap().add.is_empty());
            }
        }

        #[test]
        fn no_line_makes_it_panic(line in ".*", word in ".*") {
            let _ = merge(&line, &[word], 2048, None);
        }
    }
}
