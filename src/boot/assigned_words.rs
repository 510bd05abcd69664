//! The words of a kernel command line that a shell file assigns to variables, such as
//! `GRUB_CMDLINE_LINUX="quiet nohz_full=2"`, each with its line. Variables in the values stay as
//! they are written. Pure.

use std::iter::Peekable;
use std::str::Chars;

/// A word of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AssignedWord {
    /// The variable.
    pub(super) variable: String,
    /// The word.
    pub(super) word: String,
    /// The line of its first character, from 1.
    pub(super) line: usize,
}

/// The words that assignments to variables with this prefix have. A value may have several lines.
pub(super) fn find(text: &str, prefix: &str) -> Vec<AssignedWord> {
    let mut reader = Reader { rest: text.chars().peekable(), line: 1 };
    let mut found = Vec::new();
    while reader.rest.peek().is_some() {
        // Values of other variables are read too: their lines are no assignments.
        if let Some(variable) = reader.read_variable() {
            let value = reader.read_value();
            if variable.starts_with(prefix) {
                found.extend(split_words(&value).into_iter().map(|(word, line)| {
                    let variable = variable.clone();
                    AssignedWord { variable, word, line }
                }));
            }
        }
        reader.skip_line();
    }
    found
}

/// A character of a value, and its line.
type PlacedChar = (char, usize);

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<PlacedChar> {
        let c = self.rest.next()?;
        let line = self.line;
        self.line += usize::from(c == '\n');
        Some((c, line))
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|(c, _)| c != '\n') {}
    }

    /// The variable that a line assigns to: `NAME=`, `NAME+=`, `export NAME=`. Afterwards the value
    /// comes next, or the rest of a line that assigns nothing.
    fn read_variable(&mut self) -> Option<String> {
        let mut name = String::new();
        loop {
            match *self.rest.peek()? {
                ' ' | '\t' if name.is_empty() || name == "export" => name.clear(),
                '=' if !name.is_empty() => {
                    self.next();
                    return Some(name);
                }
                '+' if !name.is_empty() => {
                    self.next();
                    return self.rest.next_if_eq(&'=').map(|_| name);
                }
                c if c.is_ascii_alphanumeric() || c == '_' => name.push(c),
                _ => return None,
            }
            self.next();
        }
    }

    /// A value up to white space outside of quotes. A backslash at the end of a line joins it with
    /// the next one, except in single quotes.
    fn read_value(&mut self) -> Vec<PlacedChar> {
        let (mut value, mut quote) = (Vec::new(), None);
        while let Some(c) = self.rest.peek().copied() {
            if quote.is_none() && c.is_ascii_whitespace() {
                break;
            }
            let Some(read) = self.next() else { break };
            match (c, quote) {
                ('\\', None | Some('"')) => match self.next() {
                    Some(('\n', _)) | None => {}
                    Some(escaped) => {
                        if quote.is_some() && !['"', '\\', '$', '`'].contains(&escaped.0) {
                            value.push(read);
                        }
                        value.push(escaped);
                    }
                },
                ('"' | '\'', None) => quote = Some(c),
                (c, Some(open)) if c == open => quote = None,
                _ => value.push(read),
            }
        }
        value
    }
}

/// The words of a command line: white space in double quotes splits none (`next_arg()`,
/// lib/cmdline.c, 6.12).
fn split_words(value: &[PlacedChar]) -> Vec<(String, usize)> {
    let mut words: Vec<(String, usize)> = Vec::new();
    let (mut quoted, mut between) = (false, true);
    for (c, line) in value {
        if c.is_ascii_whitespace() && !quoted {
            between = true;
            continue;
        }
        quoted ^= *c == '"';
        match words.last_mut().filter(|_| !between) {
            Some((word, _)) => word.push(*c),
            None => words.push((c.to_string(), *line)),
        }
        between = false;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<(String, usize)> {
        find(text, "X").into_iter().map(|it| (it.word, it.line)).collect()
    }

    #[test]
    fn a_word_has_the_line_where_it_begins() {
        for (text, expected) in [
            ("X=a b\n", &[("a", 1)][..]),
            ("# X=a\n  export X='a b' # c\n", &[("a", 2), ("b", 2)]),
            ("X=\"a \\\n  b \\\n\tc=2\"\nX+=\" d\"\n", &[("a", 1), ("b", 2), ("c=2", 3), ("d", 4)]),
            ("X='a\nb'\nX=c\\\nd\n", &[("a", 1), ("b", 2), ("cd", 3)]),
            ("X='a \\\nb'\n", &[("a", 1), ("\\", 1), ("b", 2)]),
            ("Y=\"a\nX=b\nc\"\nX=d\n", &[("d", 4)]),
            ("X='p=\"q r\" s'\n", &[("p=\"q r\"", 1), ("s", 1)]),
            ("X=\"p=\\\"q r\\\" s\"\n", &[("p=\"q r\"", 1), ("s", 1)]),
            ("X=\"$X a\"'b'", &[("$X", 1), ("ab", 1)]),
            ("if [ X = a ]; then\nX=b\nfi\n", &[("b", 2)]),
            ("X = a\nX\n=a\nX+a\n\nX=\n", &[]),
        ] {
            let expected: Vec<_> =
                expected.iter().map(|(word, line)| ((*word).to_owned(), *line)).collect();
            assert_eq!(words(text), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[X=+\"'\\\\ \na]{0,40}") {
            let lines = text.lines().count();
            prop_assert!(words(&text).iter().all(|(_, line)| (1..=lines).contains(line)));
        }
    }
}
