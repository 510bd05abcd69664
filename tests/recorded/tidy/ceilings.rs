//! The ceiling of each room: the lines and tokens of code that it may have. `ceilings.txt` has a
//! row `ROOM LINES TOKENS` for each room, and a row `issue N LINES` for the price of an open issue.
//!
//! The total of all rows never grows, except by the price of a new issue. Rooms may exceed their
//! ceilings by the prices of the open issues. When an issue is closed, its row goes, and the rows
//! of the rooms may grow by that price. Code may move between rooms, and its ceiling with it.

use super::{Source, root, sample, sources, texts};
use crate::not_run::not_run;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

/// The columns, and how far a room may be below its ceiling before the ceiling is lowered. Tokens
/// count so that a wider line gains nothing. An issue's line pays for ten.
const UNITS: [(usize, &str, usize); 2] = [(0, "lines", 100), (1, "tokens", 1000)];

/// Lines and tokens of each room and of each open issue.
type Rows = BTreeMap<String, [usize; 2]>;

/// The lines and tokens of code in each room: a room is the first two parts of a path. Blank lines,
/// comments, and everything from the first `#[cfg(test)]` of a file on do not count.
fn count(sources: &[Source]) -> Rows {
    let mut rooms = Rows::new();
    for source in sources.iter().filter(|source| !source.path.starts_with("tests/")) {
        let room = source.path.split('/').take(2).collect::<Vec<_>>().join("/");
        let [lines, sum] = rooms.entry(room).or_default();
        let code = source.text.lines().map(str::trim);
        let code = code.take_while(|l| !source.is_tests() && !l.starts_with("#[cfg(test)]"));
        for line in code.filter(|line| !line.is_empty() && !line.starts_with("//")) {
            *lines += 1;
            *sum += tokens(line);
        }
    }
    rooms
}

/// A literal that ends on the line, a word, and any other visible character are one token each.
fn tokens(mut line: &str) -> usize {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = 0;
    while let Some(first) = line.chars().next() {
        let tail = &line[first.len_utf8()..];
        let length = match first {
            '"' => texts::closing_quote(tail).map_or(0, |end| end + 1),
            _ if in_word(first) => tail.find(|c| !in_word(c)).unwrap_or(tail.len()),
            _ => 0,
        };
        tokens += usize::from(!first.is_whitespace());
        line = &tail[length..];
    }
    tokens
}

fn read_rows(text: &str) -> Rows {
    let mut rows = Rows::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let number = |word: &str| word.parse().unwrap_or_else(|_| panic!("not a row: {line}"));
        let (name, row) = match line.split(' ').collect::<Vec<_>>()[..] {
            ["issue", name, price] => {
                (format!("issue {name}"), [number(price), 10 * number(price)])
            }
            [room, lines, tokens] => (room.to_owned(), [number(lines), number(tokens)]),
            _ => panic!("not a row: {line}"),
        };
        assert!(rows.insert(name, row).is_none(), "a second row: {line}");
    }
    rows
}

fn sum<'a>(rows: impl Iterator<Item = (&'a String, &'a [usize; 2])>, unit: usize) -> usize {
    rows.map(|(_, row)| row[unit]).sum()
}

/// The rooms above their ceilings, if the open issues do not pay for that, and those far below.
fn faults(ceilings: &Rows, counts: &Rows) -> Vec<String> {
    let mut found = Vec::new();
    let (issues, rooms): (Rows, Rows) =
        ceilings.clone().into_iter().partition(|(name, _)| name.starts_with("issue "));
    for (i, unit, slack) in UNITS {
        let above = |(name, count): (&String, &[usize; 2])| {
            count[i].saturating_sub(rooms.get(name).map_or(0, |ceiling| ceiling[i]))
        };
        if counts.iter().map(above).sum::<usize>() > sum(issues.iter(), i) {
            let above = counts.iter().map(|row| (row.0, above(row))).filter(|(_, n)| *n > 0);
            found.extend(above.map(|(name, n)| format!("{name}: {n} {unit} above its ceiling")));
        }
        let below = rooms.iter().filter(|(name, ceiling)| {
            counts.get(*name).is_none_or(|count| ceiling[i] > count[i] + slack)
        });
        let lower = "UPDATE_EXPECT=1 cargo test ceilings lowers it";
        found.extend(below.map(|(name, _)| format!("{name}: its ceiling is too high: {lower}")));
    }
    found
}

/// The versions whose total is higher than that of the version before and its new issues. An issue
/// is new once.
fn growth(versions: &[Rows]) -> Vec<String> {
    let (mut found, mut known) = (Vec::new(), BTreeSet::new());
    for (old, new) in versions.iter().zip(&versions[1..]) {
        known.extend(old.keys().filter(|name| name.starts_with("issue ")));
        let is_new = |name: &String| name.starts_with("issue ") && !known.contains(name);
        for (i, unit, _) in UNITS {
            let allowed = sum(old.iter().chain(new.iter().filter(|(name, _)| is_new(name))), i);
            let total = sum(new.iter(), i);
            if total > allowed {
                found.push(format!("the total grows to {total} {unit}: {allowed} are allowed"));
            }
        }
    }
    found
}

/// The committed versions of the file, wherever it was, oldest first; or why they are not known.
fn history() -> Result<Vec<Rows>, String> {
    let git = |words: &str| {
        let output = Command::new("git").current_dir(root()).args(words.split(' ')).output();
        let output = output.map_err(|error| format!("git: {error}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    };
    if git("rev-parse --is-shallow-repository")? != "false" {
        return Err("the clone is shallow".to_owned());
    }
    let log = "log --first-parent -m --reverse --raw --no-renames --no-abbrev --format=";
    let log = git(&format!("{log} -- :(glob)tests/**/ceilings.txt"))?;
    if log.is_empty() {
        return Err("no commit has the file".to_owned());
    }
    // The fourth word is the new content; it has only zeros where the file was deleted.
    let contents = log.lines().filter_map(|line| line.split(' ').nth(3));
    let contents = contents.filter(|content| content.contains(|c| c != '0'));
    contents.map(|content| Ok(read_rows(&git(&format!("cat-file blob {content}"))?))).collect()
}

#[test]
fn no_room_exceeds_its_ceiling_and_no_ceiling_rises() {
    let file = root().join(file!()).with_extension("txt");
    let mut text = fs::read_to_string(&file).unwrap();
    let counts = count(&sources());
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        for (name, [lines, tokens]) in read_rows(&text) {
            let old = format!("\n{name} {lines} {tokens}\n");
            let new = counts.get(&name).map_or("\n".to_owned(), |count| {
                format!("\n{name} {} {}\n", lines.min(count[0]), tokens.min(count[1]))
            });
            text = text.replace(&old, &new);
        }
        fs::write(&file, &text).unwrap();
    }
    let ceilings = read_rows(&text);
    let mut found = faults(&ceilings, &counts);
    match history() {
        Ok(versions) => found.extend(growth(&[versions, vec![ceilings]].concat())),
        Err(why) => not_run(&format!("the history of ceilings.txt: {why}")),
    }
    assert!(found.is_empty(), "ceilings of code:\n  {}", found.join("\n  "));
}

/// The first item of a file that stands behind items for tests, where it would not be counted.
fn uncounted(source: &Source) -> Option<&str> {
    let words = "pub mod use fn impl struct enum const static type trait";
    let begins = |line: &str| {
        let word = line.split(|c: char| !c.is_alphabetic()).next();
        word.is_some_and(|word| words.split(' ').any(|it| it == word))
    };
    let (mut behind, mut for_tests) = (false, false);
    source.text.lines().find(|line| {
        for_tests |= *line == "#[cfg(test)]";
        behind |= for_tests;
        begins(line) && behind && !std::mem::take(&mut for_tests)
    })
}

#[test]
fn items_for_tests_are_at_the_end_of_a_file() {
    let all = sources();
    let product = all.iter().filter(|source| !source.path.starts_with("tests/"));
    let found: Vec<_> = product.filter_map(|it| Some((&it.path, uncounted(it)?))).collect();
    assert!(found.is_empty(), "not counted, so it belongs before the items for tests: {found:#?}");
    let text = "#[cfg(test)]\nmod a;\n#[cfg(test)]\n#[path = \"b.rs\"]\nmod b;\n";
    assert_eq!(uncounted(&sample("src/a.rs", text)), None);
    assert_eq!(uncounted(&sample("src/a.rs", &format!("{text}mod c;\n"))), Some("mod c;"));
}

#[test]
fn counts_and_limits_are_exact() {
    assert_eq!(tokens(r#"a_1.b("x \" y", µ, 'c') "open \"#), 15);
    let text = "//! A.\n\nfn f() {\n    // B.\n} // c\n#[cfg(test)]\nmod tests {}\n";
    let paths = ["src/a/b/c.rs", "src/a/tests/x.rs", "src/a/tests.rs", "tests/a.rs"];
    assert_eq!(count(&paths.map(|path| sample(path, text))), read_rows("src/a 2 9"));

    let found = |rows, counts| faults(&read_rows(rows), &read_rows(counts)).len();
    assert_eq!(found("src/a 9 90\nissue 1 2", "src/a 10 95\nsrc/b 1 15"), 0);
    assert_eq!(found("src/a 9 90\nissue 1 2", "src/a 10 95\nsrc/b 2 15"), 2);
    assert_eq!(found("src/a 9 90\nissue 1 2", "src/a 9 111"), 1);
    assert_eq!(found("src/a 110 90\nsrc/b 9 1091", "src/a 9 90\nsrc/b 9 90"), 2);
    assert_eq!(found("src/a 9 90\nsrc/b 0 0", "src/a 9 90"), 2);

    let found = |versions: &[&str]| {
        growth(&versions.iter().map(|text| read_rows(text)).collect::<Vec<_>>()).len()
    };
    let (before, opened) = ("src/a 9 90", "src/a 9 90\nissue 1 5");
    assert_eq!(
        found(&[before, "src/b 9 90", opened, "src/a 10 100\nissue 2 5", "src/a 15 150"]),
        0
    );
    assert_eq!(found(&[before, "src/a 10 90"]), 1);
    assert_eq!(found(&[before, "src/a 9 91"]), 1);
    assert_eq!(found(&[opened, "src/a 15 140"]), 1);
    assert_eq!(found(&[opened, before, opened]), 2);
    assert_eq!(found(&[opened, "src/a 9 90\nissue 1 6"]), 2);
}
