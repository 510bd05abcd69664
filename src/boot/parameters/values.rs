//! Values of parameters that take only certain words. Pure.

use crate::registry::{is_one_slip, nearest};
use cpushield_linux::text::cmdline;

/// A parameter with the words that it takes.
struct ValueRule {
    keyword: &'static str,
    /// The words that the kernel's document recommends or explains, separated by spaces.
    words: &'static str,
    /// Words that only some kernels take. They are accepted and never suggested.
    others: &'static str,
    form: ValueForm,
    /// What the parameter takes, for a message.
    takes: &'static str,
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
    /// Parts between commas, each of which begins with one of the words or with a digit.
    Beginnings,
}

/// A value that no kernel is known to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueFault {
    /// Similar values, best first.
    pub near: Vec<String>,
    /// What the parameter takes.
    pub takes: &'static str,
}

/// Values that a kernel ignores are no error for it, so a misspelled one goes unnoticed. The
/// words are those of Documentation/admin-guide/kernel-parameters.txt (6.12) and of:
/// - `idle_setup()`, arch/x86/kernel/process.c (6.12); old kernels took `mwait` too, and warned
///   that it "will be removed in 2012";
/// - `mitigations_parse_cmdline()`, kernel/cpu.c (6.12: "Unsupported mitigations=…"); later kernels
///   take attack vectors after `auto,`;
/// - `mcheck_enable()`, arch/x86/kernel/cpu/mce/core.c (6.12: "mce argument … ignored");
/// - `skew_tick()`, kernel/time/tick-sched.c (6.12), reads a number: another word is 0;
/// - `tsc_setup()`, arch/x86/kernel/tsc.c (6.12); `recalibrate` came and went, and `directsync` is
///   of a patch series that some distributions have;
/// - `intel_pstate_setup()`, drivers/cpufreq/intel_pstate.c (6.12), compares whole values, so a
///   list is none; `no_cas` is later, `no_acpi` went, and `enable` is on command lines of Ubuntu's
///   3.19, which is taken for a word of that kernel;
/// - `iommu_setup()`, arch/x86/kernel/pci-dma.c, and `gart_parse_options()`,
///   arch/x86/kernel/amd_gart_64.c (2.6.27 and 6.12), compare the beginnings: `ptt` is `pt`. The
///   others are of powerpc (`novmerge`, `vmerge`, `nobypass`) and of old x86 kernels;
/// - `max_cstate`, an `int` of drivers/idle/intel_idle.c and an `unsigned int` of
///   drivers/acpi/processor_idle.c (6.12): the kernel reports "invalid for parameter";
/// - `hardlockup_panic_setup()`, kernel/watchdog.c (6.12), compares the beginnings and knows the
///   raw event `rNNN`; `setup_nmi_watchdog()`, arch/x86/kernel/apic/nmi.c (2.6.32), has `lapic` and
///   `ioapic`;
/// - `smt_cmdline_disable()`, kernel/cpu.c (6.12): another word is the plain `nosmt`;
/// - `sched_dynamic_mode()`, kernel/sched/core.c (6.12), with `lazy` since 6.13; `laziest` is of a
///   patch;
/// - `maxcpus()` and `nrcpus()`, kernel/smp.c (6.12), read a number: for `maxcpus=`, another word
///   is 0, so only the boot CPU starts.
const VALUES: &[ValueRule] = &[
    ValueRule {
        keyword: "idle",
        words: "poll halt nomwait mwait",
        others: "",
        form: ValueForm::Word,
        takes: "poll, halt or nomwait",
    },
    ValueRule {
        keyword: "mitigations",
        words: "off auto",
        others: "",
        form: ValueForm::WordThenMore,
        takes: "off, auto or auto,nosmt",
    },
    ValueRule {
        keyword: "mce",
        words: "off no_cmci no_lmce dont_log_ce print_all ignore_ce bootlog nobootlog bios_cmci_threshold recovery",
        others: "",
        form: ValueForm::WordOrNumber,
        takes: "a number, off, ignore_ce and others",
    },
    number("skew_tick"),
    ValueRule {
        keyword: "tsc",
        words: "reliable unstable nowatchdog watchdog",
        others: "noirqtime recalibrate directsync",
        form: ValueForm::Word,
        takes: "reliable, unstable, nowatchdog or watchdog",
    },
    ValueRule {
        keyword: "intel_pstate",
        words: "disable active passive force no_hwp hwp_only support_acpi_ppc per_cpu_perf_limits",
        others: "no_cas no_acpi enable",
        form: ValueForm::Word,
        takes: "disable, active, passive, no_hwp and others",
    },
    ValueRule {
        keyword: "iommu",
        words: "pt nopt off force noforce soft merge nomerge biomerge panic nopanic forcesac allowdac nodac usedac memaper noagp noaperture fullflush nofullflush allowed",
        others: "calgary leak novmerge vmerge nobypass",
        form: ValueForm::Beginnings,
        takes: "pt, nopt, off, force, soft and others",
    },
    number("intel_idle.max_cstate"),
    number("processor.max_cstate"),
    ValueRule {
        keyword: "nmi_watchdog",
        words: "panic nopanic",
        others: "r lapic ioapic",
        form: ValueForm::Beginnings,
        takes: "0, 1, panic or nopanic",
    },
    ValueRule {
        keyword: "nosmt",
        words: "force",
        others: "",
        form: ValueForm::Word,
        takes: "force, or no value",
    },
    ValueRule {
        keyword: "preempt",
        words: "none voluntary full lazy",
        others: "laziest",
        form: ValueForm::Word,
        takes: "none, voluntary, full or lazy",
    },
    ValueRule {
        keyword: "maxcpus",
        words: "",
        others: "",
        form: ValueForm::WordOrNumber,
        takes: "a number; the kernel reads a word as 0 and starts only the boot CPU",
    },
    number("nr_cpus"),
];

const fn number(keyword: &'static str) -> ValueRule {
    let form = ValueForm::WordOrNumber;
    ValueRule { keyword, words: "", others: "", form, takes: "a number" }
}

impl ValueRule {
    /// The part of the value that no kernel is known to take; `None` when one takes all of it.
    fn unknown_part<'a>(&self, value: &'a str) -> Option<&'a str> {
        let is_word = |word: &str| self.known().any(|known| known == word);
        let begins = |part: &str| is_number(part) || self.known().any(|it| part.starts_with(it));
        match self.form {
            ValueForm::Word => (!is_word(value)).then_some(value),
            ValueForm::WordOrNumber => (!is_number(value) && !is_word(value)).then_some(value),
            ValueForm::WordThenMore => value.split(',').next().filter(|first| !is_word(first)),
            ValueForm::Beginnings => value.split(',').find(|part| !begins(part)),
        }
    }

    fn words(&self) -> impl Iterator<Item = &'static str> {
        self.words.split_whitespace()
    }

    fn known(&self) -> impl Iterator<Item = &'static str> {
        self.words().chain(self.others.split_whitespace())
    }
}

fn is_number(text: &str) -> bool {
    text.strip_prefix('-').unwrap_or(text).starts_with(|c: char| c.is_ascii_digit())
}

/// What is known about a value that no kernel is known to take; `None` when one takes it, or when
/// that is not known.
pub fn unknown_value(name: &str, value: &str) -> Option<ValueFault> {
    let rule = VALUES.iter().find(|rule| cmdline::same_name(rule.keyword, name))?;
    let unknown = rule.unknown_part(value)?;
    let replace = |near: String| {
        let parts = value.split(',').map(|part| if part == unknown { &near } else { part });
        parts.collect::<Vec<_>>().join(",")
    };
    // Two swapped letters are one slip and two edits.
    let slips = rule.words().filter(|word| is_one_slip(unknown, word));
    let mut near: Vec<String> = slips.map(str::to_owned).collect();
    for similar in nearest(unknown, &rule.words().collect::<Vec<_>>()) {
        if !near.contains(&similar) {
            near.push(similar);
        }
    }
    let near = near.into_iter().map(replace).collect();
    Some(ValueFault { near, takes: rule.takes })
}

/// The parameter that was meant by a name with one slip: the value is a word of this parameter and
/// of no other. Short names resemble too many others to be judged without their value.
pub fn meant_by_value(name: &str, value: &str) -> Option<&'static str> {
    let mut rules = VALUES.iter().filter(|rule| rule.words().any(|it| it == value));
    let rule = rules.next().filter(|rule| is_one_slip(name, rule.keyword))?;
    rules.next().is_none().then_some(rule.keyword)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_no_kernel_takes_is_found_and_the_others_are_not() {
        for (word, near) in [
            ("idle=pol", Some("poll")),
            ("mitigations=of", Some("off")),
            ("mitigations=of,nosmt", Some("off,nosmt")),
            ("mce=ignor_ce", Some("ignore_ce")),
            ("skew_tick=yes", None),
            ("skew-tick=", None),
            ("tsc=relaible", Some("reliable")),
            ("intel_pstate=disabl", Some("disable")),
            ("intel_pstate=passive,no_hwp", None),
            ("iommu=tp", Some("pt")),
            ("iommu=force,sotf", Some("force,soft")),
            ("intel_idle.max_cstate=x", None),
            ("nmi_watchdog=of", None),
            ("nosmt=fource", Some("force")),
            ("preempt=ful", Some("full")),
            ("maxcpus=abc", None),
            ("nr_cpus=", None),
        ] {
            let (name, value) = word.split_once('=').unwrap();
            let found = unknown_value(name, value).unwrap_or_else(|| panic!("{word}"));
            assert_eq!(found.near.first().map(String::as_str), near, "{word}");
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
            "tsc=directsync",
            "tsc=recalibrate",
            "intel_pstate=enable",
            "intel_pstate=no_cas",
            // The kernel compares the beginning only.
            "iommu=ptt",
            "iommu=memaper=3,noagp,off",
            "iommu=65536,leak=200",
            "iommu=nobypass",
            "intel_idle.max_cstate=0",
            "processor.max-cstate=0x2",
            "nmi_watchdog=panic,2",
            "nmi_watchdog=r0c4,nopanic",
            "nmi_watchdog=lapic",
            "preempt=laziest",
            "maxcpus=0",
        ] {
            let (name, value) = word.split_once('=').unwrap();
            assert_eq!(unknown_value(name, value), None, "{word}");
        }
    }

    #[test]
    fn a_short_name_with_a_slip_is_known_by_a_value_of_one_parameter_only() {
        for (name, value, meant) in [
            ("idel", "poll", Some("idle")),
            ("tcs", "reliable", Some("tsc")),
            ("iomu", "pt", Some("iommu")),
            ("idel", "1", None),
            // Several parameters take it.
            ("mca", "off", None),
            ("mode", "poll", None),
        ] {
            assert_eq!(meant_by_value(name, value), meant, "{name}={value}");
        }
    }
}
