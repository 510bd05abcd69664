//! Finds kernel parameters that other programs, or an administrator, have set in the files from
//! which boot entries and images are made, and compares them with the entries that exist and with
//! the running kernel. This program writes none of these files. Only reads.

use super::assigned_words::{self, AssignedWord, WordFate};
use super::line;
use super::loaders::{self, CmdlineSource, LoaderEntry, SOURCES, SourceFile, SourceFormat};
use super::parameters::PARAMETERS;
use crate::documents::boot::{ForeignWord, WordRemoval, WordState};
use cpushield_linux::Host;
use cpushield_linux::text::cmdline;

/// Written by the plugin `bootloader` of tuned (tuned/plugins/plugin_bootloader.py, 2.x).
const TUNED: &str = "/etc/tuned/bootcmdline";
const TUNED_VARIABLE: &str = "TUNED_BOOT_CMDLINE";
/// Its words in an entry of GRUB (00_tuned of tuned, 2.x).
const TUNED_IN_GRUB: &str = "$tuned_params";
/// It changes the entries of the Boot Loader Specification, each of which has its own words.
const GRUBBY: &str = "grubby";

/// The words of [`PARAMETERS`] in these files, and others with one of the names, in the order of
/// the files. Words on one line that share their state are together.
pub(super) fn find(host: &Host, named: &[&str]) -> Vec<ForeignWord> {
    let boots = Boots::read(host);
    let mut read: Vec<&[&str]> = Vec::new();
    let mut found: Vec<ForeignWord> = Vec::new();
    for file in SOURCES.iter().flat_map(|source| source.files) {
        if read.contains(&file.paths) {
            continue;
        }
        read.push(file.paths);
        for assigned in words_of(host, file) {
            let state = boots.state(host, Some(file), &assigned);
            let removal = boots.removal(host, Some(file), &state, &assigned.word);
            add(&mut found, named, assigned, (state, removal));
        }
    }
    let text = host.read(TUNED).unwrap_or_default();
    for assigned in assigned_words::evaluate(&[(TUNED.to_owned(), text)], TUNED_VARIABLE) {
        let state = boots.state(host, None, &assigned);
        let removal = boots.removal(host, None, &state, &assigned.word);
        add(&mut found, named, assigned, (state, removal));
    }
    found
}

/// Adds a word that is known, or whose name only running a command would show.
fn add(
    found: &mut Vec<ForeignWord>,
    named: &[&str],
    assigned: AssignedWord,
    (state, removal): (WordState, Option<WordRemoval>),
) {
    let AssignedWord { variable, word, place: (path, line), .. } = assigned;
    let is_hidden = matches!(state, WordState::Unknown { .. }) && word.contains(['$', '`', ' ']);
    if !is_hidden && !is_known(&word, named) {
        return;
    }
    let variable = Some(variable).filter(|it| !it.is_empty());
    let words = vec![word];
    let new = ForeignWord { words, path, line, variable, state, removal };
    match found.last_mut() {
        Some(last) if ForeignWord { words: last.words.clone(), ..new.clone() } == *last => {
            last.words.extend(new.words);
        }
        _ => found.push(new),
    }
}

/// Whether a word is one of [`PARAMETERS`], or has one of the names.
fn is_known(word: &str, named: &[&str]) -> bool {
    let is_same = |name: &str| cmdline::same_name(name, line::name_of(word));
    PARAMETERS.iter().any(|it| is_same(it.keyword)) || named.iter().any(|name| is_same(name))
}

/// The words of a kind of file. A line in it has no variable.
fn words_of(host: &Host, file: &SourceFile) -> Vec<AssignedWord> {
    let files = file.read(host);
    let key = match file.format {
        SourceFormat::Variables { prefix, .. } => {
            let (read, unread): (Vec<_>, Vec<_>) =
                files.into_iter().partition(|(path, _)| file.is_read(host, path));
            let mut found = assigned_words::evaluate(&read, prefix);
            found.extend(unread.into_iter().flat_map(|it| assigned_words::evaluate(&[it], prefix)));
            return found;
        }
        SourceFormat::Key(key) => key,
        SourceFormat::Line => "",
    };
    let mut found = Vec::new();
    for (path, text) in &files {
        for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.starts_with('#')) {
            let value = if key.is_empty() { Some(line) } else { line.strip_prefix(key) };
            let value = value.map(|it| it.trim_start().trim_start_matches('='));
            for param in cmdline::parse(value.unwrap_or_default()) {
                found.push(AssignedWord {
                    variable: key.to_owned(),
                    word: line::to_word(&param),
                    place: (path.clone(), number),
                    fate: WordFate::Kept,
                });
            }
        }
    }
    found
}

/// The command that makes the entries, or that adds or removes a word in each of them.
fn command_for(host: &Host, source: &CmdlineSource, verb: &str, word: &str) -> String {
    match source.name == GRUBBY {
        true => format!("grubby --update-kernel=ALL --{verb}={word}"),
        false => source.command(host),
    }
}

/// What boots on this machine.
struct Boots {
    /// What makes its boot entries; `None` when unknown.
    source: Option<&'static CmdlineSource>,
    /// The entry that boots next, or else those for normal work; empty when they are not read.
    entries: Vec<LoaderEntry>,
    /// The command line of the running kernel.
    running: String,
}

impl Boots {
    fn read(host: &Host) -> Boots {
        let menu = loaders::read_menu(host).ok().flatten();
        let found = menu.map(|(_, found)| found).unwrap_or_default();
        let is_normal = |it: &&LoaderEntry| it.purpose.is_none() && !it.ours;
        let next = found.next_entry().filter(is_normal).cloned();
        let normal = found.entries.iter().filter(is_normal).cloned();
        let entries = next.map_or_else(|| normal.collect(), |next| vec![next]);
        Boots {
            source: CmdlineSource::find(host),
            entries,
            running: host.read_line("/proc/cmdline").unwrap_or_default(),
        }
    }

    /// Whether the next boot has a word. `None` stands for a file that no source has.
    fn state(&self, host: &Host, file: Option<&SourceFile>, word: &AssignedWord) -> WordState {
        if let WordFate::Replaced((path, line)) = &word.fate {
            let (path, variable) = (path.clone(), word.variable.clone());
            return WordState::Replaced { path, line: *line, variable };
        }
        let reads = |source: &&CmdlineSource| {
            file.is_none_or(|file| source.files.iter().any(|it| it.paths == file.paths))
        };
        match (self.source, file) {
            (Some(source), Some(file)) if !reads(&source) || !file.is_read(host, &word.place.0) => {
                return WordState::NotRead { reader: source.name.to_owned() };
            }
            _ => {}
        }
        if word.variable.ends_with("_RECOVERY") || word.variable.contains("_XEN") {
            return WordState::OtherEntries;
        }
        let command = self.source.map(|it| command_for(host, it, "args", &word.word));
        let booted = line::has(&self.running, &word.word);
        // The variable of tuned has its words, and GRUB reads it while the machine boots.
        let has_it = self.entries.iter().all(|it| {
            line::has(&it.args, &word.word) || file.is_none() && it.args.contains(TUNED_IN_GRUB)
        });
        let are_read = !self.entries.is_empty();
        match &word.fate {
            // A word that the entries have is there, whatever would have to be run.
            _ if has_it && booted => WordState::InForce,
            WordFate::Unknown((path, line)) if !are_read || !has_it => {
                WordState::Unknown { path: path.clone(), line: *line }
            }
            _ if !are_read => WordState::NotBooted { command },
            _ if has_it => WordState::NextBoot,
            _ => WordState::NotInEntries { command: command.unwrap_or_default() },
        }
    }

    /// How a word is removed; `None` where nothing has it.
    fn removal(
        &self,
        host: &Host,
        file: Option<&SourceFile>,
        state: &WordState,
        word: &str,
    ) -> Option<WordRemoval> {
        if !matches!(state, WordState::InForce | WordState::NextBoot) {
            return None;
        }
        let Some(file) = file else { return Some(WordRemoval::TunedProfile) };
        let source = self.source.filter(|it| it.files.iter().any(|it| it.paths == file.paths));
        let command = |source| command_for(host, source, "remove-args", word);
        Some(match source {
            Some(source) if source.name == GRUBBY => {
                WordRemoval::Entries { command: command(source) }
            }
            Some(source) => WordRemoval::Generator { command: command(source) },
            None => WordRemoval::NewEntries,
        })
    }
}
