//! `menu.lst` of GRUB 0.97, which the user edits: its kernels, and the steps. Only reads.

use super::boot_loader::{EntryFiles, FoundLoader, LoaderEntry};
use super::entry_purpose::find_purpose;
use super::kernel_release::add_releases;
use super::sources::{CmdlineSource, MENU_LST, MENU_LST_NAME};
use crate::boot::grub::menu::version_of;
use crate::boot::line;
use crate::documents::boot::WantedParameter;
use cpushield_linux::Host;

/// The kernels for normal work in the `menu.lst` of this machine; `None` when it has none, or the
/// user has to configure another loader.
#[must_use]
pub fn find_menu_lst(host: &Host) -> Option<FoundLoader> {
    let is_used = CmdlineSource::find(host)?.name == MENU_LST_NAME;
    let mut files = MENU_LST.iter().filter(|_| is_used);
    let (path, text) = files.find_map(|path| Some((path, host.read(path).ok()?)))?;
    let mut found = FoundLoader::default();
    let (mut title, mut titles, mut default) = ("", 0, 0);
    for (line, text) in (1..).zip(text.lines()) {
        let (key, rest) = text.trim().split_once([' ', '\t', '=']).unwrap_or((text.trim(), ""));
        let (kernel, args) = rest.trim_start().split_once(' ').unwrap_or((rest, ""));
        match key {
            "default" => default = rest.trim().parse().unwrap_or(0),
            "title" => (title, titles) = (rest, titles + 1),
            "kernel" if find_purpose(&[title, kernel], args).is_none() => {
                if titles == default + 1 {
                    found.next = Some(found.entries.len());
                }
                let base = kernel.rsplit('/').next().unwrap_or(kernel);
                found.entries.push(LoaderEntry {
                    version: version_of(kernel).unwrap_or(base).to_owned(),
                    title: title.to_owned(),
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

/// The steps that add the parameters to the lines of these kernels.
#[must_use]
pub fn menu_lst_steps(
    found: &FoundLoader,
    kernels: &[&str],
    parameters: &[WantedParameter],
) -> Vec<String> {
    let mut steps = vec![format!("this machine has {MENU_LST_NAME}:")];
    for entry in found.entries.iter().filter(|it| kernels.contains(&it.version.as_str())) {
        let own = parameters.iter().filter(|it| it.is_for(&entry.version)).map(|it| &it.word);
        let own: Vec<&str> = own.map(String::as_str).collect();
        let mut missing = own.clone();
        missing.retain(|word| !line::has(&entry.args, word));
        let kernel = entry.files.as_ref().map_or("", |files| &files.kernel);
        let now = format!("kernel {kernel} {}", entry.args);
        let text = match (own.as_slice(), missing.as_slice()) {
            ([], _) => "unchanged: this kernel supports none of the parameters".to_owned(),
            (_, []) => "unchanged: it already has the parameters".to_owned(),
            (_, missing) => format!("{} {}", now.trim_end(), missing.join(" ")),
        };
        steps.push(format!("{}: {text}", entry.place));
    }
    steps
}
