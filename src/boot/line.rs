//! A kernel command line as text that is added to: words, what is there already, what contradicts,
//! how long it may be. Pure. The words that were there stay as they are, to the byte.

use crate::survey::{CommandLineFault, LIST_PER_KIND_SINCE, isolation_setup};
use cpushield_linux::CpuSet;
use cpushield_linux::text::cmdline;
use cpushield_linux::text::kernel_version::KernelVersion;
use std::fmt;

/// Parameters whose values are CPU lists: equal sets are equal values.
const LISTS: &[&str] = &["nohz_full", "rcu_nocbs", "irqaffinity", "workqueue.unbound_cpus"];

/// Why words cannot be added to a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParameterConflict {
    /// The parameter is there with another value. The kernel takes one of both, or none.
    Differs {
        /// What is there.
        there: String,
        /// What was to be added.
        wanted: String,
    },
    /// `isolcpus=nohz,…` is another list than that of `nohz_full=`: the kernel refuses the second
    /// one of them ("Housekeeping: nohz_full= must match isolcpus=", kernel/sched/isolation.c).
    Mismatch {
        /// What is there.
        there: String,
        /// What was to be added.
        wanted: String,
    },
    /// The line lets the kernel know fewer CPUs than the list names: it refuses the whole list
    /// ("Housekeeping: nohz_full= or isolcpus= incorrect CPU range", kernel/sched/isolation.c,
    /// 6.12).
    Beyond {
        /// What is there.
        there: String,
        /// What was to be added.
        wanted: String,
    },
    /// The line would be longer than the kernel reads.
    TooLong {
        /// Its bytes with the words added.
        bytes: usize,
        /// What the kernel reads.
        limit: usize,
    },
    /// A quote is opened and not closed: the words behind it are not parameters.
    OpenQuote,
}

impl fmt::Display for ParameterConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParameterConflict::Differs { there, wanted } => {
                write!(f, "{there} is there already, which contradicts {wanted}")
            }
            ParameterConflict::Mismatch { there, wanted } => write!(
                f,
                "{there} is there already; the kernel refuses {wanted} together with it, because the lists \
                 differ"
            ),
            ParameterConflict::Beyond { there, wanted } => write!(
                f,
                "{there} is there already; the kernel refuses {wanted} together with it, because it does not \
                 know all of these CPUs"
            ),
            ParameterConflict::TooLong { bytes, limit } => write!(
                f,
                "the command line would have {bytes} bytes; this kernel reads {limit} and drops the \
                 rest"
            ),
            ParameterConflict::OpenQuote => {
                f.write_str("a quote in the command line is never closed")
            }
        }
    }
}

/// What became of the words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MergedLine {
    /// Words that are to be added, in the order they were wanted.
    pub add: Vec<String>,
    /// Words that say what the line says already.
    pub already: Vec<String>,
}

/// Bytes of a command line that kernels of an architecture read, the final zero included
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

/// Sorts wanted words (`nohz_full=2-3`) into those to add and those there already.
///
/// # Errors
/// A word contradicts the line, or there is no room for all of them.
pub fn merge(line: &str, wanted: &[String], limit: usize) -> Result<MergedLine, ParameterConflict> {
    if line.matches('"').count() % 2 == 1 {
        return Err(ParameterConflict::OpenQuote);
    }
    let there = cmdline::parse(line);
    let mut merged = MergedLine::default();
    for word in wanted {
        let (name, value) = split(word);
        let mut known = false;
        for param in &there {
            let said = shown(param);
            if name == "nohz_full" && cmdline::same_name(&param.name, "isolcpus") {
                let asked = param.value.as_deref().map(|value| cmdline::isolcpus(value, None));
                if asked.and_then(Result::ok).is_some_and(|it| it.nohz && !same(&it.cpus, value)) {
                    return Err(ParameterConflict::Mismatch { there: said, wanted: word.clone() });
                }
            }
            if LISTS.contains(&name) && cmdline::same_name(&param.name, "nr_cpus") {
                let known = param.value.as_deref().and_then(|value| value.parse::<usize>().ok());
                let highest = value.and_then(|value| value.parse::<CpuSet>().ok()?.last());
                if known.zip(highest).is_some_and(|(known, highest)| highest >= known) {
                    return Err(ParameterConflict::Beyond { there: said, wanted: word.clone() });
                }
            }
            if !cmdline::same_name(&param.name, name) {
                continue;
            }
            if !alike(name, param.value.as_deref(), value) {
                return Err(ParameterConflict::Differs { there: said, wanted: word.clone() });
            }
            known = true;
        }
        if known { &mut merged.already } else { &mut merged.add }.push(word.clone());
    }
    let added: usize = merged.add.iter().map(|word| word.len() + 1).sum();
    let bytes = line.trim_end().len() + added + 1;
    if bytes > limit { Err(ParameterConflict::TooLong { bytes, limit }) } else { Ok(merged) }
}

/// `nohz_full=` and `isolcpus=` with different lists, which a kernel takes or not by its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DifferentLists {
    /// `isolcpus=…`, which is there.
    pub isolcpus: String,
    /// `nohz_full=…`, which is to be added.
    pub nohz_full: String,
    /// Whether the kernel is known to take both.
    pub both_taken: bool,
}

impl fmt::Display for DifferentLists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DifferentLists { isolcpus, nohz_full, both_taken } = self;
        write!(f, "{nohz_full} and {isolcpus} are different lists: ")?;
        match both_taken {
            true => f.write_str("this kernel takes both"),
            false => write!(
                f,
                "kernels before {LIST_PER_KIND_SINCE} ignore {isolcpus}, later ones take both; \
                 which one this is could not be read"
            ),
        }
    }
}

/// Whether the line with these words has two lists that a kernel of this version takes.
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
        let asked = cmdline::isolcpus(value, None).ok().filter(|it| !same(&it.cpus, cpus))?;
        let (isolcpus, nohz_full) = (shown(param), nohz_full.clone());
        (!asked.nohz).then_some(DifferentLists { isolcpus, nohz_full, both_taken })
    })
}

/// What a kernel of this version would ignore of the line because these words are added to it.
#[must_use]
pub fn ignored_beside(
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
        _ => false,
    })
}

/// The line with words in front, where no `--` of the line can hide them from the kernel.
#[must_use]
pub fn with(line: &str, words: &[String]) -> String {
    if words.is_empty() {
        return line.to_owned();
    }
    let gap = if line.is_empty() { "" } else { " " };
    format!("{}{gap}{line}", words.join(" "))
}

/// The same with those words alone that it does not have yet.
#[must_use]
pub fn with_missing(line: &str, words: &[String]) -> String {
    let missing: Vec<String> = words.iter().filter(|word| !has(line, word)).cloned().collect();
    with(line, &missing)
}

/// The line without these words, where they stand as they are.
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

/// Whether the kernel that was given this line was given this word.
#[must_use]
pub fn has(line: &str, word: &str) -> bool {
    let (name, value) = split(word);
    cmdline::parse(line).iter().any(|param| {
        cmdline::same_name(&param.name, name) && alike(name, param.value.as_deref(), value)
    })
}

/// Whether a word can be written into every loader's files without quoting: shell, GRUB and BLS
/// read it as it is.
#[must_use]
pub fn plain(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.,:=/+-".contains(c);
    word.starts_with(|c: char| c.is_ascii_alphabetic()) && word.chars().all(plain)
}

fn split(word: &str) -> (&str, Option<&str>) {
    match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    }
}

fn shown(param: &cmdline::KernelParam) -> String {
    match &param.value {
        Some(value) => format!("{}={value}", param.name),
        None => param.name.clone(),
    }
}

fn alike(name: &str, there: Option<&str>, wanted: Option<&str>) -> bool {
    let set = |value: Option<&str>| value.and_then(|value| value.parse::<CpuSet>().ok());
    there == wanted
        || LISTS.iter().any(|list| cmdline::same_name(list, name))
            && set(there).is_some_and(|there| Some(there) == set(wanted))
}

fn same(cpus: &CpuSet, list: Option<&str>) -> bool {
    list.and_then(|list| list.parse::<CpuSet>().ok()).as_ref() == Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn what_is_there_is_not_added_and_what_contradicts_is_found() {
        let wanted = words("nohz_full=2-3 rcu_nocbs=2-3");
        let merged = merge("root=/dev/vda1 ro quiet", &wanted, 2048).unwrap();
        assert_eq!((merged.add, merged.already.len()), (wanted.clone(), 0));
        let merged = merge("ro nohz-full=2,3 a=\"b nohz_full=1\"", &wanted, 2048).unwrap();
        assert_eq!((merged.add, merged.already), (words("rcu_nocbs=2-3"), words("nohz_full=2-3")));
        let refused = |line| merge(line, &wanted, 2048).unwrap_err().to_string();
        assert!(refused("nohz_full=3").starts_with("nohz_full=3 is there already"));
        // Doubled, the second one another: the kernel takes the first and warns.
        assert!(refused("nohz_full=2-3 nohz_full=1").contains("nohz_full=1"));
        assert!(refused("isolcpus=nohz,domain,1").contains("the lists differ"));
        assert!(merge("isolcpus=domain,1", &wanted, 2048).is_ok());
        assert!(merge("isolcpus=nohz,2-3", &wanted, 2048).is_ok());
        let differ = |line, version| {
            different_lists(line, &wanted, version).map(|it| it.to_string()).unwrap_or_default()
        };
        assert!(differ("isolcpus=domain,1", None).contains("before 5.18"));
        let recent = Some(KernelVersion::new(6, 12));
        assert!(differ("isolcpus=domain,1", recent).ends_with("takes both"));
        assert_eq!(
            (differ("isolcpus=managed_irq,2-3", None), differ("ro", None)),
            Default::default()
        );
        assert!(refused("nr_cpus=3").contains("does not know all of these CPUs"));
        assert!(merge("nr_cpus=4", &wanted, 2048).is_ok());
        assert!(refused("a=\"b").contains("never closed"));
        // What follows `--` is for init.
        assert!(merge("ro -- nohz_full=1", &wanted, 2048).is_ok());
    }

    #[test]
    fn the_limit_is_that_of_the_kernel_with_its_final_zero() {
        let wanted = words("skew_tick=1");
        let line = "x".repeat(2048 - 1 - 1 - "skew_tick=1".len());
        assert!(merge(&line, &wanted, limit(Some("x86_64"))).is_ok());
        let too_long = ParameterConflict::TooLong { bytes: 2049, limit: 2048 };
        assert_eq!(merge(&(line + "x"), &wanted, 2048), Err(too_long));
    }

    proptest! {
        #[test]
        fn words_that_were_added_are_there_and_the_rest_is_as_it_was(
            line in "[ -~]{0,80}",
            cpus in 1_usize..64,
        ) {
            let wanted = vec![format!("nohz_full={cpus}"), "rcu_nocb_poll".to_owned()];
            if let Ok(merged) = merge(&line, &wanted, 2048) {
                let new = with(&line, &merged.add);
                prop_assert!(new.ends_with(&line));
                for word in &wanted {
                    prop_assert!(has(&new, word), "{new:?}");
                }
                if !line.starts_with(' ') && !merged.add.is_empty() && !line.contains("nohz_full") {
                    prop_assert_eq!(without(&new, &merged.add), line.clone());
                }
                // A second time nothing is to do.
                prop_assert!(merge(&new, &wanted, 2048).unwrap().add.is_empty());
            }
        }

        #[test]
        fn no_line_makes_it_panic(line in ".*", word in ".*") {
            let _ = merge(&line, &[word], 2048);
        }
    }
}
