//! Values of parameters that take only certain words. Pure.

use crate::registry::nearest;
use cpushield_linux::text::cmdline;

/// A parameter with the words that it takes.
struct ValueRule {
    keyword: &'static str,
    words: &'static [&'static str],
    form: ValueForm,
}

/// What else the value may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueForm {
    /// One of the words.
    Word,
    /// One of the words, or something that begins with a digit.
    WordOrNumber,
    /// One of the words, and more after a comma.
    WordThenMore,
}

/// Values that a kernel ignores are no error for it, so a misspelled one goes unnoticed:
/// - `idle_setup()`, arch/x86/kernel/process.c (6.12); old kernels took `mwait` too, and warned
///   that it "will be removed in 2012";
/// - `mitigations_parse_cmdline()`, kernel/cpu.c (6.12: "Unsupported mitigations=…"); later kernels
///   take attack vectors after `auto,`;
/// - `mcheck_enable()`, arch/x86/kernel/cpu/mce/core.c (6.12: "mce argument … ignored");
/// - `skew_tick()`, kernel/time/tick-sched.c (6.12), reads a number: another word is 0.
const VALUES: &[ValueRule] = &[
    ValueRule {
        keyword: "idle",
        words: &["poll", "halt", "nomwait", "mwait"],
        form: ValueForm::Word,
    },
    ValueRule { keyword: "mitigations", words: &["off", "auto"], form: ValueForm::WordThenMore },
    ValueRule {
        keyword: "mce",
        words: &[
            "off",
            "no_cmci",
            "no_lmce",
            "dont_log_ce",
            "print_all",
            "ignore_ce",
            "bootlog",
            "nobootlog",
            "bios_cmci_threshold",
            "recovery",
        ],
        form: ValueForm::WordOrNumber,
    },
    ValueRule { keyword: "skew_tick", words: &[], form: ValueForm::WordOrNumber },
];

/// Similar values, when no kernel is known to take this one; `None` when one takes it, or when that
/// is not known.
pub fn unknown_value(name: &str, value: &str) -> Option<Vec<String>> {
    let rule = VALUES.iter().find(|rule| cmdline::same_name(rule.keyword, name))?;
    let word = match rule.form {
        ValueForm::WordThenMore => value.split(',').next().unwrap_or(value),
        ValueForm::Word | ValueForm::WordOrNumber => value,
    };
    let number = rule.form == ValueForm::WordOrNumber
        && value.strip_prefix('-').unwrap_or(value).starts_with(|c: char| c.is_ascii_digit());
    let known = number || rule.words.contains(&word);
    (!known).then(|| nearest(word, rule.words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_no_kernel_takes_is_found_and_the_others_are_not() {
        for (word, near) in [
            ("idle=pol", Some("poll")),
            ("mitigations=of", Some("off")),
            ("mce=ignor_ce", Some("ignore_ce")),
            ("skew_tick=yes", None),
            ("skew-tick=", None),
        ] {
            let (name, value) = word.split_once('=').unwrap();
            let found = unknown_value(name, value).unwrap_or_else(|| panic!("{word}"));
            assert_eq!(found.first().map(String::as_str), near, "{word}");
        }
        for word in [
            "idle=nomwait",
            "mitigations=auto,no_guest_host",
            "mitigations=auto,nosmt",
            "mce=2,500",
            "mce=off",
            "skew_tick=1",
            "skew_tick=0x1",
            "clocksource=anything",
        ] {
            let (name, value) = word.split_once('=').unwrap();
            assert_eq!(unknown_value(name, value), None, "{word}");
        }
    }
}
