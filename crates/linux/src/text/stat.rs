//! `/proc/stat`: the time of each online CPU, in clock ticks of user space (`USER_HZ`, 100 on every
//! architecture but alpha). Fields by proc_stat(5); `steal` since 2.6.11.

use super::TextError;
use std::collections::BTreeMap;

/// Nanoseconds in one tick of user space: 1 s / `USER_HZ`.
const USER_TICK_NS: u64 = 10_000_000;

/// A time in ticks of `USER_HZ`, which are neither ticks of the kernel nor of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UserTicks(pub u64);

impl UserTicks {
    /// The time in nanoseconds.
    #[must_use]
    pub const fn ns(self) -> u64 {
        self.0.saturating_mul(USER_TICK_NS)
    }

    /// The sum of two times.
    #[must_use]
    pub const fn saturating_add(self, other: UserTicks) -> UserTicks {
        UserTicks(self.0.saturating_add(other.0))
    }

    /// The time since an earlier one; 0 if that is later.
    #[must_use]
    pub const fn saturating_sub(self, earlier: UserTicks) -> UserTicks {
        UserTicks(self.0.saturating_sub(earlier.0))
    }
}

/// Time of one CPU since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In user mode, without nice tasks.
    pub user: UserTicks,
    /// In user mode, nice tasks.
    pub nice: UserTicks,
    /// In the kernel.
    pub system: UserTicks,
    /// Idle.
    pub idle: UserTicks,
    /// Idle with outstanding I/O.
    pub iowait: UserTicks,
    /// In hardirqs.
    pub irq: UserTicks,
    /// In softirqs.
    pub softirq: UserTicks,
    /// While the hypervisor ran something else, as far as it reports that.
    pub steal: UserTicks,
}

/// Parses the per-CPU lines.
///
/// # Errors
/// A `cpuN` line without its eight numbers, or no such line.
pub fn parse(text: &str) -> Result<BTreeMap<usize, CpuTime>, TextError> {
    let mut times = BTreeMap::new();
    for (i, line) in text.lines().enumerate() {
        let Some(rest) = line.strip_prefix("cpu").filter(|rest| !rest.starts_with(' ')) else {
            continue;
        };
        let (cpu, time) = parse_cpu_line(rest)
            .ok_or_else(|| TextError::new(i + 1, "cpuN and eight numbers", line))?;
        times.insert(cpu, time);
    }
    if times.is_empty() {
        return Err(TextError::new(0, "lines cpu0, cpu1, …", ""));
    }
    Ok(times)
}

/// Parses `N` and the eight times of a line, which starts after `cpu`.
fn parse_cpu_line(rest: &str) -> Option<(usize, CpuTime)> {
    let mut words = rest.split_whitespace();
    let cpu = words.next()?.parse().ok()?;
    let numbers: Vec<UserTicks> =
        words.take(8).map(|word| word.parse().ok().map(UserTicks)).collect::<Option<_>>()?;
    let [user, nice, system, idle, iowait, irq, softirq, steal] = numbers[..] else { return None };
    Some((cpu, CpuTime { user, nice, system, idle, iowait, irq, softirq, steal }))
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
            user: UserTicks(7473),
            nice: UserTicks(1),
            system: UserTicks(5548),
            idle: UserTicks(137_944),
            iowait: UserTicks(648),
            irq: UserTicks(2),
            softirq: UserTicks(89),
            steal: UserTicks(16),
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
