//! The budget of a program under `SCHED_DEADLINE`, as a user writes it. Pure.

use crate::policy::parse_span;
use cpushield_linux::SchedPolicy;

/// Parses `RUNTIME/DEADLINE/PERIOD`, or `RUNTIME/PERIOD` with the period as the deadline.
///
/// # Errors
/// A part is not a time with a unit, or there are not two or three of them.
pub fn parse_deadline(text: &str) -> Result<SchedPolicy, String> {
    let times = text.split('/').map(parse_span).collect::<Result<Vec<u64>, String>>()?;
    let (runtime_ns, deadline_ns, period_ns) = match times.as_slice() {
        [runtime, period] => (*runtime, *period, *period),
        [runtime, deadline, period] => (*runtime, *deadline, *period),
        _ => return Err("expected RUNTIME/DEADLINE/PERIOD, for example 300us/1ms/1ms".to_owned()),
    };
    Ok(SchedPolicy::Deadline { runtime_ns, deadline_ns, period_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_need_units_and_two_or_three_times() {
        let budget = parse_deadline("300us/1ms/2ms").unwrap();
        let (runtime_ns, deadline_ns, period_ns) = (300_000, 1_000_000, 2_000_000);
        assert_eq!(budget, SchedPolicy::Deadline { runtime_ns, deadline_ns, period_ns });
        assert_eq!(parse_deadline("0.3ms/1000us/0.002s").unwrap(), budget);
        assert_eq!(parse_deadline("1s/1min").unwrap(), parse_deadline("1s/60s").unwrap());
        assert_eq!(parse_deadline("1ms/4ms").unwrap(), parse_deadline("1ms/4ms/4ms").unwrap());
        for wrong in ["1/2/3", "1ms", "1ms/2ms/3ms/4ms", "ms/ms", "99999999999999999999s/1s", ""] {
            assert!(parse_deadline(wrong).is_err(), "{wrong}");
        }
    }
}
