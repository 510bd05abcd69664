//! The kernel command line, and its parameters that isolate CPUs.

use super::TextError;
use crate::cpuset::CpuSet;

/// A kernel parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelParam {
    /// Its name as written.
    pub name: String,
    /// The text after the equals sign, without quotes.
    pub value: Option<String>,
}

/// Parses the kernel's parameters, in order. Words after `--` are for init and are left out
/// (`parse_args()`, kernel/params.c).
#[must_use]
pub fn parse(text: &str) -> Vec<KernelParam> {
    let mut params = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (word, after) = next_word(rest);
        rest = after.trim_start();
        if word == "--" {
            break;
        }
        params.push(parse_param(word));
    }
    params
}

/// Splits at the first white space outside of quotes (`next_arg()`, lib/cmdline.c: a quote can
/// occur anywhere and cannot be escaped).
fn next_word(text: &str) -> (&str, &str) {
    let mut quoted = false;
    for (i, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_ascii_whitespace() && !quoted => return text.split_at(i),
            _ => {}
        }
    }
    (text, "")
}

fn parse_param(word: &str) -> KernelParam {
    let word = without_quotes(word);
    match word.split_once('=') {
        // A word that starts with `=` has no name: the kernel takes the whole word as the name.
        Some((name, value)) if !name.is_empty() => {
            let value = without_quotes(value).to_owned();
            KernelParam { name: name.to_owned(), value: Some(value) }
        }
        _ => KernelParam { name: word.to_owned(), value: None },
    }
}

fn without_quotes(text: &str) -> &str {
    match text.strip_prefix('"') {
        Some(inner) => inner.strip_suffix('"').unwrap_or(inner),
        None => text,
    }
}

/// Whether two parameter names are the same to the kernel, which treats `-` as `_` (`parameq()`).
#[must_use]
pub fn same_name(a: &str, b: &str) -> bool {
    a.bytes().map(dash_to_underscore).eq(b.bytes().map(dash_to_underscore))
}

fn dash_to_underscore(byte: u8) -> u8 {
    if byte == b'-' { b'_' } else { byte }
}

/// The values of every occurrence of a parameter; empty without an equals sign.
pub fn values<'a>(params: &'a [KernelParam], name: &'a str) -> impl Iterator<Item = &'a str> {
    params
        .iter()
        .filter(move |param| same_name(&param.name, name))
        .map(|param| param.value.as_deref().unwrap_or(""))
}

/// The last occurrence of a parameter.
#[must_use]
pub fn last<'a>(params: &'a [KernelParam], name: &str) -> Option<&'a KernelParam> {
    params.iter().rfind(|param| same_name(&param.name, name))
}

/// The flags of `isolcpus=` that released kernels have (`housekeeping_isolcpus_setup()`,
/// kernel/sched/isolation.c, 7.0).
pub const ISOLCPUS_FLAGS: &[&str] = &["domain", "nohz", "managed_irq"];

/// A parsed `isolcpus=`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Isolcpus {
    /// The CPUs.
    pub cpus: CpuSet,
    /// Isolated from the scheduling domains; the default without flags.
    pub domain: bool,
    /// Without the tick, like `nohz_full=`.
    pub nohz: bool,
    /// Isolated from managed interrupts.
    pub managed_irq: bool,
    /// Queues of block devices kept on other CPUs. The flag is of a patch series (13th version in
    /// May 2026); no released kernel has it.
    pub io_queue: bool,
    /// Flags that are not known.
    pub unknown: Vec<String>,
}

impl Isolcpus {
    /// The word with these flags, without those that no released kernel has.
    #[must_use]
    pub fn word(&self) -> String {
        let flags =
            [(self.nohz, "nohz,"), (self.domain, "domain,"), (self.managed_irq, "managed_irq,")];
        let flags: String = flags.iter().filter(|(set, _)| *set).map(|(_, flag)| *flag).collect();
        format!("isolcpus={flags}{}", self.cpus)
    }
}

/// The `isolcpus=` that sends managed interrupts away from these CPUs. One word has all flags, so
/// it has those of the line too, and `domain` if it `isolates`; never where the kernel `refuses` a
/// partition of such CPUs. `nohz` stays for the same CPUs only: for others, `nohz_full=` is needed,
/// which must have the same list. `last` is the highest possible CPU.
#[must_use]
pub fn managed_irq_word(
    line: &str,
    cpus: &CpuSet,
    last: Option<usize>,
    (isolates, refuses): (bool, bool),
) -> String {
    let params = parse(line);
    let present = values(&params, "isolcpus").next();
    let mut word = present.and_then(|it| isolcpus(it, last).ok()).unwrap_or_default();
    word.nohz &= cpus.is_subset(&word.cpus);
    word.domain = (word.domain || isolates) && !refuses;
    word.managed_irq = true;
    word.cpus = word.cpus.union(cpus);
    word.word()
}

/// Splits the value of `isolcpus=` into its flags, known or not, and the list after them.
#[must_use]
pub fn split_isolcpus(value: &str) -> (Vec<&str>, &str) {
    let (mut flags, mut rest) = (Vec::new(), value);
    while rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
        let (flag, after) = rest.split_once(',').unwrap_or((rest, ""));
        flags.push(flag);
        rest = after;
    }
    (flags, rest)
}

/// Parses the value of `isolcpus=` like `housekeeping_isolcpus_setup()` (kernel/sched/isolation.c,
/// 6.12): flags first, unknown ones skipped (since 5.8), then the list. `last` is the highest
/// possible CPU.
///
/// # Errors
/// An invalid flag or list, which the kernel refuses too.
pub fn isolcpus(value: &str, last: Option<usize>) -> Result<Isolcpus, TextError> {
    let mut parsed = Isolcpus::default();
    let (flags, list) = split_isolcpus(value);
    for flag in flags {
        if !flag.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_') {
            return Err(TextError::new(0, "a flag of isolcpus=", flag));
        }
        match flag {
            "nohz" => parsed.nohz = true,
            "domain" => parsed.domain = true,
            "managed_irq" => parsed.managed_irq = true,
            "io_queue" => parsed.io_queue = true,
            _ => parsed.unknown.push(flag.to_owned()),
        }
    }
    parsed.domain |= !parsed.nohz && !parsed.managed_irq;
    parsed.cpus = CpuSet::parse_list(list, last)
        .map_err(|_| TextError::new(0, "a CPU list after the flags of isolcpus=", list))?;
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_split_outside_of_quotes() {
        let params =
            parse("ro dyndbg=\"file a.c +p\" \"foo bar=1 2\" x=\"1\" =y a= -- nohz_full=1\n");
        let pairs: Vec<_> = params.iter().map(|p| (p.name.as_str(), p.value.as_deref())).collect();
        assert_eq!(
            pairs,
            [
                ("ro", None),
                ("dyndbg", Some("file a.c +p")),
                ("foo bar", Some("1 2")),
                ("x", Some("1")),
                ("=y", None),
                ("a", Some("")),
            ]
        );
    }

    #[test]
    fn dash_and_underscore_are_the_same_in_names() {
        let params = parse("rcu-nocbs=1 rcu_nocbs=2 rcu_nocbs");
        assert_eq!(values(&params, "rcu_nocbs").collect::<Vec<_>>(), ["1", "2", ""]);
    }

    #[test]
    fn isolcpus_flags_come_first_and_domain_is_the_default() {
        let plain = isolcpus("2-3", Some(7)).unwrap();
        assert_eq!((plain.cpus.to_string().as_str(), plain.domain), ("2-3", true));
        let managed = isolcpus("managed_irq,7", Some(7)).unwrap();
        assert_eq!((managed.domain, managed.managed_irq), (false, true));
        let all = isolcpus("nohz,domain,future,1-N", Some(7)).unwrap();
        assert_eq!((all.cpus.to_string().as_str(), all.nohz, all.domain), ("1-7", true, true));
        assert_eq!(all.unknown, ["future"]);
        let queue = isolcpus("io_queue,2", Some(7)).unwrap();
        // Released kernels skip the flag, and then the default applies.
        assert_eq!((queue.io_queue, queue.domain, queue.unknown.len()), (true, true, 0));
        assert!(isolcpus("dom4in,2", Some(7)).is_err());
        assert!(isolcpus("2-x", Some(7)).is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[a-z0-9=\", \\-]{0,60}") {
            for param in parse(&text) {
                let _ = isolcpus(param.value.as_deref().unwrap_or(""), Some(3));
            }
        }
    }
}
