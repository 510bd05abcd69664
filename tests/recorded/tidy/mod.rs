//! The rules of `STYLE.md` that a program can check: import directions, sizes, words, and
//! completeness. Each check also gets a sample that must fail.

use crate::files::files_below;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

mod ceilings;
mod circles;
mod texts;

/// Lines of code (tests not counted) that one file may have.
const FILE_LINES_MAX: usize = 500;
/// Columns that one line may have.
const COLUMNS_MAX: usize = 100;

/// The modules of `src/` and what each may import.
#[rustfmt::skip]
const IMPORTS: &[(&str, &[&str])] = &[
    ("boot", &["causes", "change", "documents", "glob", "plan", "policy", "quote", "refusal", "registry", "survey", "tunables"]),
    ("causes", &["glob", "registry"]),
    // The workflows hand on the values of their requests.
    ("cli", &["cpu_selection", "documents", "failure", "input", "json", "policy", "report", "ui", "workflow"]),
    ("autosave", &[]),
    ("input", &["cpu_selection", "policy"]),
    ("json", &[]),
    ("change", &["quote"]),
    ("quote", &[]),
    ("glob", &[]),
    ("registry", &["change"]),
    ("refusal", &[]),
    ("worker", &[]),
    ("documents", &["causes", "change", "policy", "with_text"]),
    ("with_text", &[]),
    ("compare", &["documents", "latency", "refusal"]),
    ("exchange", &["boot", "change", "documents", "glob", "policy", "survey", "tunables"]),
    ("export", &["causes", "trace"]),
    ("failure", &["json", "refusal"]),
    ("ui", &["failure", "json", "report"]),
    ("survey", &["documents", "glob"]),
    ("cpu_selection", &["registry"]),
    ("policy", &["cpu_selection", "registry"]),
    ("tunables", &["causes", "change", "documents", "glob", "policy", "registry"]),
    ("plan", &["change", "documents", "policy", "refusal", "registry", "survey", "tunables"]),
    ("apply", &["change", "documents", "policy", "refusal", "with_text"]),
    ("run", &["apply", "change", "documents", "policy", "refusal", "with_text"]),
    ("latency", &["documents", "load", "observe", "policy", "refusal", "registry", "survey", "trace", "worker"]),
    ("live", &["causes", "documents", "observe", "report", "trace", "with_text"]),
    ("load", &["documents", "refusal", "registry", "worker"]),
    ("screen", &[]),
    ("report", &[
        "boot", "causes", "change", "documents", "latency", "load", "plan", "policy", "quote",
        "survey",
    ]),
    ("experiment", &["boot", "compare", "cpu_selection", "documents", "latency", "load", "policy", "quote", "refusal", "registry", "tunables"]),
    ("trace", &["causes", "documents", "policy"]),
    ("observe", &["causes", "documents", "trace", "worker"]),
    ("verify", &["causes", "documents", "observe", "policy", "refusal", "trace", "tunables"]),
    ("workflow", &["apply", "autosave", "boot", "causes", "change", "compare", "cpu_selection", "documents", "exchange", "experiment", "export", "failure", "input", "json", "latency", "live", "load", "observe", "plan", "policy", "quote", "refusal", "registry", "report", "run", "screen", "survey", "trace", "tunables", "ui", "verify", "worker"]),
];

/// Pure modules: they may not use the machine.
const PURE: &[&str] = &[
    "causes",
    "change",
    "cpu_selection",
    "compare",
    "documents",
    "exchange",
    "export",
    "glob",
    "json",
    "live",
    "plan",
    "policy",
    "quote",
    "registry",
    "report",
    "tunables",
    "with_text",
];

struct Source {
    path: String,
    text: String,
}

impl Source {
    /// The code before the tests at the end of the file.
    fn code(&self) -> &str {
        let mark = "\n#[cfg(test)]\n";
        let ends = |at: &usize| {
            let next = self.text[at + mark.len()..].lines().next().unwrap_or("");
            next.contains("mod ") && next.ends_with('{')
        };
        let end = self.text.match_indices(mark).map(|(at, _)| at).find(ends);
        &self.text[..end.unwrap_or(self.text.len())]
    }

    /// `survey` for `src/survey/irqs.rs` and for `src/survey.rs`; `None` outside the pipeline.
    fn module(&self) -> Option<&str> {
        let rest = self.path.strip_prefix("src/")?;
        Some(rest.split('/').next()?.trim_end_matches(".rs"))
    }

    /// Whether it is a module of tests, or a part of one.
    fn is_tests(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn sources() -> Vec<Source> {
    let mut sources: Vec<Source> = ["src", "crates", "xtask", "tests"]
        .iter()
        .flat_map(|dir| files_below(&root().join(dir)))
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        .map(|path| Source {
            text: fs::read_to_string(&path).unwrap(),
            path: path.strip_prefix(root()).unwrap().display().to_string(),
        })
        .collect();
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

/// Runs a check over every source and fails with all findings.
fn check(rule: &str, find: impl Fn(&Source) -> Vec<String>) {
    let found: Vec<String> = sources().iter().flat_map(find).collect();
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}

fn sample(path: &str, text: &str) -> Source {
    Source { path: path.to_owned(), text: text.to_owned() }
}

/// A line without its comment.
fn without_comment(line: &str) -> &str {
    line.split("//").next().unwrap_or("")
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

fn wrong_imports(source: &Source) -> Vec<String> {
    let Some(module) = source.module() else { return Vec::new() };
    // Tests may use later stages; `code` leaves out those at the end of a file.
    if ["lib", "main"].contains(&module) || source.is_tests() {
        return Vec::new();
    }
    let Some((_, allowed)) = IMPORTS.iter().find(|(name, _)| *name == module) else {
        return vec![format!(
            "{}: {module} is not in the table of tests/recorded/tidy/mod.rs",
            source.path
        )];
    };
    let lines: Vec<&str> = source.code().lines().map(without_comment).collect();
    let code = lines.join("\n");
    let mut wrong = Vec::new();
    for (at, found) in code.match_indices("crate::") {
        let line = code[..at].matches('\n').count() + 1;
        for name in first_names(&code[at + found.len()..]) {
            let is_module = IMPORTS.iter().any(|(known, _)| *known == name);
            if is_module && name != module && !allowed.contains(&name.as_str()) {
                wrong.push(format!("{}:{line}: {module} imports {name}", source.path));
            }
        }
    }
    wrong
}

/// The first name of a path, or those of a group of paths: `a` and `b` of `{a::{c, d}, b};`.
fn first_names(path: &str) -> Vec<String> {
    if !path.starts_with('{') {
        return words(path).take(1).map(str::to_owned).collect();
    }
    let mut imports = Vec::new();
    circles::read_tree(path.split(';').next().unwrap_or(path), "", false, &mut imports);
    imports.into_iter().filter_map(|import| import.path.into_iter().next()).collect()
}

#[test]
fn imports_point_one_way() {
    check("imports that point the wrong way (see ARCHITECTURE.md)", wrong_imports);
    assert_eq!(wrong_imports(&sample("src/plan/x.rs", "use crate::apply::Applied;\n")).len(), 1);
    let group =
        sample("src/plan/x.rs", "use crate::{\n    change::{a, b},\n    apply, run::c,\n};\n");
    assert_eq!(wrong_imports(&group).len(), 2);
    let engine = sample("src/tunables/x.rs", "use crate::plan::plan;\n");
    assert_eq!(wrong_imports(&engine).len(), 1);
    assert_eq!(wrong_imports(&sample("src/cli/x.rs", "use crate::tunables::TUNABLES;\n")).len(), 1);
    assert_eq!(wrong_imports(&sample("src/newroom.rs", "")).len(), 1);
}

fn machine_in_pure(source: &Source) -> Vec<String> {
    if !source.module().is_some_and(|module| PURE.contains(&module)) {
        return Vec::new();
    }
    let names =
        |line: &str| words(without_comment(line)).any(|word| word == "Host" || word == "Store");
    let lines = source.code().lines().enumerate().filter(|(_, line)| names(line));
    lines.map(|(i, line)| format!("{}:{}: {line}", source.path, i + 1)).collect()
}

#[test]
fn pure_modules_do_not_touch_the_machine() {
    check("pure modules that name Host or Store", machine_in_pure);
    assert_eq!(machine_in_pure(&sample("src/tunables/x.rs", "fn f(h: &Host) {}")).len(), 1);
}

fn machine_access(source: &Source) -> Vec<String> {
    if source.module().is_none() || source.is_tests() {
        return Vec::new();
    }
    let banned = ["std::fs", "fs::", "File::", "Command::new", "std::env", "println!", "exit("];
    let mut found = Vec::new();
    for (i, line) in source.code().lines().enumerate() {
        let code = without_comment(line);
        let starts_word = |at: usize| {
            at == 0
                || !(code.as_bytes()[at - 1].is_ascii_alphanumeric() || code[..at].ends_with('_'))
        };
        let seen = |name: &str| code.match_indices(name).any(|(at, _)| starts_word(at));
        for name in banned.iter().filter(|name| seen(name)) {
            found.push(format!("{}:{}: {name}", source.path, i + 1));
        }
        if words(code).any(|word| word == "unsafe") {
            found.push(format!("{}:{}: unsafe", source.path, i + 1));
        }
    }
    found
}

#[test]
fn only_the_kernel_boundary_opens_files_and_is_unsafe() {
    check("file access, processes or unsafe outside crates/linux", machine_access);
    assert_eq!(machine_access(&sample("src/x.rs", "let f = std::fs::read(p);\n")).len(), 2);
    assert_eq!(machine_access(&sample("src/x.rs", "let f = unsafe { g() };\n")).len(), 1);
    assert_eq!(machine_access(&sample("src/x.rs", "use linux::tracefs::Instance;\n")).len(), 0);
}

fn too_long(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let lines = source.code().lines().count();
    if lines > FILE_LINES_MAX {
        found.push(format!("{}: {lines} lines of code", source.path));
    }
    for (i, line) in source.code().lines().enumerate() {
        // Kernel text and messages inside quotes may have any length.
        if line.chars().count() > COLUMNS_MAX && !line.contains('"') {
            found.push(format!("{}:{}: {} columns", source.path, i + 1, line.chars().count()));
        }
    }
    found
}

#[test]
fn files_and_lines_stay_short() {
    check("files or lines that are too long", too_long);
    assert_eq!(too_long(&sample("src/x.rs", &"a\n".repeat(501))).len(), 1);
    assert_eq!(too_long(&sample("src/x.rs", &"a".repeat(101))).len(), 1);
    // A module of tests in a separate file does not end the code.
    let text = format!("//!\n#[cfg(test)]\nmod x;\n{}", "a\n".repeat(500));
    assert_eq!(too_long(&sample("src/x.rs", &text)).len(), 1);
}

fn without_module_comment(source: &Source) -> Vec<String> {
    let has_comment = source.text.starts_with("//!");
    if has_comment { Vec::new() } else { vec![format!("{}: does not start with //!", source.path)] }
}

#[test]
fn every_file_starts_with_a_module_comment() {
    check("files without a module comment", without_module_comment);
    assert_eq!(without_module_comment(&sample("src/x.rs", "use a;\n")).len(), 1);
}

fn vague(source: &Source) -> Vec<String> {
    let vague = ["utils", "util", "common", "helpers", "manager", "misc"];
    let parts = Path::new(&source.path).iter().filter_map(|part| part.to_str());
    parts
        .filter(|part| vague.contains(&part.trim_end_matches(".rs")))
        .map(|_| format!("{}: a module is named after what it holds", source.path))
        .collect()
}

fn open_ends(source: &Source) -> Vec<String> {
    // Written in halves, or this check would find its own list.
    let banned = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
    let mut found = Vec::new();
    for (i, line) in source.text.lines().enumerate() {
        if words(line).any(|word| banned.contains(&word)) {
            found.push(format!("{}:{}: {}", source.path, i + 1, line.trim()));
        }
    }
    found
}

#[test]
fn no_open_ends_and_no_vague_names() {
    check("vague module names", vague);
    check("open ends", open_ends);
    assert_eq!(vague(&sample("src/utils.rs", "")).len(), 1);
    assert_eq!(open_ends(&sample("src/x.rs", concat!("// TO", "DO: later\n"))).len(), 1);
}

/// The names of the types that the program declares, each with its file.
fn declared_types(source: &Source) -> Vec<(String, String)> {
    if !source.path.starts_with("src/") && !source.path.starts_with("crates/linux/src/") {
        return Vec::new();
    }
    let mut found = Vec::new();
    for line in source.code().lines() {
        let visible = ["pub(crate) ", "pub(super) ", "pub "];
        let line = visible.iter().find_map(|word| line.strip_prefix(word)).unwrap_or(line);
        let (word, rest) = line.split_once(' ').unwrap_or_default();
        let name = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        if ["struct", "enum", "trait", "type", "union"].contains(&word) {
            found.push((name.to_owned(), source.path.clone()));
        }
    }
    found
}

/// Type names that two files declare.
fn shared_types(sources: &[Source]) -> Vec<String> {
    let mut all: Vec<(String, String)> = sources.iter().flat_map(declared_types).collect();
    all.sort();
    let pairs = all.windows(2).filter(|pair| pair[0].0 == pair[1].0);
    pairs.map(|pair| format!("{}: {} and {}", pair[0].0, pair[0].1, pair[1].1)).collect()
}

#[test]
fn no_two_types_have_one_name() {
    assert_eq!(shared_types(&sources()), [""; 0]);
    let one = sample("src/a.rs", "pub struct Reason;\nenum Other {}\n");
    let two = sample("crates/linux/src/b.rs", "pub(super) enum Reason {}\n");
    assert_eq!(shared_types(&[one, two]), ["Reason: crates/linux/src/b.rs and src/a.rs"]);
}

#[test]
fn every_tunable_file_is_declared_and_every_name_is_unique() {
    let dir = root().join("src/tunables");
    let list = fs::read_to_string(dir.join("mod.rs")).unwrap();
    for entry in fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        assert!(stem == "mod" || list.contains(&format!("mod {stem};")), "{stem} is not declared");
    }
    let tunables = cpushield::tunables::TUNABLES;
    let names: BTreeSet<&str> = tunables.iter().map(|tunable| tunable.name).collect();
    assert_eq!(names.len(), tunables.len(), "two tunables share a name");
}

#[test]
fn every_module_is_on_the_map_of_the_architecture() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let is_on_map = |name: &str| {
        let is_dir = root().join(format!("src/{name}/mod.rs")).exists();
        let place = if is_dir { format!("`src/{name}/`") } else { format!("`src/{name}.rs`") };
        text.lines().any(|line| line.starts_with('|') && line.contains(&place))
    };
    let names = IMPORTS.iter().map(|(name, _)| *name);
    let without: Vec<&str> = names.filter(|name| !is_on_map(name)).collect();
    assert_eq!(without, [""; 0], "modules that are not on the map of ARCHITECTURE.md");
    assert!(!is_on_map("attic"));
}

#[test]
fn documents_name_only_files_that_exist() {
    let dirs = ["src/", "crates/", "tests/", "vm/", "xtask/", "machines/", "docs/", "fuzz/"];
    let mut missing = Vec::new();
    for document in ["README.md", "ARCHITECTURE.md", "STYLE.md", "CONTRIBUTING.md"] {
        let text = fs::read_to_string(root().join(document)).unwrap_or_default();
        assert!(text.starts_with("# "), "{document} has no title or is not there");
        for word in text.split(['`', '(', ')']) {
            let plain = !word.contains([' ', '*', '<', '{', '…', '\n']) && !word.contains("NAME");
            let path = word.split([':', '#']).next().unwrap_or(word);
            if plain && dirs.iter().any(|d| word.starts_with(d)) && !root().join(path).exists() {
                missing.push(format!("{document}: {word}"));
            }
        }
    }
    assert!(missing.is_empty(), "named but not there:\n  {}", missing.join("\n  "));
}
