//! Policy files: never a panic; every error names its line.
#![no_main]

use cpushield::policy::{Policy, parse_span};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = Policy::parse(text, "policy.toml");
    let _ = parse_span(text);
});
