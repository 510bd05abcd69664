//! Boot loaders, one file each, and the slice [`LOADERS`]. A loader reads its own menu and plans
//! what to write. It writes no file itself: [`super::write`] does, for all of them, with the
//! journal.

mod bls;
mod boot_loader;
mod cmdline_files;
mod entry_purpose;
mod extlinux;
mod extlinux_adv;
mod grub;
mod grub_environment;
mod image_makers;
mod kernel_install_hook;
mod kernel_release;
mod menu_lst;
mod one_shot_entry;
mod raspberry;
mod source_file;
mod sources;
mod systemd_boot;

pub(super) use entry_purpose::find_word_purpose;

pub use boot_loader::{
    BootFilePlan, BootLoader, EntryFiles, EntryPosition, FileEdit, FoundLoader, InstalledLoader,
    LoaderEntry, LoaderPageRow, MenuGenerator, ParameterAssignment, generator_of,
};
pub(super) use menu_lst::{find_menu_lst, menu_lst_steps};
pub(super) use source_file::{SourceFile, SourceFormat};
pub use sources::manual_steps;
pub(super) use sources::{CmdlineSource, SOURCES};
pub(super) use systemd_boot::is_started_by_systemd_boot;

use super::error::BootError;
use crate::registry::{self, RegistryEntry};
use cmdline_files::CmdlineFileLoader;
use cpushield_linux::Host;

impl RegistryEntry for &'static dyn BootLoader {
    fn key(self) -> &'static str {
        self.name()
    }
}

/// Every loader, the one with the most reliable signs first.
pub const LOADERS: &[&dyn BootLoader] =
    &[&grub::GrubLoader, &bls::BlsLoader, &extlinux::ExtlinuxLoader, &raspberry::RaspberryLoader];

/// The loader of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static dyn BootLoader> {
    registry::find(LOADERS, name)
}

/// How a loader adds words to the lines of existing files; `None`: it adds none there.
pub(super) fn lines_of(loader: &dyn BootLoader) -> Option<&'static CmdlineFileLoader> {
    let all = [&bls::LINES, &extlinux::LINES, &raspberry::LINES];
    all.into_iter().find(|it| it.name == loader.name())
}

/// The loader of this machine with its menu; `None` when the user has to edit its files, because
/// the loader is none of these or the versions of its kernels are unknown.
///
/// # Errors
/// The files of a loader cannot be read or parsed.
pub fn find(host: &Host) -> Result<Option<InstalledLoader>, BootError> {
    if sources::has_owner(host) {
        return Ok(None);
    }
    read_menu(host)
}

/// The loader of this machine with its menu, also where another program makes that menu.
///
/// # Errors
/// The files of a loader cannot be read or parsed.
pub(super) fn read_menu(host: &Host) -> Result<Option<InstalledLoader>, BootError> {
    for loader in LOADERS {
        if let Some(mut found) = loader.find(host)? {
            kernel_release::add_releases(host, &mut found.entries);
            return Ok((!found.entries.is_empty()).then_some((*loader, found)));
        }
    }
    Ok(None)
}
