//! [`CpuSet`]: the type for all sets of CPUs (and of NUMA nodes), with the kernel's two formats.
//!
//! The list grammar is that of `bitmap_parselist()` (lib/bitmap-str.c, Linux 6.12; documented in
//! Documentation/admin-guide/kernel-parameters.rst, "cpu lists"): `0-3,8`, `0-31:2/8`, `N` for the
//! last CPU and `all`. The mask grammar is that of `bitmap_parse()`: groups of up to eight hex
//! digits, most significant first, separated by commas.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The largest CPU number accepted plus one: x86-64's largest `CONFIG_NR_CPUS` is 8192
/// (arch/x86/Kconfig, 6.12). The limit bounds the memory that hostile input can use.
pub const CPUS_MAX: usize = 8192;

/// A set of CPU numbers, or of node numbers where the field says so.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuSet {
    /// Bit `n % 64` of word `n / 64`; no trailing zero words, so that equality is that of sets.
    words: Vec<u64>,
}

/// Why a text is not a CPU list or mask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuSetError {
    /// The text as given, shortened.
    pub text: String,
    /// What it should be: `CPU list` or `CPU mask`.
    pub wanted: &'static str,
    /// The reason.
    pub why: String,
}

impl fmt::Display for CpuSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a {}: {}", self.text, self.wanted, self.why)
    }
}

impl std::error::Error for CpuSetError {}

fn invalid(text: &str, why: impl Into<String>) -> CpuSetError {
    CpuSetError { text: text.chars().take(60).collect(), wanted: "CPU list", why: why.into() }
}

fn invalid_mask(text: &str, why: impl Into<String>) -> CpuSetError {
    CpuSetError { wanted: "CPU mask", ..invalid(text, why) }
}

impl CpuSet {
    /// The empty set.
    #[must_use]
    pub fn new() -> CpuSet {
        CpuSet::default()
    }

    /// The set of one CPU.
    #[must_use]
    pub fn single(cpu: usize) -> CpuSet {
        [cpu].into_iter().collect()
    }

    /// Adds a CPU; numbers from [`CPUS_MAX`] on are ignored, because no kernel has them.
    pub fn insert(&mut self, cpu: usize) {
        if cpu >= CPUS_MAX {
            return;
        }
        if self.words.len() <= cpu / 64 {
            self.words.resize(cpu / 64 + 1, 0);
        }
        self.words[cpu / 64] |= 1 << (cpu % 64);
    }

    /// Removes a CPU.
    pub fn remove(&mut self, cpu: usize) {
        if let Some(word) = self.words.get_mut(cpu / 64) {
            *word &= !(1 << (cpu % 64));
        }
        self.trim();
    }

    /// Whether the CPU is in the set.
    #[must_use]
    pub fn contains(&self, cpu: usize) -> bool {
        self.words.get(cpu / 64).is_some_and(|word| word & (1 << (cpu % 64)) != 0)
    }

    /// Whether the set has no CPU.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The number of CPUs in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        let bits = self.words.len() * 64;
        (0..bits).filter(|cpu| self.contains(*cpu))
    }

    /// The lowest CPU.
    #[must_use]
    pub fn first(&self) -> Option<usize> {
        self.iter().next()
    }

    /// The highest CPU.
    #[must_use]
    pub fn last(&self) -> Option<usize> {
        self.iter().next_back()
    }

    fn zip(&self, other: &CpuSet, op: impl Fn(u64, u64) -> u64) -> CpuSet {
        let longest = self.words.len().max(other.words.len());
        let words = (0..longest).map(|i| op(self.word(i), other.word(i))).collect();
        let mut set = CpuSet { words };
        set.trim();
        set
    }

    fn word(&self, i: usize) -> u64 {
        self.words.get(i).copied().unwrap_or(0)
    }

    /// CPUs in either set.
    #[must_use]
    pub fn union(&self, other: &CpuSet) -> CpuSet {
        self.zip(other, |a, b| a | b)
    }

    /// CPUs in both sets.
    #[must_use]
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        self.zip(other, |a, b| a & b)
    }

    /// CPUs of this set that are not in the other.
    #[must_use]
    pub fn difference(&self, other: &CpuSet) -> CpuSet {
        self.zip(other, |a, b| a & !b)
    }

    /// Whether every CPU of this set is in the other.
    #[must_use]
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        self.difference(other).is_empty()
    }

    /// Whether the sets share a CPU.
    #[must_use]
    pub fn intersects(&self, other: &CpuSet) -> bool {
        !self.intersection(other).is_empty()
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }

    /// Parses the kernel's list format. `last` is the CPU that `N` means; without it, `N` and `all`
    /// are refused, because they do not occur in files that the kernel wrote.
    ///
    /// # Errors
    /// The invalid part of the list.
    pub fn parse_list(text: &str, last: Option<usize>) -> Result<CpuSet, CpuSetError> {
        let mut set = CpuSet::new();
        let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\0');
        if trimmed.is_empty() {
            return Ok(set);
        }
        for part in trimmed.split(',') {
            // The kernel skips empty parts (`find_region()`), so `0,,2` and `0,` are valid.
            let part = part.trim();
            if !part.is_empty() {
                set.add_region(text, part, last)?;
            }
        }
        Ok(set)
    }

    fn add_region(
        &mut self,
        text: &str,
        part: &str,
        last: Option<usize>,
    ) -> Result<(), CpuSetError> {
        let (range, pattern) = match part.split_once(':') {
            Some((range, pattern)) => (range, Some(pattern)),
            None => (part, None),
        };
        let (from, to) = if range.eq_ignore_ascii_case("all") {
            (0, last.ok_or_else(|| invalid(text, "`all` is not valid here"))?)
        } else {
            match range.split_once('-') {
                Some((from, to)) => (cpu_number(text, from, last)?, cpu_number(text, to, last)?),
                None if pattern.is_some() => {
                    return Err(invalid(text, format!("{part:?} needs a range before the colon")));
                }
                None => {
                    let cpu = cpu_number(text, range, last)?;
                    (cpu, cpu)
                }
            }
        };
        if from > to {
            return Err(invalid(text, format!("the range {range:?} runs backwards")));
        }
        let (used, group) = match pattern {
            None => (1, 1),
            Some(pattern) => {
                let (used, group) = pattern.split_once('/').ok_or_else(|| {
                    invalid(text, format!("{part:?} needs USED/GROUP after the colon"))
                })?;
                (cpu_number(text, used, last)?, cpu_number(text, group, last)?)
            }
        };
        if group == 0 {
            return Err(invalid(text, format!("{part:?}: GROUP must be at least 1")));
        }
        if used > group {
            return Err(invalid(text, format!("{part:?}: USED must not exceed GROUP")));
        }
        for cpu in (from..=to).filter(|cpu| (cpu - from) % group < used) {
            self.insert(cpu);
        }
        Ok(())
    }

    /// Parses the kernel's mask format: `80`, `0x80`, `8000,00000000`.
    ///
    /// # Errors
    /// The invalid group of the mask.
    pub fn parse_mask(text: &str) -> Result<CpuSet, CpuSetError> {
        let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\0');
        let digits = trimmed.strip_prefix("0x").or(trimmed.strip_prefix("0X")).unwrap_or(trimmed);
        if digits.is_empty() {
            return Err(invalid_mask(text, "it has no digits"));
        }
        let grouped = digits.contains(',');
        let groups: Vec<&str> = digits.split(',').collect();
        let mut set = CpuSet::new();
        let mut base = 0;
        for group in groups.iter().rev() {
            if grouped && (group.is_empty() || group.len() > 8) {
                let why = format!("group {group:?} must have 1 to 8 hex digits");
                return Err(invalid_mask(text, why));
            }
            for (nibble, digit) in group.bytes().rev().enumerate() {
                let value = (digit as char).to_digit(16).ok_or_else(|| {
                    invalid_mask(text, format!("{:?} is not a hex digit", digit as char))
                })?;
                for bit in (0..4).filter(|bit| value & (1 << bit) != 0) {
                    let cpu = base + nibble * 4 + bit;
                    if cpu >= CPUS_MAX {
                        let why = format!("CPU {cpu} is above the maximum, {}", CPUS_MAX - 1);
                        return Err(invalid_mask(text, why));
                    }
                    set.insert(cpu);
                }
            }
            base += 32;
        }
        Ok(set)
    }

    /// The kernel's mask format with 32-bit groups and no leading zeros: `8000,00000000`.
    #[must_use]
    pub fn to_mask(&self) -> String {
        let groups = self.last().map_or(1, |last| last / 32 + 1);
        let group = |i: usize| (self.word(i / 2) >> (32 * (i % 2))) & 0xffff_ffff;
        let mut mask = format!("{:x}", group(groups - 1));
        for i in (0..groups - 1).rev() {
            mask.push_str(&format!(",{:08x}", group(i)));
        }
        mask
    }
}

/// Parses a CPU number of `text`, in which `N` means `last`.
fn cpu_number(text: &str, word: &str, last: Option<usize>) -> Result<usize, CpuSetError> {
    if word == "N" {
        return last.ok_or_else(|| invalid(text, "`N` is not valid here"));
    }
    if word.is_empty() {
        return Err(invalid(text, "a CPU number is missing"));
    }
    if !word.bytes().all(|b| b.is_ascii_digit()) {
        return Err(invalid(text, format!("{word:?} is not a CPU number")));
    }
    let cpu: usize = word.parse().unwrap_or(CPUS_MAX);
    if cpu >= CPUS_MAX {
        let why = format!("CPU {word} is above the maximum, {}", CPUS_MAX - 1);
        return Err(invalid(text, why));
    }
    Ok(cpu)
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> CpuSet {
        let mut set = CpuSet::new();
        for cpu in cpus {
            set.insert(cpu);
        }
        set
    }
}

/// The union of sets.
impl<'a> FromIterator<&'a CpuSet> for CpuSet {
    fn from_iter<I: IntoIterator<Item = &'a CpuSet>>(sets: I) -> CpuSet {
        sets.into_iter().fold(CpuSet::new(), |all, set| all.union(set))
    }
}

/// The list format, as `%*pbl` of the kernel prints it: `0-2,5`. The empty set is empty text.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = String::new();
        let mut cpus = self.iter().peekable();
        while let Some(from) = cpus.next() {
            let mut to = from;
            while cpus.next_if_eq(&(to + 1)).is_some() {
                to += 1;
            }
            if !list.is_empty() {
                list.push(',');
            }
            list.push_str(&from.to_string());
            if to > from {
                list.push_str(&format!("-{to}"));
            }
        }
        f.pad(&list)
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

/// Parses the list format as the kernel writes it to a file.
impl FromStr for CpuSet {
    type Err = CpuSetError;

    fn from_str(text: &str) -> Result<CpuSet, CpuSetError> {
        CpuSet::parse_list(text, None)
    }
}

impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A list in a text, as it is written.
#[cfg(feature = "schema")]
impl schemars::JsonSchema for CpuSet {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CpuSet".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CpuSet, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(text: &str) -> CpuSet {
        CpuSet::parse_list(text, Some(7)).unwrap()
    }

    #[test]
    fn lists_of_the_kernel_grammar_are_parsed() {
        assert_eq!(list("0-3,8").to_string(), "0-3,8");
        assert_eq!(list("5-7,2").to_string(), "2,5-7");
        assert_eq!(list("0-7:2/4").to_string(), "0-1,4-5");
        assert_eq!(list("N").to_string(), "7");
        assert_eq!(list("all").to_string(), "0-7");
        assert_eq!(list("0-N:1/2").to_string(), "0,2,4,6");
        assert_eq!(list("").to_string(), "");
        assert_eq!(list(" 1 , 3 \n").to_string(), "1,3");
    }

    #[test]
    fn invalid_lists_are_refused_with_the_invalid_part() {
        for (text, why) in [
            ("a", "\"a\" is not a CPU number"),
            ("3-1", "runs backwards"),
            ("-1", "a CPU number is missing"),
            ("1-", "a CPU number is missing"),
            ("1:1/2", "needs a range"),
            ("0-7:2", "needs USED/GROUP"),
            ("0-7:3/2", "must not exceed"),
            ("0-7:0/0", "GROUP must be at least 1"),
            ("0-7:1/0", "GROUP must be at least 1"),
            ("9999999", "CPU 9999999 is above the maximum, 8191"),
            ("1;2", "not a CPU number"),
        ] {
            let error = CpuSet::parse_list(text, Some(7)).unwrap_err();
            assert!(error.to_string().contains(why), "{text}: {error}");
        }
        assert!(CpuSet::parse_list("N", None).is_err());
    }

    #[test]
    fn cpu_47_is_the_mask_of_the_source_document() {
        assert_eq!(CpuSet::single(47).to_mask(), "8000,00000000");
        assert_eq!(CpuSet::single(7).to_mask(), "80");
        assert_eq!(CpuSet::parse_mask("0x80").unwrap(), CpuSet::single(7));
        assert_eq!(CpuSet::parse_mask("00000000,00000000").unwrap(), CpuSet::new());
        for text in ["", "0x", "g", "1,", "123456789,0", "-1"] {
            assert!(CpuSet::parse_mask(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn list_and_mask_round_trip_for_any_set(cpus in prop::collection::btree_set(0usize..4096, 0..64)) {
            let set: CpuSet = cpus.iter().copied().collect();
            prop_assert_eq!(&set.to_string().parse::<CpuSet>().unwrap(), &set);
            prop_assert_eq!(&CpuSet::parse_mask(&set.to_mask()).unwrap(), &set);
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), cpus.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn no_text_makes_the_parsers_panic(text in ".{0,40}") {
            let _ = CpuSet::parse_list(&text, Some(7));
            let _ = CpuSet::parse_mask(&text);
        }

        #[test]
        fn set_algebra_agrees_with_btreeset(
            a in prop::collection::btree_set(0usize..200, 0..40),
            b in prop::collection::btree_set(0usize..200, 0..40),
        ) {
            let (x, y): (CpuSet, CpuSet) = (a.iter().copied().collect(), b.iter().copied().collect());
            prop_assert_eq!(x.union(&y), a.union(&b).copied().collect());
            prop_assert_eq!(x.intersection(&y), a.intersection(&b).copied().collect());
            prop_assert_eq!(x.difference(&y), a.difference(&b).copied().collect());
            prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
        }
    }
}
