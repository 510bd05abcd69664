//! Journals: never a panic. tests/recorded/roundtrip/ tests what a foreign journal must never cause.
#![no_main]

use cpushield::apply::journal::ApplyJournal;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = ApplyJournal::parse(bytes);
});
