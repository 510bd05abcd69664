//! The kernel's configuration: `/proc/config.gz` or `/boot/config-<release>`.

use super::TextError;
use std::collections::BTreeMap;

/// The options that matter for isolation; all others are dropped.
pub const RELEVANT: &[&str] = &[
    "CONFIG_CGROUPS",
    "CONFIG_CONTEXT_TRACKING",
    "CONFIG_CONTEXT_TRACKING_USER",
    "CONFIG_CPUSETS",
    "CONFIG_CPUSETS_V1",
    "CONFIG_CPU_ISOLATION",
    "CONFIG_DEBUG_FS",
    "CONFIG_DOVETAIL",
    "CONFIG_DYNAMIC_FTRACE",
    "CONFIG_EVL",
    "CONFIG_FTRACE",
    "CONFIG_FUNCTION_TRACER",
    "CONFIG_GENERIC_PENDING_IRQ",
    "CONFIG_HARDLOCKUP_DETECTOR",
    "CONFIG_HIGH_RES_TIMERS",
    "CONFIG_HOTPLUG_CPU",
    "CONFIG_HWLAT_TRACER",
    "CONFIG_HZ",
    "CONFIG_HZ_PERIODIC",
    "CONFIG_IPIPE",
    "CONFIG_IRQ_FORCED_THREADING",
    "CONFIG_IRQSOFF_TRACER",
    "CONFIG_IRQ_TIME_ACCOUNTING",
    "CONFIG_LOCKUP_DETECTOR",
    "CONFIG_NO_HZ_COMMON",
    "CONFIG_NO_HZ_FULL",
    "CONFIG_NO_HZ_IDLE",
    "CONFIG_NUMA_BALANCING",
    "CONFIG_OSNOISE_TRACER",
    "CONFIG_PREEMPT",
    "CONFIG_PREEMPT_DYNAMIC",
    "CONFIG_PREEMPT_LAZY",
    "CONFIG_PREEMPT_NONE",
    "CONFIG_PREEMPT_RT",
    "CONFIG_PREEMPT_RT_FULL",
    "CONFIG_PREEMPT_TRACER",
    "CONFIG_PREEMPT_VOLUNTARY",
    "CONFIG_PROVE_LOCKING",
    "CONFIG_RCU_BOOST",
    "CONFIG_RCU_NOCB_CPU",
    "CONFIG_RCU_NOCB_CPU_DEFAULT_ALL",
    "CONFIG_RT_GROUP_SCHED",
    "CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED",
    "CONFIG_SCHEDSTATS",
    "CONFIG_SCHED_CLUSTER",
    "CONFIG_SCHED_CORE",
    "CONFIG_SCHED_DEBUG",
    "CONFIG_SCHED_SMT",
    "CONFIG_SOFTLOCKUP_DETECTOR",
    "CONFIG_TIMERLAT_TRACER",
    "CONFIG_TRACING",
    "CONFIG_VIRT_CPU_ACCOUNTING_GEN",
    "CONFIG_X86_MSR",
    "CONFIG_XENOMAI",
];

/// Parses the options of [`RELEVANT`] with their values; one that the file does not set is `n`.
///
/// # Errors
/// A line is neither an option nor a comment, or there are no options.
pub fn parse(text: &str) -> Result<BTreeMap<String, String>, TextError> {
    let mut options: BTreeMap<String, String> =
        RELEVANT.iter().map(|name| ((*name).to_owned(), "n".to_owned())).collect();
    let mut seen = false;
    for (i, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line
            .split_once('=')
            .filter(|(name, value)| name.starts_with("CONFIG_") && !value.is_empty())
            .ok_or_else(|| TextError::new(i + 1, "CONFIG_NAME=value", line))?;
        seen = true;
        if let Some(known) = options.get_mut(name) {
            value.trim_end().clone_into(known);
        }
    }
    if seen { Ok(options) } else { Err(TextError::new(0, "kernel options (CONFIG_…)", text)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn relevant_options_are_kept_and_missing_ones_are_n() {
        // Debian 6.12.
        let text = "#\n# Timers subsystem\n#\nCONFIG_NO_HZ_FULL=y\nCONFIG_HZ=250\n\
                    # CONFIG_CPUSETS_V1 is not set\nCONFIG_BUILD_SALT=\"6.12.48+deb13-amd64\"\n";
        let options = parse(text).unwrap();
        assert_eq!(options["CONFIG_NO_HZ_FULL"], "y");
        assert_eq!(options["CONFIG_HZ"], "250");
        assert_eq!(options["CONFIG_CPUSETS_V1"], "n");
        assert!(!options.contains_key("CONFIG_BUILD_SALT"));
        assert_eq!(options.len(), RELEVANT.len());
    }

    #[test]
    fn a_text_that_is_not_a_configuration_is_refused() {
        assert_eq!(parse("CONFIG_HZ=250\n<html>\n").unwrap_err().line, 2);
        assert!(parse("").is_err());
        assert!(parse("CONFIG_HZ\n").is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[CONFIG_=#yn\n ]{0,80}") {
            let _ = parse(&text);
        }
    }
}
