//! The kernels of a `menu.lst` of GRUB 0.97, which the user edits. Only reads.

use super::boot_loader::{EntryFiles, LoaderEntry};
use super::entry_purpose::find_purpose;
use super::kernel_release::add_releases;
use super::sources::{CmdlineSource, MENU_LST, MENU_LST_NAME};
use crate::boot::grub::menu::version_of;
use cpushield_linux::Host;

/// A line of a menu that the user edits by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedKernel {
    /// Its number, from 1.
    pub line: usize,
    /// Its text, without white space around it.
    pub text: String,
    /// The kernel that it loads, with its command line.
    pub entry: LoaderEntry,
}

/// The kernels for normal work in the `menu.lst` of this machine, and its path; `None` when the
/// user has to configure another loader, or none is found.
#[must_use]
pub fn listed_kernels(host: &Host) -> Option<(&'static str, Vec<ListedKernel>)> {
    if CmdlineSource::find(host)?.name != MENU_LST_NAME {
        return None;
    }
    let (path, text) = MENU_LST.iter().find_map(|path| Some((*path, host.read(path).ok()?)))?;
    let mut title = "";
    let mut kernels = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        let (key, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let (kernel, args) = rest.trim_start().split_once(' ').unwrap_or((rest, ""));
        match key {
            "title" => title = text,
            "kernel" if find_purpose(&[title, kernel], args).is_none() => {
                let entry = LoaderEntry {
                    version: version_of(kernel).unwrap_or_default().to_owned(),
                    title: rest.to_owned(),
                    args: args.to_owned(),
                    files: Some(EntryFiles { kernel: kernel.to_owned(), ramdisks: Vec::new() }),
                    place: format!("{path}:{line}"),
                    ..LoaderEntry::default()
                };
                kernels.push(ListedKernel { line, text: text.to_owned(), entry });
            }
            _ => {}
        }
    }
    for kernel in &mut kernels {
        add_releases(host, std::slice::from_mut(&mut kernel.entry));
    }
    Some((path, kernels))
}
