//! Circles of files: files of one crate that import each other, directly or through others. Reads
//! the sources as text. A name counts for the file that declares it, and not for a `mod.rs` that
//! passes it on. A module and its parts belong together: what a part uses of its parents does not
//! count. Tests are left out.

use std::collections::{BTreeMap, BTreeSet};

use super::{Source, sample, sources, without_comment, words};

/// The sources of the crates.
const CRATES: &[&str] = &["src/", "crates/linux/src/", "xtask/src/"];

/// Circles that may stay: their files, and why. A smaller circle of these files may stay too.
const ALLOWED: &[(&[&str], &str)] = &[];

/// More steps than any name is passed on.
const STEPS_MAX: usize = 8;

/// The parts of a path such as `crate::plan::Plan`.
pub(super) type Segments = Vec<String>;

/// A name that a `use` declaration brings into a file.
pub(super) struct Import {
    name: String,
    pub(super) path: Segments,
    /// Whether the file passes the name on.
    public: bool,
}

/// A file without its tests.
struct Module<'a> {
    file: &'a str,
    imports: Vec<Import>,
    /// The code without comments and `use` declarations.
    body: String,
}

/// The files of one crate by the paths of their modules. The path of the root is empty.
type Modules<'a> = BTreeMap<Segments, Module<'a>>;

/// The files that each file imports.
type Edges = BTreeMap<String, BTreeSet<String>>;

fn child(module: &[String], name: &str) -> Segments {
    [module, &[name.to_owned()]].concat()
}

/// Reads the tree of a `use` declaration. `before` is what stands before the braces around it.
pub(super) fn read_tree(tree: &str, before: &str, public: bool, found: &mut Vec<Import>) {
    let tree = tree.trim();
    if let Some((head, rest)) = tree.split_once('{') {
        let before = format!("{before}{}", head.trim());
        let inner = rest.strip_suffix('}').unwrap_or(rest);
        let (mut depth, mut from) = (0, 0);
        for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    read_tree(&inner[from..at], &before, public, found);
                    from = at + 1;
                }
                _ => {}
            }
        }
    } else if !tree.is_empty() {
        let (path, alias) = match tree.split_once(" as ") {
            Some((path, alias)) => (path, Some(alias.to_owned())),
            None => (tree, None),
        };
        let mut path: Segments = format!("{before}{path}").split("::").map(str::to_owned).collect();
        if path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = alias.or_else(|| path.last().cloned()).unwrap_or_default();
        found.push(Import { name, path, public });
    }
}

/// The `use` declarations of some code, and the rest of it.
fn split_imports(code: &str) -> (Vec<Import>, String) {
    let (mut imports, mut body) = (Vec::new(), String::new());
    let (mut open, mut for_tests, mut nested) = (String::new(), false, false);
    for line in code.lines().map(without_comment) {
        // The parent of a module inside a file is that file.
        nested = (line.contains("mod ") && line.ends_with('{')) || (nested && line != "}");
        let line = if nested { line.replace("super::", "self::") } else { line.to_owned() };
        let visible = line.trim().strip_prefix("pub").map(|rest| match rest.split_once(')') {
            Some((scope, rest)) if scope.starts_with('(') => rest,
            _ => rest,
        });
        let declaration = visible.unwrap_or(&line).trim();
        let begins = declaration.starts_with("use ");
        if open.is_empty() && declaration.starts_with("mod ") && line.ends_with(';') {
            for_tests = false;
            continue;
        }
        if open.is_empty() && !begins {
            for_tests = line.trim() == "#[cfg(test)]";
            body.push_str(&line);
            body.push('\n');
            continue;
        }
        open.push_str(line.trim());
        open.push(' ');
        if let Some((declaration, _)) = open.split_once(';') {
            let tree = declaration.split_once("use ").map_or("", |(_, tree)| tree);
            if !for_tests {
                read_tree(tree, "", declaration.starts_with("pub"), &mut imports);
            }
            (open, for_tests) = (String::new(), false);
        }
    }
    (imports, body)
}

/// The files of the crate whose sources are in this folder.
fn modules<'a>(sources: &'a [Source], folder: &str) -> Modules<'a> {
    let (mut found, mut tests) = (Modules::new(), BTreeSet::new());
    for source in sources {
        let Some(inner) = source.path.strip_prefix(folder) else { continue };
        let stem = inner.trim_end_matches(".rs");
        let path: Segments = match stem.strip_suffix("/mod").unwrap_or(stem) {
            "lib" | "main" => Segments::new(),
            stem => stem.split('/').map(str::to_owned).collect(),
        };
        for after in source.text.split("#[cfg(test)]\n").skip(1) {
            let line = after.lines().next().unwrap_or_default();
            if let Some((_, name)) = line.trim_end_matches(';').split_once("mod ") {
                tests.insert(child(&path, name));
            }
        }
        let (imports, body) = split_imports(source.code());
        // A program next to a library is a crate of its own.
        found.entry(path).or_insert(Module { file: &source.path, imports, body });
    }
    found.retain(|path, _| !tests.iter().any(|test| path.starts_with(test)));
    found
}

/// The module that a path in the module `at` begins with, and the rest of the path. `None` for
/// paths into other crates and for items of the module itself.
fn first_module<'p>(
    modules: &Modules,
    at: &Segments,
    path: &'p [String],
) -> Option<(Segments, &'p [String])> {
    let supers = path.iter().take_while(|part| *part == "super").count();
    match path.first()?.as_str() {
        "crate" => Some((Segments::new(), &path[1..])),
        "self" => Some((at.clone(), &path[1..])),
        "super" => Some((at[..at.len().saturating_sub(supers)].to_vec(), &path[supers..])),
        name => {
            let known = modules.contains_key(&child(at, name))
                || modules.get(at)?.imports.iter().any(|import| import.name == name);
            known.then(|| (at.clone(), path))
        }
    }
}

/// Whether a `use` of everything in a module brings this name.
fn offers(module: &Module, name: &str) -> bool {
    let kinds = ["struct", "enum", "trait", "type", "fn", "const", "static", "mod"];
    let all: Vec<&str> = words(&module.body).collect();
    module.imports.iter().any(|import| import.public && import.name == name)
        || all.windows(2).any(|pair| kinds.contains(&pair[0]) && pair[1] == name)
}

/// The module that declares what a path in the module `at` names.
fn resolve(modules: &Modules, at: &Segments, path: &[String], steps: usize) -> Option<Segments> {
    let (mut module, mut rest) = first_module(modules, at, path)?;
    while let Some((name, after)) = rest.split_first() {
        let inner = child(&module, name);
        if modules.contains_key(&inner) {
            (module, rest) = (inner, after);
            continue;
        }
        let imports = &modules.get(&module)?.imports;
        let steps = steps.checked_sub(1)?;
        if let Some(import) = imports.iter().find(|import| import.name == *name) {
            let path = [import.path.as_slice(), after].concat();
            return resolve(modules, &module, &path, steps);
        }
        let everything = imports.iter().filter(|import| import.name == "*").find_map(|import| {
            let (_, path) = import.path.split_last()?;
            let from = resolve(modules, &module, path, steps)?;
            offers(modules.get(&from)?, name).then_some(from)
        });
        return match everything {
            Some(from) => {
                let path = [&["self".to_owned()], rest].concat();
                resolve(modules, &from, &path, steps)
            }
            None => Some(module),
        };
    }
    Some(module)
}

/// The paths in some code outside `use` declarations.
fn paths_in(body: &str) -> BTreeSet<Segments> {
    let outside = |c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':';
    let paths = body.split(outside).filter(|word| word.contains("::"));
    paths.map(|path| path.split("::").map(str::to_owned).collect()).collect()
}

fn edges(modules: &Modules) -> Edges {
    let mut found = Edges::new();
    for (at, module) in modules {
        let used: BTreeSet<&str> = words(&module.body).collect();
        let imports = module.imports.iter();
        // What a file only passes on is not an import of its own.
        let own = imports.filter(|import| !import.public || used.contains(import.name.as_str()));
        let inline = paths_in(&module.body);
        let paths = own.map(|import| &import.path).chain(&inline);
        let targets = paths.filter_map(|path| resolve(modules, at, path, STEPS_MAX));
        let targets = targets.filter(|target| !at.starts_with(target));
        let files = targets.filter_map(|target| Some(modules.get(&target)?.file.to_owned()));
        found.insert(module.file.to_owned(), files.collect());
    }
    found
}

/// All files that a file imports, through others too.
fn reach<'e>(edges: &'e Edges, from: &str) -> BTreeSet<&'e str> {
    let (mut found, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(file) = next.pop() {
        for target in edges.get(file).into_iter().flatten() {
            if found.insert(target.as_str()) {
                next.push(target);
            }
        }
    }
    found
}

/// The circles of files of one crate.
fn circles(edges: &Edges) -> Vec<Vec<&str>> {
    let all = edges.keys().map(|file| (file.as_str(), reach(edges, file)));
    let reached: BTreeMap<&str, BTreeSet<&str>> = all.collect();
    let circles = reached.iter().map(|(file, files)| {
        let back = |other: &&&str| reached.get(**other).is_some_and(|its| its.contains(file));
        files.iter().filter(back).copied().collect()
    });
    let first = reached.keys();
    first
        .zip(circles)
        .filter(|(file, it): &(_, Vec<&str>)| it.first() == Some(file))
        .map(|(_, it)| it)
        .collect()
}

/// The circles of all crates that may not stay, with their imports, and the ones that are allowed
/// but not there.
fn wrong_circles(sources: &[Source], allowed: &[(&[&str], &str)]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for folder in CRATES {
        let edges = edges(&modules(sources, folder));
        for circle in circles(&edges) {
            let covers = |files: &[&str]| circle.iter().all(|file| files.contains(file));
            if let Some(at) = allowed.iter().position(|(files, _)| covers(files)) {
                seen.insert(at);
                continue;
            }
            let inside = |from: &&str| {
                let targets = edges[*from].iter().filter(|to| circle.contains(&to.as_str()));
                format!("{from} -> {}", targets.cloned().collect::<Vec<_>>().join(", "))
            };
            wrong.push(circle.iter().map(inside).collect::<Vec<_>>().join("\n  "));
        }
    }
    let gone = allowed.iter().enumerate().filter(|(at, _)| !seen.contains(at));
    wrong.extend(gone.map(|(_, (files, _))| format!("no longer a circle: {}", files.join(", "))));
    wrong
}

#[test]
fn files_do_not_import_each_other_in_circles() {
    let wrong = wrong_circles(&sources(), ALLOWED);
    assert!(wrong.is_empty(), "circles of files:\n  {}", wrong.join("\n\n  "));
}

/// Files with their texts, and the files of the circle that they form.
type CircleCase<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);

const CASES: &[CircleCase] = &[
    (&[("a", "use crate::b::B;"), ("b", "use super::a::A;")], &["a", "b"]),
    (
        &[("a", "use crate::b::{\n    self, B as C,\n};"), ("b", "type D = crate::a::A;")],
        &["a", "b"],
    ),
    (
        &[("a", "use super::b::B;"), ("b", "use super::c::C;"), ("c", "use super::a::A;")],
        &["a", "b", "c"],
    ),
    // Passed on by a `mod.rs`.
    (
        &[
            ("a", "use crate::m::N;"),
            ("m/mod", "mod n;\npub use n::N;"),
            ("m/n", "use crate::a::A;"),
        ],
        &["a", "m/n"],
    ),
    (
        &[
            ("a", "use crate::m::N;"),
            ("m/mod", "mod n;\npub use n::*;"),
            ("m/n", "use crate::a::A;\npub struct N;"),
        ],
        &["a", "m/n"],
    ),
    (
        &[
            ("a", "use crate::m;\nfn f() { m::n() }"),
            ("m/mod", "mod n;\npub use n::n;"),
            ("m/n", "use crate::a::A;"),
        ],
        &["a", "m/n"],
    ),
    // Through a list of modules.
    (
        &[
            ("a", "use super::m::ALL;"),
            ("m/mod", "use n::N;\nconst ALL: N = N;"),
            ("m/n", "use crate::a::A;"),
        ],
        &["a", "m/mod", "m/n"],
    ),
    // None: a module with its parts, tests, another crate, a name that is only passed on.
    (&[("m/mod", "use n::N;"), ("m/n", "use super::M;")], &[]),
    (&[("a", "use crate::b::B;"), ("b", "\n#[cfg(test)]\nuse crate::a::A;")], &[]),
    (
        &[("a", "use crate::b::B;"), ("b", "\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}")],
        &[],
    ),
    (
        &[
            ("a", "use crate::b::B;"),
            ("b", "//\n#[cfg(test)]\nmod c;"),
            ("b/c", "use crate::a::A;"),
        ],
        &[],
    ),
    (&[("a", "use b::B;"), ("b", "use a::A;")], &[]),
    (&[("a", "use crate::b::B;"), ("b", "pub use crate::a::A;")], &[]),
];

#[test]
fn every_form_of_a_circle_is_found() {
    for (files, circle) in CASES {
        let sample = |(name, text): &(&str, &str)| sample(&format!("src/{name}.rs"), text);
        let sources: Vec<Source> = files.iter().map(sample).collect();
        let edges = edges(&modules(&sources, "src/"));
        let named: Vec<String> = circle.iter().map(|name| format!("src/{name}.rs")).collect();
        let named: Vec<&str> = named.iter().map(String::as_str).collect();
        let wanted = if circle.is_empty() { Vec::new() } else { vec![named.clone()] };
        assert_eq!(circles(&edges), wanted, "{files:?}");
        let wrong = wrong_circles(&sources, &[(&named, "")]);
        assert_eq!(wrong.len(), usize::from(circle.is_empty()), "{files:?}: {wrong:?}");
    }
}
