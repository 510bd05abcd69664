//! Policy files: never a panic; every error names its line.
#![no_main]

use cpushield::policy::{PolicyFile, parse_span};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = PolicyFile::parse(text, "policy.toml");
    let _ = parse_span(text);
});
