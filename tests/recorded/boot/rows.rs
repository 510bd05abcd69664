//! `boot apply --from`: the parameters of a row that an experiment has measured.

use super::grub::Machine;
use super::words;
use cpushield::boot::plan::plan;
use cpushield::boot::write::{self, WriteMode};
use cpushield::boot::{
    BootError, BootPlan, GivenWords, MeasuredRow, UnknownWords, WordSource, earlier, loaders,
};
use cpushield::policy::RequestedParameter;
use cpushield::report::blocks::{terminal_blocks, unpainted};
use cpushield::report::boot_plan_blocks;
use cpushield::survey::survey;

fn make_row(parameters: &[&str], kernels: &str) -> GivenWords {
    let place = "row \"best\" of lathe.json".to_owned();
    let (name, file) = ("best".to_owned(), "lathe.json".to_owned());
    GivenWords {
        parameters: parameters
            .iter()
            .map(|&word| RequestedParameter { word: word.to_owned(), place: place.clone() })
            .collect(),
        kernels: kernels.to_owned(),
        unknown: UnknownWords::Accept,
        cpus: "2-3".parse().unwrap(),
        row: Some(MeasuredRow { name, file, missing: None }),
    }
}

fn plan_row(machine: &Machine, row: &GivenWords) -> Result<BootPlan, BootError> {
    let host = machine.host();
    let menu = earlier::find_menu(&host, &machine.store()).unwrap();
    plan(&host, &survey(&host, &[]), WordSource::Given(row), menu.as_ref())
}

#[test]
fn the_kernel_that_was_measured_gets_exactly_the_words_of_the_row() {
    let machine = Machine::debian();
    let before = machine.files();
    let row = make_row(&["nohz_full=2-3", "vendor_word=1", "nohlt"], "6.12.9-amd64");
    let plan = plan_row(&machine, &row).unwrap();
    assert_eq!(words(&plan), ["nohz_full=2-3", "vendor_word=1", "nohlt"]);
    assert_eq!(plan.skipped, []);
    let text = terminal_blocks(&boot_plan_blocks(&plan), 200, &unpainted);
    let why = "row \"best\" of lathe.json was measured with these parameters";
    assert!(text.contains(why) && text.contains("+ nohz_full=2-3 vendor_word=1 nohlt"), "{text}");
    let written =
        write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    assert_eq!(written.kernels, ["6.12.9-amd64"]);
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    let with = |it: &&loaders::LoaderEntry| it.args.contains("nohz_full=2-3 vendor_word=1 nohlt");
    let ours: Vec<&str> = found.entries.iter().filter(with).map(|it| it.version.as_str()).collect();
    assert_eq!(ours, ["6.12.9-amd64"]);
    // Another row replaces it.
    let other = plan_row(&machine, &make_row(&["nohz_full=3"], "6.12.9-amd64")).unwrap();
    assert_eq!(other.entries[0].removed, ["nohz_full=2-3", "vendor_word=1", "nohlt"]);
    write::write(&machine.host(), &machine.store(), &other, &WriteMode::default()).unwrap();
    write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
    assert_eq!(before, machine.files());
}

#[test]
fn words_and_kernels_that_do_not_fit_are_refused_with_their_place() {
    let machine = Machine::debian();
    let before = machine.files();
    let refused = |parameters: &[&str], kernels: &str| {
        plan_row(&machine, &make_row(parameters, kernels)).unwrap_err().to_string()
    };
    let place = "row \"best\" of lathe.json: ";
    for (word, why) in [
        ("a b", "\"a b\" is not a single word"),
        ("nohz_full=3-2", "\"nohz_full=3-2\" does not name CPUs"),
        ("isolcpus=domain", "\"isolcpus=domain\" does not name CPUs"),
    ] {
        let error = refused(&[word], "*");
        assert!(error.starts_with(&format!("{place}{why}")), "{error}");
    }
    assert!(refused(&["a=1", "a=2"], "*").contains("contradicts a=1"));
    let error = refused(&["nohz_full=2"], "5.15.0");
    assert!(
        error.contains("matches 5.15.0; the menu has 6.12.9-rt-amd64, 6.12.9-amd64"),
        "{error}"
    );
    assert!(refused(&["nohz_full=2-9"], "*").contains("names CPU 4-9, but the last CPU is 3"));
    assert_eq!(before, machine.files());
}

#[test]
fn a_row_that_was_not_measured_completely_is_a_warning() {
    let machine = Machine::debian();
    let missing = Some("the boot failed".to_owned());
    let mut row = make_row(&["nohz_full=2-3"], "*-rt-*");
    row.row.as_mut().unwrap().missing = missing;
    let plan = plan_row(&machine, &row).unwrap();
    let said: Vec<String> = plan.warnings.iter().map(ToString::to_string).collect();
    let wanted = "row \"best\" was not measured completely: the boot failed".to_owned();
    assert!(said.contains(&wanted), "{said:?}");
}
