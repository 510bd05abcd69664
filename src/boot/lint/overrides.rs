//! Findings about words that contradict each other: one switches off what the other one sets up.
//! Only words that the kernel accepts and then ignores are found. Words that ask for the same thing
//! twice, such as `idle=poll intel_idle.max_cstate=0`, are no finding. Pure.

use super::LintTarget;
use crate::boot::line::to_word;
use crate::documents::boot::{LintFinding, OverrideEffect};
use cpushield_linux::text::cmdline::{self, KernelParam};
use cpushield_linux::text::first_releases::{MITIGATIONS, NOWATCHDOG_WINS};
use cpushield_linux::text::kernel_version::KernelVersion;

/// From [`MITIGATIONS`] on and until this version at least, `mitigations=` overrides the words of
/// single mitigations: `spectre_v2_parse_cmdline()`, `mds_select_mitigation()` and
/// `taa_select_mitigation()`, arch/x86/kernel/cpu/bugs.c, return early if `cpu_mitigations_off()`
/// (read at 001415e4e626). The series of attack vectors removed the return from
/// `mds_select_mitigation()`. It changes a file with `MDS_MITIGATION_AUTO`, which is later than
/// 6.12, so the bound is cautious. Older stable series stay unjudged.
const MITIGATIONS_OVERRIDE_TO: KernelVersion = KernelVersion::new(6, 12);

/// Words of single mitigations, each with the beginnings of the values that request it.
/// `pti=on` is none of them: it wins over `mitigations=off`.
const SINGLE_MITIGATIONS: &[(&str, &[&str])] = &[
    ("spectre_v2", &["on", "retpoline", "eibrs", "ibrs"]),
    ("mds", &["full"]),
    ("tsx_async_abort", &["full"]),
];

pub(super) fn find(target: &LintTarget<'_>, params: &[KernelParam]) -> Vec<LintFinding> {
    let is_x86 = target.arch.is_none_or(|arch| arch.contains("86"));
    let mut found = watchdogs(target, params);
    if is_x86 {
        found.extend(sleep_states(params));
        found.extend(mitigations(target, params));
    }
    found
}

/// The last word of a parameter with its value.
fn last<'a>(params: &'a [KernelParam], name: &str) -> Option<(&'a KernelParam, &'a str)> {
    let param = cmdline::last(params, name)?;
    Some((param, param.value.as_deref()?))
}

fn ineffective(word: &KernelParam, by: &KernelParam, effect: OverrideEffect) -> LintFinding {
    LintFinding::Ineffective { word: to_word(word), by: to_word(by), effect }
}

/// `nowatchdog` together with `nmi_watchdog=1` or `softlockup_panic=1`.
fn watchdogs(target: &LintTarget<'_>, params: &[KernelParam]) -> Vec<LintFinding> {
    let off = params.iter().find(|it| it.name == "nowatchdog" && it.value.is_none());
    let certain = target.version.is_none_or(|version| version >= NOWATCHDOG_WINS);
    let Some(off) = off.filter(|_| certain) else { return Vec::new() };
    let wanted = [("nmi_watchdog", "1"), ("softlockup_panic", "1")];
    let words = wanted.into_iter().filter_map(|(name, on)| {
        let (param, value) = last(params, name)?;
        (value == on).then(|| ineffective(param, off, OverrideEffect::WatchdogsOff))
    });
    words.collect()
}

/// `idle=` together with a word that allows sleep states: the driver of these states does not
/// start. `idle_setup()`, arch/x86/kernel/process.c, keeps the last `idle=`;
/// `intel_idle_init()`, drivers/idle/intel_idle.c, returns early with any of them ("Do not load
/// intel_idle at all for now if idle= is passed", in versions with and without
/// `intel_idle_cpuidle_devices`), and `acpi_processor_power_init()`,
/// drivers/acpi/processor_idle.c, with `poll` and `halt` (`disabled_by_idle_boot_param()`). A limit
/// of 0 or 1 is met without a driver too.
fn sleep_states(params: &[KernelParam]) -> Vec<LintFinding> {
    let Some((idle, mode)) = last(params, "idle") else { return Vec::new() };
    let drivers: [(&str, &'static str, &[&str]); 2] = [
        ("intel_idle.max_cstate", "intel_idle", &["poll", "halt", "nomwait"]),
        ("processor.max_cstate", "acpi_idle", &["poll", "halt"]),
    ];
    let words = drivers.into_iter().filter_map(|(name, driver, modes)| {
        let (param, value) = last(params, name)?;
        let allows = value.parse::<u32>().is_ok_and(|state| state >= 2);
        let effect = OverrideEffect::DriverNotStarted { driver };
        (allows && modes.contains(&mode)).then(|| ineffective(param, idle, effect))
    });
    words.collect()
}

/// `mitigations=off` together with a word that requests a single mitigation.
fn mitigations(target: &LintTarget<'_>, params: &[KernelParam]) -> Vec<LintFinding> {
    let overriding = MITIGATIONS..=MITIGATIONS_OVERRIDE_TO;
    let certain = target.version.is_some_and(|version| overriding.contains(&version));
    let off = last(params, "mitigations").filter(|(_, value)| certain && *value == "off");
    let Some((off, _)) = off else { return Vec::new() };
    let words = SINGLE_MITIGATIONS.iter().filter_map(|(name, values)| {
        let (param, value) = last(params, name)?;
        let requests = values.iter().any(|start| value.starts_with(start));
        requests.then(|| ineffective(param, off, OverrideEffect::MitigationsOff))
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpushield_linux::CpuSet;

    fn findings(line: &str, version: (u32, u32), arch: &str) -> Vec<String> {
        let none = CpuSet::new();
        let version = Some(KernelVersion::new(version.0, version.1));
        let target = LintTarget {
            possible: &none,
            online: &none,
            running: false,
            smt: false,
            version,
            list_rules: version,
            arch: Some(arch),
        };
        find(&target, &cmdline::parse(line)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn words_that_another_word_switches_off_are_findings() {
        let found = |line| findings(line, (6, 12), "x86_64");
        for (line, expected) in [
            (
                "nmi_watchdog=1 nowatchdog",
                vec!["nmi_watchdog=1 has no effect: nowatchdog switches every lockup watchdog off"],
            ),
            (
                "nowatchdog softlockup_panic=1",
                vec![
                    "softlockup_panic=1 has no effect: nowatchdog switches every lockup watchdog \
                     off",
                ],
            ),
            (
                "idle=poll intel_idle.max_cstate=2 processor.max_cstate=3",
                vec![
                    "intel_idle.max_cstate=2 has no effect: with idle=poll, the driver intel_idle \
                     does not start",
                    "processor.max_cstate=3 has no effect: with idle=poll, the driver acpi_idle \
                     does not start",
                ],
            ),
            (
                "mitigations=off mds=full,nosmt spectre_v2=on",
                vec![
                    "spectre_v2=on has no effect: mitigations=off overrides it",
                    "mds=full,nosmt has no effect: mitigations=off overrides it",
                ],
            ),
            // They ask for the same, or a later word decides.
            ("nowatchdog nmi_watchdog=0 nosoftlockup", vec![]),
            ("nmi_watchdog=1 nosoftlockup", vec![]),
            ("nowatchdog nmi_watchdog=1 nmi_watchdog=0", vec![]),
            ("idle=poll intel_idle.max_cstate=0 processor.max_cstate=1", vec![]),
            ("idle=nomwait processor.max_cstate=5", vec![]),
            ("idle=poll idle=mwait intel_idle.max_cstate=4", vec![]),
            ("mitigations=off spectre_v2=off mds=off pti=on", vec![]),
            ("mitigations=off mitigations=auto mds=full", vec![]),
        ] {
            assert_eq!(found(line), expected, "{line}");
        }
    }

    #[test]
    fn other_kernels_take_the_same_words_and_have_no_finding() {
        let line = "mitigations=off mds=full";
        for version in [(4, 19), (6, 17)] {
            assert_eq!(findings(line, version, "x86_64"), [""; 0], "{version:?}");
        }
        assert_eq!(findings("nowatchdog nmi_watchdog=1", (4, 9), "x86_64"), [""; 0]);
        let arm = "idle=poll intel_idle.max_cstate=2 mitigations=off mds=full";
        assert_eq!(findings(arm, (6, 12), "aarch64"), [""; 0]);
    }
}
