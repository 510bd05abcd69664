//! CPU lists and masks: never a panic, and what was read prints as something that reads the same.
#![no_main]

use cpushield_linux::CpuSet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(cpus) = CpuSet::parse_list(text, Some(63)) {
        assert_eq!(cpus.to_string().parse::<CpuSet>().as_ref(), Ok(&cpus));
    }
    if let Ok(cpus) = CpuSet::parse_mask(text) {
        assert_eq!(CpuSet::parse_mask(&cpus.to_mask()).as_ref(), Ok(&cpus));
    }
});
