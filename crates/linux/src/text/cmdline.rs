//! The kernel's command line and the parameters of it that isolate CPUs.

use super::TextError;
use crate::cpuset::CpuSet;

/// One parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelParam {
    /// Its name as written.
    pub name: String,
    /// What follows the equals sign, quotes taken off.
    pub value: Option<String>,
}

/// The parameters for the kernel, in order; what follows `--` is for init and left out
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
        params.push(param(word));
    }
    params
}

/// Splits at the first white space outside of quotes (`next_arg()`, lib/cmdline.c: a quote can be
/// anywhere and cannot be escaped).
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

fn param(word: &str) -> KernelParam {
    let word = match word.strip_prefix('"') {
        Some(inner) => inner.strip_suffix('"').unwrap_or(inner),
        None => word,
    };
    match word.split_once('=') {
        // A word that begins with `=` has no name: the kernel takes it whole as one.
        Some((name, value)) if !name.is_empty() => {
            let value = match value.strip_prefix('"') {
                Some(inner) => inner.strip_suffix('"').unwrap_or(inner),
                None => value,
            };
            KernelParam { name: name.to_owned(), value: Some(value.to_owned()) }
        }
        _ => KernelParam { name: word.to_owned(), value: None },
    }
}

/// Whether two parameter names are the same to the kernel: `-` and `_` are alike (`parameq()`).
#[must_use]
pub fn same_name(a: &str, b: &str) -> bool {
    let dash = |b: u8| if b == b'-' { b'_' } else { b };
    a.bytes().map(dash).eq(b.bytes().map(dash))
}

/// The values of every occurrence of a parameter; one without `=` counts as empty.
pub fn values<'a>(params: &'a [KernelParam], name: &'a str) -> impl Iterator<Item = &'a str> {
    params
        .iter()
        .filter(move |param| same_name(&param.name, name))
        .map(|param| param.value.as_deref().unwrap_or(""))
}

/// What one `isolcpus=` asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Isolcpus {
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Out of the scheduling domains; the default without flags.
    pub domain: bool,
    /// Without the tick, as `nohz_full=`.
    pub nohz: bool,
    /// Managed interrupts kept away.
    pub managed_irq: bool,
}

/// Parses the value of `isolcpus=`, as `housekeeping_isolcpus_setup()` does
/// (kernel/sched/isolation.c, 6.12): flags first, unknown ones skipped, then the list. `last` is
/// the highest possible CPU.
///
/// # Errors
/// The kernel refuses it too: an invalid flag or list.
pub fn isolcpus(value: &str, last: Option<usize>) -> Result<Isolcpus, TextError> {
    let mut asked = Isolcpus::default();
    let mut rest = value;
    while rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
        let (flag, after) = rest.split_once(',').unwrap_or((rest, ""));
        if !flag.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_') {
            return Err(TextError::new(0, "a flag of isolcpus=", flag));
        }
        match flag {
            "nohz" => asked.nohz = true,
            "domain" => asked.domain = true,
            "managed_irq" => asked.managed_irq = true,
            _ => {}
        }
        rest = after;
    }
    asked.domain |= !asked.nohz && !asked.managed_irq;
    asked.cpus = CpuSet::parse_list(rest, last)
        .map_err(|_| TextError::new(0, "a CPU list behind the flags of isolcpus=", rest))?;
    Ok(asked)
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
    fn dash_and_underscore_are_alike_in_names() {
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
