//! Plans from disk: never a panic; what is accepted is the same when it is saved and read again.
#![no_main]

use cpushield::change::Change;
use cpushield::plan::Plan;
use cpushield::tunables;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(plan) = Plan::parse(text, "plan.json") {
        let saved = serde_json::to_string(&plan).unwrap();
        assert_eq!(Plan::parse(&saved, "plan.json").unwrap(), plan);
        let known = tunables::reads();
        for step in &plan.steps {
            // Under sysctl, tunables write only what the survey reads for them.
            if let Change::Write { path, .. } = &step.change {
                assert!(
                    !path.starts_with("/proc/sys/") || known.contains(&path.as_str()),
                    "{path}"
                );
            }
        }
    }
});
