//! Man pages and completions from the command definitions, with sections that clap does not know.

use super::roff::{FILES, date, roff};
use clap_complete::Shell;
use cpushield::cli::help;
use std::fs;
use std::io;
use std::path::Path;

/// Writes `cpushield.1`, a page for each subcommand, and `cpushield-policy.5`.
pub fn write_pages(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let mut command = cpushield::cli::command();
    command.build();
    write_page(dir, &command, None)?;
    for sub in
        command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
    {
        write_page(dir, sub, Some(sub.get_name()))?;
        for nested in sub.get_subcommands() {
            if !nested.is_hide_set() && nested.get_name() != "help" {
                let name = format!("{} {}", sub.get_name(), nested.get_name());
                write_page(dir, nested, Some(&name))?;
            }
        }
    }
    super::policy_page::write(dir)
}

fn write_page(dir: &Path, command: &clap::Command, name: Option<&str>) -> io::Result<()> {
    let file = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let man = clap_mangen::Man::new(command.clone())
        .title(&file)
        .date(date())
        .source(format!("cpushield {}", command.get_version().unwrap_or_default()))
        .manual("User Commands");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    text.extend_from_slice(synopsis(command, name).as_bytes());
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    text.extend_from_slice(final_sections(command, name).as_bytes());
    fs::write(dir.join(format!("{file}.1")), text)
}

/// The usage as in the help, with the value of each option.
fn synopsis(command: &clap::Command, name: Option<&str>) -> String {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let mut text = ".SH SYNOPSIS\n".to_owned();
    for line in usage.lines() {
        text.push_str(&format!("{}\n.br\n", roff(line.trim())));
    }
    // The pages of subcommands also list each option with the name of its value.
    if name.is_some() {
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let Some(long) = arg.get_long().filter(|_| arg.get_action().takes_values()) else {
                continue;
            };
            let values = arg.get_value_names().unwrap_or_default();
            let values: Vec<String> = values.iter().map(|value| format!("<{value}>")).collect();
            text.push_str(&format!(
                "[{} {}]\n",
                roff(&format!("--{long}")),
                roff(&values.join(" "))
            ));
        }
    }
    text
}

/// The examples, the format of times, the exit codes and the files.
fn final_sections(command: &clap::Command, name: Option<&str>) -> String {
    let tail = cpushield::cli::help_tail(name);
    let mut text = ".SH EXAMPLES\n".to_owned();
    for (line, what) in tail.examples {
        text.push_str(&format!(".TP\n.B {}\n{}\n", roff(line), roff(what)));
    }
    if name.is_none() || help::takes_time(command) {
        text.push_str(&format!(".SH TIMES\n{}\n", roff(help::TIMES)));
    }
    text.push_str(".SH EXIT STATUS\n");
    for (code, what) in tail.exit_codes {
        text.push_str(&format!(".TP\n.B {code}\n{}\n", roff(what)));
    }
    if name.is_none() {
        text.push_str(".PP\n.B cpushield run\nreturns the exit status of the program.\n");
    }
    text + FILES
}

/// Writes the completions for each shell.
pub fn write_completions(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(
            shell,
            &mut cpushield::cli::completions::visible_command(),
            "cpushield",
            dir,
        )?;
    }
    Ok(())
}
