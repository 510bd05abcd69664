//! Plans from disk: never a panic; what is accepted is the same when it is saved and read again.
#![no_main]

use cpushield::plan::Plan;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(plan) = Plan::parse(text, "plan.json") {
        let saved = serde_json::to_string(&plan).unwrap();
        assert_eq!(Plan::parse(&saved, "plan.json").unwrap(), plan);
    }
});
