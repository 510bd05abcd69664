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
    for dir in ["docs", "docs/guides", "docs/explanation", "docs/measurements"] {
        for entry in fs::read_dir(root().join(dir)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// The lines of the `sh` blocks of a page.
fn shell_lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut is_shell = false;
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(language) => is_shell = language.split(' ').next() == Some("sh"),
            None if is_shell => lines.push(line),
            None => {}
        }
    }
    lines
}

/// A command of cpushield without its path, and without `sudo` and variables in front of it; `None`
/// for a command of another program.
fn command_of(line: &str) -> Option<String> {
    let (first, rest) = line.split_once(' ')?;
    let is_variable = |(name, _): (&str, &str)| {
        name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    };
    if first == "sudo" || first.split_once('=').is_some_and(is_variable) {
        return command_of(rest);
    }
    let is_program = first == "cpushield" || first.ends_with("/cpushield");
    is_program.then(|| format!("cpushield {}", rest.split(" #").next().unwrap_or(rest).trim_end()))
}

/// The programs whose commands name cpushield as a package or a unit.
const OTHER_PROGRAMS: &[&str] = &["sudo apt ", "systemctl "];

/// The commands of a page that its `sh` blocks have.
fn commands(text: &str) -> Vec<String> {
    let lines = shell_lines(text).into_iter().filter(|line| line.contains("cpushield "));
    let ours = lines.filter(|line| OTHER_PROGRAMS.iter().all(|it| !line.starts_with(it)));
    ours.map(|line| command_of(line).unwrap_or_else(|| panic!("no command: {line}"))).collect()
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
    assert!(count > 120, "only {count} commands were found");
    assert!(check_command("cpushield verify --fro 30s").is_err());
}

#[test]
fn a_command_is_found_after_variables_and_across_lines() {
    let page = "Use `sudo cpushield\nverify` and\n`ExecStart=cpushield run --fifo P -- …`.\n";
    assert_eq!(commands_in_sentences(page), ["cpushield verify", "cpushield run --fifo 50 -- …"]);
    let page = "```sh\nA_B=3 cpushield undo  # as root\nsystemctl stop cpushield # undo\n```\n";
    assert_eq!(commands(page), ["cpushield undo"]);
    let units = "ExecStart=cpushield run -- a\nExecStart=/bin/cpushield undo\nExecStart=/bin/b c\n";
    assert_eq!(commands_of_units(units), ["cpushield run -- a", "cpushield undo"]);
}

/// The paragraphs of a page, without its blocks of code, each as one line.
fn paragraphs(text: &str) -> Vec<String> {
    let mut is_block = false;
    let mut paragraphs = vec![String::new()];
    for line in text.lines() {
        is_block ^= line.starts_with("```");
        match paragraphs.last_mut() {
            Some(last) if !is_block && !line.trim().is_empty() => *last += &format!("{line} "),
            _ => paragraphs.push(String::new()),
        }
    }
    paragraphs
}

/// The commands inside sentences (`` `cpushield status` ``), with a value for each placeholder.
fn commands_in_sentences(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    for paragraph in paragraphs(text) {
        let quoted = paragraph.split('`').skip(1).step_by(2);
        let quoted = quoted.map(|code| code.strip_prefix("ExecStart=").unwrap_or(code));
        commands.extend(quoted.filter_map(command_of).map(|command| with_values(&command)));
    }
    commands
}

fn with_values(command: &str) -> String {
    let words = command.split(' ').map(|word| match word {
        "PID" => "4711",
        "P" => "50",
        "TOOL" => "cset",
        word => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

/// What a unit starts: the command of its `ExecStart=` lines.
fn commands_of_units(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| command_of(line.strip_prefix("ExecStart=")?)).collect()
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
    let others = schemas.symmetric_difference(&linked.collect()).cloned().collect::<Vec<_>>();
    assert_eq!(others, [""; 0], "in docs/ or in the table of documents.md, but not in both");
}
