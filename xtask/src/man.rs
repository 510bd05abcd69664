//! Man pages and completions from the command definitions, with the sections clap does not know.

use clap::CommandFactory;
use clap_complete::Shell;
use std::fs;
use std::io;
use std::path::Path;

/// Sections that every page ends with.
const TAIL: &str = ".SH EXIT STATUS
.TP
.B 0
done; the shield holds
.TP
.B 1
it does not hold, or the evidence does not carry a claim
.TP
.B 2
the command line, a policy or a plan is wrong
.TP
.B 3
this machine cannot
.TP
.B 4
failed, and everything was undone
.TP
.B 5
failed, and not everything could be undone; the journal is kept
.TP
.B 70
a defect of cpushield
.PP
.B cpushield run
passes the exit status of the program through.
.SH FILES
.TP
.I /var/lib/cpushield/journal.jsonl
the originals of everything that was changed; there while a shield is up
.TP
.I /etc/cpushield/policy.toml
what the user wants
";

/// Writes `cpushield.1` and a page for each subcommand.
pub fn pages(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let mut command = cpushield::cli::Cli::command();
    command.build();
    page(dir, &command)?;
    for sub in
        command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
    {
        page(dir, sub)?;
    }
    Ok(())
}

fn page(dir: &Path, command: &clap::Command) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).title(&name).render(&mut text)?;
    text.extend_from_slice(TAIL.as_bytes());
    fs::write(dir.join(format!("{name}.1")), text)
}

/// Writes the completions.
pub fn completions(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut cpushield::cli::Cli::command(), "cpushield", dir)?;
    }
    Ok(())
}
