//! Tests of the command line as a whole.

use super::*;
use crate::workflow::shield_options::ShieldOptions;

#[test]
fn the_long_help_of_every_subcommand_adds_to_its_summary() {
    for sub in Cli::command().get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let (name, about) = (sub.get_name(), sub.get_about().unwrap().to_string());
        let long = sub.get_long_about().map(ToString::to_string).unwrap_or_default();
        let rest = long.strip_prefix(&format!("{about}\n\n")).unwrap_or_default();
        assert!(rest.ends_with('.'), "{name}: {long:?}");
    }
}

#[test]
fn the_readme_and_the_version_name_the_only_architecture() {
    let readme = include_str!("../../README.md");
    assert!(readme.contains("x86_64 only, so far"));
    let version = Cli::command().render_long_version();
    assert!(version.ends_with("for Linux on x86_64 only, so far\n"), "{version}");
}

#[test]
fn subcommands_are_listed_in_the_order_of_the_readme() {
    let readme = include_str!("../../README.md");
    let command = Cli::command();
    let chain = readme.lines().find(|line| line.trim().starts_with("survey → ")).unwrap().trim();
    let about = command.get_long_about().unwrap().to_string();
    assert!(about.contains(&format!("\n{chain}. ")), "{about}");
    let (_, tour) = readme.split_once("## A tour").unwrap();
    let words = tour.lines().filter_map(|line| line.strip_prefix("cpushield "));
    let mut toured: Vec<&str> = words.filter_map(|rest| rest.split(' ').next()).collect();
    toured.dedup();
    let end = 1 + toured.iter().position(|name| *name == "undo").unwrap();
    toured.truncate(end);
    let listed: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    let listed: Vec<&str> = listed.into_iter().filter(|name| toured.contains(name)).collect();
    assert_eq!(listed, toured);
    assert!(toured.len() >= 9, "{toured:?}");
}

/// The long options of a subcommand by heading, in the order of its help.
fn options(sub: &clap::Command) -> Vec<(&str, Vec<&str>)> {
    // Those without a heading come first.
    let mut found = vec![("Options", Vec::new())];
    for arg in sub.get_arguments().filter(|arg| !arg.is_hide_set()) {
        let Some(long) = arg.get_long() else { continue };
        let heading = arg.get_help_heading().unwrap_or("Options");
        match found.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, names)) => names.push(long),
            None => found.push((heading, vec![long])),
        }
    }
    found
}

#[test]
fn each_option_is_under_its_heading_and_global_options_come_last() {
    let names = |command: clap::Command| -> Vec<String> {
        command.get_arguments().filter_map(|arg| Some(arg.get_long()?.to_owned())).collect()
    };
    let shield = names(ShieldOptions::augment_args(clap::Command::default()));
    let global = names(GlobalArgs::augment_args(clap::Command::default()));
    assert!(shield.len() > 10 && global.len() > 4);
    let mut command = Cli::command();
    command.build();
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        if sub.get_name() == "help" {
            continue;
        }
        let found = options(sub);
        let under = |heading: &str| {
            let names = found.iter().find(|(name, _)| *name == heading);
            names.map(|(_, names)| names.clone()).unwrap_or_default()
        };
        let takes_request = ["try", "plan", "apply", "enable"].contains(&sub.get_name());
        assert_eq!(under("The shield"), if takes_request { shield.clone() } else { Vec::new() });
        let active: &[&str] = if ACTIVE.contains(&sub.get_name()) { &["shield"] } else { &[] };
        assert_eq!(under("The active shield"), active, "{}", sub.get_name());
        let (heading, last) = found.last().unwrap();
        assert_eq!((*heading, last == &global), ("Options of every subcommand", true), "{last:?}");
    }
    let apply = command.find_subcommand("apply").unwrap();
    assert_eq!(
        options(apply)[0],
        ("Options", vec!["all", "dry-run", "move-programs", "disturb", "help", "version"])
    );
}

/// Subcommands that look at the active shield or change it.
const ACTIVE: [&str; 9] =
    ["run", "add", "remove", "status", "verify", "latency", "watch", "report", "undo"];

/// Every subcommand that the help shows, with its name (`boot plan`).
fn all_subcommands(command: &clap::Command, parent: &str) -> Vec<(String, clap::Command)> {
    let mut found = Vec::new();
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let name = format!("{parent}{}", sub.get_name());
        found.extend(all_subcommands(sub, &format!("{name} ")));
        found.push((name, sub.clone()));
    }
    found
}

#[test]
fn every_subcommand_has_examples_that_parse_and_exit_codes() {
    let all = all_subcommands(&Cli::command(), "");
    assert!(all.iter().any(|(name, _)| name == "boot status"));
    for (name, _) in all {
        let HelpTail { examples, exit_codes } = help_tail(&name);
        assert!(!examples.is_empty(), "{name} has no examples");
        for (example, _) in examples.iter().filter(|(line, _)| line.starts_with("cpushield")) {
            let plain = example.replace("$(pidof control)", "42").replace('\'', "");
            let words = plain.split_whitespace().take_while(|word| *word != ">");
            let parsed = command().try_get_matches_from(words);
            assert!(parsed.is_ok(), "{example}: {parsed:?}");
            assert!(plain.starts_with(&format!("cpushield {name}")), "{name}: {example}");
        }
        assert!(!exit_codes.is_empty(), "{name} has no exit codes");
    }
}

#[test]
fn a_negative_number_or_time_is_refused_by_its_own_parser() {
    for line in [
        "verify --for -5s",
        "verify --max-entries -1",
        "verify --cpus -1",
        "boot apply --trial --within -1m",
        "experiment m.toml --minimize --max -20us",
        "latency timer --fifo -1",
        "run --deadline -1ms/2ms -- true",
        "remove -4711",
    ] {
        let words = ["cpushield"].into_iter().chain(line.split(' '));
        let error = command().try_get_matches_from(words).unwrap_err();
        assert_eq!(error.kind(), clap::error::ErrorKind::ValueValidation, "{line}: {error}");
    }
}

/// What `--help` of a subcommand shows, such as of `boot plan`.
fn help_of(name: &str) -> String {
    let mut command = command();
    let sub = name.split(' ').fold(&mut command, |it, word| it.find_subcommand_mut(word).unwrap());
    sub.render_long_help().to_string()
}

#[test]
fn every_time_is_a_number_with_a_unit_and_the_help_says_so_once() {
    for (name, sub) in all_subcommands(&Cli::command(), "") {
        let is_time = |arg: &&clap::Arg| {
            let names = arg.get_value_names().unwrap_or_default();
            names.iter().any(|name| name == "TIME")
        };
        let times: Vec<_> = sub.get_arguments().filter(is_time).collect();
        let explained = help_of(&name).contains("\nTimes:\n");
        assert_eq!(explained, !times.is_empty(), "{name}");
        // A goal is only for a search, a deadline only for a trial, and the time before a breach
        // only for a watch that it ends.
        let needed = match name.as_str() {
            "experiment" => &["m.toml", "--minimize"][..],
            "boot apply" => &["--trial"],
            "verify" => &["--stop-on-breach"],
            _ => &[],
        };
        for flag in times.iter().filter_map(|arg| arg.get_long()) {
            // `try` watches for at most 10 minutes.
            let spans = if name == "try" { &["10m"][..] } else { &["10m", "1h", "1d"] };
            for span in spans {
                let given = format!("--{flag}={span}");
                let line = ["cpushield"].into_iter().chain(name.split(' '));
                let line = line.chain([given.as_str()]).chain(needed.iter().copied());
                assert!(Cli::try_parse_from(line).is_ok(), "{name} {given}");
            }
            for wrong in ["10", "10x", "m", "", "-1m"] {
                let given = format!("--{flag}={wrong}");
                let line = ["cpushield"].into_iter().chain(name.split(' '));
                let line = line.chain([given.as_str()]).chain(needed.iter().copied());
                assert!(Cli::try_parse_from(line).is_err(), "{name} {given}");
            }
        }
    }
}

#[test]
fn the_help_of_a_priority_states_the_accepted_range() {
    for (sub, rest, flags) in [
        ("run", &["--", "true"][..], &["fifo", "rr", "own-priority"][..]),
        ("latency", &["timer"], &["fifo"]),
    ] {
        let command = Cli::command();
        let command = command.find_subcommand(sub).unwrap();
        for flag in flags {
            let accepted = |priority: u32| {
                let flag = format!("--{flag}={priority}");
                let line = [&["cpushield", sub, &flag][..], rest].concat();
                Cli::try_parse_from(line).is_ok()
            };
            let most = (1..200).rev().find(|priority| accepted(*priority)).unwrap();
            assert!(!accepted(0) && (1..=most).all(accepted), "{sub} --{flag}");
            let arg = command.get_arguments().find(|arg| arg.get_long() == Some(flag)).unwrap();
            let help = arg.get_help().unwrap().to_string();
            assert!(help.contains(&format!("1 to {most}")), "{sub} --{flag}: {help}");
            let lowered = crate::run::PRIORITY_MAX < most;
            assert_eq!(help.contains("99 becomes 98"), lowered, "{sub} --{flag}: {help}");
        }
    }
}

#[test]
fn an_option_of_a_new_experiment_with_one_of_a_run_is_a_conflict_and_not_a_missing_file() {
    for run in ["--status", "--resume", "--stop"] {
        for new in ["--dry-run", "--reboot", "--output=x.json", "x.toml"] {
            for line in [[run, new], [new, run]] {
                let line = ["cpushield", "experiment"].into_iter().chain(line);
                let error = Cli::try_parse_from(line).unwrap_err().to_string();
                assert!(error.contains("cannot be used with"), "{run} {new}: {error}");
            }
        }
    }
}

#[test]
fn the_values_of_options_are_not_taken_for_the_subcommand() {
    let mut lines = vec![
        ("run --bad", true),
        ("--quiet run --bad", true),
        ("--log=a.log run --bad", true),
        ("status --bad run", false),
        ("--state run status --bad", false),
        ("--bad", false),
    ];
    let global = GlobalArgs::augment_args(clap::Command::default());
    let with_value = global.get_arguments().filter(|arg| arg.get_action().takes_values());
    let with_value: Vec<String> =
        with_value.map(|arg| format!("--{} FILE run --bad", arg.get_long().unwrap())).collect();
    assert!(with_value.len() >= 3, "{with_value:?}");
    lines.extend(with_value.iter().map(|line| (line.as_str(), true)));
    for (line, expected) in lines {
        let args = ["cpushield"].into_iter().chain(line.split(' ')).map(OsString::from);
        assert_eq!(is_run(&args.collect::<Vec<_>>()), expected, "{line}");
    }
}

#[test]
fn a_dry_run_shows_a_trial_too() {
    let line = "cpushield boot apply --dry-run --trial --until login --within 10m --kexec";
    Cli::try_parse_from(line.split(' ')).unwrap();
}

#[test]
fn standard_output_is_no_file_of_a_measurement() {
    for line in [
        "latency timer -o -",
        "latency timer --histogram -",
        "latency timer --hdr=-",
        "verify -o -",
        "verify --trace-dat -",
        "verify --perfetto -",
        "experiment m.toml -o -",
    ] {
        let words = ["cpushield"].into_iter().chain(line.split(' '));
        let error = command().try_get_matches_from(words).unwrap_err();
        assert_eq!(error.kind(), clap::error::ErrorKind::ValueValidation, "{line}: {error}");
    }
    for line in ["plan -o -", "report -o -", "latency timer -o a.json"] {
        let words = ["cpushield"].into_iter().chain(line.split(' '));
        assert!(command().try_get_matches_from(words).is_ok(), "{line}");
    }
}
