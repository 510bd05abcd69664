//! Event formats: never a panic.
#![no_main]

use cpushield_linux::text::trace_format::EventFormat;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = EventFormat::parse(text);
});
