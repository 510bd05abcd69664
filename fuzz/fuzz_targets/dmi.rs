//! The SMBIOS table, which the firmware writes.

#![no_main]

use cpushield_linux::text::dmi;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let modules = dmi::memory_modules(bytes);
    assert_eq!(dmi::memory_modules(&dmi::without_strings(bytes)), modules);
});
