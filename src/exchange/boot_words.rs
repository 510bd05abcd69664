//! Words of a kernel command line as entries of a policy: a parameter of the catalogue, or a
//! parameter of the user's own. Pure.

use crate::boot::find_word_fault;
use crate::boot::line::{is_plain, name_of, split};
use crate::boot::parameters::{KernelParameter, PARAMETERS, ParameterOffer, ParameterTarget};
use cpushield_linux::CpuSet;
use cpushield_linux::text::cmdline;

/// What a word is in a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WordMeaning {
    /// These parameters of the catalogue.
    Parameters(Vec<&'static str>),
    /// A parameter of the user's own.
    Own,
    /// No entry can say it, and why.
    Inexpressible(String),
    /// It isolates nothing.
    Unrelated,
}

/// Which words a setup has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordOrigin {
    /// Words that were chosen for isolation.
    Profile,
    /// All words of a kernel, with those that find its root file system.
    CommandLine,
}

/// What a word is in a policy for these CPUs. A word of a profile that the catalogue does not have
/// is one of the user's own.
pub(super) fn find_word_meaning(
    word: &str,
    target: &ParameterTarget,
    origin: WordOrigin,
) -> WordMeaning {
    let name = name_of(word);
    let same: Vec<&KernelParameter> =
        PARAMETERS.iter().copied().filter(|it| cmdline::same_name(it.keyword, name)).collect();
    if cmdline::same_name(name, "isolcpus") {
        return isolcpus_meaning(word, target);
    }
    if let Some(parameter) = same.iter().find(|it| is_same_word(&it.word(target), word, target)) {
        return match parameter.offer {
            ParameterOffer::Never(why) => WordMeaning::Inexpressible(why.to_owned()),
            _ => WordMeaning::Parameters(vec![parameter.name]),
        };
    }
    let has_cpus = |it: &&&KernelParameter| {
        let word = it.word(target);
        split(&word).1.is_some_and(|value| {
            [&target.cpus, &target.rest].iter().any(|cpus| cpus.to_string() == value)
        })
    };
    match same.iter().find(has_cpus) {
        Some(parameter) => WordMeaning::Inexpressible(format!(
            "the parameter {} names CPUs other than the shield's",
            parameter.name
        )),
        None if same.is_empty() && origin == WordOrigin::CommandLine => WordMeaning::Unrelated,
        // tuned's unit for the initrd reads these, and the kernel ignores them.
        None if name.starts_with("tuned.") => {
            WordMeaning::Inexpressible("only tuned reads it".to_owned())
        }
        None if !is_plain(word) => WordMeaning::Inexpressible(
            "cpushield writes only parameters of letters, digits and _.,:=/+-".to_owned(),
        ),
        None => match find_word_fault(word) {
            Some((fault, _)) => WordMeaning::Inexpressible(fault.to_string()),
            None => WordMeaning::Own,
        },
    }
}

/// The flags of `isolcpus=` are parameters of their own.
fn isolcpus_meaning(word: &str, target: &ParameterTarget) -> WordMeaning {
    let value = split(word).1.unwrap_or_default();
    let last = target.cpus.union(&target.rest).last();
    let isolcpus = match cmdline::isolcpus(value, last) {
        Ok(isolcpus) => isolcpus,
        Err(error) => return WordMeaning::Inexpressible(error.to_string()),
    };
    if without_boot_cpu(isolcpus.cpus.clone(), target) != target.cpus {
        let why = "it names CPUs other than the shield's";
        return WordMeaning::Inexpressible(why.to_owned());
    }
    let flags = [
        (isolcpus.domain, "isolcpus-domain"),
        (isolcpus.nohz, "isolcpus-nohz"),
        (isolcpus.managed_irq, "isolcpus-managed-irq"),
    ];
    let names = flags.into_iter().filter(|(flag, _)| *flag).map(|(_, name)| name);
    WordMeaning::Parameters(names.collect())
}

/// The CPUs that the kernel takes of a list for `isolcpus=` or `nohz_full=`: of all CPUs, the boot
/// CPU stays outside (`housekeeping_setup()`, kernel/sched/isolation.c, 6.12).
fn without_boot_cpu(cpus: CpuSet, target: &ParameterTarget) -> CpuSet {
    let is_all = target.rest.len() == 1 && cpus == target.cpus.union(&target.rest);
    if is_all { target.cpus.clone() } else { cpus }
}

/// Whether two words are the same to the kernel: CPU lists are compared as sets.
fn is_same_word(a: &str, b: &str, target: &ParameterTarget) -> bool {
    let last = target.cpus.union(&target.rest).last();
    let cpus = |word: &str| {
        let (name, value) = word.split_once('=')?;
        let cpus = CpuSet::parse_list(value, last).ok()?;
        let is_housekeeping = cmdline::same_name(name, "nohz_full");
        Some(if is_housekeeping { without_boot_cpu(cpus, target) } else { cpus })
    };
    let is_list = |word: &str| word.contains(['-', ',']) || word.ends_with("=all");
    match (cpus(a), cpus(b)) {
        (Some(first), Some(second)) if is_list(a) || is_list(b) => first == second,
        _ => split(a).1 == split(b).1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::parameters;

    #[test]
    fn words_are_parameters_of_the_catalogue_or_own_ones() {
        let target =
            ParameterTarget { cpus: "2-3".parse().unwrap(), rest: "0-1,4-7".parse().unwrap() };
        let known = |names: &[&'static str]| WordMeaning::Parameters(names.to_vec());
        let (profile, line) = (WordOrigin::Profile, WordOrigin::CommandLine);
        for (word, origin, meaning) in [
            ("nohz_full=2,3", line, known(&["nohz-full"])),
            ("nohz-full=2-3", line, known(&["nohz-full"])),
            ("irqaffinity=0,1,4-7", line, known(&["irqaffinity"])),
            ("isolcpus=2-3", line, known(&["isolcpus-domain"])),
            (
                "isolcpus=nohz,managed_irq,domain,2-3",
                line,
                known(&["isolcpus-domain", "isolcpus-nohz", "isolcpus-managed-irq"]),
            ),
            ("skew_tick=1", line, known(&["skew-tick"])),
            ("nosoftlockup", profile, known(&["nosoftlockup"])),
            ("skew_tick=0", line, WordMeaning::Own),
            ("nohlt", profile, WordMeaning::Own),
            ("nohlt", line, WordMeaning::Unrelated),
            ("root=/dev/sda1", line, WordMeaning::Unrelated),
        ] {
            assert_eq!(find_word_meaning(word, &target, origin), meaning, "{word}");
            if let WordMeaning::Parameters(names) = meaning {
                assert!(names.iter().all(|name| parameters::named(name).is_some()), "{word}");
            }
        }
        // The kernel leaves the boot CPU out of a list with every CPU.
        let all_but_one = ParameterTarget { cpus: "1-3".parse().unwrap(), rest: CpuSet::single(0) };
        for (word, meaning) in [
            ("nohz_full=all", known(&["nohz-full"])),
            ("nohz_full=0-N", known(&["nohz-full"])),
            ("isolcpus=managed_irq,0-3", known(&["isolcpus-managed-irq"])),
        ] {
            assert_eq!(find_word_meaning(word, &all_but_one, line), meaning, "{word}");
        }
        for (word, why) in [
            ("nohz_full=2-5", "CPUs other than"),
            ("isolcpus=2-5", "CPUs other than"),
            ("isolcpus=x-5", "a flag of isolcpus="),
            ("x=\"a b\"", "only parameters of letters"),
            // A policy with these parameters would be refused.
            ("mitigations=off", "exposes the machine"),
            ("kthread_cpus=0-1,4-7", "do not support it"),
            ("tuned.non_isolcpus=3", "only tuned"),
        ] {
            let meaning = find_word_meaning(word, &target, WordOrigin::Profile);
            assert!(
                matches!(&meaning, WordMeaning::Inexpressible(text) if text.contains(why)),
                "{word}: {meaning:?}"
            );
        }
    }
}
