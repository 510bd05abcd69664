//! The kernel command line: never a panic, and the flags of `isolcpus=` neither.
#![no_main]

use cpushield_linux::text::cmdline;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for param in cmdline::parse(text) {
        let _ = cmdline::isolcpus(&param.name, Some(63));
    }
    let _ = cmdline::isolcpus(text, None);
});
