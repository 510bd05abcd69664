//! `/proc/softirqs`: one row per softirq, one column per *possible* CPU (fs/proc/softirqs.c, 4.17
//! to 6.18), unlike `/proc/interrupts`, which has the online CPUs.

use super::{TextError, split_cpu_header};

/// The table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SoftirqTable {
    /// The CPU of each column.
    pub cpus: Vec<usize>,
    /// Name (`TIMER`, `RCU`, …) and its count on each of [`SoftirqTable::cpus`].
    pub rows: Vec<(String, Vec<u64>)>,
}

/// Parses the table.
///
/// # Errors
/// A line is not a row with one number for each CPU.
pub fn parse(text: &str) -> Result<SoftirqTable, TextError> {
    let (cpus, lines) = split_cpu_header(text)?;
    let mut rows = Vec::new();
    for (number, line) in lines {
        let malformed = || TextError::new(number, "NAME: and one number for each CPU", line);
        let (name, numbers) = line.split_once(':').ok_or_else(malformed)?;
        let counts: Option<Vec<u64>> =
            numbers.split_whitespace().map(|word| word.parse().ok()).collect();
        let counts = counts.filter(|counts| counts.len() == cpus.len()).ok_or_else(malformed)?;
        rows.push((name.trim().to_owned(), counts));
    }
    Ok(SoftirqTable { cpus, rows })
}

impl SoftirqTable {
    /// The counts of one CPU by name; `None` if it has no column.
    #[must_use]
    pub fn counts_for(&self, cpu: usize) -> Option<Vec<(&str, u64)>> {
        let at = self.cpus.iter().position(|column| *column == cpu)?;
        Some(
            self.rows
                .iter()
                .filter_map(|(name, counts)| Some((name.as_str(), *counts.get(at)?)))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Linux 6.18, two CPUs, shortened.
    const TEXT: &str = "                    CPU0       CPU1       
          HI:          0          0
       TIMER:      14140      12735
    IRQ_POLL:          0          0
         RCU:      22469      33935
";

    #[test]
    fn each_cpu_has_its_counts() {
        let table = parse(TEXT).unwrap();
        assert_eq!(
            table.counts_for(1),
            Some(vec![("HI", 0), ("TIMER", 12735), ("IRQ_POLL", 0), ("RCU", 33935)])
        );
        assert_eq!(table.counts_for(2), None);
    }

    #[test]
    fn a_row_without_its_numbers_is_refused_with_its_line() {
        let error = parse("  CPU0 CPU1\n HI: 1\n").unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
        assert!(parse("").is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(?s).{0,200}") {
            let _ = parse(&text);
        }
    }
}
