//! A file with kernel command lines from which a program makes boot entries or images: how it is
//! read, and the steps for a user who adds words to it. Only reads.

use crate::boot::line;
use cpushield_linux::Host;

/// Files with words, which are read one after the other.
#[derive(Clone, Copy)]
pub(in crate::boot) struct SourceFile {
    /// Their paths; the name may have a `*` in front.
    pub(in crate::boot) paths: &'static [&'static str],
    /// How they have the words.
    pub(in crate::boot) format: SourceFormat,
}

/// How a file has a kernel command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::boot) enum SourceFormat {
    /// As values of shell variables.
    Variables {
        /// What their names begin with.
        prefix: &'static str,
        /// The variable that gets more words.
        variable: &'static str,
        /// Its value where no file sets it.
        default: &'static str,
    },
    /// In lines `KEY=WORDS`, without quotes.
    Key(&'static str),
    /// As its whole text.
    Line,
}

/// Where the default of that file is (kernel-install(8), mkinitcpio(8)).
const DEFAULT_LINE: &str = "/usr/lib/kernel/cmdline";

pub(super) const fn file(paths: &'static [&'static str], format: SourceFormat) -> SourceFile {
    SourceFile { paths, format }
}

pub(super) const fn variable(name: &'static str, default: &'static str) -> SourceFormat {
    SourceFormat::Variables { prefix: name, variable: name, default }
}

impl SourceFile {
    /// Whether the program that reads these files reads the one at this path: of GRUB's programs,
    /// only those of some distributions read the directory.
    pub(in crate::boot) fn is_read(&self, host: &Host, path: &str) -> bool {
        if !path.starts_with("/etc/default/grub.d/") {
            return true;
        }
        let programs = ["grub-mkconfig", "grub2-mkconfig"].iter().filter_map(|it| host.program(it));
        let text = programs.filter_map(|it| host.read(&it).ok()).next().unwrap_or_default();
        !text.contains("/default/grub") || text.contains("/default/grub.d")
    }

    /// The files that exist, in the order in which they are read: path and text.
    pub(in crate::boot) fn read(&self, host: &Host) -> Vec<(String, String)> {
        let mut files = Vec::new();
        for path in self.paths {
            let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
            let mut names = match name.strip_prefix('*') {
                Some(end) => {
                    let mut names = host.list(dir).unwrap_or_default();
                    names.retain(|it| it.ends_with(end));
                    names
                }
                None => vec![name.to_owned()],
            };
            names.sort();
            let paths = names.into_iter().map(|name| format!("{dir}/{name}"));
            files.extend(paths.filter_map(|path| Some((path.clone(), host.read(&path).ok()?))));
        }
        files
    }
}

/// The step that adds words to a file: to the line that has others, or as a new line.
pub(super) fn edit_step(host: &Host, file: &SourceFile, words: &[String]) -> Vec<String> {
    let (files, new) = (file.read(host), words.join(" "));
    let last = file.paths.iter().rev().find(|it| !it.contains('*')).copied().unwrap_or_default();
    let place = |key: &str| {
        let lines = files.iter().flat_map(|(path, text)| {
            text.lines().zip(1..).map(move |(line, number)| (path, line.trim_start(), number))
        });
        let sets = |line: &str| {
            let line = line.strip_prefix("export ").unwrap_or(line);
            line.strip_prefix(key).is_some_and(|it| it.starts_with('=') || it.starts_with("+="))
        };
        lines.filter(|(_, line, _)| sets(line)).last().map(|(path, _, n)| format!("{path}:{n}"))
    };
    let (key, line) = match file.format {
        SourceFormat::Line if files.iter().any(|(_, text)| !text.trim().is_empty()) => {
            return vec![format!("add to the line in {last}: {new}")];
        }
        SourceFormat::Line => {
            let step = format!("there is no {last}: write the whole line into it:");
            return vec![step, format!("    {}", whole_line(host, words))];
        }
        SourceFormat::Key(key) => (key, format!("{key}={new}")),
        SourceFormat::Variables { variable, default: "", .. } => {
            (variable, format!("{variable}=\"{new}\""))
        }
        SourceFormat::Variables { variable, default, .. } => {
            (variable, format!("{variable}=\"{default} {new}\""))
        }
    };
    match place(key) {
        // A package owns that file: a later one is the user's.
        Some(place) if place.starts_with("/usr/") => {
            let dir = file.paths.last().and_then(|it| it.rsplit_once('/')).map_or("", |it| it.0);
            vec![format!("write into {dir}/50-cpushield.conf: {key}=\"${key} {new}\"")]
        }
        Some(place) => vec![format!("in {place}, add to {key}: {new}")],
        None => vec![format!("add this line to {last}: {line}")],
    }
}

/// The whole command line of the next boots: the default one, or else that of the running kernel
/// without what its loader added, with other values for the words.
pub(super) fn whole_line(host: &Host, words: &[String]) -> String {
    let default = host.read_line(DEFAULT_LINE).ok();
    let text = default.or_else(|| host.read_line("/proc/cmdline").ok()).unwrap_or_default();
    let is_kept = |word: &&str| {
        let name = line::name_of(word);
        let is_new = words.iter().any(|new| line::name_of(new) == name);
        !is_new && !["BOOT_IMAGE", "initrd"].contains(&name)
    };
    let kept = text.split_whitespace().filter(is_kept).map(str::to_owned);
    kept.chain(words.iter().cloned()).collect::<Vec<_>>().join(" ")
}

/// The steps for a file with a command line on each line that begins with one of these keys.
pub(super) fn line_steps(
    host: &Host,
    paths: &[&str],
    keys: &[&str],
    words: &[String],
) -> Vec<String> {
    let Some(path) = paths.iter().find(|path| host.exists(path)) else { return Vec::new() };
    let text = host.read(path).unwrap_or_default();
    let mut steps = vec![format!("in {path}, for the kernels that should get the parameters:")];
    for (line, number) in text.lines().zip(1..) {
        if keys.iter().any(|key| line.trim_start().starts_with(key)) {
            steps.push(format!("line {number}: add {} to: {}", words.join(" "), line.trim()));
        }
    }
    steps
}
