//! Requests of operators, which any user may send: never a panic, and what is accepted reads back.
#![no_main]

use cpushield::run::OperatorRequest;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = OperatorRequest::parse(bytes) {
        let line = request.line();
        assert_eq!(OperatorRequest::parse(line.trim_end().as_bytes()), Ok(request));
    }
});
