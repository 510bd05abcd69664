//! Finds the release of a kernel whose file name does not show it: from the banner in its bytes,
//! what its package installed, or because only one kernel is installed. Also reads the
//! configuration of an installed kernel.

use cpushield_linux::Host;
use cpushield_linux::text::kernel_version::KernelVersion;
use cpushield_linux::text::{kconfig, kernel_image};
use std::collections::BTreeMap;

/// Directories with one directory of modules for each installed kernel.
const MODULES: [&str; 2] = ["/usr/lib/modules", "/lib/modules"];

/// Where a file named by an entry at `place` may be. Loaders name files relative to the root of a
/// file system that is mounted somewhere above the entry.
pub(super) fn candidate_paths(place: &str, name: &str) -> Vec<String> {
    let mut dir = place;
    let path = name.strip_prefix("($root)").unwrap_or(name).trim_start_matches('/');
    let mut paths = Vec::new();
    while let Some((above, _)) = dir.rsplit_once('/') {
        paths.push(format!("{above}/{path}"));
        dir = above;
    }
    paths
}

/// The banner of the first file that can be read.
pub(super) fn read_banner(host: &Host, paths: &[String]) -> Option<String> {
    let bytes = paths.iter().find_map(|path| host.read_bytes(path).ok())?;
    kernel_image::banner(&bytes)
}

/// The release in the banner of the first file that can be read.
pub(super) fn read_release(host: &Host, paths: &[String]) -> Option<String> {
    Some(kernel_image::release(&read_banner(host, paths)?)?.to_owned())
}

/// The options of an installed kernel, as its package installed them, under the first of these
/// names that has any; empty when there are none.
pub(super) fn read_config(host: &Host, names: &[&str]) -> BTreeMap<String, String> {
    let paths = names.iter().flat_map(|name| {
        [format!("/boot/config-{name}"), format!("/usr/lib/modules/{name}/config")]
    });
    let text = paths.into_iter().find_map(|path| host.read(&path).ok());
    text.and_then(|text| kconfig::parse(&text).ok()).unwrap_or_default()
}

/// The release of the kernel that an entry at `place` loads, where the name of its file is that of
/// any kernel, as `Image`.
pub(super) fn find_release(host: &Host, place: &str, kernel: &str) -> Option<String> {
    read_release(host, &candidate_paths(place, kernel)).or_else(|| only_installed(host, |_| true))
}

/// The release that the package of this name installed, by a file of that package: `pkgbase` of
/// Arch (PKGBUILD of its package linux), `kernel.release` of Alpine (APKBUILD of its package
/// linux-lts).
pub(super) fn packaged_release(host: &Host, name: &str) -> Option<String> {
    let alpine = host.read_line(&format!("/usr/share/kernel/{name}/kernel.release"));
    let has_name = |release: &str| {
        let bases = MODULES.map(|dir| host.read_line(&format!("{dir}/{release}/pkgbase")));
        bases.into_iter().flatten().any(|base| base == name)
    };
    alpine.ok().or_else(|| only_installed(host, has_name))
}

/// The release of the only kernel that passes, among those whose modules are installed.
pub(super) fn only_installed(host: &Host, passes: impl Fn(&str) -> bool) -> Option<String> {
    let names = MODULES.iter().flat_map(|dir| host.list(dir).unwrap_or_default());
    let mut names: Vec<String> =
        names.filter(|it| KernelVersion::from_release(it).is_some() && passes(it)).collect();
    names.sort();
    names.dedup();
    names.pop().filter(|_| names.is_empty())
}
