//! `/proc/schedstat` (versions 15 to 17, Linux 3.x to 6.18, with `CONFIG_SCHEDSTATS`): scheduler
//! statistics of each online CPU. Fields by Documentation/scheduler/sched-stats.rst.

use super::TextError;
use std::collections::BTreeMap;

/// Scheduler statistics of one CPU since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuSched {
    /// Time that tasks ran, in nanoseconds (field 7).
    pub ran_ns: u64,
    /// Time that tasks waited for the CPU, in nanoseconds (field 8).
    pub waited_ns: u64,
    /// How often a task other than the idle task was switched to (field 9).
    pub switches: u64,
}

/// Parses the per-CPU lines.
///
/// # Errors
/// An unknown version, or a `cpuN` line without its nine numbers.
pub fn parse(text: &str) -> Result<BTreeMap<usize, CpuSched>, TextError> {
    let version = text.lines().next().and_then(|line| line.strip_prefix("version "));
    if !matches!(version.map(str::trim), Some("15" | "16" | "17")) {
        let found = text.lines().next().unwrap_or("");
        return Err(TextError::new(1, "version 15, 16 or 17", found));
    }
    let mut found = BTreeMap::new();
    for (i, line) in text.lines().enumerate() {
        let Some(rest) = line.strip_prefix("cpu") else { continue };
        let numbers: Option<Vec<u64>> =
            rest.split_whitespace().map(|word| word.parse().ok()).collect();
        match numbers.as_deref() {
            Some([cpu, _, _, _, _, _, _, ran_ns, waited_ns, switches, ..]) => {
                let cpu = usize::try_from(*cpu).unwrap_or(usize::MAX);
                let sched =
                    CpuSched { ran_ns: *ran_ns, waited_ns: *waited_ns, switches: *switches };
                found.insert(cpu, sched);
            }
            _ => return Err(TextError::new(i + 1, "cpuN and nine numbers", line)),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_three_fields_are_parsed() {
        // Linux 6.12, version 16, shortened.
        let text = "version 16
timestamp 4294937296
cpu0 0 0 1843 702 1141 504 412312845 25338127 1141
domain0 f 15 15 0 0 0 0 0
cpu3 0 0 44 20 24 1 99 7 24
";
        let found = parse(text).unwrap();
        assert_eq!(found.get(&3), Some(&CpuSched { ran_ns: 99, waited_ns: 7, switches: 24 }));
        assert_eq!(found.len(), 2);
        assert!(parse("version 14\n").is_err());
        assert!(parse("version 16\ncpu0 1 2\n").is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(version 16\n)?(?s)(cpu)?.{0,100}") {
            let _ = parse(&text);
        }
    }
}
