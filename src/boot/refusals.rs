//! Kernel messages that say why a parameter was not accepted, found in the boot log.

use super::line;
use cpushield_linux::text::cmdline;

/// How a message begins, and which parameters it is about, as of 6.12.
///
/// - `Housekeeping`, `isolcpus`: `housekeeping_setup()` and `housekeeping_isolcpus_setup()`,
///   kernel/sched/isolation.c.
/// - `NO_HZ`: `tick_nohz_init()`, kernel/time/tick-sched.c; not all of its messages:
///   `NO_HZ: Full dynticks CPUs: 1-3.` is no refusal.
/// - `rcu`: `rcu_nocb_setup()` and `rcu_init_nohz()`, kernel/rcu/tree_nocb.h.
/// - `workqueue`: `workqueue_unbound_cpus_setup()`, kernel/workqueue.c.
/// - `clocksource`: `__clocksource_select()`, kernel/time/clocksource.c.
const MESSAGES: [(&str, &[&str]); 8] = [
    ("Housekeeping: ", &["nohz_full", "isolcpus"]),
    ("isolcpus: ", &["isolcpus"]),
    ("NO_HZ: Can't run full dynticks", &["nohz_full"]),
    ("NO_HZ: Clearing ", &["nohz_full"]),
    ("rcu: rcu_nocbs= ", &["rcu_nocbs"]),
    ("rcu: \tNote: kernel parameter 'rcu_nocbs='", &["rcu_nocbs"]),
    ("workqueue.unbound_cpus: ", &["workqueue.unbound_cpus"]),
    ("clocksource: Override clocksource", &["clocksource"]),
];

/// Parts of a message of a series that no released kernel has (DHM, version 5 of 2026-10-02, patch
/// 1: "sched/isolation: Enforce nohz_full as a subset of isolcpus=domain at boot"). A digest of the
/// mails says that the kernel warns and disables `nohz_full=`. The wording of the message is not
/// known: these words, of the subject and the digest, are a guess.
const NO_SUBSET: &[&str] = &["nohz_full", "isolcpus", "subset", "disabl"];

/// Parameters that nothing in the kernel knows (`print_unknown_bootoptions()`, init/main.c, 6.12).
const UNKNOWN: &str = "Unknown kernel command line parameters \"";

/// The lines of the kernel's log that refuse a word or change what it means.
#[must_use]
pub fn find(log: &[String], word: &str) -> Vec<String> {
    let refusals = log.iter().filter(|line| refuses(line, word));
    refusals.map(|line| line.replace('\t', "")).collect()
}

fn refuses(line: &str, word: &str) -> bool {
    let name = line::name_of(word);
    let known = MESSAGES.iter().any(|(begin, names)| {
        line.starts_with(begin) && names.iter().any(|it| cmdline::same_name(it, name))
    });
    let disabled = ["nohz_full", "isolcpus"].iter().any(|it| cmdline::same_name(it, name))
        && NO_SUBSET.iter().all(|part| line.to_ascii_lowercase().contains(part));
    known || disabled || words_of(line).any(|it| it == word)
}

/// The words that the kernel's log lists as unknown.
pub(super) fn unknown_words(log: &[String]) -> impl Iterator<Item = &str> {
    log.iter().flat_map(|line| words_of(line))
}

/// The words in a message about unknown parameters.
fn words_of(line: &str) -> impl Iterator<Item = &str> {
    let unknown = line.strip_prefix(UNKNOWN).and_then(|rest| rest.rsplit_once('"'));
    unknown.into_iter().flat_map(|(words, _)| words.split(' '))
}

#[cfg(test)]
mod tests {
    use super::find;

    fn refusals(lines: &[&str], word: &str) -> Vec<String> {
        find(&lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>(), word)
    }

    /// Made by hand: no released kernel has the message.
    #[test]
    fn a_nohz_full_that_was_disabled_as_no_subset_of_isolcpus_is_a_refusal() {
        let disabled = "isolation: nohz_full= CPUs 1-3 are not a subset of isolcpus=domain CPUs 2, \
                        disabling nohz_full";
        let echo = "Kernel command line: nohz_full=1-3 isolcpus=2 x.disable=1";
        assert_eq!(refusals(&[echo, disabled], "nohz_full=1-3"), [disabled]);
        assert_eq!(refusals(&[echo, disabled], "isolcpus=nohz,1-3"), [disabled]);
        assert!(refusals(&[disabled], "rcu_nocbs=1-3").is_empty());
    }

    #[test]
    fn a_message_belongs_to_the_parameters_that_it_is_about() {
        let mismatch = "Housekeeping: nohz_full= must match isolcpus=";
        let nonexistent = "rcu: \tNote: kernel parameter 'rcu_nocbs=', 'nohz_full', or 'isolcpus=' \
                           contains nonexistent CPUs.";
        let unknown = "Unknown kernel command line parameters \"rcu_nocb_poll nohz_full=1-3\", \
                       will be passed to user space.";
        let echo = "Kernel command line: ro nohz_full=1-3 rcu_nocbs=1-9";
        let good = "NO_HZ: Full dynticks CPUs: 1-3.";
        let log = [echo, mismatch, good, nonexistent];
        assert_eq!(refusals(&log, "nohz_full=1-3"), [mismatch]);
        assert_eq!(refusals(&log, "isolcpus=domain,1"), [mismatch]);
        assert_eq!(refusals(&log, "rcu_nocbs=1-9"), [nonexistent.replace('\t', "")]);
        assert_eq!(refusals(&[unknown], "nohz_full=1-3"), [unknown]);
        assert_eq!(refusals(&[unknown], "rcu_nocb_poll"), [unknown]);
        for word in ["nohz_full=1", "rcu_nocb", "skew_tick=1"] {
            assert!(refusals(&[echo, good, unknown], word).is_empty(), "{word}");
        }
    }
}
