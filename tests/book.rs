//! The book in `docs/` and README: every command is one that the program accepts, every link leads
//! to a file, every page is in the contents, and every schema is in the table of documents.

use clap::error::ErrorKind;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The pages of the book, and README.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    for dir in ["docs", "docs/guides", "docs/explanation"] {
        for entry in fs::read_dir(root().join(dir)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// The commands of a page: lines of its `sh` blocks that begin with cpushield.
fn commands(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut is_shell = false;
    for line in text.lines() {
        if let Some(language) = line.strip_prefix("```") {
            is_shell = language.split(' ').next() == Some("sh");
            continue;
        }
        let line = line.strip_prefix("sudo ").unwrap_or(line);
        if is_shell && line.starts_with("cpushield ") {
            commands.push(line.split(" #").next().unwrap_or(line).trim_end().to_owned());
        }
    }
    commands
}

fn check_command(command: &str) -> Result<(), String> {
    let words = shlex::split(command).ok_or("its quotes do not match")?;
    cpushield::cli::command().try_get_matches_from(words).map(drop).map_err(|e| e.to_string())
}

#[test]
fn every_command_of_the_book_is_accepted() {
    let mut count = 0;
    for page in pages() {
        for command in commands(&fs::read_to_string(&page).unwrap()) {
            count += 1;
            check_command(&command)
                .unwrap_or_else(|error| panic!("{}: {command}: {error}", page.display()));
        }
    }
    assert!(count > 40, "only {count} commands were found");
    assert!(check_command("cpushield verify --fro 30s").is_err());
}

/// The commands inside sentences (`` `cpushield status` ``), with a value for each placeholder.
fn commands_in_sentences(text: &str) -> Vec<String> {
    let mut is_block = false;
    let mut commands = Vec::new();
    for line in text.lines() {
        is_block ^= line.starts_with("```");
        if !is_block {
            let quoted = line.split('`').skip(1).step_by(2);
            commands.extend(quoted.filter(|code| code.starts_with("cpushield ")).map(with_values));
        }
    }
    commands
}

fn with_values(command: &str) -> String {
    let words = command.split(' ').map(|word| match word {
        "PID" => "4711",
        "TOOL" => "cset",
        word => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

/// What a unit starts: the command of its `ExecStart=` lines.
fn commands_of_units(text: &str) -> Vec<String> {
    let starts = text.lines().filter_map(|line| line.strip_prefix("ExecStart="));
    let commands = starts.filter_map(|command| command.split_once("/cpushield "));
    commands.map(|(_, arguments)| format!("cpushield {arguments}")).collect()
}

/// A sentence may name a subcommand without its arguments.
fn is_named(command: &str) -> Result<(), ErrorKind> {
    match cpushield::cli::command().try_get_matches_from(command.split(' ')) {
        Ok(_) => Ok(()),
        Err(error) => match error.kind() {
            ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Ok(()),
            kind => Err(kind),
        },
    }
}

#[test]
fn every_command_in_a_sentence_or_a_unit_exists() {
    let mut count = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for command in commands_of_units(&text) {
            count += 1;
            check_command(&command)
                .unwrap_or_else(|error| panic!("{}: {command}: {error}", page.display()));
        }
        for command in commands_in_sentences(&text) {
            count += 1;
            is_named(&command)
                .unwrap_or_else(|kind| panic!("{}: {command}: {kind:?}", page.display()));
        }
    }
    assert!(count > 40, "only {count} commands were found");
    assert_eq!(is_named("cpushield shield"), Err(ErrorKind::InvalidSubcommand));
    assert_eq!(is_named("cpushield undo --everything"), Err(ErrorKind::UnknownArgument));
}

/// The pages whose `guest` blocks a scenario in `vm/scenarios/` runs.
const PAGES_RUN_IN_GUESTS: &[&str] = &["tutorial.md", "shield.md"];

#[test]
fn every_block_marked_guest_is_run_by_a_scenario() {
    for page in pages() {
        let name = page.file_name().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&page).unwrap();
        let marked = text.lines().any(|line| {
            line.strip_prefix("```").is_some_and(|marks| marks.split(' ').any(|m| m == "guest"))
        });
        assert_eq!(marked, PAGES_RUN_IN_GUESTS.contains(&name), "{}", page.display());
    }
    for name in PAGES_RUN_IN_GUESTS {
        let scenarios = fs::read_dir(root().join("vm/scenarios")).unwrap();
        let scripts = scenarios.map(|entry| entry.unwrap().path());
        let mut texts = scripts
            .chain([root().join("vm/guest/lib.sh")])
            .map(|path| fs::read_to_string(path).unwrap());
        let is_read = |text: String| {
            text.contains(&format!("/host/docs/{name}"))
                || text.contains(&format!("/host/docs/guides/{name}"))
        };
        assert!(texts.any(is_read), "no scenario reads {name}");
    }
}

/// The targets of links to files.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?.split('#').next()?;
        (!target.is_empty() && !target.contains("://")).then_some(target)
    })
}

#[test]
fn every_link_leads_to_a_file_and_every_page_is_in_the_contents() {
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for link in links(&text) {
            let target = page.parent().unwrap().join(link);
            assert!(target.exists(), "{}: {link} does not exist", page.display());
            // mdbook copies no file that lies outside.
            let in_book = target.canonicalize().unwrap().starts_with(root().join("docs"));
            assert!(in_book || page == root().join("README.md"), "{}: {link}", page.display());
        }
    }
    let contents = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let listed: BTreeSet<PathBuf> =
        links(&contents).map(|link| root().join("docs").join(link)).collect();
    for page in pages() {
        let is_contents = page.ends_with("SUMMARY.md") || page == root().join("README.md");
        assert!(is_contents || listed.contains(&page), "{} is not in SUMMARY.md", page.display());
    }
}

#[test]
fn every_schema_has_a_row_in_the_table_of_documents() {
    let page = fs::read_to_string(root().join("docs/documents.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with('|')).collect::<String>();
    let files = fs::read_dir(root().join("docs")).unwrap();
    let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let schemas: BTreeSet<String> = names.filter(|name| name.ends_with(".schema.json")).collect();
    assert!(schemas.len() > 20, "{schemas:?}");
    let linked = links(&rows).filter(|link| link.ends_with(".schema.json")).map(str::to_owned);
    assert_eq!(linked.collect::<BTreeSet<_>>(), schemas);
}
