//! A compressed configuration: never a panic, never more memory than the limit.
#![no_main]

use cpushield_linux::text::gzip;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = gzip::unpack(bytes);
});
