//! The page of exit codes, from the tables that the help texts show.

use cpushield::cli::help::{EXIT_CODES, ExitCode};
use cpushield::cli::help_tail;

type ExitCodes = &'static [ExitCode];

/// The page, with a note that it is generated.
pub fn page(note: &str) -> String {
    let mut text = format!("# Exit codes\n\n{note}\n\n");
    text.push_str("The codes in general; below is what they mean for each subcommand:\n\n");
    text.push_str(&table(EXIT_CODES));
    let mut tables: Vec<(Vec<String>, ExitCodes)> = Vec::new();
    for (name, codes) in own_codes(&cpushield::cli::command(), "") {
        match tables.iter_mut().find(|(_, known)| *known == codes) {
            Some((names, _)) => names.push(name),
            None => tables.push((vec![name], codes)),
        }
    }
    for (names, codes) in tables {
        text.push_str(&format!("\n## cpushield {}\n\n{}", names.join(", "), table(codes)));
    }
    text
}

/// The subcommands below a command whose table differs from the general one.
fn own_codes(command: &clap::Command, path: &str) -> Vec<(String, ExitCodes)> {
    let mut found = Vec::new();
    for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
        let name = format!("{path}{}", child.get_name());
        let codes = help_tail(&name).exit_codes;
        if codes != EXIT_CODES {
            found.push((name.clone(), codes));
        }
        found.extend(own_codes(child, &format!("{name} ")));
    }
    found
}

fn table(codes: ExitCodes) -> String {
    let rows = codes.iter().map(|(code, meaning)| format!("| {code} | {meaning} |\n"));
    format!("| exit code | meaning |\n|---|---|\n{}", rows.collect::<String>())
}
