//! `/proc/stat`: the time each online CPU spent, in clock ticks of user space (`USER_HZ`, 100 on
//! every architecture but alpha). Fields by proc_stat(5); `steal` since 2.6.11.

use super::TextError;
use std::collections::BTreeMap;

/// Time of one CPU since boot, in `USER_HZ` ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In user mode, nice tasks not counted.
    pub user: u64,
    /// In user mode, nice tasks.
    pub nice: u64,
    /// In the kernel.
    pub system: u64,
    /// Idle.
    pub idle: u64,
    /// Idle with input or output outstanding.
    pub iowait: u64,
    /// In hard interrupts.
    pub irq: u64,
    /// In soft interrupts.
    pub softirq: u64,
    /// The hypervisor ran something else, as far as it says so.
    pub steal: u64,
}

/// Parses the per-CPU lines.
///
/// # Errors
/// A `cpuN` line without its eight numbers, or none at all.
pub fn parse(text: &str) -> Result<BTreeMap<usize, CpuTime>, TextError> {
    let mut times = BTreeMap::new();
    for (i, line) in text.lines().enumerate() {
        let Some(rest) = line.strip_prefix("cpu").filter(|rest| !rest.starts_with(' ')) else {
            continue;
        };
        let wrong = || TextError::new(i + 1, "cpuN and eight numbers", line);
        let mut words = rest.split_whitespace();
        let cpu: usize = words.next().and_then(|word| word.parse().ok()).ok_or_else(wrong)?;
        let mut next = || words.next().and_then(|word| word.parse::<u64>().ok());
        let time = (|| {
            Some(CpuTime {
                user: next()?,
                nice: next()?,
                system: next()?,
                idle: next()?,
                iowait: next()?,
                irq: next()?,
                softirq: next()?,
                steal: next()?,
            })
        })();
        times.insert(cpu, time.ok_or_else(wrong)?);
    }
    if times.is_empty() {
        return Err(TextError::new(0, "lines cpu0, cpu1, …", ""));
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_online_cpu_has_its_times() {
        let text = "cpu  13327 0 8651 280614 766 0 99 26 0 0
cpu0 5854 0 3102 142669 118 0 10 9 0 0
cpu3 7473 1 5548 137944 648 2 89 16 0 0
intr 382641 0 0
ctxt 873860
";
        let times = parse(text).unwrap();
        assert_eq!(times.keys().copied().collect::<Vec<_>>(), [0, 3]);
        let cpu3 = CpuTime {
            user: 7473,
            nice: 1,
            system: 5548,
            idle: 137_944,
            iowait: 648,
            irq: 2,
            softirq: 89,
            steal: 16,
        };
        assert_eq!(times.get(&3), Some(&cpu3));
        assert!(parse("cpu0 1 2 3\n").is_err());
        assert!(parse("intr 1\n").is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(?s)(cpu)?.{0,100}") {
            let _ = parse(&text);
        }
    }
}
