//! What `survey`, `boot`, `explain` and `mask` print, and errors.

use super::{SchemaValidator, printed, printed_on_each as each};
use serde_json::Value;

pub fn check_machines(validator: &mut SchemaValidator) -> Result<(), String> {
    validator.check_schema("survey.schema.json", each(&["survey"]), "/kernel/release");
    validator.check_schema("lint.schema.json", each(&["survey", "--lint"]), "/cmdline");
    // Some recordings have no boot loader for a plan, and their document is an error.
    let (plans, errors): (Vec<Value>, Vec<Value>) =
        each(&["boot", "plan"]).into_iter().partition(|document| document["error"].is_null());
    assert!(!plans.is_empty(), "{errors:?}");
    validator.check_schema("boot-plan.schema.json", plans, "/rule");
    validator.check_schema("boot-status.schema.json", each(&["boot", "status"]), "/running");
    Ok(())
}

pub fn check_pages(validator: &mut SchemaValidator) -> Result<(), String> {
    let pages = ["tick", "thp", "nohz-full", "latency-timer", "load-disk", "policy", "eth0"];
    let pages = pages.map(|name| printed(&["explain", name]));
    let masks = vec![printed(&["mask", "0-3,8", "0x80"]), printed(&["mask", "0x0"])];
    assert_eq!(masks[0]["sets"].as_array().map(Vec::len), Some(2), "{}", masks[0]);
    validator.check_schema("mask.schema.json", masks, "/sets/0/hex");
    let (errors, pages): (Vec<Value>, Vec<Value>) =
        pages.into_iter().partition(|page| page["name"].is_null());
    validator.check_schema("explain.schema.json", pages, "/schema");
    validator.check_schema("explain-list.schema.json", vec![printed(&["explain"])], "/schema");
    let errors = errors.into_iter().chain([printed(&["mask", "x"]), printed(&["bogus"])]);
    validator.check_schema("error.schema.json", errors.collect(), "/error/hints");
    Ok(())
}
