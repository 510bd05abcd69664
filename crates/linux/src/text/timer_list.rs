//! `/proc/timer_list` (`print_cpu()`, kernel/time/timer_list.c, 6.12): the high-resolution timers
//! armed on each CPU. It does not contain the timers of the timer wheel, and so no delayed work.

use std::collections::BTreeMap;

/// The number of timers by function.
pub type TimerFunctions = BTreeMap<String, usize>;

/// Parses the whole file: the functions of the armed timers by CPU. Lines without a timer are
/// skipped. A function whose name the kernel hides (`<0000000011223344>`) is counted as that.
#[must_use]
pub fn parse(text: &str) -> BTreeMap<usize, TimerFunctions> {
    let mut found: BTreeMap<usize, TimerFunctions> = BTreeMap::new();
    let mut cpu = None;
    for line in text.lines() {
        if let Some(number) = line.strip_prefix("cpu: ") {
            cpu = number.trim().parse().ok();
            if let Some(cpu) = cpu {
                found.entry(cpu).or_default();
            }
        } else if line.starts_with("Tick Device") {
            cpu = None;
        } else if let (Some(cpu), Some(function)) = (cpu, timer_function(line)) {
            *found.entry(cpu).or_default().entry(function.to_owned()).or_default() += 1;
        }
    }
    found
}

/// The function in ` #0: <00000000f38a3264>, tick_nohz_handler, S:01`; up to 4.10 the line ends
/// with the task that armed the timer.
fn timer_function(line: &str) -> Option<&str> {
    let (number, rest) = line.trim_start().strip_prefix('#')?.split_once(": ")?;
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mut words = rest.split(", ");
    let (function, state) = (words.nth(1)?, words.next()?);
    (state.starts_with("S:") && !function.is_empty()).then_some(function)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Linux 6.18, x86-64, shortened.
    const NEW: &str = "Timer List Version: v0.10
HRTIMER_MAX_CLOCK_BASES: 8
now at 4573838849256 nsecs

cpu: 0
 clock 0:
  .base:       00000000f2aea546
  .index:      0
active timers:
 #0: <00000000f38a3264>, tick_nohz_handler, S:01
 # expires at 4573840000000-4573840000000 nsecs [in 1150744 to 1150744 nsecs]
 #1: <00000000c494c907>, hrtimer_wakeup, S:01
 # expires at 4573845584569-4573845634569 nsecs [in 6735313 to 6785313 nsecs]
 #2: <00000000114ecb83>, hrtimer_wakeup, S:01
 # expires at 4573888786967-4573888980966 nsecs [in 49937711 to 50131710 nsecs]
 clock 1:
active timers:
 #0: <00000000d31c6c33>, dl_task_timer, S:01
 # expires at 4574745564542-4574745564542 nsecs [in 906715286 to 906715286 nsecs]
  .expires_next   : 4573840000000 nsecs
jiffies: 4299240000

cpu: 1
 clock 0:
active timers:

Tick Device: mode:     1
Per CPU device: 0
Clock Event Device: lapic-deadline
 event_handler:  hrtimer_interrupt
";

    /// Linux 4.4, with CONFIG_TIMER_STATS.
    const OLD: &str = "cpu: 2
active timers:
 #0: <ffff88021fc93e20>, tick_sched_timer, S:01, hrtimer_start_range_ns, swapper/2/0
 # expires at 100-100 nsecs [in 1 to 1 nsecs]
";

    #[test]
    fn armed_timers_are_counted_by_cpu_and_function() {
        let functions = |pairs: &[(&str, usize)]| -> TimerFunctions {
            pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        let cpu0 =
            functions(&[("dl_task_timer", 1), ("hrtimer_wakeup", 2), ("tick_nohz_handler", 1)]);
        assert_eq!(parse(NEW), [(0, cpu0), (1, functions(&[]))].into());
        assert_eq!(parse(OLD), [(2, functions(&[("tick_sched_timer", 1)]))].into());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[cpu:# 0-9,S<>a-z\n]{0,200}") {
            let _ = parse(&text);
            let _ = parse(&format!("cpu: 3\n #0: <1>, {text}"));
        }
    }
}
