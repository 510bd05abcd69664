//! The rules of `STYLE.md` about texts that a program can check: words and the length of sentences,
//! in the literals of the program, the documents and the scenarios; words also in comments and
//! names.

use super::{Source, check, root, sample, words};
use std::fs;
use std::path::PathBuf;

/// Words that texts for users must not have, and what to write instead.
const UNIDIOMATIC: &[(&str, &str)] = &[
    ("told", "reported, shown, known"),
    ("whoever", "the task or process that"),
    ("anew", "again, new"),
    ("for ever", "forever"),
    ("by turns", "interleaved"),
    ("gone on", "resumed, continued"),
    ("go on with", "resume, continue"),
    ("somebody", "another process"),
    ("nobody", "no process, unknown"),
    ("beside", "together with, next to"),
    ("kept house", "housekeeping: CPUs"),
    ("keep house", "housekeeping: CPUs"),
    ("keeps house", "housekeeping: CPUs"),
    ("anybody", "a user, any task or process"),
    ("anyone", "a user, any task or process"),
    ("someone", "a user, another process"),
    ("of ours", "of cpushield"),
    ("any more", "no longer"),
    ("meanwhile", "in that time, during the run"),
];

/// A part of a source file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PieceKind {
    /// The inside of a string literal.
    Literal,
    /// A comment, without its slashes.
    Comment,
    /// Anything else.
    Code,
}

/// The pieces of a source file, each with the number of its line.
fn pieces(code: &str) -> Vec<(PieceKind, usize, &str)> {
    let mut found = Vec::new();
    let mut rest = code;
    let line = |rest: &str| code[..code.len() - rest.len()].matches('\n').count() + 1;
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let raw = rest[..at].trim_end_matches('#').ends_with('r');
        let hashes = rest[..at].len() - rest[..at].trim_end_matches('#').len();
        let (mark, tail) = (&rest[at..=at], &rest[at + 1..]);
        found.push((PieceKind::Code, line(rest), &rest[..at]));
        let begins = line(&rest[at..]);
        rest = match mark {
            "/" if tail.starts_with('/') => {
                let (text, after) = tail.split_at(tail.find('\n').unwrap_or(tail.len()));
                let text = text.trim_start_matches(['/', '!']);
                found.push((PieceKind::Comment, begins, text));
                after
            }
            "'" if tail.starts_with("\"'") => &tail[2..],
            "'" if tail.starts_with("\\\"'") => &tail[3..],
            "\"" => {
                let end = match raw {
                    true => tail.find(&format!("\"{}", "#".repeat(hashes))),
                    false => closing_quote(tail),
                };
                let end = end.unwrap_or(tail.len());
                found.push((PieceKind::Literal, begins, &tail[..end]));
                tail.get(end + 1..).unwrap_or("")
            }
            _ => tail,
        };
    }
    found.push((PieceKind::Code, line(rest), rest));
    found
}

/// The string literals of some code, each with the number of its line.
fn literals(code: &str) -> Vec<(usize, String)> {
    let literals = pieces(code).into_iter().filter(|(kind, ..)| *kind == PieceKind::Literal);
    literals.map(|(_, line, text)| (line, text.to_owned())).collect()
}

/// The comments of some code, each with the number of its first line.
fn comments(code: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut last = 0;
    for (_, line, text) in pieces(code).into_iter().filter(|it| it.0 == PieceKind::Comment) {
        match found.last_mut().filter(|_| last + 1 == line) {
            Some((_, comment)) => comment.push_str(text),
            None => found.push((line, text.to_owned())),
        }
        last = line;
    }
    found
}

/// The names in some code as words with spaces, each with the number of its line.
fn names(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (_, first, text) in pieces(code).into_iter().filter(|it| it.0 == PieceKind::Code) {
        for (n, line) in text.lines().enumerate() {
            let names = words(line).filter(|word| !word.is_empty());
            found.extend(names.map(|name| (first + n, name.replace('_', " "))));
        }
    }
    found
}

/// Where a literal ends: at the first quote that no backslash escapes.
pub fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends.then_some(at)
    })
}

/// The words of a text as its reader sees them, with a space before and behind each; without the
/// values in braces. One word alone is a tag or a name, and no text.
fn shown_words(literal: &str) -> Option<String> {
    let mut outside = String::new();
    for (i, part) in literal.split('{').enumerate() {
        let from = if i == 0 { 0 } else { part.find('}').map_or(0, |end| end + 1) };
        outside.push_str(&part[from..]);
        outside.push(' ');
    }
    let outside = outside.replace("\\n", " ").to_lowercase();
    let all: Vec<&str> = words(&outside).filter(|word| !word.is_empty()).collect();
    (all.len() > 1).then(|| format!(" {} ", all.join(" ")))
}

/// The words of a text that have a better one, each with that one.
fn replaced_words(text: &str) -> Vec<String> {
    shown_words(text).map_or_else(Vec::new, |text| words_to_replace(&text))
}

/// The words of a text with a space around each that have a better one, each with that one.
fn words_to_replace(text: &str) -> Vec<String> {
    let found = UNIDIOMATIC.iter().filter(|(word, _)| text.contains(&format!(" {word} ")));
    found.map(|(word, instead)| format!("{word:?}; write: {instead}")).collect()
}

/// The literals of the program that users may read.
fn user_literals(source: &Source) -> Vec<(usize, String)> {
    match source.path.starts_with("src/") && !source.is_tests() {
        true => literals(source.code()),
        false => Vec::new(),
    }
}

fn unidiomatic(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for (line, literal) in user_literals(source) {
        let words = replaced_words(&literal).into_iter();
        found.extend(words.map(|word| format!("{}:{line}: {word}", source.path)));
    }
    found
}

#[test]
fn texts_for_users_have_idiomatic_words() {
    check("words that STYLE.md replaces", unidiomatic);
    let help = fs::read_to_string(root().join("tests/recorded/cli/help.txt")).unwrap();
    assert_eq!(replaced_words(&help), [""; 0], "in a help text");
    let count = |text: &str| unidiomatic(&sample("src/x.rs", text)).len();
    assert_eq!(
        count(
            r#"f("it waits for \
        ever; somebody {told} it");"#
        ),
        2
    );
    assert_eq!(count("f(\"cannot: {why}\\nNobody knows\")"), 1);
    assert_eq!(count("// \"somebody was told\"\nf('\"', told, \"beside\", \"{beside} it\");"), 0);
    assert_eq!(count("f(\"fine\");\n#[cfg(test)]\nmod tests {\n\"somebody else\""), 0);
}

/// Words in comments, and in the names of functions and variables.
fn unidiomatic_code(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for (line, text) in comments(&source.text).into_iter().chain(names(&source.text)) {
        let text: Vec<&str> = words(&text).filter(|word| !word.is_empty()).collect();
        let replaced = words_to_replace(&format!(" {} ", text.join(" ").to_lowercase()));
        found.extend(replaced.iter().map(|word| format!("{}:{line}: {word}", source.path)));
    }
    found
}

#[test]
fn comments_and_names_have_idiomatic_words() {
    check("words that STYLE.md replaces", unidiomatic_code);
    let found = |text: &str| unidiomatic_code(&sample("src/x.rs", text));
    let code = "// They are not there any\n    // more. Somebody\nfn nobody_knows() {\n\
                f(\"told\", of_ours, 'a', any, more, Told);\n} // whoever";
    let lines = [
        "1: \"somebody\"",
        "1: \"any more\"",
        "5: \"whoever\"",
        "3: \"nobody\"",
        "4: \"of ours\"",
        "4: \"told\"",
    ];
    let found = found(code);
    assert_eq!(found.len(), lines.len(), "{found:#?}");
    for (found, line) in found.iter().zip(lines) {
        assert!(found.starts_with(&format!("src/x.rs:{line}")), "{found}");
    }
}

/// The files of a directory with this ending.
fn files_in(dir: &str, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(dir)).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|found| found == ending)).collect()
}

#[test]
fn documents_have_idiomatic_words() {
    let mut found = Vec::new();
    for file in documents() {
        let words = replaced_words(&fs::read_to_string(&file).unwrap()).into_iter();
        found.extend(words.map(|word| format!("{}: {word}", file.display())));
    }
    assert!(found.is_empty(), "words that STYLE.md replaces:\n  {}", found.join("\n  "));
}

/// The documents for users and for engineers.
fn documents() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].map(|name| root().join(name)).into();
    for dir in ["docs", "docs/guides", "docs/explanation"] {
        files.extend(files_in(dir, "md"));
    }
    assert!(files.len() > 20, "{files:?}");
    files
}

/// The claims and comments of a scenario: a comment, or the text after the first word of a line.
fn scenario_texts(script: &str) -> Vec<&str> {
    script.lines().filter_map(scenario_text).collect()
}

fn scenario_text(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let comment =
        line.split_once("# ").filter(|(before, _)| before.is_empty() || before.ends_with(' '));
    let (call, label) = line.split_once(" \"").unwrap_or_default();
    match comment {
        Some((_, comment)) => Some(comment),
        None if !call.is_empty() && words(call).count() == 1 => label.split('"').next(),
        None => None,
    }
}

#[test]
fn scenarios_have_idiomatic_words() {
    let scripts = files_in("vm/scenarios", "sh");
    assert!(scripts.len() > 20, "{scripts:?}");
    let mut found = Vec::new();
    for script in scripts {
        let text = fs::read_to_string(&script).unwrap();
        let texts = scenario_texts(&text).into_iter().flat_map(replaced_words);
        found.extend(texts.map(|word| format!("{}: {word}", script.display())));
    }
    assert!(found.is_empty(), "words that STYLE.md replaces:\n  {}", found.join("\n  "));
    let script =
        "# It is told.\nis \"it is told here\" told x\ntold x \"told\"\nx=1 # as told here\n";
    assert_eq!(scenario_texts(script), ["It is told.", "it is told here", "as told here"]);
}

/// Words that one sentence may have.
const SENTENCE_WORDS_MAX: usize = 25;

/// The sentences of a literal. A colon or a semicolon also ends one. Sources are no sentences.
fn sentences(literal: &str) -> Vec<String> {
    let mut text = String::new();
    let mut rest = literal;
    while let Some((line, next)) = rest.split_once("\\\n") {
        text.push_str(line);
        rest = next.trim_start();
    }
    let text = (text + rest).replace("\\n", "\n\n");
    let mut found = Vec::new();
    for paragraph in text.split("\n\n").filter(|it| !it.trim_start().starts_with("Source")) {
        let mut sentence = Vec::new();
        for word in paragraph.split_whitespace() {
            sentence.push(word);
            if word.trim_end_matches(['*', '"', ')']).ends_with(['.', '?', '!', ';', ':']) {
                found.push(sentence.join(" "));
                sentence.clear();
            }
        }
        found.push(sentence.join(" "));
    }
    found
}

fn long_sentences(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for (line, literal) in user_literals(source) {
        let long = long_sentences_of(&literal).into_iter();
        found.extend(long.map(|it| format!("{}:{line}: {it}", source.path)));
    }
    found
}

/// The sentences of a text that are too long, each after its number of words.
fn long_sentences_of(text: &str) -> Vec<String> {
    let is_word = |word: &&str| word.contains(|c: char| c.is_alphanumeric());
    let counted = sentences(text).into_iter().map(|sentence| {
        let count = sentence.split(' ').filter(is_word).count();
        (count, sentence)
    });
    let long = counted.filter(|(count, _)| *count > SENTENCE_WORDS_MAX);
    long.map(|(count, sentence)| format!("{count} words: {sentence}")).collect()
}

/// The paragraphs of a help screen in a snapshot. Those of a column begin at the same character.
fn help_paragraphs(snapshot: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut column = 0;
    for line in snapshot.lines() {
        let text = line.strip_prefix(['|', '!']).unwrap_or_default();
        let start = text.rfind("  ").map_or(0, |gap| gap + 2);
        let (name, words) = text.split_at(start);
        let continues = start == column && name.trim().is_empty() && !words.starts_with('-');
        column = start;
        match found.last_mut() {
            Some(last) if continues && !words.is_empty() => *last += &format!(" {words}"),
            _ => found.push(words.to_owned()),
        }
    }
    found.retain(|paragraph| !paragraph.trim_start().starts_with("Usage:"));
    found
}

/// The paragraphs and the list items of a document. Tables, headings and code are left out.
fn markdown_paragraphs(document: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut in_code = false;
    for line in document.lines().map(str::trim) {
        let is_fence = line.starts_with("```");
        in_code ^= is_fence;
        let is_other = in_code || is_fence || line.is_empty() || line.starts_with(['|', '#', '<']);
        let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
        let begins = line.starts_with("- ") || number != line && number.starts_with(". ");
        match found.last_mut() {
            _ if is_other => found.push(String::new()),
            Some(last) if !begins => *last += &format!(" {line}"),
            _ => found.push(line.to_owned()),
        }
    }
    found
}

#[test]
fn sentences_for_users_are_short() {
    check("sentences that are too long (STYLE.md, rule 26)", long_sentences);
    let count = |text: &str| long_sentences(&sample("src/x.rs", text)).len();
    let long = "word ".repeat(SENTENCE_WORDS_MAX);
    assert_eq!(count(&format!("f(\"{long}\")")), 0);
    assert_eq!(count(&format!("f(\"{long}\\\n   more\")")), 1);
    assert_eq!(count(&format!("f(\"{long}\nmore\")")), 1);
    assert_eq!(count(&format!("f(\"First; {long}\\n\\nSource: {long}{long}\")")), 0);
}

#[test]
fn sentences_of_help_and_documents_are_short() {
    let help = fs::read_to_string(root().join("tests/recorded/cli/help.txt")).unwrap();
    let mut texts = vec![("help".to_owned(), help_paragraphs(&help))];
    texts.extend(documents().into_iter().map(|file| {
        let paragraphs = markdown_paragraphs(&fs::read_to_string(&file).unwrap());
        (file.display().to_string(), paragraphs)
    }));
    let mut found = Vec::new();
    for (name, paragraphs) in texts {
        let long = paragraphs.iter().flat_map(|paragraph| long_sentences_of(paragraph));
        found.extend(long.map(|it| format!("{name}: {it}")));
    }
    found.dedup();
    assert!(found.is_empty(), "sentences that are too long:\n  {}", found.join("\n  "));
}

#[test]
fn a_help_or_a_document_is_split_where_another_text_begins() {
    let help = "$ cpushield x -h\n? 0\n| About\n|\n| Options:\n|   -a, --all  First line\n\
                |              and second\n|       --by   Another\n";
    let wanted = ["About", "Options:", "First line and second", "Another"];
    let found: Vec<String> =
        help_paragraphs(help).into_iter().filter(|it| !it.is_empty()).collect();
    assert_eq!(found.iter().map(|it| it.trim()).collect::<Vec<_>>(), wanted);
    let document = "# Head\n\nOne\ntext\n- item\n  goes on\n2. next\n\n```\ncode\n```\n| a | b |\n";
    let found: Vec<String> =
        markdown_paragraphs(document).into_iter().filter(|it| !it.is_empty()).collect();
    assert_eq!(
        found.iter().map(|it| it.trim()).collect::<Vec<_>>(),
        ["One text", "- item goes on", "2. next"]
    );
}
