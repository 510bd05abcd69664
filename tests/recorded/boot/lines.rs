//! The command line that a plan would make is judged before anything is written: words that the
//! kernel would ignore are refused with their place, and the others are warnings.

use super::grub::Machine;
use super::make_plan;
use cpushield::boot::plan::BootRequest;
use cpushield::boot::{self, BootError, BootPlan, GivenWords, WordSource, loaders};
use cpushield::failure::{Failure, FailureKind};
use cpushield::policy::RequestedParameter;
use cpushield::survey::survey;
use cpushield_linux::Host;

/// A plan with parameters of the user, without the parameters of the catalogue that are off.
fn plan(machine: &Machine, off: &[&str], own: &[&str]) -> Result<BootPlan, BootError> {
    let mut request = BootRequest::default();
    request.shield.tunables = off.iter().map(|name| ((*name).to_owned(), false)).collect();
    request.shield.parameters = own
        .iter()
        .map(|word| RequestedParameter {
            word: (*word).to_owned(),
            place: "--parameter".to_owned(),
        })
        .collect();
    make_plan(&machine.host(), &request)
}

const LISTS: &[&str] = &["nohz-full", "rcu-nocbs"];

/// Parameters of the catalogue that are off, words of the user, and what is wrong with them on a
/// machine with CPUs 0 to 3.
const DEFEATED: &[(&[&str], &[&str], &str)] = &[
    (&[], &["irqaffinity=9"], "irqaffinity=9 names CPU 9, but the last CPU is 3"),
    (&[], &["workqueue.unbound_cpus=9"], "workqueue.unbound_cpus=9 names CPU 9, but the last"),
    (&["rcu-nocbs"], &["rcu_nocbs=2-9"], "rcu_nocbs=2-9 names CPU 4-9, but the last CPU is 3"),
    (&[], &["nohz=off"], "nohz=off keeps the tick on every CPU, so nohz_full=1-3 cannot stop it"),
    (&[], &["isolcpus=0-3"], "isolcpus=0-3 leaves no online CPU for housekeeping"),
    (LISTS, &["nohz_full=0-3"], "nohz_full=0-3 leaves no online CPU for housekeeping"),
    (&[], &["nr_cpus=2"], "with nr_cpus=2, the kernel starts only CPU 0-1: it does not"),
    (&[], &["maxcpus=1"], "with maxcpus=1, the kernel starts only CPU 0: it does not"),
    (&[], &["nosmp"], "with nosmp, the kernel starts only CPU 0: it does not start"),
    (&[], &["nowatchdog", "nmi_watchdog=1"], "nmi_watchdog=1 has no effect: nowatchdog switches"),
];

#[test]
fn words_that_the_kernel_would_ignore_are_refused_with_word_and_entry() {
    let machine = Machine::debian();
    let before = machine.files();
    for (off, own, fault) in DEFEATED {
        let failure = Failure::from(plan(&machine, off, own).unwrap_err());
        let text = failure.to_string();
        assert_eq!(failure.kind, FailureKind::Usage, "{text}");
        let word = own.last().unwrap();
        assert!(text.contains(&format!("kernel 6.12.9-rt-amd64: {fault}")), "{own:?}: {text}");
        let named = format!("\n  word:  {word} (requested: --parameter)\n");
        assert!(text.contains(&named), "{own:?}: {text}");
        assert!(text.contains("\n  file:  /boot/grub/grub.cfg:"), "{own:?}: {text}");
    }
    assert_eq!(before, machine.files());
}

#[test]
fn without_a_menu_the_words_are_judged_by_themselves() {
    let machine = Machine::without_loader();
    for (off, own, fault) in DEFEATED {
        let text = plan(&machine, off, own).unwrap_err().to_string();
        assert!(text.contains(fault) && !text.contains("file:"), "{own:?}: {text}");
    }
    // A word of the running kernel is to be removed first.
    machine.write("proc/cmdline", "ro nohz=off\n");
    let steps = plan(&machine, &[], &[]).unwrap().instructions.join("\n");
    let first = "first: remove nohz=off; otherwise nohz=off keeps the tick on every CPU, so \
                 nohz_full=1-3 cannot stop it";
    assert!(steps.contains(first), "{steps}");
}

#[test]
fn a_word_of_the_entry_that_defeats_the_plan_is_named_with_its_file() {
    let machine = Machine::debian();
    machine.write("etc/default/grub", "\nGRUB_CMDLINE_LINUX=\"nohz=off maxcpus=1\"\n");
    machine.update_grub();
    let text = plan(&machine, &[], &[]).unwrap_err().to_string();
    assert!(text.contains("nohz=off keeps the tick on every CPU"), "{text}");
    assert!(text.ends_with("\n  file:  /etc/default/grub:2"), "{text}");
    // What is wrong already is not the fault of the words.
    let unrelated = plan(&machine, LISTS, &["nohlt"]).unwrap();
    assert_eq!(unrelated.warnings, []);
}

#[test]
fn words_that_only_do_not_help_are_warnings() {
    let machine = Machine::debian();
    for (own, warning) in [
        (
            &["irqaffinity=2-3"][..],
            "kernel 6.12.9-rt-amd64: irqaffinity=2-3 sends interrupts only to CPU 2-3 and the \
             boot CPU, but nohz_full=1-3 is meant to stop the tick on CPU 2-3; name \
             housekeeping CPUs in irqaffinity=, or remove it",
        ),
        (
            &["isolcpus=managed_irq,1-3", "irqaffinity=0,3"],
            "kernel 6.12.9-rt-amd64: irqaffinity=0,3 sends interrupts to CPU 3, which \
             isolcpus=managed_irq,1-3 isolates; the kernel does not compare the two; remove the \
             isolated CPUs from irqaffinity=",
        ),
    ] {
        let warnings = plan(&machine, &[], own).unwrap().warnings;
        let texts: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert_eq!(texts, [warning], "{own:?}");
    }
    assert_eq!(plan(&machine, &[], &["irqaffinity=0"]).unwrap().warnings, []);
}

/// Plans words of the user's own for one kernel, by default the running one.
fn for_words(
    host: &Host,
    release: Option<&str>,
    words: &[String],
    menu: Option<&loaders::InstalledLoader>,
) -> Result<BootPlan, BootError> {
    let machine = survey(host, &[]);
    let given = GivenWords::of_row(&machine, release, words);
    boot::plan::plan(host, &machine, WordSource::Given(&given), menu)
}

/// An experiment boots words that it does not choose.
#[test]
fn words_of_an_experiment_are_judged_too() {
    let machine = Machine::debian();
    let menu = loaders::find(&machine.host()).unwrap();
    let check = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        for_words(&machine.host(), None, &words, menu.as_ref())
    };
    let error = check(&["nohz_full=2-3", "nohz=off"]).unwrap_err();
    assert!(error.to_string().contains("nohz=off keeps the tick on every CPU"), "{error}");
    assert_eq!(check(&["nohz_full=2-3", "idle=poll"]).unwrap().warnings, []);
    let overlap = check(&["nohz_full=2-3", "irqaffinity=2"]).unwrap().warnings;
    assert_eq!(overlap.len(), 1, "{overlap:?}");
}

#[test]
fn a_list_beyond_the_last_cpu_is_refused_because_the_kernel_ignores_all_of_it() {
    let machine = Machine::debian();
    let menu = loaders::find(&machine.host()).unwrap();
    for (word, beyond) in [("nohz_full=2-9", "4-9"), ("isolcpus=managed_irq,4", "4")] {
        let words = [word.to_owned()];
        let error =
            for_words(&machine.host(), None, &words, menu.as_ref()).unwrap_err().to_string();
        let why = format!("{word} names CPU {beyond}, but the last CPU is 3");
        assert!(error.contains(&why), "{error}");
    }
    // The same list on the line before is not the fault of the words.
    machine.write("etc/default/grub", "GRUB_CMDLINE_LINUX=\"isolcpus=2-9\"\n");
    machine.update_grub();
    let menu = loaders::find(&machine.host()).unwrap();
    let words = ["nohz_full=2-3".to_owned()];
    for_words(&machine.host(), None, &words, menu.as_ref()).unwrap();
}

#[test]
fn words_are_planned_for_the_kernel_that_is_asked_for() {
    let machine = Machine::debian();
    let menu = loaders::find(&machine.host()).unwrap();
    let plan = |kernel| for_words(&machine.host(), kernel, &["nohlt".to_owned()], menu.as_ref());
    for (asked, planned) in [(None, "6.12.9-rt-amd64"), (Some("6.12.9-amd64"), "6.12.9-amd64")] {
        let plan = plan(asked).unwrap();
        let chosen = plan.kernels.iter().filter(|kernel| kernel.chosen);
        assert_eq!(chosen.map(|kernel| &*kernel.version).collect::<Vec<_>>(), [planned]);
    }
    let error = plan(Some("5.4.0")).unwrap_err().to_string();
    assert!(error.contains("5.4.0") && error.contains("6.12.9-amd64"), "{error}");
    let no_menu = for_words(&machine.host(), Some("5.4.0"), &["nohlt".to_owned()], None);
    assert!(no_menu.is_err());
}
