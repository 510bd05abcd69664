//! Pages of the trace ring buffer with a layout that also comes from text: never a panic, and no record
//! reaches beyond its page.
#![no_main]

use cpushield_linux::trace::ring_buffer::{PageLayout, decode};
use libfuzzer_sys::fuzz_target;

/// `events/header_page` of x86-64, 6.12.
const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;
";

fuzz_target!(|bytes: &[u8]| {
    let Ok(layout) = PageLayout::parse(HEADER_PAGE) else { unreachable!("a real layout") };
    for record in decode(&layout, bytes).records() {
        assert!(record.bytes.len() <= bytes.len());
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = PageLayout::parse(text);
    }
});
