//! The words of kernel command lines that shell files assign to variables, such as
//! `GRUB_CMDLINE_LINUX="quiet nohz_full=2"`: each with its place, and what later lines make of it.
//! Nothing is executed: assignments, `+=`, `$NAME` and `unset` are evaluated, and where a value
//! depends on anything else, that is said. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::str::Chars;

/// A file, and a line in it, from 1.
pub(super) type Place = (String, usize);

/// A word of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AssignedWord {
    /// The variable to which it was assigned first.
    pub(super) variable: String,
    /// The word, with the variables of the files in it.
    pub(super) word: String,
    /// Where its first character is.
    pub(super) place: Place,
    /// What the rest of the files makes of it.
    pub(super) fate: WordFate,
}

/// What a program that reads the files gets of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WordFate {
    /// The word.
    Kept,
    /// Not the word: an assignment here replaces it.
    Replaced(Place),
    /// That depends on a line that has to be run.
    Unknown(Place),
}

/// The words that assignments to variables with this prefix have in these files, which a shell
/// reads one after the other: path and text.
pub(super) fn evaluate(files: &[(String, String)], prefix: &str) -> Vec<AssignedWord> {
    let mut shell = Shell { prefix, ..Shell::default() };
    for (path, text) in files {
        let mut reader = Reader { rest: text.chars().peekable(), line: 1 };
        let mut depth = 0_usize;
        while reader.rest.peek().is_some() {
            shell.read_command(&mut reader, path, &mut depth);
        }
    }
    shell.found
}

/// A piece of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    text: char,
    /// Its number among all characters that were read: a copy of a value keeps them.
    number: usize,
    line: usize,
    /// Whether it stands for what a command prints.
    unknown: bool,
}

#[derive(Default)]
struct Shell<'a> {
    prefix: &'a str,
    variables: BTreeMap<String, Vec<Piece>>,
    found: Vec<AssignedWord>,
    /// The number of the first character of each found word.
    numbers: Vec<usize>,
    read: usize,
}

impl Shell<'_> {
    /// Reads a command. `depth` counts the blocks around it, in which a command may not run.
    fn read_command(&mut self, reader: &mut Reader<'_>, path: &str, depth: &mut usize) {
        reader.take(|c| c.is_ascii_whitespace() || c == ';');
        let place = (path.to_owned(), reader.line);
        let mut name = reader.take(is_of_name);
        while ["export", "readonly", "declare", "typeset"].contains(&name.as_str()) {
            reader.take(|c| c == ' ' || c == '\t');
            name = reader.take(is_of_name);
        }
        if !name.is_empty() && reader.rest.peek() == Some(&'[') {
            name += &reader.take(|c| !matches!(c, ']' | '\n'));
            name.extend(reader.rest.next_if_eq(&']'));
        }
        let appends = reader.rest.next_if_eq(&'+').is_some();
        if !name.is_empty() && reader.rest.next_if_eq(&'=').is_some() {
            let mut value = if appends { self.value(&name) } else { Vec::new() };
            self.read_value(reader, &mut value, false);
            return self.assign(&name, value, &place, *depth > 0);
        }
        match name.as_str() {
            "if" | "case" | "for" | "while" | "until" => *depth += 1,
            "fi" | "esac" | "done" => *depth = depth.saturating_sub(1),
            // A command follows on the same line.
            "then" | "else" | "do" => return,
            _ => {}
        }
        let command = name.clone() + &reader.take_command();
        match command.trim_end().as_bytes() {
            [b'}', ..] => *depth = depth.saturating_sub(1),
            [.., b'{'] => *depth += 1,
            _ if name == "unset" => {
                for name in command.split_whitespace().skip(1) {
                    self.assign(name, Vec::new(), &place, *depth > 0);
                }
            }
            _ if runs_others(&command) || assigns(&command, self.prefix) => {
                self.give_up(command.trim(), &place);
            }
            _ => {}
        }
    }

    fn value(&self, name: &str) -> Vec<Piece> {
        self.variables.get(name).cloned().unwrap_or_default()
    }

    /// Assigns a value. Words of the old value that it lacks are replaced, or perhaps replaced.
    fn assign(&mut self, name: &str, value: Vec<Piece>, place: &Place, may_run: bool) {
        if name.starts_with(self.prefix) {
            let kept: BTreeSet<usize> = value.iter().map(|piece| piece.number).collect();
            let lost: BTreeSet<usize> = self.value(name).iter().map(|piece| piece.number).collect();
            let uses_itself = value.iter().filter(|piece| piece.unknown).map(|piece| piece.text);
            let hidden = may_run || uses_itself.collect::<String>().contains(name);
            let fate = match hidden {
                true => WordFate::Unknown(place.clone()),
                false => WordFate::Replaced(place.clone()),
            };
            for (word, number) in self.found.iter_mut().zip(&self.numbers) {
                let may_stand = matches!(word.fate, WordFate::Unknown(_)) && word.variable == name;
                let stood = lost.contains(number) || may_stand;
                if stood && !kept.contains(number) && !(may_stand && hidden) {
                    word.fate = fate.clone();
                }
            }
            for (word, pieces) in split_words(&value) {
                let Some(first) = pieces.first() else { continue };
                if self.numbers.contains(&first.number) {
                    continue;
                }
                let unknown = may_run || pieces.iter().any(|piece| piece.unknown);
                self.numbers.push(first.number);
                self.found.push(AssignedWord {
                    variable: name.to_owned(),
                    word,
                    place: (place.0.clone(), first.line),
                    fate: if unknown { WordFate::Unknown(place.clone()) } else { WordFate::Kept },
                });
            }
        }
        let mut now = Vec::new();
        if may_run {
            now = self.value(name);
            self.push(&mut now, ' ', place.1, false);
        }
        now.extend(value);
        self.variables.insert(name.to_owned(), now);
    }

    /// A command that may change any variable.
    fn give_up(&mut self, command: &str, place: &Place) {
        let (variable, word) = (String::new(), command.to_owned());
        let fate = WordFate::Unknown(place.clone());
        self.numbers.push(usize::MAX);
        self.found.push(AssignedWord { variable, word, place: place.clone(), fate });
    }

    fn push(&mut self, value: &mut Vec<Piece>, text: char, line: usize, unknown: bool) {
        self.read += 1;
        value.push(Piece { text, number: self.read, line, unknown });
    }

    /// Reads a value up to white space or the end of a command outside of quotes, or the whole
    /// text. A backslash at the end of a line joins it with the next one, except in single quotes.
    fn read_value(&mut self, reader: &mut Reader<'_>, value: &mut Vec<Piece>, whole: bool) {
        let mut quote = None;
        while let Some(c) = reader.rest.peek().copied() {
            let ends = c.is_ascii_whitespace() || matches!(c, ';' | '&' | '|');
            if quote.is_none() && ends && !whole {
                break;
            }
            let line = reader.line;
            reader.next();
            match (c, quote) {
                ('\\', None | Some('"')) => match reader.next() {
                    Some('\n') | None => {}
                    Some(escaped) => {
                        if quote.is_some() && !['"', '\\', '$', '`'].contains(&escaped) {
                            self.push(value, c, line, false);
                        }
                        self.push(value, escaped, line, false);
                    }
                },
                ('$' | '`', None | Some('"')) => self.read_expansion(reader, c, value),
                ('"' | '\'', None) => quote = Some(c),
                (c, Some(open)) if c == open => quote = None,
                _ => self.push(value, c, line, false),
            }
        }
    }

    /// Reads what follows a `$` or a backquote: the value of a variable of these files, or a text
    /// that stands for an unknown value.
    fn read_expansion(&mut self, reader: &mut Reader<'_>, first: char, value: &mut Vec<Piece>) {
        let line = reader.line;
        let mut text = String::from(first);
        match (first, reader.rest.peek()) {
            ('$', Some('{' | '(')) => {
                let (open, close) =
                    if reader.rest.peek() == Some(&'{') { ('{', '}') } else { ('(', ')') };
                let mut depth = 0_usize;
                while let Some(c) = reader.next() {
                    text.push(c);
                    depth = depth + usize::from(c == open) - usize::from(c == close && depth > 0);
                    if depth == 0 {
                        break;
                    }
                }
            }
            ('$', _) => text += &reader.take(is_of_name),
            _ => {
                text += &reader.take(|c| c != '`');
                text.extend(reader.next());
            }
        }
        let inner = text.trim_start_matches(['$', '{']);
        let inner = inner.strip_suffix('}').unwrap_or(inner);
        let name = &inner[..inner.find(|c| !is_of_name(c)).unwrap_or(inner.len())];
        let known = self.value(name);
        let is_one = name.starts_with(self.prefix) || self.variables.contains_key(name);
        match (inner.get(name.len()..name.len() + 2), known.is_empty()) {
            (None, _) if inner == name && is_one => return value.extend(known),
            // `${NAME:+WORD}`, `${NAME:-WORD}`.
            (Some(":+"), true) | (Some(":-"), false) if is_one => return value.extend(known),
            (Some(":+" | ":-"), _) if is_one && text.starts_with("${") => {
                let word = &inner[name.len() + 2..];
                let mut word = Reader { rest: word.chars().peekable(), line };
                return self.read_value(&mut word, value, true);
            }
            _ => {}
        }
        text.chars().for_each(|c| self.push(value, c, line, text != "$"));
    }
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Whether a command runs another file or text, which may assign anything.
fn runs_others(command: &str) -> bool {
    [". ", ".\t", "source ", "eval "].iter().any(|it| command.starts_with(it))
}

/// Whether a command has an assignment to a variable with this prefix.
fn assigns(command: &str, prefix: &str) -> bool {
    command.match_indices(prefix).any(|(at, _)| {
        let rest = command[at..].trim_start_matches(is_of_name);
        rest.starts_with('=') || rest.starts_with("+=")
    })
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn take(&mut self, is_taken: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        while self.rest.peek().is_some_and(|c| is_taken(*c)) {
            taken.extend(self.next());
        }
        taken
    }

    /// The rest of a command, up to a `;` or the end of the line outside of quotes, without a
    /// comment.
    fn take_command(&mut self) -> String {
        let (mut command, mut quote) = (String::new(), None);
        while let Some(c) = self.next() {
            match (c, quote) {
                ('\\', None | Some('"')) => {
                    self.next();
                    continue;
                }
                (';' | '\n', None) => break,
                ('#', None) if command.is_empty() || command.ends_with([' ', '\t']) => {
                    self.take(|c| c != '\n');
                    continue;
                }
                ('"' | '\'', None) => quote = Some(c),
                (c, Some(open)) if c == open => quote = None,
                _ => {}
            }
            command.push(c);
        }
        // A here-document is no command.
        if let Some((_, tag)) = command.split_once("<<") {
            let tag: String = tag.chars().skip_while(|c| !is_of_name(*c)).collect();
            let tag = tag.split(|c| !is_of_name(c)).next().unwrap_or_default().to_owned();
            while self.rest.peek().is_some() {
                let line = self.take(|c| c != '\n');
                self.next();
                if line.trim() == tag {
                    break;
                }
            }
        }
        command
    }
}

/// The words of a command line, each with its pieces: white space in double quotes splits none
/// (`next_arg()`, lib/cmdline.c, 6.12), nor does that in a command whose output is unknown.
fn split_words(value: &[Piece]) -> Vec<(String, Vec<Piece>)> {
    let mut words: Vec<(String, Vec<Piece>)> = Vec::new();
    let (mut quoted, mut between) = (false, true);
    for piece in value {
        if piece.text.is_ascii_whitespace() && !quoted && !piece.unknown {
            between = true;
            continue;
        }
        quoted ^= piece.text == '"' && !piece.unknown;
        if std::mem::take(&mut between) {
            words.push((String::new(), Vec::new()));
        }
        if let Some((word, pieces)) = words.last_mut() {
            word.push(piece.text);
            pieces.push(piece.clone());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn find(text: &str) -> Vec<AssignedWord> {
        evaluate(&[(String::new(), text.to_owned())], "X")
    }

    fn words(text: &str) -> Vec<(String, usize)> {
        find(text).into_iter().map(|it| (it.word, it.place.1)).collect()
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
            ("X=\"$X a\"'b'", &[("ab", 1)]),
            ("if [ Y = a ]; then\nX=b\nfi\n", &[("b", 2)]),
            ("Y = a\nX1=c; X2=d\nX=\n", &[("c", 2), ("d", 2)]),
        ] {
            let expected: Vec<_> =
                expected.iter().map(|(word, line)| ((*word).to_owned(), *line)).collect();
            assert_eq!(words(text), expected, "{text:?}");
        }
    }

    /// The words of two files, the second of which is read after the first: `+` kept, `-FILE:LINE`
    /// replaced there, `?FILE:LINE` unknown without running that line.
    #[test]
    fn later_lines_replace_keep_or_hide_words() {
        for (first, second, expected) in [
            ("X=\"a b\"\n", "X=c\n", "a-2:1 b-2:1 c+"),
            ("X=\"a b\"\n", "X=\"$X c\"\n", "a+ b+ c+"),
            ("X=\"a\"\n", "X+=\" ${X} c\"\n", "a+ c+"),
            ("X=a\nX=b\n", "", "a-1:2 b+"),
            ("Y='i=2 q'\nX=\"$Y b\"\n", "Y=z\n", "i=2+ q+ b+"),
            ("X=a\n", "unset X\n", "a-2:1"),
            // As tuned writes it.
            ("X='a b'\nX=\"${X:+$X }\\$t\"\n", "", "a+ b+ $t+"),
            ("X=\"${X:+$X }b\"\n", "X=\"${X:-c} d\"\nX=\"${X_N:-e} $X\"\n", "b+ d+ e+"),
            ("X='a b'\n", "X=\"${X%b}\"\n", "a?2:1 b?2:1 ${X%b}?2:1"),
            ("X='a b'\n", "X=\"$(echo $X)\"\n", "a?2:1 b?2:1 $(echo $X)?2:1"),
            ("if a\nthen X=a\nelse X=b\nfi\n", "X=\"$X c\"\n", "a?1:2 b?1:3 c+"),
            ("echo don\\'t\nX=a\ncat <<'E'\nX=b\nE\n", "X+=' c'\n", "a+ c+"),
            ("X=a\n", "if true; then\n  X=b\nfi\nX_R=c\n", "a?2:2 b?2:2 c+"),
            ("f() {\n X=a\n}\n", "X=b\n", "a-2:1 b+"),
            ("X=a\nif a; then X=b; fi # X=e\n", "X=c; echo 'X;'\n", "a-2:1 b-2:1 c+"),
            ("if [ \"$X\" = a ]; then echo \"X\"; fi\n", "X=a # ; X=b\n", "a+"),
            ("X=\"a $(cat /etc/x y) b\"\n", "", "a+ $(cat /etc/x y)?1:1 b+"),
            ("X=\"`cat z` i=$N\"\n", "X+=\" i=${M:-2}\"\n", "`cat z`?1:1 i=$N?1:1 i=${M:-2}?2:1"),
            ("X='$(a) $B'\n", "", "$(a)+ $B+"),
            ("X=a\n", "[ -e /x ] && X=b\n", "a+ [ -e /x ] && X=b?2:1"),
            ("X=a\n. /etc/more\n", "echo Y\n", "a+ . /etc/more?1:2"),
            ("X=\"a\"\r\n", "X=\"$X b\"\r\n", "a+ b+"),
        ] {
            let files = [("1", first), ("2", second)].map(|(a, b)| (a.to_owned(), b.to_owned()));
            let found = evaluate(&files, "X").into_iter().map(|it| match it.fate {
                WordFate::Kept => format!("{}+", it.word),
                WordFate::Replaced((path, line)) => format!("{}-{path}:{line}", it.word),
                WordFate::Unknown((path, line)) => format!("{}?{path}:{line}", it.word),
            });
            assert_eq!(found.collect::<Vec<_>>().join(" "), expected, "{first}{second}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[X=+\"'\\\\ \na${}()`;#if]{0,40}") {
            let lines = text.lines().count();
            prop_assert!(find(&text).iter().all(|it| (1..=lines).contains(&it.place.1)));
        }
    }
}
