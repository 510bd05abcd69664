//! `menu.lst` of GRUB 0.97, which the user edits: its kernels, and the steps. Only reads.

use super::boot_loader::{EntryFiles, FoundLoader, LoaderEntry};
use super::entry_purpose::find_purpose;
use super::kernel_release::add_releases;
use super::sources::{CmdlineSource, MENU_LST, MENU_LST_NAME};
use crate::boot::grub::menu::version_of;
use crate::boot::line;
use crate::boot::planned_lines::words_of;
use crate::documents::boot::{NextReason, WantedParameter};
use cpushield_linux::Host;

/// The file with the number of the entry for `default saved`, on its first line.
const SAVED: &str = "/boot/grub/default";

/// The kernels for normal work in the `menu.lst` of this machine; `None` when it has none, or the
/// user has to configure another loader.
pub fn find_menu_lst(host: &Host) -> Option<FoundLoader> {
    let is_used = CmdlineSource::find(host)?.name == MENU_LST_NAME;
    let mut files = MENU_LST.iter().filter(|_| is_used);
    let (path, text) = files.find_map(|path| Some((path, host.read(path).ok()?)))?;
    let mut found = FoundLoader::default();
    let (mut title, mut titles, mut default) = ("", 0, 0);
    for (line, text) in (1..).zip(text.lines()) {
        let (key, rest) = split(text, &[' ', '\t', '=']);
        match key {
            "default" => {
                found.why = NextReason::configured(text.trim());
                let saved = host.read(SAVED).unwrap_or_default();
                let number = if rest == "saved" { saved.lines().next() } else { Some(rest) };
                default = number.and_then(|it| it.trim().parse().ok()).unwrap_or(0);
            }
            "title" => (title, titles) = (rest, titles + 1),
            "kernel" | "module" => {
                let Some((kernel, args)) = split_kernel(key, rest) else { continue };
                if find_purpose(&[title, kernel], args).is_some() {
                    continue;
                }
                if titles == default + 1 {
                    found.next.get_or_insert(found.entries.len());
                }
                let base = kernel.rsplit('/').next().unwrap_or(kernel);
                found.entries.push(LoaderEntry {
                    version: version_of(kernel).unwrap_or(base).to_owned(),
                    // The line up to the arguments.
                    title: text.trim().strip_suffix(args).unwrap_or_default().to_owned(),
                    args: args.to_owned(),
                    files: Some(EntryFiles { kernel: kernel.to_owned(), ramdisks: Vec::new() }),
                    place: format!("{path}:{line}"),
                    ..LoaderEntry::default()
                });
            }
            _ => {}
        }
    }
    add_releases(host, &mut found.entries);
    (!found.entries.is_empty()).then_some(found)
}

/// The first word, and the rest.
fn split<'a>(text: &'a str, at: &[char]) -> (&'a str, &'a str) {
    let (word, rest) = text.trim().split_once(at).unwrap_or((text.trim(), ""));
    (word, rest.trim_start())
}

/// The file of a kernel, and its arguments. A hypervisor is none: its kernel is a module.
fn split_kernel<'a>(key: &str, mut rest: &'a str) -> Option<(&'a str, &'a str)> {
    while rest.starts_with("--") {
        rest = split(rest, &[' ', '\t']).1;
    }
    let (kernel, args) = split(rest, &[' ', '\t']);
    let is_kernel = match key {
        "kernel" => !kernel.rsplit('/').next()?.starts_with("xen"),
        _ => version_of(kernel).is_some(),
    };
    (is_kernel && !kernel.is_empty()).then_some((kernel, args))
}

/// The steps that add the parameters to the lines of these kernels. `last` is the last possible
/// CPU.
pub fn menu_lst_steps(
    found: &FoundLoader,
    kernels: &[&str],
    parameters: &[WantedParameter],
    last: Option<usize>,
) -> Vec<String> {
    let mut steps = vec![format!("this machine has {MENU_LST_NAME}:")];
    for entry in found.entries.iter().filter(|it| kernels.contains(&it.version.as_str())) {
        let own = words_of(parameters, &entry.version);
        let kept = line::without_contradicting(&entry.args, &own, last);
        let new = line::with_missing(&kept, &own);
        let text = match own.as_slice() {
            [] => "unchanged: this kernel supports none of the parameters".to_owned(),
            _ if new == entry.args => "unchanged: it already has the parameters".to_owned(),
            _ => format!("{} {new}", entry.title.trim_end()),
        };
        steps.push(format!("{}: {text}", entry.place));
    }
    steps
}
