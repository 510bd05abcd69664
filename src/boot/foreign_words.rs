//! Finds kernel parameters that other programs, or an administrator, have set: in GRUB's defaults
//! and in the file of tuned. This program writes neither of them. Only reads.

use super::document::{ForeignWord, WordRemoval};
use super::line;
use super::loaders::locate_grub;
use super::parameters::PARAMETERS;
use cpushield_linux::Host;
use cpushield_linux::text::cmdline;

/// `grub-mkconfig` reads it (util/grub-mkconfig.in of GRUB, 2.12), and on Debian and Ubuntu
/// `/etc/default/grub.d/*.cfg` after it.
const GRUB: &str = "/etc/default/grub";
const GRUB_DIR: &str = "/etc/default/grub.d";
/// Written by the plugin `bootloader` of tuned (tuned/plugins/plugin_bootloader.py, 2.x).
const TUNED: &str = "/etc/tuned/bootcmdline";
/// Entries of the Boot Loader Specification, which have their own command line.
const ENTRIES: &str = "/boot/loader/entries";

/// The words of [`PARAMETERS`] in these files, in the order of the files.
pub(super) fn find(host: &Host) -> Vec<ForeignWord> {
    let mut found = Vec::new();
    if let Some((dir, program)) = locate_grub(host) {
        let mut names = host.list(GRUB_DIR).unwrap_or_default();
        names.retain(|name| name.ends_with(".cfg"));
        names.sort();
        let parts = names.into_iter().map(|name| format!("{GRUB_DIR}/{name}"));
        let has_entries = program == "grub2-mkconfig" && host.exists(ENTRIES);
        for path in [GRUB.to_owned()].into_iter().chain(parts) {
            let text = host.read(&path).unwrap_or_default();
            found.extend(words(&path, &text, "GRUB_CMDLINE_LINUX", |word| match has_entries {
                true => WordRemoval::Entries {
                    command: format!("grubby --update-kernel=ALL --remove-args={word}"),
                },
                false => WordRemoval::Generator { command: format!("{program} -o {dir}/grub.cfg") },
            }));
        }
    }
    let text = host.read(TUNED).unwrap_or_default();
    found.extend(words(TUNED, &text, "TUNED_BOOT_CMDLINE", |_| WordRemoval::TunedProfile));
    found
}

/// The words that assignments to variables with this prefix have.
fn words(
    path: &str,
    text: &str,
    prefix: &str,
    removal: impl Fn(&str) -> WordRemoval,
) -> Vec<ForeignWord> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let assigned = line.strip_prefix("export ").unwrap_or(line).split_once('=');
        let Some((variable, value)) = assigned.filter(|(name, _)| name.starts_with(prefix)) else {
            continue;
        };
        for param in cmdline::parse(unquoted(value)) {
            if PARAMETERS.iter().any(|it| cmdline::same_name(it.keyword, &param.name)) {
                let word = line::to_word(&param);
                let removal = removal(&word);
                let (path, variable) = (path.to_owned(), variable.trim_end_matches('+').to_owned());
                found.push(ForeignWord { word, path, line: index + 1, variable, removal });
            }
        }
    }
    found
}

/// The text in the quotes of a shell assignment, or all of it without quotes.
fn unquoted(value: &str) -> &str {
    let value = value.trim();
    let quote = value.chars().next().filter(|quote| ['"', '\''].contains(quote));
    match quote.and_then(|quote| value[1..].split_once(quote)) {
        Some((inner, _)) => inner,
        None => value,
    }
}
