//! Journals: never a panic. tests/roundtrip/ tests what a foreign journal must never cause.
#![no_main]

use cpushield::apply::journal::Journal;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = Journal::parse(bytes);
});
