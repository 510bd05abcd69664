//! The version of a kernel, as far as facts about kernels depend on it: `6.12` for
//! `6.12.48-rt-amd64`.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Major and minor version of a kernel; in documents, an array of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "(u32, u32)", into = "(u32, u32)")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub struct KernelVersion {
    /// `6` in `6.12`.
    pub major: u32,
    /// `12` in `6.12`.
    pub minor: u32,
}

impl KernelVersion {
    /// Creates a version.
    #[must_use]
    pub const fn new(major: u32, minor: u32) -> KernelVersion {
        KernelVersion { major, minor }
    }

    /// Parses the version in a release: `6.12.48-rt-amd64` → 6.12; `None` if it does not start with
    /// two numbers.
    #[must_use]
    pub fn from_release(release: &str) -> Option<KernelVersion> {
        let mut numbers = release.splitn(3, |c: char| !c.is_ascii_digit());
        Some(KernelVersion::new(numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }
}

/// Words of a release that say nothing about patches: stages, architectures, real-time patches.
const NEUTRAL_WORDS: &[&str] = &[
    "rc", "rt", "rtai", "xenomai", "xeno", "evl", "ipipe", "dovetail", "x", "amd", "i", "pae",
    "smp", "arm", "aarch", "armmp", "riscv",
];

/// Whether a release may be a vendor's build, with parameters that mainline has in other versions:
/// `4.18.0-553.el8.x86_64` may be one, `2.6.32-122-rtai` is none. A release without a version may
/// be one too.
#[must_use]
pub fn may_be_vendor_build(release: &str) -> bool {
    if KernelVersion::from_release(release).is_none() {
        return true;
    }
    let mut words = release.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| {
        let word = word.trim_matches(|c: char| c.is_ascii_digit());
        !word.is_empty() && !NEUTRAL_WORDS.contains(&word)
    })
}

impl From<(u32, u32)> for KernelVersion {
    fn from((major, minor): (u32, u32)) -> KernelVersion {
        KernelVersion { major, minor }
    }
}

impl From<KernelVersion> for (u32, u32) {
    fn from(version: KernelVersion) -> (u32, u32) {
        (version.major, version.minor)
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_release_is_its_first_two_numbers() {
        let version =
            |release| KernelVersion::from_release(release).map(|version| version.to_string());
        assert_eq!(version("6.12.48-rt-amd64").as_deref(), Some("6.12"));
        assert_eq!(version("2.6.32-122-rtai").as_deref(), Some("2.6"));
        assert_eq!(version("7.0-rc1").as_deref(), Some("7.0"));
        assert_eq!(version("generic"), None);
        assert!(KernelVersion::new(5, 4) < KernelVersion::new(5, 18));
    }

    #[test]
    fn a_release_with_a_word_of_a_distribution_may_be_a_vendor_build() {
        let vendor = ["4.18.0-553.el8.x86_64", "5.15.0-91-generic", "6.17.4-arch1-1", "linux-rt"];
        let vendor = vendor.into_iter().chain(["6.6.51+rpt-rpi-v8", "5.15.148-rt-tegra"]);
        for release in vendor {
            assert!(may_be_vendor_build(release), "{release}");
        }
        for release in
            ["2.6.32-122-rtai", "3.4-9-rtai-686-pae", "6.12.9-rt-amd64", "7.0-rc1", "3.10.0"]
        {
            assert!(!may_be_vendor_build(release), "{release}");
        }
    }
}
