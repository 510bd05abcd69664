//! What holds of the command line as a whole.

use super::*;
use clap::CommandFactory;
use std::path::Path;

#[test]
fn every_subcommand_says_more_in_its_long_help_than_in_the_list() {
    for sub in Cli::command().get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let (name, about) = (sub.get_name(), sub.get_about().unwrap().to_string());
        let long = sub.get_long_about().map(ToString::to_string).unwrap_or_default();
        let rest = long.strip_prefix(&format!("{about}\n\n")).unwrap_or_default();
        assert!(rest.ends_with('.'), "{name}: {long:?}");
    }
}

#[test]
fn a_directory_that_is_no_machine_is_refused_and_the_one_below_it_named() {
    let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("machines");
    let at = |root: PathBuf| {
        Global { json: false, quiet: false, root: Some(root), state: PathBuf::new() }.host()
    };
    assert!(at(machines.join("6.1-rt-v1/root")).is_ok());
    let near = at(machines.join("6.1-rt-v1")).unwrap_err();
    assert!(near.hints.concat().ends_with("6.1-rt-v1/root"), "{near:?}");
    let far = at(machines).unwrap_err();
    assert!(far.hints.concat().contains("survey --record"), "{far:?}");
}
