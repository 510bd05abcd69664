//! The man pages, from the command definitions and the page about the policy file, and the examples
//! of units. Packages contain them.

use super::{help, help_tail};
use crate::documents::count_text::joined;
use crate::failure::Failure;
use crate::workflow::example_units::example_units;
use crate::workflow::explained_page::POLICY;
use crate::workflow::page_text::{PagePart, page_parts};
use clap::Command;
use clap_mangen::Man;
use cpushield_linux::UserFiles;
use std::io::{self, Write};
use std::path::PathBuf;

/// What to write, and where.
#[derive(Debug, clap::Args)]
pub(super) struct ManArgs {
    /// The directory to write to
    dir: PathBuf,
    /// The program that the examples start
    program: String,
    /// The date of the pages; empty if it is unknown
    date: String,
}

/// Writes `cpushield.1`, a page for each subcommand, `cpushield-policy.5` and the examples.
///
/// # Errors
/// A file cannot be written.
pub(super) fn write(files: &UserFiles, args: &ManArgs) -> Result<(), Failure> {
    let mut command = super::command();
    command.build();
    write_pages(files, args, &command, "")?;
    let policy = ("cpushield-policy.5".to_owned(), policy_page(&args.date));
    for (name, text) in example_units(&args.program).into_iter().chain([policy]) {
        files.write(&args.dir.join(name), &text)?;
    }
    Ok(())
}

/// Writes the page of a command, such as `boot plan`, and those of its subcommands.
fn write_pages(files: &UserFiles, args: &ManArgs, of: &Command, name: &str) -> Result<(), Failure> {
    let man = Man::new(of.clone())
        .date(&args.date)
        .source(format!("cpushield {}", of.get_version().unwrap_or_default()))
        .manual("User Commands");
    let path = args.dir.join(man.get_filename());
    files.write_stream(&path, &mut |out| render(out, &man, of, name))?;
    let mut visible = of.get_subcommands().filter(|sub| !sub.is_hide_set());
    visible.try_for_each(|sub| match sub.get_name() {
        "help" => Ok(()),
        word => write_pages(files, args, sub, format!("{name} {word}").trim_start()),
    })
}

fn render(mut out: &mut dyn Write, man: &Man, of: &Command, name: &str) -> io::Result<()> {
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    out.write_all(synopsis(of, name).as_bytes())?;
    man.render_description_section(&mut out)?;
    man.render_options_section(&mut out)?;
    if of.has_subcommands() {
        man.render_subcommands_section(&mut out)?;
    }
    out.write_all(final_sections(of, name).as_bytes())
}

/// The usage as in the help, with the value of each option.
fn synopsis(command: &Command, name: &str) -> String {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let mut text = ".SH SYNOPSIS\n".to_owned();
    for line in usage.lines() {
        text.push_str(&format!("{}\n.br\n", roff(line.trim())));
    }
    // The pages of subcommands also list each option with the name of its value.
    let args = command.get_arguments().filter(|arg| !name.is_empty() && !arg.is_hide_set());
    for arg in args.filter(|arg| arg.get_long().is_some() && arg.get_action().takes_values()) {
        text.push_str(&format!("[{}]\n", roff(&arg.to_string())));
    }
    text
}

/// The examples, the format of times, the exit codes and the files.
fn final_sections(command: &Command, name: &str) -> String {
    let tail = help_tail(name);
    let mut text = ".SH EXAMPLES\n".to_owned();
    for (line, what) in tail.examples {
        text.push_str(&format!(".TP\n.B {}\n{}\n", roff(line), roff(what)));
    }
    if name.is_empty() || help::takes_time(command) {
        text.push_str(&format!(".SH TIMES\n{}\n", roff(help::TIMES)));
    }
    text.push_str(".SH EXIT STATUS\n");
    for (code, what) in tail.exit_codes {
        text.push_str(&format!(".TP\n.B {code}\n{}\n", roff(what)));
    }
    if name.is_empty() {
        text.push_str(".PP\n.B cpushield run\nreturns the exit status of the program.\n");
    }
    text + FILES
}

fn policy_page(date: &str) -> String {
    let head = format!(
        ".TH cpushield-policy 5 \"{date}\" \"cpushield {}\" \"File Formats\"\n\
         .SH NAME\ncpushield\\-policy \\- the policy file of cpushield\n.SH DESCRIPTION\n",
        env!("CARGO_PKG_VERSION")
    );
    // The first heading is the title.
    let body = POLICY.split_once('\n').map_or(POLICY, |(_, body)| body);
    let parts = page_parts(body).into_iter().map(|part| match part {
        PagePart::Paragraph(text) => format!(".PP\n{}\n", roff_prose(&text)),
        PagePart::Example(text) => format!(".PP\n.nf\n.RS\n{}.RE\n.fi\n", roff(&text)),
        PagePart::Table(rows) => {
            let rows = rows.iter().skip(1).map(|row| roff_prose(&row.join("\n")));
            rows.map(|row| format!(".TP\n{row}\n")).collect()
        }
    });
    head + &parts.collect::<String>() + FILES
}

/// The last section of every page.
const FILES: &str = ".SH FILES
.TP
.I /var/lib/cpushield/journal.jsonl
the original values of everything that was changed; exists while a shield is active
.TP
.I /etc/cpushield/policy.toml
the policy of the user
";

/// Prose for troff, with its code in bold.
fn roff_prose(text: &str) -> String {
    let pieces = text.split('`').map(roff).enumerate();
    pieces.map(|(n, piece)| if n % 2 == 1 { format!("\\fB{piece}\\fP") } else { piece }).collect()
}

/// Escapes text for troff.
fn roff(text: &str) -> String {
    let lines = text.split('\n').map(|line| {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
    });
    joined(lines, "\n")
}
