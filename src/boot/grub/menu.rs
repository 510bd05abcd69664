//! Parses the menu in `grub.cfg`: its entries, the kernel and command line of each, and which one
//! boots next. Pure; the text is never rewritten from the parsed form.

use super::env;
use crate::documents::boot::NextReason;
use std::fmt;
use std::iter::Peekable;
use std::str::Chars;

/// Why a file cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MenuError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub what: &'static str,
}

impl fmt::Display for MenuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// An entry or a submenu.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MenuEntry {
    /// What the menu shows.
    pub title: String,
    /// Its id for `grub-reboot` and `GRUB_DEFAULT`.
    pub id: Option<String>,
    /// The submenu it is in, as an index of [`GrubMenu::entries`].
    pub parent: Option<usize>,
    /// Its number within its menu, from 0.
    pub number: usize,
    /// Whether it is a submenu.
    pub is_submenu: bool,
    /// The kernel's file (`/boot/vmlinuz-6.12.1-amd64`).
    pub kernel: Option<String>,
    /// Its initial RAM disks, in order.
    pub ramdisks: Vec<String>,
    /// The kernel command line.
    pub args: String,
    /// Its first line in the file, from 1.
    pub line: usize,
}

/// A menu.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GrubMenu {
    /// All entries, in the order of the file.
    pub entries: Vec<MenuEntry>,
    /// The value of `default`, except in the branch for `next_entry`; `None` when it is not set.
    pub default: Option<String>,
    /// Whether the file uses `next_entry` (`grub-reboot`).
    pub honours_next: bool,
}

/// Which entry boots next, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextEntry {
    /// An index of [`GrubMenu::entries`]; `None` for an empty menu.
    pub entry: Option<usize>,
    /// The reason.
    pub why: NextReason,
}

/// What a path leads to: an index of [`GrubMenu::entries`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FoundEntry {
    /// The entry that it names.
    Named(usize),
    /// The first entry of the submenu that does not have the rest of the path.
    FirstOfSubmenu(usize),
}

impl MenuEntry {
    /// The kernel's version, as `10_linux` has it: the file's name without `vmlinuz-`.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        version_of(self.kernel.as_deref()?)
    }
}

/// `/boot/vmlinuz-6.12.1-amd64` → `6.12.1-amd64`.
#[must_use]
pub fn version_of(kernel: &str) -> Option<&str> {
    let name = kernel.rsplit('/').next()?.trim_end_matches(".efi.signed");
    let named = ["vmlinuz-", "vmlinux-", "kernel-"];
    let rest = named.iter().find_map(|prefix| name.strip_prefix(prefix))?;
    (!rest.is_empty()).then_some(rest)
}

/// Parses a menu.
///
/// # Errors
/// A quote or a `{` is never closed, or a `}` has no `{` before it.
pub fn parse(text: &str) -> Result<GrubMenu, MenuError> {
    let mut menu = GrubMenu::default();
    // Blocks in curly brackets: the entry, or `None` for a function or another block, and its line.
    let mut open: Vec<(Option<usize>, usize)> = Vec::new();
    for command in GrubCommands::new(text) {
        let GrubCommand { words, line, opens } = command?;
        let first = words.first().map_or("", String::as_str);
        if first == "}" {
            open.pop().ok_or(MenuError { line, what: "`}` without a `{` before it" })?;
            continue;
        }
        let parent = open.iter().rev().find_map(|(entry, _)| *entry);
        match first {
            "menuentry" | "submenu" if opens => {
                open.push((Some(menu.entries.len()), line));
                menu.add_entry(&words, parent, line);
                continue;
            }
            "linux" | "linux16" | "linuxefi" => menu.set_kernel(parent, &words),
            "initrd" | "initrd16" | "initrdefi" => menu.set_ramdisks(parent, &words),
            "set" => menu.set_variable(words.get(1).map_or("", String::as_str)),
            _ => {}
        }
        if opens {
            open.push((None, line));
        }
    }
    match open.last() {
        Some((_, line)) => Err(MenuError { line: *line, what: "`{` is never closed" }),
        None => Ok(menu),
    }
}

impl GrubMenu {
    fn add_entry(&mut self, words: &[String], parent: Option<usize>, line: usize) {
        let mut rest = words.iter().skip(2);
        let mut id = None;
        while let Some(word) = rest.next() {
            match word.as_str() {
                "--id" | "$menuentry_id_option" | "${menuentry_id_option}" => {
                    id = rest.next().cloned();
                }
                word => id = word.strip_prefix("--id=").map(str::to_owned).or(id),
            }
        }
        let number = self.entries.iter().filter(|entry| entry.parent == parent).count();
        self.entries.push(MenuEntry {
            title: words.get(1).cloned().unwrap_or_default(),
            id,
            parent,
            number,
            is_submenu: words.first().is_some_and(|word| word == "submenu"),
            kernel: None,
            ramdisks: Vec::new(),
            args: String::new(),
            line,
        });
    }

    fn set_kernel(&mut self, entry: Option<usize>, words: &[String]) {
        let Some(entry) = entry.and_then(|index| self.entries.get_mut(index)) else { return };
        entry.kernel = words.get(1).cloned();
        let args: Vec<String> = words.iter().skip(2).map(|word| quote_spaces(word)).collect();
        entry.args = args.join(" ");
    }

    fn set_ramdisks(&mut self, entry: Option<usize>, words: &[String]) {
        let Some(entry) = entry.and_then(|index| self.entries.get_mut(index)) else { return };
        entry.ramdisks = words.iter().skip(1).cloned().collect();
    }

    fn set_variable(&mut self, assignment: &str) {
        match assignment.strip_prefix("default=") {
            Some("${next_entry}" | "$next_entry") => self.honours_next = true,
            Some(value) => self.default = Some(value.to_owned()),
            None => {}
        }
    }

    /// Which entry boots next with this environment block (`normal_mode` reads it first).
    #[must_use]
    pub fn next(&self, variables: &[(String, String)]) -> NextEntry {
        let once = env::value(variables, "next_entry").filter(|_| self.honours_next);
        let (path, why) = match (once, self.default.as_deref()) {
            (Some(once), _) => (once, NextReason::ForOneBoot { setting: "next_entry of grubenv" }),
            (None, Some("${saved_entry}" | "$saved_entry")) => match saved_entry(variables) {
                Some(saved) => (saved, NextReason::configured("saved_entry of grubenv")),
                None => return self.first(NextReason::NothingSaved),
            },
            (None, None | Some("")) => return self.first(NextReason::FirstEntry),
            (None, Some(default)) => {
                (default, NextReason::Configured { setting: format!("GRUB_DEFAULT={default}") })
            }
        };
        let absent = || NextReason::NotInMenu { setting: why.to_string(), entry: path.to_owned() };
        match self.find(path, None) {
            Some(FoundEntry::Named(entry)) => NextEntry { entry: Some(entry), why },
            Some(FoundEntry::FirstOfSubmenu(entry)) => {
                NextEntry { entry: Some(entry), why: absent() }
            }
            None => self.first(absent()),
        }
    }

    /// The first entry, which boots for this reason.
    fn first(&self, why: NextReason) -> NextEntry {
        NextEntry { entry: self.child(None, 0).map(|index| self.innermost(index)), why }
    }

    /// The entry with this number, id or title, or at this path of them (`1>2`)
    /// (get_entry_number(), grub-core/normal/menu.c, 2.12). The rest of a path that leads to an
    /// entry does not matter: only a submenu reads it (grub_menu_execute_entry(), same file).
    /// In a submenu without the rest of the path, GRUB boots the first entry (run_menu()).
    fn find(&self, path: &str, menu: Option<usize>) -> Option<FoundEntry> {
        let (part, rest) = split_path(path);
        let index = match leading_number(&part) {
            Some(number) => self.child(menu, number),
            None => self.entries.iter().position(|entry| {
                entry.parent == menu && (entry.title == part || entry.id.as_ref() == Some(&part))
            }),
        }?;
        match rest.filter(|_| self.entries.get(index).is_some_and(|it| it.is_submenu)) {
            Some(rest) => {
                let first = FoundEntry::FirstOfSubmenu(self.innermost(index));
                Some(self.find(rest, Some(index)).unwrap_or(first))
            }
            None => Some(FoundEntry::Named(self.innermost(index))),
        }
    }

    /// Whether the default entry is a number other than 0: entries that are added in front of it
    /// would make it another entry.
    #[must_use]
    pub fn counts_entries(&self, variables: &[(String, String)]) -> bool {
        let path = match self.default.as_deref() {
            Some("${saved_entry}" | "$saved_entry") => saved_entry(variables),
            default => default,
        };
        path.is_some_and(|path| leading_number(&split_path(path).0).is_some_and(|it| it > 0))
    }

    fn child(&self, menu: Option<usize>, number: usize) -> Option<usize> {
        self.entries.iter().position(|entry| entry.parent == menu && entry.number == number)
    }

    /// The first entry of a submenu, at any depth.
    fn innermost(&self, index: usize) -> usize {
        match self.entries.get(index) {
            Some(entry) if entry.is_submenu => {
                self.child(Some(index), 0).map_or(index, |inner| self.innermost(inner))
            }
            _ => index,
        }
    }
}

/// The entry that `GRUB_DEFAULT=saved` boots.
fn saved_entry(variables: &[(String, String)]) -> Option<&str> {
    env::value(variables, "prev_saved_entry").or_else(|| env::value(variables, "saved_entry"))
}

fn quote_spaces(word: &str) -> String {
    if word.contains(' ') { format!("\"{word}\"") } else { word.to_owned() }
}

/// The number at the start of a text, as `grub_strtoul()` reads it: what follows does not matter.
fn leading_number(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.get(..digits)?.parse().ok()
}

/// Splits a path at its first `>`; `>>` is a literal `>`.
fn split_path(path: &str) -> (String, Option<&str>) {
    let mut part = String::new();
    let mut chars = path.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c != '>' {
            part.push(c);
        } else if chars.next_if(|(_, next)| *next == '>').is_some() {
            part.push('>');
        } else {
            return (part, path.get(at + 1..));
        }
    }
    (part, None)
}

/// One command of the script.
struct GrubCommand {
    words: Vec<String>,
    line: usize,
    /// Whether a curly bracket opens after it.
    opens: bool,
}

/// Iterates over the commands of a script.
struct GrubCommands<'a> {
    chars: Peekable<Chars<'a>>,
    line: usize,
    failed: bool,
}

impl<'a> GrubCommands<'a> {
    fn new(text: &'a str) -> GrubCommands<'a> {
        GrubCommands { chars: text.chars().peekable(), line: 1, failed: false }
    }

    fn take(&mut self) -> Option<char> {
        let c = self.chars.next();
        self.line += usize::from(c == Some('\n'));
        c
    }

    /// Reads the rest of a quoted part by GRUB's rules: nothing is special in single quotes, and
    /// `\` escapes `$`, `"` and `\` in double quotes.
    fn read_quoted(&mut self, quote: char, word: &mut String) -> Result<(), MenuError> {
        let line = self.line;
        loop {
            match self.take() {
                None => return Err(MenuError { line, what: "a quote is never closed" }),
                Some(c) if c == quote => return Ok(()),
                Some('\\') if quote == '"' => {
                    let next = self.chars.peek().copied();
                    if !matches!(next, Some('$' | '"' | '\\')) {
                        word.push('\\');
                    }
                    word.extend(self.take());
                }
                Some(c) => word.push(c),
            }
        }
    }

    fn read_command(&mut self) -> Option<Result<GrubCommand, MenuError>> {
        let (mut words, mut word) = (Vec::new(), None::<String>);
        let mut line = self.line;
        loop {
            let c = self.take();
            let ends = matches!(c, None | Some('\n' | ';'));
            let bare = word.is_none();
            match c {
                Some('#') if bare => {
                    while self.chars.peek().is_some_and(|c| *c != '\n') {
                        self.take();
                    }
                }
                // Only a word that is just a bracket opens a block: `${prefix}` does not.
                Some('{') if bare && !words.is_empty() => {
                    return Some(Ok(GrubCommand { words, line, opens: true }));
                }
                Some('}') if bare && words.is_empty() => {
                    return Some(Ok(GrubCommand {
                        words: vec!["}".to_owned()],
                        line,
                        opens: false,
                    }));
                }
                Some(quote @ ('\'' | '"')) => {
                    if let Err(error) = self.read_quoted(quote, word.get_or_insert_default()) {
                        return Some(Err(error));
                    }
                }
                Some('\\') => word.get_or_insert_default().extend(self.take()),
                None | Some('\n' | ';' | ' ' | '\t' | '\r') => words.extend(word.take()),
                Some(c) => word.get_or_insert_default().push(c),
            }
            if ends && !words.is_empty() {
                return Some(Ok(GrubCommand { words, line, opens: false }));
            }
            c?;
            if words.is_empty() && word.is_none() {
                line = self.line;
            }
        }
    }
}

impl Iterator for GrubCommands<'_> {
    type Item = Result<GrubCommand, MenuError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let command = self.read_command();
        self.failed = matches!(command, Some(Err(_)));
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Shortened from the output of grub-mkconfig 2.06, Debian 12.
    const CFG: &str = r#"#
### BEGIN /etc/grub.d/00_header ###
if [ -s $prefix/grubenv ]; then
  set have_grubenv=true
  load_env
fi
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="${saved_entry}"
fi
function savedefault {
  if [ -z "${boot_once}" ]; then
    saved_entry="${chosen}"
  fi
}
### BEGIN /etc/grub.d/10_linux ###
menuentry 'Debian' --class debian --class os $menuentry_id_option 'gnulinux-simple-ab' {
	load_video
	if [ x$grub_platform = xxen ]; then insmod xzio; insmod lzopio; fi
	echo	'Loading Linux 6.1.0-9 ... it'\''s { fine'
	linux	/boot/vmlinuz-6.1.0-9-amd64 root=UUID=ab ro  quiet dyndbg="file a.c +p"
	initrd	/boot/initrd.img-6.1.0-9-amd64
}
submenu 'Advanced options' $menuentry_id_option 'gnulinux-advanced-ab' {
	menuentry 'Debian, with Linux 6.1.0-9-rt-amd64' --id rt {
		linux	/boot/vmlinuz-6.1.0-9-rt-amd64 root=UUID=ab ro
	}
	menuentry "two $words" { linux16 /vmlinuz-6.1.0-9-amd64 single; }
}
"#;

    fn env(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    #[test]
    fn entries_submenus_kernels_and_their_arguments_are_read() {
        let menu = parse(CFG).unwrap();
        let seen: Vec<_> = menu
            .entries
            .iter()
            .map(|e| (e.title.as_str(), e.id.as_deref(), e.parent, e.number, e.version()))
            .collect();
        assert_eq!(
            seen,
            [
                ("Debian", Some("gnulinux-simple-ab"), None, 0, Some("6.1.0-9-amd64")),
                ("Advanced options", Some("gnulinux-advanced-ab"), None, 1, None),
                (
                    "Debian, with Linux 6.1.0-9-rt-amd64",
                    Some("rt"),
                    Some(1),
                    0,
                    Some("6.1.0-9-rt-amd64")
                ),
                ("two $words", None, Some(1), 1, Some("6.1.0-9-amd64")),
            ]
        );
        assert_eq!(menu.entries[0].args, "root=UUID=ab ro quiet \"dyndbg=file a.c +p\"");
        assert_eq!(menu.entries[0].line, 21);
        assert_eq!(menu.entries[0].ramdisks, ["/boot/initrd.img-6.1.0-9-amd64"]);
        assert_eq!(menu.entries[2].ramdisks, [""; 0]);
        assert_eq!((menu.default.as_deref(), menu.honours_next), (Some("${saved_entry}"), true));
    }

    #[test]
    fn the_next_entry_is_the_one_that_grub_boots() {
        let menu = parse(CFG).unwrap();
        let next = |pairs: &[(&str, &str)]| {
            let next = menu.next(&env(pairs));
            (next.entry.unwrap(), matches!(next.why, NextReason::NotInMenu { .. }))
        };
        assert_eq!(next(&[]), (0, false));
        assert_eq!(next(&[("saved_entry", "1>0")]), (2, false));
        assert_eq!(next(&[("saved_entry", "1\r")]), (2, false));
        assert_eq!(next(&[("saved_entry", "gnulinux-advanced-ab>rt")]), (2, false));
        assert_eq!(next(&[("saved_entry", "Advanced options")]), (2, false));
        assert_eq!(next(&[("saved_entry", "1>1"), ("next_entry", "0")]), (0, false));
        // Only a submenu reads the rest of a path.
        assert_eq!(next(&[("saved_entry", "0>2")]), (0, false));
        assert_eq!(next(&[("saved_entry", "gnulinux-simple-ab>x")]), (0, false));
        // The trap: when the saved entry is gone, the first entry is the default.
        assert_eq!(next(&[("saved_entry", "rt")]), (0, true));
        // GRUB has opened the submenu by then, and boots the first entry of that.
        assert_eq!(next(&[("saved_entry", "gnulinux-advanced-ab>gone")]), (2, true));
        assert_eq!(next(&[("saved_entry", "1>7")]), (2, true));
    }

    #[test]
    fn a_default_that_is_a_number_counts_the_entries_in_front_of_it() {
        let menu = parse(CFG).unwrap();
        let fixed = |default: &str| GrubMenu { default: Some(default.to_owned()), ..menu.clone() };
        let saved = env(&[("saved_entry", "2")]);
        for (default, counts) in [
            ("1>2", true),
            ("2", true),
            ("${saved_entry}", true),
            ("0", false),
            ("gnulinux-advanced-ab>1", false),
            ("", false),
        ] {
            assert_eq!(fixed(default).counts_entries(&saved), counts, "{default}");
        }
        assert!(!menu.counts_entries(&[]));
        // One boot does not count.
        assert!(!menu.counts_entries(&env(&[("saved_entry", "rt"), ("next_entry", "1")])));
    }

    #[test]
    fn an_unclosed_quote_or_bracket_is_reported_with_its_line() {
        assert_eq!(parse("a\nmenuentry 'x' {\n linux /v\n").unwrap_err().line, 2);
        assert_eq!(parse("a\n\nset x='y\n\n").unwrap_err().line, 3);
        assert_eq!(parse("}\n").unwrap_err().line, 1);
        assert_eq!(parse("").unwrap(), GrubMenu::default());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[a-z{}'\"\\\\;# \n>]{0,60}|.*", asked in "[0-9a>]*") {
            if let Ok(menu) = parse(&text) {
                let _ = menu.next(&env(&[("saved_entry", &asked)]));
                let _ = menu.find(&asked, None);
            }
        }
    }
}
