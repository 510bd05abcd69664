//! Journals: never a panic. What a foreign journal must never lead to is tested in tests/roundtrip.rs.
#![no_main]

use cpushield::apply::journal::Journal;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = Journal::parse(bytes);
});
